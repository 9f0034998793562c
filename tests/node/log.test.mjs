// The log: a line waits for everything else, and is told by the process where nothing listens.

import assert from "node:assert/strict";
import { after, test } from "node:test";

import support from "./support.cjs";

const unhandled = support.noUnhandled();
after(() => assert.deepEqual(unhandled, []));
const servers = { nodes: "memory://log" };

// Close to its longest life a lease warns, and then it is lost: in the last fifth, which no machine stands still for.
const LEASES = `
  const { Client } = require(process.env.QUORLOCK_MAIN);
  const client = new Client({ ttl: 2000, maxHold: 3000 });
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
      client.lock("c", { ttl: 60_000, maxHold: null }).acquire().then(() => told.push("won c"));
      // What was started in this turn is on its way, and the loop is blocked until all has happened.
      await null;
      block(() => client.stats().lost === 2 && client.stats().acquired === 3);
      while (told.filter((what) => what === "line").length < 2) await new Promise(setImmediate);
      const first = told.indexOf("line");
      console.log(told.slice(0, first).sort().join());
      console.log(told.includes("uncaught of a line"), a.isHeld());
      process.exit();
    })();`,
    servers,
  );
  assert.deepEqual([code, err], [0, ""]);
  assert.equal(out, "aborted b,lost a,lost b,uncaught of a,uncaught of b,won c\ntrue false\n");
});

test("a warning is the process's where nothing listens, and not where something does", async () => {
  for (const listens of [false, true]) {
    const { code, out, err } = await support.script(
      `${LEASES}
      const alive = setInterval(() => {}, 1000);
      const heard = (...words) => {
        clearInterval(alive);
        console.log(...words);
      };
      const isMeant = (message) => /max_hold|maxHold/.test(message);
      process.on("warning", ({ name, code, message }) => isMeant(message) && heard("warning", name, code));
      ${listens ? 'client.on("log", ({ level, message }) => isMeant(message) && heard("log", level));' : ""}
      void client.lock("a").acquire();`,
      { ...servers, flags: ["--no-warnings"] },
    );
    assert.deepEqual([code, err], [0, ""]);
    const lines = [...new Set(out.trim().split("\n"))];
    assert.deepEqual(lines, [listens ? "log warn" : "warning QuorlockWarning QUORLOCK_LOG"]);
  }
});

test("lines of a kind have one template, and what differs in fields", async () => {
  const { code, out, err } = await support.script(
    `${LEASES}
    const lines = [];
    client.on("log", (line) => lines.push(line));
    (async () => {
      for (const name of ["a", "b"]) await client.lock(name).acquire();
      await client.election("c").run(() => { throw new Error("mine"); }, { signal: AbortSignal.timeout(400) }).catch(() => {});
      while (lines.filter(({ event }) => event === "lease_lost").length < 2) await new Promise((resolve) => setTimeout(resolve, 10));
      const kinds = new Map();
      for (const { message, event, template, fields } of lines) {
        if (kinds.has(event) && kinds.get(event) !== template) console.log("two templates of", event);
        kinds.set(event, template);
        const filled = template.replace(/\\{(\\w+)\\}/g, (_, name) => fields[name]);
        if (filled !== message) console.log(event, "is not", message);
      }
      const of = (wanted) => lines.filter(({ event }) => event === wanted).map(({ fields }) => fields);
      console.log(JSON.stringify(of("lease_lost").map(({ lock, reason }) => [lock, reason]).sort()));
      const [{ lock, reason }] = of("leader_failed");
      console.log(lock, reason, lines.find(({ event }) => event === "leader_failed").error.message);
    })();`,
    servers,
  );
  assert.deepEqual([code, err], [0, ""]);
  assert.equal(out, '[["a","max_hold"],["b","max_hold"]]\nc Error: mine mine\n');
});
