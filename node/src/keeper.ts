/** What keeps the leases of a lock alive until they are released, and what is done for those that the program has forgotten. */

import { checked } from "./errors.js";
import { shown, warn } from "./log.js";
import type { LossReason } from "./loss.js";
import type { Name } from "./options.js";
import { port } from "./port.js";

export function lossOf(number: number): LossReason | null {
  const reason = checked(port.loss(number));
  return reason === "" ? null : (reason as LossReason);
}

/** By number. Nearly always there is one at most, and a map of one is larger than a lease. */
class Few<T> {
  #number = 0;
  #one: T | undefined;
  #more: Map<number, T> | undefined;

  set(number: number, value: T): void {
    if (this.#number !== 0) {
      (this.#more ??= new Map()).set(number, value);
      return;
    }
    this.#number = number;
    this.#one = value;
  }

  get(number: number): T | undefined {
    return this.#number === number ? this.#one : this.#more?.get(number);
  }

  delete(number: number): void {
    if (this.#number !== number) {
      this.#more?.delete(number);
      return;
    }
    this.#number = 0;
    this.#one = undefined;
  }

  get isEmpty(): boolean {
    return this.#number === 0 && !this.#more?.size;
  }

  all(): T[] {
    const more = this.#more === undefined ? [] : [...this.#more.values()];
    return this.#number === 0 ? more : [this.#one!, ...more];
  }
}

/** The leases of a lock by number, where nothing else of them is left. */
interface Numbers {
  readonly name: Name;
  readonly held: Few<number>;
}

/** Whose the leases are whose loss is to be told. */
const live = new Map<number, WeakRef<Keeper<unknown, unknown>>>();
/**
 * Releases leases that were collected, which happens when nothing has any lease of the lock, nor the lock; and tells that the program has
 * forgotten them.
 */
const collected = new FinalizationRegistry<Numbers>(({ name, held }) => {
  for (const number of held.all()) {
    // Else its loss has been reported.
    const isNews = live.delete(number);
    const loss = lossOf(number);
    if (isNews && (loss !== null || port.isHeld(number) === true)) {
      const when = loss === null ? "while it was held, and is released" : `after it was lost (${loss}), which nobody heard of`;
      const template = "the lease of '{lock}' was collected {when}: keep it, or its lock, for as long as the lock is needed, and release it then";
      warn("collected", template, { lock: shown(name), when });
    }
    port.forget(number);
  }
});

/** A client, as far as leases know it: whom they tell of a loss. */
interface Told<Loss> {
  emit(event: "lost", loss: Loss): boolean;
  listenerCount(event: "lost"): number;
}

/** What the leases of a lock share. It keeps them alive until they are released, and each keeps it. */
export class Keeper<Lease, Loss> {
  readonly name: Name;
  readonly client: Told<Loss>;
  readonly #kept = new Few<Lease>();
  readonly #numbers: Numbers;
  #itself: WeakRef<Keeper<Lease, Loss>> | undefined;
  /** How often it was registered to be looked after when it is collected. */
  #registered = 0;
  #isRegistered = false;

  constructor(name: Name, client: Told<Loss>) {
    this.name = name;
    this.client = client;
    this.#numbers = { name, held: new Few() };
  }

  keep(number: number, lease: Lease): void {
    this.#kept.set(number, lease);
    this.#numbers.held.set(number, number);
    live.set(number, (this.#itself ??= new WeakRef(this)) as WeakRef<Keeper<unknown, unknown>>);
    if (this.#isRegistered) return;
    this.#isRegistered = true;
    this.#registered += 1;
    collected.register(this, this.#numbers, this);
  }

  letGo(number: number): void {
    live.delete(number);
    this.#kept.delete(number);
    this.#numbers.held.delete(number);
    // A lock that was made for one lease leaves nothing to the collector. To register one that is used again and again for each lease would
    // cost more than all else that JavaScript does for it.
    if (this.#registered > 1 || !this.#kept.isEmpty) return;
    this.#isRegistered = false;
    collected.unregister(this);
  }

  /** The lease of that number, until the client has told its listeners of the loss. */
  static toBeTold(number: number): unknown {
    const keeper = live.get(number)?.deref();
    return keeper === undefined ? undefined : keeper.#kept.get(number);
  }

  static isTold(number: number): void {
    live.delete(number);
  }

  leases(): Lease[] {
    return this.#kept.all();
  }
}
