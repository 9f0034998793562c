//! Locks that a node cannot vote for, though it may vote for others: their keys are of another
//! type, or, of a node in [parts](crate::node::Link::in_parts), the part that has them is away,
//! in quarantine, or being moved. Such a fault says nothing of the node, so it is kept here by
//! the lock's key and not with the node.

use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::clock::Instant;
use crate::hash::HashMap;
use crate::mutex::lock;

/// Locks that are remembered. Beyond it those are forgotten that may be asked for again.
const REMEMBERED: usize = 1024;

/// What is known of a node as to one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockHealth {
    /// It did not answer lately: out until this moment.
    pub(crate) silent_until: Instant,
    /// It could not vote lately: out until this moment.
    pub(crate) shut_until: Instant,
    /// It was waited for in vain as the lock's home, and has not answered sooner since.
    pub(crate) late: bool,
}

impl LockHealth {
    const GOOD: LockHealth = LockHealth {
        silent_until: Instant::NEVER,
        shut_until: Instant::NEVER,
        late: false,
    };

    pub(crate) fn out_until(&self) -> Instant {
        self.silent_until.max(self.shut_until)
    }
}

/// For each node of the set.
type NodeHealths = Box<[LockHealth]>;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct HealthByLock {
    /// How many locks there are, for nearly always there are none.
    count: AtomicUsize,
    /// By the lock's key.
    locks: Mutex<HashMap<Arc<[u8]>, NodeHealths>>,
}

impl HealthByLock {
    /// What is known of that node as to the lock of that key.
    pub(crate) fn of(&self, key: &[u8], node: usize) -> LockHealth {
        if self.count.load(Ordering::Relaxed) == 0 {
            return LockHealth::GOOD;
        }
        let locks = lock(&self.locks);
        locks.get(key).map_or(LockHealth::GOOD, |nodes| nodes[node])
    }

    /// Notes what is known of this node, of so many nodes. False where there is no room for another
    /// lock.
    pub(crate) fn note(
        &self,
        key: &Arc<[u8]>,
        (node, nodes): (usize, usize),
        now: Instant,
        note: impl FnOnce(&mut LockHealth),
    ) -> bool {
        let mut locks = lock(&self.locks);
        if locks.len() >= REMEMBERED && !locks.contains_key(key) {
            let is_out = |health: &LockHealth| now < health.out_until();
            locks.retain(|_, nodes| nodes.iter().any(is_out));
        }
        let full = locks.len() >= REMEMBERED;
        let noted = match locks.entry(key.clone()) {
            Entry::Vacant(_) if full => false,
            entry => {
                let known = entry.or_insert_with(|| vec![LockHealth::GOOD; nodes].into());
                note(&mut known[node]);
                true
            }
        };
        self.count.store(locks.len(), Ordering::Relaxed);
        noted
    }

    /// Notes what is better by now, where anything was known.
    pub(crate) fn mend(&self, key: &[u8], node: usize, mend: impl FnOnce(&mut LockHealth)) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut locks = lock(&self.locks);
        let Some(known) = locks.get_mut(key) else {
            return;
        };
        mend(&mut known[node]);
        if known.iter().all(|health| *health == LockHealth::GOOD) {
            locks.remove(key);
            self.count.store(locks.len(), Ordering::Relaxed);
        }
    }
}
