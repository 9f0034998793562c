// The packed tarball, installed in a clean folder and used from outside the tree.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import support from "../node/support.cjs";
import { calls } from "../options/calls.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const CONTENT = "consumer is content\n";
let servers, folder, installed;

const MODULES = join(support.PACKAGE, "node_modules");
const OTHERS = join(HERE, "..", "node", "node_modules");
const TSC = join(MODULES, ".bin", "tsc");
const OLD_TSC = join(OTHERS, "typescript-5", "bin", "tsc");

/** Types of what the package's own name. */
function installTypes() {
  for (const name of ["@types/node", "undici-types", "@opentelemetry/api"]) {
    mkdirSync(dirname(join(folder, "node_modules", name)), { recursive: true });
    cpSync(join(MODULES, name), join(folder, "node_modules", name), { recursive: true });
  }
}

/** Runs a command in the clean folder. */
async function run(command, ...words) {
  const env = { ...process.env, QUORLOCK_NODES: servers.nodes };
  // npm's own settings of the run that started this one.
  for (const name of Object.keys(env)) if (/^npm_/i.test(name)) delete env[name];
  return await promisify(execFile)(command, words, { cwd: folder, env });
}

before(async () => {
  servers = await support.stage("3");
  folder = mkdtempSync(join(tmpdir(), "quorlock-consumer-"));
  installed = join(folder, "node_modules", "quorlock");
  await run("npm", "pack", "--silent", "--pack-destination", folder, support.PACKAGE);
  const [tarball] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  writeFileSync(join(folder, "package.json"), '{ "name": "consumer", "private": true }\n');
  await run("npm", "install", "--offline", "--no-audit", "--no-fund", join(folder, tarball));
  cpSync(join(HERE, "node"), folder, { recursive: true });
});
after(async () => {
  await servers.awaitNoKeys();
  await servers.stop();
  rmSync(folder, { recursive: true });
});

test("the tarball holds what it needs and nothing else", () => {
  const all = readdirSync(installed, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(installed.length + 1))
    .sort();
  assert.ok(all.some((name) => /^prebuilds\/[\w-]+\/quorlock\.node$/.test(name)));
  for (const name of ["dist/index.js", "dist/index.mjs", "dist/index.d.ts", "dist/index.d.mts", "package.json"]) {
    assert.ok(all.includes(name), name);
  }
  const others = all.filter((name) => !/^(dist\/|prebuilds\/|package\.json$|README|LICENSE)/.test(name));
  assert.deepEqual(others, []);
  const { scripts, dependencies } = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  assert.equal(dependencies, undefined);
  for (const hook of ["preinstall", "install", "postinstall"]) assert.equal(scripts?.[hook], undefined, hook);
});

test("require", async () => {
  assert.equal((await run(process.execPath, "consumer.cjs")).stdout, CONTENT);
});

test("import", async () => {
  assert.equal((await run(process.execPath, "consumer.mjs")).stdout, CONTENT);
});

test("TypeScript, strict, nodenext, as an ES module and as CommonJS, with `await using` down-levelled", async () => {
  installTypes();
  renameSync(join(folder, "typed.ts"), join(folder, "typed.mts"));
  cpSync(join(folder, "typed.mts"), join(folder, "typed.cts"));
  try {
    await run(TSC, "-p", ".");
  } catch (error) {
    assert.fail(error.stdout);
  }
  for (const name of ["typed.mjs", "typed.cjs"]) {
    assert.equal((await run(process.execPath, join("out", name))).stdout, CONTENT, name);
    assert.doesNotMatch(readFileSync(join(folder, "out", name), "utf8"), /await using/);
  }
});

test("TypeScript refuses each option that is misspelt, of a wrong type or word, or where it may not stand, and takes the others", async () => {
  installTypes();
  const lines = [
    'import { Client, once, redlock, semaphore } from "quorlock";',
    "declare const client: Client;",
    "declare const names: string | readonly string[];",
    "// Like a `Temporal.Duration`.",
    "declare const duration: { readonly hours: number; total(unit: string): number };",
  ];
  const kinds = {};
  for (const { kind, code } of calls()) {
    kinds[kind] = (kinds[kind] ?? 0) + 1;
    lines.push(...(kind === "right" ? [] : [`// @ts-expect-error: it is ${kind}.`]), `void (() => ${code});`);
  }
  lines.push("void [Client, once, redlock, semaphore, client, names, duration];");
  assert.ok(kinds.misspelt > 100 && kinds.wrong > 100 && kinds.misplaced > 100, JSON.stringify(kinds));
  writeFileSync(join(folder, "options.mts"), `${lines.join("\n")}\n`);
  const { compilerOptions } = JSON.parse(readFileSync(join(folder, "tsconfig.json"), "utf8"));
  // What a program of its own has may be less strict in what is not of `strict`.
  for (const own of [compilerOptions, { ...compilerOptions, exactOptionalPropertyTypes: false, skipLibCheck: true }]) {
    const settings = { compilerOptions: { ...own, noEmit: true }, files: ["options.mts"] };
    writeFileSync(join(folder, "options.json"), JSON.stringify(settings));
    for (const compiler of [TSC, OLD_TSC]) {
      await run(compiler, "-p", "options.json").catch((error) => assert.fail(error.stdout.slice(0, 5000)));
    }
  }
});

test("TypeScript that is told nothing of types has no errors in ours, in each resolution", async () => {
  installTypes();
  const sets = [
    [TSC, { module: "nodenext" }],
    [TSC, { module: "preserve" }],
    [TSC, { module: "commonjs", moduleResolution: "bundler" }],
    // TypeScript 7 knows node10 no more.
    [OLD_TSC, { module: "commonjs", moduleResolution: "node10" }],
  ];
  for (const [compiler, options] of sets) {
    const compilerOptions = { strict: true, noEmit: true, target: "es2020", ...options };
    writeFileSync(join(folder, "plain.json"), JSON.stringify({ compilerOptions, files: ["plain.ts"] }));
    const compiles = run(compiler, "-p", "plain.json");
    await compiles.catch((error) => assert.fail(`${JSON.stringify(options)}: ${error.stdout}`));
  }
});

test("only the face of the package can be reached", async () => {
  await assert.rejects(
    run(process.execPath, "-e", 'require("quorlock/dist/binding.js")'),
    /ERR_PACKAGE_PATH_NOT_EXPORTED/,
  );
  await run(process.execPath, "-e", 'require("quorlock/package.json")');
});

test("where the native part is missing or broken, the error names the package and what to do", async () => {
  const prebuilds = join(installed, "prebuilds");
  renameSync(prebuilds, `${prebuilds}.away`);
  const missing = await run(process.execPath, "-e", 'require("quorlock")').then(assert.fail, (error) => error.stderr);
  for (const part of [
    /ERR_QUORLOCK_NATIVE/,
    /The package quorlock 0\.\d+\.\d+ has no native part/,
    /npm install/,
    /quorlock\.node: there is no such file/,
    /It has: none/,
  ]) {
    assert.match(missing, part);
  }
  const name = readdirSync(`${prebuilds}.away`)[0];
  mkdirSync(join(prebuilds, name), { recursive: true });
  writeFileSync(join(prebuilds, name, "quorlock.node"), "no library");
  const broken = await run(process.execPath, "--input-type=module", "-e", 'import "quorlock"').then(
    assert.fail,
    (error) => error.stderr,
  );
  assert.match(broken, /quorlock\.node: .*(file too short|invalid ELF header|not a mach-o|slice is not valid)/i);
  assert.match(broken, new RegExp(`It has: ${name}`));
  rmSync(prebuilds, { recursive: true });
  renameSync(`${prebuilds}.away`, prebuilds);
  assert.ok(existsSync(join(prebuilds, name)));
});

test("a bundler that copies takes the native part along; a bundle without it says so, and leaves the application's files alone", async () => {
  const esbuild = join(OTHERS, "esbuild", "bin", "esbuild");
  writeFileSync(
    join(folder, "application.cjs"),
    'const { Client } = require("quorlock");\n' +
      'new Client("memory://bundle").lock("a").acquire().then((lease) => lease.release()).then(console.log);\n',
  );
  // An ES module has neither `require` nor `__dirname`; the former is what everybody adds first.
  const require = 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);';
  const ways = { cjs: [], mjs: ["--format=esm", `--banner:js=${require}`] };
  for (const [extension, options] of Object.entries(ways)) {
    const bundle = join(folder, `bundle-${extension}`);
    const file = join(bundle, `application.${extension}`);
    const words = ["application.cjs", "--bundle", "--platform=node", "--log-level=warning", `--outfile=${file}`];
    await assert.rejects(run(esbuild, ...words, ...options), /No loader is configured for "\.node" files/);
    await run(esbuild, ...words, ...options, "--loader:.node=copy");
    // The package is not where the bundle runs.
    renameSync(installed, `${installed}.away`);
    assert.equal((await run(process.execPath, file)).stdout, "true\n", extension);
    const [native] = readdirSync(bundle).filter((name) => name.endsWith(".node"));
    rmSync(join(bundle, native));
    const told = await run(process.execPath, file).then(assert.fail, (error) => error.stderr);
    renameSync(`${installed}.away`, installed);
    for (const part of [/ERR_QUORLOCK_NATIVE/, /quorlock is part of a bundle/, /--external:quorlock/, /serverExternalPackages/]) {
      assert.match(told, part, extension);
    }
    assert.doesNotMatch(told, /undefined|no native part/, extension);
    // The other thing that it says to do helps.
    await run(esbuild, ...words, ...options, "--external:quorlock");
    assert.equal((await run(process.execPath, file)).stdout, "true\n", extension);
  }
});

test("a tracer takes the native part along", async () => {
  const { nodeFileTrace } = createRequire(import.meta.url)(join(OTHERS, "@vercel", "nft"));
  const { fileList } = await nodeFileTrace([join(folder, "application.cjs")], { base: folder });
  const traced = join(folder, "traced");
  for (const file of fileList) cpSync(join(folder, file), join(traced, file), { recursive: true });
  renameSync(installed, `${installed}.away`);
  const ends = run(process.execPath, join(traced, "application.cjs"));
  const { stdout } = await ends.finally(() => renameSync(`${installed}.away`, installed));
  assert.equal(stdout, "true\n");
});

test("where Node may not load it, the error names the flag", async () => {
  // Node 20 has it under another name.
  const permission = process.allowedNodeEnvironmentFlags.has("--permission") ? "--permission" : "--experimental-permission";
  for (const flags of [[permission, "--allow-fs-read=*"], ["--no-addons"]]) {
    const loads = run(process.execPath, ...flags, "-e", 'require("quorlock")');
    const told = await loads.then(assert.fail, (error) => error.stderr);
    assert.match(told, /ERR_QUORLOCK_NATIVE/);
    assert.match(told, /may not load: start it with --allow-addons beside --permission, and without --no-addons\.\n/);
    assert.doesNotMatch(told, /another kind of machine/);
  }
});

test("the native part of each platform is named by a literal `require`", () => {
  const loader = readFileSync(join(installed, "dist", "loader.js"), "utf8");
  const named = [...loader.matchAll(/require\("\.\.\/prebuilds\/([\w-]+)\/quorlock\.node"\)/g)].map(([, name]) => name);
  const recipe = readFileSync(join(support.ROOT, ".ci", "dist", "build.py"), "utf8");
  const released = [...recipe.matchAll(/"(linux-\w+-\w+)"/g)].map(([, name]) => name);
  assert.ok(released.length >= 4);
  for (const name of [...released, "darwin-x64", "darwin-arm64", ...readdirSync(join(installed, "prebuilds"))]) {
    assert.ok(named.includes(name), name);
  }
});

test("it loads without its types", async () => {
  const types = readdirSync(join(installed, "dist")).filter((name) => /\.d\.m?ts$/.test(name));
  const away = join(folder, "types");
  mkdirSync(away);
  for (const name of types) renameSync(join(installed, "dist", name), join(away, name));
  try {
    await run(process.execPath, "-e", 'require("quorlock")');
  } finally {
    for (const name of types) renameSync(join(away, name), join(installed, "dist", name));
  }
});

test("a Node that is too old is told so in one sentence", async () => {
  for (const version of ["18.20.8", "20.3.1", "20.4.0", "26.0.0"]) {
    const claim = `Object.defineProperty(process.versions, "node", { value: "${version}" });`;
    const loads = run(process.execPath, "-e", `${claim} require("quorlock")`);
    const told = await loads.then(() => "", (error) => error.stderr);
    const sentence = `Error: The package quorlock needs Node 20.4 or newer, and this is Node ${version}: use a newer Node.`;
    assert.equal(told.includes(`${sentence}\n`), /^(18|20\.3)/.test(version), told);
  }
});

test("each subpath has its types also for a resolution that knows no `exports`, which TypeScript calls node10", () => {
  const { exports, typesVersions } = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  const subpaths = Object.keys(exports).filter((path) => exports[path].require?.types !== undefined && path !== ".");
  assert.ok(subpaths.length >= 2);
  for (const path of subpaths) {
    assert.deepEqual(typesVersions["*"][path.slice(2)], [exports[path].require.types]);
    assert.ok(existsSync(join(installed, exports[path].require.types)), path);
  }
});
