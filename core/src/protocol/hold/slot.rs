//! Which slot of a semaphore a token is to have.
//!
//! A slot is a lock of its own: its token has votes for that one slot alone, and whoever has a
//! quorum of them holds it. So nothing that keeps holders apart is here, and there is no more
//! to a semaphore than to choose. Whoever knows of no others tries any one. Whoever was refused
//! that, or knows better, asks the home, where the waiters for all of the slots stand in one
//! queue: it says which one is free, and reserves that for it. A semaphore that counts on each
//! node instead lets in more than its limit: of three nodes that let in two each, any two make a
//! quorum, for three holders in all.

use std::future::poll_fn;
use std::sync::{Arc, MutexGuard};

use super::{Hold, State};
use crate::hash::fnv1a;
use crate::node::{Keys, Mode, Nodes, Reply};
use crate::protocol::hold::{Means, Terms};
use crate::protocol::home;
use crate::protocol::set::Set;

impl Hold {
    /// Whether it is yet to be found out which slot it is to have.
    pub(crate) fn is_undecided(&self) -> bool {
        matches!(self.keys().mode, Mode::AnySlot(_))
    }

    /// The keys by which it is asked for: its terms', or those of its slot.
    pub(super) fn asked_by(&self) -> &Arc<Keys> {
        match self.terms.keys.mode {
            Mode::AnySlot(_) => self.keys(),
            _ => &self.terms.keys,
        }
    }

    /// The slot that is looked at first. Any of them, so that those who come together seldom
    /// try the same.
    pub(super) fn first_slot(&self) -> u32 {
        match self.terms.keys.mode {
            Mode::AnySlot(slots) => (fnv1a(self.token().as_bytes()) % u64::from(slots)) as u32,
            _ => 0,
        }
    }

    /// It is to have any slot, if it is one of a semaphore that it asks for.
    pub(crate) fn take_any_slot(&self) {
        self.take_slot(self.first_slot());
    }

    /// It is to have this slot. False where it has none of that number.
    pub(crate) fn take_slot(&self, slot: u32) -> bool {
        let Mode::AnySlot(slots) = self.terms.keys.mode else {
            return true;
        };
        let there = slot < slots;
        if there {
            let keys = || Arc::new(self.terms.keys.of_slot(slot));
            self.own_keys.get_or_init(keys);
        }
        there
    }

    /// Which slot the home has chosen, of which nothing has come yet.
    pub(crate) fn chosen(&self) -> Option<u32> {
        let undecided = self.is_undecided();
        self.state().round.chosen.filter(|_| undecided)
    }

    /// Takes the home's answer to who is undecided.
    pub(super) fn take_choice(&self, mut state: MutexGuard<'_, State>, reply: &Reply) {
        if let Reply::Chosen { slot } = reply {
            state.round.chosen = Some(*slot);
        }
        state.round.progress += 1;
        let wakers = state.round.wakers.take();
        drop(state);
        wakers.wake();
    }
}

/// Which slot is free, for one who does not wait, as the home says.
pub(crate) async fn look_for_slot(set: &Arc<Set>, terms: &Terms) -> Option<u32> {
    let now = set.clock.now();
    let ids = set.links.iter().map(|link| link.id());
    let order = home::order(&terms.keys.lock, ids);
    let home = order
        .into_iter()
        .find(|node| !set.is_out(*node, &terms.keys.lock))?;
    let looks = SlotProbe(Hold::new(set, terms, 1, None, None, now));
    looks
        .0
        .open(Nodes::one(home), Nodes::NONE, Means::Script, now);
    let mut seen = 0;
    poll_fn(|cx| looks.0.poll_progress(&mut seen, cx)).await;
    looks.0.chosen()
}

/// One who looks, and is nobody any more when it is dropped.
struct SlotProbe(Arc<Hold>);

impl Drop for SlotProbe {
    fn drop(&mut self) {
        self.0.release();
    }
}
