//! What follows from the nodes' answers, from a notice and from the time: the
//! stages of the loop, and how one comes after another.

use std::sync::Arc;
use std::time::Duration;

use super::{AcquireLoop, Stage};
use crate::clock::Instant;
use crate::node::{Mode, Nodes, QueueInfo};
use crate::protocol::acquire::inbox::Notice;
use crate::protocol::claim::Path;
use crate::protocol::claim::home::{self, NextStep, NodeState};
use crate::protocol::retry;

/// After this many polls in a row without an answer all nodes are asked.
const ALL_ASKED: u32 = 3;

/// This many times the nodes that refused are asked again for a slot of a semaphore. Whose slot
/// it is may lack the home's vote alone: for as long as we have that vote it cannot have that
/// back, and the home takes its slot for ours, where another may be free.
pub(super) const SLOT_TRIES: u32 = 5;

impl AcquireLoop<'_> {
    /// What follows from the nodes' answers, and from the time.
    pub(super) fn go_on(&mut self, now: Instant) {
        match self.stage {
            Stage::Polling => self.take_answer(now),
            Stage::Asking { tries, again } => self.look_at_votes(tries, again, now),
            Stage::Waiting { until } if until <= now => self.poll(),
            Stage::Pausing { until } if until <= now => match self.is_any_there() {
                true => self.poll(),
                false if self.hold().is_undecided() => self.poll(),
                false => self.ask_all(Path::Script),
            },
            Stage::Waiting { .. } | Stage::Pausing { .. } => {}
        }
    }

    /// The home's, to a poll.
    fn take_answer(&mut self, now: Instant) {
        let home = self.home.expect("it was asked");
        if let Some(slot) = self.hold().chosen() {
            return self.ask_called(Some(slot));
        }
        match self.hold().node_states()[home] {
            NodeState::Awaited | NodeState::Unasked => {}
            NodeState::Granted => {
                let others = Nodes::all(self.order.len()).without(Nodes::one(home));
                self.stage = Stage::Asking {
                    tries: 0,
                    again: None,
                };
                self.asked = now;
                self.registration.stands_at(Nodes::one(home), None);
                self.hold().ask(others, Nodes::NONE);
                if others == Nodes::NONE {
                    // Its vote came too late to be worth anything.
                    self.look_at_votes(0, None, now);
                }
            }
            // The token was forced out of the lock: the wait goes on with another.
            NodeState::Refused { line: None, .. } => {
                self.give_up(Some(home));
                self.poll();
            }
            NodeState::Refused { left, line } => {
                self.in_vain = 0;
                self.wait_at(home, left, line, now);
                self.answer_call();
            }
            NodeState::Out => {
                self.give_up(Some(home));
                self.in_vain += 1;
                match self.is_any_there() {
                    // A set is founded by all its nodes together: those that are no home have
                    // to be asked, too.
                    true if self.in_vain.is_multiple_of(ALL_ASKED) => {
                        self.hold().take_any_slot();
                        self.ask_all(Path::Script);
                    }
                    true => self.poll(),
                    false => self.pause_for_nodes(now),
                }
            }
        }
    }

    /// Asks all, if we were called in the moment in which the home refused.
    fn answer_call(&mut self) {
        if self.called && self.is_quorum_there() {
            self.ask_called(self.slot);
        }
    }

    fn wait_at(
        &mut self,
        home: usize,
        left: Option<Duration>,
        line: Option<QueueInfo>,
        now: Instant,
    ) {
        self.home = Some(home);
        let place = line.and_then(|line| line.place);
        self.registration.stands_at(Nodes::one(home), place);
        self.place.tell(Arc::new(self.so_far()));
        let deaf = line.is_some_and(|line| line.deaf);
        let readers = line.is_some_and(|line| line.shared);
        let first = place == Some(0);
        // The home, too, has to let no reader past: it does so for the waiters that it can call.
        let is_queued = !deaf;
        if readers && first && is_queued && self.terms.keys.mode == Mode::Exclusive {
            self.hold().reserve(home, now);
        }
        let (low, high) = retry::poll_pause(left, place, deaf);
        self.stage = Stage::Waiting {
            until: now + self.set.rng.between(low, high),
        };
    }

    /// The nodes', to an attempt.
    fn look_at_votes(&mut self, tries: u32, again: Option<Instant>, now: Instant) {
        self.look_up_order();
        let states = self.hold().node_states();
        let next = home::next(&self.order, &states);
        let another = matches!(next, NextStep::Retry(_)) && self.is_slot_anothers(tries);
        let over = another || now >= self.hold().attempt_ends();
        if self.hold().so_far().misconfigured {
            return self.give_up(None);
        }
        match next {
            NextStep::Yield(home) => {
                let NodeState::Refused { left, line } = states[home] else {
                    // A seeded bug alone gives way with the home's vote.
                    return self.pause_for_nodes(now);
                };
                if line.is_some_and(|line| line.place.is_some()) {
                    self.give_up(Some(home));
                    self.wait_at(home, left, line, now);
                    self.answer_call();
                } else {
                    self.give_up(None);
                    self.poll();
                }
            }
            NextStep::Pause => {
                self.give_up(self.home);
                self.pause_for_nodes(now);
            }
            _ if over => {
                self.give_up(None);
                let (low, high) = retry::back_off(self.ended);
                self.ended += 1;
                self.stage = Stage::Pausing {
                    until: now + self.set.rng.between(low, high),
                };
            }
            NextStep::Await => {}
            NextStep::Retry(nodes) => {
                let at = again.unwrap_or_else(|| {
                    let (low, high) = retry::retry_pause(tries);
                    now + self.set.rng.between(low, high)
                });
                if now < at {
                    self.stage = Stage::Asking {
                        tries,
                        again: Some(at),
                    };
                    return;
                }
                // The holder whose calls are held by these nodes calls this waiter from there too.
                let slot = self.hold().mode().slot().is_some();
                let homes = if tries >= 2 && !slot {
                    nodes
                } else {
                    Nodes::NONE
                };
                let all = homes.iter().chain(self.home).collect();
                self.registration.stands_at(all, None);
                self.stage = Stage::Asking {
                    tries: tries + 1,
                    again: None,
                };
                self.hold().ask(nodes, homes);
            }
        }
    }

    /// Whether the slot that the home has chosen is taken for another's by now.
    fn is_slot_anothers(&self, tries: u32) -> bool {
        matches!(self.terms.keys.mode, Mode::AnySlot(_)) && tries >= SLOT_TRIES
    }

    /// What follows from a notice to the waiter.
    pub(super) fn take_notice(&mut self, notice: Notice, now: Instant) {
        // While others than the home may call, the notice does not say which node did.
        let by_home = notice.called && !matches!(self.stage, Stage::Asking { .. });
        if let Some(home) = self.home.filter(|_| by_home) {
            // It is there, whatever it left without an answer before.
            self.set.answered(home, Some(&self.terms.keys.lock), false);
        }
        match self.stage {
            Stage::Waiting { .. } if notice.called && self.is_quorum_there() => {
                self.ask_called(notice.slot)
            }
            // Without a quorum the attempt would fail. We are called once, so
            // we ask again when nodes may be back.
            Stage::Waiting { until } if notice.called => {
                let soon = now + self.terms.timing.node_timeout;
                self.stage = Stage::Waiting {
                    until: until.min(soon),
                };
            }
            Stage::Waiting { .. } if notice.subscribed => {
                self.poll();
            }
            // A holder has released what this waiter was refused for.
            Stage::Asking {
                tries,
                again: Some(_),
            } if notice.called => self.look_at_votes(tries, Some(now), now),
            Stage::Pausing { .. } if notice.subscribed => {
                self.stage = Stage::Pausing { until: now };
                self.go_on(now);
            }
            // What the home is about to say may be older than the call.
            Stage::Polling | Stage::Asking { .. } => {
                self.called |= notice.called;
                self.slot = notice.slot.or(self.slot);
            }
            Stage::Waiting { .. } | Stage::Pausing { .. } => {}
        }
    }
}
