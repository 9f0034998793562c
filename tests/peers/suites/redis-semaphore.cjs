"use strict";
// What redis-semaphore promises of `Mutex` and `RedlockMutex`, and of `Semaphore` and `RedlockSemaphore`, in our own words: its
// archive has no tests.

const assert = require("node:assert/strict");
const { once } = require("node:events");
const Redis = require("ioredis");
const { clientOf, PORTS } = require("../node/nodes.cjs");
const { Mutex, RedlockMutex, Semaphore, RedlockSemaphore, LostLockError } = require("../node/redis-semaphore.cjs");

const SHORT = { lockTimeout: 300, acquireTimeout: 100 };

/** Resolves when the condition holds. */
async function eventually(condition) {
  while (!(await condition())) await new Promise((done) => setTimeout(done, 5));
}

for (const [kind, count] of [["Mutex", 1], ["RedlockMutex", 3]]) {
  describe(kind, () => {
    const [servers, made] = [[], []];
    const make = (options) => {
      made.push(count === 1 ? new Mutex(servers[0], "key", options) : new RedlockMutex(servers, "key", options));
      return made.at(-1);
    };
    const values = () => Promise.all(servers.map((server) => server.get("mutex:key")));
    // A call is over when most servers have answered; the others follow.
    const becomes = (value) => eventually(async () => (await values()).every((one) => one === value));
    const stolen = () => Promise.all(servers.map((server) => server.set("mutex:key", "of somebody else")));

    before(() => {
      assert.equal(PORTS.length, 3);
      for (let place = 0; place < count; place++) servers.push(new Redis(count === 1 ? {} : { db: place + 1 }));
    });
    beforeEach(() => Promise.all(servers.map((server) => server.flushdb())));
    // A lease that a test leaves held is renewed, and would come back after a flush.
    afterEach(() => Promise.all(made.splice(0).map((mutex) => mutex.release())));
    after(() => Promise.all(servers.map((server) => server.quit())));

    it("wants a client and a key", () => {
      assert.throws(() => (count === 1 ? new Mutex(null, "key") : new RedlockMutex(null, "key")));
      assert.throws(() => (count === 1 ? new Mutex(servers[0], "") : new RedlockMutex(servers, "")));
      assert.throws(() => (count === 1 ? new Mutex(servers[0], 1) : new RedlockMutex(servers, 1)));
    });

    it("is acquired and released", async () => {
      const mutex = make();
      assert.equal(mutex.isAcquired, false);
      await mutex.acquire();
      assert.equal(mutex.isAcquired, true);
      await becomes(mutex.identifier);
      await mutex.release();
      assert.equal(mutex.isAcquired, false);
      await becomes(null);
    });

    it("has an identifier before it is acquired", () => {
      assert.equal(typeof make().identifier, "string");
    });

    it("rejects when its time is over", async () => {
      const [first, second] = [make(SHORT), make(SHORT)];
      await first.acquire();
      await assert.rejects(second.acquire(), /Acquire .* mutex:key timeout/);
      await first.release();
      await becomes(null);
    });

    it("says false when it is tried and its time is over", async () => {
      const [first, second] = [make(SHORT), make(SHORT)];
      await first.acquire();
      assert.equal(await second.tryAcquire(), false);
      await first.release();
      assert.equal(await second.tryAcquire(), true);
      await second.release();
      await becomes(null);
    });

    it("is refreshed until it is released", async () => {
      const mutex = make(SHORT);
      await mutex.acquire();
      // Another one tries for longer than the first would live.
      assert.equal(await make({ ...SHORT, acquireTimeout: 700 }).tryAcquire(), false);
      assert.equal(mutex.isAcquired, true);
      await becomes(mutex.identifier);
      await mutex.release();
      await becomes(null);
    });

    it("ends by itself where nothing refreshes it", async () => {
      const mutex = make({ ...SHORT, refreshInterval: 0 });
      await mutex.acquire();
      await becomes(null);
      assert.equal(mutex.isAcquired, false);
    });

    it("may be told to refresh no more", async () => {
      const mutex = make(SHORT);
      await mutex.acquire();
      mutex.stopRefresh();
      await becomes(null);
    });

    it("comes back where its key has gone and nobody has the lock", async () => {
      const mutex = make(SHORT);
      await mutex.acquire();
      await Promise.all(servers.map((server) => server.del("mutex:key")));
      await becomes(mutex.identifier);
      assert.equal(mutex.isAcquired, true);
      await mutex.release();
      await becomes(null);
    });

    it("goes on with an identifier that another has acquired", async () => {
      const outside = make({ ...SHORT, refreshInterval: 0 });
      await outside.acquire();
      const inside = make({ ...SHORT, identifier: outside.identifier, acquiredExternally: true });
      await inside.acquire();
      assert.equal(inside.identifier, outside.identifier);
    });

    it("tells of a loss", async () => {
      let tell;
      const told = new Promise((done) => (tell = done));
      const mutex = make({ ...SHORT, onLockLost: tell });
      await mutex.acquire();
      await stolen();
      assert.ok((await told) instanceof LostLockError);
      assert.equal(mutex.isAcquired, false);
    });

    it("tells of a loss by the client's event where nothing else listens", async () => {
      const mutex = make({ ...SHORT, onLockLost: () => {} });
      const client = clientOf(...servers);
      await mutex.acquire();
      const lost = once(client, "lost");
      await stolen();
      assert.equal((await lost)[0].name, "mutex:key");
    });

    it("may be used again", async () => {
      const mutex = make(SHORT);
      for (let turn = 0; turn < 3; turn++) {
        await mutex.acquire();
        await becomes(mutex.identifier);
        await mutex.release();
        await becomes(null);
      }
    });
  });
}

for (const [kind, count] of [["Semaphore", 1], ["RedlockSemaphore", 3]]) {
  describe(kind, () => {
    const [servers, made] = [[], []];
    const make = (limit, options) => {
      const of = count === 1 ? servers[0] : servers;
      made.push(new (count === 1 ? Semaphore : RedlockSemaphore)(of, "key", limit, options));
      return made.at(-1);
    };
    // Each slot has a key of its own. Where others were refused its value stands behind its end, or who it is reserved for.
    const slots = (server) => server.keys("*#p[0-9]*:{semaphore:key}");
    const values = async (server) => {
      const keys = await slots(server);
      const found = (keys.length ? await server.mget(keys) : []).filter((value) => value !== null && !value.startsWith("@"));
      return found.map((value) => value.replace(/^=\d+ /, "")).sort();
    };
    const become = async (...expected) => {
      const same = async (server) => JSON.stringify(await values(server)) === JSON.stringify(expected.sort());
      await eventually(async () => (await Promise.all(servers.map(same))).every(Boolean));
    };

    before(() => {
      for (let place = 0; place < count; place++) servers.push(new Redis(count === 1 ? {} : { db: place + 1 }));
    });
    beforeEach(() => Promise.all(servers.map((server) => server.flushdb())));
    afterEach(() => Promise.all(made.splice(0).map((one) => one.release())));
    after(() => Promise.all(servers.map((server) => server.quit())));

    it("wants a client, a key and a limit", () => {
      assert.throws(() => new Semaphore(null, "key", 2));
      assert.throws(() => make("two"));
      assert.throws(() => make(0));
    });

    it("is acquired by as many as its limit says, and released", async () => {
      const [first, second] = [make(2), make(2)];
      await first.acquire();
      await become(first.identifier);
      await second.acquire();
      await become(first.identifier, second.identifier);
      assert.ok(first.isAcquired && second.isAcquired);
      await first.release();
      assert.equal(first.isAcquired, false);
      await become(second.identifier);
      await second.release();
      await become();
    });

    it("rejects when its time is over", async () => {
      const [first, second, third] = [make(2, SHORT), make(2, SHORT), make(2, SHORT)];
      await first.acquire();
      await second.acquire();
      await assert.rejects(third.acquire(), /Acquire .* semaphore:key timeout/);
    });

    it("says false when it is tried and its time is over", async () => {
      const [first, second] = [make(1, SHORT), make(1, SHORT)];
      assert.equal(await first.tryAcquire(), true);
      assert.equal(await second.tryAcquire(), false);
      await first.release();
      assert.equal(await second.tryAcquire(), true);
    });

    it("is refreshed until it is released", async () => {
      const [first, second] = [make(2, SHORT), make(2, SHORT)];
      await first.acquire();
      await second.acquire();
      // Another one tries for longer than either would live.
      assert.equal(await make(2, { ...SHORT, acquireTimeout: 700 }).tryAcquire(), false);
      assert.ok(first.isAcquired && second.isAcquired);
    });

    it("ends by itself where nothing refreshes it", async () => {
      const one = make(2, { ...SHORT, refreshInterval: 0 });
      await one.acquire();
      await become();
      assert.equal(one.isAcquired, false);
    });

    it("is never had by more than its limit", async () => {
      const all = Array.from({ length: 12 }, () => make(4, { lockTimeout: 3000, acquireTimeout: 100 }));
      const had = await Promise.all(all.map((one) => one.tryAcquire()));
      assert.equal(had.filter(Boolean).length, 4);
      assert.equal(all.filter((one) => one.isAcquired).length, 4);
    });

    it("is had by all in the end, as its limit says at a time", async () => {
      let [inside, most] = [0, 0];
      const turn = async () => {
        const one = make(4, { lockTimeout: 3000, acquireTimeout: 8000 });
        await one.acquire();
        most = Math.max(most, ++inside);
        await new Promise((done) => setTimeout(done, 10));
        inside--;
        await one.release();
      };
      await Promise.all(Array.from({ length: 12 }, turn));
      assert.deepEqual([inside, most], [0, 4]);
    });

    it("may be told to refresh no more", async () => {
      const one = make(2, SHORT);
      await one.acquire();
      one.stopRefresh();
      await become();
    });

    it("tells of a loss", async () => {
      let tell;
      const told = new Promise((done) => (tell = done));
      const one = make(1, { ...SHORT, onLockLost: tell });
      await one.acquire();
      for (const server of servers) for (const key of await slots(server)) await server.set(key, "of somebody else");
      assert.ok((await told) instanceof LostLockError);
      assert.equal(one.isAcquired, false);
    });

    it("goes on with an identifier that another has acquired", async () => {
      const outside = make(2, { ...SHORT, refreshInterval: 0 });
      await outside.acquire();
      const inside = make(2, { ...SHORT, identifier: outside.identifier, acquiredExternally: true });
      await inside.acquire();
      assert.equal(inside.identifier, outside.identifier);
    });

    it("may be used again", async () => {
      const one = make(2, SHORT);
      for (let turn = 0; turn < 3; turn++) {
        await one.acquire();
        await become(one.identifier);
        await one.release();
        await become();
      }
    });
  });
}
