// Slots of a semaphore: as many holders as there are slots, and no more.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, InvalidArgumentError, LockContendedError, LockTimeoutError, redlock, semaphore } from "../../node/dist/index.mjs";

const client = (name) => new Client([0, 1, 2].map((node) => `memory://semaphore-${name}-${node}`));

test("as many hold it as there are slots", async () => {
  const [one, other] = [client("many"), client("many")];
  const leases = [await one.semaphore("api", 2).acquire(), await other.semaphore("api", 2).acquire()];
  assert.deepEqual(leases.map((lease) => lease.slot).sort(), [0, 1]);
  assert.equal(await one.semaphore("api", 2).tryAcquire(), null);
  await assert.rejects(one.semaphore("api", 2, { wait: 0 }).acquire(), LockContendedError);
  await assert.rejects(one.semaphore("api", 2, { wait: 50 }).acquire(), LockTimeoutError);
  // A lock of that name is another matter, and so is one slot more.
  const [lock, third] = [await one.lock("api").acquire(), await one.semaphore("api", 3).acquire()];
  assert.deepEqual([lock.slot, third.slot], [null, 2]);
  const waiting = one.semaphore("api", 2).acquire();
  const { slot, fence } = leases[1];
  await leases[1].release();
  const next = await waiting;
  assert.equal(next.slot, slot);
  assert.ok(next.fence > fence);
  for (const lease of [leases[0], lock, third, next]) await lease.release();
  assert.equal(next.slot, slot);
  await Promise.all([one.close(), other.close()]);
});

test("it is looked at and freed by its slots, and waited for without being taken", async () => {
  const [one, other] = [client("looked"), client("looked")];
  const api = one.semaphore("api", 2);
  // From here on it knows the nodes' clocks.
  await (await other.lock("warm").acquire()).release();
  assert.equal(await api.waitUntilFree({ wait: 0 }), true);
  const leases = [await other.semaphore("api", 2).acquire(), await other.semaphore("api", 2).acquire()];
  const found = await api.inspect();
  assert.deepEqual([found.verdict, found.slotsHeld, found.holder], ["held", 2, null]);
  assert.deepEqual(found.slots.map((slot) => slot.slot), [0, 1]);
  for (const lease of leases) assert.equal(found.slots[lease.slot].holder.fence, lease.fence);
  assert.equal(await api.isLocked(), true);
  const holder = await api.holder();
  assert.ok(leases.some((lease) => lease.fence === holder.fence));
  const lock = await one.inspect("api");
  assert.deepEqual([lock.verdict, lock.slotsHeld, lock.slots, lock.slot], ["free", 2, [], null]);
  assert.equal(await api.waitUntilFree({ wait: 100 }), false);
  const [{ slot, fence }, second] = leases;
  // The first lease found its slot free, so no other slot has ever counted its fence.
  await assert.rejects(api.forceRelease({ slot: second.slot, fence }), LockContendedError);
  for (const wrong of [{ fence }, { slot: 2 }, { slot: -1 }, { slot: 0.5 }]) {
    await assert.rejects(api.forceRelease(wrong), InvalidArgumentError);
  }
  await assert.rejects(one.lock("api").forceRelease({ slot: 0 }), InvalidArgumentError);
  await assert.rejects(api.waitUntilFree({ wait: -1 }), InvalidArgumentError);
  const waits = api.waitUntilFree();
  const forced = await api.forceRelease({ slot, fence });
  assert.equal(forced.found.slot, slot);
  assert.ok(forced.freed >= 2);
  assert.equal(await waits, true);
  assert.equal(second.isHeld(), true);
  assert.ok((await api.forceRelease()).freed >= 2);
  assert.equal((await api.inspect()).slotsHeld, 0);
  await Promise.all([one.close(), other.close()]);
});

test("work runs in as many places at once as there are slots", async () => {
  const of = client("scoped");
  let [inside, most] = [0, 0];
  const work = () =>
    semaphore("report", 3, { client: of, wait: Infinity }, async (lease) => {
      assert.ok(lease.slot >= 0 && lease.slot < 3);
      most = Math.max(most, ++inside);
      await new Promise((resolve) => setImmediate(resolve));
      inside--;
    });
  await Promise.all(Array.from({ length: 12 }, work));
  assert.deepEqual([inside, most], [0, 3]);
  await of.close();
});

test("a call within the work has another slot, unless its owner has a name", async () => {
  const of = client("within");
  await semaphore("a", 2, { client: of }, (outer) =>
    semaphore("a", 2, { client: of }, async (inner) => {
      assert.notEqual(outer.slot, inner.slot);
      await assert.rejects(redlock("a", { client: of, slots: 2, wait: 0 }, () => assert.fail("a third")), LockContendedError);
    }),
  );
  await semaphore("a", 2, { client: of, owner: "me" }, (outer) =>
    semaphore("a", 2, { client: of, owner: "me" }, (inner) => assert.equal(outer.token, inner.token)),
  );
  await of.close();
});

test("what makes no semaphore is refused", async () => {
  const of = client("refused");
  for (const slots of [0, 129, -1, 1.5, "two"]) {
    assert.throws(() => of.semaphore("a", slots), (error) => error instanceof InvalidArgumentError && /slots/.test(error.message));
  }
  assert.throws(() => of.semaphore("a", 2, { raw: true }), InvalidArgumentError);
  assert.throws(() => of.lock("a", { shared: true, slots: 2 }), InvalidArgumentError);
  const lease = await of.semaphore("a", 1).acquire();
  await assert.rejects(lease.downgrade(), InvalidArgumentError);
  await lease.release();
  await of.close();
});
