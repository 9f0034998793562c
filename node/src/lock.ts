/** The lock: a name with options. Holding nothing yet. */

import { inspect } from "node:util";

import type { NativeClient, NativeLockOptions, NativePort } from "./binding.js";
import { acquireFor, tryAcquireFor, type Acquirable } from "./acquirable.js";
import { chained, type Call } from "./chained.js";
import { look, toError } from "./errors.js";
import {
  holderOf,
  inspectionOf,
  type Forced,
  type Holder,
  type Inspection,
  type NativeHolder,
  type NativeInspection,
} from "./inspection.js";
import { Keeper } from "./keeper.js";
import { endIfReleased, newLease, type Lease, type LeaseKeeper } from "./lease.js";
import {
  acquireOptions,
  bytesOf,
  forceOptions,
  waitOptions,
  labelled,
  ownCopy,
  type AcquireOptions,
  type AcquireRequest,
  type ForceOptions,
  type WaitOptions,
  type Name,
} from "./options.js";
import { acquiring, LockIdentity, type Invocation } from "./owner.js";
import { begin, valueOf } from "./port.js";
import { knowSelf, self } from "./self.js";
import { traced } from "./tracing.js";

const NOT_OWNER = 6;

/** Makes a lock. Not part of the API. */
export let newLock: (
  core: NativeClient,
  key: Name,
  options: NativeLockOptions | undefined,
  client: LeaseKeeper["client"],
) => Lock;
/** Which lock it is. Not part of the API. */
export let identityOf: (lock: Lock) => LockIdentity;

/**
 * A name with options; made by `client.lock(name)`. It holds nothing by itself.
 *
 * Without `owner` every acquisition is a stranger to every other. A named owner that acquires again gets another handle
 * on the same lease, and the last release frees the lock. Leases acquired here live until they are released, or until
 * both they and the lock have been collected.
 */
export class Lock implements Acquirable<Lease> {
  /** The lock's name, as given. */
  readonly name: Name;
  readonly #core: NativeClient;
  /** The name again: a program that changes the bytes of the name above changes no lock. */
  readonly #key: Name;
  readonly #options: NativeLockOptions | undefined;
  readonly #asked: LockIdentity;
  readonly #keeper: LeaseKeeper;

  private constructor(core: NativeClient, key: Name, options: NativeLockOptions | undefined, client: LeaseKeeper["client"]) {
    knowSelf(this);
    this.name = ownCopy(key);
    this.#core = core;
    this.#key = key;
    this.#options = options;
    this.#asked = new LockIdentity(core, key, options);
    this.#keeper = new Keeper(this.name, client);
  }

  static {
    newLock = (core, key, options, client) => new Lock(core, key, options, client);
    identityOf = (lock) => lock.#asked;
  }

  /**
   * Acquires the lock, waiting as long as its `wait` says, or for this call `options.wait`.
   *
   * Rejects with `LockTimeoutError` if others held it all the time, `LockContendedError` likewise with a wait of 0,
   * `QuorumUnavailableError` if too few nodes answered, `MisconfiguredError` at once if credentials or addresses leave
   * no quorum, `TooManyWaitersError` at once if too many others of this client wait already, `LockLostError` on
   * re-entry into a lease that was lost or if the lease is lost by the time it gets here, for the event loop was busy, and
   * with `signal.reason` if the signal aborts.
   *
   * Calls of one client that wait for a lock get it in the order in which they came; a wait of 0 asks the nodes past that
   * line.
   */
  acquire(options: AcquireOptions = {}): Promise<Lease> {
    return chained(Lock.prototype.acquire, async (call) => {
      const looked = look(call.from, () => acquireOptions(options));
      return await self(this)[acquireFor](looked, undefined, call);
    });
  }

  /** Not part of the API. */
  async [acquireFor](options: AcquireRequest, own: Invocation | undefined, call: Call): Promise<Lease> {
    return (await this.#traced(this.#core.acquire, options, own, call))!;
  }

  /** Not part of the API. */
  async [tryAcquireFor](options: AcquireRequest, own: Invocation | undefined, call: Call): Promise<Lease | null> {
    return await this.#traced(this.#core.tryAcquire, options, own, call);
  }

  #traced(
    acquire: NativeClient["acquire"],
    options: AcquireRequest,
    own: Invocation | undefined,
    call: Call,
  ): Promise<Lease | null> {
    return traced(
      () => ({ names: [this.name], group: this.#options?.group ?? "" }),
      () => this.#won(acquire, options, own, call),
    );
  }

  async #won(
    acquire: NativeClient["acquire"],
    options: AcquireRequest,
    own: Invocation | undefined,
    call: Call,
  ): Promise<Lease | null> {
    const owner = own?.ownerOf(this.#asked);
    const start = (port: NativePort, number: number) =>
      acquire.call(this.#core, port, number, this.#key, labelled(this.#options, options), owner, options.wait);
    const outcome = await acquiring<boolean>([this.#asked], own, options, call, start);
    if ("failure" in outcome) throw toError(outcome.failure, call.run, outcome.caller);
    if (!outcome.value) return null;
    const lease = newLease(outcome.number, this.#keeper);
    own?.won(this.#asked, lease, owner);
    return lease;
  }

  /** Tries once. `null` where another holds the lock. Rejects as `acquire` otherwise. */
  tryAcquire(options: Omit<AcquireOptions, "wait"> = {}): Promise<Lease | null> {
    return chained(Lock.prototype.tryAcquire, async (call) => {
      const looked = look(call.from, () => acquireOptions(options));
      return await self(this)[tryAcquireFor]({ ...looked, wait: 0 }, undefined, call);
    });
  }

  /**
   * Whether any client holds the lock, or keeps it, or is about to: by one request to each node. Rejects with
   * `QuorumUnavailableError` if too few nodes answered.
   */
  async isLocked(): Promise<boolean> {
    return await self(this).#isLocked();
  }

  async #isLocked(): Promise<boolean> {
    const start = (port: NativePort, number: number) => this.#core.isLocked(port, number, this.#key, this.#options);
    return valueOf(await begin<boolean>(this.isLocked, start), this.isLocked);
  }

  /** Who holds the lock, or keeps it; `null` where a quorum agrees on no holder. Rejects as `isLocked`. */
  async holder(): Promise<Holder | null> {
    return await self(this).#holder();
  }

  async #holder(): Promise<Holder | null> {
    const start = (port: NativePort, number: number) => this.#core.holder(port, number, this.#key, this.#options);
    return holderOf(valueOf(await begin<NativeHolder | null>(this.holder, start), this.holder));
  }

  /**
   * What each node has of the lock, and what follows from that. Changes nothing. That nodes do not answer is no error, but
   * part of the result.
   */
  async inspect(): Promise<Inspection> {
    return await self(this).#inspect();
  }

  async #inspect(): Promise<Inspection> {
    const start = (port: NativePort, number: number) => this.#core.inspect(port, number, this.#key, this.#options);
    return inspectionOf(this.name, valueOf(await begin<NativeInspection>(this.inspect, start), this.inspect));
  }

  /**
   * Waits until the lock is free, or a slot of a semaphore is, and takes nothing. Resolves to whether it was so before so many
   * milliseconds were over; without `wait`, or with `null`, it waits without end. Another may have it a moment later: to have it, acquire
   * it. It is looked at again and again, every 50 to 500 ms. Rejects as `isLocked`.
   */
  async waitUntilFree(options?: WaitOptions): Promise<boolean> {
    return await self(this).#waitUntilFree(options);
  }

  async #waitUntilFree(options: WaitOptions | undefined): Promise<boolean> {
    const wait = options === undefined ? Infinity : look(this.waitUntilFree, () => waitOptions(options));
    const start = (port: NativePort, number: number) =>
      this.#core.waitUntilFree(port, number, this.#key, this.#options, wait);
    return valueOf(await begin<boolean>(this.waitUntilFree, start), this.waitUntilFree);
  }

  /**
   * Takes the lock away from its holder, or from what keeps it: see `Client.forceRelease`. Of a semaphore all slots, without a fence, or
   * the one of that number.
   */
  async forceRelease(options?: ForceOptions): Promise<Forced> {
    return await self(this).#forceRelease(options);
  }

  async #forceRelease(options: ForceOptions | undefined): Promise<Forced> {
    const { fence, slot } = options === undefined ? {} : look(this.forceRelease, () => forceOptions(options));
    const start = (port: NativePort, number: number) =>
      this.#core.forceRelease(port, number, this.#key, this.#options, fence, slot);
    type Native = { readonly found: NativeInspection; readonly freed: number };
    const { found, freed } = valueOf(await begin<Native>(this.forceRelease, start), this.forceRelease);
    return { found: inspectionOf(this.name, found), freed };
  }

  /**
   * Gives back the newest handle of the lease that the lock's named owner holds. Resolves to whether the lock was still
   * held. Rejects with `NotOwnerError` if the owner holds nothing, or the lock has no named owner: who calls is not known then, and
   * `lease.release()` ends the lease that is meant.
   */
  async release(): Promise<boolean> {
    return await self(this).#release();
  }

  async #release(): Promise<boolean> {
    if (this.#options?.owner === undefined) {
      const message = `the lock ${inspect(this.name)} has no named owner to release it for: use lease.release()`;
      throw toError({ number: NOT_OWNER, message, nodes: [], lock: Buffer.from(bytesOf(this.name)).toString() }, this.release);
    }
    const start = (port: NativePort, number: number) =>
      this.#core.release(port, number, this.#key, this.#options);
    const held = valueOf(await begin<boolean>(this.release, start), this.release);
    for (const lease of this.#keeper.leases()) endIfReleased(lease);
    return held;
  }

  toString(): string {
    return inspect(self(this));
  }

  [inspect.custom](): string {
    return `Lock { ${inspect(self(this).name)} }`;
  }
}
