/** What Quorlock throws: one class for each kind of error, all of them a `QuorlockError`. */

import type { Failure } from "./binding.js";

/** What one node answered. */
export interface NodeAnswer {
  /** The node, as `host:port` or the path of its socket; never with credentials. */
  readonly node: string;
  readonly message: string;
}

/** The base of all errors of Quorlock. Kind, number and code say what to do, and never change. */
export class QuorlockError extends Error {
  /** `ERR_QUORLOCK_…`. */
  readonly code: string;
  /**
   * What the kind means in one sentence, without its full stop: what the message of every error of it begins with, and errors can
   * be grouped by.
   */
  readonly summary: string;
  /** The kind's name, the same in every language: `"Timeout"`. */
  readonly kind: string;
  /** The kind's number, the same in every language. */
  readonly number: number;
  /** What each node answered, in the order of the node list. Empty where they played no part. */
  readonly nodes: readonly NodeAnswer[];
  /** The name of the lock that it is about. Bytes that are no text appear as replacement characters. */
  readonly lockName: string | undefined;
  /**
   * The label of the lock's holder, where a node has given it. A wait that ends (`LockTimeoutError`) nearly always has it; a
   * try (`LockContendedError`) is mostly refused by a command that does not tell: ask `lock.holder()`.
   */
  readonly holder: string | undefined;

  constructor(
    message = "",
    nodes: readonly NodeAnswer[] = [],
    about: { readonly lock?: string | undefined; readonly holder?: string | undefined } = {},
  ) {
    const [number, kind, code, summary] = meaning(new.target);
    super(led(summary, message));
    this.number = number;
    this.kind = kind;
    this.code = `ERR_QUORLOCK_${code}`;
    this.summary = summary;
    this.nodes = nodes;
    this.lockName = about.lock;
    this.holder = about.holder;
  }

  /** For `JSON.stringify`, which leaves out the message of an error that does not say this. */
  toJSON(): object {
    return Object.assign({ name: this.name, message: this.message }, this);
  }
}

/** The lock is held by another: `LockContendedError` or `LockTimeoutError`. */
export abstract class LockBusyError extends QuorlockError {}

// Made from core/vocabulary.toml: classes.
/** An argument or option is not valid. Fix the call. */
export class InvalidArgumentError extends QuorlockError {}

/** The lock is held by another, and the call was told not to wait. */
export class LockContendedError extends LockBusyError {}

/** The wait is over and the lock is still held by another. */
export class LockTimeoutError extends LockBusyError {}

/** Too few nodes answered for a decision. Look at the nodes. */
export class QuorumUnavailableError extends QuorlockError {}

/** The lease is held no longer. Stop the protected work. */
export class LockLostError extends QuorlockError {}

/** Release or extension by an owner that holds nothing. */
export class NotOwnerError extends QuorlockError {}

/** As many calls of this client wait for the lock as `maxWaiters` allows. Shed load. */
export class TooManyWaitersError extends QuorlockError {}

/** Nodes or credentials are set up wrong. Never retried: fix the settings. */
export class MisconfiguredError extends QuorlockError {}

/** The client is closed. Make a new one. */
export class ClientClosedError extends QuorlockError {}

/** A bug in Quorlock, or a panic caught at its boundary. Report it. */
export class InternalError extends QuorlockError {}

/**
 * An owner that shares a lock wants it for itself: two that did would wait for each other without end. Release the shared lease
 * first, and look again at what it protected.
 */
export class WouldDeadlockError extends QuorlockError {}
// End of what is made.

type ErrorClass = new (
  message?: string,
  nodes?: readonly NodeAnswer[],
  about?: Pick<Failure, "lock" | "holder">,
) => QuorlockError;

const MEANINGS: readonly (readonly [ErrorClass, number, string, string, string])[] = [
  // Made from core/vocabulary.toml: meanings.
  [InvalidArgumentError, 1, "InvalidArgument", "INVALID_ARGUMENT", "An argument or option is not valid"],
  [LockContendedError, 2, "Contended", "CONTENDED", "The lock is held by another"],
  [LockTimeoutError, 3, "Timeout", "TIMEOUT", "The wait is over, and the lock was not won"],
  [QuorumUnavailableError, 4, "QuorumUnavailable", "QUORUM_UNAVAILABLE", "Too few nodes answered"],
  [LockLostError, 5, "LockLost", "LOCK_LOST", "The lock is held no longer"],
  [NotOwnerError, 6, "NotOwner", "NOT_OWNER", "The owner holds nothing"],
  [TooManyWaitersError, 7, "TooManyWaiters", "TOO_MANY_WAITERS", "Too many calls wait for the lock"],
  [MisconfiguredError, 8, "Misconfigured", "MISCONFIGURED", "Nodes or credentials are set up wrong"],
  [ClientClosedError, 10, "Closed", "CLOSED", "The client is closed"],
  [InternalError, 12, "Internal", "INTERNAL", "Quorlock itself failed"],
  [WouldDeadlockError, 13, "WouldDeadlock", "WOULD_DEADLOCK", "The call would wait for itself"],
  // End of what is made.
];

const CANCELLED = 9;
// Node never forks: `child_process.fork` starts a new process. Were it reported, it would be a bug.
const FORKED = 11;

for (const [errorClass] of MEANINGS) {
  // Not of each error: `name` is what the stack begins with, and no detail of one.
  Object.defineProperty(errorClass.prototype, "name", { value: errorClass.name, configurable: true, writable: true });
}
for (const base of [QuorlockError, LockBusyError]) {
  Object.defineProperty(base.prototype, "name", { value: base.name, configurable: true, writable: true });
}

/** A message behind the sentence of its kind, unless it begins with that by itself. */
function led(summary: string, message: string): string {
  const begin = message.slice(0, summary.length);
  if (begin.toLowerCase() === summary.toLowerCase()) return summary + message.slice(summary.length);
  return message === "" ? summary : `${summary}: ${message}`;
}

/** Number, kind, code and summary of a class; a class derived by a user has those of its base. */
function meaning(errorClass: unknown): [number, string, string, string] {
  for (let found = errorClass; typeof found === "function"; found = Object.getPrototypeOf(found)) {
    const row = MEANINGS.find(([known]) => known === found);
    if (row !== undefined) return [row[1], row[2], row[3], row[4]];
  }
  return [12, "Internal", "INTERNAL", "Quorlock itself failed"];
}

/** The stack of a call, as V8 captures it. */
export type Caller = { readonly stack: string };

const FRAMES = "\n    at ";

/**
 * The error for a failure. The one place where kinds become classes.
 *
 * The stack leads to those who await `from`, a function of the API: frames up to it are left out. Where none awaits it,
 * as where its promise was returned, it is that of the call.
 */
export function toError(failure: Failure, from?: Function, caller?: Caller): Error {
  const { number, message, nodes } = failure;
  if (number === CANCELLED) return new DOMException(message, "AbortError");
  const row = MEANINGS.find((row) => row[1] === (number === FORKED ? 12 : number));
  const errorClass: ErrorClass = row === undefined ? InternalError : row[0];
  const error = new errorClass(message, nodes, failure);
  if (from === undefined) return error;
  Error.captureStackTrace(error, from);
  if (caller !== undefined && error.stack?.includes(FRAMES) === false && caller.stack.includes(FRAMES)) {
    const frames = caller.stack.slice(caller.stack.indexOf(FRAMES));
    Object.defineProperty(error, "stack", { value: `${error.name}: ${error.message}${frames}`, writable: true, configurable: true });
  }
  return error;
}

/** What a native call returned, if it is no failure. */
export function checked<T>(result: T | Failure, from?: Function): T {
  if (typeof result === "object" && result !== null && "number" in result) {
    throw toError(result, from);
  }
  return result;
}

export function invalid(message: string, from?: Function): Error {
  return toError({ number: 1, message, nodes: [] }, from);
}

/** Looks at arguments: what is wrong with them is thrown with the stack of the caller of `from`. */
export function look<T>(from: Function, at: () => T): T {
  try {
    return at();
  } catch (error) {
    if (error instanceof QuorlockError) Error.captureStackTrace(error, from);
    throw error;
  }
}
