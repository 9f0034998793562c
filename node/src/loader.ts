/** Finds the native part for this platform. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Where this file is; nowhere, if it has become part of an ES module. */
const HERE = typeof __dirname === "string" ? __dirname : undefined;
const PACKAGE = join(HERE ?? "", "..");

/** The places where it may be, best first. Only the loader can tell which C library is in use. */
function candidates(): string[] {
  const here = `${process.platform}-${process.arch}`;
  return process.platform === "linux" ? [`${here}-gnu`, `${here}-musl`] : [here];
}

/**
 * Loads the native part of a platform. Each `require` has a literal path, for that is what tracers and bundlers find and copy
 * (`@vercel/nft`, esbuild, webpack), and stands in a `try`, where they take it for optional: a package has those platforms
 * alone that it was built for.
 */
function native(name: string): unknown {
  try {
    switch (name) {
      case "linux-x64-gnu":
        return require("../prebuilds/linux-x64-gnu/quorlock.node");
      case "linux-x64-musl":
        return require("../prebuilds/linux-x64-musl/quorlock.node");
      case "linux-arm64-gnu":
        return require("../prebuilds/linux-arm64-gnu/quorlock.node");
      case "linux-arm64-musl":
        return require("../prebuilds/linux-arm64-musl/quorlock.node");
      case "darwin-x64":
        return require("../prebuilds/darwin-x64/quorlock.node");
      case "darwin-arm64":
        return require("../prebuilds/darwin-arm64/quorlock.node");
      case "win32-x64":
        return require("../prebuilds/win32-x64/quorlock.node");
    }
  } catch (error) {
    return failed(error);
  }
  // Built from its sources for another platform.
  try {
    return require(fileOf(name));
  } catch (error) {
    return failed(error);
  }
}

class Failed {
  constructor(
    readonly why: string,
    /** What the runtime has to be started with. */
    readonly flag?: string,
  ) {}
}

function failed(error: unknown): Failed {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  const missing = code === "MODULE_NOT_FOUND";
  const why = missing ? "there is no such file" : error instanceof Error ? error.message : String(error);
  if (code === "ERR_DLOPEN_DISABLED") return new Failed(why, "--allow-addons beside --permission, and without --no-addons");
  // Deno's.
  return name === "NotCapable" ? new Failed(why, "--allow-ffi") : new Failed(why);
}

const fileOf = (name: string) => join(PACKAGE, "prebuilds", name, "quorlock.node");

function prebuilt(): string {
  try {
    return readdirSync(join(PACKAGE, "prebuilds")).sort().join(", ") || "none";
  } catch {
    return "none";
  }
}

function version(): string {
  const { version } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")) as { version: string };
  return version;
}

/**
 * Whether this file is where it was installed. A bundler puts it somewhere else, and what is around it there is the
 * application's. Asked only where the native part is missing.
 */
function isInstalled(): boolean {
  try {
    const text = HERE === undefined ? "{}" : readFileSync(join(PACKAGE, "package.json"), "utf8");
    return (JSON.parse(text) as { name?: unknown }).name === "quorlock";
  } catch {
    return false;
  }
}

function fail(message: string): never {
  throw Object.assign(new Error(message), { code: "ERR_QUORLOCK_NATIVE" });
}

/** Says in one sentence what would else be some function that is missing, somewhere. */
function checkRuntime(): void {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > 20 || (major === 20 && minor >= 4)) return;
  fail(`The package quorlock needs Node 20.4 or newer, and this is Node ${process.versions.node}: use a newer Node.`);
}

export function load(): unknown {
  checkRuntime();
  const failures: string[] = [];
  for (const name of candidates()) {
    const loaded = native(name);
    if (!(loaded instanceof Failed)) return loaded;
    if (loaded.flag !== undefined) {
      fail(`The package quorlock has a native part (an addon), which this process may not load: start it with ${loaded.flag}.`);
    }
    failures.push(`${fileOf(name)}: ${loaded.why}`);
  }
  if (!isInstalled()) {
    fail(
      [
        `The package quorlock is part of a bundle here${HERE === undefined ? "" : ` (in ${HERE})`}, and its native part is not.`,
        "\nWhat to do: leave the package out of the bundle, and have it installed where the bundle runs; or have the bundler copy",
        "files that end in `.node`.",
        "\n  esbuild:       --external:quorlock, or --loader:.node=copy",
        '\n  webpack:       externals: { quorlock: "commonjs quorlock" }',
        '\n  Rollup, Vite:  external: ["quorlock"] (for Vite, below ssr)',
        '\n  Next.js:       serverExternalPackages: ["quorlock"]',
      ].join(" "),
    );
  }
  fail(
    [
      `The package quorlock ${version()} has no native part that works here`,
      `(${process.platform} ${process.arch}, Node ${process.version}).`,
      `\nIt tried:\n  ${failures.join("\n  ")}`,
      `\nIt has: ${prebuilt()}.`,
      "\nWhat to do: if node_modules was copied from another kind of machine, install on this one",
      "(`rm -rf node_modules/quorlock && npm install`). If your platform is not listed, build the package from its",
      "sources with Rust: `npm ci && npm run build && npm pack` in its folder `node`, and install the tarball.",
    ].join(" "),
  );
}
