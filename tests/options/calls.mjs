// Each call of the Node package that takes options of core/options.toml, and what is written for them: right, wrong, misspelt and misplaced. By it
// tests/node/options.test.mjs runs them, and tests/consumers/node.test.mjs has TypeScript look at them.

import { readFileSync } from "node:fs";

const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
const defined = JSON.parse(readFileSync(new URL("options.json", import.meta.url)));
const OPTIONS = Object.entries(defined).map(([name, option]) => ({ name: camel(name), ...option }));

/** Where the options stand there is a `%`. */
const CALLS = [
  ["client", "new Client({ % })"],
  ["lock", 'client.lock("a", { % })'],
  ["semaphore", 'client.semaphore("a", 2, { % })'],
  ["rwlock", 'client.rwlock("a", { % })'],
  ["several", 'client.lockAll(["a", "b"], { % })'],
  ["election", 'client.election("a", { % })'],
  ["acquire", 'client.lock("a").acquire({ % })'],
  ["acquire", 'client.lockAll(["a"]).acquire({ % })'],
  ["acquire", 'client.election("a").campaign({ % })'],
  ["scope", 'redlock("a", { % }, () => 1)'],
  ["scope, several", 'redlock(["a", "b"], { % }, () => 1)'],
  ["scope, several", "redlock(names, { % }, () => 1)"],
  ["scope", 'redlock.attempt("a", { % }, () => 1)'],
  ["scope, several", 'redlock.attempt(["a", "b"], { % }, () => 1)'],
  ["scope, several", "redlock.attempt(names, { % }, () => 1)"],
  ["scope, semaphore", 'semaphore("a", 2, { % }, () => 1)'],
  ["once", 'once("a", { % }, () => 1)'],
];

/** By what an option takes: one that is right, and what is wrong by its type. `duration` is like a `Temporal.Duration`. */
const VALUES = {
  time: ["1000", "duration", '"1000"', "null"],
  limit: ["null", "duration", '"1000"', "true"],
  flag: ["true", '"true"', "1", "null"],
  count: ["1", '"1"', "null", "1n"],
  slots: ["2", '"2"', "null", "[2]"],
  fraction: ["0.2", '"0.2"', "null"],
  text: ['"a"', "5", "null", '["a"]'],
  word: [null, '"no such word"', "5", "null"],
  name: ['"a"', "5", "null", '["a"]'],
  urls: ['["memory://a"]', "5", "null", "[5]"],
  pem: ['"a"', "5", "null", '["a"]'],
};

const right = ({ takes, words }) => (takes === "word" ? JSON.stringify(words[0]) : VALUES[takes][0]);

/** Whole calls, as `{ code, kind, name }`; kinds are `right`, `wrong`, `misspelt` and `misplaced`, and names those of the option that is meant. */
export function* calls() {
  for (const [place, form] of CALLS) {
    const needed = OPTIONS.filter((option) => option.needed?.includes(place));
    const made = (kind, name, ...members) => {
      const given = needed.filter((option) => option.name !== name || kind === "misspelt");
      return { kind, name, code: form.replace("%", [...given.map((option) => `${option.name}: ${right(option)}`), ...members].join(", ")) };
    };
    const here = OPTIONS.filter((option) => option.in.includes(place));
    yield made("right", undefined, ...here.filter((option) => !needed.includes(option)).map((option) => `${option.name}: ${right(option)}`));
    for (const option of here) {
      yield made("misspelt", option.name, `${option.name}x: ${right(option)}`);
      for (const value of VALUES[option.takes].slice(1)) yield made("wrong", option.name, `${option.name}: ${value}`);
    }
    for (const option of OPTIONS) {
      // Node has no such option at all, or it has it here.
      if (option.in.length === 0 || here.includes(option)) continue;
      yield made("misplaced", option.name, `${option.name}: ${right(option)}`);
    }
  }
}
