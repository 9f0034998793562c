// The state of a set: `client.probe`.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Client, ClientClosedError } from "../../node/dist/index.mjs";
import support from "./support.cjs";

let servers, client;

before(async () => {
  servers = await support.stage("3");
  client = new Client(servers.nodes);
});
after(async () => {
  await client.close();
  await assert.rejects(client.probe(), ClientClosedError);
  await servers.stop();
});

test("a set that works, and what its nodes are", async () => {
  const found = await client.probe();
  assert.deepEqual(
    [found.health, found.votes, found.quorum, found.setName, found.maxTtl, found.guard, found.findings],
    ["works", 3, 2, "default", 60_000, true, []],
  );
  for (const node of found.nodes) {
    assert.deepEqual([node.answers, node.votes, node.record, node.role], [true, true, "expected", "master"]);
    assert.ok(0 < node.roundTrip[0] && node.roundTrip[0] <= node.roundTrip[1]);
    assert.ok(Math.abs(node.clock) < 1000);
    assert.deepEqual([node.memoryLimit, node.quarantine, node.findings], [null, 0, []]);
  }
});

test("a probe tells of a node that is dead", async () => {
  await servers.tell("kill", "1");
  const found = await client.probe();
  assert.deepEqual([found.health, found.votes], ["works_but", 2]);
  assert.deepEqual(found.nodes[0].findings.map(({ id, severity }) => [id, severity]), [["QD01", "error"]]);
  assert.equal(found.nodes[0].roundTrip, null);
  await servers.tell("start", "1");
});
