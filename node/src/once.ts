/** `once(…)`: a job that every host starts, and one runs. */

import { chained } from "./chained.js";
import { look } from "./errors.js";
import type { AnyBody, Body } from "./body.js";
import { nameOf, onceOptions, type Name } from "./options.js";
import { attempted, scoped, type AttemptOptions } from "./redlock.js";

/** Options of `once`. */
// Made from core/options.toml: OnceOptions.
export interface OnceOptions<R = undefined> extends Omit<AttemptOptions<R>, "wait" | "layout" | "shared" | "slots" | "owner" | "confirm" | "reentrant"> {
  /**
   * For how long no other host runs the job after one has begun, however soon it is done: longer than the hosts' clocks
   * differ by, and shorter than `every`. Counted on this client's clock, and kept by the nodes that the release reaches; a
   * lease that is lost, or whose process dies, leaves the lock to its `ttl`. At most `maxTtl`. Not with `layout`, `shared`
   * nor `confirm` off. Default: half of `every`, at most `maxTtl`.
   */
  keep?: number | undefined;
  /** How often the job runs. More than `keep`, which would leave out the next run. At least 20 ms. */
  every: number;
}
// End of what is made.

/**
 * Runs a job that every host starts at about the same time on one of them: `job` runs where no other host runs it, or has
 * begun it within `keep`. Resolves to what it returns; where it was left out to `undefined`, or to what `otherwise` returns.
 *
 *     cron.schedule("0 * * * *", () => once("report", { every: 3_600_000 }, sendReport));
 *
 * The lock is held while the job runs, so a run that takes longer than `every` is not joined by another. If the process
 * dies at its work no host takes that over before the lock's ttl is over, which is `keep` where none is given.
 *
 * Rejects as `redlock`, but not where another holds the lock.
 */
export function once<T, R = undefined>(name: Name, options: OnceOptions<R>, job: Body<T>): Promise<T | R> {
  return chained(once, async (call) => {
    const asked = look(once, () => scoped(nameOf("name", name), onceOptions(options), job));
    return (await attempted<T, R>(asked, job as AnyBody<T>, call)) as T | R;
  });
}
