/** The object of a call, which may have been called through a `Proxy` of it, or without it. */

import { types } from "node:util";

import { invalid } from "./errors.js";

/** Where an object has itself: a `Proxy` hands that on, and has none of its private members. */
const SELF: unique symbol = Symbol("quorlock");
type Findable = { [SELF]?: unknown };

/** From now on it is found behind a `Proxy`. */
export function knowSelf(object: object): void {
  (object as Findable)[SELF] = object;
}

/** The object that a method of the API was called on. Throws, for a method that was taken from its object. */
export function self<T extends object>(given: T): T {
  const found = (given as Findable | undefined)?.[SELF];
  if (found !== undefined && !types.isProxy(found)) return found as T;
  throw invalid(
    "a method was called without its object: call it as `lease.release()`, or bind it, as `lease.release.bind(lease)` does; behind a `Proxy`, let that hand on what it does not know",
    self,
  );
}
