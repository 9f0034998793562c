// Who holds a lock: isLocked, holder, inspect; and what an error tells of it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Client, InvalidArgumentError, LockTimeoutError, once, redlock, semaphore } from "../../node/dist/index.mjs";
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

test("a label of a lock and of one call", async () => {
  const seen = async () => (await other.lock("label").holder()).label;
  const lock = alex.lock("label", { label: "lock" });
  const several = alex.lockAll(["label", "b"], { label: "lock" });
  const election = alex.election("label", { label: "lock" });
  const call = { label: "call" };
  for (const [label, acquire] of [
    ["alex", () => alex.lock("label").acquire()],
    ["lock", () => lock.acquire()],
    ["call", () => lock.acquire(call)],
    ["call", () => lock.tryAcquire(call)],
    [null, () => lock.acquire({ label: "" })],
    ["lock", () => several.acquire()],
    ["call", () => several.acquire(call)],
    ["call", () => several.tryAcquire(call)],
    ["lock", () => election.campaign()],
    ["call", () => election.campaign(call)],
    ["lock", () => alex.rwlock("label", { label: "lock" }).read().acquire()],
  ]) {
    const lease = await acquire();
    assert.equal(await seen(), label);
    await lease.release();
  }
  const own = { nodes: servers.nodes, label: "own" };
  assert.equal(await redlock("label", own, seen), "own");
  assert.equal(await redlock("label", { client: alex, label: "own" }, seen), "own");
  assert.equal(await redlock(["label", "b"], own, seen), "own");
  assert.equal(await redlock.attempt("label", own, seen), "own");
  assert.equal(await once("label", { ...own, every: 1000, keep: 20, ttl: 10_000 }, seen), "own");
  assert.equal(await election.run(seen), "lock");
  // Nobody is told who has a slot.
  assert.equal(await semaphore("label", 1, own, (lease) => lease.isHeld()), true);
});

test("an acquire that enters a lease again leaves its label", async () => {
  const seen = async () => (await other.lock("again").holder()).label;
  const again = { client: alex, label: "second", reentrant: true };
  assert.equal(await redlock("again", { client: alex, label: "first" }, () => redlock("again", again, seen)), "first");
  const leases = [];
  for (const label of ["first", "second"]) leases.push(await alex.lock("again", { owner: "o" }).acquire({ label }));
  assert.equal(await seen(), "first");
  for (const lease of leases) await lease.release();
});

test("labels of calls without a client share one and its connections", async () => {
  const connected = async () => {
    const clients = await servers.tell("redis", 1, "CLIENT", "LIST", "TYPE", "normal");
    return clients.match(/\bid=/g).length;
  };
  await redlock("labels", { nodes: servers.nodes, label: "first" }, () => {});
  const before = await connected();
  for (let i = 0; i < 300; i++) await redlock("labels", { nodes: servers.nodes, label: `request ${i}` }, () => {});
  assert.equal(await connected(), before);
});

test("a label that is refused", async () => {
  const lock = alex.lock("refused");
  for (const label of ["l".repeat(257), "redis://user:secret@host\n", "\x7f", 5, null]) {
    for (const call of [
      () => new Client({ nodes: servers.nodes, label }),
      () => alex.lock("a", { label }),
      () => alex.lockAll(["a"], { label }),
      () => alex.election("a", { label }),
      () => lock.acquire({ label }),
      () => lock.tryAcquire({ label }),
      () => redlock("a", { nodes: servers.nodes, label }, assert.fail),
    ]) {
      const error = await (async () => call())().then(assert.fail, (error) => error);
      assert.ok(error instanceof InvalidArgumentError && /label is/.test(error.message), `${error}`);
      assert.doesNotMatch(error.message, /secret/);
    }
  }
  assert.equal(await lock.isLocked(), false);
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
