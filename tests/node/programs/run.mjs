// Draws programs and runs them: `N passed, M failed`. Of the first that fails the smallest is shown that still does.
//
//     node --expose-gc run.mjs --programs N [--seed FIRST] [--at-once N] [--node URL] [--package FOLDER --old]
//
// A program has the number of its seed: --seed goes on where another run has ended, and --programs 1 repeats one. Every fourth program is
// on a real server, which is started where --node names none.

import { createRequire } from "node:module";
import { join } from "node:path";
import { parseArgs } from "node:util";

import support from "../support.cjs";
import { drawn, shown, smaller } from "./draw.mjs";
import { counts, Play } from "./play.mjs";

const { values: asked } = parseArgs({
  options: {
    programs: { type: "string", default: "2000" },
    seed: { type: "string", default: "1" },
    "at-once": { type: "string", default: "16" },
    node: { type: "string" },
    package: { type: "string", default: support.PACKAGE },
    old: { type: "boolean", default: false },
    all: { type: "boolean", default: false },
  },
});
const REAL = 4;
/** How often a program that failed is tried before it counts as one that does not. */
const TRIES = 5;
const SHRINK_FOR = 60_000;

const require = createRequire(import.meta.url);
const main = join(asked.package, "dist", "index.js");
const [quorlock, testing] = [require(main), require(join(asked.package, "dist", "testing.js"))];
process.on("warning", ({ name, message }) => name !== "QuorlockWarning" && console.log(`warning: ${message}`));

const [first, count] = [Number(asked.seed), Number(asked.programs)];
const server = asked.node === undefined ? await support.stage("1") : { nodes: asked.node, stop: async () => {} };
// A machine that is busy with other things is no fault.
const clients = [0, 1].map(() => new quorlock.Client(server.nodes, { nodeTimeout: 10_000, ttl: 60_000 }));
for (const client of clients) client.setMaxListeners(Number(asked["at-once"]) + 1);
// Of the process, and not of its workers.
process.env.QUORLOCK_NODES = "memory://of-nobody";
let played = 0;

async function play(program, isReal) {
  const own = { prefix: `p${process.pid}.${++played}.`, quorlock, testing, main, old: asked.old };
  const where = isReal ? { nodes: server.nodes, clients } : { nodes: `memory://program-${played}` };
  return await new Play(program, { ...own, ...where }).run();
}

/** The smallest program that still fails, as far as there was time to look. */
async function shrunk(found, end = performance.now() + SHRINK_FOR) {
  for (const program of smaller(found.program)) {
    for (let i = 0; i < TRIES && performance.now() < end; i++) {
      const violation = await play(program, found.isReal);
      if (violation !== undefined) return await shrunk({ ...found, program, violation }, end);
    }
  }
  return found;
}

let [passed, failed, next] = [0, 0, first];
let found;

async function runner() {
  while (next < first + count && (failed === 0 || asked.all)) {
    const seed = next++;
    const program = drawn(seed);
    const isReal = seed % REAL === 0;
    const violation = await play(program, isReal);
    if (violation === undefined) {
      passed++;
      if (passed % 1000 === 0) console.log(`${passed} programs`);
      continue;
    }
    failed++;
    console.log(`program ${seed}${isReal ? " on a server" : ""}: ${violation}`);
    found ??= { seed, isReal, program, violation };
  }
}

await Promise.all(Array.from({ length: Number(asked["at-once"]) }, runner));
if (found !== undefined) {
  const { program, violation } = await shrunk(found);
  console.log(`after ${passed + failed} programs, the smallest of program ${found.seed}:\n${shown(program)}\n${violation}`);
}
console.log(Object.entries(counts).map(([what, n]) => `${n} ${what}`).join(", "));
await Promise.all(clients.map((client) => client.close()));
await server.stop();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
