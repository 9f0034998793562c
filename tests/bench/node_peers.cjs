// The Node driver: `node_peers.cjs [--gate] [--shared] [--hold] [--contend=FILE --stay=MS [--readers=N | --slots=N]]
// PEER WORKERS SECONDS`, nodes from `QUORLOCK_NODES`.
// PEER is `js:NAME`; `+fast` and `+safe` after it are its best settings, see README.md. Prints one line of JSON.

"use strict";

const { createHash, randomBytes } = require("node:crypto");
const { readFileSync, writeFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const { join } = require("node:path");
const { createInterface } = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");

const ROOT = join(__dirname, "..", "..");
const peer = createRequire(join(ROOT, "target", "bench", "node", "package.json"));

const TTL = 30_000;
const HELD_TTL = 10_000;
// Long enough for the compiler of V8 to have done its work.
const WARM = 400;
// After its time a contended run waits so long for contenders that have not come back.
const DRAIN = 1000;
// In shared mode a holder stays inside for so long: without it two holders could hardly meet.
const INSIDE = 1;
const DELETE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

function words(given) {
  const flags = given.filter((word) => word.startsWith("--"));
  const [name, workers, seconds] = given.filter((word) => !word.startsWith("--"));
  const value = (flag) => flags.find((word) => word.startsWith(`${flag}=`))?.slice(flag.length + 1);
  const [base, ...settings] = name.replace(/^js:/, "").split("+");
  return {
    peer: name,
    base,
    settings,
    workers: Number(workers),
    seconds: Number(seconds),
    gate: flags.includes("--gate"),
    shared: flags.includes("--shared"),
    hold: flags.includes("--hold"),
    contend: value("--contend"),
    stay: Number(value("--stay") ?? 0),
    readers: Number(value("--readers") ?? 0),
    slots: Number(value("--slots") ?? 0),
    nodes: process.env.QUORLOCK_NODES.split(","),
  };
}

function ioredis({ nodes, settings, workers }) {
  const { Redis } = peer("ioredis");
  const options = {};
  // It waits for the end of the loop's turn: good for many calls at a time, bad for one.
  if (settings.includes("fast") && workers > 1) options.enableAutoPipelining = true;
  if (settings.includes("safe")) {
    Object.assign(options, { commandTimeout: 100, connectTimeout: 100, maxRetriesPerRequest: 0, enableOfflineQueue: false });
  }
  return Promise.all(nodes.map(async (url) => {
    const client = new Redis(url, options);
    // A dead node is told as a failed command.
    client.on("error", () => {});
    await new Promise((resolve) => client.once("ready", resolve));
    return client;
  }));
}

// Each peer makes, for a worker's name and number, a function that acquires and one that releases what came of it.
const PEERS = {
  quorlock({ nodes, settings, readers, slots }) {
    const { Client } = require(join(ROOT, "node"));
    const plain = settings.includes("plain") ? { fencing: false, restartGuard: "off" } : {};
    const client = new Client(nodes, { ttl: TTL, ...plain });
    return (name, number) => {
      const lock = slots ? client.semaphore(name, slots) : client.lock(name, { shared: number < readers });
      return [() => lock.acquire(), (lease) => lease.release()];
    };
  },
  "raw-native"({ nodes, settings, workers }) {
    const hop = require(join(ROOT, "target", "bench", "hop.node"));
    const waiting = [];
    let wanted = [];
    hop.open(nodes.join(), workers, settings.includes("plain"), () => {
      for (const number of hop.take()) waiting[number](true);
    });
    const submit = () => {
      hop.go(wanted);
      wanted = [];
    };
    return (name) => {
      const number = Number(name.replace("bench-", ""));
      const step = () => new Promise((resolve) => {
        waiting[number] = resolve;
        if (wanted.push(number) === 1) queueMicrotask(submit);
      });
      return [step, step];
    };
  },
  async redlock5(words) {
    const { default: Redlock } = peer("redlock");
    // Of those that wait, the fast ones ask each millisecond, and never give up.
    const fast = words.settings.includes("fast") ? { retryCount: -1, retryDelay: 1, retryJitter: 1 } : {};
    const redlock = new Redlock(await ioredis(words), fast);
    redlock.on("error", () => {});
    return (name) => [() => redlock.acquire([name], TTL), (lock) => lock.release()];
  },
  async redlock4(words) {
    const Redlock = peer("redlock4");
    const redlock = new Redlock(await ioredis(words));
    redlock.on("clientError", () => {});
    return (name) => [() => redlock.lock(name, TTL), (lock) => lock.unlock()];
  },
  async ioredis(words) {
    const clients = await ioredis(words);
    const quorum = Math.floor(clients.length / 2) + 1;
    const sha = createHash("sha1").update(DELETE).digest("hex");
    await Promise.all(clients.map((client) => client.script("LOAD", DELETE)));
    return (name) => {
      const release = (token) => Promise.allSettled(clients.map((client) => client.evalsha(sha, 1, name, token)));
      const acquire = async () => {
        const token = randomBytes(20).toString("hex");
        const votes = await Promise.allSettled(clients.map((client) => client.set(name, token, "PX", TTL, "NX")));
        if (votes.filter((vote) => vote.value === "OK").length >= quorum) return token;
        await release(token);
        return null;
      };
      return [acquire, release];
    };
  },
  async "redis-semaphore"(words) {
    const { Mutex, RedlockMutex, RedlockSemaphore, Semaphore } = peer("redis-semaphore");
    const clients = await ioredis(words);
    const options = { lockTimeout: TTL };
    // Without its timer a lock is not renewed. That is less work than ours.
    if (words.settings.includes("fast")) options.refreshInterval = 0;
    const { slots } = words;
    const semaphore = (name) => clients.length === 1 ? new Semaphore(clients[0], name, slots, options)
      : new RedlockSemaphore(clients, name, slots, options);
    return (name) => {
      const mutex = slots ? semaphore(name) : clients.length === 1 ? new Mutex(clients[0], name, options)
        : new RedlockMutex(clients, name, options);
      return [async () => (await mutex.acquire(), true), () => mutex.release()];
    };
  },
};

class Meter {
  times = [];
  failures = 0;
  violations = 0;
  inside = 0;

  start(seconds) {
    this.cpu = process.cpuUsage();
    this.wall = performance.now();
    return this.wall + seconds * 1000;
  }

  stop() {
    this.wall = performance.now() - this.wall;
    const { user, system } = process.cpuUsage(this.cpu);
    this.cpu = user + system;
  }

  tell(name) {
    const times = Float64Array.from(this.times).sort();
    const at = (share) => (times.length ? Number((times[Math.floor((times.length - 1) * share)] * 1000).toFixed(2)) : 0);
    console.log(JSON.stringify({
      peer: name,
      cycles: times.length,
      seconds: Number((this.wall / 1000).toFixed(3)),
      cycles_per_s: Math.round(times.length / (this.wall / 1000)),
      p50_us: at(0.5),
      p99_us: at(0.99),
      max_us: at(1),
      cpu_us: Number((this.cpu / Math.max(1, times.length)).toFixed(2)),
      failures: this.failures,
      violations: this.violations,
      error: this.error,
    }));
  }
}

async function cycles(meter, [acquire, release], end, shared) {
  for (let begun; (begun = performance.now()) < end; ) {
    try {
      const held = await acquire();
      if (held && shared) {
        meter.inside += 1;
        if (meter.inside !== 1) meter.violations += 1;
        await sleep(INSIDE);
        meter.inside -= 1;
      }
      if (held) await release(held);
      else meter.failures += 1;
    } catch (error) {
      meter.failures += 1;
      meter.error ??= `${error.name}: ${error.message}`.slice(0, 200);
    }
    meter.times.push(performance.now() - begun);
  }
}

/** Lines of stdin, awaited: requests under way get on meanwhile. */
function gateway(open) {
  if (!open) return async () => {};
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  return (word) => {
    if (word) console.log(word);
    return lines.next();
  };
}

async function run(words) {
  const make = await PEERS[words.base](words);
  const meter = new Meter();
  const pairs = Array.from({ length: words.workers }, (_, i) => make(words.shared ? "bench" : `bench-${i}`, i));
  const warm = performance.now() + (words.shared ? 0 : WARM);
  await Promise.all(pairs.map(async ([acquire, release]) => {
    do await release(await acquire());
    while (performance.now() < warm);
  }));
  const gate = gateway(words.gate);
  await gate("ready");
  const end = meter.start(words.seconds);
  await Promise.all(pairs.map((pair) => cycles(meter, pair, end, words.shared)));
  meter.stop();
  meter.tell(words.peer);
  await gate();
}

/** Nanoseconds of CLOCK_MONOTONIC, which other processes have too. */
const clock = process.hrtime.bigint;

/** Holds as handoffs.py reads them. Numbers and no objects: those would keep the collector busy. */
class History {
  numbers = new BigInt64Array(1 << 18);
  used = 0;

  /** A hold begins; returns where its numbers are. */
  granted(contender) {
    if (this.used === this.numbers.length) {
      const more = new BigInt64Array(2 * this.used);
      more.set(this.numbers);
      this.numbers = more;
    }
    const at = this.used;
    this.numbers[at] = contender;
    this.numbers[at + 1] = clock();
    this.used += 4;
    return at;
  }

  releasing(at) {
    this.numbers[at + 2] = clock();
  }

  released(at) {
    this.numbers[at + 3] = clock();
  }

  write(path) {
    writeFileSync(path, this.numbers.subarray(0, this.used));
  }
}

async function contender(contest, number, [acquire, release], stay) {
  const { history } = contest;
  while (clock() < contest.end) {
    let hold;
    try {
      const held = await acquire();
      if (!held) {
        contest.failures += 1;
        continue;
      }
      hold = history.granted(number);
      if (stay && clock() < contest.end) await sleep(stay);
      history.releasing(hold);
      await release(held);
    } catch (error) {
      contest.failures += 1;
      contest.error ??= `${error.name}: ${error.message}`.slice(0, 200);
    }
    if (hold !== undefined) history.released(hold);
  }
  contest.late -= 1;
}

async function contend(words) {
  const make = await PEERS[words.base](words);
  const warm = performance.now() + WARM;
  await Promise.all(Array.from({ length: words.workers }, async (_, i) => {
    const [acquire, release] = make(`warm-${process.pid}-${i}`, i);
    do await release(await acquire());
    while (performance.now() < warm);
  }));
  const gate = gateway(words.gate);
  await gate("ready");
  const [began, cpu] = [clock(), process.cpuUsage()];
  const end = began + BigInt(Math.round(words.seconds * 1e9));
  const contest = { history: new History(), failures: 0, late: words.workers, end };
  const all = Promise.all(Array.from({ length: words.workers }, (_, i) => contender(contest, BigInt(i), make("bench", i), words.stay)));
  await sleep(words.seconds * 1000);
  const { user, system } = process.cpuUsage(cpu);
  await Promise.race([all, sleep(DRAIN)]);
  contest.history.write(words.contend);
  console.log(JSON.stringify({
    peer: words.peer,
    began: Number(began),
    ended: Number(end),
    cpu_ns: (user + system) * 1000,
    failures: contest.failures,
    late: contest.late,
    error: contest.error,
  }));
  await gate();
}

/** Memory in KiB and threads of this process. */
function self() {
  const status = readFileSync("/proc/self/status", "utf8");
  return { rss: Number(/^VmRSS:\s+(\d+)/m.exec(status)[1]), threads: Number(/^Threads:\s+(\d+)/m.exec(status)[1]) };
}

// Each peer makes a function that acquires a lock to be renewed, and tells how many of those are lost.
const HOLDERS = {
  quorlock({ nodes }) {
    const { Client } = require(join(ROOT, "node"));
    const client = new Client(nodes, { ttl: HELD_TTL });
    return {
      acquire: (name) => client.lock(name).acquire(),
      lost: (leases) => leases.filter((lease) => !lease.isHeld()).length,
      close: () => client.close(),
    };
  },
  async redlock5(words) {
    const { default: Redlock } = peer("redlock");
    const redlock = new Redlock(await ioredis(words));
    let lost = 0;
    redlock.on("error", () => (lost += 1));
    // Only `using` renews; its body here never ends.
    const acquire = (name) => new Promise((resolve, reject) => {
      redlock.using([name], HELD_TTL, () => new Promise(() => resolve(true))).catch(reject);
    });
    return { acquire, lost: () => lost, close() {} };
  },
  async "redis-semaphore"(words) {
    const { Mutex } = peer("redis-semaphore");
    const [client] = await ioredis(words);
    const acquire = async (name) => {
      const mutex = new Mutex(client, name, { lockTimeout: HELD_TTL, onLockLost() {} });
      await mutex.acquire();
      return mutex;
    };
    return { acquire, lost: (mutexes) => mutexes.filter((mutex) => !mutex.isAcquired).length, close() {} };
  },
};

async function hold(words) {
  // What every user of the package has, held lock or not, is no cost of the locks.
  if (words.base === "quorlock") require(join(ROOT, "node"));
  else peer(words.base === "redlock5" ? "redlock" : words.base);
  const before = self();
  const begun = performance.now();
  const holder = await HOLDERS[words.base](words);
  const held = [];
  for (let i = 0; i < words.workers; i += 100) {
    const names = Array.from({ length: Math.min(100, words.workers - i) }, (_, k) => `bench-${i + k}`);
    held.push(...(await Promise.all(names.map(holder.acquire))));
  }
  const acquired = performance.now() - begun;
  const gate = gateway(words.gate);
  await gate("ready");
  const [cpu, wall] = [process.cpuUsage(), performance.now()];
  await sleep(words.seconds * 1000);
  const { user, system } = process.cpuUsage(cpu);
  const after = self();
  console.log(JSON.stringify({
    peer: words.peer,
    locks: held.length,
    lost: holder.lost(held),
    acquired_s: Number((acquired / 1000).toFixed(2)),
    cpu_percent: Number(((user + system) / 10 / (performance.now() - wall)).toFixed(2)),
    rss_kib: after.rss,
    rss_before_kib: before.rss,
    threads: after.threads,
    threads_before: before.threads,
  }));
  await gate();
  await holder.close();
}

const found = words(process.argv.slice(2));
(found.contend ? contend : found.hold ? hold : run)(found).then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
