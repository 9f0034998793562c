//! Which slot of a semaphore a token is to have.
//!
//! A slot is a lock of its own: its token has votes for that one slot alone, and the token with a
//! quorum of them holds it. So nothing that keeps holders apart is here, and there is no more
//! to a semaphore than to choose. A client that knows of no others tries any slot. A client that was
//! refused it, or knows better, asks the home, where the waiters for all of the slots stand in one
//! queue: it says which one is free, and reserves that for the client. A semaphore that counts on each
//! node instead lets in more than its limit: of three nodes that let in two each, any two make a
//! quorum, for three holders in all.

use std::sync::Arc;

use super::Claim;
use super::effects::{Effects, Wake};
use super::env::Env;
use crate::hash::fnv1a;
use crate::node::{Keys, Mode, Reply};
use crate::token::Token;

impl Claim {
    /// Whether the home still has to choose the slot that the token is to have.
    pub(crate) fn is_undecided(&self, env: &impl Env) -> bool {
        matches!(self.keys(env).mode, Mode::AnySlot(_))
    }

    /// The keys under which the waiter stands: its terms', or those of its slot.
    pub(super) fn asked_by<'a>(&'a self, env: &'a impl Env) -> &'a Arc<Keys> {
        if env.terms().is_of_any_slot() {
            self.keys(env)
        } else {
            &env.terms().keys
        }
    }

    /// The slot that is looked at first. It is drawn, so that attempts of the same moment seldom
    /// try the same.
    pub(crate) fn first_slot(&self, env: &impl Env) -> u32 {
        match env.terms().keys.mode {
            Mode::AnySlot(slots) => {
                let token = &self.value.0[..Token::LEN];
                (fnv1a(token) % u64::from(slots)) as u32
            }
            _ => 0,
        }
    }

    /// The token is to have this slot. False where the semaphore has none of that number.
    pub(super) fn take_slot(&mut self, slot: u32, env: &impl Env) -> bool {
        let Mode::AnySlot(slots) = env.terms().keys.mode else {
            return true;
        };
        let there = slot < slots;
        if there {
            let keys = || Arc::new(env.terms().keys.of_slot(slot));
            self.own_keys.get_or_insert_with(keys);
        }
        there
    }

    /// Which slot the home has chosen, while it is [undecided](Claim::is_undecided).
    pub(crate) fn chosen(&self, env: &impl Env) -> Option<u32> {
        let undecided = self.is_undecided(env);
        self.round.chosen.filter(|_| undecided)
    }

    /// Takes the home's answer while the slot is undecided.
    pub(super) fn take_choice(&mut self, reply: &Reply, fx: &mut Effects) {
        if let Reply::Chosen { slot } = reply {
            self.round.chosen = Some(*slot);
        }
        self.round.progress += 1;
        fx.wake = Some(Wake::AfterSending);
    }
}
