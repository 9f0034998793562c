// Fences: numbers that grow with every hold.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";

import { Client, redlock } from "../../node/dist/index.mjs";
import support from "./support.cjs";

const unhandled = support.noUnhandled();
let servers, client;
const counter = (name) => `lock:%23f:{${name}}`;

before(async () => {
  servers = await support.stage("3");
  client = new Client(servers.nodes);
});
after(async () => {
  await client.close();
  await servers.awaitNoKeys();
  await servers.stop();
  assert.deepEqual(unhandled, []);
});

test("a fence is a safe integer, larger with every hold, whoever holds and however it is acquired", async () => {
  const other = new Client({ nodes: servers.nodes });
  const fences = [];
  for (const from of [client, other, client]) {
    const lease = await from.lock("a").acquire();
    fences.push(lease.fence);
    await lease.release();
    const tried = await from.lock("a", { ttl: 5000 }).tryAcquire();
    fences.push(tried.fence);
    await tried.release();
    fences.push(await redlock("a", { client: from }, (held) => held.fence));
  }
  assert.equal(fences.length, 9);
  assert.ok(fences.every(Number.isSafeInteger), `${fences}`);
  assert.ok(fences[0] > 0);
  for (let i = 1; i < fences.length; i++) assert.ok(fences[i] > fences[i - 1], `${fences}`);
  await other.close();
});

test("it is the number that a quorum of nodes stores, digit for digit", async () => {
  const lease = await client.lock("stored").acquire();
  const stored = (await servers.tell("redis", "all", "ZSCORE", counter("stored"), "f")).trim().split("\n");
  assert.ok(stored.filter((line) => line === String(lease.fence)).length >= 2, `${lease.fence}: ${stored}`);
  await lease.release();
  // Near the end of what is exact.
  await servers.tell("await-free", "lock:{stored}", 5000);
  await servers.tell("redis", "all", "ZADD", counter("stored"), "9007199254740981", "f");
  const last = await client.lock("stored").acquire();
  assert.equal(last.fence, 9007199254740982);
  await last.release();
  await servers.tell("redis", "all", "DEL", counter("stored"));
});

test("re-entry keeps it", async () => {
  await redlock("nested", { client }, async (outer) => {
    await redlock("nested", { client, reentrant: true, wait: 0 }, (inner) => assert.equal(inner.fence, outer.fence));
  });
  const lock = client.lock("named", { owner: "me" });
  const [one, two] = [await lock.acquire(), await lock.acquire()];
  assert.equal(one.fence, two.fence);
  await Promise.all([one.release(), two.release()]);
  const next = await lock.acquire();
  assert.ok(next.fence > one.fence);
  await next.release();
});

test("release and loss leave it as it was", async () => {
  const lease = await client.lock("kept").acquire();
  const { fence } = lease;
  await lease.release();
  assert.ok(fence > 0);
  assert.equal(lease.fence, fence);
  const other = new Client(servers.nodes);
  const told = once(other, "lost");
  const lost = await other.lock("kept").acquire();
  const later = lost.fence;
  assert.ok(later > fence);
  await other.close();
  const [loss] = await told;
  assert.deepEqual([lost.fence, loss.lease.fence], [later, later]);
});

test("without fences it is null, during the hold and after, and there is no counter", async () => {
  const plain = new Client({ nodes: servers.nodes, fencing: false });
  const ways = [
    plain.lock("plain"),
    client.lock("plain", { fencing: false }),
    plain.lock("plain", { fencing: false }),
  ];
  for (const lock of ways) {
    const lease = await lock.acquire();
    assert.equal(lease.fence, null);
    await lease.release();
    assert.equal(lease.fence, null);
  }
  assert.equal(await redlock("plain", { client, fencing: false }, ({ fence }) => fence), null);
  await servers.tell("expect", "all", "0", "EXISTS", counter("plain"));
  // What the lock says wins.
  const fenced = await plain.lock("fenced", { fencing: true }).acquire();
  assert.ok(fenced.fence > 0);
  await fenced.release();
  await plain.close();
});
