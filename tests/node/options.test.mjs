// Each option in each call that takes any: what is wrong with it is told by its name.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, InvalidArgumentError, once, redlock, semaphore } from "../../node/dist/index.mjs";
import { calls } from "../options/calls.mjs";

const client = new Client("memory://options");
// Like a `Temporal.Duration`.
const duration = { hours: 1, total: () => 3600, valueOf: () => assert.fail("it was made a number") };
const given = { Client, client, once, redlock, semaphore, names: ["a", "b"], duration };

test("an option that is misspelt, of a wrong type or where it may not stand is refused by its name", async () => {
  const counts = { wrong: 0, misspelt: 0, misplaced: 0 };
  for (const { kind, name, code } of calls()) {
    if (kind === "right") continue;
    counts[kind]++;
    const call = new Function(...Object.keys(given), `return ${code};`);
    const told = { wrong: `^${name} is |^a node is `, misspelt: `^there is no option '${name}x' here: did you mean '${name}'\\?$`, misplaced: `^there is no option '${name}' here` };
    await assert.rejects(
      async () => call(...Object.values(given)),
      (error) => {
        assert.ok(error instanceof InvalidArgumentError, `${code}: ${error}`);
        assert.match(error.message.slice(error.summary.length + 2), new RegExp(told[kind]), code);
        return true;
      },
    );
  }
  for (const [kind, count] of Object.entries(counts)) assert.ok(count > 100, `${count} ${kind}`);
});

test("an option is nearest to one of the same place, and else its place is told", async () => {
  for (const [call, told] of [
    [() => client.lock("a", { tll: 5 }), "here: did you mean 'ttl'?"],
    [() => client.lock("a", { tlt: 5 }), "here: did you mean 'ttl'?"],
    [() => client.lock("a", { max_hold: 5 }), "here: did you mean 'maxHold'?"],
    [() => client.lock("a", { maxhold: 5 }), "here: did you mean 'maxHold'?"],
    [() => client.lock("a", { maxTll: 5 }), "'maxTll' here"],
    [() => client.lock("a", { maxTtl: 5 }), "here: it is one of a client"],
    [() => client.lock("a", { every: 5 }), "here: it is one of once"],
    [() => client.lock("a", { reentrant: true }), "here: it is one of redlock"],
    [() => client.election("a", { owner: "me" }), "here: it is one of a lock"],
    [() => client.lock("a").acquire({ ttl: 5 }), "here: it is one of a lock"],
    [() => client.lock("a").acquire({ wiat: 5 }), "here: did you mean 'wait'?"],
    [() => client.lock("a", { timeout: 5 }), "'timeout' here"],
    [() => client.lock("a", { a: 5 }), "'a' here"],
    [() => client.initSet({ forse: true }), "here: did you mean 'force'?"],
    [() => client.lock("a", { s3cretOfMine: 5 }), "there is no option of that name here"],
  ]) {
    await assert.rejects(async () => call(), (error) => error instanceof InvalidArgumentError && error.message.endsWith(told), told);
  }
});

test("bounds are the real ones", async () => {
  for (const [call, told] of [
    [() => client.semaphore("a", 500), /slots is 500: give 1 to 128$/],
    [() => client.semaphore("a", 2 ** 40), /slots is 1099511627776: give an integer, 1 to 128$/],
    [() => client.semaphore("a"), /slots is undefined: give an integer, 1 to 128$/],
    [() => semaphore("a", "2", () => 1), /slots is '2': give an integer, 1 to 128$/],
    [() => new Client({ waitReplicas: 17 }), /waitReplicas is 17: give 0 to 16/],
    [() => new Client({ waitReplicas: 1.5 }), /waitReplicas is 1.5: give an integer, 0 to 16$/],
    [() => new Client({ drift: 1 }), /drift is 1: give a fraction from 0.001 to 0.5$/],
  ]) {
    await assert.rejects(async () => call(), told);
  }
});
