/** Whose a lock is: of the call whose body holds it, and of what enters it again within that body. */

import { AsyncLocalStorage } from "node:async_hooks";

import {
  native,
  type Failure,
  type NativeClient,
  type NativeLockOptions,
  type NativeOwner,
  type NativePort,
} from "./binding.js";
import type { Call } from "./chained.js";
import { isGivenBack, type Lease } from "./lease.js";
import { shown, warn } from "./log.js";
import { bytesOf, type AcquireRequest, type Name } from "./options.js";
import { begin, beginUntil, type Outcome } from "./port.js";

const WAIT = 10_000;
/** How long it takes from one warning of a wait without end to the next, in milliseconds. */
const EVERY = 10_000;
const CONTENDED = 2;
const TIMEOUT = 3;

/** What a client's locks have where they do not say otherwise, and which client it is. */
interface ClientFacts {
  readonly number: number;
  readonly options: NativeLockOptions;
  /** Where its locks are: another client's may be there, too. */
  readonly where: string;
}

const clients = new WeakMap<NativeClient, ClientFacts>();
let lastClient = 0;

/** From now on the locks of this client are known from those of others. */
export function know(core: NativeClient, namespace: string | undefined, options: NativeLockOptions): void {
  clients.set(core, { number: ++lastClient, options, where: `${core.describe()} ${namespace}` });
}

/** Equal for two names that are the same bytes. */
function textOf(name: Name): string {
  if (typeof name === "string") return `text ${name}`;
  const bytes = Buffer.from(name);
  const text = bytes.toString();
  return Buffer.from(text).equals(bytes) ? `text ${text}` : `bytes ${bytes.toString("latin1")}`;
}

/** A lock as calls ask for it. */
export class LockIdentity {
  readonly core: NativeClient;
  readonly name: Name;
  readonly options: NativeLockOptions | undefined;
  #known: string | undefined;

  constructor(core: NativeClient, name: Name, options: NativeLockOptions | undefined) {
    this.core = core;
    this.name = name;
    this.options = options;
  }

  get #client(): ClientFacts {
    return clients.get(this.core)!;
  }

  /**
   * Equal for two that are one lock of a client, whether they share it or want it alone. The one place that says so, for re-entry and for
   * what is said of it.
   */
  get #key(): string {
    if (this.#known === undefined) {
      const { options } = this.#client;
      const layout = this.options?.layout ?? options.layout ?? "plain";
      // In Redisson's layout the name is the key, too.
      const raw = layout === "redisson" || (this.options?.raw ?? options.raw ?? false);
      this.#known = `${layout} ${raw} ${this.options?.slots} ${textOf(this.name)}`;
    }
    return this.#known;
  }

  /** Whether it is this very lock: one of two that are alike may enter the other again. */
  is(other: LockIdentity): boolean {
    return this.core === other.core && this.#isAlike(other);
  }

  /** Whether it is a lock of that name on the same nodes, of whatever client. */
  isAlso(other: LockIdentity): boolean {
    return this.#isAlike(other) && this.#client.where === other.#client.where;
  }

  #isAlike(other: LockIdentity): boolean {
    // Nearly always they differ in this.
    const differ = typeof this.name === "string" && typeof other.name === "string" && this.name !== other.name;
    return !differ && this.#key === other.#key;
  }

  /** For how long a call waits that says nothing of it. */
  get wait(): number {
    return this.options?.wait ?? (this.options?.election === true ? Infinity : (this.#client.options.wait ?? WAIT));
  }

  hasOwnerOf(other: LockIdentity): boolean {
    const [ours, theirs] = [this.options?.owner, other.options?.owner];
    return ours !== undefined && theirs !== undefined && Buffer.compare(ours, theirs) === 0;
  }
}

/** A lock that a body holds. */
interface Holding {
  readonly asked: LockIdentity;
  readonly lease: Lease;
  /** The owner that may enter it again; a term of an election has none. */
  readonly owner: NativeOwner | undefined;
}

/** The calls whose bodies the caller is in. */
const storage = new AsyncLocalStorage<Invocation>();

/** The innermost of these whose body still runs. */
function running(found: Invocation | undefined): Invocation | undefined {
  while (found !== undefined && !found.active) found = found.parent;
  return found;
}

/** What the bodies around have of such locks, the innermost first; lost or not, but not what was given back. */
function heldAround(inner: Invocation | undefined, isOne: (held: LockIdentity) => boolean): Holding[] {
  const found: Holding[] = [];
  for (let around = running(inner); around !== undefined; around = running(around.parent)) {
    found.push(...around.holds.filter(({ asked, lease }) => isOne(asked) && !isGivenBack(lease)));
  }
  return found;
}

/** One call with a body. Made where the call begins: in the context of its caller. */
export class Invocation {
  /** Whether it enters again what bodies around it hold. */
  readonly #reentrant: boolean;
  readonly holds: Holding[] = [];
  /** False when its body has ended. What it left running is in no body then. */
  active = true;
  parent: Invocation | undefined;

  constructor(reentrant: boolean) {
    this.#reentrant = reentrant;
    this.parent = running(storage.getStore());
    // Those between that have ended, or a chain of overlapping calls would grow forever.
    if (this.parent !== undefined) this.parent.parent = running(this.parent.parent);
  }

  /** Whose body around it this call enters again, if that has a lease on this very lock. */
  enters(asked: LockIdentity): Holding | undefined {
    if (!this.#reentrant || this.parent === undefined || asked.options?.owner !== undefined) return undefined;
    const found = heldAround(this.parent, (held) => held.is(asked)).filter(({ owner }) => owner !== undefined);
    return found.find(({ lease }) => lease.isHeld()) ?? found[0];
  }

  /** Who acquires it: an owner of its own, so that calls beside each other are strangers wherever they were made. */
  ownerOf(asked: LockIdentity): NativeOwner {
    return this.enters(asked)?.owner ?? new native.Owner(asked.options?.owner);
  }

  won(asked: LockIdentity, lease: Lease, owner: NativeOwner | undefined): void {
    this.holds.push({ asked, lease, owner });
  }

  async run<H, T>(body: (held: H) => T | PromiseLike<T>, held: H): Promise<T> {
    try {
      return await storage.run(this, body, held);
    } finally {
      // Contexts that outlive the body, as that of a socket does, keep none of its leases.
      this.active = false;
      this.holds.length = 0;
    }
  }
}

/** A lock that a call asks for, and a body around the call has. */
interface Conflict {
  readonly asked: LockIdentity;
  /** Whether it cannot be had before that body has let go of it. */
  readonly certain: boolean;
  readonly has: Holding;
}

function conflictOf(asked: LockIdentity, own: Invocation | undefined, inner: Invocation): Conflict | undefined {
  const found = heldAround(inner, (held) => held.isAlso(asked) && !(held.is(asked) && held.hasOwnerOf(asked)));
  const [has] = found;
  if (has === undefined || own?.enters(asked) !== undefined) return undefined;
  const { slots, shared } = asked.options ?? {};
  const held = found.filter(({ lease }) => lease.isHeld() && !(shared === true && lease.isShared()));
  return { asked, has, certain: new Set(held.map(({ lease }) => lease.token)).size >= (slots ?? 1) };
}

function remedyFor(asked: LockIdentity, own: Invocation | undefined, { owner, asked: held, lease }: Holding): string {
  if (!held.is(asked)) return "it was acquired by another client: use one for both, and have this call enter it again by `reentrant: true`";
  if (owner === undefined) return "nobody enters the term of an election again, so leave this call out";
  if (asked.options?.owner ?? held.options?.owner) return "give both the same `owner` to have this call enter it again";
  if (lease.isShared() && asked.options?.shared !== true) {
    return "release the shared lease first, for with `reentrant: true` this call is refused at once";
  }
  if (own === undefined) return "have this call enter it again by `redlock` with `reentrant: true`";
  return "give this call `reentrant: true` to have it enter the lock again";
}

/** A call that acquires within bodies. It may wait for itself, and warns of that. */
class NestedCall {
  readonly #asked: readonly LockIdentity[];
  readonly #own: Invocation | undefined;
  readonly #inner: Invocation;
  #ended: AbortController | undefined;

  constructor(asked: readonly LockIdentity[], own: Invocation | undefined, inner: Invocation) {
    this.#asked = asked;
    this.#own = own;
    this.#inner = inner;
  }

  /** What it asks for and bodies around it have, as long as they run. */
  conflicts(): Conflict[] {
    return this.#asked.map((one) => conflictOf(one, this.#own, this.#inner)).filter((one) => one !== undefined);
  }

  /** Warns once, and again and again of a wait without end. */
  async tell(wait: number, { from }: Call): Promise<void> {
    // The frames of the caller are here before the first `await`.
    const caller = { stack: "" };
    Error.captureStackTrace(caller, from);
    const told = ({ asked, has }: Conflict, waits: string) => {
      const template = "the lock '{lock}' is {waits} within a body that holds it, and in vain if that body awaits this: {remedy}";
      const fields = { lock: shown(asked.name), waits, remedy: remedyFor(asked, this.#own, has) };
      warn("waits_within", template, fields, caller.stack.slice(caller.stack.indexOf("\n") + 1));
    };
    const certain = this.conflicts().find((conflict) => conflict.certain);
    if (certain !== undefined) told(certain, "waited for");
    if (wait !== Infinity) return;
    const { signal } = (this.#ended = new AbortController());
    const { core } = this.#asked[0]!;
    const pause = (port: NativePort, number: number) => core.pause(port, number, EVERY);
    for (let seconds = EVERY / 1000; ; seconds += EVERY / 1000) {
      const paused = await beginUntil(from, signal, pause).catch(() => undefined);
      if (paused === undefined || "failure" in paused) return;
      const conflicts = this.conflicts();
      const [first] = conflicts;
      if (first === undefined) return;
      told(conflicts.find((conflict) => conflict.certain) ?? first, `still waited for after ${seconds} s`);
    }
  }

  /** What the operation comes to, and tells until then. */
  async until<T>(operation: Promise<Outcome<T>>): Promise<Outcome<T>> {
    try {
      const outcome = await operation;
      return "failure" in outcome ? { ...outcome, failure: this.#explained(outcome.failure) } : outcome;
    } finally {
      this.#ended?.abort();
    }
  }

  /** What the failure is about, and how it is mended. */
  #explained(failure: Failure): Failure {
    if (failure.number !== CONTENDED && failure.number !== TIMEOUT) return failure;
    const about = this.conflicts().find(({ asked: { name } }) => Buffer.from(bytesOf(name)).toString() === failure.lock);
    if (about === undefined) return failure;
    const { asked, has } = about;
    return { ...failure, message: `${failure.message}; a body around this call holds it: ${remedyFor(asked, this.#own, has)}` };
  }
}

/**
 * Has an operation acquire these. `own`: the call whose body they are for, nothing for what is acquired by hand.
 */
export function acquiring<T>(
  asked: readonly LockIdentity[],
  own: Invocation | undefined,
  { wait = asked[0]!.wait, signal }: AcquireRequest,
  call: Call,
  start: (port: NativePort, number: number) => Failure | null,
): Promise<Outcome<T>> {
  const inner = own === undefined ? running(storage.getStore()) : own.parent;
  const within = inner === undefined ? undefined : new NestedCall(asked, own, inner);
  const isTold = within !== undefined && within.conflicts().length > 0;
  if (isTold && wait !== 0 && signal?.aborted !== true) void within.tell(wait, call);
  // Each lease that may be won has a number.
  const numbers = asked.length;
  const operation = signal === undefined ? begin<T>(call, start, numbers) : beginUntil<T>(call, signal, start, numbers);
  return isTold ? within.until(operation) : operation;
}
