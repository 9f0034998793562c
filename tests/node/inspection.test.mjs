// Who holds a lock: isLocked, holder, inspect; and what an error tells of it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Client, LockTimeoutError } from "../../node/dist/index.mjs";
import support from "./support.cjs";

let servers, alex, other;

before(async () => {
  servers = await support.stage("3");
  alex = new Client(servers.nodes, { label: "alex" });
  other = new Client(servers.nodes, { label: "" });
});
after(async () => {
  await Promise.all([alex.close(), other.close()]);
  await servers.awaitNoKeys();
  await servers.stop();
});

test("nobody holds it", async () => {
  const lock = alex.lock("free");
  assert.equal(await lock.isLocked(), false);
  assert.equal(await lock.holder(), null);
  const found = await alex.inspect("free");
  assert.equal(found.name, "free");
  assert.equal(found.verdict, "free");
  assert.equal(found.holder, null);
  assert.deepEqual(found.nodes.map(({ state }) => state), ["free", "free", "free"]);
});

test("somebody holds it, since when, and what each node has of that", async () => {
  // From here on the client knows the nodes' clocks.
  await (await alex.lock("warm").acquire()).release();
  const lease = await alex.lock("held").acquire();
  assert.equal(await other.lock("held").isLocked(), true);
  const holder = await other.lock("held").holder();
  assert.equal(holder.label, "alex");
  assert.ok(holder.votes >= 2);
  assert.ok(holder.left > 5000 && holder.left < 10_100, `${holder.left}`);
  assert.ok(holder.since instanceof Date);
  const found = await other.lock("held").inspect();
  assert.equal(found.verdict, "held");
  assert.equal(found.fence, lease.fence);
  assert.equal(found.queued, 0);
  for (const node of found.nodes.filter(({ state }) => state === "held")) {
    assert.equal(node.label, "alex");
    assert.equal(node.error, null);
    assert.equal(node.quarantine, 0);
  }
  assert.ok(!JSON.stringify(found).includes(lease.token));
  await lease.release();
});

test("an error names the lock and its holder", async () => {
  const lease = await alex.lock("named").acquire();
  const error = await other.lock("named").acquire({ wait: 100 }).then(assert.fail, (error) => error);
  assert.ok(error instanceof LockTimeoutError, `${error}`);
  assert.equal(error.lockName, "named");
  assert.equal(error.holder, "alex");
  await lease.release();
  const wrong = await alex.lock("x").acquire({ wait: -1 }).then(assert.fail, (error) => error);
  assert.equal(wrong.lockName, undefined);
});
