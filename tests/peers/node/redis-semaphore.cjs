"use strict";
// `Mutex`, `RedlockMutex`, `Semaphore` and `RedlockSemaphore` of the package `redis-semaphore` over Quorlock.
//
// To port a program: `new Mutex(redis, key, { lockTimeout, acquireTimeout })` is `client.lock(key, { ttl, wait })`, and
// `new Semaphore(redis, key, limit, …)` is `client.semaphore(key, limit, …)`. What
// `acquire` resolves to is the lease; it is renewed without being asked, `lease.signal` and the client's event `lost` stand
// for `onLockLost`, and `lease.isHeld()` for `isAcquired`; `lease.export()` and `client.adopt(text)` stand for an `identifier`
// that is `acquiredExternally`.

const { clientOf, quorlock } = require("./nodes.cjs");

class LostLockError extends Error {}

class TimeoutError extends Error {}

const lost = ({ message }) => {
  throw new LostLockError(message);
};

class Lock {
  /** `make` gives the lock of a client, with options. */
  constructor(clients, key, make, { lockTimeout = 10_000, acquireTimeout = 10_000, refreshInterval = 1, onLockLost = lost } = {}) {
    this.key = key;
    this.onLockLost = onLockLost;
    // When it is renewed Quorlock decides; 0 is never.
    this.renew = refreshInterval > 0;
    this.lock = make(clientOf(...clients), { ttl: lockTimeout, wait: acquireTimeout, renew: this.renew });
  }

  async acquire() {
    if (!(await this.tryAcquire())) throw new TimeoutError(`Acquire ${this.constructor.name} ${this.key} timeout`);
  }

  async tryAcquire() {
    try {
      this.lease = await this.lock.acquire();
    } catch (error) {
      if (error instanceof quorlock.LockTimeoutError) return false;
      throw error;
    }
    // Theirs learns of a loss by a refresh.
    if (this.renew) this.lease.signal.addEventListener("abort", () => this.onLockLost(new LostLockError(`Lost ${this.key}`)));
    return true;
  }

  async release() {
    await this.lease?.release();
  }

  get isAcquired() {
    return this.lease?.isHeld() ?? false;
  }

  // Theirs is the value on the servers, which with us is the token, a dot and the label, empty here.
  get identifier() {
    return this.lease && `${this.lease.token}.`;
  }
}

class RedlockMutex extends Lock {
  constructor(clients, name, options) {
    const key = `mutex:${name}`;
    super(clients, key, (client, given) => client.lock(key, given), options);
  }
}

class RedlockSemaphore extends Lock {
  constructor(clients, name, limit, options) {
    const key = `semaphore:${name}`;
    // Of its slots each has a key, so it has no key of its own name.
    super(clients, key, (client, given) => client.semaphore(key, limit, { ...given, raw: false }), options);
  }
}

class Semaphore extends RedlockSemaphore {
  constructor(client, ...rest) {
    super([client], ...rest);
  }
}

class Mutex extends RedlockMutex {
  constructor(client, ...rest) {
    super([client], ...rest);
  }
}

module.exports = { Mutex, RedlockMutex, Semaphore, RedlockSemaphore, LostLockError, TimeoutError };
