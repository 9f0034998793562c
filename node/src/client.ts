/** The client: a configured set, and what runs for it. */

import { inspect } from "node:util";

import { native, type NativeClient, type NativeLockOptions } from "./binding.js";
import { asyncDispose } from "./dispose.js";
import { checked, invalid, look, toError } from "./errors.js";
import { newElection, type Election } from "./election.js";
import { Events } from "./events.js";
import type { Forced, Inspection } from "./inspection.js";
import { adoptedLease, type Lease } from "./lease.js";
import { newLock, type Lock } from "./lock.js";
import { newLocks, type Locks } from "./locks.js";
import { tellLog } from "./log.js";
import {
  clientOptions,
  electionOptions,
  initOptions,
  lockOptions,
  semaphoreOptions,
  nameOf,
  namesOf,
  type ClientOptions,
  type ElectionOptions,
  type ForceOptions,
  type InitOptions,
  type LockOptions,
  type Name,
  type RWLockOptions,
  type SemaphoreOptions,
  type SeveralOptions,
} from "./options.js";
import { know } from "./owner.js";
import { begin, port, valueOf } from "./port.js";
import type { Probe } from "./probe.js";
import { knowSelf, self } from "./self.js";

/** Counts of a client since it was made. */
export interface Stats {
  // Made from core/vocabulary.toml: counts.
  /** Leases won. */
  readonly acquired: number;
  /** Acquisitions that were re-entries. */
  readonly reentered: number;
  /** Attempts that did not win, each undone. */
  readonly attemptsLost: number;
  /** Rounds that a node's timeout decided: no quorum had answered before. */
  readonly timeoutsAwaited: number;
  /** Leases released while held. */
  readonly released: number;
  /** Leases lost. */
  readonly lost: number;
  /** Votes renewed. */
  readonly renewals: number;
  /** Votes that were missing and have been stored anew. */
  readonly repairs: number;
  /** Releases that nodes have not acknowledged yet. Falls too. */
  readonly releasesPending: number;
  /** Steps seen of nodes' clocks. */
  readonly clockSteps: number;
  /** Fences written back to a node because the votes disagreed. */
  readonly writeBacks: number;
  /** Releases given up because too many waited for a node; their keys end by themselves. */
  readonly releasesDropped: number;
  /** Connections made to nodes. */
  readonly connects: number;
  /** Calls that wait in a line now, behind the one that asks the nodes or holds the lock. Falls too. */
  readonly waiting: number;
  /** Leases that were released and went to the next in line of this client without a request. */
  readonly passedOn: number;
  /** Calls that stand in the queue of a node now, among those of all clients: at most one for each lock. Falls too. */
  readonly queued: number;
  /** Waiters of other clients before the last of those, as far as the node has said. Falls too. */
  readonly ahead: number;
  /** Messages that named no waiter, or that no node sends: late, or forged. */
  readonly strayMessages: number;
  // End of what is made.
}

/** Makes a lock, or several, with options that were looked at. Not part of the API. */
export let lockWith: (client: Client, name: Name | readonly Name[], options: NativeLockOptions, from: Function) => Lock | Locks;

const camel = (name: string) => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());

function isOptions(value: unknown): value is ClientOptions {
  // A URL object has no options of its own, and would silently be none: it is refused as a node list.
  return typeof value === "object" && value !== null && !(Symbol.iterator in value) && !(value instanceof URL);
}

/** The two modes of one lock: see `Client.rwlock`. */
export interface RWLock {
  /** The lock as many share it. */
  read(): Lock;
  /** The lock as one has it alone. */
  write(): Lock;
}

/**
 * A set of nodes and the options for its locks.
 *
 * Connects when first needed and again when connections break. Keeps no process alive, nor do its leases; what is
 * awaited does. Emits `lost` and `log`, and never `error`.
 */
export class Client extends Events {
  readonly #core: NativeClient;

  static {
    lockWith = (client, name, options, from) =>
      Array.isArray(name) ? self(client).#lockAll(name, options, from) : self(client).#lock(name, options, from);
  }

  /**
   * Throws `InvalidArgumentError`, naming the option, its value and what to give.
   *
   * @param nodes URLs, see `ClientOptions.nodes`; or options with `nodes` among them.
   */
  constructor(nodes?: string | Iterable<string> | ClientOptions, options: Omit<ClientOptions, "nodes"> = {}) {
    super();
    knowSelf(this);
    const given = isOptions(nodes) ? { ...nodes, ...options } : { ...options, nodes };
    const [ofClient, ofLocks] = look(Client, () => clientOptions(given));
    this.#core = checked(native.client(port, ofClient, ofLocks), Client);
    know(this.#core, ofClient.namespace, ofLocks);
    tellLog(this);
  }

  /**
   * A lock by its name: 1 to 1,024 bytes. Options not given are the client's. Throws `InvalidArgumentError` for a name
   * or option that is not valid.
   */
  lock(name: Name, options?: LockOptions): Lock {
    const it = self(this);
    return it.#lock(name, options === undefined ? undefined : () => lockOptions(options), it.lock);
  }

  #lock(name: unknown, options: NativeLockOptions | (() => NativeLockOptions) | undefined, from: Function): Lock {
    const key = look(from, () => nameOf("name", name));
    const own = typeof options === "function" ? look(from, options) : options;
    checked(this.#core.check(key, own), from);
    return newLock(this.#core, key, own, this);
  }

  /**
   * The two modes of one lock: `read()` is shared by many, `write()` is for one alone. Options as of `lock`; each call
   * gives the same lock. Throws as `lock`.
   */
  rwlock(name: Name, options?: RWLockOptions): RWLock {
    const it = self(this);
    const own = look(it.rwlock, () => lockOptions(options ?? {}, "rwlock"));
    const [read, write] = [it.#lock(name, { ...own, shared: true }, it.rwlock), it.#lock(name, own, it.rwlock)];
    return { read: () => read, write: () => write };
  }

  /**
   * A semaphore: at most `slots` of it are held at once, 1 to 128. It is acquired and released as a lock is; its leases
   * tell their `slot`. Options as of `lock`. All who use it have to ask for the same number of slots: the largest number in
   * use is the limit. A lock of that name is another matter. Throws as `lock`.
   */
  semaphore(name: Name, slots: number, options?: SemaphoreOptions): Lock {
    const it = self(this);
    return it.#lock(name, () => semaphoreOptions(slots, options), it.semaphore);
  }

  /**
   * Several locks by their names, to be held together: all of them, or none; options as of `lock`. 1 to 16 names that
   * differ, in any order; one that is given twice is held once. Throws `InvalidArgumentError` for names or an option that
   * are not valid.
   */
  lockAll(names: readonly Name[], options?: SeveralOptions): Locks {
    const it = self(this);
    return it.#lockAll(names, options === undefined ? undefined : () => lockOptions(options, "several"), it.lockAll);
  }

  #lockAll(names: unknown, options: NativeLockOptions | (() => NativeLockOptions) | undefined, from: Function): Locks {
    const keys = look(from, () => namesOf("names", names));
    const own = typeof options === "function" ? look(from, options) : options;
    checked(this.#core.checkAll(keys, own), from);
    return newLocks(this.#core, keys, own, this);
  }

  /**
   * A candidate of an election by its name: 1 to 1,024 bytes. The election of a name is the lock of that name: who holds it
   * leads. Options not given are those of elections: see `ElectionOptions`. Throws `InvalidArgumentError` for a name or option
   * that is not valid.
   */
  election(name: Name, options: ElectionOptions = {}): Election {
    const it = self(this);
    const key = look(it.election, () => nameOf("name", name));
    const own = look(it.election, () => electionOptions(options));
    const core = checked(it.#core.election(key, own), it.election);
    return newElection(core, newLock(it.#core, key, own, it));
  }

  /**
   * Reports who holds a lock, without acquiring it: what each node has of it, and what follows from that. That nodes do not
   * answer is no error, but part of the result.
   */
  async inspect(name: Name): Promise<Inspection> {
    return await self(this).lock(name).inspect();
  }

  /**
   * Takes a lock away from its holder, or from what keeps it, for an operator: deletes the vote on all nodes, whatever client or
   * library put it there, and calls the next waiter. A lock without a holder is no error.
   *
   * The holder learns it at its next renewal, at most about a third of its ttl later, or when it extends: its lease is lost,
   * `forced`, or `refused` where another has taken the lock meanwhile. A lease that is not renewed learns nothing before its
   * end. Until then two may work, and their fences tell them apart.
   *
   * Rejects with `InvalidArgumentError` for a name or a fence that is not valid; with `LockContendedError` if the lock is
   * held, and not by `fence` for certain, and nothing is changed; with `QuorumUnavailableError` if too few nodes answer:
   * some may have done it then, and calling again completes it; with `MisconfiguredError` where the lock's key is no string.
   */
  async forceRelease(name: Name, options?: ForceOptions): Promise<Forced> {
    return await self(this).lock(name).forceRelease(options);
  }

  /**
   * Goes on with a lease that another client has exported by `lease.export()`, as long as that has not ended: with what
   * was left of its `maxHold`, the same ttl, or that if it is less, and a larger fence. Of two that adopt one lease one wins at most. No owner re-enters
   * it. Nodes that do not answer are waited for as long as the client's `wait`, at most for the ttl.
   *
   * Rejects with `LockLostError` if the lease has ended or another has adopted it, `QuorumUnavailableError` if too few nodes
   * answered, `InvalidArgumentError` for a text that is damaged, or of another set, namespace or version.
   */
  async adopt(text: string): Promise<Lease> {
    const it = self(this);
    if (typeof text !== "string") {
      throw invalid(`text is a ${typeof text}: give what lease.export() has resolved to`, it.adopt);
    }
    return await it.#adopt(text);
  }

  async #adopt(text: string): Promise<Lease> {
    const outcome = await begin<boolean>(this.adopt, (port, number) => this.#core.adopt(port, number, text));
    if ("failure" in outcome) throw toError(outcome.failure, this.adopt, outcome.caller);
    return adoptedLease(outcome.number, this);
  }

  /**
   * Checks the state of the set: which nodes answer, which would vote, and what needs to be fixed. Nothing is admitted,
   * founded or locked by it. It takes at most `connectTimeout` and eight times `nodeTimeout`. That
   * nodes do not answer, or cannot be used, is no error, but part of the result: `docs/operations/doctor.md` lists what may be found.
   */
  async probe(): Promise<Probe> {
    return await self(this).#probe();
  }

  async #probe(): Promise<Probe> {
    return valueOf(await begin<Probe>(this.probe, (port, number) => this.#core.probe(port, number)), this.probe);
  }

  /** What has happened so far. */
  stats(): Stats {
    const it = self(this);
    const counts = Object.entries(checked<Record<string, number>>(it.#core.stats(), it.stats));
    return Object.fromEntries(counts.map(([name, count]) => [camel(name), count])) as unknown as Stats;
  }

  /**
   * Declares the set: founds it, where no node has a record, by writing its record to all nodes. Resolves to for how many
   * milliseconds the set gives no vote yet; 0: it votes.
   *
   * A wholly new set (servers that have run for longer than `maxTtl` and never stored anything) votes at once. Where the
   * servers are only too young, this waits until they have run for `maxTtl` (the event `log` says for how long). Servers
   * that may have lost something give no vote for `maxTtl` first. Where all nodes have this set's record already nothing
   * is changed and no quarantine is lifted; so it is safe to run at every deploy. `memory://` nodes need none of it.
   *
   * Rejects with `MisconfiguredError` if a node has a record of another set or cannot be a node, with
   * `QuorumUnavailableError` if one does not answer; `nodes` of the error say which, and nothing is written.
   */
  async initSet(options: InitOptions = {}): Promise<number> {
    const it = self(this);
    const { force } = look(it.initSet, () => initOptions(options));
    return await it.#initSet(force);
  }

  async #initSet(force: boolean): Promise<number> {
    return valueOf(await begin<number>(this.initSet, (port, number) => this.#core.initSet(port, number, force)), this.initSet);
  }

  /**
   * Releases every lease and stops. Leases still held are lost with the reason `closed`. Resolves when the nodes have
   * answered, at the latest after `nodeTimeout`. A second call does nothing.
   */
  async close(): Promise<void> {
    await self(this).#close();
  }

  async #close(): Promise<void> {
    valueOf(await begin<null>(this.close, (port, number) => this.#core.close(port, number)), this.close);
  }

  /** For `await using`: closes. */
  async [asyncDispose](): Promise<void> {
    await self(this).#close();
  }

  override toString(): string {
    return inspect(self(this));
  }

  [inspect.custom](): string {
    return self(this).#core.describe();
  }
}
