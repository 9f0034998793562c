// Builds the native part and puts it where the loader of this platform looks: prebuilds/<platform>/quorlock.node.

import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const home = dirname(dirname(fileURLToPath(import.meta.url)));

// Cargo tells where the library is: that depends on the target folder and the platform.
const built = spawnSync(
  "cargo",
  ["packages", "--profile", process.env.PROFILE || "release", "--message-format=json-render-diagnostics"],
  { cwd: home, stdio: ["ignore", "pipe", "inherit"], encoding: "utf8", maxBuffer: 1 << 28 },
);
if (built.error) throw built.error;
if (built.status !== 0) process.exit(built.status ?? 1);

const library = built.stdout
  .split("\n")
  .filter((line) => line.startsWith("{"))
  .map((line) => JSON.parse(line))
  .filter((message) => message.reason === "compiler-artifact" && message.target.name === "quorlock_node")
  .flatMap((message) => message.filenames)
  .find((name) => /\.(so|dylib|dll)$/.test(name));
if (library === undefined) throw new Error("cargo built no library");

const glibc = () => process.report.getReport().header.glibcVersionRuntime !== undefined;
const kind = process.platform === "linux" ? (glibc() ? "-gnu" : "-musl") : "";
const folder = join(home, "prebuilds", `${process.platform}-${process.arch}${kind}`);
mkdirSync(folder, { recursive: true });
// Not over the old file: a process that has it mapped would crash.
const file = join(folder, "quorlock.node");
copyFileSync(library, `${file}.new`);
renameSync(`${file}.new`, file);
console.log(`built prebuilds/${process.platform}-${process.arch}${kind}/quorlock.node`);
