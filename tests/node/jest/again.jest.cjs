// A second file: Jest loads every module anew in the same process, and the addon once.

"use strict";

test("the package is loaded again", async () => {
  const { redlock } = require(process.env.QUORLOCK_MAIN);
  expect(await redlock("again", ({ fence }) => fence)).toBeGreaterThan(0);
}, 20_000);
