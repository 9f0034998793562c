"use strict";
// `Mutex`, `withTimeout` and `tryAcquire` of the package `async-mutex` over Quorlock.
//
// To port a program: give the mutex a name. `mutex.acquire()` is `lock.acquire()`, whose lease has `release()`;
// `runExclusive(f)` is `redlock(name, f)`; `withTimeout` is the option `wait`, `tryAcquire` is `lock.tryAcquire()`, and
// `cancel()` is the `signal` that is given to `acquire`. `isLocked` asks a server, and is awaited.

const { clientOf, LONG, quorlock } = require("./nodes.cjs");

const E_TIMEOUT = new Error("timeout while waiting for mutex to become available");
const E_ALREADY_LOCKED = new Error("mutex already locked");
const E_CANCELED = new Error("request for lock canceled");

let number = 0;

class Mutex {
  constructor(cancelError = E_CANCELED) {
    this.cancelError = cancelError;
    this.waits = new AbortController();
    this.wait = LONG;
    this.lock = clientOf({ options: {} }).lock(`async-mutex:${process.pid}:${number++}`);
  }

  async acquire() {
    this.lease = await this.lock.acquire({ wait: this.wait, signal: this.waits.signal });
    return this.lease.release.bind(this.lease);
  }

  async runExclusive(work) {
    const release = await this.acquire();
    try {
      return await work();
    } finally {
      await release();
    }
  }

  release() {
    return this.lease?.release();
  }

  isLocked() {
    return this.lock.isLocked();
  }

  cancel() {
    this.waits.abort(this.cancelError);
    this.waits = new AbortController();
  }
}

/** A mutex whose `acquire` gives up after a time, 0 for at once. */
function limited(mutex, wait, kind, error) {
  const acquire = mutex.acquire;
  mutex.wait = wait;
  mutex.acquire = () =>
    acquire.call(mutex).catch((failed) => {
      throw failed instanceof kind ? error : failed;
    });
  return mutex;
}

const withTimeout = (mutex, wait, error = E_TIMEOUT) => limited(mutex, wait, quorlock.LockTimeoutError, error);
const tryAcquire = (mutex, error = E_ALREADY_LOCKED) => limited(mutex, 0, quorlock.LockContendedError, error);

module.exports = { Mutex, withTimeout, tryAcquire, E_TIMEOUT, E_ALREADY_LOCKED, E_CANCELED };
