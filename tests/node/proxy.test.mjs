// Objects behind a `Proxy`, as containers and loggers make it, and methods that were taken from their objects.

import assert from "node:assert/strict";
import { after, test } from "node:test";

import { Client, InvalidArgumentError, redlock } from "../../node/dist/index.mjs";
import support from "./support.cjs";

const unhandled = support.noUnhandled();
after(() => assert.deepEqual(unhandled, []));

/** What containers make: a `Proxy` that hands all on, one that binds, and one that looks its object up at each use. */
const PROXIES = {
  "that hands all on": (object) => new Proxy(object, {}),
  "that hands the receiver on": (object) => new Proxy(object, { get: (target, name, receiver) => Reflect.get(target, name, receiver) }),
  "that binds": (object) =>
    new Proxy(object, {
      get(target, name) {
        const value = target[name];
        return typeof value === "function" ? value.bind(target) : value;
      },
    }),
  "that looks its object up": (object) => new Proxy({}, { get: (_target, name) => object[name], getPrototypeOf: () => Object.getPrototypeOf(object) }),
  "around another": (object) => new Proxy(new Proxy(object, {}), {}),
};

for (const [what, behind] of Object.entries(PROXIES)) {
  test(`a Proxy ${what}`, async () => {
    const client = behind(new Client("memory://proxied"));
    assert.match(client.toString(), /memory/);
    const lock = behind(client.lock("a"));
    const lease = behind(await lock.acquire());
    assert.deepEqual([lease.isHeld(), lease.fence > 0, lease.lossReason, lease.signal.aborted], [true, true, null, false]);
    assert.ok(lease.remaining() > 0);
    await lease.extend();
    assert.equal(await lock.tryAcquire(), null);
    assert.equal(await lock.isLocked(), true);
    await assert.rejects(lock.acquire({ wait: 0 }), /held/);
    assert.equal(await lease.release(), true);
    assert.equal(await lease.release(), false);
    const leases = behind(await behind(client.lockAll(["a", "b"])).acquire());
    assert.deepEqual([leases.isHeld(), leases.size, [...leases].length], [true, 2, 2]);
    await leases.release();
    const election = behind(client.election("e"));
    await election.campaign();
    assert.deepEqual([election.isLeader(), await election.resign()], [true, true]);
    assert.equal(await redlock("a", { client }, ({ fence }) => fence > 0), true);
    assert.equal(client.stats().acquired, 5);
    await client.close();
  });
}

test("a method without its object says what to do", async () => {
  const client = new Client("memory://detached");
  const found = client.lock("a");
  const lease = await found.acquire();
  const { lock } = client;
  const { acquire, isLocked } = found;
  const { release, isHeld, extend } = lease;
  // One that hides what it does not know.
  const hides = new Proxy(lease, { get: (target, name) => (typeof name === "string" ? target[name] : undefined) });
  const calls = { lock: () => lock("b"), acquire, isLocked, release, isHeld, extend, hidden: () => hides.release(), of: () => release.call({}) };
  for (const [name, call] of Object.entries(calls)) {
    await assert.rejects(
      async () => call(),
      (error) => {
        assert.ok(error instanceof InvalidArgumentError, `${name}: ${error}`);
        assert.match(error.message, /without its object: call it as `lease.release\(\)`, or bind it/, name);
        assert.ok(error.stack.includes("proxy.test.mjs") || name === "acquire", error.stack);
        return true;
      },
    );
  }
  assert.equal(await release.call(lease), true);
  await client.close();
});
