//! Votes of readers: "share", "share_extend".

use std::time::Duration;

use quorlock::sim::{Op, Repair, Reply};

use super::line::Turn;
use super::lock::{Form, Key, Whom, left, ms};
use super::node::{AHEAD, Node};

/// So many readers share a lock at most.
const MOST: usize = 10_000;
/// The lock's key lives longer than each of its readers by so many ms.
const LONGER: u64 = 1_000;

impl Node<'_> {
    /// Whether the request's value is a reader's that has not ended.
    fn shares(&self) -> bool {
        let until = self.lock.readers.get(&self.request.value);
        until.is_some_and(|until| self.time <= *until)
    }

    /// "share".
    pub(super) fn share(&mut self, ttl: Duration, candidate: u64) -> Reply {
        let (own, held) = (self.shares(), !self.alone_free());
        if !held && self.banned(&self.request.value) {
            return Reply::NotMine;
        }
        if let Some(left) = self.quarantine
            && (!held || self.joins())
        {
            return Reply::Quarantined { left };
        }
        if !own {
            // guard: held by one alone
            if held {
                return self.refuse(self.keeps_out());
            }
            if let Some(refusal) = self.keeps_reader_out() {
                return refusal;
            }
            self.leave();
        }
        let base = self.base();
        self.vote_shared(ttl, 0, base);
        if let Some(Key {
            form: Form::Shared(_, stored, _),
            ..
        }) = &mut self.lock.key
        {
            *stored = base;
        }
        let lasts = None;
        if candidate == 0 || self.request.keys.fence_ttl.is_none() {
            let fence = self.counted().unwrap_or(0);
            return Reply::Granted { fence, lasts };
        }
        let fence = candidate.min(self.time + AHEAD).max(base + 1);
        self.raise(fence);
        Reply::Granted { fence, lasts }
    }

    /// The refusal of a reader for a reservation, for the queue, or for the crowd.
    fn keeps_reader_out(&mut self) -> Option<Reply> {
        let let_in = matches!(self.request.op, Op::Acquire { let_in: true, .. });
        let passes = let_in && self.lock.queue.is_empty();
        match self.reserved() {
            Some(Whom::Waiter(..)) if passes => {}
            None => {
                let me = self.request.waiter.clone();
                let last = self.last().map(|(_, until)| until);
                // guard: behind a waiter that wants the lock alone
                if self.serve(me.as_ref(), last) == Turn::AfterReaders {
                    return Some(self.refuse(self.keeps_out()));
                }
                if matches!(self.reserved(), Some(Whom::Waiter(..))) {
                    return Some(self.refuse_reserved());
                }
            }
            // guard: reserved for one that wants it alone
            Some(Whom::Waiter(..)) => return Some(self.refuse_reserved()),
            Some(_) => {}
        }
        if self.last().is_some() && self.lock.readers.len() >= MOST {
            return Some(self.refuse_for(self.keeps_out(), None));
        }
        None
    }

    fn refuse_reserved(&mut self) -> Reply {
        let until = self.form().and_then(|form| form.until()).unwrap_or(0);
        self.refuse_for(Some(left(until, self.time)), None)
    }

    /// BASE: what was counted for one alone; 0 where that is not known.
    fn base(&self) -> u64 {
        match &self.lock.key {
            Some(Key {
                form: Form::Shared(_, base, _),
                ..
            }) if *base != 0 => *base,
            _ if self.request.keys.fence_ttl.is_some() => self.counted().unwrap_or(0).max(1),
            _ => 0,
        }
    }

    /// A reader's vote for the ttl, and until `least` at least.
    fn vote_shared(&mut self, ttl: Duration, least: u64, base: u64) -> u64 {
        let until = least.max(self.time + ms(ttl) * 1000);
        let outlives = (left(until, self.time) + LONGER).max(ms(self.request.keys.waits.place));
        let end = self.now() + outlives;
        match self.lock.key.clone() {
            Some(Key {
                form: Form::Shared(..),
                ..
            }) => self.lengthen(end),
            other => {
                self.lock.readers.clear();
                let whom = match other.map(|key| key.form) {
                    Some(Form::Reserved(until, whom)) if self.time <= until => (until, whom),
                    _ => (0, Whom::Nobody),
                };
                self.put(Form::Shared(whom.0, base, whom.1), end);
            }
        }
        let vote = self.lock.readers.entry(self.request.value.clone());
        let vote = vote.or_default();
        *vote = until.max(*vote);
        until
    }

    /// "share_extend", modes 0 to 2.
    pub(super) fn share_extend(&mut self, ttl: Duration, repair: Repair, fence: u64) -> Reply {
        let (own, alone) = (self.shares(), self.own());
        let stores = self.alone_free() && repair != Repair::No;
        if !own && !alone && !stores {
            return Reply::NotMine;
        }
        if self.banned(&self.request.value) {
            return Reply::Banned;
        }
        if let Some(left) = self.quarantine
            && !matches!(repair, Repair::InQuarantine { .. })
        {
            return Reply::Quarantined { left };
        }
        self.raise(fence);
        let base = match &self.lock.key {
            Some(Key {
                form: Form::Shared(_, base, _),
                ..
            }) => *base,
            _ => self.base(),
        };
        // A downgrade keeps the longer end of the two.
        let least = match &self.lock.key {
            Some(key) if alone => match (&key.form, key.end) {
                (Form::Held(until, _), _) => *until,
                (_, None) => 0,
                (_, Some(end)) => self.time + (end - self.now()) * 1000 + 1000,
            },
            _ => 0,
        };
        let until = self.vote_shared(ttl, least, base);
        if alone && self.quarantine.is_none() {
            self.serve(None, Some(until));
        }
        Reply::Extended {
            repaired: !own && !alone,
        }
    }

    /// "share_extend", mode 3.
    pub(super) fn share_confirm(&mut self, ttl: Duration, fence: u64) -> Reply {
        let Some(Key {
            form: Form::Shared(_, base, _),
            ..
        }) = self.lock.key
        else {
            return Reply::NotMine;
        };
        if !self.shares() {
            return Reply::NotMine;
        }
        if self.banned(&self.request.value) {
            return Reply::Banned;
        }
        let least = match base {
            0 => self.counted().unwrap_or(0),
            base => base,
        };
        // guard: the fence is beyond BASE
        if self.request.keys.fence_ttl.is_some() && least >= fence {
            return Reply::Greater { fence: least };
        }
        self.raise(fence);
        self.vote_shared(ttl, 0, base);
        Reply::Confirmed
    }
}
