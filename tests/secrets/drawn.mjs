// Wrong arguments of the Node package that are drawn, with a marker where a secret stands:
//
//     node tests/secrets/drawn.mjs [--draws N] [--from SEED] [--broken]
//
// Of any type, nested, in place of any option, name and call, as names of options, in the environment. No error, `util.inspect`,
// JSON, line of the log, warning nor metric has the marker, or six characters of it. Ends with `N passed, M failed`; a draw is
// played again by its seed. With --broken each draw also shows its marker: all have to fail.

import { readFileSync } from "node:fs";
import { inspect, parseArgs } from "node:util";

import * as quorlock from "../../node/dist/index.mjs";

const { Client, metricsText, once, redlock } = quorlock;
const { attempt } = redlock;
const forms = JSON.parse(readFileSync(new URL("forms.json", import.meta.url)));
/** So many characters of a secret are a piece of it. */
const PIECE = 6;
const SHOWN_AT_MOST = 400;
const LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const options = JSON.parse(readFileSync(new URL("../options/options.json", import.meta.url)));
const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
/** The options of a place that take such, as Node spells them. */
const taking = (place, ...kinds) =>
  Object.entries(options)
    .filter(([, { takes, in: places }]) => places.includes(place) && kinds.includes(takes))
    .map(([name]) => camel(name));
const ORDINARY = ["time", "limit", "flag", "count", "fraction", "word"];
/** What everybody sees, and a letter that it may not have. */
const PUBLIC = Object.fromEntries(
  Object.entries(options).flatMap(([name, { without }]) => (without === undefined ? [] : [[camel(name), without[0]]])),
);
/** Those whose path an error shows. */
const SHOWN = Object.entries(options).filter(([, option]) => option.path_is_shown).map(([name]) => camel(name));
const [NODES, FILES, OWNERS] = [taking("client", "urls"), taking("client", "pem"), taking("lock", "name")];

/** What is drawn by one seed. */
class Draw {
  #state;

  constructor(seed) {
    this.#state = BigInt(seed);
    this.marker = Array.from({ length: 16 }, () => this.one(...LETTERS)).join("");
  }

  below(limit) {
    const wrap = (number) => BigInt.asUintN(64, number);
    this.#state = wrap(this.#state + 0x9e3779b97f4a7c15n);
    let z = wrap((this.#state ^ (this.#state >> 30n)) * 0xbf58476d1ce4e5b9n);
    z = wrap((z ^ (z >> 27n)) * 0x94d049bb133111ebn);
    return Number((z ^ (z >> 31n)) % BigInt(limit));
  }

  one(...these) {
    return these[this.below(these.length)];
  }

  #filled(form) {
    const text = form.replaceAll("%", this.marker);
    return this.one(` ${text}\n`, `${text},${text}`, text.repeat(30), text, text, text, text, text);
  }

  secret() {
    return this.#filled(this.one(...forms.everywhere));
  }

  given() {
    return this.one(true, false) ? this.#filled(this.one(...forms["in its place"])) : this.secret();
  }

  /** A text for what everybody sees: a secret, or what is refused for the letters `refused`. */
  shared(refused) {
    return this.one(this.secret(), refused + this.marker.repeat(20), this.marker.repeat(70) + refused);
  }

  wrapped(text = this.given()) {
    const url = () => {
      try {
        return new URL(text);
      } catch {
        return { href: text };
      }
    };
    return this.one(
      () => ({ url: text }),
      () => ({ [text]: 1 }),
      () => ({ host: "h", password: text }),
      () => [text],
      () => [[text]],
      () => new Map([[text, text]]),
      () => new Set([text]),
      () => Buffer.from(text),
      () => new TextEncoder().encode(text).buffer,
      () => url(),
      () => new String(text),
      () => Object.assign(() => {}, { url: text }),
      () => Symbol(text),
      () => new Error(text),
      () => ({ toString: () => text, [inspect.custom]: () => text, toJSON: () => text }),
      () => Object.create({ url: text }),
      () => BigInt(`0x${Buffer.from(text).toString("hex")}`),
      () => [null, { deep: [text] }],
      () => `${text}\ud800`,
      () => ({ *[Symbol.iterator]() { yield text; yield null; } }),
      () => Promise.resolve(text),
      () => new Proxy({ url: text }, {}),
      () => new Date(NaN),
      () => /x/,
    )();
  }

  anything() {
    const text = this.given();
    return this.one(text, text, this.wrapped(text));
  }
}

function leaked(marker, text) {
  const lower = text.toLowerCase();
  for (let at = 0; at + PIECE <= marker.length; at++) {
    if (lower.includes(marker.slice(at, at + PIECE).toLowerCase())) return true;
  }
  return false;
}

let told = [];
quorlock.redlock.events.on("log", (line) => told.push(line));
process.on("warning", (warning) => told.push(warning));

function add(value) {
  told.push(inspect(value, { depth: 8, showHidden: true }));
  told.push(inspect(value));
  try {
    told.push(JSON.stringify(value) ?? "");
    told.push(String(value));
  } catch {
    // It has no such form.
  }
}

function addError(error) {
  for (let one = error; one !== undefined && one !== null; one = one.cause) {
    add(one);
    told.push(String(one?.stack), String(one?.message), JSON.stringify(Object.getOwnPropertyDescriptors(Object(one))));
  }
}

/** What a call gives, or how it is refused; and what comes of that. */
async function result(call) {
  try {
    const made = await call();
    add(made);
    return made;
  } catch (error) {
    addError(error);
    return undefined;
  }
}

function ofClient(draw) {
  const name = draw.one(...NODES, ...NODES, ...FILES, ...taking("client", ...ORDINARY), ...Object.keys(PUBLIC), "");
  // Its name is what is wrong.
  if (name === "") return { [draw.given()]: draw.anything() };
  if (name in PUBLIC) return { [name]: draw.one(draw.shared(PUBLIC[name]), draw.wrapped(draw.secret())) };
  const isFile = FILES.includes(name);
  const value = SHOWN.includes(name) ? draw.one(draw.secret(), draw.wrapped(draw.secret())) : draw.anything();
  if (NODES.includes(name) && draw.one(true, false)) return { [name]: ["memory://a", value] };
  const others = isFile && draw.one(true, false) ? Object.fromEntries(FILES.map((file) => [file, `/nowhere/${file}`])) : {};
  return { ...others, [name]: value };
}

function ofLock(draw) {
  const name = draw.one(...taking("lock", ...ORDINARY, "slots", "name", "text"), "");
  if (name === "") return { [draw.given()]: draw.anything() };
  if (name in PUBLIC) return { [name]: draw.one(draw.shared(PUBLIC[name]), draw.wrapped(draw.secret())) };
  return { [name]: OWNERS.includes(name) ? draw.one(draw.secret(), draw.wrapped(draw.secret())) : draw.anything() };
}

const nameOf = (draw) => draw.one(draw.shared("}{"), draw.wrapped(draw.secret()));

async function ended(made) {
  if (typeof made?.release === "function" && typeof made.isHeld === "function") await made.release();
}

async function clientCalls(draw) {
  const own = () => ({ nodes: "memory://secrets", ...ofClient(draw) });
  const make = draw.one(
    () => new Client(own()),
    () => new Client(own()),
    () => new Client(draw.anything()),
    () => new Client(draw.wrapped(), own()),
  );
  const client = await result(make);
  await client?.close?.();
}

async function lockCalls(draw, client) {
  const call = draw.one(
    () => client.lock(nameOf(draw)),
    () => client.lock("a", ofLock(draw)),
    () => client.lock("a", draw.wrapped()),
    () => client.semaphore(nameOf(draw), draw.anything()),
    () => client.semaphore("a", draw.anything()),
    () => client.lockAll([nameOf(draw), "b"]),
    () => client.lockAll(draw.anything(), ofLock(draw)),
    () => client.election(nameOf(draw)),
    () => client.election("a", ofLock(draw)),
    () => client.lock("a").acquire({ wait: draw.anything() }),
    () => client.lock("a").acquire({ label: draw.shared("\n") }),
    () => client.lock("a").acquire({ signal: draw.anything() }),
    () => client.lock("a").acquire({ [draw.given()]: 1 }),
    () => client.forceRelease("a", { fence: draw.anything() }),
    () => client.forceRelease(nameOf(draw)),
    () => client.inspect(nameOf(draw)),
    () => client.adopt(draw.anything()),
    () => client.initSet(draw.wrapped()),
    () => client.election("a").run(draw.wrapped()),
    () => client.election("a").observe({ every: draw.anything() }),
  );
  await ended(await result(call));
}

async function redlockCalls(draw, client) {
  const where = () => draw.one({ nodes: "memory://secrets", ...ofClient(draw) }, { client, ...ofLock(draw) });
  const body = () => {};
  const call = draw.one(
    () => redlock("a", where(), body),
    () => redlock(nameOf(draw), { client }, body),
    () => redlock("a", draw.anything(), body),
    () => redlock("a", { client: draw.anything() }, body),
    () => redlock("a", { client }, draw.anything()),
    () => redlock("a", where()),
    () => attempt("a", where(), body),
    () => attempt("a", { client, otherwise: draw.anything() }, body),
    () => once("a", { every: draw.anything(), ...where() }, body),
    () => once("a", { every: 1000, ...where() }, draw.anything()),
  );
  await ended(await result(call));
}

async function environmentCalls(draw) {
  process.env.QUORLOCK_NODES = draw.given().replaceAll("\0", "");
  const client = await result(() => new Client({ nodeTimeout: 20, connectTimeout: 20 }));
  await client?.close();
  await result(() => redlock("a", { wait: 0, nodeTimeout: 20, connectTimeout: 20 }, () => {}));
  delete process.env.QUORLOCK_NODES;
}

/** Whose password is right where it stands, of a node that is not there. */
async function reachedCalls(draw) {
  const client = new Client({ nodes: `redis://u:${draw.marker}@127.0.0.1:1`, wait: 0, nodeTimeout: 20, connectTimeout: 20 });
  client.on("log", (line) => told.push(line));
  add(client);
  await result(() => client.lock("a").acquire());
  await result(() => client.inspect("a"));
  await result(() => client.probe());
  await client.close();
}

async function drawn(seed, client, broken) {
  const draw = new Draw(seed);
  told = [];
  const kinds = [[30, clientCalls], [35, lockCalls], [30, redlockCalls], [3, environmentCalls], [2, reachedCalls]];
  let left = draw.below(100);
  const [, calls] = kinds.find(([weight]) => (left -= weight) < 0);
  await calls(draw, client);
  if (seed % 200 === 0) told.push(metricsText());
  if (broken) told.push(draw.marker.slice(3, 9));
  const texts = told.map((one) => (typeof one === "string" ? one : inspect(one, { depth: 8 }) + JSON.stringify(one)));
  return texts.find((text) => leaked(draw.marker, text));
}

const { values } = parseArgs({
  options: { draws: { type: "string", default: "10000" }, from: { type: "string", default: "0" }, broken: { type: "boolean" } },
});
const [draws, from] = [Number(values.draws), Number(values.from)];
delete process.env.QUORLOCK_NODES;
// What is drawn as a promise that nothing awaits is no matter here.
process.on("unhandledRejection", (reason) => told.push(String(reason)));
const client = new Client({ nodes: "memory://secrets-of-node", wait: 0 });
console.log(`draws ${from} to ${from + draws}`);
let failed = 0;
for (let seed = from; seed < from + draws; seed++) {
  const found = await drawn(seed, client, values.broken);
  if (found === undefined) continue;
  failed++;
  if (failed <= 10) console.log(`FAIL seed ${seed}: ${found.slice(0, SHOWN_AT_MOST)}`);
}
await client.close();
console.log(`${draws - failed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
