// All that the package does later than at once, under whatever timers there are.

"use strict";

const assert = require("node:assert/strict");

module.exports = async function cycle({ Client, LockLostError, redlock }) {
  const client = new Client({ maxHold: 3000, ttl: 2000 });
  const lines = [];
  client.on("log", ({ message }) => lines.push(message));
  const lock = client.lock("faked");
  const first = await lock.acquire();
  assert.equal(await lock.tryAcquire(), null);
  const controller = new AbortController();
  const aborted = assert.rejects(lock.acquire({ signal: controller.signal }), /enough/);
  controller.abort(new Error("enough"));
  await aborted;
  const waiting = lock.acquire();
  assert.equal(await first.release(), true);
  await (await waiting).release();
  assert.equal(await redlock("faked", { client }, ({ fence }) => fence > 0), true);

  // Close to its longest life a lease warns, and then it is lost.
  const lost = new Promise((resolve) => client.once("lost", resolve));
  const lease = await lock.acquire();
  const told = new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
  assert.equal((await lost).reason, "max_hold");
  await told;
  assert.ok(lease.signal.reason instanceof LockLostError);
  assert.match(lines.join(), /maxHold|max_hold/);
  await client.close();
};
