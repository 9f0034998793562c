/** How operations of the core become promises, and what it has to tell. One for each environment. */

import { isMainThread } from "node:worker_threads";

import { called, type Call } from "./chained.js";
import { native, type Failure, type Left, type NativeLine, type NativePort } from "./binding.js";
import { checked, toError, type Caller } from "./errors.js";
import { noMore, whenAborted } from "./signals.js";

// What an event is, as in `native/events.rs`.
const DONE = 0;
const FAILED = 1;
const LOST = 2;
const ENDED = 4;

const resolved = Promise.resolve();

/**
 * Calls it when the running function has ended. No timer, tick or `queueMicrotask` is ever used in this package: those are
 * what fake timers of Jest and sinon replace, also before it is loaded, and then nothing would come of them.
 */
function microtask(call: () => void): void {
  void resolved.then(call);
}

/** Settles the promise of an operation. `left`: of the lease that its release has ended. */
type Settle = (value: unknown, failure: Failure | null, left?: Left) => void;

const pending = new Map<number, Settle>();
/** What the process stays alive for. */
const staying = new Set<object>();
let lastNumber = 0;
/** Whether this turn has started something. */
let started = false;

/** What is called for news that no promise waits for. */
export const told = {
  lost(_number: number, _putOff: boolean): void {},
  log(_warning: boolean, _line: NativeLine): void {},
};

/** Bun and Deno say that they are Node, too. */
const isNode = !("bun" in process.versions) && !("deno" in process.versions);

export const port: NativePort = new native.Port((...given: unknown[]) => {
  if (given.length === 0) {
    // Rung from another thread: it is called with what there is.
    port.take();
    return;
  }
  // Where they are many they come as an array.
  const news = given.length === 1 ? (given[0] as unknown[]) : given;
  for (let i = 0; i < news.length; i += 3) {
    const [what, number, value] = [news[i], news[i + 1] as number, news[i + 2]];
    if (what === DONE) settle(number, value, null);
    else if (what === FAILED) settle(number, null, value as Failure);
    else if (what === LOST) told.lost(number, value as boolean);
    else if (what === ENDED) {
      settle(number, value, null, news.slice(i + 3, i + 8) as unknown as Left);
      i += 5;
    } else told.log(number === 1, value as NativeLine);
  }
}, isNode);

// Bun ends a process without the exit handlers of the C library, which release what is held elsewhere.
if (!isNode && isMainThread) process.on("exit", () => void native.closeAll());

function settle(number: number, value: unknown, failure: Failure | null, left?: Left): void {
  const waiting = pending.get(number);
  if (waiting === undefined) return;
  pending.delete(number);
  waiting(value, failure, left);
}

/** While it is awaited the process lives. */
function expect(number: number, settle: Settle): void {
  pending.set(number, settle);
  if (started) return;
  started = true;
  microtask(submit);
}

/** Calls listeners. What they throw is theirs, and must not hold up what else has happened. */
export function tell(listeners: () => void): void {
  try {
    listeners();
  } catch (error) {
    port.uncaught(error);
  }
}

/** Submits what this turn has started: one wake-up of the I/O thread, and one write to each node. */
function submit(): void {
  started = false;
  checked(port.submit());
}

/**
 * What an operation came to. Never a rejection, so that the error is made where it has the stack of those who await it.
 * `caller`: the stack of the call, for a promise that is returned and not awaited.
 */
export type Outcome<T> = { value: T; number: number } | { failure: Failure; caller?: Caller };

/** Numbers that no other operation gets; the first of them. */
function reserve(numbers: number): number {
  const first = lastNumber + 1;
  lastNumber += numbers;
  return first;
}

/** Keeps the process alive, as what is awaited does, and `what` from being collected, until what it returns is called. */
export function stay(what: object): () => void {
  // Of its own: there may be several for one.
  const reason = { what };
  staying.add(reason);
  port.stay(true);
  return () => {
    if (staying.delete(reason)) port.stay(false);
  };
}

/**
 * Starts an operation of the API's function `from`, or of a call of it, under a number of its own, or the first of several. `null`: the
 * stack of the call is not kept, for what each scope does at its end.
 */
export function begin<T>(
  from: Function | Call | null,
  start: (port: NativePort, number: number) => Failure | null,
  numbers = 1,
): Promise<Outcome<T>> {
  const caller = typeof from === "function" ? called(from) : (from ?? undefined);
  const failed = (failure: Failure): Outcome<T> => (caller === undefined ? { failure } : { failure, caller });
  return new Promise((resolve) => {
    const number = reserve(numbers);
    const failure = start(port, number);
    if (failure !== null) {
      resolve(failed(failure));
      return;
    }
    expect(number, (value, failure) => {
      resolve(failure === null ? { value: value as T, number } : failed(failure));
    });
  });
}

/**
 * Starts an operation that a signal may end. It then rejects with the signal's reason, and what it has won by then is
 * released. A signal that aborts later does nothing.
 */
export function beginUntil<T>(
  from: Function | Call,
  signal: AbortSignal,
  start: (port: NativePort, number: number) => Failure | null,
  numbers = 1,
): Promise<Outcome<T>> {
  const caller = typeof from === "function" ? called(from) : from;
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const number = reserve(numbers);
    const failure = start(port, number);
    if (failure !== null) {
      resolve({ failure, caller });
      return;
    }
    const onAbort = () => {
      pending.delete(number);
      port.cancel(number, numbers);
      reject(signal.reason);
    };
    whenAborted(signal, onAbort);
    expect(number, (value, failure) => {
      noMore(signal, onAbort);
      resolve(failure === null ? { value: value as T, number } : { failure, caller });
    });
  });
}

/**
 * Starts the release of a lease, whose end it hears before anything else that is awaited goes on. What `start` throws is thrown, and what
 * it returns, but for `null`, is what the release comes to at once.
 */
export function beginRelease(
  start: (port: NativePort, number: number) => boolean | null,
  ended: (left: Left) => void,
): boolean | Promise<Outcome<boolean>> {
  const number = reserve(1);
  const held = start(port, number);
  if (held !== null) return held;
  return new Promise((resolve) => {
    expect(number, (value, failure, left) => {
      if (left !== undefined) ended(left);
      resolve(failure === null ? { value: value as boolean, number } : { failure });
    });
  });
}

/** The value of an outcome. `from`: the function of the API that the user called. */
export function valueOf<T>(outcome: Outcome<T>, from: Function): T {
  if ("failure" in outcome) throw toError(outcome.failure, from, outcome.caller);
  return outcome.value;
}
