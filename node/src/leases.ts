/** Leases that were won together. */

import { inspect } from "node:util";

import type { NativeLeases, NativeLoss } from "./binding.js";
import { asyncDispose } from "./dispose.js";
import { checked, invalid, look, toError } from "./errors.js";
import { throwIfLost, type Held } from "./held.js";
import { endIfReleased, giveBack, type Lease } from "./lease.js";
import type { LossReason } from "./loss.js";
import { nameOf, releaseOptions, type Name, type ReleaseOptions } from "./options.js";
import { begin, port, valueOf } from "./port.js";
import { knowSelf, self } from "./self.js";
import { LossSignal } from "./signals.js";

const NOT_OWNER = 6;

/** Work that has the signal of leases relies on them, and may have nothing else of them. */
const signalled = new WeakMap<AbortSignal, Leases>();

/** Makes leases. Not part of the API. */
export let newLeases: (core: NativeLeases, parts: readonly Lease[]) => Leases;

/**
 * Holds on several locks that were acquired together: what `locks.acquire()` resolves to.
 *
 * They are held while each of them is. The loss of one is the loss of all: the work that needs them has to stop. Those that
 * are not lost stay held until they are released, so that no other client comes in while it stops. Iterating gives each `Lease`,
 * in the order in which the locks are taken.
 */
export class Leases implements Iterable<Lease>, Held {
  readonly #core: NativeLeases;
  readonly #parts: readonly Lease[];
  #lossSignal: LossSignal | undefined;
  /** What is left of them after their release: the core has forgotten them then. */
  #over: { loss: NativeLoss | null } | undefined;

  private constructor(core: NativeLeases, parts: readonly Lease[]) {
    knowSelf(this);
    this.#core = core;
    this.#parts = parts;
  }

  static {
    newLeases = (core, parts) => new Leases(core, parts);
  }

  /** How many there are: each name once. */
  get size(): number {
    return self(this).#parts.length;
  }

  [Symbol.iterator](): IterableIterator<Lease> {
    return self(this).#parts.values();
  }

  /** The lease on the lock of that name, of which `x` and `{x}` are one; `undefined` if that is none of them. */
  get(name: Name): Lease | undefined {
    const it = self(this);
    const place = checked(it.#core.placeOf(nameOf("name", name)), it.get);
    return place === null ? undefined : it.#parts[place];
  }

  /** The fencing token of each lease, by the name of its lock: see `Lease.fence`. */
  get fences(): Map<Name, number | null> {
    return new Map(self(this).#parts.map((part) => [part.name, part.fence]));
  }

  /** Whether all of them are valid now. Exact at every call; false after release. */
  isHeld(): boolean {
    const it = self(this);
    return it.#over === undefined && checked(it.#core.isHeld(), it.isHeld);
  }

  /** The least validity that any of them has left before its next renewal, in milliseconds; 0 when one is over. */
  remaining(): number {
    const it = self(this);
    return it.#over === undefined ? checked(it.#core.remaining(), it.remaining) : 0;
  }

  #loss(): NativeLoss | null {
    return this.#over === undefined ? checked(this.#core.loss()) : this.#over.loss;
  }

  /** The name of the lock whose lease was lost; `null` while all are held and after a release. */
  get lostName(): Name | null {
    const it = self(this);
    const loss = it.#loss();
    return loss === null ? null : it.#parts[loss.at]!.name;
  }

  /** Why that was lost; `null` while all are held and after a release. */
  get lossReason(): LossReason | null {
    return (self(this).#loss()?.reason ?? null) as LossReason | null;
  }

  /**
   * Aborts when the first of them is lost, with a `LockLostError` as its reason. Not when they are released. Listeners: as of
   * `Lease.signal`.
   */
  get signal(): AbortSignal {
    const it = self(this);
    if (it.#lossSignal === undefined) {
      const loss = (it.#lossSignal = new LossSignal());
      signalled.set(loss.signal, it);
      for (const { signal } of it.#parts) {
        if (signal.aborted) loss.abortEarly(signal.reason);
        signal.addEventListener("abort", () => loss.abort(signal.reason), { once: true });
      }
    }
    return it.#lossSignal.signal;
  }

  /**
   * Lengthens all of them at the same time, as `Lease.extend`. Rejects with what the first rejects with that could not be
   * lengthened; the others may have been.
   */
  async extend(ttl?: number): Promise<void> {
    const it = self(this);
    if (ttl !== undefined && typeof ttl !== "number") {
      throw invalid(`ttl is a ${typeof ttl}: give milliseconds`, it.extend);
    }
    await it.#extend(ttl);
  }

  async #extend(ttl: number | undefined): Promise<void> {
    this.#throwIfOver(this.extend);
    valueOf(await begin(this.extend, (port, number) => this.#core.extend(port, number, ttl)), this.extend);
  }

  /** Makes sure that each has at least this many milliseconds of validity left, as `Lease.ensure`. */
  async ensure(minRemaining: number): Promise<void> {
    const it = self(this);
    if (typeof minRemaining !== "number") {
      throw invalid(`minRemaining is a ${typeof minRemaining}: give milliseconds`, it.ensure);
    }
    await it.#ensure(minRemaining);
  }

  async #ensure(min: number): Promise<void> {
    this.#throwIfOver(this.ensure);
    valueOf(await begin(this.ensure, (port, number) => this.#core.ensure(port, number, min)), this.ensure);
  }

  /**
   * Releases all of them at the same time. Resolves to whether each was still held; a second call does nothing and resolves
   * to false. Never rejects for a loss. The leases end before the nodes are asked. With `confirm: false` it waits for no answer: as of
   * `Lease.release`.
   */
  async release(options?: ReleaseOptions): Promise<boolean> {
    return await self(this).#release(options);
  }

  async #release(options?: ReleaseOptions): Promise<boolean> {
    const { confirm } = options === undefined ? {} : look(this.release, () => releaseOptions(options));
    if (this.#over !== undefined) return false;
    const waits = checked(this.#core.waits(confirm), this.release);
    for (const part of this.#parts) giveBack(part);
    if (!waits) {
      const held = checked(this.#core.releaseUnconfirmed(port), this.release);
      this.#end();
      return held;
    }
    const held = valueOf(await begin<boolean>(this.release, (port, number) => this.#core.release(port, number)), this.release);
    this.#end();
    return held;
  }

  /** Gives back what they take up: that is not left to the collector, to which they look small. */
  #end(): void {
    if (this.#over !== undefined) return;
    this.#over = { loss: checked(this.#core.end()) };
    for (const part of this.#parts) endIfReleased(part);
  }

  /** Not part of the API. */
  [throwIfLost](from: Function): void {
    const loss = this.#loss();
    if (loss !== null) throw toError(loss.error, from);
  }

  #throwIfOver(from: Function): void {
    if (this.#over === undefined) return;
    const message = `the leases of ${this.#names()} have been released`;
    throw toError({ number: NOT_OWNER, message, nodes: [] }, from);
  }

  /** For `await using`: releases. It does not reject for a loss, so the body's own error is never hidden. */
  async [asyncDispose](): Promise<void> {
    await self(this).#release();
  }

  #names(): string {
    return this.#parts.map((part) => inspect(part.name)).join(", ");
  }

  toString(): string {
    return inspect(self(this));
  }

  [inspect.custom](): string {
    const it = self(this);
    const lost = () => (it.lostName === null ? "released" : `lost: ${inspect(it.lostName)}, ${it.lossReason}`);
    const state = it.isHeld() ? `held, ${it.remaining().toFixed(0)} ms left` : lost();
    return `Leases { ${it.#names()}, ${state} }`;
  }
}
