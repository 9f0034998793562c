// A user of the package, by `import`.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

import * as quorlock from "quorlock";
import { Client, LockContendedError, redlock } from "quorlock";

const client = new Client();
const value = await redlock("consumer:mjs", { client }, async (lease) => {
  await assert.rejects(client.lock("consumer:mjs").acquire({ wait: 0 }), LockContendedError);
  return lease.isHeld();
});
assert.equal(value, true);
const required = createRequire(import.meta.url)("quorlock");
assert.equal(required.Client, Client);
assert.deepEqual(Object.keys(required).sort(), Object.keys(quorlock).sort());
console.log("consumer is content");
