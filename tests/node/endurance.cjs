// Cycles of a lock in Node, as many as it is told: see tests/endurance.py.
//
//     node --expose-gc endurance.cjs cycles|faked|workers NAMES

"use strict";

const { readSync } = require("node:fs");
const { join } = require("node:path");
const { Worker, isMainThread, workerData } = require("node:worker_threads");

const ROOT = join(__dirname, "..", "..");
const TASKS = 16;
const WORKER_CYCLES = 20;
const AT_ONCE = 4;
const LEAK = Boolean(process.env.QUORLOCK_LEAK);

const kept = [];
let cycles = 0;

async function cycle(client, names) {
  const lease = await client.lock(`endures:${cycles++ % names}`).acquire();
  await lease.release();
  if (LEAK) kept.push(lease);
}

async function abreast(tasks, count, act) {
  let left = count;
  const task = async () => {
    while (left-- > 0) await act();
  };
  await Promise.all(Array.from({ length: tasks }, task));
}

function work(names) {
  const worker = new Worker(__filename, { workerData: { names } });
  return new Promise((resolve, reject) => {
    worker.once("error", reject);
    worker.once("exit", (code) => (code === 0 ? resolve() : reject(new Error(`a worker ended with ${code}`))));
  });
}

async function main(kind, names) {
  // Before the package is loaded, as a test's set-up does.
  if (kind === "faked") require("./node_modules/sinon").useFakeTimers();
  const { Client } = require(join(ROOT, "node", "dist", "index.js"));
  const client = new Client();
  const line = Buffer.alloc(64);
  for (let length; (length = readSync(0, line)) > 0; ) {
    const count = Number(line.toString("utf8", 0, length));
    if (kind === "workers") {
      await abreast(AT_ONCE, count, async () => {
        await work(names);
        if (LEAK) kept.push(Buffer.alloc(1 << 20, 1));
      });
    } else {
      await abreast(TASKS, count, () => cycle(client, names));
    }
    globalThis.gc();
    const { heapUsed, external } = process.memoryUsage();
    process.stdout.write(`done ${Math.round((heapUsed + external) / 1024)}\n`);
  }
  await client.close();
}

async function inWorker() {
  const { Client } = require(join(ROOT, "node", "dist", "index.js"));
  const client = new Client();
  for (let i = 0; i < WORKER_CYCLES; i++) await cycle(client, workerData.names);
  // Half of them leave without a word.
  if (Math.random() < 0.5) await client.close();
}

if (isMainThread) {
  main(process.argv[2], Number(process.argv[3]));
} else {
  inWorker();
}
