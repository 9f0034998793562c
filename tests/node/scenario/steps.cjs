// Reading a scenario: the format is in tests/scenarios/README.md. The driver has checked the file.

"use strict";

const VERB_WORDS = {
  client: 1,
  lock: 3,
  locks: 3,
  election: 3,
  leader: 1,
  resign: 1,
  acquire: 2,
  try: 2,
  release: 1,
  unlock: 1,
  drop: 1,
  extend: 1,
  ensure: 2,
  downgrade: 1,
  export: 2,
  adopt: 3,
  held: 1,
  remaining: 1,
  fence: 1,
  "fence-of": 2,
  "lost-name": 1,
  newer: 2,
  "same-slot": 2,
  force: 2,
  init: 1,
  lost: 2,
  stats: 3,
  metric: 1,
  close: 1,
  message: 2,
  causes: 0,
  inspect: 2,
  error: 1,
  finish: 2,
  cancel: 1,
};

/** A line does not hold, or is not understood. */
class Failure extends Error {}

/** The text that a word stands for, or its bytes if it is not UTF-8. */
function text(word) {
  if (word === "%") return "";
  const raw = Buffer.from(
    Buffer.from(word)
      .toString("latin1")
      .replace(/%([0-9a-fA-F]{2})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16))),
    "latin1",
  );
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw);
  } catch {
    return raw;
  }
}

function step(number, line) {
  let words = line.split(/\s+/).filter(Boolean);
  const found = { line: number, actor: "main", started: false, expected: "ok", options: {} };
  if (words[0] === "in" || words[0] === "start") {
    found.actor = words[1];
    found.started = words[0] === "start";
    words = words.slice(2);
  }
  if (words.at(-2) === "->") {
    found.expected = words.at(-1);
    words = words.slice(0, -2);
  }
  found.verb = words.shift();
  if (found.verb !== "stage") {
    const count = VERB_WORDS[found.verb];
    if (count === undefined) throw new Failure(`line ${number}: no verb ${found.verb}`);
    for (const word of words.splice(count)) {
      const at = word.indexOf("=");
      if (at < 1) throw new Failure(`line ${number}: ${found.verb} takes ${count} words, and options`);
      found.options[word.slice(0, at)] = word.slice(at + 1);
    }
    if (words.length !== count) throw new Failure(`line ${number}: ${found.verb} takes ${count} words`);
  }
  found.words = words;
  return found;
}

/** The steps of a file. Its first line that means something is for the driver. */
function parse(content) {
  const lines = content.split("\n").map((line, i) => [i + 1, line]);
  const meant = lines.filter(([, line]) => line.trim() !== "" && !line.trimStart().startsWith("#"));
  return meant.slice(1).map(([number, line]) => step(number, line));
}

/** Whether an answer is as expected. */
function holds(expected, got) {
  const [, sign, limit] = /^(>=|<=)?(\d+)$/.exec(expected) ?? [];
  if (limit === undefined || !/^-?\d+$/.test(got)) return got === expected;
  if (sign === ">=") return Number(got) >= Number(limit);
  if (sign === "<=") return Number(got) <= Number(limit);
  return Number(got) === Number(limit);
}

module.exports = { Failure, holds, parse, text };
