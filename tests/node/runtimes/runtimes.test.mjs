// The package in Bun, in Deno, and in the releases of Node that the machine's own is none of.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import support from "../support.cjs";

const MODULES = join(dirname(fileURLToPath(import.meta.url)), "node_modules");
const RUNTIMES = {
  bun: [join(MODULES, "@oven/bun-linux-x64/bin/bun"), "run"],
  deno: [join(MODULES, "@deno/linux-x64-glibc/deno"), "run", "--allow-all", "--quiet"],
  "node-22": [join(MODULES, "node-22/bin/node")],
  "node-24": [join(MODULES, "node-24/bin/node")],
  "node-26": [join(MODULES, "node-26/bin/node")],
};
let servers, folder, env;

before(async () => {
  servers = await support.stage("3");
  folder = mkdtempSync(join(tmpdir(), "quorlock-runtimes-"));
  writeFileSync(join(folder, "worker.cjs"), WORKER);
  env = {
    ...process.env,
    QUORLOCK_NODES: servers.nodes,
    QUORLOCK_MAIN: support.MAIN,
    QUORLOCK_WORKER: join(folder, "worker.cjs"),
    DENO_DIR: join(folder, "deno"),
    // An end that waits for no answer would leave its locks.
    LD_PRELOAD: support.lateSends(folder),
  };
});
after(async () => {
  await servers.stop();
  rmSync(folder, { recursive: true });
});

/** Runs a program; resolves to its end and what it printed. `then`: what is done when it has printed a line, before its stdin ends. */
function run([command, ...words], text, then = () => {}) {
  const file = join(folder, "program.cjs");
  writeFileSync(file, text);
  const child = spawn(command, [...words, file], { env, stdio: ["pipe", "pipe", "pipe"] });
  const said = { out: "", err: "" };
  child.stderr.on("data", (data) => (said.err += data));
  return new Promise((resolve, reject) => {
    child.stdout.on("data", (data) => {
      said.out += data;
      if (said.out.endsWith("\n")) Promise.resolve(then()).then(() => child.stdin.end(), reject);
    });
    const timer = setTimeout(() => child.kill("SIGKILL"), 60_000);
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      resolve({ code: code ?? signal, ...said });
    });
  });
}

const LOADED = `
  const { Client } = require(process.env.QUORLOCK_MAIN);
  const client = new Client({ ttl: 60_000, wait: null });
  // A warning of a busy machine is nothing to be printed.
  client.on("log", () => {});
`;
const HELD = `${LOADED}
  const held = client.lock("left").acquire().then((lease) => (globalThis.lease = lease));
`;

const ENDS = {
  "a program that ends by itself": ["held.then((lease) => console.log(lease.isHeld()));", 0, "true\n"],
  "process.exit": ["held.then(() => process.exit(3));", 3, ""],
  "process.exit right after a release": ["held.then((lease) => { void lease.release(); process.exit(3); });", 3, ""],
  "an uncaught error": ['held.then(() => setTimeout(() => { throw new Error("mine"); }));', 1, ""],
};

/** Holds a lock, waits for it, and with an odd number is busy besides, until it is terminated. */
const WORKER = `
  const { parentPort, workerData } = require("node:worker_threads");
  const { Client } = require(process.env.QUORLOCK_MAIN);
  const client = new Client({ ttl: 60_000 }).on("log", () => {});
  client.lock("worker:" + workerData).acquire().then(async (lease) => {
    globalThis.lease = lease;
    client.lock("worker:" + workerData).acquire({ wait: null }).catch(() => {});
    parentPort.postMessage("holds");
    while (workerData % 2 === 1) await (await client.lock("busy:" + workerData).acquire()).release();
  });
`;

const STARTED = `
  const { Worker } = require("node:worker_threads");
  const start = (i) => new Promise((resolve, reject) => {
    const worker = new Worker(process.env.QUORLOCK_WORKER, { workerData: i });
    worker.once("message", () => resolve(worker)).once("error", reject);
  });
`;

for (const [name, command] of Object.entries(RUNTIMES)) {
  for (const [end, [text, status, said]] of Object.entries(ENDS)) {
    test(`${name}: ${end} releases what is held`, async () => {
      const { code, out, err } = await run(command, HELD + text);
      assert.deepEqual([code, out], [status, said], err);
      if (status !== 1) assert.equal(err, "");
      await servers.awaitNoKeys();
    });
  }

  test(`${name}: a wait holds the process, and hears of the release and of the loss`, async () => {
    const { code, out, err } = await run(
      command,
      `${HELD} (async () => {
        const lease = await held;
        setTimeout(() => lease.release(), 50);
        const next = await client.lock("left").acquire();
        client.once("lost", ({ name, reason }) => console.log(name, reason, next.signal.aborted, next.isHeld()));
        void next.signal;
        await client.close();
        await client.lock("left").acquire().catch((error) => console.log(error.code, error.stack.includes("program.cjs")));
      })();`,
    );
    assert.deepEqual([code, out, err], [0, "left closed true false\nERR_QUORLOCK_CLOSED true\n", ""]);
    await servers.awaitNoKeys();
  });

  test(`${name}: a worker that is terminated leaves neither lock nor connection`, async () => {
    const { code, out, err } = await run(
      command,
      `${LOADED} ${STARTED} (async () => {
        for (let i = 0; i < 4; i++) {
          const worker = await start(i);
          await worker.terminate();
          // Its ttl is a minute.
          await (await client.lock("worker:" + i).acquire({ wait: 20_000 })).release();
        }
        await client.close();
        console.log("free");
        process.stdin.resume().on("end", () => process.exit());
      })();`,
      // Only the stage's own connection is left.
      () => support.until(async () => (await servers.tell("redis", "1", "CLIENT", "LIST")).trim().split("\n").length <= 2),
    );
    assert.deepEqual([code, out, err], [0, "free\n", ""]);
    await servers.awaitNoKeys();
  });

  test(`${name}: a process that exits releases what its workers hold`, async () => {
    const { code, out, err } = await run(command, `${LOADED} ${STARTED} start(0).then(() => process.exit(4));`);
    assert.deepEqual([code, out, err], [4, "", ""]);
    await servers.awaitNoKeys();
  });
}

test("deno: where the native part may not be loaded, the error names the flag", async () => {
  const text = "try { require(process.env.QUORLOCK_MAIN); } catch (error) { console.log(error.message); }";
  const [deno, ...words] = RUNTIMES.deno;
  const { out } = await run([deno, ...words.filter((word) => word !== "--allow-all"), "--no-prompt", "--allow-read", "--allow-env"], text);
  assert.match(out, /^The package quorlock has a native part .* may not load: start it with --allow-ffi\.\n$/);
});

test("node-26: a single executable has the native part beside it", async () => {
  const place = join(folder, "single");
  mkdirSync(place);
  const text = `const { Client } = require(${JSON.stringify(support.MAIN)});
    new Client("memory://single").lock("a").acquire().then((lease) => lease.release()).then(console.log);`;
  writeFileSync(join(place, "program.cjs"), text);
  const config = { main: join(place, "bundle.cjs"), output: join(place, "single"), disableExperimentalSEAWarning: true };
  writeFileSync(join(place, "sea.json"), JSON.stringify(config));
  const readme = readFileSync(join(support.PACKAGE, "README.md"), "utf8");
  // As it stands there, for the `require` of a single executable knows Node's own modules alone.
  const [, banner] = /`(--banner:js=[^`]*createRequire[^`]*)`/.exec(readme);
  const bundler = join(support.ROOT, "tests", "node", "node_modules", "esbuild", "bin", "esbuild");
  const options = ["--bundle", "--platform=node", "--log-level=warning", "--loader:.node=copy", banner, `--outfile=${config.main}`];
  const does = promisify(execFile);
  await does(bundler, [join(place, "program.cjs"), ...options]);
  await does(RUNTIMES["node-26"][0], ["--build-sea", join(place, "sea.json")]);
  assert.equal((await does(config.output)).stdout, "true\n");
});

// What servers and options do is the core's, and the same in each of them.
const OTHERS = ["option", "guard", "sentinel", "cluster", "tls", "redisson", "names", "set-"].flatMap((word) => ["-x", word]);
const BASIC = ["-k", "basic"];
const SCENARIOS = { bun: OTHERS, deno: OTHERS, "node-22": BASIC, "node-24": BASIC, "node-26": BASIC };
for (const [name, options] of Object.entries(SCENARIOS)) {
  test(`${name}: the scenarios`, async () => {
    const drive = join(support.ROOT, "tests", "scenarios", "drive.py");
    const words = [drive, "-j", "4", ...options, "--runner", "node-esm", ...RUNTIMES[name], join(support.ROOT, "tests", "node", "scenario.mjs")];
    const out = await new Promise((resolve) => {
      execFile("python3", words, { env: { ...process.env, DENO_DIR: env.DENO_DIR } }, (_error, out) => resolve(out));
    });
    const [, passed, failed] = /^(\d+) passed, (\d+) failed$/m.exec(out) ?? [];
    assert.equal(failed, "0", out);
    assert.ok(Number(passed) >= (options === BASIC ? 5 : 95), out);
  });
}
