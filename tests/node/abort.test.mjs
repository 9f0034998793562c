// `signal`: reasons, instants, listeners, and nothing left behind.

import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { after, before, test } from "node:test";

import { Client, InvalidArgumentError } from "../../node/dist/index.mjs";
import support from "./support.cjs";

const unhandled = support.noUnhandled();
let servers, client;

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

test("aborts at random instants leave no key, and reject with the reason", async () => {
  const counts = { won: 0, aborted: 0 };
  const one = async (i) => {
    const controller = new AbortController();
    const reason = { number: i };
    const acquiring = client.lock(`instant:${i % 60}`).acquire({ wait: null, signal: controller.signal });
    // From before the first byte to after the last, most while it is won.
    const at = performance.now() + Math.random() * 3;
    while (Math.random() < 0.9 && performance.now() < at) await new Promise((resolve) => setImmediate(resolve));
    controller.abort(reason);
    try {
      const lease = await acquiring;
      counts.won++;
      assert.equal(await lease.release(), true);
    } catch (error) {
      assert.equal(error, reason);
      counts.aborted++;
    }
    assert.equal(getEventListeners(controller.signal, "abort").length, 0);
  };
  // How many are aborted in time depends on how fast the machine is.
  const enough = () => counts.won >= 50 && counts.aborted >= 100;
  for (let i = 0; i < 600 || (i < 6000 && !enough()); i += 30) {
    await Promise.all(Array.from({ length: 30 }, (_, j) => one(i + j)));
  }
  console.log(`won ${counts.won}, aborted ${counts.aborted}`);
  assert.ok(enough(), JSON.stringify(counts));
  await servers.awaitNoKeys();
  const stats = client.stats();
  assert.equal(stats.acquired, stats.released, "what was won during an abort is released");
});

test("tryAcquire may be aborted too", async () => {
  for (let i = 0; i < 100; i++) {
    const controller = new AbortController();
    const trying = client.lock("try").tryAcquire({ signal: controller.signal });
    setImmediate(() => controller.abort());
    const lease = await trying.catch((error) => {
      assert.equal(error.name, "AbortError");
      return null;
    });
    await lease?.release();
  }
  await servers.awaitNoKeys();
});

test("a signal that was aborted before: nothing is sent", async () => {
  const before = client.stats();
  await assert.rejects(
    client.lock("before").acquire({ signal: AbortSignal.abort("why") }),
    (reason) => reason === "why",
  );
  assert.deepEqual(client.stats().acquired, before.acquired);
});

test("the reason may be anything, undefined included", async () => {
  const holder = await client.lock("reasons").acquire();
  for (const reason of [new Error("mine"), "text", 0, null, Symbol("s")]) {
    const controller = new AbortController();
    const waiting = client.lock("reasons").acquire({ signal: controller.signal });
    setTimeout(() => controller.abort(reason), 5);
    const got = await waiting.then(assert.fail, (error) => error);
    assert.equal(got, reason);
  }
  const timeout = client.lock("reasons").acquire({ wait: null, signal: AbortSignal.timeout(20) });
  await assert.rejects(timeout, { name: "TimeoutError" });
  const any = AbortSignal.any([AbortSignal.timeout(20), new AbortController().signal]);
  await assert.rejects(client.lock("reasons").acquire({ wait: null, signal: any }), { name: "TimeoutError" });
  await holder.release();
});

test("an abort after the end does nothing", async () => {
  const controller = new AbortController();
  const lease = await client.lock("late").acquire({ signal: controller.signal });
  controller.abort();
  assert.equal(lease.isHeld(), true);
  assert.equal(await lease.release(), true);
});

test("a listener of the user's stays, and one signal serves a thousand calls", async () => {
  const controller = new AbortController();
  let told = 0;
  controller.signal.onabort = () => told++;
  const warnings = [];
  const onWarning = (warning) => warnings.push(warning);
  process.on("warning", onWarning);
  const locks = Array.from({ length: 100 }, (_, i) => client.lock(`many:${i}`));
  for (let i = 0; i < 10; i++) {
    const leases = await Promise.all(locks.map((lock) => lock.acquire({ signal: controller.signal })));
    await Promise.all(leases.map((lease) => lease.release()));
  }
  assert.equal(getEventListeners(controller.signal, "abort").length, 1);
  controller.abort();
  assert.equal(told, 1);
  await new Promise((resolve) => setImmediate(resolve));
  process.off("warning", onWarning);
  assert.deepEqual(warnings, []);
});

test("what is no signal is refused", async () => {
  await assert.rejects(client.lock("a").acquire({ signal: {} }), InvalidArgumentError);
  await assert.rejects(client.lock("a").acquire({ sginal: undefined, wiat: 5 }), InvalidArgumentError);
});
