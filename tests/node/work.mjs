// What a request or a job does with one semaphore and one lock that all of them share: by hand and in bodies, within each other,
// with errors and waits that are given up, and left in another order and context than they were entered in.

import assert from "node:assert/strict";

import Redis from "ioredis";

import { Client, redlock, semaphore } from "../../node/dist/index.mjs";
import support from "./support.cjs";

export const SLOTS = 3;

/** Of the work itself. */
export class Failure extends Error {}

/** The work of requests, each in the way that its number tells. Who is inside is counted on a server, for several processes. */
export class Work {
  #name;
  #client;
  #slots;
  #lock;
  #count;
  #begun = 0;
  #two = Promise.resolve();
  #ways = [
    this.#byHand,
    this.#handedOn,
    this.#givenUp,
    this.#several,
    this.#body,
    this.#failingBody,
    this.#within,
    this.#againWithin,
  ];

  constructor(nodes, name) {
    this.#name = name;
    this.#client = new Client({ nodes, wait: 20_000 });
    this.#slots = this.#client.semaphore(name, SLOTS);
    this.#lock = this.#client.lock(name);
    this.#count = new Redis(`${nodes.split(",")[0]}/1`);
  }

  async close() {
    await this.#client.close();
    await this.#count.quit();
  }

  /** Resolves to how many had a slot at once; rejects with a `Failure` where the way is to fail. */
  async do(number) {
    return await this.#ways[number % this.#ways.length].call(this, number);
  }

  /** A slot, and how many there are now that have one. */
  async enter(options) {
    const lease = await this.#slots.acquire(options);
    try {
      return { lease, inside: await this.in(lease) };
    } catch (error) {
      await lease.release();
      throw error;
    }
  }

  /** Ends a slot; it has been held all the time. */
  async leave(lease) {
    try {
      await this.out(lease);
    } finally {
      await lease.release();
    }
    assert.ok(!lease.isHeld(), `${lease.slot} is still held`);
  }

  async in(lease) {
    const [key, most] = this.#counted(lease);
    const inside = await this.#count.incr(key);
    if (inside <= most) return inside;
    await this.#count.decr(key);
    assert.fail(`${inside} in ${key}`);
  }

  async out(lease) {
    // So that some leave before others that came first.
    await support.sleep(1 + (this.#begun++ % 3));
    const held = lease.isHeld();
    const [key] = this.#counted(lease);
    await this.#count.decr(key);
    assert.ok(held, `another has ended ${key} ${lease.slot}`);
  }

  #counted({ slot }) {
    return slot === null ? [`${this.#name}:lock`, 1] : [`${this.#name}:slots`, SLOTS];
  }

  async #byHand() {
    const { lease, inside } = await this.enter();
    await this.leave(lease);
    return inside;
  }

  async #handedOn() {
    const { lease, inside } = await this.enter();
    await new Promise((resolve) => setImmediate(() => resolve(this.leave(lease))));
    return inside;
  }

  async #givenUp() {
    const stop = new AbortController();
    setImmediate(() => stop.abort());
    try {
      const { lease, inside } = await this.enter({ signal: stop.signal });
      await this.leave(lease);
      return inside;
    } catch (error) {
      assert.equal(error, stop.signal.reason);
      return 0;
    }
  }

  async #several(number) {
    // All slots could be held by those that wait for their second one.
    const before = this.#two;
    let entered;
    this.#two = new Promise((resolve) => (entered = resolve));
    await before;
    const [first, second] = [await this.enter(), await this.enter()];
    entered();
    const [one, other] = number % 16 < 8 ? [first, second] : [second, first];
    await this.leave(one.lease);
    await this.leave(other.lease);
    return second.inside;
  }

  async #body() {
    let [inside, held] = [];
    await semaphore(this.#name, SLOTS, { client: this.#client }, async (lease) => {
      held = lease;
      inside = await this.in(lease);
      await this.out(lease);
    });
    assert.ok(!held.isHeld());
    return inside;
  }

  async #failingBody() {
    await semaphore(this.#name, SLOTS, { client: this.#client }, async (lease) => {
      await this.in(lease);
      await this.out(lease);
      throw new Failure("as it should");
    });
  }

  async #within() {
    const lock = await this.#lock.acquire();
    await this.in(lock);
    const { lease, inside } = await this.enter();
    await this.leave(lock);
    await this.leave(lease);
    return inside;
  }

  async #againWithin() {
    return await redlock(this.#name, { client: this.#client }, async (outer) => {
      await this.in(outer);
      await redlock(this.#name, { client: this.#client, reentrant: true }, (inner) => assert.equal(inner.token, outer.token));
      const inside = await this.#body();
      await this.out(outer);
      return inside;
    });
  }
}
