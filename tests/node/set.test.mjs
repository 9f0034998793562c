// Sets of nodes: declared, guarded, named; and the options about them.

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";

import {
  Client,
  InvalidArgumentError,
  MisconfiguredError,
  QuorumUnavailableError,
  redlock,
} from "../../node/dist/index.mjs";
import support from "./support.cjs";

const unhandled = support.noUnhandled();
let servers, clients;
const made = (options) => {
  const client = new Client({ nodes: servers.nodes, ...options });
  clients.push(client);
  return client;
};

before(async () => {
  servers = await support.stage("3");
});
beforeEach(async () => {
  clients = [];
  // Nodes as new as can be: no record.
  await servers.tell("heal");
});
after(async () => {
  await servers.stop();
  assert.deepEqual(unhandled, []);
});
const close = async () => {
  await Promise.all(clients.map((client) => client.close()));
  await servers.awaitNoKeys();
};

test("initSet founds a set, and says for how long it gives no vote; force lifts that", async () => {
  const client = made();
  // Whoever was told to delete may have lost something.
  await servers.tell("redis", "all", "DEL", "something");
  const left = await client.initSet();
  assert.ok(left > 30_000 && left < 62_000, `${left}`);
  await servers.tell("expect", "all", "has:%20default%20", "GET", "lock:%23node");
  await assert.rejects(client.lock("a").acquire({ wait: 0 }), QuorumUnavailableError);
  // As at every deploy: nothing is changed.
  const still = await made().initSet({});
  assert.ok(still > 0 && still <= left, `${still} after ${left}`);
  assert.equal(await client.initSet({ force: true }), 0);
  const lease = await client.lock("a").acquire({ wait: 0 });
  assert.equal(await made().initSet({ force: false }), 0);
  assert.equal(await lease.release(), true);
  await close();
});

test("a node of another set refuses it, forced too", async () => {
  await made({ setName: "theirs" }).initSet({ force: true });
  for (const options of [undefined, { force: true }]) {
    const error = await made()
      .initSet(options)
      .then(assert.fail, (error) => error);
    assert.ok(error instanceof MisconfiguredError, `${error}`);
    assert.equal(error.nodes.length, 3);
    for (const { node, message } of error.nodes) {
      assert.ok(servers.nodes.includes(node), node);
      assert.match(message, /record/);
    }
  }
  await servers.tell("expect", "all", "has:%20theirs%20", "GET", "lock:%23node");
  await close();
});

test("a set of which one node does not answer is not declared", async () => {
  await servers.tell("kill", "2");
  const error = await made()
    .initSet()
    .then(assert.fail, (error) => error);
  assert.ok(error instanceof QuorumUnavailableError, `${error}`);
  assert.equal(error.nodes.length, 3);
  // It says what is wrong; the others, that they are no set without it.
  const [, second] = error.nodes;
  for (const { node, message } of error.nodes) assert.ok(`${node} ${message}`.includes(second.node), message);
  await servers.tell("expect", "1,3", "0", "EXISTS", "lock:%23node");
  await close();
});

test("what initSet does not know is refused", async () => {
  const client = made();
  const wrong = [
    [{ force: 1 }, /^force is 1: give true or false$/],
    [{ forced: true }, /no option 'forced'/],
    [true, /^options is true: give an object$/],
  ];
  for (const [options, message] of wrong) {
    await assert.rejects(client.initSet(options), (error) => {
      assert.ok(error instanceof InvalidArgumentError, `${error}`);
      assert.match(error.message.replace(`${error.summary}: `, ""), message);
      return true;
    });
  }
  await servers.tell("expect", "all", "0", "EXISTS", "lock:%23node");
  await close();
});

test("a new set waits out maxTtl", async () => {
  const error = await made()
    .lock("a")
    .acquire({ wait: 2000 })
    .then(assert.fail, (error) => error);
  assert.ok(error instanceof QuorumUnavailableError, `${error}`);
  // It ends when two have said so: no quorum is left.
  assert.ok(error.nodes.filter(({ message }) => /quarantine/.test(message)).length >= 2, `${error}`);
  await close();
  await servers.tell("heal");
  await (await made({ ttl: 1000, maxTtl: 1000 }).lock("a").acquire({ wait: 20_000 })).release();
  await close();
});

test("with the guard off it does not wait", async () => {
  const open = made({ restartGuard: "off" });
  await (await open.lock("a").acquire()).release();
  await close();
});

test("redlock takes the options of sets, and makes a client for each choice of them", async () => {
  const ours = { setName: "ours", restartGuard: "off", fenceTtl: 200_000, acceptEviction: true };
  const options = { nodes: servers.nodes, ...ours };
  await redlock("scoped", options, async (lease) => {
    assert.ok(lease.fence > 0);
    await servers.tell("expect", "all", "has:%20ours%20", "GET", "lock:%23node");
    await servers.tell("expect-ttl", "1", "lock:%23f:{scoped}", "210000", "250000");
    // Another name is another set, and another client that finds it out.
    const other = { ...options, setName: "theirs" };
    const error = await redlock("other", other, async () => {}).then(assert.fail, (error) => error);
    assert.ok(error instanceof MisconfiguredError, `${error}`);
    const told = error.nodes.map(({ message }) => message).join("\n");
    assert.match(told, /ours/);
    assert.match(told, /theirs/);
  });
  await close();
});

test("initSet after close", async () => {
  const client = made();
  await client.close();
  await assert.rejects(client.initSet(), { code: "ERR_QUORLOCK_CLOSED" });
});

const WRONG = [
  [{ fencing: 1 }, /^fencing is 1: give true or false$/],
  [{ fair: 1 }, /^fair is 1: give true or false$/],
  [{ fencing: "on" }, /^fencing is 'on'/],
  [{ fenceTtl: "10" }, /^fenceTtl is '10': give a time in milliseconds$/],
  [{ fenceTtl: null }, /^fenceTtl is null/],
  [{ fenceTtl: -1 }, /^fenceTtl is -1: give a time in milliseconds, 0 or more$/],
  [{ fenceTtl: Infinity }, /^fenceTtl is Infinity: give a time/],
  [{ fenceTtl: 119_999 }, /^fenceTtl is 119\.999s: give 120s to .*maxTtl/],
  [{ setName: 5 }, /^setName is 5: give a string$/],
  [{ setName: "a b" }, /^setName is `a b`: give /],
  [{ setName: "" }, /^setName is ``/],
  [{ setName: "x".repeat(65) }, /^setName is text of 65 characters/],
  [{ restartGuard: "maybe" }, /^restartGuard is `maybe`: give auto, on or off$/],
  [{ restartGuard: true }, /^restartGuard is true: give "auto", "on" or "off"$/],
  [{ acceptEviction: "yes" }, /^acceptEviction is 'yes': give true or false$/],
];

test("wrong values are refused by name and value, by a client and by redlock", async () => {
  for (const [options, message] of WRONG) {
    const expected = (error) => {
      assert.ok(error instanceof InvalidArgumentError, `${error}`);
      assert.match(error.message.replace(`${error.summary}: `, ""), message);
      return true;
    };
    assert.throws(() => new Client({ nodes: servers.nodes, ...options }), expected);
    const scoped = { nodes: servers.nodes, ...options };
    await assert.rejects(redlock("wrong", scoped, assert.fail), expected);
  }
  const client = made();
  assert.throws(() => client.lock("a", { fencing: null }), /fencing is null/);
  for (const name of ["fenceTtl", "setName", "restartGuard", "acceptEviction"]) {
    // These are the client's alone.
    assert.throws(() => client.lock("a", { [name]: 5 }), new RegExp(`no option '${name}'`));
  }
  await assert.rejects(redlock("a", { client, fenceTtl: 600_000 }, assert.fail), /a client has its own fenceTtl/);
  await close();
});
