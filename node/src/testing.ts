/// <reference types="node" preserve="true" />

/**
 * For the tests of code that takes locks, with whatever runs them: nodes without a server, and a lock that is lost when the test
 * wants it.
 *
 *     import { held, lose, nodes } from "quorlock/testing";
 *
 *     process.env.QUORLOCK_NODES = nodes().join();
 *
 *     test("it stops when the lock is lost", async () => {
 *       await assert.rejects(closeMonth({ beforeTheLastStep: () => lose("nightly") }), LockLostError);
 *     });
 *
 *     test("it gives up when another is at it", async () => {
 *       assert.equal(await held("nightly", () => closeMonth()), "left to another");
 *     });
 *
 * The nodes live within this process (`memory://`): all of the API works on them, but no other process sees them.
 */

import { native } from "./binding.js";
import { Client } from "./client.js";
import { checked, invalid, look } from "./errors.js";
import { bytesOf, nameOf, type LockOptions, type Name } from "./options.js";
import type { LossReason } from "./loss.js";

/** This many nodes, 1 to 32, that no other test has, for `nodes` or, joined by commas, for `QUORLOCK_NODES`. */
export function nodes(count = 1): string[] {
  // Anything else would be made a number of 32 bits.
  if (!Number.isInteger(count) || count < 1 || count > 32) throw invalid("count is no whole number of nodes from 1 to 32", nodes);
  return native.testingNodes(count);
}

/**
 * Has the lock of that name be lost now, and the slots of the semaphore of that name, whichever client of this process holds
 * them: as if the nodes had not answered for too long. When this returns the lease is held no longer and the lock is free; the
 * lease's `signal` aborts in the next turn of the event loop. Gives how many leases that were: 0 if this process has none.
 */
export function lose(name: Name, reason: LossReason = "expired"): number {
  const octets = look(lose, () => bytesOf(nameOf("name", name)));
  return checked(native.testingLose(octets, reason), lose);
}

/**
 * Holds a lock as another client while a function runs. `options`: as of `lock`, and `nodes`: those of the code that is tested, if
 * it names any.
 */
export async function held<T>(
  name: Name,
  body: () => T | PromiseLike<T>,
  options: LockOptions & { nodes?: string | Iterable<string> | undefined } = {},
): Promise<T> {
  const { nodes, ...others } = options;
  const client = new Client({ nodes, label: "somebody-else" });
  try {
    const lease = await client.lock(name, others).acquire();
    try {
      return await body();
    } finally {
      await lease.release();
    }
  } finally {
    await client.close();
  }
}
