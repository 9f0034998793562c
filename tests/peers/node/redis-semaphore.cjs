"use strict";
// `Mutex` and `RedlockMutex` of the package `redis-semaphore` over Quorlock.
//
// To port a program: `new Mutex(redis, key, { lockTimeout, acquireTimeout })` is `client.lock(key, { ttl, wait })`. What
// `acquire` resolves to is the lease; it is renewed without being asked, `lease.signal` and the client's event `lost` stand
// for `onLockLost`, and `lease.isHeld()` for `isAcquired`.

const { clientOf, quorlock } = require("./nodes.cjs");

class LostLockError extends Error {}

class TimeoutError extends Error {}

const lost = ({ message }) => {
  throw new LostLockError(message);
};

class RedlockMutex {
  constructor(clients, key, { lockTimeout = 10_000, acquireTimeout = 10_000, refreshInterval = 1, onLockLost = lost } = {}) {
    this.key = `mutex:${key}`;
    this.onLockLost = onLockLost;
    // When it is renewed Quorlock decides; 0 is never.
    this.renew = refreshInterval > 0;
    this.lock = clientOf(...clients).lock(this.key, { ttl: lockTimeout, wait: acquireTimeout, renew: this.renew });
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

class Mutex extends RedlockMutex {
  constructor(client, ...rest) {
    super([client], ...rest);
  }
}

module.exports = { Mutex, RedlockMutex, LostLockError, TimeoutError };
