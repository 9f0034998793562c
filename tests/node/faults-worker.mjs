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
const hand = Number(setting("HAND"));
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

/**
 * The lock of a word, or the semaphore of `NAME*SLOTS`; that of `NAME&` three of four share, that of `NAME%KEEP` is kept for so many
 * ms, and `NAME+NAME` are both.
 */
function lockOf(client, word) {
  if (word.includes("+")) return client.lockAll(word.split("+"));
  if (word.includes("%")) return client.lock(word.split("%")[0], { wait: 0, keep: keepOf(word) });
  const [name, slots] = word.replace("&", "").split("*");
  if (word.endsWith("&")) return client.lock(name, { shared: Math.random() < 0.75 });
  return slots === undefined ? client.lock(name) : client.semaphore(name, Number(slots));
}

const keepOf = (word) => Number(word.split("%")[1]);

/** What the history knows it by: each slot is a lock of its own. */
const heldAs = (word, lease) => {
  if (word.includes("+")) return lease.name;
  const [name] = word.replace("&", "").split(/[*%]/);
  return lease.slot === null ? name : `${name}.${lease.slot}`;
};

/** What goes into the history of one hold. */
function take(lock, lease, invoked) {
  // The clock is read before the lease is asked: the end may come out too early, never too late.
  const acquired = now();
  const until = acquired + nanoseconds(lease.remaining());
  const fence = lease.fence ?? 0;
  const shared = lease.isShared();
  write(shared ? "share" : "take", lock, invoked, acquired, until, fence);
  return { lock, lease, acquired, until, fence, shared };
}

/** Up to where they are given back. */
async function hold(holds) {
  for (const held of holds) held.value = await ask(held.shared ? "look" : "read", held.lock, held.fence);
  const over = now() + nanoseconds(holdMs());
  for (let left = over - now(); left > 0n; left = over - now()) {
    await pause(Math.min(Number(left) / 1e6, SLICE_MS));
    for (const held of holds) {
      const seen = now();
      const remaining = held.lease.remaining();
      const later = seen + nanoseconds(remaining);
      if (remaining > 0 && later > held.until) held.until = later;
    }
  }
  // Held or not: a pause may come after any look, so it is the resource that must refuse.
  for (const { lock, fence, value, shared } of holds) {
    if (value !== "stale" && !shared) await ask("write", lock, fence, BigInt(value) + 1n);
  }
  // Written before: a worker that is killed while nodes have yet to answer has given the lock back.
  for (const { lock, until } of holds) write("give", lock, now(), until);
}

function failed(word, invoked, error, ms = wait, prefix = "") {
  if (!(error instanceof QuorlockError)) throw error;
  write("fail", word, invoked, now(), ms, prefix + error.constructor.name);
}

/** Goes on with a lease that a worker has exported, if one has. */
async function goOn() {
  const told = await ask("next", "-", 0);
  if (told === "none") return;
  const [number, lock, text] = told.split(" ");
  const invoked = now();
  let lease;
  try {
    lease = await client.adopt(text);
  } catch (error) {
    return failed(lock, invoked, error, 0, "adopt:");
  }
  const held = take(lock, lease, invoked);
  write("adopted", lock, number);
  await hold([held]);
  await lease.release();
}

/** Whether the lease is another's to go on with; else it is held as before, or lost. */
async function handed({ lock, lease, fence }) {
  write("hand", lock, now());
  let text;
  try {
    text = await lease.export();
  } catch (error) {
    if (!(error instanceof QuorlockError)) throw error;
    return false;
  }
  await ask("hand", lock, fence, text);
  return true;
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
    if (hand > 0) await goOn();
    const word = locks[Math.floor(Math.random() * locks.length)];
    const invoked = now();
    if (word.includes("+")) write("want", word.replace("+", ","), invoked);
    let lease;
    try {
      lease = await lockOf(client, word).acquire();
    } catch (error) {
      failed(word, invoked, error, word.includes("%") ? 0 : wait);
    }
    if (lease !== undefined) {
      const holds = Array.from(word.includes("+") ? lease : [lease], (one) => take(heldAs(word, one), one, invoked));
      await hold(holds);
      if (hand > 0 && !/[+%&]/.test(word) && Math.random() * hand < 1 && (await handed(holds[0]))) continue;
      if ((await lease.release()) && word.includes("%")) {
        write("keep", holds[0].lock, holds[0].acquired, invoked + nanoseconds(keepOf(word)));
      }
    }
    await pause(Math.random() * MAX_REST_MS);
  }
} finally {
  await client.close();
  resource.destroy();
}
