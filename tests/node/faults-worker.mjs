// A worker of the fault runs, in Node, as tests/faults/README.md says.

import { openSync, writeSync } from "node:fs";
import { createConnection } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

import { Client, QuorlockError } from "../../node/dist/index.mjs";

const SLICE_MS = 20;
const MAX_REST_MS = 4;

const setting = (name) => process.env[`FAULTS_${name}`];
const millis = (name) => Number(setting(name));
const name = setting("NAME");
const ttl = millis("TTL");
const wait = millis("WAIT");
const end = BigInt(setting("END"));
const locks = setting("LOCKS").split(",");
const history = openSync(setting("HISTORY"), "a");

/** `CLOCK_MONOTONIC`. */
const now = () => process.hrtime.bigint();
const write = (kind, ...words) => writeSync(history, `${[kind, name, ...words].join(" ")}\n`);
/** Short as a rule; now and then long enough to be renewed. */
const holdMs = () => (Math.random() < 0.005 ? ttl * (1 + Math.random()) : Math.random() * millis("HOLD"));
const nanoseconds = (ms) => BigInt(Math.trunc(ms * 1e6));

const resource = createConnection(setting("RESOURCE"));
const answers = createInterface({ input: resource })[Symbol.asyncIterator]();
async function ask(...words) {
  resource.write(`${words.join(" ")}\n`);
  return (await answers.next()).value;
}

/** The lock of a word, or the semaphore of `NAME*SLOTS`; that of `NAME&` three of four share. */
function lockOf(client, word) {
  const [name, slots] = word.replace("&", "").split("*");
  if (word.endsWith("&")) return client.lock(name, { shared: Math.random() < 0.75 });
  return slots === undefined ? client.lock(name) : client.semaphore(name, Number(slots));
}

/** What the history knows it by: each slot is a lock of its own. */
const heldAs = (word, lease) => {
  const [name] = word.replace("&", "").split("*");
  return lease.slot === null ? name : `${name}.${lease.slot}`;
};

async function hold(lock, lease, invoked) {
  // The clock is read before the lease is asked: the end may come out too early, never too late.
  const acquired = now();
  let until = acquired + nanoseconds(lease.remaining());
  const fence = lease.fence ?? 0;
  const shared = lease.isShared();
  write(shared ? "share" : "take", lock, invoked, acquired, until, fence);
  const value = await ask(shared ? "look" : "read", lock, fence);
  const over = now() + nanoseconds(holdMs());
  for (let left = over - now(); left > 0n; left = over - now()) {
    await pause(Math.min(Number(left) / 1e6, SLICE_MS));
    const seen = now();
    const remaining = lease.remaining();
    const later = seen + nanoseconds(remaining);
    if (remaining > 0 && later > until) until = later;
  }
  // Held or not: a pause may come after any look, so it is the resource that must refuse.
  if (value !== "stale" && !shared) await ask("write", lock, fence, BigInt(value) + 1n);
  // Written before: a worker that is killed while nodes have yet to answer has given the lock back.
  write("give", lock, now(), until);
  await lease.release();
}

const client = new Client({
  nodes: process.env.QUORLOCK_NODES,
  label: name,
  ttl,
  wait,
  maxTtl: millis("MAX_TTL"),
  nodeTimeout: millis("NODE_TIMEOUT"),
  waitReplicas: Number(setting("WAIT_REPLICAS")),
});
try {
  while (now() < end) {
    const lock = locks[Math.floor(Math.random() * locks.length)];
    const invoked = now();
    let lease;
    try {
      lease = await lockOf(client, lock).acquire();
    } catch (error) {
      if (!(error instanceof QuorlockError)) throw error;
      write("fail", lock, invoked, now(), wait, error.constructor.name);
    }
    if (lease !== undefined) await hold(heldAs(lock, lease), lease, invoked);
    await pause(Math.random() * MAX_REST_MS);
  }
} finally {
  await client.close();
  resource.destroy();
}
