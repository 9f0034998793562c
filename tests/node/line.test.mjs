// The line in which calls of one client wait for a lock: its order, its bound, and leaving it.

import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { after, before, test } from "node:test";

import {
  Client,
  ClientClosedError,
  InvalidArgumentError,
  LockContendedError,
  LockTimeoutError,
  TooManyWaitersError,
  redlock,
} from "../../node/dist/index.mjs";
import support from "./support.cjs";

const { until } = support;
const nodes = ["memory://line1", "memory://line2", "memory://line3"];
const unhandled = support.noUnhandled();
let client;

before(() => {
  client = new Client({ nodes, ttl: 60_000, wait: null });
});
after(async () => {
  assert.equal(client.stats().waiting, 0);
  await client.close();
  assert.deepEqual(unhandled, []);
});

const waiting = (count) => until(() => client.stats().waiting === count);

/** Holds the lock for a moment, and notes it. */
async function hold(order, name, lock) {
  const lease = await lock.acquire();
  order.push(name);
  await lease.release();
}

test("those that wait get it in the order in which they came", async () => {
  const before = client.stats().attemptsLost;
  const lock = client.lock("order");
  const holder = await lock.acquire();
  const order = [];
  // In one turn of the event loop, and in turns of their own.
  const all = Array.from({ length: 20 }, (_, i) => hold(order, i, lock));
  await waiting(20);
  for (let i = 20; i < 25; i++) {
    all.push(hold(order, i, lock));
    await waiting(i + 1);
  }
  await holder.release();
  await Promise.all(all);
  assert.deepEqual(order, Array.from(all.keys()));
  // Only the first asked the nodes.
  assert.equal(client.stats().attemptsLost, before);
});

test("a signal takes one out of the middle of the line", async () => {
  const lock = client.lock("signal");
  const holder = await lock.acquire();
  const order = [];
  const first = hold(order, "first", lock);
  await waiting(1);
  const controller = new AbortController();
  const { signal } = controller;
  const second = lock.acquire({ signal });
  await waiting(2);
  const scope = redlock("signal", { client, signal }, assert.fail);
  await waiting(3);
  const last = hold(order, "last", lock);
  await waiting(4);
  const reason = { why: "no more" };
  const ends = Promise.allSettled([second, scope]);
  controller.abort(reason);
  for (const end of await ends) assert.equal(end.reason, reason);
  assert.equal(getEventListeners(signal, "abort").length, 0);
  await waiting(2);
  await holder.release();
  await Promise.all([first, last]);
  assert.deepEqual(order, ["first", "last"]);
});

test("a wait that ends in the line", async () => {
  const holder = await client.lock("ends").acquire();
  const timed = client.lock("ends").acquire({ wait: 40 });
  await assert.rejects(timed, (error) => error instanceof LockTimeoutError && /held/.test(error.message));
  const aborted = client.lock("ends").acquire({ signal: AbortSignal.timeout(40) });
  await assert.rejects(aborted, { name: "TimeoutError" });
  await waiting(0);
  await holder.release();
  await (await client.lock("ends").acquire()).release();
});

test("one more than maxWaiters is refused at once, and the others go on", async () => {
  // A wait that ends, so that one who is not refused is found out.
  const options = { maxWaiters: 1, wait: 5_000 };
  const lock = client.lock("many", options);
  const holder = await lock.acquire();
  const order = [];
  const waits = hold(order, "waits", lock);
  await waiting(1);
  const refused = (error) => error instanceof TooManyWaitersError && /maxWaiters/.test(error.message);
  await assert.rejects(lock.acquire(), refused);
  await assert.rejects(redlock("many", { client, ...options }, assert.fail), refused);
  // What does not wait takes no place.
  await assert.rejects(lock.acquire({ wait: 0 }), LockContendedError);
  assert.equal(await lock.tryAcquire(), null);
  // That of the client is larger.
  const more = hold(order, "more", client.lock("many"));
  await waiting(2);
  await holder.release();
  await Promise.all([waits, more]);
  assert.deepEqual(order, ["waits", "more"]);
});

test("maxWaiters of a client; with 0 nobody waits behind another", async () => {
  const few = new Client({ nodes, maxWaiters: 0 });
  const holder = await few.lock("few").acquire();
  await assert.rejects(few.lock("few").acquire(), TooManyWaitersError);
  await few.close();
  assert.equal(holder.isHeld(), false);
});

test("a fair lock is not passed on", async () => {
  for (const [options, passedOn] of [
    [{}, 1],
    [{ fair: true }, 0],
  ]) {
    const before = client.stats().passedOn;
    const holder = await client.lock("fair", options).acquire();
    const order = [];
    const all = [1, 2].map((name) => redlock("fair", { client, ...options }, () => order.push(name)));
    await waiting(2);
    await holder.release();
    await Promise.all(all);
    assert.deepEqual(order, [1, 2]);
    assert.equal(client.stats().passedOn, before + passedOn);
  }
});

test("close ends every wait in the line", async () => {
  const closing = new Client({ nodes, wait: null });
  const holder = await closing.lock("closed").acquire();
  const ends = Promise.allSettled(Array.from({ length: 3 }, () => closing.lock("closed").acquire()));
  await until(() => closing.stats().waiting === 3);
  await closing.close();
  for (const end of await ends) assert.ok(end.reason instanceof ClientClosedError, `${end.reason}`);
  assert.equal(holder.lossReason, "closed");
});

test("a wrong maxWaiters is refused by name and value", async () => {
  for (const [given, shown] of [
    [-1, "-1"],
    [2 ** 31, "2147483648"],
    [1.5, "1.5"],
    [NaN, "NaN"],
    [Infinity, "Infinity"],
    ["5", "'5'"],
    [null, "null"],
    [5n, "5n"],
  ]) {
    const expected = (error) => {
      assert.ok(error instanceof InvalidArgumentError, `${error}`);
      assert.equal(error.message, `${error.summary}: maxWaiters is ${shown}: give an integer, 0 to 2147483647`);
      return true;
    };
    assert.throws(() => new Client({ nodes, maxWaiters: given }), expected);
    assert.throws(() => client.lock("a", { maxWaiters: given }), expected);
    await assert.rejects(redlock("a", { client, maxWaiters: given }, assert.fail), expected);
  }
  for (const given of [0, 2 ** 31 - 1, undefined]) {
    await redlock("free", { client, maxWaiters: given }, (lease) => assert.ok(lease.isHeld()));
  }
});
