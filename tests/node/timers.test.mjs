// Fake timers: those of sinon, of Jest and of Node's own test runner hold up nothing, and nothing keeps their runs alive.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import support from "./support.cjs";

const HERE = join(support.ROOT, "tests", "node");
let servers;

before(async () => {
  servers = await support.stage("3");
});
after(async () => {
  await servers.awaitNoKeys();
  await servers.stop();
});

/** A script that fakes timers in one of the ways, before or after the package is loaded. */
async function under(fake, load) {
  const { code, out, err } = await support.script(
    `
    const fake = () => { ${fake} };
    const load = () => require(process.env.QUORLOCK_MAIN);
    const { setImmediate: real, clearInterval } = globalThis;
    // Waiting for a loss alone keeps no process alive.
    const alive = setInterval(() => {}, 1000);
    (async () => {
      const quorlock = ${load};
      if (globalThis.setImmediate === real) throw new Error("nothing is faked");
      await require("./tests/node/jest/cycle.cjs")(quorlock);
      clearInterval(alive);
      console.log("done");
    })();`,
    { ...servers, flags: ["--no-warnings"] },
  );
  assert.deepEqual([code, out, err], [0, "done\n", ""]);
}

const SINON = `require("./tests/node/node_modules/sinon").useFakeTimers();`;
const NODE = `require("node:test").mock.timers.enable();`;

test("sinon's fake timers hold up nothing, whether they came before the package or after it", async () => {
  await under(SINON, "[load(), fake()][0]");
  await under(SINON, "(fake(), load())");
});

test("Node's own mock timers hold up nothing", async () => {
  await under(NODE, "(fake(), load())");
});

for (const fake of ["none", "test", "global"]) {
  test(`Jest ends by itself, fake timers: ${fake}`, async () => {
    const jest = join(HERE, "node_modules", "jest", "bin", "jest.js");
    const words = [jest, "--config", join(HERE, "jest", "jest.config.cjs"), "--runInBand", "--no-watchman"];
    const env = { ...process.env, QUORLOCK_NODES: servers.nodes, QUORLOCK_MAIN: support.MAIN, QUORLOCK_FAKE: fake };
    // Its own, which it would take for those of this run.
    for (const name of Object.keys(env)) if (/^(node_test_|jest_)/i.test(name)) delete env[name];
    const { stderr } = await promisify(execFile)(process.execPath, words, { env, cwd: HERE, timeout: 60_000 });
    assert.match(stderr, /2 passed, 2 total\n/);
    assert.doesNotMatch(stderr, /did not exit|open handles/);
  });
}
