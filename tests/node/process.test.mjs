// What a process owes to the addon: nothing keeps it alive, nothing ends it, and a busy loop loses no lease.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Worker } from "node:worker_threads";

import { Client } from "../../node/dist/index.mjs";
import support from "./support.cjs";

const { script } = support;
const unhandled = support.noUnhandled();
let servers;

before(async () => {
  servers = await support.stage("3");
});
after(async () => {
  await servers.awaitNoKeys();
  await servers.stop();
  assert.deepEqual(unhandled, []);
});

test("no lease is lost while the event loop is blocked for 5 × ttl", async () => {
  // So long that a machine which stands still for a second costs nobody the lease.
  const ttl = 1500;
  const client = new Client({ nodes: servers.nodes, ttl });
  const lost = [];
  client.on("lost", ({ name, reason }) => lost.push(`${name} ${reason}`));
  const leases = await Promise.all(Array.from({ length: 100 }, (_, i) => client.lock(`blocked:${i}`).acquire()));
  // Won, but not yet seen by JavaScript when the loop is blocked.
  const unseen = Array.from({ length: 20 }, (_, i) => client.lock(`unseen:${i}`).acquire());
  // What was started in this turn is on its way.
  await null;
  const end = performance.now() + 5 * ttl;
  while (performance.now() < end);
  assert.ok(leases.every((lease) => lease.isHeld()));
  leases.push(...(await Promise.all(unseen)));
  assert.ok(leases.every((lease) => lease.isHeld() && !lease.signal.aborted));
  assert.ok(client.stats().renewals > 100);
  assert.deepEqual(
    await Promise.all(leases.map((lease) => lease.release())),
    leases.map(() => true),
  );
  assert.deepEqual(lost, []);
  await client.close();
});

const HELD = `
  const { Client } = require(process.env.QUORLOCK_MAIN);
  const client = new Client({ ttl: 60_000, wait: null });
  const held = client.lock("left").acquire().then((lease) => (globalThis.lease = lease, lease));
`;

test("no thread of the library takes a signal of the program's", async () => {
  const { code, out, err } = await script(
    `${HELD} const fs = require("node:fs");
    held.then(() => {
      const tasks = fs.readdirSync("/proc/self/task").map((task) => fs.readFileSync(\`/proc/self/task/\${task}/status\`, "utf8"));
      const ours = tasks.filter((status) => status.startsWith("Name:\\tquorlock-"));
      // TERM, as bit 14 of 64.
      const takes = ours.filter((status) => !(BigInt("0x" + /SigBlk:\\s*(\\w+)/.exec(status)[1]) & (1n << 14n)));
      console.log(ours.length > 0, takes.length);
    });`,
    servers,
  );
  assert.deepEqual([code, out, err], [0, "true 0\n", ""]);
  await servers.awaitNoKeys();
});

test("a script ends by itself while a client is open and a lease is held, and its lease is released", async () => {
  const { code, out, err } = await script(`${HELD} held.then((lease) => console.log(lease.isHeld()));`, servers);
  assert.deepEqual([code, out, err], [0, "true\n", ""]);
  await servers.awaitNoKeys();
});

test("what is released or closed right before the end is released, however late it is sent", { skip: process.platform !== "linux" }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "quorlock-"));
  try {
    const env = { LD_PRELOAD: support.lateSends(folder) };
    for (const end of ["", "process.exit();"]) {
      for (let round = 0; round < 4; round++) {
        // A close begins when the running function has ended, and beside another call not on the thread that exits.
        const closes = 'client.lock("other").isLocked().catch(() => {}); void client.close(); await null; await null;';
        const unconfirmed = "void lease.release({ confirm: false });";
        for (const last of ["void lease.release();", unconfirmed, `client.lock("other").isLocked().catch(() => {}); ${unconfirmed}`, closes]) {
          const text = `${HELD} held.then(async (lease) => { ${last} ${end} });`;
          const ends = await script(text, { ...servers, env });
          assert.deepEqual([ends.code, ends.err], [0, ""]);
          await servers.awaitNoKeys();
        }
      }
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("process.exit and an uncaught error release what is held, too", async () => {
  const exits = await script(`${HELD} held.then(() => process.exit(3));`, servers);
  assert.deepEqual([exits.code, exits.err], [3, ""]);
  await servers.awaitNoKeys();
  const throws = await script(`${HELD} held.then(() => { throw new Error("mine"); });`, servers);
  assert.equal(throws.code, 1);
  await servers.awaitNoKeys();
});

test("SIGTERM and SIGINT release what is held, with the line that the README offers", async () => {
  const readme = readFileSync(join(support.PACKAGE, "README.md"), "utf8");
  const [line, ...others] = readme.split("\n").filter((line) => /process\.once\(signal/.test(line));
  assert.deepEqual(others, []);
  for (const [signal, status] of [["SIGTERM", 143], ["SIGINT", 130]]) {
    const text = `${line}\n${HELD} setInterval(() => {}, 1000); held.then(() => console.log(process.pid));`;
    const ended = await script(text, { ...servers, heard: (said) => process.kill(Number(said), signal) });
    assert.deepEqual([ended.code, ended.signal, ended.err], [status, null, ""]);
    await servers.awaitNoKeys();
  }
});

test("a script that does nothing, or only has a client, ends at once", async () => {
  for (const text of ["require(process.env.QUORLOCK_MAIN)", "new (require(process.env.QUORLOCK_MAIN).Client)()"]) {
    assert.deepEqual(await script(text, servers), { code: 0, signal: null, out: "", err: "" });
  }
});

test("while an operation is awaited the process lives", async () => {
  const client = new Client(servers.nodes);
  const lease = await client.lock("left").acquire();
  // The timer is over then, and the wait alone keeps it alive.
  const heard = (said) => said === "waiting\n" && setTimeout(() => lease.release(), 400);
  const { code, out } = await script(
    `${HELD} held.then((lease) => console.log("won")); require("node:timers").setTimeout(() => console.log("waiting"), 100);`,
    { ...servers, heard },
  );
  assert.deepEqual([code, out], [0, "waiting\nwon\n"]);
  await client.close();
});

test("an aborted wait keeps nothing alive", async () => {
  const client = new Client(servers.nodes);
  const lease = await client.lock("left").acquire();
  const begun = performance.now();
  const { code, out } = await script(
    `const { Client } = require(process.env.QUORLOCK_MAIN);
     new Client({ wait: null }).lock("left").acquire({ signal: AbortSignal.timeout(50) }).catch((error) => console.log(error.name));
     setTimeout(() => {}, 100);`,
    servers,
  );
  assert.deepEqual([code, out], [0, "TimeoutError\n"]);
  assert.ok(performance.now() - begun < 5000);
  await lease.release();
  await client.close();
});

const WORKER = `
  const { parentPort, workerData } = require("node:worker_threads");
  const { Client, redlock } = require(process.env.QUORLOCK_MAIN);
  const client = (globalThis.client = new Client(workerData.nodes, { ttl: 60_000 }));
  (async () => {
    globalThis.lease = await client.lock("worker:" + workerData.i).acquire();
    const waits = client.lock("worker:" + workerData.i).acquire({ wait: workerData.i % 4 === 1 ? null : 0 });
    waits.catch(() => {});
    await redlock("scoped:" + workerData.i, { client }, async () => {});
    parentPort.postMessage("holds");
    // Busy until it is terminated, at any point of an operation.
    while (workerData.i % 4 === 3) {
      const lease = await client.lock("busy:" + (workerData.i % 8)).acquire();
      await lease.release();
    }
  })();
`;

async function workers(count, nodes) {
  const { Worker } = await import("node:worker_threads");
  for (let i = 0; i < count; i++) {
    const worker = new Worker(WORKER, { eval: true, workerData: { i, nodes } });
    const ended = new Promise((resolve) => worker.once("exit", resolve));
    await new Promise((resolve, reject) => {
      worker.once("message", resolve);
      worker.once("error", reject);
    });
    if (i % 2 === 1) await worker.terminate();
    await ended;
  }
}

test("200 workers start, use it and end, and leave neither lock nor connection", async () => {
  process.env.QUORLOCK_MAIN = support.MAIN;
  const client = new Client(servers.nodes);
  const lease = await client.lock("main").acquire();
  const before = process.memoryUsage().rss;
  await workers(200, servers.nodes);
  assert.equal(lease.isHeld(), true);
  assert.equal(await lease.release(), true);
  await client.close();
  await servers.awaitNoKeys();
  const grown = (process.memoryUsage().rss - before) / 2 ** 20;
  console.log(`rss grew by ${grown.toFixed(0)} MB`);
  assert.ok(grown < 100, `${grown} MB`);
  // Only the stage's own connection is left.
  await support.until(async () => {
    const clients = await servers.tell("redis", "1", "CLIENT", "LIST");
    return clients.trim().split("\n").length <= 2;
  });
});

test("the same where only workers have loaded it", async () => {
  const { code, out, err } = await script(
    `const WORKER = ${JSON.stringify(WORKER)};
     ${workers.toString()}
     workers(200, process.env.QUORLOCK_NODES).then(() => console.log("done"));`,
    { ...servers, seconds: 120 },
  );
  assert.deepEqual([code, out, err], [0, "done\n", ""]);
  await servers.awaitNoKeys();
});

test("the nodes of the environment are those of the thread that asks", async () => {
  const worker = new Worker(
    `const { parentPort } = require("node:worker_threads");
     const { inspect } = require("node:util");
     const { Client, redlock } = require(${JSON.stringify(support.MAIN)});
     (async () => {
       const seen = [inspect(new Client())];
       // Nothing listens at the nodes of the process.
       await redlock("environment", { wait: 0 }, async (lease) => seen.push(lease.isHeld()));
       process.env.QUORLOCK_NODES = "memory://later";
       seen.push(inspect(new Client()));
       delete process.env.QUORLOCK_NODES;
       seen.push(inspect(new Client()));
       process.env.QUORLOCK_NODES = Buffer.from("redis://u:secret\xff@127.0.0.1", "latin1").toString();
       for (const make of [() => new Client(), () => redlock("environment", () => {})]) {
         seen.push(await (async () => make())().catch((error) => error.code + ": " + error.message));
       }
       parentPort.postMessage(seen);
     })();`,
    { eval: true, env: { ...process.env, QUORLOCK_NODES: "memory://of-the-worker" } },
  );
  const [seen] = await Promise.race([once(worker, "message"), once(worker, "error").then(([error]) => Promise.reject(error))]);
  const refused =
    "ERR_QUORLOCK_INVALID_ARGUMENT: An argument or option is not valid: the environment variable QUORLOCK_NODES is not UTF-8: give URLs, with %XX for other bytes";
  const [own, held, later, none, ...others] = seen;
  assert.match(own, /memory:\/\/of-the-worker/);
  assert.match(later, /memory:\/\/later/);
  assert.match(none, /127\.0\.0\.1:6379/);
  assert.deepEqual([held, ...others], [true, refused, refused]);
  await worker.terminate();
});

test("what is not given comes from the environment of the thread", async () => {
  const variables = { QUORLOCK_MAX_TTL: "2s", QUORLOCK_NAMESPACE: "own:", QUORLOCK_SET_NAME: "orders" };
  const before = { ...process.env };
  Object.assign(process.env, variables);
  try {
    const client = new Client({ nodes: ["memory://variables"] });
    assert.throws(() => client.lock("a", { ttl: 3000 }), /above maxTtl \(2s\)/);
    const own = new Client({ nodes: ["memory://variables"], maxTtl: 5000 });
    await (await own.lock("a", { ttl: 3000 }).acquire()).release();
    process.env.QUORLOCK_MAX_TTL = "s3cret-and-long";
    assert.throws(() => new Client({ nodes: ["memory://variables"] }), (error) => {
      return error.message.includes("QUORLOCK_MAX_TTL") && !error.message.includes("s3cret");
    });
    await Promise.all([client.close(), own.close()]);
  } finally {
    for (const name of Object.keys(variables)) delete process.env[name];
    Object.assign(process.env, before);
  }
});

test("several workers at once contend for one lock", async () => {
  const counter = new Int32Array(new SharedArrayBuffer(8));
  const text = `
    const { workerData } = require("node:worker_threads");
    const { Client, redlock } = require(process.env.QUORLOCK_MAIN);
    (async () => {
      const client = new Client(workerData.nodes);
      for (let i = 0; i < 15; i++) {
        await redlock("counter", { client }, async () => {
          const read = workerData.counter[0];
          if (Atomics.add(workerData.counter, 1, 1) !== 0) throw new Error("two at once");
          await new Promise((resolve) => setTimeout(resolve, 1));
          workerData.counter[0] = read + 1;
          Atomics.sub(workerData.counter, 1, 1);
        });
      }
    })();`;
  const all = [1, 2, 3, 4].map(() => new Worker(text, { eval: true, workerData: { nodes: servers.nodes, counter } }));
  const codes = await Promise.all(
    all.map((worker) => new Promise((resolve, reject) => worker.once("exit", resolve).once("error", reject))),
  );
  assert.deepEqual(codes, [0, 0, 0, 0]);
  assert.equal(counter[0], 60);
});

test("a leased process that is killed costs at most the ttl", async () => {
  const { signal } = await script(
    `const { Client } = require(process.env.QUORLOCK_MAIN);
     new Client({ ttl: 500 }).lock("killed").acquire().then(() => process.kill(process.pid, "SIGKILL"));`,
    servers,
  );
  assert.equal(signal, "SIGKILL");
  const client = new Client(servers.nodes);
  const begun = performance.now();
  // Far less than the ttl by default, and more than a machine stands still.
  await (await client.lock("killed").acquire({ wait: 8000 })).release();
  assert.ok(performance.now() - begun < 4000);
  await client.close();
});
