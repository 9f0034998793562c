// The Node libraries behind the verbs of ../README.md: `theirs.cjs FOLDER LIBRARY`, nodes from `QUORLOCK_NODES`. FOLDER is where
// they are installed.
//
// Each waits as it does by itself, for at most WAIT ms. What it could not win, it has refused; every other error is one.

"use strict";

const { appendFileSync, readFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const { join } = require("node:path");
const { createInterface } = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");

const [, , FOLDER, LIBRARY] = process.argv;
const peer = createRequire(join(FOLDER, "package.json"));

const WAIT = 20_000;
// Of redlock and those that come from it, which ask each 200 ms by themselves.
const RETRIES = 100;
// Long enough for a busy machine: no lock of the counter ends by its time.
const LOOP_TTL = 10_000;
const STAY = 1;

/** The nodes as clients of ioredis, connected. */
function connect(urls) {
  const { Redis } = peer("ioredis");
  return Promise.all(urls.map(async (url) => {
    const client = new Redis(url);
    await new Promise((resolve, reject) => client.once("ready", resolve).once("error", reject));
    return client;
  }));
}

/** What the promise gives, or false where it fails with an error of that name: the library's word for a lock that others hold. */
async function unless(name, promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.name === name) return false;
    throw error;
  }
}

/** node-redlock 5, and what was made of it. */
function redlock5(Redlock) {
  return (clients) => {
    const once = new Redlock(clients, { retryCount: 0 });
    const patient = new Redlock(clients, { retryCount: RETRIES });
    for (const redlock of [once, patient]) redlock.on("error", () => {});
    let lock;
    return {
      acquire: async (name, ttl, wait) => !!(lock = await unless("ExecutionError", (wait ? patient : once).acquire([name], ttl))),
      release: async () => !!(await unless("ExecutionError", lock.release())),
      async extend(ttl) {
        const extended = await unless("ExecutionError", lock.extend(ttl));
        if (extended) lock = extended;
        return !!extended;
      },
    };
  };
}

/** `Mutex` and `RedlockMutex` of redis-semaphore, whose keys are `mutex:` and the name. */
function semaphore(make) {
  let mutex;
  let key;
  const options = { refreshInterval: 0, acquireTimeout: WAIT };
  return {
    async acquire(name, ttl, wait) {
      key = name.replace(/^mutex:/, "");
      mutex = make(key, { ...options, lockTimeout: ttl, ...(wait ? {} : { acquireAttemptsLimit: 1 }) });
      return mutex.tryAcquire();
    },
    // It does not tell whether it was held.
    release: async () => (await mutex.release(), true),
    // As its timer does, and its way to hand a lock to another process.
    extend: (ttl) =>
      make(key, { ...options, lockTimeout: ttl, identifier: mutex.identifier, acquiredExternally: true }).tryAcquire(),
  };
}

// By the adapter's word: the folder of the package, and what is made of the clients.
const LIBRARIES = {
  redlock4: ["redlock4", (clients) => {
    const Redlock = peer("redlock4");
    const once = new Redlock(clients, { retryCount: 0 });
    const patient = new Redlock(clients, { retryCount: RETRIES });
    let lock;
    return {
      acquire: async (name, ttl, wait) => !!(lock = await unless("LockError", (wait ? patient : once).lock(name, ttl))),
      release: async () => (await unless("LockError", lock.unlock())) !== false,
      extend: async (ttl) => (await unless("LockError", lock.extend(ttl))) !== false,
    };
  }],
  redlock5: ["redlock5", (clients) => redlock5(peer("redlock5").default)(clients)],
  sesamecare: ["@sesamecare-oss/redlock", (clients) => redlock5(peer("@sesamecare-oss/redlock").Redlock)(clients)],
  "redlock-universal": ["redlock-universal", (clients) => {
    const { createRedlock, IoredisAdapter } = peer("redlock-universal");
    const adapters = clients.map((client) => new IoredisAdapter(client));
    let lock;
    let handle;
    return {
      async acquire(key, ttl, wait) {
        lock = createRedlock({ adapters, key, ttl, retryAttempts: wait ? RETRIES : 0 });
        return !!(handle = await unless("LockAcquisitionError", lock.acquire()));
      },
      release: () => lock.release(handle),
      extend: (ttl) => lock.extend(handle, ttl),
    };
  }],
  "redis-semaphore": ["redis-semaphore", ([client]) => {
    const { Mutex } = peer("redis-semaphore");
    return semaphore((key, options) => new Mutex(client, key, options));
  }],
  "redis-semaphore-redlock": ["redis-semaphore", (clients) => {
    const { RedlockMutex } = peer("redis-semaphore");
    return semaphore((key, options) => new RedlockMutex(clients, key, options));
  }],
};

/** So many times: the last number of the file is read under the lock, and the next one is written behind it. */
async function loop(locks, name, cycles, path, who, how) {
  for (let cycle = 0; cycle < cycles; cycle += 1) {
    while (!(await locks.acquire(name, LOOP_TTL, how === "waits"))) await sleep(1 + Math.random() * 4);
    const last = readFileSync(path, "utf8").trimEnd().split("\n").pop();
    const number = last ? parseInt(last, 10) : 0;
    await sleep(STAY);
    appendFileSync(path, `${number + 1} ${who}\n`);
    if (!(await locks.release())) return "failed: the lock was not held any more when it was released";
    await sleep(Math.random() * 3);
  }
  return "done";
}

async function answer(locks, verb, words) {
  const [name, number] = [words[0], Number(words[1])];
  if (verb === "try") return (await locks.acquire(name, number, false)) ? "held" : "refused";
  if (verb === "hold") {
    if (await locks.acquire(name, number, false)) return "held";
    console.log("waiting");
    return (await locks.acquire(name, number, true)) ? "held" : "refused";
  }
  if (verb === "release") return (await locks.release()) ? "released" : "lost";
  if (verb === "extend") return (await locks.extend(Number(words[0]))) ? "extended" : "lost";
  if (verb === "loop") return loop(locks, name, number, ...words.slice(2));
  return `failed: no verb ${verb}`;
}

async function main() {
  const [folder, make] = LIBRARIES[LIBRARY];
  const locks = make(await connect(process.env.QUORLOCK_NODES.split(",")));
  // Read as a file: not every package shows its own.
  const { version } = JSON.parse(readFileSync(join(FOLDER, "node_modules", folder, "package.json"), "utf8"));
  console.log(`ready ${version.replace(/^v/, "")}`);
  for await (const line of createInterface({ input: process.stdin })) {
    const [verb, ...words] = line.split(" ");
    try {
      console.log(await answer(locks, verb, words));
    } catch (error) {
      console.log(`failed: ${error.name}: ${error.message}`.replaceAll("\n", " ").slice(0, 400));
    }
  }
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
