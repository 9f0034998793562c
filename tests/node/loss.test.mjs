// Loss: the signal, the event, and that neither can end the process.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";

import { Client, LockLostError, redlock } from "../../node/dist/index.mjs";
import support from "./support.cjs";

const unhandled = support.noUnhandled();
let servers, client;
const steal = (key) => servers.tell("redis", "all", "SET", key, "other", "PX", 4000);

// Waiting for a loss alone keeps no process alive.
const alive = setInterval(() => {}, 1000);

/** Keeps JavaScript from running until the core has lost so many leases. */
function blockUntilLost(count) {
  const end = performance.now() + 10_000;
  while (client.stats().lost < count) assert.ok(performance.now() < end, "not lost");
}

before(async () => {
  servers = await support.stage("3");
  // So long that a lease is not over before a machine that stands still finds it stolen.
  client = new Client({ nodes: servers.nodes, ttl: 2000, nodeTimeout: 50 });
});
after(async () => {
  clearInterval(alive);
  await client.close();
  await servers.awaitNoKeys();
  await servers.stop();
  assert.deepEqual(unhandled, []);
});

test("the signal aborts with a LockLostError, and the client tells", async () => {
  const lease = await client.lock("stolen").acquire();
  const { signal } = lease;
  assert.equal(signal, lease.signal);
  const told = once(client, "lost");
  const aborted = once(signal, "abort");
  await steal("lock:{stolen}");
  await aborted;
  assert.ok(signal.reason instanceof LockLostError);
  assert.throws(() => signal.throwIfAborted(), LockLostError);
  const [loss] = await told;
  assert.equal(loss.lease, lease);
  assert.equal(loss.name, "stolen");
  assert.equal(loss.reason, "refused");
  assert.equal(loss.error, signal.reason);
  assert.equal(lease.isHeld(), false);
  assert.equal(await lease.release(), false);
});

test("a body is told by the signal and its normal end rejects", async () => {
  const steps = [];
  await assert.rejects(
    redlock("body", { client }, async (lease) => {
      // Listened to before: on a busy machine the loss may be there when the theft is acknowledged.
      const aborted = once(lease.signal, "abort");
      await steal("lock:{body}");
      await aborted;
      steps.push("told");
    }),
    LockLostError,
  );
  assert.deepEqual(steps, ["told"]);
});

test("unreachable nodes: the lease expires, and the signal tells", async () => {
  const lease = await client.lock("expires").acquire();
  await servers.tell("stop", "1,2");
  await once(lease.signal, "abort");
  assert.ok(["expired", "refused"].includes(lease.lossReason), lease.lossReason);
  await servers.tell("cont", "1,2");
});

test("a lease that is lost before JavaScript has seen it is not given", async () => {
  const lock = client.lock("unseen", { ttl: 300, renew: false });
  const told = [];
  const tell = (loss) => told.push(loss);
  client.on("lost", tell);
  for (const get of [() => lock.acquire(), () => lock.tryAcquire()]) {
    const { lost } = client.stats();
    const acquiring = get();
    await null;
    blockUntilLost(lost + 1);
    await assert.rejects(acquiring, (error) => {
      assert.ok(error instanceof LockLostError, `${error}`);
      assert.match(error.message, /expired/);
      return true;
    });
    // Given back: nobody has to wait for the collector.
    await (await client.lock("unseen").acquire({ wait: 0 })).release();
  }
  // Whoever never had it lost nothing.
  await support.sleep(20);
  assert.deepEqual(told, []);
  client.off("lost", tell);
});

test("no body begins under a lease that is lost already", async () => {
  const { lost } = client.stats();
  const running = redlock("unseen", { client, ttl: 300, renew: false }, async () => assert.fail("it ran"));
  await null;
  blockUntilLost(lost + 1);
  await assert.rejects(running, LockLostError);
});

test("a loss that nobody listens to does nothing", async () => {
  const quiet = new Client({ nodes: servers.nodes, ttl: 2000, nodeTimeout: 50 });
  const lease = await quiet.lock("quiet").acquire();
  await steal("lock:{quiet}");
  await support.until(() => lease.lossReason !== null);
  await quiet.close();
});

test("a release is no loss, also for one that is released while others are lost", async () => {
  const other = new Client(servers.nodes);
  const told = [];
  other.on("lost", ({ name, reason }) => told.push(`${name} ${reason}`));
  const [a, b] = [await other.lock("a").acquire(), await other.lock("b").acquire()];
  await a.release();
  await other.close();
  await support.until(() => told.length > 0);
  await support.sleep(20);
  assert.deepEqual(told, ["b closed"]);
  assert.equal(a.signal.aborted, false);
  assert.equal(b.signal.aborted, true);
});

test("what a listener throws is the user's, and holds up nothing", async () => {
  const { code, out, err } = await support.script(
    `
    const { Client } = require(process.env.QUORLOCK_MAIN);
    const seen = [];
    process.on("uncaughtException", (error) => seen.push(error.message));
    process.on("unhandledRejection", (error) => seen.push("rejection " + error.message));
    (async () => {
      const client = new Client({ nodes: process.env.QUORLOCK_NODES });
      client.on("lost", () => { throw new Error("mine"); });
      const leases = await Promise.all([1, 2, 3].map((i) => client.lock("thrown:" + i).acquire()));
      leases[0].signal.addEventListener("abort", () => { throw new Error("also mine"); });
      await client.close();
      await new Promise((resolve) => setTimeout(resolve, 50));
      console.log(seen.sort().join());
      console.log(leases.every((lease) => lease.signal.aborted));
    })();`,
    servers,
  );
  assert.equal(err, "");
  assert.equal(code, 0);
  assert.equal(out, "also mine,mine,mine,mine\ntrue\n");
});

test("no background failure ends the process or is a rejection", async () => {
  const { code, out, err } = await support.script(
    `
    const { Client } = require(process.env.QUORLOCK_MAIN);
    process.on("unhandledRejection", (error) => { console.log("rejection", error); process.exitCode = 9; });
    (async () => {
      const client = new Client({ nodes: "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3", wait: 50 });
      for (let i = 0; i < 3; i++) await client.lock("none").acquire().catch((error) => console.log(error.code));
      await new Promise((resolve) => setTimeout(resolve, 500));
    })();`,
    servers,
  );
  // It is told by nothing but warnings, one of each node.
  const told = err.split("\n").filter((line) => !/^$|QuorlockWarning: the node .* is not reached|--trace-warnings/.test(line));
  assert.deepEqual(told, []);
  assert.equal(code, 0);
  assert.equal(out, "ERR_QUORLOCK_QUORUM_UNAVAILABLE\n".repeat(3));
});

test("log lines come as events", async () => {
  const lines = [];
  client.on("log", (line) => lines.push(line));
  // Close to its longest life a lease warns: in the last fifth, which no machine stands still for.
  const lease = await client.lock("long", { maxHold: 4000 }).acquire();
  await once(lease.signal, "abort");
  assert.equal(lease.lossReason, "max_hold");
  await support.until(() => lines.length > 0);
  assert.equal(lines[0].level, "warn");
  assert.match(lines[0].message, /maxHold/);
  client.removeAllListeners("log");
});
