/** Who holds a lock, as the nodes have it. */

import type { Name } from "./options.js";

/** Who holds a lock, or keeps it. */
export interface Holder {
  /** The label of its client; `null` where it has none, or is a client of another library. */
  readonly label: string | null;
  /** How many nodes have its vote. */
  readonly votes: number;
  /** For how many more milliseconds a quorum of these votes lasts, unless they are renewed; `null`: they have no end. */
  readonly left: number | null;
  /** When it asked for the lock, by the nodes' clocks; `null` where that is not known. */
  readonly since: Date | null;
  /**
   * The fence of its hold, also where others have asked for the lock in vain since. Of a lease that was passed on within its client,
   * or won where nodes had counted differently far, from its next renewal on. Of readers, and of a holder that is known to no node
   * by its fence, the largest that a node has counted, which is never less than the holder's.
   */
  readonly fence: number | null;
}

/** What one node has of a lock. */
export interface NodeView {
  /** The node, as in errors. */
  readonly node: string;
  /**
   * What stands there. `shared`: readers hold it. `reserved`: free, and kept for a waiter that was called. `foreign`: of another
   * library, or of none.
   */
  readonly state: "held" | "shared" | "kept" | "free" | "reserved" | "foreign" | "unknown";
  /** The label of who has the vote. */
  readonly label: string | null;
  /** For how many more milliseconds that lasts. */
  readonly left: number | null;
  /** The last fence that the node has counted, for the client that asked last. */
  readonly fence: number | null;
  /** How many wait in its queue. */
  readonly queued: number;
  /** For how many more milliseconds it gives no vote, for it may have lost its memory. */
  readonly quarantine: number;
  /** Why it did not say. */
  readonly error: string | null;
}

/**
 * What the nodes have of a lock, and what follows from that. It tells how it was: a program that wants to act on a lock has to
 * acquire it, for between the look and the act it may have been released and won again.
 */
export interface Inspection {
  /** The lock's name, as given. */
  readonly name: Name;
  /**
   * `held` or `kept`: a quorum has the vote of one holder, or keeps the lock for one that has released it. `free`: a quorum
   * has no vote. `split`: a quorum has answered and does not agree. `unknown`: too few have answered.
   */
  readonly verdict: "held" | "kept" | "free" | "split" | "unknown";
  /** Who holds it, or keeps it. */
  readonly holder: Holder | null;
  /** The largest fence that a node has counted, by who holds the lock, or by who asked in vain since: see `Holder.fence`. */
  readonly fence: number | null;
  /** How many wait in the queue of the lock: one for each client that waits. */
  readonly queued: number;
  /** What each node has, in the order of the node list. */
  readonly nodes: readonly NodeView[];
  /**
   * How many slots are held, of the semaphore that was looked at. Of a lock that is free: of a semaphore that has its name, which
   * is another matter, and may be what was meant.
   */
  readonly slotsHeld: number;
  /** Which slot of a semaphore that is; `null` where it is none. */
  readonly slot: number | null;
  /**
   * Each slot of a semaphore, in the order of their numbers; none of a lock. A semaphore is `free` where a slot of it is, and has no
   * holder of its own.
   */
  readonly slots: readonly Inspection[];
}

/** What a forced release has met and done: a quorum of nodes is free of the holder that the lock had before. */
export interface Forced {
  /** How the lock stood before: who held it is its `holder`. */
  readonly found: Inspection;
  /** How many votes were taken away; 0 where nothing was there any more. */
  readonly freed: number;
}

/** As the native part has it: a moment in milliseconds since the epoch. */
export type NativeHolder = Omit<Holder, "since"> & { readonly since: number | null };

/** Not part of the API. */
export function holderOf(native: NativeHolder | null): Holder | null {
  return native === null ? null : { ...native, since: native.since === null ? null : new Date(native.since) };
}

/** As the native part has it: without the name. */
export type NativeInspection = Omit<Inspection, "name" | "holder" | "slots"> & {
  readonly holder: NativeHolder | null;
  readonly slots: readonly NativeInspection[];
};

/** Not part of the API. */
export function inspectionOf(name: Name, native: NativeInspection): Inspection {
  const slots = native.slots.map((slot) => inspectionOf(name, slot));
  return { name, ...native, holder: holderOf(native.holder), slots };
}
