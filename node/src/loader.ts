/** Finds the native part for this platform. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const PACKAGE = join(__dirname, "..");

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

export function load(): unknown {
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
  const error = new Error(
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
  throw Object.assign(error, { code: "ERR_QUORLOCK_NATIVE" });
}
