/** The native part, as `native/*.rs` makes it. */

import { load } from "./loader.js";

/** An error of the core. Native calls return it; what throws is written here, so that errors have the caller's stack. */
export interface Failure {
  readonly number: number;
  readonly message: string;
  readonly nodes: { readonly node: string; readonly message: string }[];
}

export interface NativePort {
  take(): unknown[];
  submit(): Failure | null;
  cancel(number: number): Failure | null;
  keep(alive: boolean): boolean | Failure;

  // Leases, by the number of the operation that won them.
  isHeld(lease: number): boolean | Failure;
  isReleased(lease: number): boolean | Failure;
  remaining(lease: number): number | Failure;
  token(lease: number): string | Failure;
  loss(lease: number): string | Failure;
  lostError(lease: number): Failure;
  extend(number: number, lease: number, ttl: number | undefined): Failure | null;
  ensure(number: number, lease: number, min: number): Failure | null;
  release(number: number, lease: number): Failure | null;
  forget(lease: number): boolean | Failure;
}

export type NativeOwner = object;

export interface NativeLock {
  acquire(port: NativePort, number: number, owner: NativeOwner | undefined, wait: number | undefined): Failure | null;
  tryAcquire(port: NativePort, number: number): Failure | null;
  release(port: NativePort, number: number): Failure | null;
}

export interface NativeStats {
  acquired: number;
  reentered: number;
  attemptsLost: number;
  timeoutsAwaited: number;
  released: number;
  lost: number;
  renewals: number;
  repairs: number;
  releasesPending: number;
  connects: number;
}

export interface NativeClient {
  lock(name: Uint8Array, options: NativeLockOptions): NativeLock | Failure;
  stats(): NativeStats | Failure;
  close(port: NativePort, number: number): Failure | null;
  describe(): string;
}

/** Times in milliseconds; infinity is no limit. */
export interface NativeLockOptions {
  ttl?: number;
  wait?: number;
  renew?: boolean;
  maxHold?: number;
  raw?: boolean;
  owner?: Uint8Array;
}

export interface NativeClientOptions {
  nodes?: string[];
  maxTtl?: number;
  nodeTimeout?: number;
  drift?: number;
  minValidity?: number;
  namespace?: string;
  label?: string;
  ca?: string;
  cert?: string;
  key?: string;
}

export interface Native {
  readonly Port: new (ring: () => void) => NativePort;
  readonly Owner: new () => NativeOwner;
  client(options: NativeClientOptions, locks: NativeLockOptions): NativeClient | Failure;
  closeAll(): boolean | Failure;
  kinds(): string[];
  panicAtOnce(): boolean | Failure;
  panicLater(port: NativePort, number: number): Failure | null;
}

export const native = load() as Native;
