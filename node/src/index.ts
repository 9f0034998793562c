/// <reference types="node" preserve="true" />

/**
 * A distributed lock over independent Redis or Valkey masters.
 *
 *     import { redlock } from "quorlock";
 *
 *     await redlock("orders:42", async (lease) => { … });
 *
 * A lock is won by the votes of a majority of the nodes, renewed while it is held, and lost loudly. The nodes are those
 * of `nodes` or of the environment variable `QUORLOCK_NODES`. All times are in milliseconds.
 *
 * `redlock` holds a lock, or several, while a function runs, and `once` has one host of many run a job. `Client`, `Lock` and
 * `Lease` are the same by hand, and `Locks` and `Leases` for several. `client.election` has one of
 * several processes lead. Errors are subclasses of `QuorlockError`; wherever a lease may have been lost, `lease.isHeld()` tells the truth at every call.
 */

export type { AnyBody, Body, BodyOfAll } from "./body.js";
export { Client, type RWLock, type Stats } from "./client.js";
export { Election } from "./election.js";
export {
  ClientClosedError,
  InternalError,
  InvalidArgumentError,
  LockBusyError,
  LockContendedError,
  LockLostError,
  LockTimeoutError,
  MisconfiguredError,
  NotOwnerError,
  QuorlockError,
  QuorumUnavailableError,
  TooManyWaitersError,
  WouldDeadlockError,
  type NodeAnswer,
} from "./errors.js";
export type { ClientEvents, Events } from "./events.js";
export type { Forced, Holder, Inspection, NodeView } from "./inspection.js";
export { Lease, type Loss, type LostMessage, type ReleasedMessage } from "./lease.js";
export { Leases } from "./leases.js";
export { Lock } from "./lock.js";
export { Locks } from "./locks.js";
export type { LogLine } from "./log.js";
export type { LossReason } from "./loss.js";
export type { Leadership } from "./observer.js";
export type {
  AcquireOptions,
  ClientOptions,
  ElectionOptions,
  ForceOptions,
  WaitOptions,
  InitOptions,
  LockOptions,
  Name,
  NotOf,
  ObserveOptions,
  ReleaseOptions,
  RunOptions,
  RWLockOptions,
  SemaphoreOptions,
  SeveralOptions,
} from "./options.js";
export { metricsText } from "./metrics.js";
export { once, type OnceOptions } from "./once.js";
export type { Finding, NodeReport, Probe } from "./probe.js";
export { redlock, semaphore, type AttemptOptions, type RedlockOptions } from "./redlock.js";
export type { AcquireMessage } from "./tracing.js";
