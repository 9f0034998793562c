// One lock in two modes: many share it, or one has it alone.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, InvalidArgumentError, NotOwnerError, redlock, WouldDeadlockError } from "../../node/dist/index.mjs";

const client = (name) => new Client([0, 1, 2].map((node) => `memory://shared-${name}-${node}`));

test("many share it, and one has it alone", async () => {
  const [one, other] = [client("many"), client("many")];
  const prices = one.rwlock("prices");
  const readers = [await prices.read().acquire(), await prices.read().acquire(), await other.rwlock("prices").read().acquire()];
  assert.ok(readers.every((lease) => lease.isShared() && lease.isHeld()));
  assert.equal(await other.lock("prices").tryAcquire(), null);
  const most = Math.max(...readers.map((lease) => lease.fence));
  for (const lease of readers) assert.ok(await lease.release());
  const alone = await prices.write().acquire();
  assert.ok(!alone.isShared() && alone.fence > most);
  assert.equal(await other.lock("prices", { shared: true }).tryAcquire(), null);
  await alone.release();
  await Promise.all([one.close(), other.close()]);
});

test("many run in the scoped form at once, and one who wants it alone within that is refused", async () => {
  const shared = { client: client("scoped"), shared: true };
  let inside = 0;
  let all;
  const together = new Promise((resolve) => (all = resolve));
  const read = () =>
    redlock("a", shared, async (lease) => {
      inside += 1;
      if (inside === 5) all();
      await together;
      assert.ok(lease.isShared());
    });
  await Promise.all([read(), read(), read(), read(), read()]);
  await redlock("a", shared, async () => {
    await assert.rejects(
      redlock("a", { client: shared.client, reentrant: true }, async () => assert.fail("not alone")),
      (error) => error instanceof WouldDeadlockError && error.code === "ERR_QUORLOCK_WOULD_DEADLOCK",
    );
  });
  await shared.client.close();
});

test("a lease is downgraded, and who waits to share it comes in", async () => {
  const [one, other] = [client("down"), client("down")];
  const lease = await one.lock("a").acquire();
  const { fence } = lease;
  const reading = other.lock("a", { shared: true, wait: Infinity }).acquire();
  await lease.downgrade();
  const reader = await reading;
  assert.ok(lease.isShared() && lease.isHeld() && lease.fence === fence && reader.fence > fence);
  await lease.release();
  await assert.rejects(lease.downgrade(), NotOwnerError);
  assert.ok(!lease.isShared());
  await reader.release();
  await Promise.all([one.close(), other.close()]);
});

test("what does not go with it is refused", async () => {
  const one = client("refused");
  for (const options of [{ raw: true }, { keep: 1000 }]) {
    assert.throws(() => one.lock("a", { shared: true, ...options }), InvalidArgumentError);
  }
  assert.throws(() => one.lock("a", { shared: 1 }), /shared/);
  assert.throws(() => new Client({ shared: true }), /shared/);
  await one.close();
});
