//! Votes for one that has the lock alone: "Native acquire", "acquire", "extend", "adopt".

use std::time::Duration;

use quorlock::sim::{Op, Repair, Reply};

use super::line::Turn;
use super::lock::{Form, Key, banned_as, ms, proves};
use super::node::Node;

impl Node<'_> {
    /// "acquire".
    pub(super) fn acquire(&mut self, ttl: Duration, candidate: u64, block: u32) -> Reply {
        let (own, free) = (self.own(), self.free());
        // guard: a banned lease
        if (own || free) && self.banned(&self.request.value) {
            return Reply::NotMine;
        }
        // guard: in quarantine (rule Q)
        if let Some(left) = self.quarantine
            && (own || free || self.joins())
        {
            return Reply::Quarantined { left };
        }
        if own {
            self.lengthen_own(ttl);
            let fence = self.count(candidate, block);
            return Reply::Granted { fence, lasts: None };
        }
        // guard: held
        if !free {
            return self.refuse(self.keeps_out());
        }
        if self.is_mine() {
            // Of a lock that readers had, the waiter may still stand in the queue.
            if matches!(self.form(), Some(Form::Shared(..))) {
                self.leave();
            }
            return self.grant(ttl, candidate, block, true);
        }
        // guard: reserved for another
        if self.reserved().is_some() {
            return self.refuse(self.keeps_out());
        }
        let me = self.request.waiter.clone();
        match self.serve(me.as_ref(), None) {
            Turn::Nobodys => {
                self.leave();
                self.grant(ttl, candidate, block, false)
            }
            Turn::Mine => {
                self.leave();
                self.grant(ttl, candidate, block, true)
            }
            // guard: another's turn
            Turn::Anothers | Turn::AfterReaders => {
                let reservation = ms(self.request.keys.waits.reservation);
                self.refuse(Some(reservation))
            }
        }
    }

    fn grant(&mut self, ttl: Duration, candidate: u64, block: u32, crowded: bool) -> Reply {
        if crowded {
            let life = ms(self.request.keys.waits.place);
            self.hold_crowded(self.time + ms(ttl) * 1000, self.now() + life);
        } else {
            let value = self.request.value.clone();
            self.put(Form::Quiet(value), self.now() + ms(ttl));
        }
        let fence = self.count(candidate, block);
        Reply::Granted { fence, lasts: None }
    }

    /// "extend", modes 0 to 2.
    pub(super) fn extend(&mut self, ttl: Duration, repair: Repair, fence: u64) -> Reply {
        let (own, free) = (self.own(), self.free());
        let banned = self.banned(&self.request.value);
        let stores = free && repair != Repair::No;
        if !own && !stores {
            return Reply::NotMine;
        }
        if banned {
            return Reply::Banned;
        }
        // guard: in quarantine, but for mode 2 (R11)
        if let Some(left) = self.quarantine
            && !matches!(repair, Repair::InQuarantine { .. })
        {
            return Reply::Quarantined { left };
        }
        if own {
            self.lengthen_own(ttl);
        } else if self.is_crowded() {
            self.hold_crowded(self.time + ms(ttl) * 1000, self.key_end());
        } else {
            let value = self.request.value.clone();
            self.put(Form::Quiet(value), self.now() + ms(ttl));
        }
        self.raise(fence);
        Reply::Extended { repaired: !own }
    }

    /// A crowded form stands under the key, whatever it means by now.
    pub(super) fn is_crowded(&self) -> bool {
        let key = self.lock.key.as_ref();
        key.is_some_and(|key| !matches!(key.form, Form::Quiet(_)))
    }

    /// "extend", mode 3.
    pub(super) fn confirm(&mut self, ttl: Duration, fence: u64, block: u32) -> Reply {
        if !self.own() {
            return Reply::NotMine;
        }
        if self.banned(&self.request.value) {
            return Reply::Banned;
        }
        // guard: the counter is below all of the block
        if let Some(stored) = self.counted()
            && stored + u64::from(block) > fence
        {
            return Reply::Greater { fence: stored };
        }
        self.lengthen_own(ttl);
        self.store(fence);
        Reply::Confirmed
    }

    /// "adopt".
    pub(super) fn adopt(&mut self, ttl: Duration, candidate: u64, block: u32) -> Reply {
        let Some(adoption) = self.request.keys.adopts.clone() else {
            return Reply::NotMine;
        };
        if super::lock::lease(&adoption.value).is_none() {
            return Reply::NotMine;
        }
        let dead = self.banned(&adoption.value);
        self.ban(&adoption.value, adoption.ban);
        if self.banned(&self.request.value) {
            return Reply::NotMine;
        }
        let kept = matches!(self.form(), Some(Form::Kept(..)));
        let stands = self
            .holder()
            .is_some_and(|holder| proves(&adoption.value, &holder));
        // guard: that value, or the own one, stands there
        if !self.own() && (dead || kept || !stands) {
            return Reply::NotMine;
        }
        if let Some(left) = self.quarantine {
            return Reply::Quarantined { left };
        }
        self.lengthen_own(ttl);
        let fence = self.count(candidate, block);
        Reply::Granted { fence, lasts: None }
    }

    /// The lease of a value is banned for so long, and never shorter than it was.
    pub(super) fn ban(&mut self, value: &quorlock::sim::Value, long: Duration) {
        let until = self.time + ms(long) * 1000;
        let end = self.lock.bans.entry(banned_as(value)).or_default();
        *end = until.max(*end);
    }

    /// "Native acquire": `SET NX PXAT`, and `ZADD GT CH` with what keeps the counter warm. Returns whether the value was stored,
    /// and whether the candidate was counted.
    pub fn set_if_none(&mut self) -> (bool, bool) {
        let Op::Acquire { ttl, candidate, .. } = self.request.op else {
            return (false, false);
        };
        let not_after = self.request.not_after;
        let end = if not_after == 0 {
            self.now() + ms(ttl)
        } else {
            not_after / 1000
        };
        // guard: there is no key
        let stored = self.lock.key.is_none() && !self.other_layout;
        if stored && end > self.now() {
            self.put(Form::Quiet(self.request.value.clone()), end);
        }
        let ttl = self.request.keys.fence_ttl;
        let Some(ttl) = ttl.filter(|_| not_after != 0 && candidate != 0) else {
            return (stored, false);
        };
        let counter = self.lock.counter;
        let counted = counter.is_none_or(|(last, _)| last < candidate);
        let fence = counter.map_or(candidate, |(last, _)| last.max(candidate));
        self.lock.counter = Some((fence, Some(self.now() + ms(ttl + ttl / 4))));
        (stored, counted)
    }

    /// "Native release": deletes what is quiet and this value to the letter; whether it was there.
    pub fn delete_if_equal(&mut self) -> bool {
        let same = |key: &Key| key.form == Form::Quiet(self.request.value.clone());
        let there = self.lock.key.as_ref().is_some_and(same);
        if there {
            self.lock.key = None;
        }
        there
    }
}
