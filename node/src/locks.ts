/** Several locks at once: all of them, or none. */

import { inspect } from "node:util";

import type { NativeClient, NativeLeases, NativeLockOptions, NativePort } from "./binding.js";
import { acquireFor, tryAcquireFor, type Acquirable } from "./acquirable.js";
import { chained, type Call } from "./chained.js";
import { look, toError } from "./errors.js";
import { Keeper } from "./keeper.js";
import { newLease, type LeaseKeeper } from "./lease.js";
import { newLeases, type Leases } from "./leases.js";
import { acquireOptions, labelled, ownCopy, type AcquireOptions, type AcquireRequest, type Name } from "./options.js";
import { acquiring, LockIdentity, type Invocation } from "./owner.js";
import { knowSelf, self } from "./self.js";
import { traced } from "./tracing.js";

/** Makes several locks. Not part of the API. */
export let newLocks: (
  core: NativeClient,
  keys: readonly Name[],
  options: NativeLockOptions | undefined,
  client: LeaseKeeper["client"],
) => Locks;

/** What was won: the leases together, and of which of the names each is, in the order of the leases. */
type WonLeases = readonly [core: NativeLeases, places: readonly number[]];

/**
 * Several names with the same options; made by `client.lockAll(names)`. It holds nothing by itself.
 *
 * Each name is a lock like any other. They are taken in one order that is the same in all programs, whatever order they are
 * given in, so that callers who ask for several do not wait for each other in a ring. Leases acquired here live as those of
 * `Lock` do.
 */
export class Locks implements Acquirable<Leases> {
  /** The locks' names, as given. */
  readonly names: readonly Name[];
  readonly #core: NativeClient;
  /** The names again: a program that changes the bytes of the names above changes no lock. */
  readonly #keys: readonly Name[];
  readonly #options: NativeLockOptions | undefined;
  readonly #asked: readonly LockIdentity[];
  readonly #keepers: readonly LeaseKeeper[];

  private constructor(
    core: NativeClient,
    keys: readonly Name[],
    options: NativeLockOptions | undefined,
    client: LeaseKeeper["client"],
  ) {
    knowSelf(this);
    this.names = keys.map(ownCopy);
    this.#core = core;
    this.#keys = keys;
    this.#options = options;
    this.#asked = keys.map((key) => new LockIdentity(core, key, options));
    this.#keepers = this.names.map((name) => new Keeper(name, client));
  }

  static {
    newLocks = (core, keys, options, client) => new Locks(core, keys, options, client);
  }

  /**
   * Acquires all of the locks, waiting as long as their `wait` says, or for this call `options.wait`, for all of them
   * together. While it waits it holds those that come before the one it waits for, and the others are free to all callers.
   *
   * Rejects as `Lock.acquire`, for the first lock that could not be had; then none is held.
   */
  acquire(options: AcquireOptions = {}): Promise<Leases> {
    return chained(Locks.prototype.acquire, async (call) => {
      const looked = look(call.from, () => acquireOptions(options));
      return await self(this)[acquireFor](looked, undefined, call);
    });
  }

  /** Not part of the API. */
  async [acquireFor](options: AcquireRequest, own: Invocation | undefined, call: Call): Promise<Leases> {
    return (await this.#traced(this.#core.acquireAll, options, own, call))!;
  }

  /** Tries once. `null` where another holds one of the locks. Rejects as `acquire` otherwise. */
  tryAcquire(options: Omit<AcquireOptions, "wait"> = {}): Promise<Leases | null> {
    return chained(Locks.prototype.tryAcquire, async (call) => {
      const looked = look(call.from, () => acquireOptions(options));
      return await self(this)[tryAcquireFor]({ ...looked, wait: 0 }, undefined, call);
    });
  }

  /** Not part of the API. */
  async [tryAcquireFor](options: AcquireRequest, own: Invocation | undefined, call: Call): Promise<Leases | null> {
    return await this.#traced(this.#core.tryAcquireAll, options, own, call);
  }

  #traced(
    acquire: NativeClient["acquireAll"],
    options: AcquireRequest,
    own: Invocation | undefined,
    call: Call,
  ): Promise<Leases | null> {
    return traced(
      () => ({ names: this.names, group: this.#options?.group ?? "" }),
      () => this.#won(acquire, options, own, call),
    );
  }

  async #won(
    acquire: NativeClient["acquireAll"],
    options: AcquireRequest,
    own: Invocation | undefined,
    call: Call,
  ): Promise<Leases | null> {
    const owners = own === undefined ? undefined : this.#asked.map((asked) => own.ownerOf(asked));
    const start = (port: NativePort, number: number) =>
      acquire.call(this.#core, port, number, this.#keys, labelled(this.#options, options), owners, options.wait);
    const outcome = await acquiring<WonLeases | null>(this.#asked, own, options, call, start);
    if ("failure" in outcome) throw toError(outcome.failure, call.run, outcome.caller);
    const { value, number } = outcome;
    if (value === null) return null;
    const [core, places] = value;
    const parts = places.map((place) => {
      const lease = newLease(number + place, this.#keepers[place]!);
      own?.won(this.#asked[place]!, lease, owners?.[place]);
      return lease;
    });
    return newLeases(core, parts);
  }

  toString(): string {
    return inspect(self(this));
  }

  [inspect.custom](): string {
    return `Locks { ${self(this).names.map((name) => inspect(name)).join(", ")} }`;
  }
}
