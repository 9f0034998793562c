/** What the work of a call runs under: one lease, or several. Not part of the API. */

/** Throws if the lease was lost, or one of them, for a scope whose body ended normally. */
export const throwIfLost = Symbol("throwIfLost");

export interface Held {
  release(): Promise<boolean>;
  [throwIfLost](from: Function): void;
}
