// A lease that goes on in another client.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, InvalidArgumentError, LockLostError, NotOwnerError, redlock } from "../../node/dist/index.mjs";

const client = (name) => new Client([0, 1, 2].map((node) => `memory://adopt-${name}-${node}`));

test("a lease goes on with a larger fence, once", async () => {
  const [one, other] = [client("once"), client("once")];
  for (const name of ["orders", Buffer.from([0, 255, 7])]) {
    const first = await one.lock(name).acquire();
    const text = await first.export();
    assert.equal(typeof text, "string");
    assert.ok(!first.isHeld() && first.lossReason === null && !first.signal.aborted);
    assert.equal(await first.release(), false);
    await assert.rejects(first.export(), NotOwnerError);
    assert.equal(await one.lock(name).tryAcquire(), null);
    const second = await other.adopt(text);
    assert.ok(second.isHeld() && second.fence > first.fence);
    assert.deepEqual(second.name, name);
    await assert.rejects(one.adopt(text), LockLostError);
    await second.extend();
    assert.ok(await second.release());
    assert.ok((await one.lock(name).tryAcquire()) !== null);
  }
  await Promise.all([one.close(), other.close()]);
});

test("a scope whose lease was exported ends without an error", async () => {
  const one = client("scope");
  let text;
  await redlock("orders", { client: one }, async (lease) => {
    text = await lease.export();
  });
  assert.ok(await (await one.adopt(text)).release());
  await one.close();
});

test("of an export and a release side by side one comes first", async () => {
  const [one, other] = [client("beside"), client("beside")];
  for (const releaseFirst of [true, false]) {
    const lease = await one.lock("orders").acquire();
    const begin = [() => lease.export(), () => lease.release()];
    if (releaseFirst) begin.reverse();
    const done = await Promise.allSettled(begin.map((one) => one()));
    if (releaseFirst) done.reverse();
    const [exported, released] = done;
    assert.equal(exported.status === "fulfilled", released.value === false);
    if (exported.status === "rejected") assert.ok(exported.reason instanceof NotOwnerError, String(exported.reason));
    else assert.ok(await (await other.adopt(exported.value)).release());
    const next = await other.lock("orders").tryAcquire();
    assert.ok(next !== null && (await next.release()));
  }
  await Promise.all([one.close(), other.close()]);
});

test("who has adopted a lease is told of its loss", async () => {
  const [one, other] = [client("loss"), client("loss")];
  const text = await (await one.lock("orders").acquire()).export();
  const told = new Promise((resolve) => other.once("lost", resolve));
  const lease = await other.adopt(text);
  await other.close();
  const loss = await told;
  assert.ok(loss.lease === lease && loss.name === "orders" && loss.reason === "closed");
  assert.ok(lease.signal.aborted);
  await one.close();
});

test("what cannot go on is refused, and no text is shown", async () => {
  const one = client("refused");
  const shared = await one.lock("orders", { shared: true }).acquire();
  await assert.rejects(shared.export(), (error) => error instanceof InvalidArgumentError && /shared/.test(error.message));
  assert.ok(shared.isHeld() && (await shared.release()));
  const text = await (await one.lock("orders").acquire()).export();
  for (const wrong of [text.slice(0, -2), "quorlock9.abc", "", undefined, Buffer.from(text)]) {
    await assert.rejects(one.adopt(wrong), (error) => error instanceof InvalidArgumentError && !error.message.includes(text.slice(20, 40)));
  }
  assert.ok(await (await one.adopt(text)).release());
  await one.close();
});
