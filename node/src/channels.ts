/**
 * What is told on channels of `node:diagnostics_channel`, to whoever listens there: tracers and monitors that the program loads. A
 * message is made only where somebody does.
 */

import { channel, tracingChannel, type Channel } from "node:diagnostics_channel";

import type { Lease, LossReason } from "./lease.js";
import type { Leases } from "./leases.js";
import type { Name } from "./options.js";

/** The message of `tracing:quorlock:acquire:…`: one call that acquires, also one that only tries. */
export interface AcquireMessage {
  /** The lock's name, or those of the locks that are taken together. */
  readonly names: readonly Name[];
  /** The group of the locks; empty for none. */
  readonly group: string;
  /** What was won, once it is; `null` where others hold the lock and the call does not fail for that. */
  result?: Lease | Leases | null;
  /** Why nothing was won. */
  error?: unknown;
}

/** The message of `quorlock:lost`. Once for each handle that had not been released. */
export interface LostMessage {
  readonly lease: Lease;
  readonly name: Name;
  readonly reason: LossReason;
}

/** The message of `quorlock:released`. `lossReason`: why it had been lost before, `null` if it was not. */
export interface ReleasedMessage {
  readonly lease: Lease;
  readonly name: Name;
  readonly lossReason: LossReason | null;
}

const acquire = tracingChannel<AcquireMessage, AcquireMessage>("quorlock:acquire");
const parts: readonly Channel[] = [acquire.start, acquire.end, acquire.asyncStart, acquire.asyncEnd, acquire.error];

export const lost = channel("quorlock:lost");
export const released = channel("quorlock:released");
export const logged = channel("quorlock:log");

/** Does the work of a call that acquires, and tells of it. */
export function traced<T extends Lease | Leases | null>(
  about: () => AcquireMessage,
  work: () => Promise<T>,
): Promise<T> {
  if (!parts.some((part) => part.hasSubscribers)) return work();
  return acquire.tracePromise(work, about()) as Promise<T>;
}
