"use strict";
// The package `redlock`, version 4, over Quorlock.
//
// To port a program: `redlock.lock(name, ttl)` is `client.lock(name, { ttl, renew: false }).acquire()`, or better without
// these options, for then the lease is renewed for as long as it is held; `lock.unlock()` is `lease.release()`, `disposer`
// is `redlock(name, body)` or `await using`. Several names are `client.lockAll(names)` in place of `client.lock(name)`, with
// the same options. Waiting is said in time and not in retries.

const { EventEmitter } = require("node:events");
const Bluebird = require("bluebird");
const { clientOf, quorlock } = require("./nodes.cjs");

class LockError extends Error {
  constructor(message, attempts) {
    super(message);
    this.name = "LockError";
    this.attempts = attempts;
  }
}

class Lock {
  constructor(resource, lease, attempts, attemptsRemaining) {
    // Leases that were won together have a token each, and no common one.
    Object.assign(this, { resource, asked: resource, lease, value: lease.token, attempts, attemptsRemaining });
    this.expiration = Date.now() + lease.remaining();
  }

  unlock(callback) {
    this.expiration = 0;
    // Theirs releases what `resource` says. The suite changes it, to see that fail, and a lease knows its own name.
    const released = this.resource === this.asked ? this.lease.release() : false;
    return Bluebird.resolve(released)
      .then((held) => {
        if (!held) throw new LockError(`the lock on ${this.resource} was not held`);
      })
      .nodeify(callback);
  }

  extend(ttl, callback) {
    return Bluebird.resolve(this.lease.extend(ttl))
      .catch(quorlock.QuorlockError, (error) => {
        throw new LockError(error.message, 0);
      })
      .then(() => {
        this.expiration = Date.now() + this.lease.remaining();
        return this;
      })
      .nodeify(callback);
  }
}

class Redlock extends EventEmitter {
  constructor(clients, { retryCount = 10, retryDelay = 200, retryJitter = 100 } = {}) {
    super();
    this.servers = clients;
    this.retries = { retryCount, retryDelay, retryJitter };
    this.client = clients.length > 0 ? clientOf(...clients) : new quorlock.Client({ nodes: [] });
  }

  lock(resource, ttl, callback) {
    return this.lockWithOptions(resource, ttl, {}, callback);
  }

  lockWithOptions(resource, ttl, options, callback) {
    return Bluebird.resolve(this.acquire(resource, ttl, { ...this.retries, ...options })).nodeify(callback);
  }

  async acquire(resource, ttl, { retryCount, retryDelay, retryJitter }) {
    const options = { ttl, renew: false };
    const lock = Array.isArray(resource) ? this.client.lockAll(resource, options) : this.client.lock(resource, options);
    try {
      // Theirs counts its attempts. Ours are called when the lock is free: there is the first, and there is waiting.
      const first = await lock.tryAcquire();
      const attempts = first === null ? 2 : 1;
      const lease = first ?? (await lock.acquire({ wait: retryCount * (retryDelay + retryJitter) }));
      return new Lock(resource, lease, attempts, retryCount - attempts);
    } catch (error) {
      throw new LockError(error.message, retryCount + 1);
    }
  }

  disposer(resource, ttl, failed = () => {}) {
    return this.lock(resource, ttl).disposer((lock) => lock.unlock().catch(failed));
  }

  quit(callback) {
    return Bluebird.all(this.servers.map((server) => server.quit())).nodeify(callback);
  }
}

module.exports = Object.assign(Redlock, { Lock, LockError });
