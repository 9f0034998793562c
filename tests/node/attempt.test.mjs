// `redlock.attempt`: work that is left out where others hold the lock.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Client, InvalidArgumentError, LockContendedError, redlock } from "../../node/dist/index.mjs";
import support from "./support.cjs";

let servers, client, other;

before(async () => {
  servers = await support.stage("3");
  [client, other] = [new Client(servers.nodes), new Client(servers.nodes)];
});
after(async () => {
  await Promise.all([client.close(), other.close()]);
  await servers.awaitNoKeys();
  await servers.stop();
});

test("attempt leaves the body out where another holds the lock, at once or after a wait", async () => {
  assert.equal(await redlock.attempt("a", { client }, (lease) => lease.isHeld()), true);
  const lease = await other.lock("a").acquire();
  for (const options of [{ client }, { client, wait: 50 }]) {
    assert.equal(await redlock.attempt("a", options, assert.fail), undefined);
  }
  const waits = redlock.attempt("a", { client, wait: 20_000 }, () => "in time");
  await lease.release();
  assert.equal(await waits, "in time");
});

test("an attempt enters again where it says so", async () => {
  await redlock.attempt("b", { client }, async (lease) => {
    assert.equal(await redlock.attempt("b", { client, reentrant: true }, (again) => again.token), lease.token);
    assert.equal(await redlock.attempt("b", { client }, assert.fail), undefined);
  });
});

test("what else goes wrong in an attempt is told", async () => {
  const own = new LockContendedError("of its own");
  await assert.rejects(
    redlock.attempt("c", { client }, () => {
      throw own;
    }),
    (error) => error === own,
  );
  await assert.rejects(redlock.attempt("c", { client, wait: -1 }, assert.fail), InvalidArgumentError);
  await assert.rejects(redlock.attempt("c", { client }), /give a function/);
  const aborted = AbortSignal.abort(new RangeError("enough"));
  await assert.rejects(redlock.attempt("c", { client, signal: aborted }, assert.fail), RangeError);
  await servers.tell("kill", "1,2");
  await assert.rejects(redlock.attempt("c", { client }, assert.fail), /no quorum/);
  await servers.tell("start", "1,2");
});
