/** Who owns what `redlock` acquires: the invocation, and all that runs within it. */

import { AsyncLocalStorage } from "node:async_hooks";

import { native, type NativeOwner } from "./binding.js";

/** One invocation of `redlock`. */
export interface Invocation {
  readonly owner: NativeOwner;
  /** False when its body has ended. What it left running is then nobody's branch. */
  active: boolean;
  parent: Invocation | undefined;
}

const storage = new AsyncLocalStorage<Invocation>();

/** The innermost invocation around the caller whose body still runs. */
function around(): Invocation | undefined {
  let found = storage.getStore();
  while (found !== undefined && !found.active) found = found.parent;
  return found;
}

/**
 * A new invocation: with the owner of the one around it, or with an owner of its own.
 *
 * What a body left running is an owner of its own once the body has ended. Else a server that was started under a lock
 * would share one owner among all its requests forever.
 */
export function invocation(): Invocation {
  const parent = around();
  if (parent !== undefined) {
    // Those between that have ended, or a chain of overlapping invocations would grow forever.
    while (parent.parent !== undefined && !parent.parent.active) parent.parent = parent.parent.parent;
  }
  return { owner: parent?.owner ?? new native.Owner(), active: true, parent };
}

/** Runs the body of an invocation. */
export async function within<L, T>(
  invocation: Invocation,
  body: (lease: L) => T | PromiseLike<T>,
  lease: L,
): Promise<T> {
  try {
    return await storage.run(invocation, body, lease);
  } finally {
    invocation.active = false;
  }
}
