/** The work that a lock protects, and what cannot be that. */

import { types } from "node:util";

import { invalid } from "./errors.js";
import type { Lease } from "./lease.js";
import type { Leases } from "./leases.js";

/** The work that a lock protects. */
export type Body<T> = (lease: Lease) => T | PromiseLike<T>;

/** The work that several locks protect. */
export type BodyOfAll<T> = (leases: Leases) => T | PromiseLike<T>;

/** The work that one lock protects or several, where that is not known before. */
export type AnyBody<T> = (held: Lease | Leases) => T | PromiseLike<T>;

const WHY = "runs only when it is iterated over, which is when the lock is free again: give an async function, and iterate in it";

/** Refuses what is no function, or one that would only begin when the lock is free again. `missing` tells what was to be given. */
export function checkBody(body: unknown, missing: string): void {
  if (typeof body !== "function") throw invalid(missing);
  if (types.isGeneratorFunction(body)) throw invalid(`a generator function ${WHY}`);
}

/** What a body, or what runs in its place, has returned; refused if that is work that has not run yet. */
export function finished<T>(result: T, from: Function): T {
  if (types.isGeneratorObject(result)) throw invalid(`the body returned a generator, which ${WHY}`, from);
  return result;
}
