// Goes through a scenario. An actor is a queue of lines and an owner's name.

"use strict";

const { readFileSync } = require("node:fs");

const { Failure, holds, parse } = require("./steps.cjs");
const { Verbs } = require("./verbs.cjs");

const LONGEST = 60_000;

class Actor {
  #verbs;
  #last = Promise.resolve();
  #controller = new AbortController();

  constructor(verbs) {
    this.#verbs = verbs;
  }

  /** Carries the line out after those before it. */
  begin(step) {
    this.#controller = new AbortController();
    const { signal } = this.#controller;
    const answer = this.#last.then(() => this.#verbs.answer(step, signal));
    this.#last = answer.catch(() => {});
    return answer;
  }

  cancel() {
    this.#controller.abort();
  }
}

/** The answer, or `pending` if it does not come in time. */
async function within(answer, milliseconds) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, milliseconds, "pending");
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

async function play(steps, verbs) {
  const actors = new Map();
  const begun = new Map();
  const actor = (name) => {
    if (!actors.has(name)) actors.set(name, new Actor(verbs));
    return actors.get(name);
  };
  for (const step of steps) {
    if (step.started) {
      const answer = actor(step.actor).begin(step);
      // It is looked at when it is finished.
      answer.catch(() => {});
      begun.set(step.actor, answer);
      continue;
    }
    let got = "ok";
    if (step.verb === "finish") got = await within(begun.get(step.words[0]), Number(step.words[1]));
    else if (step.verb === "cancel") actor(step.words[0]).cancel();
    else got = await within(actor(step.actor).begin(step), LONGEST);
    if (!holds(step.expected, got)) {
      const why = /^[A-Z]/.test(got) ? `: ${verbs.errorText()}` : "";
      throw new Failure(`line ${step.line}: expected ${step.expected}, got ${got}${why}`);
    }
  }
}

/** A runner's main: resolves to its exit status. */
async function main(quorlock) {
  const verbs = new Verbs(quorlock);
  try {
    await play(parse(readFileSync(process.env.QUORLOCK_SCENARIO, "utf8")), verbs);
    return 0;
  } catch (error) {
    console.log(error instanceof Failure ? error.message : error);
    return 1;
  } finally {
    await verbs.closeAll();
  }
}

module.exports = { main };
