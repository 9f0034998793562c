//! What must be true of each step of a claim.

use std::time::Duration;

use super::super::specification::{agreed, drift_of, least_written, nanos, quorum};
use super::world::{Books, MEDIAN, NODES, Said, Word, World};
use crate::clock::Instant;
use crate::node::{AfterRelease, Mode, Op, Repair};
use crate::protocol::claim::effects::{Ask, Effects, ReleasePlan};
use crate::protocol::claim::{Claim, Event, Phase};
use crate::protocol::loss::LossReason;

/// One step.
pub(super) struct Judged<'a> {
    pub(super) before: &'a Claim,
    pub(super) after: &'a Claim,
    pub(super) event: &'a Event<'a>,
    pub(super) effects: &'a Effects,
    pub(super) now: Instant,
    pub(super) world: &'a World,
    pub(super) block: u32,
}

/// Whether nothing comes of it.
pub(super) fn is_silent(effects: &Effects) -> bool {
    !effects.done
        && effects.over.is_none()
        && effects.passed_on.is_none()
        && effects.asks.is_empty()
        && effects.release.is_none()
        && effects.release_adopted.is_none()
}

/// The votes of a claim that lives are as the specification has them.
pub(super) fn votes(claim: &Claim, books: &Books) -> Option<&'static str> {
    let mut own = claim.counted().zip(&books.votes);
    let same = own.all(|((end, mark, (until, server)), vote)| {
        let found = mark.found == vote.found && mark.blind == vote.blind;
        let confirmed = (until.0, server) == vote.confirmed;
        end.0 == vote.end && mark.stored == vote.mark && found && confirmed
    });
    (!same && claim.phase() != Phase::Dead).then_some("votes are as the specification has them")
}

impl Judged<'_> {
    /// What is wrong with the step; `None`: nothing.
    pub(super) fn verdict(&self, books: &Books) -> Option<&'static str> {
        let rules = [
            ("a lease is as long as its votes", self.length(books)),
            ("a lease is won by all conditions", self.wins(books)),
            ("what has all conditions is won", self.must_win(books)),
            ("what can be won is not given up", self.gives_up(books)),
            ("the end of a lease is told once", self.told(books)),
            ("the reason of a loss is the true one", self.reason(books)),
            (
                "a lease that is over ends at the first look",
                self.looks(books),
            ),
            ("what may be left is released", self.releases(books)),
            ("a release is sent until it is done", self.keeps_on()),
            ("a waiter leaves the queues", self.leaves(books)),
            (
                "by plain commands where nothing else was asked",
                self.releases_plainly(books),
            ),
            ("it is kept for as long as was asked", self.keeps(books)),
            ("what is asked is allowed", self.asks(books)),
            ("fences go on within the block", self.fences(books)),
            (
                "only what is valid is changed by its user",
                self.changes(books),
            ),
        ];
        let broken = rules.into_iter().find(|(_, holds)| !holds);
        broken.map(|(rule, _)| rule)
    }

    /// What comes of the step that is not all that common.
    pub(super) fn seen(&self) -> impl Iterator<Item = &'static str> {
        let asks = self.effects.asks.iter().filter_map(|ask| match ask.op {
            Op::Confirm { .. } => Some("writes a fence back"),
            Op::Acquire { .. } if self.effects.asks.len() == 1 => Some("asks a node once more"),
            Op::Extend { repair, .. } => match repair {
                Repair::InQuarantine { .. } => Some("takes a vote back in quarantine"),
                Repair::Yes | Repair::No => Some("takes a vote back"),
            },
            _ => None,
        });
        let plan = self.plan();
        let plainly = plan.is_some_and(|plan| plan.nodes.iter().any(|of| of.native));
        let others = [
            (plainly, "releases by plain commands"),
            (
                plan.is_some_and(|plan| plan.nodes.iter().any(|of| of.waiter)),
                "leaves queues",
            ),
            (plan.is_some_and(|plan| plan.keeps), "keeps"),
            (
                self.effects.homes.in_vain.is_some(),
                "waits for the home in vain",
            ),
            (self.effects.passed_on.is_some(), "passes on"),
        ];
        let others = others
            .into_iter()
            .filter_map(|(is, what)| is.then_some(what));
        let over = self.effects.over.and_then(|over| over.lost);
        asks.chain(others).chain(over.map(LossReason::as_str))
    }

    fn was(&self, phase: Phase) -> bool {
        self.before.phase() == phase
    }

    fn is(&self, phase: Phase) -> bool {
        self.after.phase() == phase
    }

    fn cap(&self, books: &Books) -> u64 {
        self.world.cap(books.begun.unwrap_or(self.now))
    }

    fn length(&self, books: &Books) -> bool {
        if self.is(Phase::Held) {
            self.after.end().0 == books.end().min(self.cap(books))
        } else {
            self.after.end() == Instant::NEVER
        }
    }

    fn wins(&self, books: &Books) -> bool {
        let won = self.was(Phase::Asking) && self.is(Phase::Held);
        if !won {
            return !self.effects.counts.acquired;
        }
        let fenced = self.world.terms.keys.fence_ttl.is_some();
        let needed = self.world.needed(self.now);
        let last = self.after.last_fence();
        let fences = if fenced {
            last != 0
                && agreed(&books.votes, last, needed)
                && self.after.fence() == last - u64::from(self.block - 1)
        } else {
            last == 0
        };
        fences && books.wins(self.now, self.world) && self.effects.counts.acquired
    }

    fn must_win(&self, books: &Books) -> bool {
        let open = self.was(Phase::Asking) && self.is(Phase::Asking);
        !(open && books.counts(self.event) && books.wins(self.now, self.world))
    }

    fn gives_up(&self, books: &Books) -> bool {
        let lost = self.was(Phase::Asking) && self.is(Phase::Dead);
        if !lost || matches!(self.event, Event::Released { .. }) {
            return !self.effects.counts.attempt_lost;
        }
        let good = books.lasting(self.world.needed(self.now));
        let open = good < quorum(NODES) && good + books.awaited() >= quorum(NODES);
        // Where fences do not agree, they are written back until the attempt ends, as long as a
        // quorum can take one.
        let pending = good >= quorum(NODES)
            && books.word(self.now, self.world) != Word::Refuses
            && self.world.needed(self.now) <= self.cap(books)
            && self.world.terms.keys.fence_ttl.is_none();
        !open && !pending && !books.wins(self.now, self.world) && self.effects.counts.attempt_lost
    }

    fn told(&self, books: &Books) -> bool {
        let ended = self.was(Phase::Held) && self.is(Phase::Dead);
        let over = self.effects.over;
        let told = over.is_some() == ended && books.told + u8::from(ended) <= 1;
        let same = over.is_none_or(|over| over.lost == self.after.loss());
        told && same && (!self.was(Phase::Dead) || self.is(Phase::Dead))
    }

    fn reason(&self, books: &Books) -> bool {
        let lost = self.after.loss();
        if lost == self.before.loss() {
            return true;
        }
        // Its time was over before the event came.
        let over = self.before.end() <= self.now || matches!(self.event, Event::ClockStepped);
        match lost {
            None => false,
            Some(LossReason::Closed) => matches!(self.event, Event::Forfeited(_)),
            Some(LossReason::MaxHold) => self.now.0 >= self.cap(books),
            Some(LossReason::Expired) => over && self.now.0 < self.cap(books),
            Some(LossReason::Forced) => books.forced && !over,
            Some(LossReason::Refused) => !books.forced && !over,
            Some(LossReason::OwnerGone) => false,
        }
    }

    fn looks(&self, _: &Books) -> bool {
        // To hand over or to take back is no look.
        let look = !matches!(
            self.event,
            Event::HandedOver
                | Event::TakenBack
                | Event::PassesOn { .. }
                | Event::Begins { .. }
                | Event::HomeDue
        );
        !look || !self.is(Phase::Held) || self.now < self.after.end()
    }

    fn plan(&self) -> Option<&ReleasePlan> {
        self.effects.release.as_ref()
    }

    fn releases(&self, books: &Books) -> bool {
        let died = !self.was(Phase::Dead) && self.is(Phase::Dead);
        let exported = matches!(self.event, Event::Exports { .. }) && self.effects.done;
        (0..NODES).all(|node| {
            let mut sent = self.plan().into_iter().flat_map(|plan| &plan.nodes);
            let token = sent.any(|of| usize::from(of.node) == node && of.token);
            // An exported lease leaves its votes.
            let stays = exported && books.said[node] == Said::Granted;
            let wanted = died && books.may_know(node) && !stays;
            // Nothing is released of what lives.
            (token || !wanted) && (!token || died && !stays)
        })
    }

    /// A waiter that has won, or goes, leaves each queue in which it may stand but the one where it
    /// stays; of a node that has yet to answer, once that has.
    fn leaves(&self, books: &Books) -> bool {
        let stay = match self.event {
            Event::Released { stay } => *stay,
            _ => None,
        };
        (0..NODES).all(|node| {
            let mut sent = self.plan().into_iter().flat_map(|plan| &plan.nodes);
            let left = sent.any(|of| usize::from(of.node) == node && of.waiter);
            let answered = books.said[node] != Said::Awaited;
            let goes = self.is(Phase::Dead) && !self.was(Phase::Dead) && stay != Some(node);
            left == (books.queued[node] && (goes || self.is(Phase::Held) && answered))
        })
    }

    fn releases_plainly(&self, books: &Books) -> bool {
        let mut sent = self.plan().into_iter().flat_map(|plan| &plan.nodes);
        let shared = self.after.mode(self.world) == Mode::Shared;
        sent.all(|of| !of.native || !books.scripted[usize::from(of.node)] && !shared && !of.waiter)
    }

    /// It is sent again until no key of the token can stand any more.
    fn keeps_on(&self) -> bool {
        let ttl = self.world.ttl();
        let late = 2 * self.world.terms.timing.node_timeout + Duration::from_millis(6);
        let drift = drift_of(ttl, self.world.terms.drift);
        let end = (self.now + ttl + late).0 + drift;
        self.plan().is_none_or(|plan| plan.give_up.0 >= end)
    }

    fn keeps(&self, books: &Books) -> bool {
        let Some(plan) = self.plan() else {
            return true;
        };
        let keep = self.world.terms.asked.keep;
        let shared = self.after.mode(self.world) == Mode::Shared;
        let full = Duration::from_nanos(nanos(keep) + drift_of(keep, self.world.terms.drift));
        let end = books.handed_over.map(|at| at + full);
        let end = end.filter(|end| !keep.is_zero() && !shared && self.now < *end);
        // An export leaves the lock to the client that goes on with it.
        match end {
            Some(_) if matches!(self.event, Event::Exports { .. }) => true,
            Some(end) => plan.after == AfterRelease::TakenUntil(end) && plan.nodes.len() == NODES,
            None => plan.after == AfterRelease::Free,
        }
    }

    fn asks(&self, books: &Books) -> bool {
        if self.was(Phase::Dead) || self.is(Phase::Dead) {
            return self.effects.asks.is_empty();
        }
        self.effects.asks.iter().all(|ask| self.may_ask(ask, books))
    }

    fn may_ask(&self, ask: &Ask, books: &Books) -> bool {
        let (node, now) = (ask.node, self.now);
        let vote = &books.votes[node];
        if !self.is_in_time(ask, books) {
            return false;
        }
        match ask.op {
            Op::Acquire { .. } => {
                let waits = matches!(self.event, Event::Asks { .. });
                let may = books.said[node] != Said::Granted;
                self.is(Phase::Asking) && may && !(waits && books.said[node] == Said::Awaited)
            }
            Op::Confirm { fence, block, .. } => {
                let needed = self.world.needed(now);
                let least = least_written(&books.votes, needed, self.block, MEDIAN);
                let beyond = vote.end > needed && vote.mark != fence;
                self.is(Phase::Asking) && beyond && fence >= least && block == self.block
            }
            Op::Extend { repair, fence, .. } => {
                let valid = self.was(Phase::Held) && now < self.before.end();
                valid && fence == self.after.last_fence() && self.may_repair(ask, repair, books)
            }
            Op::Release | Op::Inspect | Op::Reserve { .. } => false,
        }
    }

    /// "Timings": for how long an answer is waited for, and until when the node may do it.
    fn is_in_time(&self, ask: &Ask, books: &Books) -> bool {
        let timeout = self.world.terms.timing.node_timeout;
        let begun = books.begun.unwrap_or(self.now);
        let attempt = match ask.op {
            Op::Acquire { .. } | Op::Confirm { .. } if !self.world.waits => begun + 2 * timeout,
            _ => Instant::FAR,
        };
        let late = (timeout + timeout / 10).as_micros() as u64;
        let most = self.world.time(ask.node, 1, self.now) + late;
        let bounded = ask.native || (1..=most).contains(&ask.not_after);
        bounded && ask.deadline <= (self.now + timeout).min(attempt)
    }

    /// R11: in quarantine the very server that gave the vote, while its end is ahead by its clock.
    fn may_repair(&self, ask: &Ask, repair: Repair, books: &Books) -> bool {
        let (until, server) = books.votes[ask.node].confirmed;
        match repair {
            Repair::InQuarantine { server: asked } => {
                let time = self.world.time(ask.node, server, self.now);
                let ahead = until.saturating_sub(self.now.0) / 1000;
                asked == server && until > self.now.0 && ask.not_after <= time + ahead
            }
            Repair::Yes => until <= self.now.0,
            Repair::No => false,
        }
    }

    fn fences(&self, _: &Books) -> bool {
        let (old, new) = (self.before.fence(), self.after.fence());
        let passed = self.effects.passed_on.is_some();
        let next = if passed && old != 0 { old + 1 } else { old };
        let won = self.was(Phase::Asking);
        (won || new == next) && new <= self.after.last_fence()
    }

    fn changes(&self, books: &Books) -> bool {
        let valid = self.was(Phase::Held) && self.now < self.before.end();
        let done = self.effects.done;
        match self.event {
            Event::Extends { lease, .. } | Event::Shares { lease } | Event::Exports { lease } => {
                done == (valid && *lease == self.before.lease())
            }
            Event::PassesOn { .. } => {
                let ample = self.now + self.world.ttl() / 2 <= self.before.end();
                let keep = self.world.terms.asked.keep;
                let kept = books.handed_over.is_some_and(|at| self.now < at + keep);
                let alone = self.before.mode(self.world) != Mode::Shared;
                let left =
                    self.before.fence() == 0 || self.before.fence() < self.before.last_fence();
                let number = self.after.lease() == self.before.lease() + u32::from(done);
                let may = valid && ample && !kept && alone && left;
                // A lease near its `max_hold` is not passed on.
                let near = self.world.terms.asked.max_hold.is_some();
                (done == may || near && !done) && number && self.after.end() == self.before.end()
            }
            Event::Released { .. } => done == valid,
            _ => !done,
        }
    }
}
