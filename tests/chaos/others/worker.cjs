// A worker on one of Node's locks: `worker.cjs FOLDER LIBRARY`, FOLDER being where these are installed. README.md says what it
// does, and what its environment has.

"use strict";

const { createRequire } = require("node:module");
const { connect } = require("node:net");
const { join } = require("node:path");
const { createInterface } = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");

const [, , FOLDER, LIBRARY] = process.argv;
const peer = createRequire(join(FOLDER, "package.json"));
const { NAME, LEDGER, MASTER, NODES, SENTINELS } = process.env;
const TTL = Number(process.env.TTL);
const KEY = "ledger";
// After an acquire that has failed: a library that fails at once is not asked again at once.
const REST = 10;

function ledger() {
  const stream = connect(Number(LEDGER), "127.0.0.1");
  stream.setNoDelay(true);
  const lines = createInterface({ input: stream })[Symbol.asyncIterator]();
  return async (...words) => {
    stream.write(`${words.join(" ")}\n`);
    const { value, done } = await lines.next();
    return done ? ["end"] : value.split(" ");
  };
}

function clients() {
  const { Redis } = peer("ioredis");
  const addresses = (SENTINELS ?? "").split(",").filter(Boolean).map((one) => one.split(":"));
  const made = addresses.length
    ? [new Redis({ sentinels: addresses.map(([host, port]) => ({ host, port: Number(port) })), name: MASTER })]
    : NODES.split(",").map((url) => new Redis(url));
  for (const client of made) client.on("error", () => {});
  return made;
}

// Of each library: a round under its lock. `work(look)` reads and writes; `look()` says whether the library has told a loss.
const LIBRARIES = {
  redlock5() {
    const Redlock = peer("redlock5").default;
    // The settings of its README.
    const redlock = new Redlock(clients(), {
      driftFactor: 0.01, retryCount: 10, retryDelay: 200, retryJitter: 200, automaticExtensionThreshold: 500,
    });
    redlock.on("error", () => {});
    return (work) => redlock.using([KEY], TTL, (signal) => work(() => signal.aborted));
  },
  "redis-semaphore": () => semaphore(([client], options) => new (peer("redis-semaphore").Mutex)(client, KEY, options)),
  "redis-semaphore-redlock": () => semaphore((all, options) => new (peer("redis-semaphore").RedlockMutex)(all, KEY, options)),
};

function semaphore(make) {
  const all = clients();
  return async (work) => {
    const mutex = make(all, { lockTimeout: TTL, onLockLost() {} });
    await mutex.acquire();
    try {
      await work(() => !mutex.isAcquired);
    } finally {
      await mutex.release();
    }
  };
}

async function main() {
  const ask = ledger();
  const under = LIBRARIES[LIBRARY]();
  await ask("hello", NAME);
  while ((await ask("next"))[0] === "go") {
    let held = false;
    try {
      await under(async (look) => {
        held = true;
        const [number, think] = await ask("read", KEY, 0);
        await sleep(Number(think));
        if (look()) await ask("lost");
        else await ask("write", KEY, 0, Number(number) + 1);
      });
    } catch (error) {
      await ask(held ? "unreleased" : "failed", error.name);
      if (!held) await sleep(Math.random() * REST);
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
