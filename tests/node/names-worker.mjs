// A worker of the proof of several locks at once, in Node, as tests/names/README.md says:
// names-worker.mjs NODES HISTORY WORKER NAMES END WAIT together|unsorted.

import { openSync, writeSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

import { Client, QuorlockError } from "../../node/dist/index.mjs";

const HOLD_MS = 8;
const REST_MS = 4;

const [nodes, historyPath, worker, names, endWord, waitWord, how] = process.argv.slice(2);
const history = openSync(historyPath, "a");
const end = BigInt(endWord);
const wait = Number(waitWord);

/** `CLOCK_MONOTONIC`. */
const now = () => process.hrtime.bigint();
const write = (kind, ...words) => writeSync(history, `${[kind, worker, ...words].join(" ")}\n`);

/** Two to four of the names, in any order. */
function drawn() {
  const left = names.split(",");
  const count = 2 + Math.floor(Math.random() * 3);
  return Array.from({ length: count }, () => left.splice(Math.floor(Math.random() * left.length), 1)[0]);
}

/** Returns until when the lease was valid as it was taken. */
function take(lease, invoked, acquired) {
  // The clock was read before the lease is asked: the end may come out too early, never too late.
  const until = acquired + BigInt(Math.trunc(lease.remaining() * 1e6));
  write("take", lease.name, invoked, acquired, until, lease.fence);
  return until;
}

function give(held) {
  const at = now();
  for (const [lease, until] of held) write("give", lease.name, at, until);
}

function failed(wanted, invoked, error) {
  if (!(error instanceof QuorlockError)) throw error;
  write("fail", wanted.join(","), invoked, now(), wait, error.constructor.name);
}

/** All by one call. */
async function together(wanted, invoked) {
  let leases;
  try {
    leases = await client.lockAll(wanted, { wait }).acquire();
  } catch (error) {
    return failed(wanted, invoked, error);
  }
  const acquired = now();
  const held = Array.from(leases, (lease) => [lease, take(lease, invoked, acquired)]);
  await pause(Math.random() * HOLD_MS);
  give(held);
  if (!(await leases.release())) throw new Error("a lease was lost before its release");
}

/** One after the other, in the order in which they are wanted: what goes wrong. */
async function unsorted(wanted, invoked) {
  const held = [];
  try {
    for (const name of wanted) {
      const lease = await client.lock(name, { wait }).acquire();
      held.push([lease, take(lease, invoked, now())]);
    }
    await pause(Math.random() * HOLD_MS);
  } catch (error) {
    failed(wanted, invoked, error);
  }
  give(held);
  for (const [lease] of held) await lease.release();
}

const client = new Client({ nodes, label: worker });
try {
  while (now() < end) {
    const [wanted, invoked] = [drawn(), now()];
    write("want", wanted.join(","), invoked);
    await (how === "together" ? together : unsorted)(wanted, invoked);
    await pause(Math.random() * REST_MS);
  }
} finally {
  await client.close();
}
