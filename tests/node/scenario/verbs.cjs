// Every verb of the scenarios, over the package as it was loaded.

"use strict";

const { readFileSync, writeFileSync } = require("node:fs");
const { exec } = require("node:child_process");
const { setImmediate: turn, setTimeout: pause } = require("node:timers/promises");
const v8 = require("node:v8");
const vm = require("node:vm");

const { Failure, holds, text } = require("./steps.cjs");
const OPTIONS = require("../../options/options.json");

/** The collector: Bun's is another than V8's. */
function collector() {
  if (globalThis.Bun !== undefined) return () => globalThis.Bun.gc(true);
  v8.setFlagsFromString("--expose-gc");
  return vm.runInNewContext("gc");
}
const collect = collector();

const camel = (name) => name.replace(/[_-](.)/g, (_, letter) => letter.toUpperCase());
const milliseconds = (word) => (word === "none" ? null : Number(word));

/** By what an option takes. */
const CONVERTED = {
  urls: (word) => word.split(",").filter(Boolean),
  flag: (word) => word === "on",
  count: Number,
  slots: Number,
  fraction: Number,
  time: milliseconds,
  limit: milliseconds,
};

/** The options that take such, as Node spells them. */
const taking = (kind) => Object.entries(OPTIONS).filter(([, { takes }]) => takes === kind).map(([name]) => camel(name));
const [[SLOTS], [OWNER]] = [taking("slots"), taking("name")];

/** Options of a line as those of the API. */
function options(step) {
  return Object.fromEntries(
    Object.entries(step.options).map(([name, word]) => [camel(name), (CONVERTED[OPTIONS[name]?.takes] ?? text)(word)]),
  );
}

/** Those of a lock, for an actor. Node has no implicit owner: one is named after the actor. */
function owned(step) {
  const made = options(step);
  // A semaphore is nobody's.
  if (made[SLOTS] !== undefined) return () => made;
  return (actor) => ({ ...made, [OWNER]: made[OWNER] ?? `actor:${actor}` });
}

class Verbs {
  #quorlock;
  #clients = new Map();
  #locks = new Map();
  #elections = new Map();
  #leases = new Map();
  #error = null;

  constructor(quorlock) {
    this.#quorlock = quorlock;
  }

  /** Does one line; resolves to its answer in words. What is no error of Quorlock goes through. */
  async answer(step, signal) {
    try {
      const result = await this[camel(step.verb)](step, signal, ...step.words);
      return result === undefined ? "ok" : String(result);
    } catch (error) {
      if (signal.aborted && error === signal.reason) return "Cancelled";
      if (!(error instanceof this.#quorlock.QuorlockError)) throw error;
      this.#error = error;
      return error.kind;
    }
  }

  /** The last error's message and every node's answer. */
  errorText() {
    if (this.#error === null) return "";
    return [this.#error.message, ...this.#error.nodes.map(({ node, message }) => `${node}: ${message}`)].join("\n");
  }

  client(step, _signal, name) {
    this.#clients.set(name, new this.#quorlock.Client(options(step)));
  }

  lock(step, _signal, name, client, lockName) {
    const of = owned(step);
    const owner = this.#found(this.#clients, client);
    this.#locks.set(name, (actor) => owner.lock(text(lockName), of(actor)));
  }

  locks(step, _signal, name, client, lockNames) {
    const of = owned(step);
    const names = lockNames.split(",").map(text);
    const owner = this.#found(this.#clients, client);
    this.#locks.set(name, (actor) => owner.lockAll(names, of(actor)));
  }

  election(step, _signal, name, client, electionName) {
    this.#elections.set(name, this.#found(this.#clients, client).election(text(electionName), options(step)));
  }

  async leader(_step, _signal, name) {
    return (await this.#found(this.#elections, name).leader())?.label ?? "none";
  }

  resign(_step, _signal, name) {
    return this.#found(this.#elections, name).resign();
  }

  #found(map, name) {
    const found = map.get(name);
    if (found === undefined) throw new Failure(`there is no ${name}`);
    return found;
  }

  /** A lock object for this line alone, so that it keeps no lease alive. */
  #lock(step, name) {
    return this.#found(this.#locks, name)(step.actor);
  }

  async acquire(step, signal, name, lock) {
    const given = { ...options(step), signal };
    const election = this.#elections.get(lock);
    const lease = await (election === undefined ? this.#lock(step, lock).acquire(given) : election.campaign(given));
    this.#leases.set(name, lease);
  }

  async try(step, signal, name, lock) {
    const lease = await this.#lock(step, lock).tryAcquire({ signal });
    if (lease === null) return "none";
    this.#leases.set(name, lease);
  }

  release(step, _signal, name) {
    const given = options(step);
    return this.#found(this.#leases, name).release(...("confirm" in given ? [given] : []));
  }

  unlock(step, _signal, lock) {
    return this.#lock(step, lock).release();
  }

  async drop(_step, _signal, name) {
    if (!this.#leases.delete(name)) throw new Failure(`there is no ${name}`);
    // It is released when it is collected; the collector is helped to it.
    for (let i = 0; i < 5; i++) {
      await turn();
      collect();
    }
    await turn();
  }

  extend(step, _signal, name) {
    return this.#found(this.#leases, name).extend(options(step).ttl);
  }

  ensure(_step, _signal, name, least) {
    return this.#found(this.#leases, name).ensure(Number(least));
  }

  downgrade(_step, _signal, name) {
    return this.#found(this.#leases, name).downgrade();
  }

  async export(_step, _signal, name, file) {
    writeFileSync(file, await this.#found(this.#leases, name).export());
  }

  async adopt(_step, _signal, name, client, file) {
    this.#leases.set(name, await this.#found(this.#clients, client).adopt(readFileSync(file, "utf8")));
  }

  held(_step, _signal, name) {
    return this.#found(this.#leases, name).isHeld();
  }

  remaining(_step, _signal, name) {
    return Math.floor(this.#found(this.#leases, name).remaining());
  }

  fence(_step, _signal, name) {
    return this.#found(this.#leases, name).fence ?? 0;
  }

  fenceOf(_step, _signal, name, lockName) {
    return this.#found(this.#leases, name).get(text(lockName)).fence ?? 0;
  }

  lostName(_step, _signal, name) {
    return this.#found(this.#leases, name).lostName ?? "none";
  }

  sameSlot(_step, _signal, name, other) {
    return this.#found(this.#leases, name).slot === this.#found(this.#leases, other).slot;
  }

  newer(_step, _signal, name, other) {
    return this.fence(null, null, name) > this.fence(null, null, other);
  }

  async force(step, _signal, client, name) {
    const { fence: word } = step.options;
    const fence = /^\d+$/.test(word) ? Number(word) : this.#leases.get(word)?.fence;
    const forced = await this.#found(this.#clients, client).forceRelease(text(name), { fence });
    return forced.freed;
  }

  async init(_step, _signal, name) {
    await this.#found(this.#clients, name).initSet();
  }

  async lost(_step, _signal, name, most) {
    const lease = this.#found(this.#leases, name);
    const end = new AbortController();
    const lost = new Promise((resolve) => {
      if (lease.signal.aborted) resolve();
      lease.signal.addEventListener("abort", () => resolve(), { once: true });
    });
    await Promise.race([lost, pause(Number(most), undefined, { signal: end.signal }).catch(() => {})]);
    end.abort();
    return lease.lossReason ?? "none";
  }

  async stats(step, _signal, client, field, most) {
    const end = performance.now() + Number(most);
    for (;;) {
      const stats = this.#found(this.#clients, client).stats();
      const value = stats[camel(field)];
      if (holds(step.expected, String(value))) return value;
      if (performance.now() >= end) return `${value} of ${JSON.stringify(stats)}`;
      await pause(5);
    }
  }

  async metric(_step, _signal, sample) {
    const lines = this.#quorlock.metricsText().split("\n");
    return lines.find((line) => line.startsWith(`${sample} `))?.slice(sample.length + 1) ?? "none";
  }

  async close(_step, _signal, name) {
    await this.#found(this.#clients, name).close();
    this.#clients.delete(name);
  }

  message(_step, _signal, what, word) {
    const said = this.errorText();
    const sought = text(word).toLowerCase();
    // Scenarios write names of options as the core does.
    const spelled = sought.replace(/(?<=[a-z])_(?=[a-z])/g, "");
    const found = [sought, spelled].some((each) => said.toLowerCase().includes(each));
    return found === (what === "has") ? undefined : said;
  }

  causes() {
    return this.#error?.nodes.length ?? 0;
  }

  async inspect(step, _signal, lock, what) {
    const made = this.#lock(step, lock);
    if (what === "locked") return await made.isLocked();
    if (what === "holder") return (await made.holder())?.label ?? "none";
    return (await made.inspect())[what];
  }

  error(_step, _signal, what) {
    return this.#error?.[what === "name" ? "lockName" : what] ?? "none";
  }

  stage(_step, _signal, ...words) {
    return new Promise((resolve) => {
      exec(`${process.env.QUORLOCK_STAGE} ${words.join(" ")}`, (error, stdout, stderr) => {
        resolve(error === null ? undefined : `${stdout}${stderr}`.trim() || `status ${error.code}`);
      });
    });
  }

  async closeAll() {
    this.#leases.clear();
    for (const client of this.#clients.values()) await client.close();
  }
}

module.exports = { Verbs };
