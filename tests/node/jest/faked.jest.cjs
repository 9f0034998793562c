"use strict";

const assert = require("node:assert/strict");

// Jest's `test` and `jest` are globals here.
test("under fake timers", async () => {
  if (process.env.QUORLOCK_FAKE === "test") jest.useFakeTimers();
  assert.equal(setImmediate.clock === undefined, process.env.QUORLOCK_FAKE === "none");
  await require("./cycle.cjs")(require(process.env.QUORLOCK_MAIN));
}, 20_000);
