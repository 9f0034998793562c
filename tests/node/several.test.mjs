// Several locks at once: all of them, or none.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import {
  Client,
  InvalidArgumentError,
  Lease,
  Leases,
  LockContendedError,
  LockLostError,
  Locks,
  LockTimeoutError,
  NotOwnerError,
  once,
  redlock,
} from "../../node/dist/index.mjs";
import { lose } from "../../node/dist/testing.mjs";
import support from "./support.cjs";

const require = createRequire(import.meta.url);
const unhandled = support.noUnhandled();
let servers, client, other;

before(async () => {
  servers = await support.stage("3");
  [client, other] = [new Client(servers.nodes), new Client(servers.nodes)];
});
after(async () => {
  await Promise.all([client.close(), other.close()]);
  await servers.awaitNoKeys();
  await servers.stop();
  assert.deepEqual(unhandled, []);
});

/** Has another's value under the lock's key on all nodes. */
async function steal(name) {
  for (const node of [1, 2, 3]) await servers.tell("redis", node, "SET", `lock:{${name}}`, "thief", "PX", 60000);
}

async function giveBack(name) {
  for (const node of [1, 2, 3]) await servers.tell("redis", node, "DEL", `lock:{${name}}`);
}

const free = (name) => support.until(async () => !(await other.lock(name).isLocked()));

test("several locks are held for a body, each with its fence", async () => {
  let kept;
  const result = await redlock(["c", "a", "b", "a"], { client }, async (leases) => {
    kept = leases;
    assert.ok(leases instanceof Leases);
    assert.equal(leases.size, 3);
    assert.deepEqual([...leases].map((lease) => lease.name), ["a", "b", "c"]);
    assert.ok([...leases].every((lease) => lease instanceof Lease && lease.isHeld()));
    assert.deepEqual([...leases.fences.keys()], ["a", "b", "c"]);
    assert.equal(leases.fences.get("b"), leases.get("b").fence);
    assert.ok(Number.isSafeInteger(leases.fences.get("b")));
    assert.equal(leases.get("d"), undefined);
    assert.equal(leases.get(Buffer.from("b")), leases.get("b"));
    assert.equal(leases.get("{b}"), leases.get("b"));
    assert.ok(leases.isHeld() && leases.remaining() > 5000);
    await leases.extend(20_000);
    await leases.ensure(5000);
    assert.ok(leases.remaining() > 15_000);
    for (const name of ["a", "b", "c"]) assert.equal(await other.lock(name).tryAcquire(), null);
    assert.deepEqual([leases.lostName, leases.lossReason, leases.signal.aborted], [null, null, false]);
    return "done";
  });
  assert.equal(result, "done");
  assert.ok(!kept.isHeld() && kept.remaining() === 0 && !kept.signal.aborted);
  assert.equal(await kept.release(), false);
  assert.ok([...kept].every((lease) => !lease.isHeld()));
  assert.equal(await kept.get("a").release(), false);
  await assert.rejects(kept.extend(), NotOwnerError);
  await assert.rejects(kept.ensure(5), NotOwnerError);
  await servers.awaitNoKeys();
});

test("none is held where another has one of them", async () => {
  const locks = client.lockAll(["a", "b", "c"]);
  assert.ok(locks instanceof Locks);
  assert.deepEqual(locks.names, ["a", "b", "c"]);
  const held = await other.lock("b").acquire();
  assert.equal(await locks.tryAcquire(), null);
  const about = (errorClass) => (error) => error instanceof errorClass && error.lockName === "b";
  await assert.rejects(locks.acquire({ wait: 0 }), about(LockContendedError));
  await assert.rejects(locks.acquire({ wait: 200 }), about(LockTimeoutError));
  await assert.rejects(redlock(["a", "b"], { client, wait: 0 }, assert.fail), about(LockContendedError));
  assert.equal(await redlock.attempt(["b", "a"], { client }, assert.fail), undefined);
  assert.equal(await redlock.attempt(["b", "a"], { client, wait: 50 }, assert.fail), undefined);
  await free("a");
  await free("c");
  const waits = redlock.attempt(["c", "b"], { client, wait: 20_000 }, (leases) => leases.isHeld());
  await held.release();
  assert.equal(await waits, true);
  await servers.awaitNoKeys();
});

test("await using releases several leases, and so does release", async () => {
  const locks = client.lockAll(["a", "b"]);
  const leases = await locks.tryAcquire();
  await leases[Symbol.asyncDispose]();
  assert.ok(!leases.isHeld());
  const again = await locks.acquire();
  assert.equal(await again.release(), true);
  // One that is released by itself is held no more, and the others are.
  const third = await locks.acquire();
  assert.equal(await third.get("a").release(), true);
  assert.ok(!third.isHeld() && third.get("b").isHeld());
  await free("a");
  assert.equal(await third.release(), false);
  await servers.awaitNoKeys();
});

test("a call enters several of the locks around it again", async () => {
  const again = { client, reentrant: true, wait: 0 };
  await redlock(["a", "b"], { client }, async (leases) => {
    await redlock("b", again, (lease) => assert.equal(lease.fence, leases.get("b").fence));
    await redlock(["b", "a"], again, (both) => assert.deepEqual(both.fences, leases.fences));
    assert.equal(await redlock.attempt(["b"], { client }, assert.fail), undefined);
    assert.ok(leases.isHeld());
  });
  await redlock("b", { client }, async (lease) => {
    await redlock(["a", "b"], again, (both) => assert.equal(both.get("b").fence, lease.fence));
    assert.ok(lease.isHeld());
  });
  // Each of them is of another body.
  await redlock("b", { client }, (b) =>
    redlock("a", { client }, async (a) => {
      await redlock(["a", "b", "c"], again, (all) => {
        assert.deepEqual([all.get("a").token, all.get("b").token], [a.token, b.token]);
      });
      assert.ok(a.isHeld() && b.isHeld());
    }),
  );
  await servers.awaitNoKeys();
});

test("two who ask for several in opposite orders go on", async () => {
  let inside = 0;
  const work = async (of, order) => {
    for (let i = 0; i < 10; i++) {
      await redlock(order, { client: of, wait: 60_000 }, async () => {
        assert.equal(++inside, 1);
        await support.sleep(0);
        inside--;
      });
    }
  };
  await Promise.all([work(client, ["a", "b", "c"]), work(other, ["c", "b", "a"]), work(client, ["b", "c"])]);
  await servers.awaitNoKeys();
});

test("the loss of one of several is the loss of all", async () => {
  const told = [];
  const listener = ({ name, reason }) => told.push([name, reason]);
  client.on("lost", listener);
  let kept;
  const lost = redlock(["a", "b"], { client, ttl: 1500 }, async (leases) => {
    kept = leases;
    const { signal } = leases;
    let heard = 0;
    signal.addEventListener("abort", () => heard++);
    await steal("b");
    await support.until(() => heard > 0);
    assert.equal(heard, 1);
    assert.ok(signal.reason instanceof LockLostError);
    assert.equal(signal.reason.lockName, "b");
    assert.deepEqual([leases.lostName, leases.lossReason], ["b", "refused"]);
    assert.ok(!leases.isHeld() && leases.remaining() === 0);
    // Nobody comes in before the work has stopped.
    assert.ok(leases.get("a").isHeld());
    await assert.rejects(leases.extend(), LockLostError);
  });
  await assert.rejects(lost, (error) => error instanceof LockLostError && error.lockName === "b");
  // Also after the release, and to who asks late.
  assert.deepEqual([kept.lostName, kept.lossReason], ["b", "refused"]);
  assert.deepEqual(told, [["b", "refused"]]);
  client.off("lost", listener);
  await giveBack("b");
  await servers.awaitNoKeys();
});

test("a signal that is asked for after the loss has aborted", async () => {
  const leases = await client.lockAll(["a", "b"], { ttl: 1500 }).acquire();
  await steal("a");
  await support.until(() => leases.lostName === "a");
  assert.ok(leases.signal.aborted);
  assert.equal(leases.signal.reason.lockName, "a");
  assert.equal(await leases.release(), false);
  await giveBack("a");
  await servers.awaitNoKeys();
});

test("a body that fails has its own error, and releases all", async () => {
  const own = new RangeError("of its own");
  const failed = redlock(["a", "b"], { client }, () => {
    throw own;
  });
  await assert.rejects(failed, (error) => error === own);
  await servers.awaitNoKeys();
});

test("a wait for several that is aborted leaves nothing", async () => {
  const held = await other.lock("b").acquire();
  const end = new AbortController();
  const waits = client.lockAll(["a", "b", "c"]).acquire({ wait: null, signal: end.signal });
  await support.until(() => client.stats().queued === 1);
  end.abort(new RangeError("enough"));
  await assert.rejects(waits, RangeError);
  await free("a");
  await held.release();
  await servers.awaitNoKeys();
});

test("several that were won when nobody awaits them any more are released", async () => {
  for (let i = 0; i < 20; i++) {
    const end = new AbortController();
    const won = client.stats().acquired;
    const waits = client.lockAll(["a", "b"], { keep: 60_000 }).acquire({ signal: end.signal });
    // The turn is submitted; the loop is busy until both are won, and has taken nothing.
    await Promise.resolve().then(() => {});
    const stop = Date.now() + 5000;
    while (client.stats().acquired < won + 2 && Date.now() < stop);
    assert.equal(client.stats().acquired, won + 2);
    end.abort(new RangeError("too late"));
    await assert.rejects(waits, RangeError);
    await servers.awaitNoKeys();
  }
});

test("what a listener aborts in the turn in which it was won is released, and kept for nobody", async () => {
  for (const names of [["a"], ["a", "b"]]) {
    for (let i = 0; i < 10; i++) {
      const end = new AbortController();
      const before = await client.lock("c").acquire();
      before.signal.addEventListener("abort", () => end.abort(new RangeError("too late")));
      const won = client.stats().acquired;
      // Told in one turn: first the loss, whose listener aborts, and then what was won.
      assert.equal(lose("c"), 1);
      const lock = names.length > 1 ? client.lockAll(names, { keep: 60_000 }) : client.lock("a", { keep: 60_000 });
      const waits = lock.acquire({ signal: end.signal });
      await Promise.resolve().then(() => {});
      const stop = Date.now() + 5000;
      while (client.stats().acquired < won + names.length && Date.now() < stop);
      assert.equal(client.stats().acquired, won + names.length);
      await assert.rejects(waits, RangeError);
      await servers.awaitNoKeys();
    }
  }
});

test("several that are lost before the event loop sees them are none", async () => {
  const waits = client.lockAll(["a", "b"], { ttl: 300, renew: false }).acquire();
  await Promise.resolve().then(() => {});
  const stop = Date.now() + 1000;
  while (Date.now() < stop);
  await assert.rejects(waits, LockLostError);
  await servers.awaitNoKeys();
});

test("several that nobody has are released when they are collected", async () => {
  const script = `
    const { Client } = require(process.env.QUORLOCK_MAIN);
    const collect = require("node:vm").runInNewContext("gc");
    (async () => {
      const client = new Client();
      const acquire = async () => (await client.lockAll(["x", "y"]).acquire()).isHeld();
      console.log(await acquire());
      const other = new Client();
      const end = Date.now() + 10000;
      let leases = null;
      while (leases === null && Date.now() < end) {
        await new Promise(setImmediate);
        collect();
        leases = await other.lockAll(["y", "x"]).tryAcquire();
      }
      console.log(leases !== null);
      const [first] = leases;
      leases = await other.lockAll(["y", "x"]).tryAcquire();
      console.log(first.isHeld(), leases);
      await first.release();
    })();
  `;
  const done = await support.script(script, { nodes: servers.nodes, flags: ["--expose-gc"] });
  assert.equal(done.code, 0, done.err);
  assert.deepEqual(done.out.trim().split("\n"), ["true", "true", "true null"]);
  await servers.awaitNoKeys();
});

test("names that cannot be held together are refused at once", async () => {
  const many = Array.from({ length: 17 }, (_, i) => `n${i}`);
  for (const [names, word] of [
    [[], /no name/],
    [many, /17 locks/],
    [["a", ""], /name/],
    [["a", 7], /a name is 7/],
    ["ab", /array of names/],
    [undefined, /array of names/],
  ]) {
    assert.throws(() => client.lockAll(names), (error) => error instanceof InvalidArgumentError && word.test(error.message));
  }
  assert.throws(() => client.lockAll(["a"], { ttl: 0 }), InvalidArgumentError);
  await assert.rejects(redlock([], { client }, assert.fail), /no name/);
  await assert.rejects(redlock(["a"], { client }), /give a function/);
  await assert.rejects(once(["a"], { client, every: 1000 }, assert.fail), /a string or a Uint8Array/);
  await assert.rejects(client.lockAll(["a"]).acquire({ wait: -1 }), InvalidArgumentError);
  const locks = client.lockAll([...many.slice(0, 16), ...many.slice(0, 3)]);
  await using_(await locks.acquire(), (leases) => assert.equal(leases.size, 16));
  await servers.awaitNoKeys();
});

async function using_(leases, work) {
  await work(leases);
  await leases.release();
}

test("names that are bytes are those that were given", async () => {
  const bytes = new Uint8Array([0xff, 0x01]);
  const locks = client.lockAll([bytes, "a"]);
  bytes[0] = 0x61;
  await using_(await locks.acquire(), (leases) => {
    assert.deepEqual(leases.get(new Uint8Array([0xff, 0x01])).name, new Uint8Array([0xff, 0x01]));
    assert.equal(leases.get(bytes), undefined);
    assert.match(require("node:util").inspect(leases), /^Leases \{ 'a', Uint8Array.*held, \d+ ms left \}$/s);
  });
  await servers.awaitNoKeys();
});

test("both faces of the package have the same several locks", async () => {
  const common = require("../../node/dist/index.js");
  assert.deepEqual([common.Locks, common.Leases], [Locks, Leases]);
  assert.equal(await common.redlock(["a", "b"], { client }, (leases) => leases instanceof Leases), true);
});
