/** Leader election: one of several processes does the work, and another takes over when it no longer can. */

import { inspect } from "node:util";

import { acquireFor } from "./acquirable.js";
import { native, type NativeElection } from "./binding.js";
import { checkBody, finished, type Body } from "./body.js";
import { called, chained } from "./chained.js";
import { checked, LockLostError, look } from "./errors.js";
import { holderOf, type Holder, type NativeHolder } from "./inspection.js";
import type { Lease } from "./lease.js";
import type { Lock } from "./lock.js";
import { hear, lineOf, shown } from "./log.js";
import { Observer, type Leadership } from "./observer.js";
import {
  acquireOptions,
  observeOptions,
  runOptions,
  type AcquireOptions,
  type Name,
  type ObserveOptions,
  type RunOptions,
} from "./options.js";
import { begin, beginUntil, valueOf } from "./port.js";
import { knowSelf, self } from "./self.js";
import { Term, type Seat } from "./term.js";

/** Makes a candidate. Not part of the API. */
export let newElection: (core: NativeElection, lock: Lock) => Election;

/**
 * One candidate of an election; made by `client.election(name)`.
 *
 *     const election = client.election("scheduler");
 *     await election.run(async (term) => {
 *       await scheduleJobs({ fence: term.fence, signal: term.signal });
 *     });
 *
 * The election of a name is the lock of that name: who holds it leads. Each campaign is a stranger to every other: a candidate
 * that leads already and campaigns once more waits for its own term to end. The fence of a term grows from term to term.
 */
export class Election {
  /** The election's name, as given. */
  readonly name: Name;
  readonly #core: NativeElection;
  readonly #lock: Lock;
  /** The term that it has. */
  #seat: Seat | undefined;

  private constructor(core: NativeElection, lock: Lock) {
    knowSelf(this);
    this.name = lock.name;
    this.#core = core;
    this.#lock = lock;
  }

  static {
    newElection = (core, lock) => new Election(core, lock);
  }

  /**
   * Waits until this candidate leads, and resolves to its term: for those who loop by themselves. The term is a lease like
   * any other: release it to resign, and stop when its signal aborts.
   *
   * Rejects as `lock.acquire`; with `LockTimeoutError` only where a `wait` was given. A `signal` that aborts has it leave the
   * line.
   */
  campaign(options: AcquireOptions = {}): Promise<Lease> {
    return chained(Election.prototype.campaign, async (call) => {
      const it = self(this);
      const looked = look(call.from, () => acquireOptions(options));
      const lease = await it.#lock[acquireFor](looked, undefined, call);
      it.#seat = { lease };
      return lease;
    });
  }

  /**
   * Campaigns, and does `work` while it leads; again and again, until that is done. It keeps the process alive.
   *
   * `work` is begun only while its term is held, and stopped by `term.signal` when it is to end. JavaScript cannot take it away
   * from where it is: before a step that must not be done by two, ask `term.isHeld()`, and give `term.fence` to what it writes
   * to. That keeps a process that was stopped for a while from going on with the work of a leader.
   *
   * - At the loss of its term `onLost` is called and the signal of the term aborts. When the work has settled, however long
   *   that takes and however it ends, this campaigns again: the work of this candidate is never done twice at once.
   * - When the work has settled `onStopped` is called, and the term is given up.
   * - Where it resolved while the term was held, and was not asked to end, this resolves to the same; with `again` it campaigns
   *   again, 100 ms after it called `work` at the earliest.
   * - Where it rejected so, this emits `log` with the error, or warns by `process.emitWarning` if nothing listens to that,
   *   pauses and campaigns again: at first for 0.5 to 1 s, so that another candidate may do better, and for twice as long each
   *   time up to 30 s. A term of more than 30 s makes the next pause short again.
   *
   * The `wait` of the election does not count here. Rejects with what ends it for good: `MisconfiguredError`,
   * `InvalidArgumentError`, also where the work is a generator or returns one, `TooManyWaitersError`, `ClientClosedError`; and with
   * the reason of `options.signal` when that aborts, once the work has settled and the term is given up.
   */
  async run<T>(work: Body<T>, options: RunOptions = {}): Promise<T> {
    const it = self(this);
    const looked = look(it.run, () => {
      checkBody(work, "run was not told the work to do: give a function");
      return runOptions(options);
    });
    const { signal, again = false } = looked;
    const failures = new native.Failures();
    for (;;) {
      const lease = await it.#elected(signal);
      if (lease === undefined) continue;
      const term = new Term(lease, it.#lock, looked);
      const seat = { lease, term };
      it.#seat = seat;
      const begun = performance.now();
      const ended = await term.work(work);
      const led = performance.now() - begun;
      const over = ended === undefined || term.isOver();
      await term.giveUp();
      if (it.#seat === seat) it.#seat = undefined;
      // The next term would bring no more.
      if (ended !== undefined && "result" in ended) finished(ended.result, it.run);
      if (over) {
        if (ended !== undefined && "error" in ended) it.#tellLate(ended.error, lease);
        if (term.wasAborted) throw signal!.reason;
      } else if ("error" in ended) {
        const pause = checked(failures.pauseAfter(Math.max(0, led)));
        it.#tellFailed(ended.error, pause);
        await it.#pause(pause, signal);
      } else if (again) {
        await it.#pause(checked(failures.noneAfter(Math.max(0, led))), signal);
      } else {
        return ended.result;
      }
    }
  }

  /** The next term; nothing where it was lost before the event loop, which was busy, saw it. */
  async #elected(signal: AbortSignal | undefined): Promise<Lease | undefined> {
    try {
      return await this.#lock[acquireFor]({ wait: Infinity, signal }, undefined, called(this.run));
    } catch (error) {
      // The reason of a signal may be such an error, too.
      if (error instanceof LockLostError && signal?.aborted !== true) return undefined;
      throw error;
    }
  }

  async #pause(length: number, signal: AbortSignal | undefined): Promise<void> {
    const start: Parameters<typeof begin>[1] = (port, number) => this.#core.pause(port, number, length);
    valueOf(await (signal === undefined ? begin<null>(this.run, start) : beginUntil<null>(this.run, signal, start)), this.run);
  }

  #tellFailed(error: unknown, pause: number): void {
    const template = "the work of the leader of '{lock}' failed, which campaigns again in {pause} ms: {reason}";
    const fields = { lock: shown(this.name), pause: pause.toFixed(0), reason: inOneLine(error) };
    const line = lineOf("warn", "leader_failed", template, fields, error);
    if (hear(line)) return;
    const detail = error instanceof Error && error.stack !== undefined ? error.stack : inspect(error);
    process.emitWarning(line.message, { type: "QuorlockWarning", detail });
  }

  /** What the work throws because it was asked to end is no news. */
  #tellLate(error: unknown, { signal }: Lease): void {
    if (error === signal.reason || (error instanceof Error && error.name === "AbortError")) return;
    const template = "the work of the leader of '{lock}' failed, whose term is over: {reason}";
    hear(lineOf("info", "deposed_leader_failed", template, { lock: shown(this.name), reason: inOneLine(error) }, error));
  }

  /** Whether this candidate leads now. Exact at every call, as `lease.isHeld()`. */
  isLeader(): boolean {
    return self(this).#seat?.lease.isHeld() ?? false;
  }

  /**
   * Gives up the term that this candidate has, so that the next one is called; it may campaign again. Resolves to whether it
   * still led; false where it has no term.
   *
   * Where `run` has that term, the signal of the term aborts, the term is released when the work has settled, and `run`
   * campaigns again behind the others. This resolves when it is released; but where the work itself calls it, which it would
   * wait for, at once.
   */
  async resign(): Promise<boolean> {
    const it = self(this);
    const seat = it.#seat;
    it.#seat = undefined;
    if (seat === undefined) return false;
    const { lease, term } = seat;
    if (term === undefined) return await lease.release();
    const held = lease.isHeld();
    term.stop(new DOMException(`the term of ${inspect(it.name)} is given up`, "AbortError"));
    return term.isAround() ? held : await term.resigned;
  }

  /**
   * Who leads, as a quorum of the nodes has it; `null` where it agrees on no leader. One request to each node. It tells how it
   * was: it may have lost the term since. Rejects with `QuorumUnavailableError` if too few nodes answered to know.
   */
  async leader(): Promise<Holder | null> {
    return await self(this).#leader();
  }

  async #leader(): Promise<Holder | null> {
    const outcome = await begin<NativeHolder | null>(this.leader, (port, number) => this.#core.leader(port, number));
    return holderOf(valueOf(outcome, this.leader));
  }

  /**
   * Follows who leads: gives at once how it is, and then each change, whenever that comes.
   *
   *     for await (const { leader, known } of election.observe()) {
   *       console.log(known ? (leader?.label ?? "nobody") : "unknown");
   *     }
   *
   * It looks every second, or as often as `every` says. A term that was shorter than the time between two looks may be left
   * out. Where too few nodes answer it says so, and never names who led before. Leaving the loop ends it.
   *
   * The iterator throws `InvalidArgumentError` for an `every` of 0, `ClientClosedError` once the client is closed, and the
   * reason of the signal when that aborts.
   */
  observe(options: ObserveOptions = {}): AsyncIterableIterator<Leadership> {
    const it = self(this);
    const { every, signal } = look(it.observe, () => observeOptions(options));
    return new Observer(checked(it.#core.observe(every), it.observe), it.name, signal);
  }

  toString(): string {
    return inspect(self(this));
  }

  [inspect.custom](): string {
    const it = self(this);
    return `Election { ${inspect(it.name)}${it.isLeader() ? ", leads" : ""} }`;
  }
}

function inOneLine(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : inspect(error);
}
