// `quorlock/testing`: what docs/how-to/test-your-code.md does not show of it; and what is measured.

import assert from "node:assert/strict";
import { once as event } from "node:events";
import { createRequire } from "node:module";
import { test } from "node:test";

import { Client, InvalidArgumentError, LockContendedError, LockLostError, metricsText, redlock } from "../../node/dist/index.mjs";
import { held, lose, nodes } from "../../node/dist/testing.mjs";

test("nodes are no other test's", async () => {
  const [first, second] = [nodes(3), nodes()];
  assert.equal(new Set([...first, ...second]).size, 4);
  await redlock("own", { nodes: first }, () => redlock("own", { nodes: second }, () => {}));
});

test("a lock is lost at once, with that reason, and is free", async () => {
  const client = new Client(nodes(3));
  const lease = await client.lock("lost").acquire();
  assert.equal(lose("lost", "refused"), 1);
  assert.equal(lease.isHeld(), false);
  if (!lease.signal.aborted) await event(lease.signal, "abort");
  assert.equal(lease.lossReason, "refused");
  assert.equal(lose("lost"), 0);
  const next = await client.lock("lost").acquire();
  assert.equal(lose(Buffer.from("lost")), 1);
  await assert.rejects(next.ensure(0), LockLostError);
  await client.close();
});

test("somebody else holds it while a function runs", async () => {
  const own = nodes();
  const refused = () => assert.rejects(redlock("taken", { nodes: own, wait: 0 }, () => assert.fail()), LockContendedError);
  assert.equal(await held("taken", async () => (await refused(), "done"), { nodes: own, fencing: false }), "done");
  await assert.rejects(held("taken", () => Promise.reject(new RangeError("mine")), { nodes: own }), RangeError);
  await redlock("taken", { nodes: own, wait: 0 }, () => {});
});

test("what is no reason or no name is refused", () => {
  assert.throws(() => lose("a", "bored"), InvalidArgumentError);
  assert.throws(() => lose(7), InvalidArgumentError);
});

test("what is no number of nodes is refused", () => {
  for (const count of [-1, 0, 33, 1.5, NaN, 2 ** 32 + 1, "3", null]) assert.throws(() => nodes(count), InvalidArgumentError);
  assert.equal(nodes(32).length, 32);
});

test("both faces of the package have it", () => {
  const required = createRequire(import.meta.url)("../../node/dist/testing.js");
  assert.deepEqual([required.lose, required.held, required.nodes], [lose, held, nodes]);
});

test("a group is measured, and what is none is refused", async () => {
  await redlock("a", { nodes: nodes(), group: "of-node" }, () => {});
  assert.match(metricsText(), /^quorlock_hold_duration_seconds_count\{group="of-node",outcome="released",mode="exclusive"\} 1$/m);
  assert.throws(() => new Client({ nodes: nodes(), group: 7 }), InvalidArgumentError);
});
