//! The scripts `share` and `share_extend` on a node in memory: a vote that shares the lock.

use std::time::Duration;

use super::acquire::joins;
use super::lookup::KeyLookup;
use super::queue::{Message, QueueTurn};
use super::readers::MOST;
use super::times::{micros, tick};
use super::{MemoryNode, ReservedFor, StoredValue};
use crate::node::native::FURTHEST;
use crate::node::{Op, Repair, Reply, Request};

impl MemoryNode {
    /// Vote for a token that shares the lock, or a place in the queue.
    pub(super) fn share(
        &mut self,
        request: &Request,
        found: &KeyLookup,
        (ttl, candidate): (Duration, u64),
        messages: &mut Vec<Message>,
    ) -> Reply {
        let (now, time) = (found.now, found.time);
        let own = self.shares(request, found).is_some();
        let held = !found.alone_free();
        if !held && self.bans.has(request, now) {
            return Reply::NotMine;
        }
        if let Some(left) = found.quarantine
            && (!held || joins(request))
        {
            return Reply::Quarantined { left };
        }
        if !own {
            if held {
                return self.refuse(request, found, found.left());
            }
            let reserved = found.form.as_ref().and_then(|form| form.reserved(time));
            let let_in = matches!(request.op, Op::Acquire { let_in: true, .. });
            // Where a waiter is queued another client takes this node for the home.
            let lined = self.is_queued(request, now);
            let passes = let_in && !lined;
            let reserved = match reserved.cloned() {
                Some(ReservedFor::Waiter(_)) if passes => None,
                None => {
                    let (me, last) = (request.waiter.as_ref(), found.ends_last());
                    let turn = self.turn(request, me, last, now, messages);
                    if turn == QueueTurn::AfterReaders {
                        return self.refuse(request, found, found.left());
                    }
                    let form = self.form(&request.keys.lock, now);
                    form.and_then(|(form, _)| form.reserved(time)).cloned()
                }
                reserved => reserved,
            };
            if let Some(ReservedFor::Waiter(_)) = reserved {
                let (form, _) = self.form(&request.keys.lock, now).expect("reserved");
                let left = form.reservation_left(time);
                return self.refuse_for(request, found, Some(left), None);
            }
            if found.last.is_some() && self.sweep_readers(request, time) >= MOST {
                return self.refuse_for(request, found, found.left(), None);
            }
            self.leave(request, now);
        }
        let base = match self.form(&request.keys.lock, now) {
            Some((StoredValue::Shared { base, .. }, _)) if *base != 0 => *base,
            _ => self.base(request, now),
        };
        self.vote_shared(request, ttl, 0, base, now);
        if let Some((StoredValue::Shared { base: stored, .. }, _)) =
            self.keys.get_mut(&request.keys.lock)
        {
            *stored = base;
        }
        Reply::Granted {
            fence: self.count_shared(request, candidate, base, found),
            lasts: None,
        }
    }

    /// No fence that was counted for one alone is beyond it: all that was counted by now. 0
    /// where the request counts none, and so does not know.
    fn base(&self, request: &Request, now: crate::clock::Instant) -> u64 {
        match request.keys.fence_ttl {
            Some(_) => self.counted(request, now).unwrap_or(0).max(1),
            None => 0,
        }
    }

    /// Counts a fence beyond all that was counted for one alone: readers may have one number.
    fn count_shared(
        &mut self,
        request: &Request,
        candidate: u64,
        base: u64,
        found: &KeyLookup,
    ) -> u64 {
        if candidate == 0 || request.keys.fence_ttl.is_none() {
            return self.counted(request, found.now).unwrap_or(0);
        }
        let least = base + 1;
        let fence = candidate.min(found.time + FURTHEST).max(least);
        self.raise(request, fence, found.now);
        fence
    }

    /// Lengthens a vote that shares the lock, or stores it anew; makes one of a vote for one
    /// alone, and calls who waits to share it.
    pub(super) fn extend_shared(
        &mut self,
        request: &Request,
        found: &KeyLookup,
        ttl: Duration,
        repair: Repair,
        fence: u64,
        messages: &mut Vec<Message>,
    ) -> Reply {
        let now = found.now;
        let own = self.shares(request, found).is_some();
        let alone = found.own;
        let free = found.alone_free();
        if !own && !alone && (!free || repair == Repair::No) {
            return Reply::NotMine;
        }
        if self.bans.has(request, now) {
            return Reply::Banned;
        }
        if let Some(left) = found.quarantine
            && !matches!(repair, Repair::InQuarantine { .. })
        {
            return Reply::Quarantined { left };
        }
        self.raise(request, fence, now);
        let base = match &found.form {
            Some(StoredValue::Shared { base, .. }) => *base,
            _ => self.base(request, now),
        };
        // What a vote was counted until stands.
        let least = match (&found.form, alone) {
            (Some(StoredValue::Contended { until, .. }), true) => *until,
            (_, true) if found.end == crate::clock::Instant::FAR => 0,
            (_, true) => found.time + micros(tick(now).until(found.end)) + 1_000,
            (_, false) => 0,
        };
        let last = self.vote_shared(request, ttl, least, base, now);
        if alone && found.quarantine.is_none() {
            self.turn(request, None, Some(last), now, messages);
        }
        let repaired = !own && !alone;
        Reply::Extended { repaired }
    }

    /// Stores this fence for a vote that shares the lock, if it is beyond all that was counted
    /// for one alone.
    pub(super) fn confirm_shared(
        &mut self,
        request: &Request,
        found: &KeyLookup,
        ttl: Duration,
        fence: u64,
    ) -> Reply {
        let Some(StoredValue::Shared { base, .. }) = found.form else {
            return Reply::NotMine;
        };
        if self.shares(request, found).is_none() {
            return Reply::NotMine;
        }
        if self.bans.has(request, found.now) {
            return Reply::Banned;
        }
        // Where it is not known, all that was counted stands for it.
        let least = match base {
            0 => self.counted(request, found.now).unwrap_or(0),
            base => base,
        };
        if request.keys.fence_ttl.is_some() && least >= fence {
            return Reply::Greater { fence: least };
        }
        self.raise(request, fence, found.now);
        self.vote_shared(request, ttl, 0, base, found.now);
        Reply::Confirmed
    }
}
