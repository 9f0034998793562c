/** Following who leads. */

import { inspect } from "node:util";

import type { NativeObserver } from "./binding.js";
import { asyncDispose } from "./dispose.js";
import { holderOf, type Holder, type NativeHolder } from "./inspection.js";
import type { Name } from "./options.js";
import { beginUntil, valueOf } from "./port.js";
import { knowSelf, self } from "./self.js";
import { noMore, whenAborted } from "./signals.js";

/** Who leads, as far as the nodes say. */
export interface Leadership {
  /** Whether the nodes said it; false where too few have answered. */
  readonly known: boolean;
  /** Who leads; `null` where no candidate does, or it is not known. */
  readonly leader: Holder | null;
}

type NativeLeadership = { readonly known: boolean; readonly leader: NativeHolder | null };

const OVER = { done: true, value: undefined } as const;

/** What `election.observe` returns. It looks only while a caller awaits `next`. Not part of the API. */
export class Observer implements AsyncIterableIterator<Leadership> {
  /** Nothing once it is over. */
  #core: NativeObserver | undefined;
  readonly #signal: AbortSignal | undefined;
  /** Aborts when it is left, or the signal above aborts. */
  readonly #end = new AbortController();
  #left = false;
  /** Those that ask before they are answered are answered one after the other. */
  #last: Promise<unknown> = Promise.resolve();

  readonly #name: Name;

  constructor(core: NativeObserver, name: Name, signal: AbortSignal | undefined) {
    knowSelf(this);
    this.#name = name;
    this.#core = core;
    this.#signal = signal;
  }

  toString(): string {
    return inspect(self(this));
  }

  [inspect.custom](): string {
    return `Observer { ${inspect(self(this).#name)} }`;
  }

  next(): Promise<IteratorResult<Leadership, undefined>> {
    const it = self(this);
    const answer = it.#last.then(() => it.#next());
    it.#last = answer.catch(() => {});
    return answer;
  }

  async #next(): Promise<IteratorResult<Leadership, undefined>> {
    if (this.#core === undefined) return OVER;
    const [core, signal, end] = [this.#core, this.#signal, this.#end];
    // Not for longer than it looks: the signal may live on when this is gone.
    const onAbort = () => end.abort(signal?.reason);
    if (signal?.aborted) onAbort();
    else if (signal !== undefined) whenAborted(signal, onAbort);
    try {
      const outcome = await beginUntil<NativeLeadership>(this.next, end.signal, (port, number) => core.next(port, number));
      const { known, leader } = valueOf(outcome, this.next);
      return { done: false, value: { known, leader: holderOf(leader) } };
    } catch (error) {
      this.#core = undefined;
      if (this.#left) return OVER;
      throw error;
    } finally {
      if (signal !== undefined) noMore(signal, onAbort);
    }
  }

  /** Ends it, as leaving a loop over it does. */
  async return(): Promise<IteratorResult<Leadership, undefined>> {
    const it = self(this);
    it.#left = true;
    it.#core = undefined;
    it.#end.abort();
    return OVER;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** For `await using`: ends it. */
  async [asyncDispose](): Promise<void> {
    await self(this).return();
  }
}
