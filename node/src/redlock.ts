/** `redlock(…)`: a lock in one line. */

import { Client } from "./client.js";
import { defaultClient, events } from "./default.js";
import { invalid, look } from "./errors.js";
import { throwIfLost, type Lease } from "./lease.js";
import { Leases, throwIfOneLost } from "./leases.js";
import { acquireFor, tryAcquireFor, type Lock } from "./lock.js";
import { acquireAllFor, Locks, tryAcquireAllFor } from "./locks.js";
import { abortSignal, nameOf, scopeOptions, type ClientOptions, type LockOptions, type Name } from "./options.js";
import { invocation, within, type Invocation } from "./owner.js";

/** Options of `redlock`. */
export interface RedlockOptions extends LockOptions, Omit<ClientOptions, keyof LockOptions> {
  /**
   * Whose nodes to use. Without it there is one client for all calls with the same client options, made at the first;
   * `nodes` defaults to `QUORLOCK_NODES`.
   */
  client?: Client | undefined;
  /** Ends the wait for the lock. The call then rejects with the signal's reason. For a loss see `lease.signal`. */
  signal?: AbortSignal | undefined;
  /** Whether this call may re-enter a lock that an invocation around it holds. True; of a semaphore false. */
  reentrant?: boolean | undefined;
}

/** The work that a lock protects. */
export type Body<T> = (lease: Lease) => T | PromiseLike<T>;

/** The work that several locks protect. */
export type BodyOfAll<T> = (leases: Leases) => T | PromiseLike<T>;

/** What is acquired, and under what its work runs. */
type Asked = Lock | Locks;
type Held = Lease | Leases;
/** Not part of the API. */
export type AnyBody<T> = (held: Held) => T | PromiseLike<T>;
type Rest<B> = [B] | [RedlockOptions, B];

/**
 * Holds a lock while `body` runs, and resolves to what it returns.
 *
 *     await redlock("orders:42", async (lease) => {
 *       await charge({ signal: lease.signal });
 *     });
 *
 * The owner is the invocation: within the body, `redlock` with the same name enters again, without asking the nodes.
 * Branches that run in parallel inside one body share its owner, so the lock does not keep them apart; say
 * `reentrant: false` where it must.
 *
 * Rejects as `lock.acquire`. If the body ends normally after the lock was lost, rejects with `LockLostError`; the body's
 * own error always wins.
 *
 * With an array of names it holds all of these locks, or none, as `client.lockAll`; `body` gets `Leases`.
 *
 * `redlock.events` emits `lost` for the leases of all calls without `client`, and `log`.
 */
export async function redlock<T>(name: Name, body: Body<T>): Promise<T>;
export async function redlock<T>(name: Name, options: RedlockOptions, body: Body<T>): Promise<T>;
export async function redlock<T>(names: readonly Name[], body: BodyOfAll<T>): Promise<T>;
export async function redlock<T>(names: readonly Name[], options: RedlockOptions, body: BodyOfAll<T>): Promise<T>;
export async function redlock<T>(name: Name | readonly Name[], ...rest: Rest<Body<T>> | Rest<BodyOfAll<T>>): Promise<T> {
  const [given, body] = (rest.length === 1 ? [{}, rest[0]] : rest) as [RedlockOptions, AnyBody<T>];
  const { lock, signal, reentrant } = look(redlock, () => prepared(name, given, body));
  // Read here, where the caller's context is sure to be there.
  const own = reentrant ? invocation() : undefined;
  const held = await (lock instanceof Locks
    ? acquireAllFor(lock, { signal }, own?.owner, redlock)
    : acquireFor(lock, { signal }, own?.owner, redlock));
  return await holding(held, inside(own, body), redlock);
}

/**
 * The same for work that is left out where others hold the lock: `body` is not called there, and the result is `undefined`.
 *
 *     await redlock.attempt("report", async (lease) => { … });
 *
 * By default it tries once; with `wait` for so long. Rejects as `redlock`, but never because others hold the lock.
 */
async function attempt<T>(name: Name, body: Body<T>): Promise<T | undefined>;
async function attempt<T>(name: Name, options: RedlockOptions, body: Body<T>): Promise<T | undefined>;
async function attempt<T>(names: readonly Name[], body: BodyOfAll<T>): Promise<T | undefined>;
async function attempt<T>(names: readonly Name[], options: RedlockOptions, body: BodyOfAll<T>): Promise<T | undefined>;
async function attempt<T>(
  name: Name | readonly Name[],
  ...rest: Rest<Body<T>> | Rest<BodyOfAll<T>>
): Promise<T | undefined> {
  const [given, body] = (rest.length === 1 ? [{}, rest[0]] : rest) as [RedlockOptions, AnyBody<T>];
  const { lock, signal, reentrant } = look(attempt, () => {
    const [ofLock, ...others] = scopeOptions(given);
    return scoped(name, [{ wait: 0, ...ofLock }, ...others], body);
  });
  return await attempted(lock, signal, reentrant ? invocation() : undefined, body, attempt);
}

redlock.attempt = attempt;

/**
 * Has a slot of a semaphore while `body` runs: at most `slots` are held at once, 1 to 128.
 *
 *     await semaphore("api", 5, async (lease) => { … });
 *
 * As `redlock` in all else, but that a call within the body has another slot. `lease.slot` tells which one it is.
 */
export async function semaphore<T>(name: Name, slots: number, body: Body<T>): Promise<T>;
export async function semaphore<T>(
  name: Name,
  slots: number,
  options: Omit<RedlockOptions, "shared" | "slots">,
  body: Body<T>,
): Promise<T>;
export async function semaphore<T>(name: Name, slots: number, ...rest: Rest<Body<T>>): Promise<T> {
  const [given, body] = (rest.length === 1 ? [{}, rest[0]] : rest) as [RedlockOptions, AnyBody<T>];
  const { lock, signal, reentrant } = look(semaphore, () => prepared(nameOf("name", name), { ...given, slots }, body));
  const own = reentrant ? invocation() : undefined;
  return await holding(await acquireFor(lock as Lock, { signal }, own?.owner, semaphore), inside(own, body), semaphore);
}

/** Runs the body where the lock is had in time; `undefined` where others hold it. Not part of the API. */
export async function attempted<T>(
  lock: Asked,
  signal: AbortSignal | undefined,
  own: Invocation | undefined,
  body: AnyBody<T>,
  from: Function,
): Promise<T | undefined> {
  const held = await (lock instanceof Locks
    ? tryAcquireAllFor(lock, { signal }, own?.owner, from)
    : tryAcquireFor(lock, { signal }, own?.owner, from));
  return held === null ? undefined : await holding(held, inside(own, body), from);
}

/** A body that runs as this invocation. */
const inside =
  <T>(own: Invocation | undefined, body: AnyBody<T>): AnyBody<T> =>
  (held) =>
    own === undefined ? body(held) : within(own, body, held);

const throwIfEnded = (held: Held, from: Function) =>
  held instanceof Leases ? throwIfOneLost(held, from) : throwIfLost(held, from);

/** What bodies hold that run. One that waits for its signal alone would be collected, and its lease with it. */
const running = new Set<Held>();

/** Runs the body under what it holds, and releases that. */
async function holding<T>(held: Held, body: AnyBody<T>, from: Function): Promise<T> {
  let result: T;
  running.add(held);
  try {
    // A busy event loop may see a lease only when it is lost already: no work must begin under it.
    throwIfEnded(held, from);
    result = await body(held);
  } catch (error) {
    try {
      await held.release();
    } catch {
      // The body's own error wins.
    }
    throw error;
  } finally {
    running.delete(held);
  }
  await held.release();
  throwIfEnded(held, from);
  return result;
}

/** Emits `lost` for the leases of all calls without `client`, and `log` for what is worth knowing in this process. */
redlock.events = events;

const prepared = (name: Name | readonly Name[], given: RedlockOptions, body: unknown) =>
  scoped(name, scopeOptions(given), body);

/** The lock for a body, or several, of options that were looked at. Not part of the API. */
export function scoped(name: Name | readonly Name[], options: ReturnType<typeof scopeOptions>, body: unknown) {
  if (typeof body !== "function") throw invalid("the last argument is the work to do: give a function");
  const [ofLock, ofClient, { client, signal, reentrant = ofLock.slots === undefined }] = options;
  if (client !== undefined) {
    if (!(client instanceof Client)) throw invalid("client is no Client of this package");
    const own = Object.keys(ofClient);
    if (own.length > 0) throw invalid(`a client has its own ${own.join(", ")}: give them to the client`);
  }
  const of = client ?? defaultClient(ofClient);
  return {
    lock: Array.isArray(name) ? of.lockAll(name, ofLock) : of.lock(name as Name, ofLock),
    signal: signal === undefined ? undefined : abortSignal(signal),
    reentrant,
  };
}
