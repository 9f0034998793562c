// What is given away is delivered, or taken back: each call that gives something, in each moment in which its caller may go.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { Worker } from "node:worker_threads";

import { Client } from "../../node/dist/index.mjs";
import { lose, nodes } from "../../node/dist/testing.mjs";
import support from "./support.cjs";

const unhandled = support.noUnhandled();
// The longest there is: nothing that is left behind ends while a test looks.
const options = { ttl: 60_000, wait: 20_000, nodeTimeout: 5000 };
// Within so many milliseconds what nobody was given is free.
const SOON = 10_000;
let servers, client, next;

before(async () => {
  servers = await support.stage("3");
  [client, next] = [new Client({ nodes: servers.nodes, ...options }), new Client({ nodes: servers.nodes, ...options })];
});
after(async () => {
  await Promise.all([client.close(), next.close()]);
  await servers.stop();
  assert.deepEqual(unhandled, []);
});

// Each may be given up by a signal. Kept is what its caller has had.
const calls = {
  acquire: (client, signal) => client.lock("a", { keep: 50_000 }).acquire({ signal }),
  tryAcquire: (client, signal) => client.lock("a", { keep: 50_000 }).tryAcquire({ signal }),
  several: (client, signal) => client.lockAll(["b", "a"], { keep: 50_000 }).acquire({ signal }),
  trySeveral: (client, signal) => client.lockAll(["b", "a"], { keep: 50_000 }).tryAcquire({ signal }),
  slot: (client, signal) => client.semaphore("slots", 2).acquire({ signal }),
};

/** Somebody else has each of them soon. */
async function assertFree(next) {
  const all = [next.lock("a"), next.lock("b"), next.semaphore("slots", 2), next.semaphore("slots", 2)];
  const leases = await Promise.all(all.map((one) => one.acquire({ wait: SOON })));
  await Promise.all(leases.map((lease) => lease.release()));
}

test("a call that is aborted while nodes do not answer leaves nothing", async () => {
  for (const [name, call] of Object.entries(calls)) {
    for (const turns of [0, 1, 5]) {
      const controller = new AbortController();
      await Promise.all([servers.tell("stop", 1), servers.tell("stop", 2)]);
      const calling = call(client, controller.signal);
      for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve));
      controller.abort(name);
      await assert.rejects(calling, (reason) => reason === name);
      await Promise.all([servers.tell("cont", 1), servers.tell("cont", 2)]);
      await assertFree(next);
    }
  }
});

test("a call that is aborted by what comes right before its result leaves nothing", async () => {
  const set = nodes(3);
  const [one, other] = [0, 1].map(() => new Client({ nodes: set, ...options }));
  for (const [name, call] of Object.entries(calls)) {
    const held = await Promise.all(["a", "b"].map((lock) => other.lock(lock).acquire()));
    const slots = await Promise.all([0, 1].map(() => other.semaphore("slots", 2).acquire()));
    const controller = new AbortController();
    const first = await one.lock("first").acquire();
    first.signal.addEventListener("abort", () => controller.abort(name));
    const before = one.stats().acquired;
    let calling;
    const begin = () => {
      calling = call(one, controller.signal);
      calling.catch(() => {});
    };
    const tries = name.startsWith("try");
    if (!tries) {
      begin();
      await support.until(() => one.stats().waiting + one.stats().queued > 0);
    } else {
      await Promise.all([...held, ...slots].map((lease) => lease.release()));
    }
    // Told of both at once, and of the loss first: the loop is busy until there is a result.
    assert.equal(lose("first"), 1);
    if (tries) begin();
    else for (const lease of [...held, ...slots]) void lease.release();
    // What this turn has begun is submitted when the turn's functions have ended.
    for (let i = 0; i < 20; i++) await null;
    const won = name.endsWith("everal") ? 2 : 1;
    for (const end = performance.now() + SOON; one.stats().acquired < before + won && performance.now() < end; );
    assert.equal(one.stats().acquired, before + won);
    await assert.rejects(calling, (reason) => reason === name);
    await assertFree(other);
  }
  await Promise.all([one.close(), other.close()]);
});

test("a worker that is terminated while nodes do not answer leaves nothing", async () => {
  for (const name of [...Object.keys(calls), "export", "adopt"]) {
    const text = name === "adopt" ? await (await next.lock("a").acquire()).export() : "";
    const worker = new Worker(
      `
      const { parentPort, workerData } = require("node:worker_threads");
      const { Client } = require(workerData.main);
      const calls = { ${Object.entries(calls).map(([name, call]) => `${name}: ${call}`).join(", ")} };
      const client = new Client(workerData.options);
      (async () => {
        const lease = workerData.name === "export" ? await client.lock("a").acquire() : await (await client.lock("c").acquire()).release();
        parentPort.once("message", () => {
          if (workerData.name === "export") void lease.export();
          else if (workerData.name === "adopt") void client.adopt(workerData.text);
          else void calls[workerData.name](client);
          setImmediate(() => parentPort.postMessage("begun"));
        });
        parentPort.postMessage("ready");
      })();
      `,
      { eval: true, workerData: { main: support.MAIN, options: { nodes: servers.nodes, ...options }, name, text } },
    );
    await once(worker, "message");
    await Promise.all([servers.tell("stop", 1), servers.tell("stop", 2)]);
    worker.postMessage("begin");
    await once(worker, "message");
    await worker.terminate();
    await Promise.all([servers.tell("cont", 1), servers.tell("cont", 2)]);
    await assertFree(next);
  }
});
