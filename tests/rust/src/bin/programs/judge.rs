//! The judge of a program: who is inside of what, and what must hold there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quorlock::{Error, Lease, Leases};

use super::NAMES;

/// Whose lease it is: those of one party may be inside together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Party {
    Nobody(u64),
    Named { client: usize, name: &'static str },
}

/// What holds a lock: a lease, or one of several.
#[derive(Clone)]
pub(super) enum Held {
    One(Arc<Lease>),
    All(Arc<Leases>),
}

impl Held {
    pub(super) fn is_held(&self) -> bool {
        match self {
            Held::One(lease) => lease.is_held(),
            Held::All(leases) => leases.is_held(),
        }
    }

    pub(super) fn is_told_lost(&self) -> bool {
        match self {
            Held::One(lease) => lease.loss().is_some(),
            Held::All(leases) => leases.loss().is_some(),
        }
    }

    pub(super) async fn release(&self) -> Result<bool, Error> {
        match self {
            Held::One(lease) => lease.release().await,
            Held::All(leases) => leases.release().await,
        }
    }
}

/// A hold that is inside.
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) party: Party,
    pub(super) shared: bool,
    pub(super) slot: Option<u32>,
    pub(super) held: Held,
}

/// What is inside of each lock, and of the semaphore behind them.
#[derive(Default)]
pub(super) struct Judge {
    pub(super) places: Mutex<[Vec<Entry>; NAMES + 1]>,
    pub(super) numbers: AtomicU64,
    pub(super) wrong: Mutex<Option<String>>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Judge {
    pub(super) fn check(&self, holds: bool, why: &str) {
        if !holds {
            lock(&self.wrong).get_or_insert_with(|| why.to_owned());
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        lock(&self.wrong).is_some()
    }

    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn enter(
        self: &Arc<Judge>,
        place: usize,
        party: Party,
        shared: bool,
        held: &Held,
    ) -> Inside {
        let slot = match held {
            Held::One(lease) => lease.slot(),
            Held::All(_) => None,
        };
        // Another task of the owner may have downgraded the lease since it was entered again.
        let shared = shared || matches!(held, Held::One(lease) if lease.is_shared());
        let mut places = lock(&self.places);
        for here in &places[place] {
            let kept_apart = here.party != party
                && match place {
                    NAMES => here.slot == slot,
                    _ => !(shared && here.shared),
                };
            // The newcomer first: what it lost, another may have won since.
            if kept_apart && held.is_held() && here.held.is_held() {
                let [one, other] = [(here.party, here.shared, here.slot), (party, shared, slot)];
                let both = format!("{one:?} and {other:?}");
                self.check(
                    false,
                    &format!("two are inside of {place} that exclude each other: {both}"),
                );
            }
        }
        let id = self.number();
        places[place].push(Entry {
            id,
            party,
            shared,
            slot,
            held: held.clone(),
        });
        Inside {
            judge: self.clone(),
            place,
            id,
        }
    }

    /// Those of the party that are inside of the lock so that the call says yes.
    pub(super) fn which(
        &self,
        place: usize,
        party: Party,
        is: impl Fn(&Entry) -> bool,
    ) -> Vec<u64> {
        let places = lock(&self.places);
        let found = places[place]
            .iter()
            .filter(|here| here.party == party && is(here));
        found.map(|here| here.id).collect()
    }
}

/// Counts out when it is dropped.
pub(super) struct Inside {
    pub(super) judge: Arc<Judge>,
    pub(super) place: usize,
    pub(super) id: u64,
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut places = lock(&self.judge.places);
        let here = &mut places[self.place];
        let at = here.iter().position(|entry| entry.id == self.id);
        let gone = at.map(|at| here.swap_remove(at));
        drop(places);
        // Its release may wake another that looks here.
        drop(gone);
    }
}
