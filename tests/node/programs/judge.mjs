// Who is inside, as each counts itself in and out by its own hand; and what may not be.

/** What a program shows that may not be. */
export class Violation extends Error {}

/** One who is inside of one lock. */
export class Inside {
  /** Told that it is lost. */
  lost = false;

  /** `entered`: whom of those around it enters again. A body and what enters it count as one. */
  constructor(room, lease, what, entered) {
    this.room = room;
    this.lease = lease;
    this.token = lease.token;
    this.what = what;
    this.root = entered?.root ?? this;
  }

  get counts() {
    return !this.lost;
  }
}

/** What one lock protects. */
export class Room {
  #inside = new Set();

  /** `words`, which a worker shares: who is inside here, who is there, whether both were, and whether the worker is to end. */
  constructor(name, most, words) {
    this.name = name;
    this.most = most;
    this.words = words;
  }

  get inside() {
    return [...this.#inside];
  }

  /** Counts one in. */
  enter(inside) {
    for (const other of this.#inside) {
      if (!other.counts) continue;
      if (other.token === inside.token) {
        if (other.root === inside.root) continue;
        throw new Violation(`${inside.what} was let in beside ${other.what}, which holds ${this.name} and is not around it`);
      }
      if (other.lease.isShared() && inside.lease.isShared()) continue;
      const tokens = new Set([inside, ...this.#inside].filter((one) => one.counts).map((one) => one.token));
      if (tokens.size > this.most) {
        throw new Violation(`${inside.what} is inside of ${this.name} beside ${other.what}: ${tokens.size} of ${this.most}`);
      }
    }
    this.#inside.add(inside);
    this.#tell();
  }

  leave(inside) {
    this.#inside.delete(inside);
    this.#tell();
  }

  /** Who is inside holds the lock, or was told. */
  check() {
    for (const inside of this.#inside) {
      if (inside.lost || inside.lease.isHeld()) continue;
      throw new Violation(`${inside.what} is inside of ${this.name} and does not hold it: ${inside.lease.lossReason ?? "released"}`);
    }
  }

  /** The lock was lost on purpose: who held it has to know at once. */
  lose() {
    for (const inside of this.#inside) {
      if (inside.lost || inside.lease.isHeld()) continue;
      if (inside.lease.lossReason === null) throw new Violation(`${inside.what} lost ${this.name} and is not told why`);
      inside.lost = true;
    }
    this.#tell();
  }

  #tell() {
    if (this.words === undefined) return;
    const here = [...this.#inside].some((one) => one.counts);
    Atomics.store(this.words, 0, here ? 1 : 0);
    if (here && Atomics.load(this.words, 1) === 1) Atomics.store(this.words, 2, 1);
  }
}

