// Leader election: one of several candidates does the work, and another takes over.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import {
  Client,
  ClientClosedError,
  Election,
  InvalidArgumentError,
  Lease,
  LockLostError,
  LockTimeoutError,
  QuorumUnavailableError,
} from "../../node/dist/index.mjs";
import support from "./support.cjs";

const require = createRequire(import.meta.url);
const unhandled = support.noUnhandled();
let servers, one, other, watcher;

before(async () => {
  servers = await support.stage("3");
  // Renewed soon, so that a loss is found soon.
  const made = (label) => new Client(servers.nodes, { label, ttl: 1500 });
  [one, other, watcher] = [made("one"), made("other"), made("watcher")];
});
after(async () => {
  await Promise.all([one, other, watcher].map((client) => client.close()));
  await servers.awaitNoKeys();
  await servers.stop();
  assert.deepEqual(unhandled, []);
});

const aborted = async ({ signal }) => {
  if (!signal.aborted) await once(signal, "abort");
};

/** A candidate that leads until it is told to end. It notes its terms, and is ended by `end`. */
function candidate(client, name, options = {}) {
  const election = client.election(name);
  const control = new AbortController();
  const found = { election, terms: [], inside: 0, most: 0 };
  const work = async (term) => {
    found.most = Math.max(found.most, ++found.inside);
    found.terms.push(term);
    await aborted(term);
    // It takes its time to stop.
    await support.sleep(20);
    found.inside--;
  };
  const runs = election.run(work, { ...options, signal: control.signal });
  found.end = async () => {
    const reason = new RangeError("enough");
    control.abort(reason);
    await assert.rejects(runs, (error) => error === reason);
    assert.equal(found.inside, 0);
    assert.ok(found.most <= 1, `${found.most} at once`);
  };
  return found;
}

/** Resigns, and again where it came back past the others: a home that answers late, on a busy machine, keeps no order. */
async function passOn(from, next) {
  assert.equal(await from.resign(), true);
  await support.until(async () => next() || (from.isLeader() && (await from.resign(), false)));
}

test("the next candidate leads when one resigns", async () => {
  const stopped = [];
  const first = candidate(one, "next", { onStopped: () => stopped.push(first.inside) });
  await support.until(() => first.terms.length === 1);
  const [term] = first.terms;
  assert.ok(term instanceof Lease && term.isHeld() && first.election.isLeader());
  const second = candidate(other, "next");
  await support.until(() => other.stats().queued === 1);
  const seen = watcher.election("next");
  const leader = await seen.leader();
  assert.equal(leader.label, "one");
  assert.ok(leader.fence >= term.fence);
  assert.ok(!second.election.isLeader());
  assert.match(require("node:util").inspect(first.election), /^Election \{ 'next', leads \}$/);
  // It campaigns again, behind the other, and leads after that.
  let settled = false;
  const resigned = first.election.resign().then((held) => ((settled = true), held));
  assert.ok(term.signal.aborted);
  assert.equal(term.signal.reason.name, "AbortError");
  assert.ok(term.isHeld() && !settled);
  assert.equal(await resigned, true);
  assert.deepEqual(stopped, [0]);
  assert.ok(!first.election.isLeader() && !term.isHeld());
  assert.equal(term.lossReason, null);
  await support.until(() => second.terms.length === 1 || first.terms.length === 2);
  if (second.terms.length === 0) await passOn(first.election, () => second.terms.length === 1);
  assert.ok(second.terms[0].fence > term.fence);
  await support.until(() => one.stats().queued === 1);
  const before = first.terms.length;
  await passOn(second.election, () => first.terms.length > before);
  assert.ok(first.terms.at(-1).fence > second.terms[0].fence);
  assert.equal(await second.election.resign(), false);
  assert.equal(await seen.resign(), false);
  await Promise.all([first.end(), second.end()]);
  // The second may have been about to lead: that is undone in the background.
  await support.until(async () => (await seen.leader()) === null);
  await servers.awaitNoKeys();
});

test("a loss aborts the work, which has ended before it is done again", async () => {
  const told = [];
  const noted = candidate(one, "lost", {
    onLost: (reason) => told.push([reason, noted.inside, noted.terms.at(-1).signal.aborted]),
    onStopped: () => told.push(["stopped", noted.inside]),
  });
  await support.until(() => noted.terms.length === 1);
  await watcher.forceRelease("lost");
  await aborted(noted.terms[0]);
  assert.ok(noted.terms[0].signal.reason instanceof LockLostError);
  // Before the signal, while the work runs; and that has not been begun again.
  assert.deepEqual(told, [["forced", 1, false]]);
  await support.until(() => noted.terms.length === 2);
  assert.deepEqual(told, [["forced", 1, false], ["stopped", 0]]);
  assert.ok(noted.terms[1].fence > noted.terms[0].fence);
  await noted.end();
  assert.deepEqual(told.slice(2), [["stopped", 0]]);
  await servers.awaitNoKeys();
});

test("work that is slow to stop holds up the next term, and another leads meanwhile", async () => {
  const control = new AbortController();
  let goOn;
  const slow = new Promise((resolve) => (goOn = resolve));
  let begun = 0;
  const election = one.election("slow");
  const runs = election.run(
    async (term) => {
      begun++;
      await aborted(term);
      if (begun === 1) await slow;
      // What it throws then is no failure.
      term.signal.throwIfAborted();
    },
    { signal: control.signal },
  );
  await support.until(() => begun === 1);
  await watcher.forceRelease("slow");
  const term = await other.election("slow").campaign();
  await support.until(() => one.stats().lost > 0 && !election.isLeader());
  await term.release();
  assert.equal(await watcher.election("slow").leader(), null);
  assert.equal(begun, 1);
  goOn();
  await support.until(() => begun === 2);
  control.abort();
  await assert.rejects(runs, { name: "AbortError" });
  await servers.awaitNoKeys();
});

test("work that looks by itself and ends after a loss is done again", async () => {
  let begun = 0;
  const done = await one.election("looks").run(async (term) => {
    if (++begun === 2) return begun;
    await watcher.forceRelease("looks");
    while (term.isHeld()) await support.sleep(1);
    return begun;
  });
  assert.equal(done, 2);
});

test("work that is done ends it, and with again does not", async () => {
  const election = one.election("done");
  assert.equal(await election.run(() => 7), 7);
  assert.equal(await election.leader(), null);
  const control = new AbortController();
  const fences = [];
  const begun = performance.now();
  const runs = election.run(
    async (term) => {
      fences.push(term.fence);
      if (fences.length === 3) control.abort(new RangeError("enough"));
    },
    { again: true, signal: control.signal },
  );
  await assert.rejects(runs, RangeError);
  // Work that is done at once is not begun as often as nodes answer.
  assert.ok(performance.now() - begun > 190);
  assert.ok(fences[0] < fences[1] && fences[1] < fences[2], fences);
  await servers.awaitNoKeys();
});

test("work that fails resigns, is told, and is begun again after a pause", async () => {
  const lines = [];
  const heard = (line) => lines.push(line);
  one.on("log", heard);
  const own = new RangeError("of its own");
  const times = [];
  const election = one.election("fails");
  const done = election.run(async () => {
    times.push(performance.now());
    if (times.length === 1) throw own;
    return "done";
  });
  await support.until(() => lines.length > 0);
  // Another may do better.
  await (await other.election("fails").campaign({ wait: 20_000 })).release();
  assert.equal(await done, "done");
  one.off("log", heard);
  assert.ok(times[1] - times[0] >= 490, `${times}`);
  assert.deepEqual(lines.map(({ level, error }) => [level, error]), [["warn", own]]);
  assert.match(lines[0].message, /leader of 'fails' failed, which campaigns again in \d+ ms: RangeError: of its own$/);
  await servers.awaitNoKeys();
});

test("a pause ends with the signal, and with the client", async () => {
  const failing = () => {
    throw new RangeError("not today");
  };
  const paused = async (client, options) => {
    const heard = once(client, "log");
    const runs = client.election("paused").run(failing, options);
    await heard;
    return runs;
  };
  const control = new AbortController();
  const begun = performance.now();
  const runs = paused(one, { signal: control.signal });
  await once(one, "log");
  control.abort(new TypeError("enough"));
  await assert.rejects(runs, TypeError);
  const client = new Client(servers.nodes);
  const closed = paused(client);
  await once(client, "log");
  const rejected = assert.rejects(closed, ClientClosedError);
  await client.close();
  await rejected;
  assert.ok(performance.now() - begun < 490 + 490);
  await servers.awaitNoKeys();
});

test("failures that nobody listens to are warnings of the process", async () => {
  const script = `
    const { Client } = require(process.env.QUORLOCK_MAIN);
    let begun = 0;
    process.on("warning", ({ name, message }) => console.log(name, message.replace(/\\d+ ms/, "soon")));
    new Client().election("warned").run(() => {
      if (++begun === 1) throw new RangeError("of its own");
      return begun;
    }).then((done) => console.log(done));
  `;
  const done = await support.script(script, { nodes: servers.nodes });
  assert.equal(done.code, 0, done.err);
  const warning = "the work of the leader of 'warned' failed, which campaigns again in soon: RangeError: of its own";
  assert.deepEqual(done.out.trim().split("\n"), [`QuorlockWarning ${warning}`, "2"]);
  assert.match(done.err, /RangeError: of its own\n +at /);
});

test("run keeps the process alive, and the end of it does not", async () => {
  const script = `
    const { Client } = require(process.env.QUORLOCK_MAIN);
    const control = new AbortController();
    const client = new Client();
    client.election("alive").run((term) => new Promise((resolve) => {
      // Nothing else is awaited here.
      setTimeout(() => console.log(term.isHeld()), 50);
      setTimeout(() => control.abort(), 1000).unref();
      term.signal.addEventListener("abort", resolve);
    }), { signal: control.signal }).catch((error) => console.log(error.name));
  `;
  const done = await support.script(script, { nodes: servers.nodes });
  assert.equal(done.code, 0, done.err);
  assert.deepEqual(done.out.trim().split("\n"), ["true", "AbortError"]);
  await servers.awaitNoKeys();
});

test("a term whose work waits for its signal alone is not collected", async () => {
  const script = `
    const { once } = require("node:events");
    const { Client } = require(process.env.QUORLOCK_MAIN);
    let terms = 0;
    // Begun out here: what the work begins knows the term.
    const collects = setInterval(async () => {
      gc();
      if (terms !== 1 || collects.done++ < 5) return;
      clearInterval(collects);
      console.log((await new Client().forceRelease("alone")).found.verdict);
    }, 5);
    collects.done = 0;
    new Client({ ttl: 1500 }).election("alone").run(async (term) => {
      if (++terms === 2) return terms;
      await once(term.signal, "abort");
    }).then(console.log);
  `;
  const done = await support.script(script, { nodes: servers.nodes, flags: ["--expose-gc"] });
  assert.equal(done.code, 0, done.err);
  assert.deepEqual(done.out.trim().split("\n"), ["held", "2"]);
  await servers.awaitNoKeys();
});

test("an aborted run leaves the line, or waits for its work", async () => {
  const term = await one.election("abort").campaign();
  const waits = candidate(other, "abort");
  await support.until(() => other.stats().queued === 1);
  await waits.end();
  assert.equal(waits.terms.length, 0);
  await support.until(() => other.stats().queued === 0);
  assert.equal(await term.release(), true);
  const leads = candidate(other, "abort");
  await support.until(() => leads.terms.length === 1);
  await leads.end();
  assert.ok(!leads.terms[0].isHeld());
  assert.equal(leads.terms[0].lossReason, null);
  await assert.rejects(one.election("abort").run(assert.fail, { signal: AbortSignal.abort(new RangeError("before")) }), RangeError);
  await servers.awaitNoKeys();
});

test("the reason of a signal may be the loss of another lease", async () => {
  const outer = await one.lock("outer").acquire();
  const runs = one.election("inner").run(aborted, { signal: outer.signal });
  await support.until(async () => (await watcher.election("inner").leader()) !== null);
  await watcher.forceRelease("outer");
  await assert.rejects(runs, (error) => error instanceof LockLostError && error === outer.signal.reason);
  await assert.rejects(one.election("inner").run(assert.fail, { signal: outer.signal }), LockLostError);
  await servers.awaitNoKeys();
});

test("work may resign by itself", async () => {
  const election = one.election("itself");
  let terms = 0;
  const done = await election.run(async (term) => {
    if (++terms === 2) return "done";
    assert.equal(await election.resign(), true);
    assert.ok(term.signal.aborted && term.isHeld() && !election.isLeader());
  });
  assert.equal(done, "done");
  await servers.awaitNoKeys();
});

test("a campaign gives a term, which its candidate may give up", async () => {
  const election = one.election("by hand", { fair: false });
  const term = await election.campaign();
  assert.ok(election.isLeader());
  // Nobody enters it again.
  await assert.rejects(election.campaign({ wait: 100 }), LockTimeoutError);
  await assert.rejects(election.campaign({ signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
  assert.equal(await election.resign(), true);
  assert.ok(!term.isHeld() && !term.signal.aborted);
  assert.equal(await election.resign(), false);
  await servers.awaitNoKeys();
});

test("a term that is lost before the event loop sees it is not begun", async () => {
  const control = new AbortController();
  const begun = [];
  const losses = one.stats().lost;
  const runs = one
    .election("unseen", { ttl: 300, renew: false })
    .run((term) => begun.push(term.isHeld()) && aborted(term), { signal: control.signal });
  await Promise.resolve().then(() => {});
  const stop = Date.now() + 5000;
  while (one.stats().lost === losses && Date.now() < stop);
  assert.equal(begun.length, 0);
  // It campaigns again.
  await support.until(() => begun.length === 1);
  control.abort();
  await assert.rejects(runs, { name: "AbortError" });
  assert.deepEqual(begun, [true]);
  await servers.awaitNoKeys();
});

test("what onLost and onStopped throw is uncaught, and the election goes on", async () => {
  const script = `
    const { Client } = require(process.env.QUORLOCK_MAIN);
    process.on("uncaughtException", (error) => console.log(error.message));
    const operator = new Client();
    let terms = 0;
    const work = async (term) => {
      if (++terms === 2) return terms;
      await operator.forceRelease("throws");
      await new Promise((resolve) => term.signal.addEventListener("abort", resolve));
    };
    const thrown = (what) => () => {
      throw new Error(what);
    };
    const election = new Client({ ttl: 1500 }).election("throws");
    election.run(work, { onLost: thrown("lost"), onStopped: thrown("stopped") }).then(console.log);
  `;
  const done = await support.script(script, { nodes: servers.nodes });
  assert.equal(done.code, 0, done.err);
  assert.deepEqual(done.out.trim().split("\n"), ["lost", "stopped", "stopped", "2"]);
  await servers.awaitNoKeys();
});

test("observers see each leader and never an old one", async () => {
  const nodes = await support.stage("3");
  const [leads, looks] = [new Client(nodes.nodes, { label: "one" }), new Client(nodes.nodes)];
  const election = leads.election("seen");
  const seen = looks.election("seen").observe({ every: 20 });
  const next = async () => (await seen.next()).value;
  assert.deepEqual(await next(), { known: true, leader: null });
  const term = await election.campaign();
  const led = await next();
  assert.equal(led.leader.label, "one");
  // The same leader in another term is a change.
  await term.release();
  const again = await election.campaign();
  let now = await next();
  if (now.leader === null) now = await next();
  assert.ok(now.leader.fence >= again.fence);
  await nodes.tell("kill", "1");
  await nodes.tell("kill", "2");
  assert.deepEqual(await next(), { known: false, leader: null });
  await assert.rejects(looks.election("seen").leader(), QuorumUnavailableError);
  const pending = seen.next();
  const queued = seen.next();
  await looks.close();
  await assert.rejects(pending, ClientClosedError);
  assert.deepEqual(await queued, { done: true, value: undefined });
  await leads.close();
  await nodes.stop();
});

test("an observation ends where its loop is left, and with its signal", async () => {
  const election = watcher.election("observed");
  for await (const now of election.observe()) {
    assert.deepEqual(now, { known: true, leader: null });
    break;
  }
  const left = election.observe();
  assert.match(String(left), /^Observer \{ '.+' \}$/);
  await left.next();
  const waits = left.next();
  assert.equal((await left.return()).done, true);
  assert.deepEqual(await waits, { done: true, value: undefined });
  assert.equal((await left.next()).done, true);
  const control = new AbortController();
  const ends = election.observe({ signal: control.signal });
  await ends.next();
  const rejects = assert.rejects(ends.next(), RangeError);
  control.abort(new RangeError("enough"));
  await rejects;
  assert.equal((await ends.next()).done, true);
  await assert.rejects(election.observe({ signal: control.signal }).next(), RangeError);
});

test("what is not valid is refused", async () => {
  assert.throws(() => one.election(""), InvalidArgumentError);
  assert.throws(() => one.election("x", { ttl: 0 }), InvalidArgumentError);
  assert.throws(() => one.election("x", { owner: "me" }), /no option 'owner'/);
  // Many hold those, and one leads.
  assert.throws(() => one.election("x", { shared: true }), /no option 'shared'/);
  assert.throws(() => one.election("x", { slots: 2 }), /no option 'slots'/);
  const election = one.election("x");
  await assert.rejects(election.run(), /give a function/);
  await assert.rejects(election.run(() => 1, { onLost: 5 }), /onLost is 5: give a function/);
  await assert.rejects(election.run(() => 1, { signal: 5 }), /give an AbortSignal/);
  await assert.rejects(election.campaign({ wait: -1 }), InvalidArgumentError);
  assert.throws(() => election.observe({ every: -1 }), /every is -1/);
  await assert.rejects(election.observe({ every: 0 }).next(), /every is 0/);
});

test("both faces of the package have the same elections", () => {
  assert.equal(require("../../node/dist/index.js").Election, Election);
  assert.ok(one.election("faces") instanceof Election);
});
