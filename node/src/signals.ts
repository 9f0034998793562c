/** Abort signals: those that are listened to, with one listener for each, however many calls wait on it, and those of losses. */

/** What is called when the signals abort. Many listeners on one signal would be warned about as a leak. */
const waiting = new WeakMap<AbortSignal, Set<() => void>>();

function onAbort(this: AbortSignal): void {
  const calls = waiting.get(this);
  waiting.delete(this);
  if (calls !== undefined) for (const call of calls) call();
}

export function whenAborted(signal: AbortSignal, call: () => void): void {
  const calls = waiting.get(signal);
  if (calls !== undefined) {
    calls.add(call);
    return;
  }
  waiting.set(signal, new Set([call]));
  signal.addEventListener("abort", onAbort, { once: true });
}

export function noMore(signal: AbortSignal, call: () => void): void {
  const calls = waiting.get(signal);
  if (calls === undefined || !calls.delete(call) || calls.size > 0) return;
  waiting.delete(signal);
  signal.removeEventListener("abort", onAbort);
}

/** The signal of what may be lost. */
export class LossSignal {
  readonly #controller = new AbortController();
  /** Whether it aborted before the loss was reported: a listener that came since has not heard of it. */
  #early = false;

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** For a reader that comes after a loss that is about to be reported. */
  abortEarly(reason: unknown): void {
    this.#early = true;
    this.#controller.abort(reason);
  }

  abort(reason: unknown): void {
    if (!this.signal.aborted) this.#controller.abort(reason);
    else if (this.#early) this.signal.dispatchEvent(new Event("abort"));
    this.#early = false;
  }
}
