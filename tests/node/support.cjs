// What the tests share: real servers, and what is on them.

"use strict";

const { spawn, execFile, execFileSync } = require("node:child_process");
const { writeFileSync } = require("node:fs");
const { join } = require("node:path");
const { createInterface } = require("node:readline");
const { promisify } = require("node:util");

const ROOT = join(__dirname, "..", "..");
const PACKAGE = join(ROOT, "node");
const MAIN = join(PACKAGE, "dist", "index.js");

/** A stage of servers; `stop` ends it, and ends with this process anyhow. */
async function stage(...words) {
  const server = spawn("python3", [join(ROOT, "tests", "stage", "stage.py"), "serve", ...words], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const found = {};
  for await (const line of createInterface({ input: server.stdout })) {
    if (line === "ready") break;
    const at = line.indexOf("=");
    found[line.slice(0, at)] = line.slice(at + 1);
  }
  if (found.QUORLOCK_NODES === undefined) throw new Error("the stage did not start");
  // Not it, but a test that is stuck, is to keep the process alive.
  server.unref();
  server.stdin.unref();
  server.stdout.destroy();
  return {
    nodes: found.QUORLOCK_NODES,
    /** Tells the stage a command; rejects if it does not hold. */
    async tell(...told) {
      const done = await promisify(execFile)("sh", ["-c", `${found.QUORLOCK_STAGE} ${told.join(" ")}`]);
      return done.stdout;
    },
    /** Waits until no lock is on any node; records and counters stay. */
    async awaitNoKeys(milliseconds = 5000) {
      await this.tell("await-no-locks", milliseconds);
    },
    async stop() {
      const gone = new Promise((resolve) => server.once("exit", resolve));
      server.ref();
      server.stdin.end();
      await gone;
    },
  };
}

/** Runs a script in a process of its own; resolves to its end and what it printed. `heard` is told what it has printed. */
function script(text, { nodes, type = "commonjs", seconds = 30, flags = [], env = {}, heard = () => {} }) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [`--input-type=${type}`, ...flags, "-e", text], {
      cwd: ROOT,
      env: { ...process.env, QUORLOCK_NODES: nodes, QUORLOCK_MAIN: MAIN, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let out = "";
    let err = "";
    child.stdout.on("data", (data) => {
      out += data;
      heard(out);
    });
    child.stderr.on("data", (data) => (err += data));
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      reject(new Error(`no end after ${seconds} s: ${out}${err}`));
    }, seconds * 1000);
    child.on("exit", (code, signal) => {
      clearTimeout(timer);
      resolve({ code, signal, out, err });
    });
  });
}

/** A library that makes each `send` of a process late, as on a machine with other work. */
function lateSends(folder) {
  const [source, library] = [join(folder, "late.c"), join(folder, "late.so")];
  writeFileSync(
    source,
    `#include <sys/socket.h>
    #include <unistd.h>
    ssize_t send(int fd, const void *bytes, size_t count, int flags) {
      usleep(5000);
      return sendto(fd, bytes, count, flags, 0, 0);
    }`,
  );
  execFileSync("cc", ["-shared", "-fPIC", "-o", library, source]);
  return library;
}

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Waits until it is so. */
async function until(look, milliseconds = 5000) {
  const end = Date.now() + milliseconds;
  while (!(await look())) {
    if (Date.now() > end) throw new Error("it did not come to be so");
    await sleep(5);
  }
}

/** Any rejection that nobody handles fails the tests of the file. */
function noUnhandled() {
  const seen = [];
  process.on("unhandledRejection", (reason) => seen.push(reason));
  return seen;
}

module.exports = { MAIN, PACKAGE, ROOT, lateSends, noUnhandled, script, sleep, stage, until };
