#!/usr/bin/env node
// Starts the program for this machine, hands signals on to it, and ends as it ends.

"use strict";

const { spawn } = require("node:child_process");
const { existsSync } = require("node:fs");
const { constants } = require("node:os");
const { join } = require("node:path");

const program = join(__dirname, `quorlock-${process.platform}-${process.arch}`);
if (!existsSync(program)) {
  console.error(`quorlock: this package has no program for ${process.platform} on ${process.arch}.`);
  console.error("What to do: build it with Rust, by `cargo install quorlock-cli`.");
  process.exit(127);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// What a terminal sends, it sends to both: handed on as well, it would come twice.
const typed = ["SIGINT", "SIGQUIT"];
const handed = ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"];
for (const signal of typed) process.on(signal, () => process.stdin.isTTY || child.kill(signal));
for (const signal of handed) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`quorlock: cannot run ${program}: ${error.message}`);
  process.exit(126);
});
child.on("exit", (code, signal) => {
  process.exit(signal === null ? code : 128 + constants.signals[signal]);
});
