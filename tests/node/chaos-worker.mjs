// A worker of the chaos runs, in Node, as tests/chaos/README.md says.

import { openSync, writeSync } from "node:fs";
import { createConnection } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

import { Client, QuorlockError } from "../../node/dist/index.mjs";

const SLICE_MS = 20;
const MAX_REST_MS = 4;
// The end of what needs no lock is later than that of any run.
const UNLOCKED_MS = 3_600_000;

const setting = (name) => process.env[`CHAOS_${name}`];
const number = (name) => Number(setting(name));
const name = setting("NAME");
const [ttl, wait, hand, long, careless] = ["TTL", "WAIT", "HAND", "LONG", "CARELESS"].map(number);
const end = BigInt(setting("END"));
const history = openSync(setting("HISTORY"), "a");

/** `CLOCK_MONOTONIC`. */
const now = () => process.hrtime.bigint();
const nanoseconds = (ms) => BigInt(Math.trunc(ms * 1e6));
const below = (bound) => Math.floor(Math.random() * bound);
const write = (kind, ...words) => writeSync(history, `${[kind, name, ...words].join(" ")}\n`);

const resource = createConnection(setting("RESOURCE"));
const answers = createInterface({ input: resource })[Symbol.asyncIterator]();
async function ask(...words) {
  resource.write(`${words.join(" ")}\n`);
  return (await answers.next()).value;
}

function failed(names, invoked, error, ms = wait, prefix = "") {
  if (!(error instanceof QuorlockError)) throw error;
  write("fail", names, invoked, now(), ms, prefix + error.constructor.name);
}

/** What the history knows of one lease, or of what needs none. */
class Hold {
  constructor(name, lease, invoked, acquired) {
    Object.assign(this, { name, lease, invoked, acquired, until: acquired });
    this.shared = lease?.isShared() ?? false;
    this.fence = lease?.fence ?? 0;
    this.look(acquired);
    write(this.shared ? "share" : "take", name, invoked, acquired, this.until, this.fence);
  }

  look(at) {
    // The clock was read before the lease is asked: the end may come out too early, never too late.
    const left = this.lease === null ? UNLOCKED_MS : this.lease.remaining();
    const until = at + nanoseconds(left);
    if (left > 0 && until > this.until) this.until = until;
  }
}

/** Reads what the locks protect, holds them for a while, and writes it. */
async function inside(holds) {
  for (const held of holds) held.value = await ask(held.shared ? "look" : "read", held.name, held.fence);
  const ms = long > 0 && below(long) === 0 ? ttl * (1 + Math.random()) : Math.random() * number("HOLD");
  const over = now() + nanoseconds(ms);
  for (let left = over - now(); left > 0n; left = over - now()) {
    await pause(Math.min(Number(left) / 1e6, SLICE_MS));
    for (const held of holds) held.look(now());
  }
  // Held or not: a pause may come after any look, so it is the resource that must refuse.
  for (const { name, fence, value, shared } of holds) {
    if (value !== "stale" && !shared) await ask("write", name, fence, BigInt(value) + 1n);
  }
}

function give(holds) {
  // Written before the release: a worker that is killed while nodes have yet to answer has given the lock back.
  const at = now();
  for (const { name, until } of holds) write("give", name, at, until);
}

/** What an acquire gives; nothing if it fails, which the history then says. */
async function won(lock, names, invoked, ms = wait) {
  try {
    return await lock.acquire();
  } catch (error) {
    return failed(names, invoked, error, ms);
  }
}

async function released(lease) {
  const held = await lease.release();
  if (!held && setting("STEADY") === "1") throw new Error("a lease was lost before its release");
  return held;
}

/** One lease of a lock. Returns its hold if the release says that it was held until then. */
async function one(name, lock, { ms = wait, hand = 0 } = {}) {
  const invoked = now();
  const lease = await won(lock, name, invoked, ms);
  if (lease === undefined) return undefined;
  const held = new Hold(lease.slot === null ? name : `${name}.${lease.slot}`, lease, invoked, now());
  await inside([held]);
  give([held]);
  if (hand > 0 && below(hand) === 0 && (await handed(held))) return undefined;
  return (await released(lease)) ? held : undefined;
}

/** Whether the lease is another worker's to go on with; else it is held as before, or lost. */
async function handed({ name, lease, fence }) {
  write("hand", name, now());
  let text;
  try {
    text = await lease.export();
  } catch (error) {
    if (!(error instanceof QuorlockError)) throw error;
    return false;
  }
  await ask("hand", name, fence, text);
  return true;
}

/** Goes on with a lease that a worker has exported, if one has. */
async function adopt() {
  const told = await ask("next", "-", 0);
  if (told === "none") return;
  const [number, name, text] = told.split(" ");
  const invoked = now();
  let lease;
  try {
    lease = await client.adopt(text);
  } catch (error) {
    return failed(name, invoked, error, 0, "adopt:");
  }
  const holds = [new Hold(name, lease, invoked, now())];
  write("adopted", name, number);
  await inside(holds);
  give(holds);
  await lease.release();
}

/** Two to four of them, in any order, and since when they are wanted. */
function wanted(names) {
  const [left, count, invoked] = [[...names], 2 + below(Math.min(4, names.length) - 1), now()];
  const some = Array.from({ length: count }, () => left.splice(below(left.length), 1)[0]);
  write("want", some.join(","), invoked);
  return [some, invoked];
}

const WORKLOADS = {
  lock: (name) => one(name, client.lock(name), { hand }),
  shared: (name) => one(name, client.lock(name, { shared: Math.random() < 0.75 })),
  slots: (name, count) => one(name, client.semaphore(name, Number(count)), { hand }),

  async keep(name, ms) {
    const held = await one(name, client.lock(name, { wait: 0, keep: Number(ms) }), { ms: 0 });
    if (held !== undefined) write("keep", name, held.acquired, held.invoked + nanoseconds(Number(ms)));
  },

  async several(...names) {
    const [some, invoked] = wanted(names);
    const leases = await won(client.lockAll(some), some.join(","), invoked);
    if (leases === undefined) return;
    const acquired = now();
    const holds = Array.from(leases, (lease) => new Hold(lease.name, lease, invoked, acquired));
    await inside(holds);
    give(holds);
    await released(leases);
  },

  /** One by one, in the order in which they are wanted, which goes wrong. */
  async unsorted(...names) {
    const [[some, invoked], holds] = [wanted(names), []];
    for (const name of some) {
      const lease = await won(client.lock(name), some.join(","), invoked);
      if (lease === undefined) break;
      holds.push(new Hold(name, lease, invoked, now()));
    }
    if (holds.length === some.length) await inside(holds);
    give(holds);
    for (const { lease } of holds) await lease.release();
  },

  /** Without the lock, which goes wrong. */
  async unlocked(name) {
    const at = now();
    const holds = [new Hold(name, null, at, at)];
    await inside(holds);
    give(holds);
  },

  /** Runs for it until the process is killed. */
  async election(name) {
    let fence = 0;
    /** Looks at the term and writes how it is. Returns whether to go on. */
    function look(kind, term, over) {
      // The clock is read before the term is asked: what it says is true of then, too.
      const at = now();
      const held = careless > 0 || term.isHeld();
      write(kind, term.fence, Number(held), at, at + nanoseconds(term.remaining()));
      return careless > 0 ? at < over : held;
    }
    async function work(term) {
      const over = now() + nanoseconds(careless);
      fence = term.fence;
      try {
        look("leads", term, over);
        while (look("acts", term, over)) await pause(number("STEP"));
      } finally {
        write("ended", term.fence, now());
      }
    }
    const onLost = (reason) => write("lost", fence, reason, now());
    const onStopped = () => write("stopped", fence, now());
    await client.election(name).run(work, { again: true, onLost, onStopped });
  },
};

const client = new Client({ label: name, ttl, wait });
const works = setting("WORK").split(" ").map((text) => text.split(":"));
try {
  while (now() < end) {
    if (hand > 0) await adopt();
    const [workload, ...words] = works[below(works.length)];
    await WORKLOADS[workload](...words);
    await pause(Math.random() * MAX_REST_MS);
  }
} finally {
  await client.close();
  resource.destroy();
}
