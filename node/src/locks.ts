/** Several locks at once: all of them, or none. */

import { inspect } from "node:util";

import type { NativeClient, NativeLeases, NativeLockOptions, NativeOwner, NativePort } from "./binding.js";
import { traced } from "./channels.js";
import { look, toError } from "./errors.js";
import { newLease, type Keeper } from "./lease.js";
import { newLeases, type Leases } from "./leases.js";
import { acquireOptions, ownCopy, type AcquireOptions, type Acquiring, type Name } from "./options.js";
import { begin, beginUntil } from "./port.js";

/** Makes several locks. Not part of the API. */
export let newLocks: (
  core: NativeClient,
  keys: readonly Name[],
  options: NativeLockOptions | undefined,
  client: Keeper["client"],
) => Locks;
/** Acquires for an owner, and for `from`, a function of the API. Not part of the API. */
export let acquireAllFor: (
  locks: Locks,
  options: Acquiring,
  owner: NativeOwner | undefined,
  from: Function,
) => Promise<Leases>;
/** The same; `null` where others hold one of the locks all the time. Not part of the API. */
export let tryAcquireAllFor: (
  locks: Locks,
  options: Acquiring,
  owner: NativeOwner | undefined,
  from: Function,
) => Promise<Leases | null>;

/** What was won: the leases together, and of which of the names each is, in the order of the leases. */
type Won = readonly [core: NativeLeases, places: readonly number[]];

/**
 * Several names with the same options; made by `client.lockAll(names)`. It holds nothing by itself.
 *
 * Each name is a lock like any other. They are taken in one order that is the same in all programs, whatever order they are
 * given in, so that callers who ask for several do not wait for each other in a ring. Leases acquired here live as those of
 * `Lock` do.
 */
export class Locks {
  /** The locks' names, as given. */
  readonly names: readonly Name[];
  readonly #core: NativeClient;
  /** The names again: whoever changes the bytes of those above changes no lock. */
  readonly #keys: readonly Name[];
  readonly #options: NativeLockOptions | undefined;
  readonly #keepers: readonly Keeper[];

  private constructor(
    core: NativeClient,
    keys: readonly Name[],
    options: NativeLockOptions | undefined,
    client: Keeper["client"],
  ) {
    this.names = keys.map(ownCopy);
    this.#core = core;
    this.#keys = keys;
    this.#options = options;
    this.#keepers = this.names.map((name) => ({ name, client, kept: undefined }));
  }

  static {
    newLocks = (core, keys, options, client) => new Locks(core, keys, options, client);
    acquireAllFor = (locks, options, owner, from) => locks.#acquire(options, owner, from);
    tryAcquireAllFor = (locks, options, owner, from) => locks.#tryAcquire(options, owner, from);
  }

  /**
   * Acquires all of the locks, waiting as long as their `wait` says, or for this call `options.wait`, for all of them
   * together. While it waits it holds those that come before the one it waits for, and the others can be had by anybody.
   *
   * Rejects as `Lock.acquire`, for the first lock that could not be had; then none is held.
   */
  async acquire(options: AcquireOptions = {}): Promise<Leases> {
    const looked = look(this.acquire, () => acquireOptions(options));
    return await this.#acquire(looked, undefined, this.acquire);
  }

  async #acquire(options: Acquiring, owner: NativeOwner | undefined, from: Function): Promise<Leases> {
    const { wait, signal } = options;
    const start = (port: NativePort, number: number) =>
      this.#core.acquireAll(port, number, this.#keys, this.#options, owner, wait);
    return (await this.#traced(start, signal, from))!;
  }

  /** Tries once. `null` where another holds one of the locks. Rejects as `acquire` otherwise. */
  async tryAcquire(options: Pick<AcquireOptions, "signal"> = {}): Promise<Leases | null> {
    const looked = look(this.tryAcquire, () => acquireOptions(options));
    return await this.#tryAcquire({ ...looked, wait: 0 }, undefined, this.tryAcquire);
  }

  async #tryAcquire(options: Acquiring, owner: NativeOwner | undefined, from: Function): Promise<Leases | null> {
    const { wait, signal } = options;
    const start = (port: NativePort, number: number) =>
      this.#core.tryAcquireAll(port, number, this.#keys, this.#options, owner, wait);
    return await this.#traced(start, signal, from);
  }

  #traced(
    start: Parameters<typeof begin>[0],
    signal: AbortSignal | undefined,
    from: Function,
  ): Promise<Leases | null> {
    return traced(
      () => ({ names: this.names, group: this.#options?.group ?? "" }),
      () => this.#won(start, signal, from),
    );
  }

  async #won(
    start: Parameters<typeof begin>[0],
    signal: AbortSignal | undefined,
    from: Function,
  ): Promise<Leases | null> {
    // Each lease that may be won has a number.
    const numbers = this.#keys.length;
    const outcome = await (signal === undefined
      ? begin<Won | null>(start, numbers)
      : beginUntil<Won | null>(signal, start, numbers));
    if ("failure" in outcome) throw toError(outcome.failure, from);
    const { value, number } = outcome;
    if (value === null) return null;
    const [core, places] = value;
    return newLeases(
      core,
      places.map((place) => newLease(number + place, this.#keepers[place]!)),
    );
  }

  [inspect.custom](): string {
    return `Locks { ${this.names.map((name) => inspect(name)).join(", ")} }`;
  }
}
