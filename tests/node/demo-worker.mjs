// A worker of the demo, in Node: demo-worker.mjs NODES LEDGER LOG SECONDS on|off (tests/demo/README.md says what it does).

import { openSync, readSync, writeSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

import { Client } from "../../node/dist/index.mjs";

const PAUSE_MS = 1;
const TURN_MS = 4;

/** `CLOCK_MONOTONIC`. */
const now = () => process.hrtime.bigint();

/** What the lock is for: between the read and the write nobody else may write. */
async function addOne(ledger) {
  const bytes = Buffer.alloc(20);
  readSync(ledger, bytes, 0, 20, 0);
  await pause(PAUSE_MS);
  const balance = BigInt(bytes.toString().trim()) + 1n;
  writeSync(ledger, `${balance.toString().padStart(19, "0")}\n`, 0);
}

const [nodes, ledgerPath, logPath, seconds, lockWord] = process.argv.slice(2);
const ledger = openSync(ledgerPath, "r+");
const log = openSync(logPath, "a", 0o600);
const end = now() + BigInt(Math.round(Number(seconds) * 1e9));
const client = lockWord === "on" ? new Client(nodes) : null;
const lock = client?.lock("demo:ledger");
try {
  while (now() < end) {
    const asked = now();
    const lease = await lock?.acquire();
    const entered = now();
    const fence = lease === undefined ? "" : ` ${lease.fence}`;
    writeSync(log, `enter ${entered} ${entered - asked}${fence}\n`);
    await addOne(ledger);
    writeSync(log, `exit ${now()}\n`);
    if (lease !== undefined && !(await lease.release())) {
      console.error("a lease was lost before its release");
      process.exitCode = 1;
    }
    await pause(Math.random() * TURN_MS);
  }
} finally {
  await client?.close();
}
