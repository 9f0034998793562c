// The lease by hand.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { inspect } from "node:util";
import v8 from "node:v8";
import vm from "node:vm";

import {
  Client,
  InvalidArgumentError,
  LockContendedError,
  LockLostError,
  NotOwnerError,
  redlock,
} from "../../node/dist/index.mjs";
import support from "./support.cjs";

v8.setFlagsFromString("--expose-gc");
const collect = vm.runInNewContext("gc");
const collected = async () => {
  for (let i = 0; i < 5; i++) {
    await new Promise((resolve) => setImmediate(resolve));
    collect();
  }
};
const unhandled = support.noUnhandled();
let servers, client;
const steal = (key) => servers.tell("redis", "all", "SET", key, "other", "PX", 2000);

before(async () => {
  servers = await support.stage("3");
  client = new Client({ nodes: servers.nodes, ttl: 10_000 });
});
after(async () => {
  await client.close();
  await servers.awaitNoKeys();
  await servers.stop();
  assert.deepEqual(unhandled, []);
});

test("held, remaining, extend, ensure, release", async () => {
  const lease = await client.lock("a", { renew: false, ttl: 5000 }).acquire();
  assert.equal(lease.name, "a");
  assert.equal(lease.isHeld(), true);
  assert.ok(lease.remaining() > 1000 && lease.remaining() <= 5000);
  await lease.extend(30_000);
  assert.ok(lease.remaining() > 20_000);
  // What is left is enough, though the ttl could not give it.
  await lease.ensure(20_000);
  await assert.rejects(lease.ensure(40_000), InvalidArgumentError);
  await assert.rejects(lease.ensure(Infinity), InvalidArgumentError);
  await assert.rejects(lease.extend(3_000_000), InvalidArgumentError);
  assert.equal(await lease.release(), true);
  assert.equal(lease.isHeld(), false);
  assert.equal(lease.remaining(), 0);
  assert.equal(await lease.release(), false);
  assert.equal(lease.lossReason, null);
  await assert.rejects(lease.extend(), NotOwnerError);
});

test("release ends the lease at once", async () => {
  const lease = await client.lock("at-once").acquire();
  const releasing = lease.release();
  await support.until(() => !lease.isHeld(), 100);
  assert.equal(await releasing, true);
  assert.deepEqual(await Promise.all([lease.release(), lease.release()]), [false, false]);
});

test("a release that waits for no answer is done when it returns", async () => {
  const lock = client.lock("unconfirmed");
  let lease = await lock.acquire();
  const done = lease.release({ confirm: false });
  // The promise is that of any release; nothing of it is still to come.
  assert.equal(lease.isHeld(), false);
  assert.equal(await done, true);
  assert.deepEqual([await lease.release({ confirm: false }), lease.lossReason], [false, null]);
  await servers.awaitNoKeys();
  lease = await lock.acquire();
  for (const wrong of [{ confirm: "no" }, { confirm: null }, { confirms: false }, 5, null]) {
    await assert.rejects(lease.release(wrong), InvalidArgumentError);
  }
  assert.equal(await lease.release({}), true);
  lease = await client.lock("unconfirmed", { renew: false, ttl: 200 }).acquire();
  await support.until(() => !lease.isHeld());
  assert.equal(await lease.release({ confirm: false }), false);
  assert.equal(lease.lossReason, "expired");
});

test("so does one whose lock says so, by hand and by the end of a body, of one lock and of several", async () => {
  const without = { confirm: false };
  const lease = await client.lock("unconfirmed", without).acquire();
  void lease.release();
  assert.equal(lease.isHeld(), false);
  const leases = await client.lockAll(["unconfirmed", "and"]).acquire();
  const done = leases.release({ confirm: false });
  assert.equal(leases.isHeld(), false);
  assert.deepEqual([await done, await leases.release(without)], [true, false]);
  let seen;
  await redlock("unconfirmed", { client, ...without }, (held) => (seen = held));
  assert.equal(seen.isHeld(), false);
  await redlock(["unconfirmed", "and"], { client, ...without }, (held) => (seen = held));
  assert.equal(seen.isHeld(), false);
  await servers.awaitNoKeys();
});

test("a lock that is to stay taken is not released so, and held on", async () => {
  assert.throws(() => client.lock("kept", { keep: 1000, confirm: false }), /keep is 1s.*confirm/);
  const lease = await client.lock("kept", { keep: 50 }).acquire();
  await assert.rejects(lease.release({ confirm: false }), (error) => error instanceof InvalidArgumentError && /keep is 50ms.*confirm/.test(error.message));
  assert.equal(lease.isHeld(), true);
  assert.equal(await lease.release({ confirm: true }), true);
});

test("wait: 0 once, null and Infinity forever", async () => {
  const lease = await client.lock("wait").acquire();
  await assert.rejects(client.lock("wait", { wait: 0 }).acquire(), LockContendedError);
  const waits = [null, Infinity].map((wait) => client.lock("wait").acquire({ wait }));
  await support.sleep(50);
  await lease.release();
  for (const waiting of await Promise.race([
    Promise.all(waits.map((w) => w.then((l) => l.release()))),
    support.sleep(5000),
  ])) {
    assert.equal(waiting, true);
  }
});

test("names may be bytes, and text must be well-formed", async () => {
  const name = Uint8Array.of(0xff, 0x00, 0x61);
  const lock = client.lock(name);
  name[0] = 0;
  const lease = await lock.acquire();
  assert.deepEqual(lease.name, Uint8Array.of(0xff, 0x00, 0x61));
  await servers.tell("expect-votes", "lock:{%FF%00a}", 3, 5000);
  await lease.release();
  // Neither the bytes that were given nor those that are shown are the key.
  lock.name[0] = 0;
  const again = await lock.acquire();
  await servers.tell("expect-votes", "lock:{%FF%00a}", 3, 5000);
  await again.release();
  assert.throws(() => client.lock("\ud800"), InvalidArgumentError);
});

test("a named owner re-enters, and releases by lock", async () => {
  const lock = client.lock("named", { owner: "me" });
  const [one, two] = [await lock.acquire(), await lock.acquire({ wait: 0 })];
  assert.equal(one.token, two.token);
  assert.equal(await lock.release(), true);
  assert.equal(await lock.release(), true);
  await assert.rejects(lock.release(), NotOwnerError);
  await assert.rejects(client.lock("named").release(), NotOwnerError);
});

test("the dispose symbol releases, and does not throw after a loss", async () => {
  const dispose = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");
  const lease = await client.lock("dispose").acquire();
  await lease[dispose]();
  assert.equal(lease.isHeld(), false);
  await lease[dispose]();
  const other = new Client(servers.nodes);
  const lost = await other.lock("dispose").acquire();
  await other[dispose]();
  assert.equal(lost.lossReason, "closed");
  await lost[dispose]();
});

test("a lease that nobody has is released; one whose lock or signal somebody has is not", async () => {
  await (async () => {
    await client.lock("forgotten").acquire();
  })();
  const lock = client.lock("kept");
  await lock.acquire();
  const signal = await (async () => (await client.lock("signal").acquire()).signal)();
  await collected();
  await servers.tell("await-free", "lock:{forgotten}", 5000);
  await servers.tell("expect-votes", "lock:{kept}", 3, 5000);
  await servers.tell("expect-votes", "lock:{signal}", 3, 5000);
  assert.equal(signal.aborted, false);
  assert.equal(lock.name, "kept");
});

test("neither token nor password is shown", async () => {
  const secret = new Client("redis://u:hunter2@127.0.0.1:1");
  const lease = await client.lock("shown").acquire();
  const shown = [secret, client, lease, client.lock("shown")].flatMap((it) => [
    inspect(it, { depth: 9, showHidden: true }),
    JSON.stringify(it),
    String(it),
  ]);
  for (const text of shown) assert.ok(!text.includes(lease.token) && !text.includes("hunter2"));
  assert.match(inspect(lease), /^Lease \{ 'shown', held, \d+ ms left \}$/);
  await lease.release();
  assert.match(inspect(lease), /released/);
  for (const nodes of ["redis://u:hunter2@h:x", ["http://:hunter2@h"], { nodes: 5 }]) {
    assert.throws(
      () => new Client(nodes),
      (error) => error instanceof InvalidArgumentError && !error.stack.includes("hunter2"),
    );
  }
});

test("extension after a loss", async () => {
  const lease = await client.lock("stolen", { renew: false }).acquire();
  await steal("lock:{stolen}");
  await assert.rejects(lease.extend(), LockLostError);
  assert.equal(lease.lossReason, "refused");
  assert.equal(lease.signal.aborted, true);
  assert.equal(lease.signal.reason.code, "ERR_QUORLOCK_LOCK_LOST");
  assert.equal(await lease.release(), false);
});

test("stats have numbers", () => {
  const stats = client.stats();
  assert.ok(stats.acquired > 0 && stats.released > 0);
  for (const [name, value] of Object.entries(stats)) assert.equal(typeof value, "number", name);
});
