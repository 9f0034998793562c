/** The term that a candidate has, and the work that `run` does in it. */

import { AsyncLocalStorage } from "node:async_hooks";

import type { Body } from "./body.js";
import { stopWork, whenLost, type Lease } from "./lease.js";
import { identityOf, type Lock } from "./lock.js";
import type { RunOptions } from "./options.js";
import { Invocation } from "./owner.js";
import { stay, tell } from "./port.js";
import { noMore, whenAborted } from "./signals.js";

/** A term, and whether the work of `run` is done in it. */
export type Seat = { readonly lease: Lease; readonly term?: Term };

/** How work has ended; never a rejection, so that the caller looks at both. */
export type WorkOutcome<T> = { readonly result: T } | { readonly error: unknown };

/** The terms in whose work the caller is, the innermost first. */
const around = new AsyncLocalStorage<Scope>();
type Scope = { readonly term: Term; readonly outer: Scope | undefined };

/** One term of `run`. */
export class Term {
  readonly lease: Lease;
  readonly #lock: Lock;
  readonly #options: RunOptions;
  #lossTold = false;
  #stopped = false;
  #aborted = false;
  #settle!: (held: boolean) => void;
  /** Resolves when it has been given up, to whether it was still held then. */
  readonly resigned = new Promise<boolean>((resolve) => (this.#settle = resolve));

  constructor(lease: Lease, lock: Lock, options: RunOptions) {
    this.lease = lease;
    this.#lock = lock;
    this.#options = options;
    whenLost(lease, () => this.#tellLoss());
  }

  /** Does the work while the term is held, and waits until it has settled; nothing where there was no work to begin. */
  async work<T>(body: Body<T>): Promise<WorkOutcome<T> | undefined> {
    const { signal, onStopped } = this.#options;
    const onAbort = () => {
      this.#aborted = true;
      this.stop(signal?.reason);
    };
    if (signal?.aborted) onAbort();
    else if (signal !== undefined) whenAborted(signal, onAbort);
    // Work that waits for its signal alone would be collected, and its lease with it.
    const done = stay(this);
    try {
      // The clock is asked: no listener may have been called for the loss so far.
      if (this.#stopped || !this.lease.isHeld()) return undefined;
      const own = new Invocation(false);
      own.won(identityOf(this.#lock), this.lease, undefined);
      return { result: await around.run({ term: this, outer: around.getStore() }, () => own.run(body, this.lease)) };
    } catch (error) {
      return { error };
    } finally {
      done();
      if (signal !== undefined) noMore(signal, onAbort);
      this.#tellLoss();
      if (onStopped !== undefined) tell(onStopped);
    }
  }

  /** Has the work end, while the term is held. */
  stop(reason: unknown): void {
    this.#stopped = true;
    stopWork(this.lease, reason);
  }

  /** Whether the work had to end because the signal of `run` aborted. */
  get wasAborted(): boolean {
    return this.#aborted;
  }

  /** Whether the work had to end, when it is asked just after that has. */
  isOver(): boolean {
    return this.#stopped || this.lease.lossReason !== null;
  }

  /** Whether the caller is this work, or was started by it. */
  isAround(): boolean {
    let inside = around.getStore();
    while (inside !== undefined && inside.term !== this) inside = inside.outer;
    return inside !== undefined;
  }

  /** Releases it, and resolves what waits for that. */
  async giveUp(): Promise<void> {
    let held = false;
    try {
      held = await this.lease.release();
    } finally {
      this.#settle(held);
    }
  }

  #tellLoss(): void {
    const reason = this.lease.lossReason;
    if (reason === null || this.#lossTold) return;
    this.#lossTold = true;
    const { onLost } = this.#options;
    if (onLost !== undefined) tell(() => onLost(reason));
  }
}
