// A candidate of the runs with leaders, in Node, as tests/leaders/README.md says.

import { openSync, writeSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

import { Client } from "../../node/dist/index.mjs";

const setting = (name) => process.env[`LEADERS_${name}`];
const millis = (name) => Number(setting(name));
const name = setting("NAME");
const careless = millis("CARELESS");
const history = openSync(setting("HISTORY"), "a");

/** `CLOCK_MONOTONIC`. */
const now = () => process.hrtime.bigint();
const nanoseconds = (ms) => BigInt(Math.trunc(ms * 1e6));
const write = (kind, ...words) => writeSync(history, `${[kind, name, ...words].join(" ")}\n`);
let fence = 0;

/** Looks at the term and writes how it is. Returns whether to go on. */
function look(kind, term, end) {
  // The clock is read before the term is asked: what it says is true of then, too.
  const at = now();
  const held = careless > 0 || term.isHeld();
  write(kind, term.fence, Number(held), at, at + nanoseconds(term.remaining()));
  return careless > 0 ? at < end : held;
}

const client = new Client({ nodes: process.env.QUORLOCK_NODES, label: name, ttl: millis("TTL") });
await client.election(setting("ELECTION")).run(
  async (term) => {
    const end = now() + nanoseconds(careless);
    fence = term.fence;
    try {
      look("begin", term, end);
      while (look("step", term, end)) await pause(millis("STEP"));
    } finally {
      write("ended", term.fence, now());
    }
  },
  {
    again: true,
    onLost: (reason) => write("lost", fence, reason, now()),
    onStopped: () => write("stopped", fence, now()),
  },
);
