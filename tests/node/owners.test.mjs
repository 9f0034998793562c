// Whose a lock is: who is let in beside a body, who waits, and what is told of it.

import assert from "node:assert/strict";
import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import { once as event } from "node:events";
import { test } from "node:test";

import {
  Client,
  LockBusyError,
  LockContendedError,
  LockLostError,
  LockTimeoutError,
  NotOwnerError,
  once,
  QuorlockError,
  redlock,
  semaphore,
  WouldDeadlockError,
} from "../../node/dist/index.mjs";
import { lose, nodes } from "../../node/dist/testing.mjs";
import support from "./support.cjs";

const { sleep, until } = support;

/** A client of nodes that no other has. */
const make = (t, options = {}) => {
  const client = new Client({ nodes: nodes(3), ...options });
  t.after(() => client.close());
  return client;
};

/** The warnings of ours that come while a test runs, and the log lines. */
function heard(t, client) {
  const found = { warnings: [], lines: [] };
  const onWarning = (warning) => warning.name === "QuorlockWarning" && found.warnings.push(warning);
  process.on("warning", onWarning);
  t.after(() => process.off("warning", onWarning));
  client.on("log", ({ level, message }) => level === "warn" && found.lines.push(message));
  return found;
}

/** Counts who is inside. */
class Room {
  inside = 0;
  most = 0;
  entered = 0;

  work = async (lease) => {
    this.entered++;
    this.most = Math.max(this.most, ++this.inside);
    await sleep(3);
    this.inside--;
    return lease;
  };
}

test("branches within a body are kept apart, whenever each of them asks", async (t) => {
  const client = make(t);
  for (const reentrant of [false, true]) {
    const room = new Room();
    const branch = async (_, i) => {
      await sleep(2 * i);
      await redlock("account", { client, reentrant }, room.work);
    };
    await redlock("job", { client }, () => Promise.all(Array.from({ length: 8 }, branch)));
    await redlock("job", { client }, () =>
      Promise.all(Array.from({ length: 8 }, (_, i) => redlock(`item:${i}`, { client, reentrant }, () => branch(_, i)))),
    );
    assert.deepEqual([room.most, room.entered], [1, 16]);
  }
});

test("whatever takes a body enters again where it says so, and nowhere else", async (t) => {
  const client = make(t);
  const ways = {
    redlock: (options) => redlock("x", { client, wait: 0, ...options }, () => "in"),
    attempt: (options) => redlock.attempt("x", { client, ...options }, () => "in"),
    several: (options) => redlock(["y", "x"], { client, wait: 0, ...options }, () => "in"),
    "attempt of several": (options) => redlock.attempt(["x", "y"], { client, ...options }, () => "in"),
  };
  for (const [name, way] of Object.entries(ways)) {
    await redlock("x", { client }, async () => {
      assert.equal(await way({ reentrant: true }), "in", name);
      assert.notEqual(await way({}).catch((error) => error.code), "in", name);
      assert.notEqual(await way({ reentrant: false }).catch((error) => error.code), "in", name);
    });
  }
});

test("only the very same lock is entered again", async (t) => {
  const [client, other] = [make(t), make(t, { nodes: "memory://owners-other" })];
  const entered = async (outer, inner) => {
    const before = inner.client.stats().reentered;
    await redlock("x", outer, () => redlock("x", { wait: 0, reentrant: true, ...inner }, () => {}).catch(() => {}));
    return inner.client.stats().reentered > before;
  };
  assert.equal(await entered({ client }, { client }), true);
  assert.equal(await entered({ client, slots: 2 }, { client, slots: 2 }), true);
  assert.equal(await entered({ client, shared: true }, { client, shared: true }), true);
  assert.equal(await entered({ client }, { client, shared: true }), true);
  assert.equal(await entered({ client, raw: true }, { client, raw: true }), true);
  assert.equal(await entered({ client, layout: "redisson" }, { client, layout: "redisson" }), true);
  assert.equal(await entered({ client, layout: "redisson" }, { client, layout: "redisson", raw: true }), true);
  assert.equal(await entered({ client }, { client: other }), false);
  assert.equal(await entered({ client }, { client, raw: true }), false);
  assert.equal(await entered({ client, raw: true }, { client, layout: "redisson" }), false);
  assert.equal(await entered({ client }, { client, slots: 1 }), false);
  assert.equal(await entered({ client, slots: 2 }, { client, slots: 3 }), false);
  // What a client says for its locks is as if they had said it.
  const raw = make(t, { raw: true });
  assert.equal(await entered({ client: raw }, { client: raw, raw: true }), true);
  assert.equal(await entered({ client: raw, raw: false }, { client: raw }), false);
});

test("a call within the body of its lock waits as a stranger, and says so at once and at its end", async (t) => {
  const client = make(t);
  const found = heard(t, client);
  const line = /^the lock 'x' is waited for within a body that holds it.*`reentrant: true`/;
  await redlock("x", { client }, async () => {
    const waits = redlock("x", { client, wait: 300 }, assert.fail);
    // In this very turn.
    assert.match(found.lines[0], line);
    await assert.rejects(waits, (error) => error instanceof LockTimeoutError && /`reentrant: true`/.test(error.message));
    assert.equal(await redlock.attempt("x", { client, wait: 20 }, assert.fail), undefined);
    await assert.rejects(redlock(["w", "x"], { client, wait: 20 }, assert.fail), /`reentrant: true`/);
  });
  assert.equal(found.lines.length, 3);
  await until(() => found.warnings.length === 3);
  const [{ code, detail }] = found.warnings;
  assert.equal(code, "QUORLOCK_WAITS_WITHIN");
  assert.match(detail, /^ *at .*owners\.test\.mjs/);
});

test("where nothing waits in vain nothing is told", async (t) => {
  const client = make(t);
  const found = heard(t, client);
  await redlock("x", { client }, async () => {
    await assert.rejects(
      redlock("x", { client, wait: 0 }, assert.fail),
      (error) => error instanceof LockContendedError && /`reentrant: true`/.test(error.message),
    );
    assert.equal(await redlock.attempt("x", { client }, assert.fail), undefined);
    await assert.rejects(redlock("x", { client, signal: AbortSignal.abort(new RangeError()) }, assert.fail), RangeError);
    await redlock("y", { client }, () => {});
    await redlock("x", { client, reentrant: true }, () => {});
  });
  await redlock("x", { client, shared: true }, () => redlock("x", { client, shared: true }, () => {}));
  await semaphore("x", 2, { client }, () => semaphore("x", 2, { client }, () => {}));
  await redlock("x", { client, owner: "me" }, () => redlock("x", { client, owner: "me" }, () => {}));
  // A body that has given its lock back, or lost it.
  await redlock("x", { client }, async (lease) => {
    await lease.release();
    await redlock("x", { client }, () => {});
  });
  await assert.rejects(
    redlock("x", { client }, async () => {
      lose("x");
      await redlock("x", { client }, () => {});
    }),
    LockLostError,
  );
  await new Promise(setImmediate);
  // The loss is told, and nothing else.
  const others = found.lines.filter((line) => !/ is lost: /.test(line));
  assert.deepEqual([others, found.warnings], [[], []]);
});

test("who waits within a body that has ended meanwhile is told of it no more", async (t) => {
  const client = make(t);
  const first = await client.lock("w").acquire();
  let left;
  await redlock("x", { client }, async () => {
    left = redlock(["w", "x"], { client, wait: 60 }, assert.fail);
  });
  await assert.rejects(left, (error) => error instanceof LockTimeoutError && !/body around/.test(error.message));
  await first.release();
});

test("what helps depends on the call", async (t) => {
  const all = nodes(3);
  const [client, twin] = [make(t, { nodes: all }), make(t, { nodes: all, label: "twin" })];
  const found = heard(t, client);
  const wait = 20;
  const cases = [
    [(body) => redlock("x", { client }, body), () => client.lock("x").acquire({ wait }), /by `redlock` with `reentrant: true`/],
    [(body) => redlock("x", { client }, body), () => client.lockAll(["x"]).acquire({ wait }), /by `redlock` with `reentrant: true`/],
    [(body) => redlock(["x", "y"], { client }, body), () => redlock("x", { client, wait }, assert.fail), /give this call `reentrant: true`/],
    [
      (body) => redlock("x", { client, shared: true }, body),
      () => redlock("x", { client, wait }, assert.fail),
      /release the shared lease first, for with `reentrant: true`/,
    ],
    [(body) => semaphore("x", 1, { client }, body), () => semaphore("x", 1, { client, wait }, assert.fail), /`reentrant: true`/],
    [
      (body) => redlock("x", { client, owner: "me" }, body),
      () => redlock("x", { client, owner: "you", reentrant: true, wait }, assert.fail),
      /the same `owner`/,
    ],
    [
      (body) => client.election("x").run(body),
      () => redlock("x", { client, reentrant: true, wait }, assert.fail),
      /nobody enters the term of an election/,
    ],
    [
      (body) => redlock("x", { client: twin }, body),
      () => redlock("x", { client, reentrant: true, wait }, assert.fail),
      /another client: use one for both/,
    ],
    [
      (body) => once("x", { client, every: 60_000, keep: 20 }, body),
      () => redlock("x", { client, wait }, assert.fail),
      /give this call `reentrant: true`/,
    ],
  ];
  for (const [around, call, words] of cases) {
    found.lines.length = 0;
    await around(() => assert.rejects(call(), (error) => error instanceof LockTimeoutError && words.test(error.message)));
    assert.equal(found.lines.length, 1, `${words}`);
    assert.match(found.lines[0], words);
  }
});

test("a wait without end is told of again", async (t) => {
  const client = make(t);
  const found = heard(t, client);
  const enough = new AbortController();
  const again = async () => {
    while (found.lines.length < 2) await event(client, "log");
    enough.abort(new RangeError("enough"));
  };
  await redlock("x", { client }, async () => {
    const waits = redlock("x", { client, wait: null, signal: enough.signal }, assert.fail);
    await Promise.all([assert.rejects(waits, RangeError), again()]);
  });
  assert.match(found.lines[1], /^the lock 'x' is still waited for after 10 s within a body/);
});

test("what runs in a body's context alone is a stranger", async (t) => {
  const client = make(t);
  const found = heard(t, client);
  let heardOf, bound;
  const told = new Promise((resolve) => (heardOf = resolve));
  // A listener that is bound out here is in no body.
  const listener = AsyncResource.bind(() => redlock.attempt("x", { client, wait: 5 }, assert.fail).then(() => "left out"));
  await redlock("x", { client }, async () => {
    setImmediate(() => heardOf(redlock("x", { client, wait: 20 }, assert.fail).catch((error) => error)));
    bound = new Promise((resolve) => setImmediate(() => resolve(listener())));
    assert.ok((await told) instanceof LockTimeoutError);
    assert.equal(await bound, "left out");
  });
  assert.equal(found.lines.length, 1);
});

test("branches of a body that has given its lock back are strangers", async (t) => {
  const client = make(t);
  const give = {
    "one that is awaited": (lease) => lease.release(),
    "one that is not": (lease) => void lease.release(),
    "an export": (lease) => lease.export(),
  };
  for (const [name, back] of Object.entries(give)) {
    for (const several of [false, true]) {
      const room = new Room();
      const again = { client, reentrant: true };
      const branches = () => Promise.all([1, 2, 3].map(() => redlock("x", again, room.work)));
      if (several && name === "an export") continue;
      await redlock(several ? ["w", "x"] : "x", { client, ttl: 500 }, async (lease) => {
        await back(lease);
        await branches();
      });
      assert.deepEqual([room.most, room.entered], [1, 3], name);
    }
  }
});

test("branches that wait for more than they enter are strangers in what they do not have", async (t) => {
  const client = make(t);
  const room = new Room();
  const first = await client.lock("a").acquire();
  let branches;
  await redlock("b", { client }, async () => {
    // They enter b, and wait for a; the body ends meanwhile.
    branches = [1, 2, 3].map(() => redlock(["a", "b"], { client, reentrant: true }, room.work));
    await until(() => client.stats().waiting + client.stats().queued >= 3);
  });
  // What they have entered they keep.
  assert.equal(await client.lock("b").tryAcquire(), null);
  await first.release();
  await Promise.all(branches);
  assert.deepEqual([room.most, room.entered], [1, 3]);
});

test("of several one that is shared is not wanted alone", async (t) => {
  const client = make(t);
  await redlock("b", { client, shared: true }, (lease) =>
    redlock("a", { client }, async () => {
      await assert.rejects(
        redlock(["a", "b", "c"], { client, reentrant: true }, assert.fail),
        (error) => error instanceof WouldDeadlockError && error.lockName === "b",
      );
      assert.ok(lease.isHeld());
    }),
  );
});

test("a lost lease is not entered again", async (t) => {
  const client = make(t);
  await assert.rejects(
    redlock("x", { client }, async () => {
      lose("x");
      await assert.rejects(redlock("x", { client, reentrant: true }, assert.fail), LockLostError);
      await assert.rejects(redlock(["x", "y"], { client, reentrant: true }, assert.fail), LockLostError);
    }),
    LockLostError,
  );
});

test("a body with a named owner is entered without the name", async (t) => {
  const client = make(t);
  await redlock("x", { client, owner: "me" }, async ({ token }) => {
    await redlock("x", { client, reentrant: true, wait: 0 }, (lease) => assert.equal(lease.token, token));
    const lease = await client.lock("x", { owner: "me" }).acquire({ wait: 0 });
    assert.equal(lease.token, token);
    await lease.release();
  });
});

test("release by a lock without a named owner ends nobody's lease", async (t) => {
  const client = make(t);
  const lock = client.lock("x");
  const one = await lock.acquire();
  lose("x");
  const two = await lock.acquire();
  await assert.rejects(lock.release(), (error) => error instanceof NotOwnerError && /lease\.release\(\)/.test(error.message));
  assert.deepEqual([await one.release(), two.isHeld(), await two.release()], [false, true, true]);
});

test("held by another is one class", async (t) => {
  const client = make(t);
  await redlock("x", { client }, async () => {
    for (const wait of [0, 10]) {
      const error = await client.lock("x").acquire({ wait }).catch((error) => error);
      assert.ok(error instanceof LockBusyError && error instanceof QuorlockError, error);
    }
  });
  assert.ok(!(new LockLostError() instanceof LockBusyError));
});

test("work that is left out is told from work that gave nothing", async (t) => {
  const client = make(t);
  const out = Symbol("left out");
  const options = { client, otherwise: () => out };
  const ways = [
    (body) => redlock.attempt("x", options, body),
    (body) => redlock.attempt(["x", "y"], { ...options, otherwise: async () => out }, body),
    (body) => once("x", { ...options, every: 60_000, keep: 20 }, body),
  ];
  for (const way of ways) {
    assert.equal(await way(() => {}), undefined);
    await until(async () => !(await client.lock("x").isLocked()));
    await redlock("x", { client }, async () => assert.equal(await way(assert.fail), out));
  }
  const throws = { client, otherwise: () => assert.fail("mine") };
  await redlock("x", { client }, () => assert.rejects(redlock.attempt("x", throws, assert.fail), /mine/));
  await assert.rejects(redlock.attempt("x", { client, otherwise: 5 }, assert.fail), /otherwise is 5: give a function/);
  await assert.rejects(redlock("x", options, assert.fail), /no option 'otherwise'/);
});

test("who listens to a signal that was read after the loss hears of it", async (t) => {
  const client = make(t);
  for (const acquire of [() => client.lock("x").acquire(), () => client.lockAll(["x", "y"]).acquire()]) {
    const lease = await acquire();
    lose("x");
    const { signal } = lease;
    assert.ok(signal.aborted && signal.reason instanceof LockLostError);
    let times = 0;
    signal.addEventListener("abort", () => times++);
    await event(signal, "abort");
    await new Promise(setImmediate);
    assert.equal(times, 1);
    await lease.release();
  }
});

test("who is told of a loss is told in the context that acquired", async (t) => {
  const client = make(t);
  const storage = new AsyncLocalStorage();
  const seen = [];
  client.on("lost", ({ name }) => seen.push(["lost", name, storage.getStore()]));
  const leases = await Promise.all(
    ["x", "y"].map((name) =>
      storage.run(`of ${name}`, async () => {
        const lease = await client.lock(name).acquire();
        lease.signal.addEventListener("abort", () => seen.push(["abort", name, storage.getStore()]));
        return lease;
      }),
    ),
  );
  lose("x");
  lose("y");
  await until(() => seen.length === 4);
  for (const [, name, store] of seen) assert.equal(store, `of ${name}`);
  for (const lease of leases) await lease.release();
});

test("a lease is shown in words", async (t) => {
  const client = make(t);
  const [lease, leases] = [await client.lock("x").acquire(), await client.lockAll(["y", "z"]).acquire()];
  assert.match(`${lease}`, /^Lease \{ 'x', held, \d+ ms left \}$/);
  assert.match(`${leases}`, /^Leases \{ 'y', 'z', held, \d+ ms left \}$/);
  assert.equal(`${client.lock("x")} ${client.lockAll(["x"])}`, "Lock { 'x' } Locks { 'x' }");
  assert.match(`${client.election("x")} ${client}`, /^Election \{ 'x' \} Client \{ /);
  await Promise.all([lease.release(), leases.release()]);
});

test("a lease that is collected while it is held is told", async () => {
  const script = `
    const { Client } = require(process.env.QUORLOCK_MAIN);
    process.on("warning", ({ name, code, message }) => console.log(name, code, message));
    const client = new Client("memory://collected");
    const lines = [];
    client.on("log", ({ level, message }) => lines.push(level + " " + message));
    const lock = client.lock("kept");
    const acquire = async (of) => void (await of.acquire());
    (async () => {
      await acquire(client.lock("one"));
      await acquire(client.lockAll(["two", "three"]));
      await acquire(lock);
      const lease = await client.lock("released").acquire();
      await lease.release();
      const held = () => ["one", "two", "three"].map((name) => client.lock(name).isLocked());
      while ((await Promise.all(held())).includes(true)) gc();
      for (let i = 0; i < 5; i++) await new Promise(setImmediate);
      gc();
      console.log(lines.length, lines.every((line) => /^warn the lease of '\\w+' was collected while it was held, and is released/.test(line)));
      console.log(lines.map((line) => /'(\\w+)'/.exec(line)[1]).sort().join(), await lock.isLocked());
    })();`;
  const done = await support.script(script, { nodes: "", flags: ["--expose-gc"] });
  assert.equal(done.code, 0, done.err);
  const lines = done.out.trim().split("\n");
  const warnings = lines.filter((line) => /^QuorlockWarning QUORLOCK_COLLECTED the lease of '\w+' was collected/.test(line));
  assert.equal(warnings.length, 3, done.out);
  assert.deepEqual(lines.slice(-2), ["3 true", "one,three,two true"]);
});

test("many sets of options without a client are told once", async () => {
  const script = `
    const { redlock } = require(process.env.QUORLOCK_MAIN);
    process.on("warning", ({ code }) => console.log(code));
    (async () => {
      for (let i = 0; i < 300; i++) await redlock("x", { label: "request " + i }, () => {});
      const drift = (i) => 0.01 + i / 1000;
      for (let i = 0; i < 15; i++) await redlock("x", { drift: drift(i) }, () => {});
      console.log("16");
      await new Promise(setImmediate);
      for (let i = 0; i < 40; i++) await redlock("x", { drift: drift(i) }, () => {});
    })();`;
  const done = await support.script(script, { nodes: "memory://many", flags: ["--no-warnings"] });
  assert.deepEqual([done.code, done.out, done.err], [0, "16\nQUORLOCK_MANY_CLIENTS\n", ""]);
});

test("an awaited body keeps the process alive", async () => {
  const script = `
    import { createRequire } from "node:module";
    import { once } from "node:events";
    const { lose } = createRequire(import.meta.url)(process.env.QUORLOCK_MAIN.replace("index", "testing"));
    const { redlock, semaphore } = createRequire(import.meta.url)(process.env.QUORLOCK_MAIN);
    for (const call of [redlock, redlock.attempt, (name, body) => semaphore(name, 1, { maxHold: 200, ttl: 100 }, body)]) {
      const body = async (lease) => {
        // What the body waits for keeps nothing alive.
        const timer = setTimeout(() => lose("x"), 50).unref();
        await once(lease.signal, "abort");
      };
      await call("x", body).catch((error) => console.log(error.code));
    }
    console.log("done");`;
  const done = await support.script(script, { nodes: "memory://alive", type: "module", flags: ["--no-warnings"] });
  assert.deepEqual([done.code, done.out], [0, "ERR_QUORLOCK_LOCK_LOST\n".repeat(3) + "done\n"], done.err);
});
