/** Options: what a user may give, and what the native part gets. */

import { inspect, types } from "node:util";

import { native, type NativeClientOptions, type NativeLockOptions } from "./binding.js";
import { invalid } from "./errors.js";
import type { LossReason } from "./loss.js";

/** Text, or bytes that need not be text. */
export type Name = string | Uint8Array;

/** Options of a lock; a client's are the defaults of its locks. All times are in milliseconds. */
export interface LockOptions {
  // Made from core/options.toml: options of a lock.
  /**
   * Auto-release time on the nodes: how long the lock outlives a crashed holder. A part of a millisecond is rounded up.
   * Less than 10,000 ms by default where `maxTtl` or `maxHold` is less. 10 ms to `maxTtl`. Default: 10,000 ms.
   */
  ttl?: number | undefined;
  /**
   * How long an acquire waits: zero tries once, no limit waits forever. At the end answers that are under way are awaited
   * where they decide, at most for another `nodeTimeout`. No limit: `null` or `Infinity`. Default: 10,000 ms.
   */
  wait?: number | null | undefined;
  /** Whether the lease is renewed until it is released. Without, it ends after the `ttl`, unless extended. Default: `true`. */
  renew?: boolean | undefined;
  /**
   * The longest life of a lease, renewed or not. By default the `ttl`, where that is longer than 3,600,000 ms. No limit:
   * `null` or `Infinity`. At least `ttl`. Default: 3,600,000 ms.
   */
  maxHold?: number | null | undefined;
  /**
   * Whether the key on the nodes is the name itself, so that other Redlock libraries and Quorlock exclude each other. Not
   * with `shared` nor `slots`. Default: `false`.
   */
  raw?: boolean | undefined;
  /**
   * How the lock is stored on the nodes: as Quorlock's own, or as one lock with Redisson's `RLock` of that name. In
   * Redisson's layout the key is the name, a named `owner` is one in all processes and in Java, and waiters are not queued
   * on the nodes. Both wake each other, and their fences are of one order with those of `RFencedLock`. Such a lease is not
   * exported. Not with `shared`, `slots` nor `keep`. Default: `plain`.
   */
  layout?: "plain" | "redisson" | undefined;
  /**
   * Text that is stored with the token of a lease, which names the holder. Without control characters; empty for none. An
   * acquire that enters a lease again leaves that lease's label as it is. What is `raw`, or in Redisson's layout, has no
   * label. At most 256 bytes. Default: `host:pid`.
   */
  label?: string | undefined;
  /** Whether leases have a fence. Without, one key less is written on each node. Default: `true`. */
  fencing?: boolean | undefined;
  /**
   * How many calls of the client may wait for the lock in a line, behind the one that asks the nodes or holds it; one more
   * gets `TooManyWaitersError` at once. With 0 no call waits behind another. Default: 10,000.
   */
  maxWaiters?: number | undefined;
  /**
   * Whether every release goes over the nodes, where the waiters of all clients queue in their order. Without, a lease may
   * be passed on to the next in line of this client, up to 16 times in a row. Default: `false`.
   */
  fair?: boolean | undefined;
  /**
   * For how long the lock stays taken after it was won, also when it is released before: so that a job which every host
   * starts at about the same time runs once. Counted on this client's clock, and kept by the nodes that the release
   * reaches; a lease that is lost, or whose process dies, leaves the lock to its `ttl`. At most `maxTtl`. Not with
   * `layout`, `shared` nor `confirm` off. Default: 0.
   */
  keep?: number | undefined;
  /**
   * The lock's group in metrics, which never name locks: a word for all of a kind, such as `orders`. The process keeps 64
   * groups; those that come later are counted as `other`. At most 64 bytes. Default: empty.
   */
  group?: string | undefined;
  /**
   * Whether the lease is one of many that share the lock: readers, which a lease that is not shared keeps out, and which
   * keep that out. A reader that asks while a writer waits is served after that writer. The fence of a shared lease is
   * above that of each lease before it that was not shared, and below that of each such lease after it; among readers it
   * says nothing. An owner that shares the lock and asks for it alone gets `WouldDeadlockError` at once. Not with `raw`,
   * `layout`, `keep`, `slots` nor `acceptEviction`. Default: `false`.
   */
  shared?: boolean | undefined;
  /**
   * Makes it a semaphore of this many slots: no more of them are held at once. Every client of the semaphore asks for as
   * many slots: the largest number in use is the limit. A lock of that name is another matter. 1 to 128. Not with `raw`,
   * `shared`, `layout` nor `once`.
   */
  slots?: number | undefined;
  /**
   * The owner of leases, by a name that is valid within the client: it enters its lease again. An acquire that gives the
   * same name, in any thread but with the same client, enters the lock again. What is acquired by hand without an owner is
   * bound to no thread, and a second acquire waits for it as for a stranger's.
   */
  owner?: Name | undefined;
  /**
   * Whether a release waits until a quorum of the nodes has carried it out. Without, it returns at once, and says whether
   * the lease was valid here until then; the nodes hear of it all the same. A call of release may say otherwise. Off, not
   * with `keep`. Default: `true`.
   */
  confirm?: boolean | undefined;
  // End of what is made.
}

/** Options of a client. Those of locks are the defaults of its locks. */
// Made from core/options.toml: ClientOptions.
export interface ClientOptions extends Omit<LockOptions, "shared" | "slots" | "owner" | "confirm"> {
  /**
   * The nodes of the set, by their URLs: a list, or one text with commas. Each is
   * `redis://[user:password@]host[:port][/db]`, `rediss://` for TLS, `valkey://` and `valkeys://` likewise,
   * `redis+unix:///path?db=1&user=u&password=p`, `redis+sentinel://host:26379;host;host/master` for a master with replicas
   * that sentinels know by that name, `redis+cluster://host:6379;host` for a Redis Cluster, or `memory://name` for a node
   * in this process. Default: what `QUORLOCK_NODES` of the environment says, else `redis://127.0.0.1:6379`.
   */
  nodes?: string | Iterable<string> | undefined;
  /**
   * The longest `ttl` of any lock of the set, and so how long a node that may have lost its memory gives no vote. The same
   * for all clients of a set. 10 ms to 86,400,000 ms. Default: what `QUORLOCK_MAX_TTL` of the environment says, else
   * 60,000 ms.
   */
  maxTtl?: number | undefined;
  /**
   * Time for one request to one node: connect, queue, write and reply; at most a quarter of a lock's `ttl`. A hung node
   * costs no latency, for rounds end at the quorum. 1 ms to 60,000 ms. Default: what `QUORLOCK_NODE_TIMEOUT` of the
   * environment says, else 250 ms.
   */
  nodeTimeout?: number | undefined;
  /**
   * Time for a connection to a node to be made: name, TCP, TLS, and what the node is asked before it may vote. Calls that
   * ask once wait for the first connections as long, until a quorum of nodes is connected. 1 ms to 60,000 ms. Default:
   * what `QUORLOCK_CONNECT_TIMEOUT` of the environment says, else 2,000 ms.
   */
  connectTimeout?: number | undefined;
  /**
   * Bound on the difference of clock rates, as a fraction: validity is the `ttl` less this part of it and 2 ms. 0.001 to
   * 0.5. Default: 0.01.
   */
  drift?: number | undefined;
  /** The fraction of the `ttl` that must be left when a lease is won. 0 to 0.9. Default: 0.1. */
  minValidity?: number | undefined;
  /**
   * Prefix of every key. It has at least one byte, and no braces. At most 256 bytes. Default: what `QUORLOCK_NAMESPACE` of
   * the environment says, else `lock:`.
   */
  namespace?: string | undefined;
  /**
   * How long a lock's counter of fences lives after its last use; at least twice `maxTtl`. After that the order of fences
   * rests on the nodes' clocks. By default twice `maxTtl`, where that is longer than 600,000 ms. Default: 600,000 ms.
   */
  fenceTtl?: number | undefined;
  /**
   * The name of the set that the nodes form: 1 to 64 printable ASCII characters without blanks. Nodes of another set are
   * refused. The same for all clients of a set. Default: what `QUORLOCK_SET_NAME` of the environment says, else `default`.
   */
  setName?: string | undefined;
  /**
   * Whether a node that may have lost its memory gives no vote until every vote that it may have given is over, which is
   * after `maxTtl`. The same for all clients of a set. `auto` is on for three nodes and more, and where a node fails over
   * to another server. With `on` a wholly new set waits, too; with `off` a node that restarts without its data may give a
   * lock to a second holder. Default: what `QUORLOCK_RESTART_GUARD` of the environment says, else `auto`.
   */
  restartGuard?: "auto" | "on" | "off" | undefined;
  /**
   * Whether servers are accepted that drop keys when they are full: with them a lock may vanish under its holder. Without,
   * such a server is refused with `MisconfiguredError`. Default: what `QUORLOCK_ACCEPT_EVICTION` of the environment says,
   * else `false`.
   */
  acceptEviction?: boolean | undefined;
  /**
   * How many replicas of a node must have a vote before it counts. With as many as the node has, a master that is cut off
   * from them gives no votes, and a failover loses none. A replica that hangs holds up every request to its master for
   * half of `nodeTimeout`, and the votes that it misses do not count. 0 to 16. Default: what `QUORLOCK_WAIT_REPLICAS` of
   * the environment says, else 0.
   */
  waitReplicas?: number | undefined;
  /**
   * Certificates that vouch for `rediss://` nodes, in place of the system's: the path of a PEM file, or its text. Default:
   * what `QUORLOCK_CA` of the environment says.
   */
  ca?: string | Uint8Array | undefined;
  /**
   * The client's certificate: the path of a PEM file, or its text. Goes with `key`. Default: what `QUORLOCK_CERT` of the
   * environment says.
   */
  cert?: string | Uint8Array | undefined;
  /**
   * The key of the client's certificate: the path of a PEM file, or its text. Default: what `QUORLOCK_KEY` of the
   * environment says.
   */
  key?: string | Uint8Array | undefined;
}
// End of what is made.

/**
 * Options of an election: those of a lock. Where they are not given a candidate waits without end, in the line on the nodes
 * (`fair`), and a term is renewed and has no `maxHold`, whatever the client's defaults are.
 */
// Made from core/options.toml: ElectionOptions.
export interface ElectionOptions extends Omit<LockOptions, "shared" | "slots" | "owner" | "confirm"> {}
// End of what is made.

/** Options of a semaphore: those of a lock that go with slots. */
// Made from core/options.toml: SemaphoreOptions.
export interface SemaphoreOptions extends Omit<LockOptions, "raw" | "layout" | "shared" | "slots"> {}
// End of what is made.

/** Options of several locks that are held together. */
// Made from core/options.toml: SeveralOptions.
export interface SeveralOptions extends LockOptions {}
// End of what is made.

/** Options of a lock whose two modes are at hand. */
// Made from core/options.toml: RWLockOptions.
export interface RWLockOptions extends Omit<LockOptions, "raw" | "layout" | "keep" | "shared" | "slots"> {}
// End of what is made.

/** The options of a lock that others do not have. */
export type NotOf<Options> = Exclude<keyof LockOptions, keyof Options>;

/** How `election.run` goes on, and whom it tells. */
export interface RunOptions {
  /** Whether it campaigns again after work that ended well. False. */
  again?: boolean | undefined;
  /**
   * Called at the loss of a term, before its signal aborts: stop now, for another candidate may lead. What it throws is an
   * uncaught exception.
   */
  onLost?: ((reason: LossReason) => void) | undefined;
  /**
   * Called when the work of a term has settled, whatever ended it: from here on this candidate does nothing of it any more.
   * What it throws is an uncaught exception.
   */
  onStopped?: (() => void) | undefined;
  /** Ends it: the work is stopped by the signal of its term and waited for, and `run` rejects with the reason of this one. */
  signal?: AbortSignal | undefined;
}

/** How who leads is followed. */
export interface ObserveOptions {
  /** The time between two looks, in milliseconds; more than 0. 1,000. */
  every?: number | undefined;
  /** Ends it: the iterator then throws the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** Options of a forced release. */
export interface ForceOptions {
  /**
   * Only from the hold that has it, so that a holder that has got the lock since is never hit. That of the lease that is to go, or what
   * `inspect` tells of the holder.
   */
  fence?: number | undefined;
  /** Of a semaphore this slot alone, counted from 0, to which a fence belongs then. Without, all slots. */
  slot?: number | undefined;
}

/** Options of one release. */
export interface ReleaseOptions {
  /**
   * Whether it waits until a quorum of the nodes has carried it out. With `false` it waits for no answer, and tells whether the lease was
   * valid here until now. By default as the lock's `confirm` says.
   */
  confirm?: boolean | undefined;
}

/** How long `waitUntilFree` waits. */
export interface WaitOptions {
  /** In milliseconds: 0 looks once, `null` or `Infinity` waits forever. Forever. */
  wait?: number | null | undefined;
}

type Convert = (name: string, value: unknown) => unknown;
type Table = Readonly<Record<string, Convert>>;

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

/** Names of options that other libraries have, and what else has a name here: no secret is one of them. */
const KNOWN =
  "again cluster connection connections db duration events fence force forced host hostname interval lifetime log name node observe onError " +
  "onLost onStopped password port retries retry retryCount retryDelay slot socket timeout tls token tries url urls user username";

/** By how many letters the two differ, where two that have changed places are one. */
function distance(one: string, other: string): number {
  let [before, row] = [[] as number[], Array.from({ length: other.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++) {
      const same = one[i - 1] === other[j - 1] ? 0 : 1;
      const swapped = i > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + same, swapped ? before[j - 2]! + 1 : Infinity));
    }
    [before, row] = [row, next];
  }
  return row[other.length]!;
}

/** An option that there is not. Its name is shown where it is one that is meant, or nearly: it may be a URL with its password. */
function unknown(name: string, tables: Table[]): Error {
  const far = (option: string) => distance(name.toLowerCase(), option.toLowerCase());
  const options = (of: Table[]) => of.flatMap((table) => Object.keys(table));
  const places = [[OF_ANY_LOCK, "a lock"], [OF_CLIENT, "a client"], [OF_ATTEMPT, "redlock"], [OF_ONCE, "once"]] as const;
  const elsewhere = places.find(([table]) => Object.hasOwn(table, name));
  const known = () => options([...tables, ...places.map(([table]) => table)]).some((option) => far(option) <= 2);
  const short = name.length <= 32 && (/^\w{1,5}$/.test(name) || (/^\w+$/.test(name) && known()));
  if (elsewhere === undefined && !KNOWN.split(" ").includes(name) && !short) return invalid("there is no option of that name here");
  const [nearest] = options(tables).sort((one, other) => far(one) - far(other));
  const isNear = nearest !== undefined && far(nearest) <= Math.min(2, Math.floor(name.length / 3));
  const near = isNear ? `: did you mean '${nearest}'?` : "";
  return invalid(`there is no option '${name}' here${elsewhere === undefined ? near : `: it is one of ${elsewhere[1]}`}`);
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

/** A number of things, as the native part counts them: how many there may be, the core knows. */
const count =
  (least: number, most: number): Convert =>
  (name, value) => {
    const isCount = Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 31;
    if (!isCount) throw wrong(name, value, `an integer, ${least} to ${most}`);
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
    // Which words there are, the core knows.
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

/** The name again, with bytes of its own: a change of either leaves the other as it is. */
export const ownCopy = (name: Name): Name => (typeof name === "string" ? name : Uint8Array.from(name));

export const bytesOf = (name: Name): Uint8Array => (typeof name === "string" ? Buffer.from(name) : name);

const octets: Convert = (name, value) => bytesOf(nameOf(name, value));
const asGiven: Convert = (_name, value) => value;
const signal: Convert = (_name, value) => abortSignal(value);

const callback: Convert = (name, value) => {
  if (typeof value !== "function") throw wrong(name, value, "a function");
  if (types.isGeneratorFunction(value)) throw wrong(name, value, "a function that is no generator");
  return value;
};

// Made from core/options.toml: tables of converters.
const OF_LOCK: Record<string, Convert> = {
  ttl: milliseconds,
  wait: limit,
  renew: flag,
  maxHold: limit,
  raw: flag,
  layout: string('"plain" or "redisson"'),
  label: text,
  fencing: flag,
  maxWaiters: count(0, 2147483647),
  fair: flag,
  keep: milliseconds,
  group: text,
};

const OF_ONE_LOCK: Record<string, Convert> = {
  shared: flag,
  slots: count(1, 128),
  owner: octets,
  confirm: flag,
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
  restartGuard: string('"auto", "on" or "off"'),
  acceptEviction: flag,
  waitReplicas: count(0, 16),
  ca: pem,
  cert: pem,
  key: pem,
};

const OF_CALL: Record<string, Convert> = {
  reentrant: flag,
};

const OF_ONCE: Record<string, Convert> = {
  every: milliseconds,
};

const OF_ACQUIRE: Record<string, Convert> = {
  wait: limit,
  label: text,
};

const NOT_OF = {
  once: ["wait", "layout", "shared", "slots", "owner", "confirm", "reentrant"],
  election: ["shared", "slots", "owner", "confirm", "reentrant"],
  semaphore: ["raw", "layout", "shared", "slots"],
  several: [] as readonly string[],
  rwlock: ["raw", "layout", "keep", "shared", "slots"],
};
// End of what is made.

const OF_ANY_LOCK: Table = { ...OF_LOCK, ...OF_ONE_LOCK };
const OF_SCOPE: Table = { client: asGiven, signal: asGiven, ...OF_CALL };
const OF_ATTEMPT: Table = { ...OF_SCOPE, otherwise: callback };
const OF_ASKING: Table = { ...OF_ACQUIRE, signal };

/** What a table has for a place. */
function without(place: keyof typeof NOT_OF, table: Table): Table {
  return Object.fromEntries(Object.entries(table).filter(([name]) => !NOT_OF[place].includes(name)));
}

type Place = "lock" | keyof typeof NOT_OF;
/** The options of a lock that may be given in a place, and those of a job: made when they are first looked at. */
const byPlace: { [place in Place | "job"]?: Table } = { lock: OF_ANY_LOCK };
const of = (place: Place): Table =>
  // Its period is an option of its lock.
  (byPlace[place] ??= without(place as keyof typeof NOT_OF, place === "once" ? { ...OF_ONCE, ...OF_ANY_LOCK } : OF_ANY_LOCK));

function converted(what: string, given: unknown, ...tables: Table[]): Record<string, unknown>[] {
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

export function lockOptions(given: unknown, place: Place = "lock"): NativeLockOptions {
  return converted("options", given, of(place))[0] as NativeLockOptions;
}

/** Options of a semaphore, with what stands before them. */
export function semaphoreOptions(slots: unknown, given: unknown): NativeLockOptions {
  return { ...lockOptions(given ?? {}, "semaphore"), ...slotsOf(slots) };
}

const slotsOf = (slots: unknown) => ({ slots: OF_ONE_LOCK["slots"]!("slots", slots) as number });

/** Options of an election: of its lock, without an owner, so that no caller enters a term again. */
export function electionOptions(given: unknown): NativeLockOptions {
  return { ...lockOptions(given, "election"), election: true };
}

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

export function releaseOptions(given: unknown): ReleaseOptions {
  return converted("options", given, { confirm: flag })[0] as ReleaseOptions;
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

/** Options of `redlock`, for one lock or several. */
export function scopeOptions(given: unknown, place: "lock" | "several"): ScopeOptions {
  return converted("options", given, of(place), OF_CLIENT, OF_SCOPE) as unknown as ScopeOptions;
}

/** Those of a call that has a slot. */
export function slotOptions(slots: unknown, given: unknown): ScopeOptions {
  const [ofLock, ...others] = converted("options", given ?? {}, of("semaphore"), OF_CLIENT, OF_SCOPE) as unknown as ScopeOptions;
  return [{ ...ofLock, ...slotsOf(slots) }, ...others];
}

/** Those of work that may be left out. */
export function attemptOptions(given: unknown, place: "lock" | "several"): ScopeOptions {
  const [ofLock, ...others] = converted("options", given, of(place), OF_CLIENT, OF_ATTEMPT) as unknown as ScopeOptions;
  return [{ wait: 0, ...ofLock }, ...others];
}

/** Options of `once`. */
export function onceOptions(given: unknown): ScopeOptions {
  const job = (byPlace.job ??= without("once", OF_ATTEMPT));
  const [ofLock, ...others] = converted("options", given ?? {}, of("once"), OF_CLIENT, job) as unknown as ScopeOptions;
  if (ofLock.every === undefined) throw invalid("once was not told how often the job runs: give every, in milliseconds");
  // It tries once.
  return [{ ...ofLock, wait: 0 }, ...others];
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

/** Options of one call, in place of the lock's. */
export interface AcquireOptions {
  // Made from core/options.toml: options of an acquire.
  /**
   * How long an acquire waits: zero tries once, no limit waits forever. At the end answers that are under way are awaited
   * where they decide, at most for another `nodeTimeout`. No limit: `null` or `Infinity`.
   */
  wait?: number | null | undefined;
  /**
   * Text that is stored with the token of a lease, which names the holder. Without control characters; empty for none. An
   * acquire that enters a lease again leaves that lease's label as it is. What is `raw`, or in Redisson's layout, has no
   * label. At most 256 bytes.
   */
  label?: string | undefined;
  // End of what is made.
  /** Ends the wait. The call then rejects with the signal's reason and leaves no key behind. */
  signal?: AbortSignal | undefined;
}

export interface AcquireRequest {
  wait?: number | undefined;
  label?: string | undefined;
  signal?: AbortSignal | undefined;
}

export function acquireOptions(given: unknown): AcquireRequest {
  const [options] = converted("options", given, OF_ASKING);
  return options as AcquireRequest;
}

/** The options of a lock for one call, which may have a label of its own. */
export function labelled(options: NativeLockOptions | undefined, { label }: AcquireRequest): NativeLockOptions | undefined {
  return label === undefined ? options : { ...options, label };
}

export function abortSignal(value: unknown): AbortSignal {
  // By what it can do: it may come from another realm or a polyfill.
  const signal = value as AbortSignal | null | undefined;
  if (typeof signal?.aborted === "boolean" && typeof signal.addEventListener === "function") return signal;
  throw wrong("signal", value, "an AbortSignal");
}
