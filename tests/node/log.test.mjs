// The log: a line waits for everything else, and is told by the process where nothing listens.

import assert from "node:assert/strict";
import { after, test } from "node:test";

import support from "./support.cjs";

const unhandled = support.noUnhandled();
after(() => assert.deepEqual(unhandled, []));
const servers = { nodes: "memory://log" };

// Close to its longest life a lease warns, and then it is lost.
const LEASES = `
  const { Client } = require(process.env.QUORLOCK_MAIN);
  const client = new Client({ ttl: 400, maxHold: 1000 });
  const block = (until) => { const end = performance.now() + 20_000; while (!until() && performance.now() < end); };
`;

test("losses, stop signals and what is awaited come before log lines, whatever listens to those", async () => {
  const { code, out, err } = await support.script(
    `${LEASES}
    const told = [];
    process.on("uncaughtException", ({ message }) => told.push("uncaught " + message));
    client.on("log", () => {
      told.push("line");
      const begun = performance.now();
      block(() => performance.now() > begun + 50);
      throw new Error("of a line");
    });
    client.on("lost", ({ name }) => {
      told.push("lost " + name);
      throw new Error("of " + name);
    });
    (async () => {
      const [a, b] = [await client.lock("a").acquire(), await client.lock("b").acquire()];
      b.signal.addEventListener("abort", () => told.push("aborted b"));
      client.lock("c", { maxHold: null }).acquire().then(() => told.push("won c"));
      // What was started in this turn is on its way, and the loop is blocked until all has happened.
      await null;
      block(() => client.stats().lost === 2 && client.stats().acquired === 3);
      while (told.filter((what) => what === "line").length < 2) await new Promise(setImmediate);
      const first = told.indexOf("line");
      console.log(told.slice(0, first).sort().join());
      console.log(told.includes("uncaught of a line"), a.lossReason);
      process.exit();
    })();`,
    servers,
  );
  assert.deepEqual([code, err], [0, ""]);
  assert.equal(out, "aborted b,lost a,lost b,uncaught of a,uncaught of b,won c\ntrue max_hold\n");
});

test("a warning is the process's where nothing listens, and not where something does", async () => {
  for (const listens of [false, true]) {
    const { code, out, err } = await support.script(
      `${LEASES}
      const isMeant = (message) => /max_hold|maxHold/.test(message);
      process.on("warning", ({ name, code, message }) => isMeant(message) && console.log("warning", name, code));
      ${listens ? 'client.on("log", ({ level, message }) => isMeant(message) && console.log("log", level));' : ""}
      client.lock("a").acquire().then((lease) => setTimeout(() => lease.release(), 1500));`,
      { ...servers, flags: ["--no-warnings"] },
    );
    assert.deepEqual([code, err], [0, ""]);
    const lines = [...new Set(out.trim().split("\n"))];
    assert.deepEqual(lines, [listens ? "log warn" : "warning QuorlockWarning QUORLOCK_LOG"]);
  }
});
