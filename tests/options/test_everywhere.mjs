// The part of test_everywhere.py in Node: tries the cases of its standard input, and prints for each a line of JSON: the error, or null.

import { readFileSync } from "node:fs";

import { Client, once, redlock, semaphore } from "../../node/dist/index.mjs";

const cases = JSON.parse(readFileSync(0, "utf8"));
let number = 0;
const name = () => `lock-${number++}`;
const nothing = () => {};

const held = async (lock) => {
  await (await lock.acquire()).release();
};

/** What is done with options in a place; `at` says where a scope has its client. */
const PLACES = {
  client: (client, given, { nodes }) => new Client({ nodes, ...given }).close(),
  lock: (client, given) => held(client.lock(name(), given)),
  acquire: async (client, given) => (await client.lock(name()).acquire(given)).release(),
  scope: (client, given, at) => redlock(name(), { ...at, ...given }, nothing),
  "scope of slots": (client, { slots = 2, ...given }, at) => semaphore(name(), slots, { ...at, ...given }, nothing),
  "scope of several": (client, given, at) => redlock([name(), name()], { ...at, ...given }, nothing),
  once: (client, given, at) => once(name(), { every: 10_000, ...at, ...given }, nothing),
  election: async (client, given) => {
    const election = client.election(name(), given);
    await election.campaign();
    await election.resign();
  },
  semaphore: (client, { slots = 2, ...given }) => held(client.semaphore(name(), slots, given)),
  several: (client, given) => held(client.lockAll([name(), name()], given)),
  rwlock: async (client, given) => {
    const { read, write } = client.rwlock(name(), given);
    await held(read());
    await held(write());
  },
};

const client = new Client({ nodes: cases[0].nodes });
for (const { place, given, where, nodes } of cases) {
  const at = where || place === "client" ? { nodes } : { client };
  let error = null;
  try {
    await PLACES[place](client, given, at);
  } catch (caught) {
    error = String(caught);
  }
  console.log(JSON.stringify(error));
}
await client.close();
