"use strict";
// What async-mutex promises of `Mutex`, `withTimeout` and `tryAcquire`, in our own words: its archive has no tests.
// Theirs is of one process and knows at once what ours asks a server; so what they do in one turn of the loop is awaited.

const assert = require("node:assert/strict");
const { setTimeout: pause } = require("node:timers/promises");
const { Mutex, withTimeout, tryAcquire, E_ALREADY_LOCKED, E_CANCELED, E_TIMEOUT } = require("../node/async-mutex.cjs");

for (const [kind, make] of [["Mutex", (error) => new Mutex(error)], ["withTimeout", () => withTimeout(new Mutex(), 5_000)]]) {
  describe(kind, () => {
    let mutex;
    beforeEach(() => {
      mutex = make();
    });

    it("has one owner at a time", async () => {
      let over = false;
      const release = await mutex.acquire();
      const second = mutex.acquire().then((next) => {
        assert.ok(over);
        return next();
      });
      await pause(20);
      over = true;
      await release();
      await second;
    });

    it("serves those who wait in the order in which they came", async () => {
      const order = [];
      const release = await mutex.acquire();
      const waiting = [1, 2, 3].map((number) => mutex.runExclusive(() => order.push(number)));
      await release();
      await Promise.all(waiting);
      assert.deepEqual(order, [1, 2, 3]);
    });

    it("serves the higher priority first", async () => {
      const order = [];
      const release = await mutex.acquire();
      const waiting = [0, -1, 1].map((priority) => mutex.runExclusive(() => order.push(priority), priority));
      await release();
      await Promise.all(waiting);
      assert.deepEqual(order, [1, 0, -1]);
    });

    it("passes the result of the work", async () => {
      assert.equal(await mutex.runExclusive(() => 10), 10);
      assert.equal(await mutex.runExclusive(() => Promise.resolve(10)), 10);
    });

    it("passes the error of the work, and is free after it", async () => {
      await assert.rejects(mutex.runExclusive(() => Promise.reject(new Error("foo"))), /foo/);
      const thrown = () => {
        throw new Error("foo");
      };
      await assert.rejects(mutex.runExclusive(thrown), /foo/);
      assert.equal(await mutex.runExclusive(() => "free"), "free");
    });

    it("runs one piece of work at a time", async () => {
      let inside = 0;
      const work = async () => {
        assert.equal(++inside, 1);
        await pause(1);
        inside--;
      };
      await Promise.all(Array.from({ length: 20 }, () => mutex.runExclusive(work)));
    });

    it("says whether it is locked", async () => {
      assert.equal(await mutex.isLocked(), false);
      const release = await mutex.acquire();
      assert.equal(await mutex.isLocked(), true);
      await release();
      assert.equal(await mutex.isLocked(), false);
    });

    it("is released by itself as by what acquire gave", async () => {
      await mutex.acquire();
      await mutex.release();
      await mutex.acquire();
      await mutex.release();
    });

    it("may be released when it is not locked, and twice", async () => {
      await mutex.release();
      const release = await mutex.acquire();
      await release();
      await release();
    });

    it("waits for the unlock", async () => {
      let over = false;
      const release = await mutex.acquire();
      const waiting = mutex.waitForUnlock().then(() => assert.ok(over));
      over = true;
      await release();
      await waiting;
    });

    it("cancels all who wait", async () => {
      const release = await mutex.acquire();
      const waiting = [mutex.acquire(), mutex.runExclusive(() => assert.fail("it ran"))];
      const ended = Promise.allSettled(waiting);
      mutex.cancel();
      for (const { reason } of await ended) assert.equal(reason, E_CANCELED);
      await release();
      assert.equal(await mutex.runExclusive(() => "free"), "free");
    });
  });
}

describe("Mutex alone", () => {
  it("cancels with an error of one's own", async () => {
    const error = new Error("of one's own");
    const mutex = new Mutex(error);
    await mutex.acquire();
    const waiting = mutex.acquire();
    mutex.cancel();
    await assert.rejects(waiting, error);
    await mutex.release();
  });
});

describe("withTimeout alone", () => {
  it("gives up when its time is over, and leaves nothing behind", async () => {
    const mutex = withTimeout(new Mutex(), 100);
    const release = await mutex.acquire();
    await assert.rejects(mutex.acquire(), E_TIMEOUT);
    await assert.rejects(mutex.runExclusive(() => assert.fail("it ran")), E_TIMEOUT);
    await release();
    assert.equal(await mutex.runExclusive(() => "free"), "free");
  });

  it("gives up with an error of one's own", async () => {
    const error = new Error("of one's own");
    const mutex = withTimeout(new Mutex(), 100, error);
    const release = await mutex.acquire();
    await assert.rejects(mutex.acquire(), error);
    await release();
  });
});

describe("tryAcquire alone", () => {
  it("acquires what is free", async () => {
    const release = await tryAcquire(new Mutex()).acquire();
    await release();
  });

  it("gives up at once, with its own error or another", async () => {
    for (const error of [undefined, new Error("of one's own")]) {
      const mutex = tryAcquire(new Mutex(), error);
      const release = await mutex.acquire();
      await assert.rejects(mutex.acquire(), error ?? E_ALREADY_LOCKED);
      await release();
    }
  });
});
