//! One caller's way to the lock past those of other clients: it asks, queues at
//! the lock's [home](crate::protocol::claim::home), is called, and asks again.
//!
//! Uncontended, all nodes are asked at once, and that is all. A caller that the
//! home refuses is queued there by the same request; a release reserves the
//! lock for the first in that queue and calls it. What the caller then does
//! about the other nodes is [`home::next`]. Timers stand in for calls that are
//! lost.
//!
//! A token lives from its first request until it is won or given up, over all polls: a poll whose
//! answer was lost is then known to be this waiter's. The waiter, which is no token, may be left in
//! a queue while tokens come and go; it becomes another once it has left one.

mod stages;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::failure_log::FailureLog;
use super::local_queue::LocalPlace;
use crate::clock::{Instant, Sleep};
use crate::node::{Mode, Nodes};
use crate::protocol::acquire::inbox::{Inbox, Notice, Registration};
use crate::protocol::claim::failure::NoQuorum;
use crate::protocol::claim::{IN_A_ROW, LockParams, Path, home};
use crate::protocol::claim_cell::ClaimCell;
use crate::protocol::counters::count;
use crate::protocol::quorum::{Kind, quorum};
use crate::protocol::set::Set;

/// See the [module documentation](self). Dropped, the attempt is undone and the
/// queues are left.
pub(crate) struct AcquireLoop<'a> {
    set: &'a Arc<Set>,
    terms: &'a LockParams,
    /// Our place in the line of this client.
    place: &'a LocalPlace,
    /// The nodes as the lock's homes.
    order: Vec<usize>,
    registration: Registration,
    /// The present token's; taken when it is won.
    hold: Option<Arc<ClaimCell>>,
    /// How much of its progress we know.
    seen: u64,
    /// In whose queue our waiter stands, or may.
    home: Option<usize>,
    stage: Stage,
    /// The home has called before we knew its answer.
    called: bool,
    /// And which slot is reserved for us.
    slot: Option<u32>,
    /// When nodes were asked last.
    asked: Instant,
    /// Attempts that came to their end.
    ended: u32,
    /// Polls in a row that no home has answered.
    in_vain: u32,
    /// What the nodes said to the attempts before.
    failures: FailureLog,
    /// As it was given up, wrong settings alone prevented a quorum.
    misconfigured: bool,
    /// The deadline has passed, and answers are awaited that say why in vain.
    overtime: bool,
    timer: Option<(Instant, Sleep)>,
}

/// What the loop is about.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The home alone was asked.
    Polling,
    /// It refused. It is asked again then, or when it calls.
    Waiting { until: Instant },
    /// All were asked; those that refused this many times, and again then.
    Asking { tries: u32, again: Option<Instant> },
    /// No node is asked before then.
    Pausing { until: Instant },
}

/// How the loop ended.
pub(crate) enum LoopEnd<T> {
    /// The lease.
    Won(Arc<ClaimCell>),
    /// The deadline came first, or nodes are set up so that there is no quorum. What the nodes have
    /// said.
    Failed(NoQuorum),
    /// What `reenter` had to offer.
    Reentered(T),
}

enum LoopEvent {
    Progress,
    Notice(Notice),
    Timer,
}

impl<'a> AcquireLoop<'a> {
    pub(crate) fn new(
        set: &'a Arc<Set>,
        inbox: &'a Arc<Inbox>,
        terms: &'a LockParams,
        place: &'a LocalPlace,
    ) -> AcquireLoop<'a> {
        AcquireLoop {
            set,
            terms,
            place,
            order: Vec::new(),
            registration: inbox.register(terms.keys.id()),
            hold: None,
            seen: 0,
            home: None,
            stage: Stage::Pausing {
                until: Instant::NEVER,
            },
            called: false,
            slot: None,
            asked: Instant::NEVER,
            ended: 0,
            in_vain: 0,
            failures: FailureLog::default(),
            misconfigured: false,
            overtime: false,
            timer: None,
        }
    }

    /// Goes on until the lock is won, and at most until `deadline`; where answers
    /// that are under way then decide why it was not, until they are in, at most
    /// for another `node_timeout`. `reenter` runs when something has changed in
    /// this client, and at timers; it may end the loop with a result of its own.
    // `&mut`: a loop taken by value would stand in the future twice.
    pub(crate) async fn run<T>(
        &mut self,
        deadline: Instant,
        reenter: &mut impl FnMut() -> Option<T>,
    ) -> LoopEnd<T> {
        let now = self.set.clock.now();
        if self.set.contention.is_seen(&self.terms.keys.lock, now) {
            self.draw(self.most());
            self.poll();
        } else {
            self.draw(self.most().min(self.place.block()));
            self.hold().take_any_slot();
            self.ask_all(self.hold().cheapest_path(now));
        }
        let latest = deadline + self.terms.timing.node_timeout;
        loop {
            let at = if self.overtime {
                latest
            } else {
                self.wake_at(deadline)
            };
            let event = self.event(at).await;
            if self.hold().is_won() {
                return LoopEnd::Won(self.hold.take().expect("looked at above"));
            }
            let now = self.set.clock.now();
            if now >= deadline {
                // Where the home has voted for us, the others are to be asked.
                if let LoopEvent::Progress = event {
                    self.go_on(now);
                }
                let lost = self.so_far();
                self.overtime = (now < latest) && lost.kind() == Kind::Undecided;
                if !self.overtime {
                    return LoopEnd::Failed(lost.in_the_end());
                }
                continue;
            }
            self.failures.forget_answered();
            let look = match event {
                LoopEvent::Progress => false,
                LoopEvent::Notice(notice) => notice.look,
                LoopEvent::Timer => true,
            };
            if look && let Some(entered) = reenter() {
                return LoopEnd::Reentered(entered);
            }
            match event {
                LoopEvent::Notice(notice) => self.take_notice(notice, now),
                LoopEvent::Progress | LoopEvent::Timer => self.go_on(now),
            }
            if self.misconfigured {
                let mut lost = self.so_far();
                lost.misconfigured = true;
                return LoopEnd::Failed(lost);
            }
        }
    }

    fn hold(&self) -> &Arc<ClaimCell> {
        self.hold.as_ref().expect("taken at the end only")
    }

    /// When to look although nothing has come.
    fn wake_at(&self, deadline: Instant) -> Instant {
        let mine = match self.stage {
            Stage::Waiting { until } | Stage::Pausing { until } => until,
            Stage::Asking {
                again: Some(again), ..
            } => again.min(self.hold().attempt_ends()),
            Stage::Asking { tries, .. } if tries > 0 => self.hold().attempt_ends(),
            Stage::Asking { .. } | Stage::Polling => return self.until_answered(deadline),
        };
        mine.min(deadline)
    }

    /// All that was asked is answered soon: with a deadline behind that, an uncontended
    /// acquire needs no timer.
    fn until_answered(&self, deadline: Instant) -> Instant {
        let answered = self.asked + 2 * self.terms.timing.node_timeout;
        if deadline < answered {
            deadline
        } else {
            Instant::FAR
        }
    }

    async fn event(&mut self, at: Instant) -> LoopEvent {
        if self.timer.as_ref().is_none_or(|(set, _)| *set != at) {
            self.timer = (at != Instant::FAR).then(|| (at, self.set.clock.sleep_until(at)));
        }
        poll_fn(|cx| {
            let hold = self.hold.as_ref().expect("taken at the end only");
            if hold.poll_progress(&mut self.seen, cx).is_ready() {
                return Poll::Ready(LoopEvent::Progress);
            }
            if self.overtime {
                self.failures.listen(cx);
                if self.so_far().kind() != Kind::Undecided {
                    return Poll::Ready(LoopEvent::Progress);
                }
            }
            if let Poll::Ready(notice) = self.registration.poll_notice(cx) {
                return Poll::Ready(LoopEvent::Notice(notice));
            }
            if let Some((_, timer)) = &mut self.timer
                && timer.as_mut().poll(cx).is_ready()
            {
                self.timer = None;
                return Poll::Ready(LoopEvent::Timer);
            }
            Poll::Pending
        })
        .await
    }

    /// What the nodes have said last.
    fn so_far(&self) -> NoQuorum {
        self.failures.summary(self.hold())
    }

    /// Asks the home alone: another than before, if that is out.
    fn poll(&mut self) {
        self.look_up_order();
        let there = |node: &&usize| !self.is_out(**node);
        let first = self.order.iter().find(there).copied();
        let home = first.or(self.home).unwrap_or(self.order[0]);
        if self.home.is_some_and(|before| before != home) {
            self.give_up(None);
        }
        if self.home != Some(home) {
            self.home = Some(home);
            self.registration.stands_at(Nodes::one(home), None);
        }
        self.stage = Stage::Polling;
        self.called = false;
        self.asked = self.set.clock.now();
        self.hold()
            .open(Nodes::one(home), Nodes::one(home), Path::Script, self.asked);
    }

    /// Asks all nodes, after a call to this waiter; of a semaphore for the slot that is reserved
    /// for it.
    fn ask_called(&mut self, slot: Option<u32>) {
        let slots = matches!(self.terms.keys.mode, Mode::AnySlot(_));
        if slots && !slot.is_some_and(|slot| self.hold().take_slot(slot)) {
            // No queue that this waiter stands in has called it, or the caller counts more slots
            // than it does.
            self.poll()
        } else {
            self.ask_all(Path::Script)
        }
    }

    /// Asks all nodes.
    fn ask_all(&mut self, path: Path) {
        self.look_up_order();
        let there = |node: &&usize| !self.is_out(**node);
        let first = || self.order.iter().find(there).copied();
        let home = self.home.or_else(first).unwrap_or(self.order[0]);
        self.home = Some(home);
        self.registration.stands_at(Nodes::one(home), None);
        self.stage = Stage::Asking {
            tries: 0,
            again: None,
        };
        self.called = false;
        let all = Nodes::all(self.order.len());
        // For the slots of a semaphore one waits in the line of all of them.
        let homes = match self.terms.keys.mode {
            Mode::AnySlot(_) => Nodes::NONE,
            _ => Nodes::one(home),
        };
        self.asked = self.set.clock.now();
        self.hold().open(all, homes, path, self.asked);
    }

    /// A node's id is known once it was connected to; it gets another when it
    /// loses its memory.
    fn look_up_order(&mut self) {
        let ids = self.set.links.iter().map(|link| link.id());
        self.order = home::order(&self.terms.keys.lock, ids);
    }

    /// A pause while no node can vote.
    fn pause_for_nodes(&mut self, now: Instant) {
        let most = self.terms.timing.node_timeout;
        self.stage = Stage::Pausing {
            until: now + self.set.rng.between(most / 5, most),
        };
    }

    fn is_out(&self, node: usize) -> bool {
        self.set.is_out(node, &self.terms.keys.lock)
    }

    fn is_any_there(&self) -> bool {
        (0..self.order.len()).any(|node| !self.is_out(node))
    }

    fn is_quorum_there(&self) -> bool {
        let there = (0..self.order.len()).filter(|node| !self.is_out(*node));
        there.count() >= quorum(self.order.len())
    }

    /// Gives the token up and draws another. The waiter stays in the queue of
    /// `stay`, or becomes another.
    fn give_up(&mut self, stay: Option<usize>) {
        let lost = self.so_far();
        self.misconfigured = lost.misconfigured;
        self.place.tell(Arc::new(lost));
        let hold = self.hold.take().expect("taken at the end only");
        hold.give_up(stay);
        self.failures.note(hold);
        count(&self.set.counters.attempts_lost);
        self.home = stay;
        if stay.is_none() {
            self.registration.become_another();
        }
        self.draw(self.most());
    }

    /// How many fences to ask for where others may come to wait behind us.
    fn most(&self) -> u32 {
        let passed_on = !self.terms.asked.fair && self.terms.keys.mode.is_alone();
        if passed_on { 1 + IN_A_ROW } else { 1 }
    }

    fn draw(&mut self, block: u32) {
        let (waiter, now) = (Some(self.registration.waiter()), self.set.clock.now());
        self.hold = Some(ClaimCell::new(
            self.set, self.terms, block, waiter, self.home, now,
        ));
        self.seen = 0;
    }
}

impl Drop for AcquireLoop<'_> {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.release();
        }
    }
}
