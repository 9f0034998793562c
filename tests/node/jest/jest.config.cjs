// As users have it, but for what would write beside the tests.

"use strict";

module.exports = {
  testEnvironment: "node",
  testMatch: ["<rootDir>/*.jest.cjs"],
  transform: {},
  cacheDirectory: "<rootDir>/../../../target/jest",
  // Where it is "global", the timers are fake before the package is loaded.
  fakeTimers: { enableGlobally: process.env.QUORLOCK_FAKE === "global" },
};
