/** What a call with a body acquires: one lock, or several. Not part of the API. */

import type { Call } from "./chained.js";
import type { Held } from "./held.js";
import type { AcquireRequest } from "./options.js";
import type { Invocation } from "./owner.js";

/** Acquires for the body of a call, which `own` is, or by hand. */
export const acquireFor = Symbol("acquireFor");
/** The same; `null` where others hold the lock all the time. */
export const tryAcquireFor = Symbol("tryAcquireFor");

export interface Acquirable<H extends Held> {
  [acquireFor](options: AcquireRequest, own: Invocation | undefined, call: Call): Promise<H>;
  [tryAcquireFor](options: AcquireRequest, own: Invocation | undefined, call: Call): Promise<H | null>;
}
