/** The lease: what `acquire` returns. */

import { AsyncResource } from "node:async_hooks";
import { inspect } from "node:util";

import type { Failure, Left } from "./binding.js";
import { lost, released } from "./channels.js";
import { asyncDispose } from "./dispose.js";
import { checked, invalid, look, toError } from "./errors.js";
import { throwIfLost, type Held } from "./held.js";
import { Keeper, lossOf } from "./keeper.js";
import type { LossReason } from "./loss.js";
import { releaseOptions, type Name, type ReleaseOptions } from "./options.js";
import { begin, beginRelease, port, tell, told, valueOf } from "./port.js";
import { knowSelf, self } from "./self.js";
import { LossSignal } from "./signals.js";

/** What `lost` of a client tells. */
export interface Loss {
  lease: Lease;
  name: Name;
  reason: LossReason;
  /** The reason of `lease.signal`. */
  error: Error;
}

/** What keeps leases. Not part of the API. */
export type LeaseKeeper = Keeper<Lease, Loss>;

/** The message of `quorlock:lost`. Once for each handle that had not been released. */
export interface LostMessage {
  readonly lease: Lease;
  readonly name: Name;
  readonly reason: LossReason;
}

/** The message of `quorlock:released`. `lossReason`: why it had been lost before, `null` if it was not. */
export interface ReleasedMessage {
  readonly lease: Lease;
  readonly name: Name;
  readonly lossReason: LossReason | null;
}

const NOT_OWNER = 6;

/** Work that has the signal of a lease relies on the lease, and may have nothing else of it. */
const leases = new WeakMap<AbortSignal, Lease>();

/** What is called at a loss before its listeners are. */
const first = new WeakMap<Lease, () => void>();

/** Text where it is UTF-8, as users give names; else its bytes. */
function readName(number: number): Name {
  const bytes = checked(port.name(number)) as Buffer;
  const text = bytes.toString();
  return Buffer.from(text).equals(bytes) ? text : bytes;
}

/** Makes a lease. Not part of the API. */
export let newLease: (number: number, keeper: LeaseKeeper) => Lease;
/** Makes a lease that was another client's. Not part of the API. */
export let adoptedLease: (number: number, client: LeaseKeeper["client"]) => Lease;
/** Whether the handle was given back, or is about to be; a loss alone is no such thing. Not part of the API. */
export let isGivenBack: (lease: Lease) => boolean;
/** From now on it is given back. Not part of the API. */
export let giveBack: (lease: Lease) => void;
/** Ends a handle that was released by its lock. Not part of the API. */
export let endIfReleased: (lease: Lease) => void;
/** Has that called at the loss, before the signal aborts. Not part of the API. */
export let whenLost: (lease: Lease, call: () => void) => void;
/** Aborts its signal, for work that is to end while the lease is held. Not part of the API. */
export let stopWork: (lease: Lease, reason: unknown) => void;

/**
 * A hold on a lock.
 *
 * It is valid until released or lost, and renewed in the background, also while the event loop is blocked. Release it:
 * one that was forgotten is released when it and its lock have been collected, which a warning tells, or when it reaches `maxHold`. It
 * is bound to no context, and may be handed on.
 */
export class Lease implements Held {
  /** The lock's name, as given. */
  readonly name: Name;
  readonly #number: number;
  readonly #keeper: LeaseKeeper;
  #loss: LossSignal | undefined;
  /** If it is listened to: the async context that it was acquired in, for the listeners. */
  #context: AsyncResource | undefined;
  #isGivenBack = false;
  /** Whether subscribers have heard of its release. */
  #isTold = false;
  /** What is left of it after its release: the core has forgotten it then. */
  #over: { token: string; fence: number | null; loss: LossReason | null; error: Failure | null; slot: number | null } | undefined;

  private constructor(number: number, keeper: LeaseKeeper) {
    knowSelf(this);
    this.name = keeper.name;
    this.#number = number;
    this.#keeper = keeper;
    keeper.keep(number, this);
    if (keeper.client.listenerCount("lost") > 0) this.#inContext();
  }

  static {
    newLease = (number, keeper) => new Lease(number, keeper);
    adoptedLease = (number, client) => new Lease(number, new Keeper(readName(number), client));
    isGivenBack = (lease) => lease.#isGivenBack;
    giveBack = (lease) => {
      lease.#isGivenBack = true;
    };
    endIfReleased = (lease) => {
      if (lease.#over === undefined && checked(port.isReleased(lease.#number))) lease.#end();
    };
    whenLost = (lease, call) => {
      first.set(lease, call);
      lease.#inContext();
    };
    stopWork = (lease, reason) => {
      void lease.signal;
      lease.#loss!.abort(reason);
    };
    told.lost = (number, putOff) => {
      const lease = Keeper.toBeTold(number) as Lease | undefined;
      if (lease !== undefined) lease.#tell();
      // Won and lost at once: the call that acquires learns of the first in this turn, and there is a lease then.
      else if (!putOff) port.putOff(number);
    };
  }

  /** The token: 40 hex digits that name this hold. Keep it secret: a program that knows it can release the lock. */
  get token(): string {
    const it = self(this);
    return it.#over?.token ?? checked(port.token(it.#number));
  }

  /**
   * The fencing token: a safe integer, at least 1, that grows with every hold of the same lock; `null` where the lock has
   * `fencing: false`. Give it to the resource that the lock protects, which then refuses what comes with a smaller one: so
   * work that a holder began and that outlives its lease does no harm. Re-entry keeps it, and so do release and loss.
   */
  get fence(): number | null {
    const it = self(this);
    return it.#over === undefined ? checked(port.fence(it.#number)) : it.#over.fence;
  }

  /**
   * Which slot of the semaphore is held, counted from 0; `null` of a lock. No two leases that are held at one time have the
   * same. The fence grows with every hold of one slot; between slots it says nothing.
   */
  get slot(): number | null {
    const it = self(this);
    return it.#over === undefined ? checked(port.slot(it.#number)) : it.#over.slot;
  }

  /** Why the lease was lost; `null` while it is held and after a release. */
  get lossReason(): LossReason | null {
    const it = self(this);
    return it.#over === undefined ? lossOf(it.#number) : it.#over.loss;
  }

  /** Whether the lease is valid now. Exact at every call; false after release. */
  isHeld(): boolean {
    const it = self(this);
    return it.#over === undefined && checked(port.isHeld(it.#number), it.isHeld);
  }

  /** Validity left before the next renewal, in milliseconds; 0 when the lease is over. */
  remaining(): number {
    const it = self(this);
    return it.#over === undefined ? checked(port.remaining(it.#number), it.remaining) : 0;
  }

  /**
   * Aborts when the lease is lost, with a `LockLostError` as its reason. Not when it is released. That of a term of
   * `election.run` aborts, too, when its work is to end because the term is given up.
   *
   * As of any `AbortSignal`, listeners hear of an abort that comes, and not of one that was: read it before the work, or look at
   * `aborted` first.
   */
  get signal(): AbortSignal {
    const it = self(this);
    if (it.#loss === undefined) {
      it.#loss = new LossSignal();
      leases.set(it.#loss.signal, it);
      it.#inContext();
      const failure = it.#lostError();
      if (failure !== null) it.#loss.abortEarly(toError(failure));
    }
    return it.#loss.signal;
  }

  #inContext(): void {
    this.#context ??= new AsyncResource("QUORLOCKLEASE", { requireManualDestroy: true });
  }

  /**
   * Lengthens the lease to `ttl` milliseconds from now, by default to its own ttl; never shortens it.
   *
   * Rejects with `LockLostError` if it is lost, `QuorumUnavailableError` if too few nodes answered (it is then valid as
   * long as it was), `NotOwnerError` after release.
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
    valueOf(await begin(this.extend, (port, number) => port.extend(number, this.#number, ttl)), this.extend);
  }

  /** Whether others may share the lock with it: it was asked for with `shared`, or has been downgraded. */
  isShared(): boolean {
    const it = self(this);
    return it.#over === undefined && checked(port.isShared(it.#number), it.isShared);
  }

  /**
   * Shares the lease from now on with others that ask for the lock with `shared`, and calls those that wait for that. It
   * keeps its fence. Resolves when a quorum of the nodes lets them in. Rejects with `LockLostError` if it is lost,
   * `NotOwnerError` after release, `QuorumUnavailableError` if too few nodes answered: it is shared and held all the same;
   * `InvalidArgumentError` of a raw lock, which stays as it is.
   */
  async downgrade(): Promise<void> {
    await self(this).#downgrade();
  }

  async #downgrade(): Promise<void> {
    this.#throwIfOver(this.downgrade);
    valueOf(await begin(this.downgrade, (port, number) => port.downgrade(number, this.#number)), this.downgrade);
  }

  /**
   * Ends the lease here without releasing the lock, and resolves to a text with which one other client of the same nodes
   * goes on: `client.adopt(text)`, in another process, in another language, on another host.
   *
   * The lease is lengthened to its full ttl first. Then it is over here, and is not renewed: adopt it within the ttl, or
   * for as long as it was extended beyond that, else the lock is free. Until then a loss could not be noticed, so leave
   * alone what the lock protects. **The text is a secret**: a program that has it can take the lock.
   *
   * Rejects with `LockLostError` if the lease is lost, `NotOwnerError` after release, `QuorumUnavailableError` if too few
   * nodes answered to lengthen it: then it is held here as before, as it is where `InvalidArgumentError` says that it was
   * entered more than once (release the inner handles first), that it is shared, or that its lock is kept.
   *
   * Await it: a promise cannot be given up, so an export that is raced against a timer may end the lease later, with no client that
   * has its text.
   */
  async export(): Promise<string> {
    return await self(this).#export();
  }

  async #export(): Promise<string> {
    this.#throwIfOver(this.export);
    valueOf(await begin(this.export, (port, number) => port.prepareExport(number, this.#number)), this.export);
    // Ended here, where the text goes on.
    this.#throwIfOver(this.export);
    const text = checked(port.export(this.#number), this.export);
    this.#end();
    return text;
  }

  /**
   * Makes sure that at least this many milliseconds of validity are left, extending the lease if there are not. Call it
   * right before a step that takes so long. Rejects as `extend`, and with `InvalidArgumentError` if so much is not
   * left and the ttl cannot give it.
   */
  async ensure(minRemaining: number): Promise<void> {
    const it = self(this);
    if (typeof minRemaining !== "number") {
      throw invalid(`minRemaining is a ${typeof minRemaining}: give milliseconds`, it.ensure);
    }
    await it.#ensure(minRemaining);
  }

  async #ensure(min: number): Promise<void> {
    this.#throwIfOver(this.ensure);
    valueOf(await begin(this.ensure, (port, number) => port.ensure(number, this.#number, min)), this.ensure);
  }

  /**
   * Releases this handle; the last handle of a lease frees the lock. Resolves to whether the lock was still held; a
   * second call does nothing and resolves to false. Of a lock with `keep` true means that a quorum of nodes keeps it taken. False
   * with a warning in the log: too few do, or nodes refuse the release for a missing permission. Never rejects for a loss. The
   * lease ends before the nodes are asked.
   *
   * With `confirm: false` it waits for no answer of the nodes, and tells whether the lease was valid here until now: for a lock of which
   * nothing is decided by the answer. The end of the client or of the process waits for it. Rejects with `InvalidArgumentError` of a
   * lock with `keep`, whose lease stays held, and with nothing else.
   */
  async release(options?: ReleaseOptions): Promise<boolean> {
    return await self(this).#release(options);
  }

  async #release(options?: ReleaseOptions): Promise<boolean> {
    const { confirm } = options === undefined ? {} : look(this.release, () => releaseOptions(options));
    if (this.#over !== undefined) return false;
    const begun = beginRelease(
      (port, number) => checked(port.release(number, this.#number, confirm), this.release),
      (left) => this.#letGo(left),
    );
    this.#isGivenBack = true;
    const held = typeof begun === "boolean" ? begun : valueOf(await begun, this.release);
    this.#end();
    return held;
  }

  /** Gives back what it takes up: that is not left to the collector, to which a lease looks small. */
  #end(): void {
    if (this.#over === undefined) this.#letGo(checked(port.end(this.#number)));
    if (this.#isTold) return;
    this.#isTold = true;
    if (released.hasSubscribers) {
      released.publish({ lease: this, name: this.name, lossReason: this.#over!.loss } satisfies ReleasedMessage);
    }
  }

  /** The core has forgotten it, but for this. Runs no code of the program. */
  #letGo([token, fence, loss, error, slot]: Left): void {
    this.#over = { token, fence, loss: loss as LossReason | null, error, slot };
    this.#isGivenBack = true;
    this.#keeper.letGo(this.#number);
  }

  #lostError(): Failure | null {
    if (this.#over !== undefined) return this.#over.error;
    return lossOf(this.#number) === null ? null : port.lostError(this.#number);
  }

  /** Not part of the API. */
  [throwIfLost](from: Function): void {
    const failure = this.#lostError();
    if (failure !== null) throw toError(failure, from);
  }

  #throwIfOver(from: Function): void {
    if (this.#over === undefined) return;
    const message = `the lease of ${inspect(this.name)} has been released`;
    throw toError({ number: NOT_OWNER, message, nodes: [] }, from);
  }

  /** For `await using`: releases. It does not reject for a loss, so the body's own error is never hidden. */
  async [asyncDispose](): Promise<void> {
    await self(this).#release();
  }

  #tell(): void {
    const reason = this.lossReason;
    const failure = this.#lostError();
    if (reason === null || failure === null) return;
    Keeper.isTold(this.#number);
    const error = toError(failure);
    const listeners = () => {
      first.get(this)?.();
      if (lost.hasSubscribers) lost.publish({ lease: this, name: this.name, reason } satisfies LostMessage);
      tell(() => {
        this.#loss?.abort(error);
        this.#keeper.client.emit("lost", { lease: this, name: this.name, reason, error });
      });
    };
    if (this.#context === undefined) listeners();
    else this.#context.runInAsyncScope(listeners);
  }

  toString(): string {
    return inspect(self(this));
  }

  [inspect.custom](): string {
    const it = self(this);
    const state = it.isHeld() ? `held, ${it.remaining().toFixed(0)} ms left` : (it.lossReason ?? "released");
    return `Lease { ${inspect(it.name)}, ${state} }`;
  }
}
