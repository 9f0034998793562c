/** Listening to abort signals: one listener for each signal, however many calls wait on it. */

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
