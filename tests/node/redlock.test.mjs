// `redlock(name, options?, body)`: scopes, re-entry, parallel branches.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import {
  Client,
  LockContendedError,
  LockLostError,
  InvalidArgumentError,
  LockTimeoutError,
  once,
  redlock,
  semaphore,
} from "../../node/dist/index.mjs";
import support from "./support.cjs";

const { sleep } = support;
let servers, client;

before(async () => {
  servers = await support.stage("3");
  process.env.QUORLOCK_NODES = servers.nodes;
  client = new Client(servers.nodes);
});
after(async () => {
  await client.close();
  await servers.awaitNoKeys();
  await servers.stop();
});

test("the body runs under the lock, and its value is the result", async () => {
  const token = await redlock("value", { client }, async (lease) => {
    assert.equal(lease.name, "value");
    assert.equal(lease.isHeld(), true);
    assert.equal(await client.lock("value").tryAcquire(), null);
    return lease.token;
  });
  assert.match(token, /^[0-9a-f]{40}$/);
  await servers.tell("await-free", "lock:{value}", 5000);
});

test("without options the nodes are those of the environment", async () => {
  const held = await redlock("environment", async () => await client.lock("environment").tryAcquire());
  assert.equal(held, null);
});

test("client options make a client of their own, and the same ones share it", async () => {
  const options = { nodes: servers.nodes, namespace: "other:", ttl: 5000 };
  const other = new Client(options);
  // Another namespace is another set on the same nodes.
  await other.initSet({ force: true });
  await redlock("own", options, async () => {
    await servers.tell("expect-votes", "other:{own}", 3, 5000);
    assert.equal(
      await client
        .lock("own")
        .tryAcquire()
        .then((lease) => lease.release()),
      true,
    );
    // The owner is found only within one client.
    await redlock("own", { ...options, reentrant: true, wait: 0 }, async (lease) => assert.equal(lease.isHeld(), true));
  });
  await other.close();
  await servers.tell("redis", "all", "DEL", "other:%23node", "other:%23f:{own}");
});

test("a body that is no async function", async () => {
  assert.equal(await redlock("sync", { client }, () => 7), 7);
  await assert.rejects(
    redlock("sync", { client }, () => {
      throw new RangeError("mine");
    }),
    RangeError,
  );
  assert.equal(
    await client
      .lock("sync")
      .tryAcquire()
      .then((lease) => lease.release()),
    true,
  );
});

test("the body's own error wins, and the lock is released", async () => {
  const mine = new Error("mine");
  await assert.rejects(
    redlock("throws", { client }, async () => {
      throw mine;
    }),
    (error) => error === mine,
  );
  assert.equal(
    await client
      .lock("throws")
      .tryAcquire()
      .then((lease) => lease.release()),
    true,
  );
});

test("after a loss a body that ends normally rejects with LockLostError", async () => {
  const other = new Client(servers.nodes);
  await assert.rejects(
    redlock("lost", { client: other }, async () => {
      await other.close();
    }),
    (error) => error instanceof LockLostError && error.message.includes("closed"),
  );
});

test("after a loss the body's own error still wins", async () => {
  const other = new Client(servers.nodes);
  const mine = new Error("mine");
  await assert.rejects(
    redlock("lost", { client: other }, async () => {
      await other.close();
      throw mine;
    }),
    (error) => error === mine,
  );
});

test("re-entry: the same lease, no request, and the last one out releases", async () => {
  await redlock("again", { client }, async (outer) => {
    const before = client.stats();
    await redlock("again", { client, reentrant: true, wait: 0 }, async (inner) => {
      assert.equal(inner.token, outer.token);
      assert.equal(client.stats().reentered, before.reentered + 1);
    });
    assert.equal(outer.isHeld(), true);
    assert.equal(await client.lock("again").tryAcquire(), null);
  });
  await servers.tell("await-free", "lock:{again}", 5000);
});

test("re-entry through another lock and many awaits", async () => {
  await redlock("a", { client }, async (a) => {
    await sleep(1);
    await redlock("b", { client }, async () => {
      await new Promise((resolve) => setImmediate(resolve));
      await redlock("a", { client, reentrant: true, wait: 0 }, async (again) => assert.equal(again.token, a.token));
    });
  });
});

test("branches that enter one body again are inside together", async () => {
  await redlock("held", { client }, async (outer) => {
    const again = { client, reentrant: true, wait: 0 };
    const tokens = await Promise.all([1, 2].map(() => redlock("held", again, async (lease) => lease.token)));
    assert.deepEqual(tokens, [outer.token, outer.token]);
  });
});

test("invocations beside each other are strangers", async () => {
  let inside = 0;
  const balance = { value: 0 };
  await Promise.all(
    Array.from({ length: 20 }, () =>
      redlock("strangers", { client }, async () => {
        assert.equal(++inside, 1);
        const read = balance.value;
        await sleep(1);
        balance.value = read + 1;
        inside--;
      }),
    ),
  );
  assert.equal(balance.value, 20);
});

test("a call that does not enter again is a stranger, and leaves the bodies around it theirs", async () => {
  const again = { client, reentrant: true, wait: 0 };
  await redlock("outer", { client }, async (outer) => {
    await assert.rejects(
      redlock("outer", { client, wait: 0 }, async () => {}),
      LockContendedError,
    );
    await redlock("inner", { client }, async (inner) => {
      await redlock("outer", again, async (lease) => assert.equal(lease.token, outer.token));
      await redlock("inner", again, async (lease) => assert.equal(lease.token, inner.token));
    });
  });
});

test("what a body left running is an owner of its own afterwards", async () => {
  let start;
  const go = new Promise((resolve) => (start = resolve));
  const left = [];
  let inside = 0;
  await redlock("server", { client }, async () => {
    for (let i = 0; i < 5; i++) {
      left.push(
        go.then(() =>
          redlock("request", { client, reentrant: true }, async () => {
            assert.equal(++inside, 1);
            await sleep(2);
            inside--;
            // And within it, the body it is in now is found.
            await redlock("request", { client, reentrant: true, wait: 0 }, async () => {});
          }),
        ),
      );
    }
  });
  start();
  await Promise.all(left);
});

test("a branch that outlives the body that it re-entered keeps the lock", async () => {
  let open;
  const gate = new Promise((resolve) => (open = resolve));
  let branch;
  await redlock("outlives", { client }, async () => {
    let entered;
    const inside = new Promise((resolve) => (entered = resolve));
    branch = redlock("outlives", { client, reentrant: true }, async (lease) => {
      entered();
      await gate;
      assert.equal(lease.isHeld(), true);
    });
    await inside;
  });
  await assert.rejects(
    redlock("outlives", { client, wait: 0 }, async () => {}),
    LockContendedError,
  );
  open();
  await branch;
  await redlock("outlives", { client, wait: 0 }, async () => {});
});

test("a signal ends the wait, not the body", async () => {
  const controller = new AbortController();
  await redlock("signal", { client, signal: controller.signal }, async (lease) => {
    controller.abort();
    assert.equal(lease.isHeld(), true);
    const reason = new Error("enough");
    const second = new AbortController();
    const waiting = redlock("signal", { client, signal: second.signal }, async () => assert.fail());
    setTimeout(() => second.abort(reason), 20);
    await assert.rejects(waiting, (error) => error === reason);
  });
});

test("the wait of an option", async () => {
  await redlock("wait", { client }, async () => {
    await assert.rejects(
      redlock("wait", { client, wait: 30 }, async () => {}),
      LockTimeoutError,
    );
  });
});

test("arguments that are wrong are told by a rejection", async () => {
  const wrong = [
    ["", { client }, async () => {}],
    ["a", { client, tll: 5 }, async () => {}],
    ["a", { client, ttl: "5" }, async () => {}],
    ["a", { client, ttl: -5 }, async () => {}],
    ["a", { client, wait: NaN }, async () => {}],
    ["a", { client, nodes: "redis://h" }, async () => {}],
    ["a", { client: {} }, async () => {}],
    ["a", { client, signal: {} }, async () => {}],
    ["a", { client }],
    ["\ud800", { client }, async () => {}],
    [undefined, { client }, async () => {}],
    [5, { client }, async () => {}],
    ["a", null, async () => {}],
  ];
  for (const words of wrong) await assert.rejects(redlock(...words), InvalidArgumentError);
});

test("redlock.events tells the losses of calls without a client, and what is worth knowing", async () => {
  const losses = [];
  const lines = [];
  const [lost, log] = [(loss) => losses.push(loss), ({ level, message }) => lines.push([level, message])];
  redlock.events.on("lost", lost).on("log", log);
  // Waiting for a loss alone keeps no process alive.
  const alive = setInterval(() => {}, 1000);
  // Close to its longest life a lease warns, and then it is lost.
  const options = { ttl: 2000, maxHold: 3000 };
  await assert.rejects(
    redlock("told", options, ({ signal }) => new Promise((resolve) => signal.addEventListener("abort", resolve))),
    LockLostError,
  );
  assert.deepEqual(losses.map(({ name, reason }) => [name, reason]), [["told", "max_hold"]]);
  assert.ok(lines.some(([level, message]) => level === "warn" && /maxHold/.test(message)), `${lines}`);
  clearInterval(alive);
  redlock.events.off("lost", lost).off("log", log);
});

test("a lease whose body waits for its signal alone is not collected", async () => {
  const script = `
    const { once } = require("node:events");
    const { Client, redlock } = require(process.env.QUORLOCK_MAIN);
    let begun = false;
    // Begun out here: what the body begins knows the lease.
    const collects = setInterval(async () => {
      gc();
      if (!begun || collects.done++ < 5) return;
      clearInterval(collects);
      console.log((await new Client().forceRelease("alone")).found.verdict);
    }, 5);
    collects.done = 0;
    redlock("alone", { ttl: 1500 }, async (lease) => {
      begun = true;
      await once(lease.signal, "abort");
    }).catch((error) => console.log(error.code));
  `;
  const done = await support.script(script, { nodes: servers.nodes, flags: ["--expose-gc"] });
  assert.equal(done.code, 0, done.err);
  assert.deepEqual(done.out.trim().split("\n"), ["held", "ERR_QUORLOCK_LOCK_LOST"]);
});

test("a generator is no body: it would run when the lock is free again", async () => {
  const ran = [];
  function* one() {
    ran.push("one");
  }
  async function* other() {
    ran.push("other");
  }
  const ways = {
    redlock: (body) => redlock("generator", { client }, body),
    several: (body) => redlock(["generator", "generator-2"], { client }, body),
    attempt: (body) => redlock.attempt("generator", { client, wait: 60_000 }, body),
    semaphore: (body) => semaphore("generator-3", 1, { client }, body),
    once: (body) => once("generator", { client, every: 1000, keep: 20 }, body),
    otherwise: (otherwise) => redlock.attempt("generator-held", { client, otherwise }, assert.fail),
    run: (body) => client.election("generator-4").run(body),
  };
  const refused = { name: "InvalidArgumentError", code: "ERR_QUORLOCK_INVALID_ARGUMENT", message: /generator/ };
  const held = await client.lock("generator-held").acquire();
  const both = await client.lockAll(["generator", "generator-2"]).acquire();
  const slot = await client.lock("generator-3", { slots: 1 }).acquire();
  const term = await client.election("generator-4").campaign();
  const { acquired } = client.stats();
  // What can be told by the function is refused before anything is waited for.
  for (const [way, call] of Object.entries(ways)) {
    for (const body of [one, other, { *method() {} }.method, class { static async *method() {} }.method]) {
      await assert.rejects(call(body), refused, way);
    }
  }
  assert.equal(client.stats().acquired, acquired);
  await Promise.all([both, slot, term].map((lease) => lease.release()));
  for (const [way, call] of Object.entries(ways)) {
    for (const body of [() => one(), async () => other(), one.bind(null), new Proxy(other, {})]) {
      await assert.rejects(call(body), refused, way);
      for (const name of ["generator", "generator-2", "generator-4"]) {
        while (await client.lock(name).isLocked()) await sleep(5);
      }
    }
  }
  assert.equal(await semaphore("generator-3", 1, { client, wait: 0 }, () => "free"), "free");
  await assert.rejects(client.election("a").run(() => 1, { onStopped: one }), /onStopped is .*: give a function that is no generator/);
  await held.release();
  assert.deepEqual(ran, []);
  // What can be iterated over and has run is a result like any other.
  assert.deepEqual([...(await redlock("generator", { client }, () => new Map([[1, 2]]).keys()))], [1]);
});
