/** The messages of the channel of acquisitions. */

import type { Channel } from "node:diagnostics_channel";

import { acquire } from "./channels.js";
import type { Lease } from "./lease.js";
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

const parts: readonly Channel[] = [acquire.start, acquire.end, acquire.asyncStart, acquire.asyncEnd, acquire.error];

/** Does the work of a call that acquires, and publishes it. */
export function traced<T extends Lease | Leases | null>(
  about: () => AcquireMessage,
  work: () => Promise<T>,
): Promise<T> {
  if (!parts.some((part) => part.hasSubscribers)) return work();
  return acquire.tracePromise(work, about()) as Promise<T>;
}
