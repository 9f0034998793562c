// `keep`, and `once` on it: a job that every host starts, and one runs.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Client, InvalidArgumentError, LockTimeoutError, once, redlock } from "../../node/dist/index.mjs";
import support from "./support.cjs";

const { sleep } = support;
let servers, hosts;

before(async () => {
  servers = await support.stage("3");
  hosts = [new Client(servers.nodes), new Client(servers.nodes)];
});
after(async () => {
  await Promise.all(hosts.map((host) => host.close()));
  await servers.awaitNoKeys();
  await servers.stop();
});

test("one of two hosts runs the job, however soon it is done", async () => {
  const runs = await Promise.all(
    hosts.map((client, host) => once("one", { every: 2000, client }, async () => `host ${host}`)),
  );
  assert.equal(runs.filter((run) => run === undefined).length, 1);
  assert.equal(await once("one", { every: 2000, client: hosts[0] }, () => "again"), undefined);
});

test("the next time it runs again", async () => {
  const options = { every: 300, client: hosts[0] };
  assert.equal(await once("next", options, () => 1), 1);
  let run;
  for (let tries = 0; tries < 1000 && run === undefined; tries++) {
    run = await once("next", options, () => 2);
    await sleep(5);
  }
  assert.equal(run, 2);
});

test("a run that takes longer than every is not joined", async () => {
  const [first, second] = hosts;
  await once("long", { every: 1000, client: first }, async (lease) => {
    await assert.rejects(second.lock("long", { wait: 1200 }).acquire(), LockTimeoutError);
    assert.equal(await once("long", { every: 1000, client: second }, () => 1), undefined);
    assert.equal(lease.isHeld(), true);
  });
});

test("what the job throws comes out, and nobody repeats it", async () => {
  const client = hosts[0];
  const job = () => {
    throw new RangeError("of its own");
  };
  await assert.rejects(once("throws", { every: 200, client }, job), RangeError);
  assert.equal(await once("throws", { every: 200, client: hosts[1] }, () => 1), undefined);
});

test("once says what it needs", async () => {
  await assert.rejects(
    once("x", {}, () => 1),
    /how often/,
  );
  await assert.rejects(
    once("x", { every: 5, client: hosts[0] }, () => 1),
    (error) => error instanceof InvalidArgumentError && /20ms/.test(error.message),
  );
  await assert.rejects(
    once("x", { every: 50 }),
    /give a function/,
  );
  for (const option of [{ wait: 50 }, { owner: "me" }, { reentrant: true }]) {
    await assert.rejects(once("x", { every: 50, ...option }, assert.fail), /there is no option '(wait|owner|reentrant)' here/);
  }
});

test("a lock with keep stays taken behind its body", async () => {
  await redlock("kept", { client: hosts[0], keep: 200 }, () => 1);
  assert.equal(await hosts[1].lock("kept").tryAcquire(), null);
  await (await hosts[1].lock("kept").acquire()).release();
});

test("a lease that nobody got keeps nothing", async () => {
  const lock = hosts[0].lock("nobody", { keep: 60_000, wait: 0 });
  for (let micros = 0; micros < 3000; micros += 50) {
    const control = new AbortController();
    const won = lock.acquire({ signal: control.signal }).catch((error) => {
      // Contended: the one before was won as it was aborted, and is on its way back. One that were kept would be so for good.
      if (error.name === "AbortError" || error.code === "ERR_QUORLOCK_CONTENDED") return null;
      throw error;
    });
    const until = process.hrtime.bigint() + BigInt(micros * 1000);
    while (process.hrtime.bigint() < until) await new Promise(setImmediate);
    control.abort();
    const lease = await won;
    if (lease !== null) {
      assert.equal(lease.isHeld(), true);
      await lease.release();
      // The lock is kept from here on; the end of these tests does not wait for that.
      await servers.tell("redis", "all", "DEL", "lock:{nobody}");
      return;
    }
  }
  assert.fail("it is never won");
});
