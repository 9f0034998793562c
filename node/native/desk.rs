//! What an environment has under way and what it holds. All of it is of the thread of that environment, but the queue.
//!
//! While operations are awaited, and only then, the bell keeps the environment alive: renewal must not.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use napi::sys;
use quorlock::binding::{Revocation, lock};
use quorlock::{Error, Lease, Lost};

use crate::queue::{Bell, Event, Left, Queue, Value, WonLeases};

/// A lease that JavaScript holds. Dropped, it is released in the background; one of
/// several when those are dropped, too.
pub(crate) struct HeldLease {
    pub(crate) core: Arc<Lease>,
    /// Rings at the loss, as long as it lives.
    _lost: Lost,
}

/// See the [module documentation](self).
pub(crate) struct Desk {
    env: sys::napi_env,
    bell: Arc<Bell>,
    pub(crate) queue: Arc<Queue>,
    /// The operations under way, with what ends them if they can be revoked.
    running: Mutex<HashMap<i64, Option<Revocation>>>,
    /// What else the environment stays alive for.
    stays: Cell<usize>,
    /// Whether the bell keeps it alive.
    kept: Cell<bool>,
    /// What JavaScript holds, by the number of the operation that won it.
    leases: Mutex<HashMap<i64, HeldLease>>,
}

impl Desk {
    pub(crate) fn new(env: sys::napi_env, bell: Arc<Bell>, queue: Arc<Queue>) -> Desk {
        Desk {
            env,
            bell,
            queue,
            running: Mutex::default(),
            stays: Cell::new(0),
            kept: Cell::new(false),
            leases: Mutex::default(),
        }
    }

    /// How many operations are under way.
    pub(crate) fn running(&self) -> usize {
        lock(&self.running).len()
    }

    /// An operation is under way and awaited, with what ends it if it can be revoked.
    pub(crate) fn expect(&self, number: i64, revocation: Option<Revocation>) {
        lock(&self.running).insert(number, revocation);
        self.keep();
    }

    /// It is awaited no more, and ends if it can be revoked. Returns whether it was.
    pub(crate) fn forget(&self, number: i64) -> bool {
        let forgotten = lock(&self.running).remove(&number);
        self.keep();
        forgotten.is_some()
    }

    /// The environment stays alive until as many calls with false have come.
    pub(crate) fn stay(&self, stays: bool) {
        let others = self.stays.get();
        self.stays.set(if stays {
            others + 1
        } else {
            others.saturating_sub(1)
        });
        self.keep();
    }

    /// Keeps the environment alive, or no longer.
    fn keep(&self) {
        let alive = self.stays.get() > 0 || self.running() > 0;
        if self.kept.replace(alive) == alive {
            return;
        }
        // SAFETY: the bell is not freed before this is, and this is the thread of its environment. Both do no more than to set
        // what the loop counts.
        unsafe {
            if alive {
                sys::napi_ref_threadsafe_function(self.env, self.bell.raw());
            } else {
                sys::napi_unref_threadsafe_function(self.env, self.bell.raw());
            }
        }
    }

    pub(crate) fn leases(&self) -> MutexGuard<'_, HashMap<i64, HeldLease>> {
        lock(&self.leases)
    }

    /// Lets go of a lease that has been released, if that has not been done yet.
    pub(crate) fn end(&self, lease: i64) -> Option<Left> {
        // Dropped when the table is free again: that takes other locks.
        let HeldLease { core, _lost } = self.leases().remove(&lease)?;
        Some(Left {
            token: core.token().to_owned(),
            fence: core.fence(),
            loss: core.loss().map(|reason| (reason, core.lost_error())),
            slot: core.slot(),
        })
    }

    /// All that has happened since the last call. What has been won is held for JavaScript from here on.
    pub(crate) fn news(&self) -> Vec<Event> {
        let mut events = self.queue.take();
        // JavaScript tells of a loss what the desk has of the lease.
        let losses = events.iter().any(|event| matches!(event, Event::Lost(..)));
        events.retain_mut(|event| match event {
            Event::Done(number, done) => {
                // An operation without a number was given up, and the lease that it has won is
                // dropped here.
                let is_awaited = self.forget(*number);
                if is_awaited {
                    match done {
                        Ok(Value::Lease(lease)) => {
                            let lease = lease.take();
                            *done = self.won(*number, lease).map(Value::Flag);
                        }
                        Ok(Value::Leases(won)) => {
                            let won = won.take();
                            *done = self.won_all(*number, won);
                        }
                        Ok(Value::Released(lease, held)) => {
                            let (lease, held) = (*lease, *held);
                            // Nothing is left where another release of it was over before.
                            let left = if losses { None } else { self.end(lease) };
                            *done = Ok(left.map_or(Value::Flag(held), |left| {
                                Value::Ended(held, Box::new(left))
                            }));
                        }
                        _ => {}
                    }
                }
                is_awaited
            }
            _ => true,
        });
        events
    }

    /// Keeps what an operation has won, if JavaScript takes it in time: that may have
    /// been busy for longer than the ttl. Returns whether it has won anything.
    fn won(&self, number: i64, lease: Option<Lease>) -> Result<bool, Error> {
        let Some(lease) = lease else {
            return Ok(false);
        };
        self.hold(number, Arc::new(lease.delivered()?));
        Ok(true)
    }

    /// The same for leases that were won together.
    fn won_all(&self, number: i64, won: Option<WonLeases>) -> Result<Value, Error> {
        let Some(WonLeases { leases, names }) = won else {
            return Ok(Value::Nothing);
        };
        let leases = leases.delivered()?;
        let place = |lease: &Arc<Lease>| names.iter().position(|name| name == lease.name());
        // Each is of one of them.
        let places: Vec<usize> = leases.parts().iter().filter_map(place).collect();
        for (lease, place) in leases.parts().iter().zip(&places) {
            self.hold(number + *place as i64, lease.clone());
        }
        let places = places.into_iter().map(|place| place as u32).collect();
        Ok(Value::Kept(leases, places))
    }

    fn hold(&self, number: i64, core: Arc<Lease>) {
        let queue = self.queue.clone();
        let lost = core.bell(move || queue.push(Event::Lost(number, false)));
        self.leases()
            .insert(number, HeldLease { core, _lost: lost });
    }

    /// The environment has ended.
    pub(crate) fn close(&self) {
        let running = std::mem::take(&mut *lock(&self.running));
        drop(running);
        let leases = std::mem::take(&mut *self.leases());
        drop(leases);
        self.queue.close();
    }
}
