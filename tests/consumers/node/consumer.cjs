// A user of the package, by `require`.

const assert = require("node:assert/strict");
const { Client, LockContendedError, redlock } = require("quorlock");

(async () => {
  const client = new Client();
  const value = await redlock("consumer:cjs", { client }, async (lease) => {
    await assert.rejects(client.lock("consumer:cjs").acquire({ wait: 0 }), LockContendedError);
    return lease.isHeld();
  });
  assert.equal(value, true);
  const imported = await import("quorlock");
  assert.equal(imported.Client, Client);
  console.log("consumer is content");
})();
