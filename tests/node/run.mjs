// Runs all tests of the Node binding, or those whose paths are given; ends with `N passed, M failed`.

import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const own = readdirSync(here)
  .filter((name) => name.endsWith(".test.mjs"))
  .sort()
  .map((name) => join(here, name));
const files =
  process.argv.length > 2 ? process.argv.slice(2) : [...own, join(here, "..", "consumers", "node.test.mjs")];

// Most of them wait for servers, so that two files at a time cost each other little.
const words = ["--test", "--test-concurrency=2", "--test-reporter=spec", ...files];
const tests = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "inherit"] });
let tail = "";
tests.stdout.on("data", (data) => {
  process.stdout.write(data);
  tail = (tail + data).slice(-1 << 20);
});
tests.on("exit", (code, signal) => {
  const count = (name) => Number(new RegExp(`^\\S+ ${name} (\\d+)$`, "m").exec(tail)?.[1] ?? 0);
  const passed = count("pass");
  // A test that was skipped has not passed.
  const others = ["fail", "cancelled", "skipped", "todo"].reduce((sum, name) => sum + count(name), 0);
  const failed = others === 0 && (code !== 0 || signal !== null) ? 1 : others;
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
});
