/** Finds the native part for this platform. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Where this file is; nowhere, if it has become part of an ES module. */
const HERE = typeof __dirname === "string" ? __dirname : undefined;
const PACKAGE = join(HERE ?? "", "..");

/** The places where it may be, best first. Only the loader can tell which C library is in use. */
function candidates(): string[] {
  const here = `${process.platform}-${process.arch}`;
  return process.platform === "linux" ? [`${here}-gnu`, `${here}-musl`] : [here];
}

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
 * application's: neither its `package.json` nor its folders tell anything of this package.
 */
function isInstalled(): boolean {
  return HERE !== undefined && existsSync(join(HERE, "loader.d.ts"));
}

function fail(message: string): never {
  throw Object.assign(new Error(message), { code: "ERR_QUORLOCK_NATIVE" });
}

export function load(): unknown {
  if (!isInstalled()) {
    fail(
      [
        `The package quorlock is part of a bundle here${HERE === undefined ? "" : ` (in ${HERE})`}. It has a native part, which`,
        "a bundler leaves behind.",
        "\nWhat to do: leave the package out of the bundle, and have it installed where the bundle runs.",
        "\n  esbuild:       --external:quorlock",
        '\n  webpack:       externals: { quorlock: "commonjs quorlock" }',
        '\n  Rollup, Vite:  external: ["quorlock"] (for Vite, below ssr)',
        '\n  Next.js:       serverExternalPackages: ["quorlock"]',
      ].join(" "),
    );
  }
  const failures: string[] = [];
  for (const name of candidates()) {
    const path = join(PACKAGE, "prebuilds", name, "quorlock.node");
    if (!existsSync(path)) {
      failures.push(`${path}: there is no such file`);
      continue;
    }
    try {
      return require(path);
    } catch (error) {
      failures.push(`${path}: ${error instanceof Error ? error.message : String(error)}`);
    }
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
