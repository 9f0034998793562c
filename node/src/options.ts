/** Options: what a user may give, and what the native part gets. */

import { inspect, types } from "node:util";

import { native, type NativeClientOptions, type NativeLockOptions } from "./binding.js";
import { invalid } from "./errors.js";
import type { LossReason } from "./lease.js";

/** Text, or bytes that need not be text. */
export type Name = string | Uint8Array;

/** Options of a lock; a client's are the defaults of its locks. All times are in milliseconds. */
export interface LockOptions {
  /** Auto-release time on the nodes: how long the lock outlives a crashed holder. 10,000. */
  ttl?: number | undefined;
  /** How long to wait in `acquire`: 0 tries once, `null` or `Infinity` waits forever. 10,000. */
  wait?: number | null | undefined;
  /** Whether the lease is renewed until released. Without, it ends after the ttl unless extended. True. */
  renew?: boolean | undefined;
  /** Longest life of a lease; `null` or `Infinity` for no limit. One hour. */
  maxHold?: number | null | undefined;
  /** Whether the key on the nodes is the name itself, as in other Redlock libraries. False. */
  raw?: boolean | undefined;
  /** Whether leases have a `fence`. Without, one key less is written on each node. True. */
  fencing?: boolean | undefined;
  /**
   * How many calls of the client may wait for the lock in a line, behind the one that asks the nodes or holds it; one more
   * rejects with `TooManyWaitersError` at once. 0: nobody waits behind another. 10,000.
   */
  maxWaiters?: number | undefined;
  /**
   * Whether every release goes over the nodes, where the waiters of other clients queue. Without, a lease may be passed on
   * to the next in line of this client, up to 16 times in a row. False.
   */
  fair?: boolean | undefined;
  /**
   * For how long the lock stays taken after it was won, also when it is released before: so that a job which every host
   * starts at about the same time runs once. At most `maxTtl`. 0.
   */
  keep?: number | undefined;
  /**
   * `"redisson"` makes it one lock with Java's `RLock` of that name. The key is the name then, a named `owner` is one in all
   * processes and in Java, and waiters are not queued on the nodes. Not with `shared`, `slots` nor `keep`. `"plain"`.
   */
  layout?: "plain" | "redisson" | undefined;
  /**
   * The lock's group in `metricsText()`, which never names locks: a word for all of a kind, such as `orders`. At most 64
   * bytes. The process keeps 64 groups; later ones are counted as `other`. Empty.
   */
  group?: string | undefined;
  /**
   * Text that is stored with the token of a lease, to tell who holds the lock: at most 256 bytes without control characters; empty for
   * none. A call that enters a lease again leaves that lease's label as it is. What is `raw`, or in Redisson's layout, has no label.
   * `host:pid`.
   */
  label?: string | undefined;
  /**
   * Whether the lease is one of many that share the lock: readers, whom a lease that is not shared keeps out, and who keep
   * that out. Whoever shares the lock and asks for it alone gets `WouldDeadlockError` at once. Not with `raw` nor `keep`. False.
   */
  shared?: boolean | undefined;
  /** Makes it a semaphore of this many slots, 1 to 128: no more of them are held at once: see `client.semaphore`. */
  slots?: number | undefined;
  /** Who may re-enter, by a name that is valid within the client. */
  owner?: Name | undefined;
}

/** Options of a client. Those of locks are the defaults of its locks. */
export interface ClientOptions extends Omit<LockOptions, "owner" | "shared" | "slots"> {
  /**
   * URLs, as a list or in one text with commas: `redis://[user:password@]host[:port][/db]`, `rediss://…`,
   * `redis+unix:///path`, `redis+sentinel://host:26379;host;host/master` for a master with replicas that sentinels know by
   * that name, `redis+cluster://host:6379;host` for a Redis Cluster, or `memory://name` for a node in this process.
   * Default: the environment variable `QUORLOCK_NODES`, else `redis://127.0.0.1:6379`.
   */
  nodes?: string | Iterable<string> | undefined;
  /**
   * The longest ttl of any lock of the set, and so how long a node that may have lost its memory gives no vote; the same
   * for all clients of a set. 60,000.
   */
  maxTtl?: number | undefined;
  /** Time for one request to one node, at most a quarter of the ttl. 250. */
  nodeTimeout?: number | undefined;
  /**
   * Time for a connection to a node to be made, which calls that ask once (`wait: 0`, `attempt`, `once`, `inspect`, `adopt`)
   * wait for where it is the first: until a quorum of nodes is connected. 2,000.
   */
  connectTimeout?: number | undefined;
  /** Bound on the difference of clock rates, as a fraction. 0.01. */
  drift?: number | undefined;
  /** The fraction of the ttl that must be left when a lease is won. 0.1. */
  minValidity?: number | undefined;
  /** Prefix of every key. `lock:`. */
  namespace?: string | undefined;
  /**
   * How long a lock's counter of fences lives after its last use, in milliseconds; at least twice `maxTtl`. After that
   * the order of fences rests on the nodes' clocks. 600,000.
   */
  fenceTtl?: number | undefined;
  /**
   * The name of the set that the nodes form: 1 to 64 printable ASCII characters without blanks. Nodes of another set are
   * refused with `MisconfiguredError`. `default`.
   */
  setName?: string | undefined;
  /**
   * Whether a node that may have lost its memory gives no vote until every vote that it may have given is over, which is
   * after `maxTtl`; the same for all clients of a set. `"auto"` is on for three nodes and more, and where a node fails over
   * to another server, and lets a wholly new set vote at once (see `client.initSet()`); with `"on"` that waits, too; with
   * `"off"` a node that restarts without its data may give a lock to a second holder. `"auto"`.
   */
  restartGuard?: "auto" | "on" | "off" | undefined;
  /**
   * Accepts servers that drop keys when they are full: with them a lock may vanish under its holder. Without, such a
   * server is refused with `MisconfiguredError`. False.
   */
  acceptEviction?: boolean | undefined;
  /**
   * How many replicas of a node must have a vote before it counts, 0 to 16. With as many as the node has, a failover loses
   * no vote, and a master that is cut off from them gives none; a replica that hangs holds up every request to its master
   * for half of `nodeTimeout`. 0.
   */
  waitReplicas?: number | undefined;
  /** Certificates that vouch for `rediss://` nodes: the path of a PEM file, or its text. */
  ca?: string | Uint8Array | undefined;
  /** The client's own certificate, in the same way. */
  cert?: string | Uint8Array | undefined;
  /** The key of the client's certificate, in the same way. */
  key?: string | Uint8Array | undefined;
}

/**
 * Options of an election: those of a lock. Where they are not given a candidate waits without end, in the line on the nodes
 * (`fair`), and a term is renewed and has no `maxHold`, whatever the client's defaults are.
 */
export interface ElectionOptions extends Omit<LockOptions, "owner" | "shared" | "slots"> {}

/** How `election.run` goes on, and whom it tells. */
export interface RunOptions {
  /** Whether it campaigns again after work that ended well. False. */
  again?: boolean | undefined;
  /**
   * Called at the loss of a term, before its signal aborts: stop now, for somebody else may lead. What it throws is an
   * uncaught exception.
   */
  onLost?: ((reason: LossReason) => void) | undefined;
  /**
   * Called when the work of a term has settled, whatever ended it: from here on this candidate does nothing of it any more.
   * What it throws is an uncaught exception.
   */
  onStopped?: (() => void) | undefined;
  /** Ends it: the work is told by the signal of its term and waited for, and `run` rejects with the reason of this one. */
  signal?: AbortSignal | undefined;
}

/** How who leads is followed. */
export interface ObserveOptions {
  /** The time between two looks, in milliseconds; more than 0. 1,000. */
  every?: number | undefined;
  /** Ends it: the iterator then throws the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** What a forced release is told. */
export interface ForceOptions {
  /**
   * Only from the hold that has it, so that whoever has got the lock since is never hit. That of the lease that is to go, or what
   * `inspect` tells of the holder.
   */
  fence?: number | undefined;
  /** Of a semaphore this slot alone, counted from 0, to which a fence belongs then. Without, all slots. */
  slot?: number | undefined;
}

/** How long `waitUntilFree` waits. */
export interface WaitOptions {
  /** In milliseconds: 0 looks once, `null` or `Infinity` waits forever. Forever. */
  wait?: number | null | undefined;
}

type Convert = (name: string, value: unknown) => unknown;

/** The longest number that is shown, as text: no longer one is meant. And the longest where a secret may stand. */
const [DIGITS, SHORT] = [24, 5];

/**
 * A value that was given for an option, for a message. What may be or hold the URL of a node, and with it a password, is named
 * by its type alone: that is whatever is no text, number or flag. Of a text the core says what is shown.
 */
function given(name: string, value: unknown): string {
  if (value === null) return "null";
  switch (typeof value) {
    case "string": {
      const shown = native.given(name, value);
      // As JavaScript writes it.
      return shown.startsWith("`") ? inspect(value) : shown;
    }
    case "object":
      return Array.isArray(value) ? "an array" : "an object";
    case "function":
    case "symbol":
      return `a ${typeof value}`;
    case "bigint":
    case "number": {
      const text = typeof value === "bigint" ? `${value}n` : String(value);
      return text.length > (native.isSecret(name) ? SHORT : DIGITS) ? `a ${typeof value}` : text;
    }
    default:
      return String(value);
  }
}

/** Names of options that other libraries have, and those of ours elsewhere: no secret is one of them. */
const KNOWN = new Set(
  (
    "client cluster connection connections db duration events fence force forced host hostname interval key lifetime log name node " +
    "onError onLost owner password port reentrant retries retry retryCount retryDelay shared signal slots socket timeout tls token " +
    "tries url urls user username otherwise every again observe onStopped"
  ).split(" "),
);

/** Whether the two differ in no more than two letters: then one is the other, misspelt. */
function alike(one: string, other: string): boolean {
  if (Math.abs(one.length - other.length) > 2) return false;
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++) {
      const same = one[i - 1] === other[j - 1] ? 0 : 1;
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + same));
    }
    row = next;
  }
  return row[other.length]! <= 2;
}

/** An option that there is not. Its name is shown where it is one that is meant, or nearly: it may be a URL with its password. */
function unknown(name: string, tables: Record<string, Convert>[]): Error {
  const lower = name.toLowerCase();
  // Or one of those that stand elsewhere.
  const all = [...tables, OF_CLIENT, OF_LOCK, OF_ONE_LOCK];
  const known = () => all.some((table) => Object.keys(table).some((option) => alike(lower, option.toLowerCase())));
  const meant = KNOWN.has(name) || (name.length <= 32 && (/^\w{1,5}$/.test(name) || (/^\w+$/.test(name) && known())));
  return invalid(meant ? `there is no option '${name}' here` : "there is no option of that name here");
}

function wrong(name: string, value: unknown, want: string): Error {
  return invalid(`${name} is ${given(name, value)}: give ${want}`);
}

const number =
  (want: string): Convert =>
  (name, value) => {
    if (typeof value !== "number") throw wrong(name, value, want);
    return value;
  };

const milliseconds = number("a time in milliseconds");
const fraction = number("a fraction");

/** A number of things, as the native part counts them. */
const count: Convert = (name, value) => {
  const most = 2 ** 31 - 1;
  if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > most) {
    throw wrong(name, value, `an integer, 0 to ${most}`);
  }
  return value;
};

/** A fence: which of them there may be, the core knows. */
const fence: Convert = (name, value) => {
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw wrong(name, value, "one that a lease had, 1 to 2^53 - 1");
  return value;
};

const slot: Convert = (name, value) => {
  const isSlot = Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 32;
  if (!isSlot) throw wrong(name, value, "the number of one, from 0 on");
  return value;
};

const limit: Convert = (name, value) => (value === null ? Infinity : milliseconds(name, value));

const flag: Convert = (name, value) => {
  if (typeof value !== "boolean") throw wrong(name, value, "true or false");
  return value;
};

const string =
  (want: string): Convert =>
  (name, value) => {
    if (typeof value !== "string") throw wrong(name, value, want);
    return value;
  };

const text = string("a string");

const pem: Convert = (name, value) => {
  if (types.isUint8Array(value)) return Buffer.from(value).toString();
  if (typeof value !== "string") throw wrong(name, value, "the path of a PEM file, or its text");
  return value;
};

const urls: Convert = (name, value) => {
  if (typeof value === "string") return value.split(/[\s,]+/).filter((url) => url !== "");
  if (typeof value !== "object" || value === null || !(Symbol.iterator in value)) {
    throw wrong(name, value, "a list of URLs");
  }
  const found: string[] = [];
  for (const url of value as Iterable<unknown>) {
    // The core says how many make sense; an iterable may have no end.
    if (found.length === 1000) throw wrong(name, value, "a list of URLs that ends");
    found.push(text("a node", url) as string);
  }
  return found;
};

/** A name. Bytes are copied: what is done to them later changes no lock. */
export const nameOf = (name: string, value: unknown): Name => {
  if (types.isUint8Array(value)) return Uint8Array.from(value);
  if (typeof value !== "string") throw wrong(name, value, "a string or a Uint8Array");
  // Every lone surrogate would become the same bytes, and two names the same key.
  if (!value.isWellFormed()) throw wrong(name, value, "well-formed text, or bytes");
  return value;
};

/** Names, one or more. Which may go together, the core knows. */
export function namesOf(name: string, value: unknown): Name[] {
  if (!Array.isArray(value)) throw wrong(name, value, "an array of names");
  return value.map((one) => nameOf("a name", one));
}

/** The name again: whoever changes its bytes does not change those of the other. */
export const ownCopy = (name: Name): Name => (typeof name === "string" ? name : Uint8Array.from(name));

export const bytesOf = (name: Name): Uint8Array => (typeof name === "string" ? Buffer.from(name) : name);

const octets: Convert = (name, value) => bytesOf(nameOf(name, value));

const OF_LOCK: Record<string, Convert> = {
  ttl: milliseconds,
  wait: limit,
  renew: flag,
  maxHold: limit,
  raw: flag,
  fencing: flag,
  maxWaiters: count,
  fair: flag,
  keep: milliseconds,
  layout: string('"plain" or "redisson"'),
  group: text,
  label: text,
};

const OF_CLIENT: Record<string, Convert> = {
  nodes: urls,
  maxTtl: milliseconds,
  nodeTimeout: milliseconds,
  connectTimeout: milliseconds,
  drift: fraction,
  minValidity: fraction,
  namespace: text,
  fenceTtl: milliseconds,
  setName: text,
  // Which words there are, the core knows.
  restartGuard: string('"auto", "on" or "off"'),
  acceptEviction: flag,
  waitReplicas: count,
  ca: pem,
  cert: pem,
  key: pem,
};

function converted(what: string, given: unknown, ...tables: Record<string, Convert>[]): Record<string, unknown>[] {
  if (typeof given !== "object" || given === null) throw wrong(what, given, "an object");
  const found: Record<string, unknown>[] = tables.map(() => ({}));
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    const i = tables.findIndex((table) => Object.hasOwn(table, name));
    // A misspelt option would silently be its default.
    if (i < 0) throw unknown(name, tables);
    found[i]![name] = tables[i]![name]!(name, value);
  }
  return found;
}

/** What a client does not say for its locks. */
const OF_ONE_LOCK: Record<string, Convert> = { shared: flag, slots: count, owner: octets };

export function lockOptions(given: unknown): NativeLockOptions {
  // The period of `once` comes here with what that was given.
  return converted("options", given, { every: milliseconds, ...OF_LOCK, ...OF_ONE_LOCK })[0] as NativeLockOptions;
}

/** Options of an election: of its lock, without an owner, so that nobody enters a term again. */
export function electionOptions(given: unknown): NativeLockOptions {
  return { ...converted("options", given, OF_LOCK)[0], election: true } as NativeLockOptions;
}

const callback: Convert = (name, value) => {
  if (typeof value !== "function") throw wrong(name, value, "a function");
  if (types.isGeneratorFunction(value)) throw wrong(name, value, "a function that is no generator");
  return value;
};

const signal: Convert = (_name, value) => abortSignal(value);

export function runOptions(given: unknown): RunOptions {
  return converted("options", given, { again: flag, onLost: callback, onStopped: callback, signal })[0] as RunOptions;
}

export function observeOptions(given: unknown): ObserveOptions {
  return converted("options", given, { every: milliseconds, signal })[0] as ObserveOptions;
}

/**
 * The variables of Quorlock, as this thread's `process.env` has them: a worker, and a test of Jest, may have one of its own. The core
 * reads those whose options are not given. What is not UTF-8 has replacement characters by then, which it refuses.
 */
export function environment(): [string, string][] {
  const ours = Object.entries(process.env).filter(([name]) => name.startsWith("QUORLOCK_"));
  return ours.map(([name, value]): [string, string] => [name, String(value ?? "")]).sort();
}

export function clientOptions(given: unknown): [NativeClientOptions, NativeLockOptions] {
  const [ofClient, ofLock] = converted("options", given, OF_CLIENT, OF_LOCK);
  return [{ ...ofClient, environment: environment() } as NativeClientOptions, ofLock as NativeLockOptions];
}

export function forceOptions(given: unknown): ForceOptions {
  return converted("options", given, { fence, slot })[0] as ForceOptions;
}

/** In milliseconds; `Infinity` for a wait without end. */
export function waitOptions(given: unknown): number {
  return (converted("options", given, { wait: limit })[0] as { wait?: number }).wait ?? Infinity;
}

/** Options of what has a body: of its lock, of its client, and its own. */
export type ScopeOptions = [
  NativeLockOptions,
  NativeClientOptions,
  { client?: unknown; signal?: unknown; reentrant?: boolean; otherwise?: unknown },
];

const asGiven: Convert = (_name, value) => value;
const OF_SCOPE: Record<string, Convert> = { client: asGiven, signal: asGiven, reentrant: flag };

/** Options of `redlock`. */
export function scopeOptions(given: unknown, ofScope = OF_SCOPE): ScopeOptions {
  return converted("options", given, { ...OF_LOCK, ...OF_ONE_LOCK }, OF_CLIENT, ofScope) as unknown as ScopeOptions;
}

/** Those of work that may be left out. */
export function attemptOptions(given: unknown): ScopeOptions {
  return scopeOptions(given, { ...OF_SCOPE, otherwise: callback });
}

/** Options of `once`: its period is an option of its lock. */
export function onceOptions(given: unknown): ScopeOptions {
  const { every, ...rest } = (typeof given === "object" && given !== null ? given : {}) as Record<string, unknown>;
  for (const name of ["wait", "owner", "reentrant"]) {
    if (rest[name] !== undefined) throw invalid(`there is no option '${name}' here: a job runs once, or is left out at once`);
  }
  if (every === undefined) throw invalid("once was not told how often the job runs: give every, in milliseconds");
  const [ofLock, ofClient, own] = attemptOptions(rest);
  // It tries once.
  return [{ every: milliseconds("every", every) as number, ...ofLock, wait: 0 }, ofClient, own];
}

export interface InitOptions {
  /**
   * Lifts the quarantine of the set's nodes, or founds the set without one: two may then hold a lock that was held within
   * the last `maxTtl`. Only where you know that no lock is held. False.
   */
  force?: boolean | undefined;
}

export function initOptions(given: unknown): { force: boolean } {
  const [options] = converted("options", given, { force: flag });
  return { force: false, ...options };
}

export interface AcquireOptions {
  /** How long to wait, for this call alone: 0 tries once, `null` or `Infinity` waits forever. */
  wait?: number | null | undefined;
  /** The label of the lease that this call wins, in place of the lock's. */
  label?: string | undefined;
  /** Ends the wait. The call then rejects with the signal's reason and leaves no key behind. */
  signal?: AbortSignal | undefined;
}

export interface Acquiring {
  wait?: number | undefined;
  label?: string | undefined;
  signal?: AbortSignal | undefined;
}

export function acquireOptions(given: unknown): Acquiring {
  const [options] = converted("options", given, { wait: limit, label: text, signal });
  return options as Acquiring;
}

/** The options of a lock for one call, which may have a label of its own. */
export function labelled(options: NativeLockOptions | undefined, { label }: Acquiring): NativeLockOptions | undefined {
  return label === undefined ? options : { ...options, label };
}

export function abortSignal(value: unknown): AbortSignal {
  // By what it can do: it may come from another realm or a polyfill.
  const signal = value as AbortSignal | null | undefined;
  if (typeof signal?.aborted === "boolean" && typeof signal.addEventListener === "function") return signal;
  throw wrong("signal", value, "an AbortSignal");
}
