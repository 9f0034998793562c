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
