//! The keys of the locks and slots that calls are about.

use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::names::{self, Naming, aux, lock_key};
use quorlock::sim::{self, AuxKeys, Mode, Waits};

use super::NAMESPACE;

/// The keys of one lock, or one slot.
#[derive(Clone, Debug)]
pub struct Keys {
    pub lock: Arc<[u8]>,
    pub aux: AuxKeys,
    pub mode: Mode,
}

/// How many slots the semaphore has.
pub(super) const SLOTS: u32 = 3;

/// Of all locks, and of the slots of a semaphore.
pub fn keys() -> Vec<Keys> {
    let mut all = locks();
    all.extend((0..SLOTS).map(slot));
    all
}

fn semaphore() -> sim::Keys {
    let key = lock_key(NAMESPACE, b"s", Naming::Tagged).expect("a good name");
    let (lock, aux) = names::semaphore(NAMESPACE, &key);
    sim::Keys {
        lock: lock.into(),
        aux,
        waits: Waits {
            reservation: Duration::ZERO,
            place: Duration::ZERO,
            most: 0,
        },
        fence_ttl: None,
        mode: Mode::AnySlot(SLOTS),
        adopts: None,
        field: None,
    }
}

/// The keys of a slot; of one that is none, those of the semaphore.
pub(super) fn slot(number: u32) -> Keys {
    let keys = if number < SLOTS {
        semaphore().of_slot(number)
    } else {
        semaphore()
    };
    Keys {
        lock: keys.lock,
        aux: keys.aux,
        mode: keys.mode,
    }
}

pub(super) fn locks() -> Vec<Keys> {
    let names = [&b"a"[..], b"t_{7}", b"\0\r\n"];
    let keys = |name| {
        let lock = lock_key(NAMESPACE, name, Naming::Tagged).expect("a good name");
        Keys {
            aux: aux(NAMESPACE, &lock, Naming::Tagged),
            lock: lock.into(),
            mode: Mode::Exclusive,
        }
    };
    names.into_iter().map(keys).collect()
}
