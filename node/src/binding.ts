/** The native part, as `native/*.rs` makes it. */

import { load } from "./loader.js";

/** An error of the core. Native calls return it; what throws is written here, so that errors have the caller's stack. */
export interface Failure {
  readonly number: number;
  readonly message: string;
  readonly nodes: { readonly node: string; readonly message: string }[];
  readonly lock?: string | undefined;
  readonly holder?: string | undefined;
}

/** What is left of a lease that is over: token, fence, reason and error of the loss, and its slot. */
export type Left = readonly [string, number | null, string | null, Failure | null, number | null];

export interface NativePort {
  /** Calls the ring with what there is. */
  take(): void;
  submit(): Failure | null;
  cancel(number: number, numbers: number): Failure | null;
  /** Tells of the loss of a lease once more, when the microtasks of this turn are done. */
  putOff(number: number): void;
  /** An uncaught exception: what a listener threw. */
  uncaught(thrown: unknown): void;
  /** The environment stays alive until this is called once more, with false. */
  stay(stays: boolean): void;

  // Leases, by the number of the operation that won them.
  isHeld(lease: number): boolean | Failure;
  isReleased(lease: number): boolean | Failure;
  remaining(lease: number): number | Failure;
  token(lease: number): string | Failure;
  fence(lease: number): number | null | Failure;
  loss(lease: number): string | Failure;
  lostError(lease: number): Failure;
  extend(number: number, lease: number, ttl: number | undefined): Failure | null;
  ensure(number: number, lease: number, min: number): Failure | null;
  slot(lease: number): number | null | Failure;
  isShared(lease: number): boolean | Failure;
  downgrade(number: number, lease: number): Failure | null;
  prepareExport(number: number, lease: number): Failure | null;
  export(lease: number): string | Failure;
  name(lease: number): Buffer | Failure;
  /** `null` where it waits for the nodes; where it does not, whether the lease was held. */
  release(number: number, lease: number, confirm: boolean | undefined): boolean | null | Failure;
  /** Forgets one that is over. */
  end(lease: number): Left | Failure;
  forget(lease: number): boolean | Failure;
}

/** The first lease that was lost among several. */
export interface NativeLoss {
  /** Which one, in the order of the locks' keys. */
  readonly at: number;
  readonly reason: string;
  readonly error: Failure;
}

/** Leases that were won together. Each has a number too, for what is asked of it alone. */
export interface NativeLeases {
  placeOf(name: NativeName): number | null | Failure;
  isHeld(): boolean | Failure;
  remaining(): number | Failure;
  loss(): NativeLoss | null | Failure;
  extend(port: NativePort, number: number, ttl: number | undefined): Failure | null;
  ensure(port: NativePort, number: number, min: number): Failure | null;
  waits(confirm: boolean | undefined): boolean | Failure;
  release(port: NativePort, number: number): Failure | null;
  releaseUnconfirmed(port: NativePort): boolean | Failure;
  /** Forgets them; what is left is the loss. */
  end(): NativeLoss | null | Failure;
}

/** A candidate of an election. */
export interface NativeElection {
  leader(port: NativePort, number: number): Failure | null;
  observe(every: number | undefined): NativeObserver | Failure;
  /** Waits for this many milliseconds, or until the client is closed. */
  pause(port: NativePort, number: number, length: number): Failure | null;
}

export interface NativeObserver {
  /** How it is, and after that the next change. One that is cancelled is the last. */
  next(port: NativePort, number: number): Failure | null;
}

/** Terms in a row whose work failed. */
export interface NativeFailures {
  /** For how many milliseconds to pause after another one, which lasted for `led`. */
  pauseAfter(led: number): number | Failure;
  /** The same after one whose work ended well. */
  noneAfter(led: number): number | Failure;
}

export type NativeOwner = object;

export type NativeName = string | Uint8Array;

export interface NativeClient {
  // Locks, by name and what is not as the client has it.
  check(name: NativeName, options: NativeLockOptions | undefined): Failure | null;
  acquire(
    port: NativePort,
    number: number,
    name: NativeName,
    options: NativeLockOptions | undefined,
    owner: NativeOwner | undefined,
    wait: number | undefined,
  ): Failure | null;
  tryAcquire(
    port: NativePort,
    number: number,
    name: NativeName,
    options: NativeLockOptions | undefined,
    owner: NativeOwner | undefined,
    wait: number | undefined,
  ): Failure | null;
  // Several at once, with an owner for each or none. Each lease that is won has the number of the operation and the place of its name, from
  // 0 on.
  checkAll(names: readonly NativeName[], options: NativeLockOptions | undefined): Failure | null;
  acquireAll(
    port: NativePort,
    number: number,
    names: readonly NativeName[],
    options: NativeLockOptions | undefined,
    owners: readonly NativeOwner[] | undefined,
    wait: number | undefined,
  ): Failure | null;
  tryAcquireAll(
    port: NativePort,
    number: number,
    names: readonly NativeName[],
    options: NativeLockOptions | undefined,
    owners: readonly NativeOwner[] | undefined,
    wait: number | undefined,
  ): Failure | null;
  release(port: NativePort, number: number, name: NativeName, options: NativeLockOptions | undefined): Failure | null;
  inspect(port: NativePort, number: number, name: NativeName, options: NativeLockOptions | undefined): Failure | null;
  forceRelease(
    port: NativePort,
    number: number,
    name: NativeName,
    options: NativeLockOptions | undefined,
    fence: number | undefined,
    slot: number | undefined,
  ): Failure | null;
  waitUntilFree(
    port: NativePort,
    number: number,
    name: NativeName,
    options: NativeLockOptions | undefined,
    wait: number,
  ): Failure | null;
  isLocked(port: NativePort, number: number, name: NativeName, options: NativeLockOptions | undefined): Failure | null;
  holder(port: NativePort, number: number, name: NativeName, options: NativeLockOptions | undefined): Failure | null;
  election(name: NativeName, options: NativeLockOptions): NativeElection | Failure;

  /** Counts, by the names that the core gives them. */
  stats(): Record<string, number> | Failure;
  adopt(port: NativePort, number: number, text: string): Failure | null;
  probe(port: NativePort, number: number): Failure | null;
  initSet(port: NativePort, number: number, force: boolean): Failure | null;
  /** Waits for this many milliseconds, or until it is closed. */
  pause(port: NativePort, number: number, length: number): Failure | null;
  close(port: NativePort, number: number): Failure | null;
  describe(): string;
}

/** Times in milliseconds; infinity is no limit. */
export interface NativeLockOptions {
  every?: number;
  election?: boolean;
  // Made from core/options.toml: options of a lock.
  ttl?: number;
  wait?: number;
  renew?: boolean;
  maxHold?: number;
  raw?: boolean;
  layout?: "plain" | "redisson";
  label?: string;
  fencing?: boolean;
  maxWaiters?: number;
  fair?: boolean;
  keep?: number;
  group?: string;
  shared?: boolean;
  slots?: number;
  owner?: Uint8Array;
  confirm?: boolean;
  // End of what is made.
}

export interface NativeClientOptions {
  /** The variables of Quorlock, for what is not given. */
  environment?: [string, string][];
  // Made from core/options.toml: options of a client.
  nodes?: string[];
  maxTtl?: number;
  nodeTimeout?: number;
  connectTimeout?: number;
  drift?: number;
  minValidity?: number;
  namespace?: string;
  fenceTtl?: number;
  setName?: string;
  restartGuard?: "auto" | "on" | "off";
  acceptEviction?: boolean;
  waitReplicas?: number;
  ca?: string;
  cert?: string;
  key?: string;
  // End of what is made.
}

/** A line of the log. */
export interface NativeLine {
  readonly message: string;
  readonly event: string;
  readonly template: string;
  readonly fields: Record<string, string>;
}

export interface Native {
  readonly Port: new (ring: (...news: unknown[]) => void, isNode: boolean) => NativePort;
  /** Different from every other without a name. */
  readonly Owner: new (name?: Uint8Array) => NativeOwner;
  readonly Failures: new () => NativeFailures;
  client(port: NativePort, options: NativeClientOptions, locks: NativeLockOptions): NativeClient | Failure;
  metricsText(): string | Failure;
  /** A text that was given for an option, as messages show it. */
  given(option: string, text: string): string;
  /** Whether nothing is shown of what was given for the option. */
  isSecret(option: string): boolean;
  testingNodes(count: number): string[];
  testingLose(name: Uint8Array, reason: string): number | Failure;
  closeAll(): boolean | Failure;
  kinds(): string[];
  panicAtOnce(): boolean | Failure;
  panicLater(port: NativePort, number: number): Failure | null;
}

export const native = load() as Native;
