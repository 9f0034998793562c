// A lock that is taken away from whoever holds it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Client, InvalidArgumentError, LockContendedError } from "../../node/dist/index.mjs";
import support from "./support.cjs";

let servers, alex, operator;

before(async () => {
  servers = await support.stage("3");
  alex = new Client(servers.nodes, { label: "alex" });
  operator = new Client(servers.nodes);
});
after(async () => {
  await Promise.all([alex.close(), operator.close()]);
  await servers.awaitNoKeys();
  await servers.stop();
});

test("a forced holder learns it at its next renewal, and another gets the lock", async () => {
  const lease = await alex.lock("forced", { ttl: 1000 }).acquire();
  const forced = await operator.forceRelease("forced");
  assert.ok(forced.freed >= 2);
  assert.equal(forced.found.name, "forced");
  assert.equal(forced.found.verdict, "held");
  assert.equal(forced.found.holder.label, "alex");
  await support.until(() => lease.lossReason === "forced");
  assert.equal((await operator.inspect("forced")).verdict, "free");
  await (await operator.lock("forced").acquire({ wait: 5000 })).release();
});

test("forcing what nobody holds is no error", async () => {
  const forced = await operator.lock("nobody's").forceRelease();
  assert.equal(forced.freed, 0);
  assert.equal(forced.found.holder, null);
});

test("only the fence that is given is forced", async () => {
  const lease = await alex.lock("fenced").acquire();
  await assert.rejects(operator.forceRelease("fenced", { fence: lease.fence + 1 }), LockContendedError);
  await lease.extend();
  assert.ok((await operator.lock("fenced").forceRelease({ fence: lease.fence })).freed >= 2);
  for (const fence of [0, -1, 1.5, 2 ** 53, "1"]) {
    await assert.rejects(operator.forceRelease("fenced", { fence }), InvalidArgumentError);
  }
  await lease.release();
});
