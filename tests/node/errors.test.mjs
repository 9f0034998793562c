// Errors: every kind has its class, and a stack that leads to the caller.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { inspect } from "node:util";

import * as quorlock from "../../node/dist/index.mjs";
import support from "./support.cjs";

const require = createRequire(import.meta.url);
const { native } = require("../../node/dist/binding.js");
const { toError } = require("../../node/dist/errors.js");
const { begin, valueOf } = require("../../node/dist/port.js");
const { Client, InternalError, QuorlockError } = quorlock;
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

test("what is refused shows no password, wherever it stood", async () => {
  const URL_OF_IT = "redis://user:secret@host";
  const holding = [
    { url: URL_OF_IT },
    { host: "h", password: "secret" },
    new URL(URL_OF_IT),
    [URL_OF_IT],
    new Map([[URL_OF_IT, "secret"]]),
    Object.assign(() => {}, { url: URL_OF_IT }),
    Symbol(URL_OF_IT),
    Buffer.from("secret"),
    new (class secret {})(),
  ];
  const options = [
    ["nodes", ...holding.filter((value) => !Array.isArray(value))],
    ...["ttl", "wait", "renew", "namespace", "setName", "restartGuard", "layout", "group", "waitReplicas", "maxWaiters"].map(
      (name) => [name, ...holding, URL_OF_IT, "user:secret@host"],
    ),
    ...["ca", "cert", "key"].map((name) => [name, ...holding.filter((value) => !(value instanceof Uint8Array))]),
  ];
  const refused = [];
  for (const [name, ...values] of options) {
    for (const value of values) refused.push([name, () => new Client({ nodes: "memory://refused", [name]: value })]);
  }
  for (const value of holding) refused.push(["a node", () => new Client([value])]);
  for (const value of [URL_OF_IT, new URL(URL_OF_IT), [[URL_OF_IT]]]) {
    refused.push(["given alone", () => new Client(value, { [URL_OF_IT]: true })]);
    refused.push(["an option", () => new Client("memory://refused").lock("a", { [URL_OF_IT]: value })]);
  }
  refused.push(["alone", () => new Client(new URL(URL_OF_IT))]);
  for (const [what, make] of refused) {
    let made;
    try {
      made = make();
    } catch (error) {
      assert.equal(error.code, "ERR_QUORLOCK_INVALID_ARGUMENT", `${what}: ${error}`);
      assert.doesNotMatch(`${error.message} ${error.stack.split("\n")[0]}`, /secret/, what);
      continue;
    }
    // A text is taken where a text may stand.
    assert.ok(["namespace", "group", "setName"].includes(what), `${what} was taken`);
    await made.close();
  }
  await assert.rejects(quorlock.redlock("a", URL_OF_IT, () => {}), (error) => !/secret/.test(error.message));
  for (const [name, told] of [
    ["ttll", "there is no option 'ttll' here: did you mean 'ttl'?"],
    ["maxhold", "there is no option 'maxhold' here: did you mean 'maxHold'?"],
    ["password", "there is no option 'password' here"],
    ["s3cretOfMine", "there is no option of that name here"],
    ["ttl".repeat(9), "there is no option of that name here"],
  ]) {
    assert.throws(() => new Client({ nodes: "memory://refused", [name]: 1 }), (error) => error.message.endsWith(told), name);
  }
  const shown = { ttl: "s3cretOfMine", cert: 123456, nodes: 123456n, waitReplicas: 10n ** 40n };
  for (const [name, value] of Object.entries(shown)) {
    assert.throws(() => new Client({ nodes: "memory://refused", [name]: value }), (error) => !/s3c|1234|0000/.test(error.message), name);
  }
  for (const [name, value] of [["ttl", "10s"], ["renew", 1], ["nodes", 5], ["drift", null]]) {
    // What is no secret is shown.
    assert.throws(() => new Client({ nodes: "memory://refused", [name]: value }), new RegExp(`${name} is .*${value}`));
  }
});

test("names and numbers are told as JavaScript writes them", async () => {
  const some = new Client("memory://spelled");
  const GIVE = "give a time in milliseconds, 0 or more";
  const NO_LIMIT = `${GIVE}, or null for no limit`;
  const told = {
    "above maxTtl \\(60s\\)": () => some.lock("a", { ttl: 90_000 }),
    "maxHold is 9s, below the ttl": () => new Client("memory://spelled", { ttl: 10_000, maxHold: 9000 }),
    "nodeTimeout is 0": () => new Client("memory://spelled", { nodeTimeout: 0 }),
    [`ttl is Infinity: ${GIVE}$`]: () => some.lock("a", { ttl: Infinity }),
    [`ttl is -Infinity: ${GIVE}$`]: () => some.lock("a", { ttl: -Infinity }),
    [`ttl is NaN: ${GIVE}$`]: () => some.lock("a", { ttl: NaN }),
    [`wait is 1e\\+300: ${NO_LIMIT}$`]: () => some.lock("a", { wait: 1e300 }),
    [`maxHold is -1.5e\\+21: ${NO_LIMIT}$`]: () => some.lock("a", { maxHold: -1.5e21 }),
    [`wait is -1: ${NO_LIMIT}$`]: () => some.lock("a").acquire({ wait: -1 }),
  };
  for (const [words, call] of Object.entries(told)) {
    await assert.rejects(async () => call(), (error) => error.code === "ERR_QUORLOCK_INVALID_ARGUMENT" && new RegExp(words).test(error.message), words);
  }
  // Where no limit is one, both words for it are taken.
  for (const none of [null, Infinity]) await (await some.lock("a", { wait: none, maxHold: none }).acquire({ wait: none })).release();
  await some.close();
});

const CODES = {
  InvalidArgument: ["InvalidArgumentError", "ERR_QUORLOCK_INVALID_ARGUMENT"],
  Contended: ["LockContendedError", "ERR_QUORLOCK_CONTENDED"],
  Timeout: ["LockTimeoutError", "ERR_QUORLOCK_TIMEOUT"],
  QuorumUnavailable: ["QuorumUnavailableError", "ERR_QUORLOCK_QUORUM_UNAVAILABLE"],
  LockLost: ["LockLostError", "ERR_QUORLOCK_LOCK_LOST"],
  NotOwner: ["NotOwnerError", "ERR_QUORLOCK_NOT_OWNER"],
  TooManyWaiters: ["TooManyWaitersError", "ERR_QUORLOCK_TOO_MANY_WAITERS"],
  Misconfigured: ["MisconfiguredError", "ERR_QUORLOCK_MISCONFIGURED"],
  Cancelled: null,
  Closed: ["ClientClosedError", "ERR_QUORLOCK_CLOSED"],
  Forked: null,
  Internal: ["InternalError", "ERR_QUORLOCK_INTERNAL"],
  WouldDeadlock: ["WouldDeadlockError", "ERR_QUORLOCK_WOULD_DEADLOCK"],
};

test("every kind of the core has its class, number and code", () => {
  assert.deepEqual(native.kinds(), Object.keys(CODES));
  native.kinds().forEach((kind, i) => {
    const nodes = [{ node: "h:1", message: "no" }];
    const error = toError({ number: i + 1, message: "a test", nodes });
    if (CODES[kind] === null) return;
    assert.equal(error.message, `${error.summary}: a test`);
    const [name, code] = CODES[kind];
    assert.equal(error.constructor, quorlock[name]);
    assert.ok(error instanceof QuorlockError && error instanceof Error);
    assert.deepEqual([error.name, error.kind, error.number, error.code, error.nodes], [name, kind, i + 1, code, nodes]);
    assert.ok(error.stack.startsWith(`${name}: ${error.message}\n`));
    assert.deepEqual([new quorlock[name]("mine").code, new quorlock[name]().nodes], [code, []]);
  });
  const cancelled = toError({ number: 9, message: "a test", nodes: [] });
  assert.equal(cancelled.name, "AbortError");
  assert.ok(toError({ number: 11, message: "", nodes: [] }) instanceof InternalError);
  assert.ok(toError({ number: 99, message: "", nodes: [] }) instanceof InternalError);
});

test("a class that a user derives keeps kind and code", () => {
  class Mine extends quorlock.LockTimeoutError {}
  assert.equal(new Mine("x").code, "ERR_QUORLOCK_TIMEOUT");
});

test("a panic arrives as an InternalError, at once and later", async () => {
  const failure = native.panicAtOnce();
  assert.ok(toError(failure) instanceof InternalError);
  assert.match(failure.message, /a bug in Quorlock, please report it: a test/);
  const outcome = await begin(begin, (port, number) => native.panicLater(port, number));
  assert.throws(() => valueOf(outcome, begin), InternalError);
  // And everything goes on.
  assert.equal(
    await client
      .lock("after")
      .acquire()
      .then((lease) => lease.release()),
    true,
  );
});

async function theCaller(call) {
  await call();
}

test("the stack begins at the caller, for every call", async () => {
  const holder = await client.lock("held").acquire();
  const lost = new Client(servers.nodes);
  const lease = await lost.lock("lost").acquire();
  await lost.close();
  const gone = await client.lock("gone").acquire();
  await gone.release();
  const calls = {
    acquire: () => client.lock("held").acquire({ wait: 0 }),
    "acquire with a signal": () => client.lock("held").acquire({ wait: 5, signal: new AbortController().signal }),
    tryAcquire: () => lost.lock("held").tryAcquire(),
    "lock.release": () => client.lock("held").release(),
    extend: () => gone.extend(),
    "extend after a loss": () => lease.extend(),
    ensure: () => lease.ensure(5),
    initSet: () => lost.initSet(),
    "initSet, forced": () => lost.initSet({ force: true }),
    redlock: () => quorlock.redlock("held", { client, wait: 0 }, async () => {}),
    lock: async () => client.lock(""),
    Client: async () => new Client("nonsense://"),
    options: async () => client.lock("a", { nonsense: 1 }),
    extended: () => gone.extend("5"),
  };
  for (const [name, call] of Object.entries(calls)) {
    const error = await theCaller(async function caller() {
      await call();
    }).then(
      () => assert.fail(`${name} did not reject`),
      (error) => error,
    );
    assert.ok(error instanceof QuorlockError, `${name}: ${error}`);
    const frames = error.stack.split("\n").filter((line) => line.startsWith("    at "));
    assert.ok(frames.length > 0, `${name}: no stack`);
    assert.doesNotMatch(frames[0], /node.dist|node:internal/, `${name}: ${error.stack}`);
    assert.ok(error.stack.includes("errors.test.mjs"), `${name}: ${error.stack}`);
    assert.ok(error.stack.includes("theCaller"), `${name}: ${error.stack}`);
  }
  await holder.release();
});

test("the stack is that of the call where its promise is chained on or returned", async () => {
  const holder = await client.lock("returned").acquire();
  const election = client.election("led");
  const signal = new AbortController().signal;
  const calls = {
    acquire: () => client.lock("returned").acquire({ wait: 0 }),
    "acquire with a signal": () => client.lock("returned").acquire({ wait: 0, signal }),
    lockAll: () => client.lockAll(["returned", "other"]).acquire({ wait: 0 }),
    redlock: () => quorlock.redlock("returned", { client, wait: 0 }, async () => {}),
    semaphore: () => quorlock.semaphore("returned", 1, { client, wait: 0 }, async () => {}),
    campaign: () => election.campaign({ wait: 0 }),
  };
  // Each is full.
  const slot = await client.lock("returned", { slots: 1 }).acquire();
  const term = await client.election("led").campaign();
  const ways = {
    then: function whoCalls(call, tell) {
      call().then(undefined, tell);
    },
    catch: function whoCalls(call, tell) {
      call().catch(tell);
    },
    finally: function whoCalls(call, tell) {
      call()
        .finally(() => {})
        .catch(tell);
    },
    race: function whoCalls(call, tell) {
      Promise.race([call()]).catch(tell);
    },
    "an async function returns it": async function whoCalls(call, tell) {
      const returns = async function whoCalls() {
        return call();
      };
      await returns().then(undefined, tell);
    },
  };
  for (const [name, call] of Object.entries(calls)) {
    for (const [way, chains] of Object.entries(ways)) {
      const error = await new Promise((resolve) => setImmediate(chains, call, resolve));
      const what = `${name}, ${way}: ${error.stack}`;
      assert.ok(["Contended", "Timeout"].includes(error.kind), what);
      assert.ok(error.stack.startsWith(`${error.name}: ${error.message}\n    at `), what);
      assert.match(error.stack, /whoCalls/, what);
      assert.doesNotMatch(error.stack, /node.dist/, what);
    }
  }
  // A promise of the API is one as any other.
  const promise = client.lock("free").acquire();
  assert.ok(promise instanceof Promise && promise.constructor === Promise);
  assert.match(inspect(promise), /^Promise {\s+<pending>/);
  assert.deepEqual(Object.keys(promise), []);
  await (await promise).release();
  for (const held of [holder, slot, term]) await held.release();
});

test("a key is not shown, whatever is wrong with it", () => {
  const key = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIBMs0hUYjnWUE1BH\n-----END EC PRIVATE KEY-----\n";
  const bare = "MHcCAQEEIBMs0hUYjnWUE1BHSO/yBdufupjL3oAGGEvFb4lZWh9QoAoGCCqGSM49";
  const flat = key.replaceAll("\n", "\\n");
  for (const given of [bare, bare.slice(0, 10), flat, Buffer.from(bare), [key], { key }, { [bare]: 1 }, new String(key), () => key, Symbol(bare), null]) {
    for (const options of [{ ca: given }, { cert: given, key }, { cert: "c", key: given }]) {
      assert.throws(
        () => new Client("rediss://127.0.0.1:1", options),
        (error) => {
          assert.equal(error.kind, "InvalidArgument");
          assert.match(error.message, /^An argument or option is not valid: (ca|cert|key)[ :]/);
          assert.doesNotMatch(inspect(error), /MHcC|77, 72/);
          return true;
        },
      );
    }
  }
});

test("what each node answered", async () => {
  await servers.tell("kill", "1,2");
  const error = await client
    .lock("nodes")
    .acquire({ wait: 50 })
    .then(assert.fail, (error) => error);
  assert.equal(error.code, "ERR_QUORLOCK_QUORUM_UNAVAILABLE");
  assert.ok(error.nodes.length >= 2);
  for (const { node, message } of error.nodes) {
    assert.match(node, /:\d+$/);
    assert.ok(message.length > 0);
  }
  await servers.tell("heal");
});

test("require and import have the same classes", () => {
  const required = require("../../node/dist/index.js");
  assert.deepEqual(Object.keys(required).sort(), Object.keys(quorlock).sort());
  for (const name of Object.keys(required)) assert.equal(required[name], quorlock[name], name);
});

test("JSON.stringify keeps what an error says", async () => {
  const none = new Client("redis://127.0.0.1:1", { wait: 0 });
  const error = await none.lock("json").acquire().then(assert.fail, (error) => error);
  const { name, message, code, summary, kind, number, nodes, lockName } = error;
  assert.equal(nodes.length, 1);
  const told = { name, message, code, summary, kind, number, nodes, lockName };
  assert.deepEqual(JSON.parse(JSON.stringify({ error })), { error: told });
  // What a user adds is kept, too; the stack, which names the files of a machine, is not.
  assert.deepEqual(JSON.parse(JSON.stringify(Object.assign(error, { order: 42 }))).order, 42);
});

test("nodes without an end are refused", () => {
  function* endless() {
    for (;;) yield "redis://127.0.0.1:1";
  }
  assert.throws(() => new Client({ nodes: endless() }), /nodes is .*: give a list of URLs that ends/);
});
