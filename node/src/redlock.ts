/** `redlock(…)`: a lock in one line. */

import { acquireFor, tryAcquireFor, type Acquirable } from "./acquirable.js";
import { checkBody, finished, type AnyBody, type Body, type BodyOfAll } from "./body.js";
import { chained, type Call } from "./chained.js";
import { Client, lockWith } from "./client.js";
import { defaultClient, events } from "./default.js";
import { invalid, look } from "./errors.js";
import { throwIfLost } from "./held.js";
import type { Lease } from "./lease.js";
import type { Leases } from "./leases.js";
import {
  abortSignal,
  attemptOptions,
  nameOf,
  scopeOptions,
  slotOptions,
  type ClientOptions,
  type LockOptions,
  type Name,
  type NotOf,
  type ScopeOptions,
  type SemaphoreOptions,
  type SeveralOptions,
} from "./options.js";
import { Invocation } from "./owner.js";
import { stay } from "./port.js";

/** Options of `redlock`. */
export interface RedlockOptions extends LockOptions, Omit<ClientOptions, keyof LockOptions> {
  /**
   * Whose nodes to use. Without it there is one client for all calls with the same client options, made at the first;
   * `nodes` defaults to `QUORLOCK_NODES`.
   */
  client?: Client | undefined;
  /** Ends the wait for the lock. The call then rejects with the signal's reason. For a loss see `lease.signal`. */
  signal?: AbortSignal | undefined;
  // Made from core/options.toml: options of a call.
  /**
   * Whether this call enters again what a body around it holds: this very lock, by the same client. Without, it waits as
   * any other does, in vain if that body waits for it. Default: `false`.
   */
  reentrant?: boolean | undefined;
  // End of what is made.
}

/** Options of work that may be left out. */
export interface AttemptOptions<R = undefined> extends RedlockOptions {
  /** Called where the work is left out; the call then resolves to what this returns, and without it to `undefined`. */
  otherwise?: (() => R | PromiseLike<R>) | undefined;
}

/**
 * Holds a lock while `body` runs, and resolves to what it returns.
 *
 *     await redlock("orders:42", async (lease) => {
 *       await charge({ signal: lease.signal });
 *     });
 *
 * Each call is a stranger to every other, wherever it is made: branches that run in parallel are kept apart, within a body as
 * without. With `reentrant: true` a call within the body of another on the same lock enters that again, without asking the nodes. Such
 * branches of one body are inside together: the lock does not keep them apart.
 *
 * A call within the body of the same lock that does not say so waits, and a warning of the process tells it. "Within" is what runs in
 * the async context of the body: also listeners of sockets, timers and emitters that were made there, as long as the body runs. Where
 * they are no part of it, bind them with `AsyncResource.bind` outside of the body.
 *
 * Rejects as `lock.acquire`. If the body ends normally after the lock was lost, rejects with `LockLostError`; the body's
 * own error always wins. A generator is no body, for it would run when the lock is free again: a generator function is refused with
 * `InvalidArgumentError` before anything is acquired, and a body that has returned a generator afterwards.
 *
 * With an array of names it holds all of these locks, or none, as `client.lockAll`; `body` gets `Leases`. Where it is not known whether
 * it is one name or an array, `body` gets the one or the other.
 *
 * `redlock.events` emits `lost` for the leases of all calls without `client`, and `log`.
 */
export function redlock<T>(name: Name, body: Body<T>): Promise<T>;
export function redlock<T>(name: Name, options: RedlockOptions, body: Body<T>): Promise<T>;
export function redlock<T>(names: readonly Name[], body: BodyOfAll<T>): Promise<T>;
export function redlock<T>(names: readonly Name[], options: Omit<RedlockOptions, NotOf<SeveralOptions>>, body: BodyOfAll<T>): Promise<T>;
export function redlock<T>(names: Name | readonly Name[], body: AnyBody<T>): Promise<T>;
export function redlock<T>(names: Name | readonly Name[], options: Omit<RedlockOptions, NotOf<SeveralOptions>>, body: AnyBody<T>): Promise<T>;
export function redlock<T>(name: Name | readonly Name[], ...rest: unknown[]): Promise<T> {
  return chained(redlock, async (call) => {
    const [given, body] = (rest.length === 1 ? [{}, rest[0]] : rest) as [RedlockOptions, AnyBody<T>];
    const { lock, signal, reentrant } = look(redlock, () => scoped(name, scopeOptions(given, what(name)), body));
    // Made here, where the caller's context is sure to be there.
    const own = new Invocation(reentrant);
    return await holding(await lock[acquireFor]({ signal }, own, call), own, body, call.run);
  });
}

/**
 * The same for work that is left out where others hold the lock: `body` is not called there, and the result is `undefined`, or what
 * `otherwise` of the options returns.
 *
 *     await redlock.attempt("report", async (lease) => { … });
 *     const made = await redlock.attempt("report", { otherwise: () => "another is at it" }, makeReport);
 *
 * By default it tries once; with `wait` for so long. Rejects as `redlock`, but never because others hold the lock.
 */
function attempt<T>(name: Name, body: Body<T>): Promise<T | undefined>;
function attempt<T, R = undefined>(name: Name, options: AttemptOptions<R>, body: Body<T>): Promise<T | R>;
function attempt<T>(names: readonly Name[], body: BodyOfAll<T>): Promise<T | undefined>;
function attempt<T, R = undefined>(
  names: readonly Name[],
  options: Omit<AttemptOptions<R>, NotOf<SeveralOptions>>,
  body: BodyOfAll<T>,
): Promise<T | R>;
function attempt<T>(names: Name | readonly Name[], body: AnyBody<T>): Promise<T | undefined>;
function attempt<T, R = undefined>(
  names: Name | readonly Name[],
  options: Omit<AttemptOptions<R>, NotOf<SeveralOptions>>,
  body: AnyBody<T>,
): Promise<T | R>;
function attempt<T, R>(name: Name | readonly Name[], ...rest: unknown[]): Promise<T | R | undefined> {
  return chained(attempt, async (call) => {
    const [given, body] = (rest.length === 1 ? [{}, rest[0]] : rest) as [AttemptOptions<R>, AnyBody<T>];
    const asked = look(attempt, () => scoped(name, attemptOptions(given, what(name)), body));
    return await attempted<T, R>(asked, body, call);
  });
}

redlock.attempt = attempt;

/**
 * Has a slot of a semaphore while `body` runs: at most `slots` are held at once, 1 to 128.
 *
 *     await semaphore("api", 5, async (lease) => { … });
 *
 * As `redlock` in all else. A call within the body has another slot, unless it says `reentrant: true`; `lease.slot` tells which one it is.
 */
export function semaphore<T>(name: Name, slots: number, body: Body<T>): Promise<T>;
export function semaphore<T>(
  name: Name,
  slots: number,
  options: Omit<RedlockOptions, NotOf<SemaphoreOptions>>,
  body: Body<T>,
): Promise<T>;
export function semaphore<T>(name: Name, slots: number, ...rest: unknown[]): Promise<T> {
  return chained(semaphore, async (call) => {
    const [given, body] = (rest.length === 1 ? [{}, rest[0]] : rest) as [RedlockOptions, AnyBody<T>];
    const { lock, signal, reentrant } = look(semaphore, () => scoped(nameOf("name", name), slotOptions(slots, given), body));
    const own = new Invocation(reentrant);
    return await holding(await lock[acquireFor]({ signal }, own, call), own, body, call.run);
  });
}

/** Runs the body where the lock is had in time; else it is left out. Not part of the API. */
export async function attempted<T, R>(
  { lock, signal, reentrant, otherwise }: ScopeRequest,
  body: AnyBody<T>,
  call: Call,
): Promise<T | R | undefined> {
  const own = new Invocation(reentrant);
  const held = await lock[tryAcquireFor]({ signal }, own, call);
  if (held !== null) return await holding(held, own, body, call.run);
  return finished(await (otherwise as AttemptOptions<R>["otherwise"])?.(), call.run);
}

/** Runs the body of a call under what it holds, and releases that. */
async function holding<T>(held: Lease | Leases, own: Invocation, body: AnyBody<T>, from: Function): Promise<T> {
  // A body that waits for its signal alone would be collected, and its lease with it. And what is awaited keeps the process alive.
  const done = stay(held);
  try {
    let result: T;
    try {
      // A busy event loop may see a lease only when it is lost already: no work must begin under it.
      held[throwIfLost](from);
      result = finished(await own.run(body, held), from);
    } catch (error) {
      // The body's own error wins.
      await held.release().catch(() => {});
      throw error;
    }
    await held.release();
    held[throwIfLost](from);
    return result;
  } finally {
    done();
  }
}

/** Emits `lost` for the leases of all calls without `client`, and `log` for what is worth knowing in this process. */
redlock.events = events;

/** Whose options a call has, by what it names. */
const what = (name: Name | readonly Name[]) => (Array.isArray(name) ? "several" : "lock");

/** What a call with a body asks for. Not part of the API. */
export interface ScopeRequest {
  readonly lock: Acquirable<Lease | Leases>;
  readonly signal: AbortSignal | undefined;
  readonly reentrant: boolean;
  readonly otherwise: unknown;
}

/** The same of options that were looked at. Not part of the API. */
export function scoped(name: Name | readonly Name[], options: ScopeOptions, body: unknown): ScopeRequest {
  checkBody(body, "the last argument is the work to do: give a function");
  const [ofLock, ofClient, { client, signal, reentrant = false, otherwise }] = options;
  if (client !== undefined) {
    if (!(client instanceof Client)) throw invalid("client is no Client of this package");
    const own = Object.keys(ofClient);
    if (own.length > 0) throw invalid(`a client has its own ${own.join(", ")}: give them to the client`);
  }
  const of = client ?? defaultClient(ofClient);
  return {
    lock: lockWith(of, name, ofLock, scoped),
    signal: signal === undefined ? undefined : abortSignal(signal),
    reentrant,
    otherwise,
  };
}
