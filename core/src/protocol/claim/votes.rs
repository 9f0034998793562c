//! What each node has said to one token, and what that is worth: its vote in the round, until when
//! it holds the token, and what it stores of the fence.

use std::time::Duration;

use crate::clock::{self, Instant};
use crate::node::{Fault, FaultKind, Op, QueueInfo, Reply, RequestContext};
use crate::protocol::fence::Mark;
use crate::protocol::quorum::{self, RoundVerdict, Vote};
use crate::protocol::retry;
use crate::protocol::timing::Timing;

/// The nodes' votes for one token, in the order of the node list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Votes(pub(super) Box<[NodeVote]>);

/// What is known of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeVote {
    /// What it has said in the round.
    pub(super) vote: Vote,
    /// Until when it holds our token for certain.
    pub(super) end: Instant,
    /// What it has stored of the fence.
    pub(super) mark: Mark,
    /// Its last answer, for error messages.
    pub(super) answer: Answer,
    /// What it said of the line when it refused.
    pub(super) line: Option<QueueInfo>,
    /// The waiter stands in its queue, or may.
    pub(super) queued: bool,
    /// It was asked for the token by script, or it is not known what it made of plain
    /// commands.
    pub(super) scripted: bool,
    /// It was asked once more, after its clock had been misjudged.
    pub(super) asked_again: bool,
    pub(super) requests: Requests,
    pub(super) confirmed: ConfirmedVote,
    /// How far its clock had stepped forward when `end` was looked at, in µs.
    pub(super) stepped: u64,
}

/// A node's last answer, for error messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    NotAsked,
    /// It was asked, and has yet to answer.
    Nothing,
    Granted,
    /// It holds another's token, or is reserved for another.
    Refused {
        left: Option<Duration>,
        holder: Option<Box<str>>,
        /// Readers hold it.
        shared: bool,
    },
    /// It holds another's token; whose, or until when, it has not said.
    Taken,
    /// It gives no new vote for so long.
    Quarantined {
        left: Duration,
    },
    /// The token was taken away there, by force.
    Forced,
    /// By its clock the request came too late.
    Late,
    Fault(Fault),
}

/// What was sent to one node for the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Requests {
    /// How many may have reached it: it may know the token.
    pub(super) reached: u32,
    /// How many failed, since it answered last.
    pub(super) failures: u32,
    /// A renewal is under way and will be answered by then.
    pub(super) renewing: Option<Instant>,
    /// When to renew its vote.
    pub(super) renew_at: Instant,
}

/// The last vote of one node that is certain, whatever it said since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ConfirmedVote {
    /// Until when it held our token.
    pub(super) until: Instant,
    /// Which server that was: see [`RequestContext::server`].
    pub(super) server: u64,
}

/// How far the token has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// The round is open.
    Asking,
    /// A quorum voted for it: a lease.
    Held,
    /// No longer wanted: lost, undone or released.
    Dead,
}

/// What a vote is worth, and when it is renewed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) timing: Timing,
    /// Bound on the difference of clock rates.
    pub(super) drift: f64,
    /// From one renewal of a vote to the next.
    pub(super) renew_every: Duration,
}

impl Rules {
    /// A moment for a renewal, on a coarse grid: leases that are due at about
    /// the same time share one wake-up and one write.
    pub(super) fn coarse(&self, at: Instant) -> Instant {
        let grid = (self.timing.ttl.as_nanos() as u64 / 256).max(1);
        Instant(at.0.div_ceil(grid) * grid)
    }
}

/// Whether a node is to be asked the same once more, and nothing else has come of its reply.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    Yes,
    No,
}

impl Votes {
    /// Of nodes that were not asked so far, whose clocks had stepped so far. `queued`: the node in
    /// whose queue the waiter stands already, or may.
    pub(super) fn new(stepped: impl Iterator<Item = u64>, queued: Option<usize>) -> Votes {
        let node = |(i, stepped)| NodeVote {
            vote: Vote::Unasked,
            end: Instant::NEVER,
            mark: Mark::default(),
            answer: Answer::NotAsked,
            line: None,
            queued: queued == Some(i),
            scripted: false,
            asked_again: false,
            requests: Requests {
                reached: 0,
                failures: 0,
                renewing: None,
                renew_at: Instant::NEVER,
            },
            confirmed: ConfirmedVote {
                until: Instant::NEVER,
                server: 0,
            },
            stepped,
        };
        Votes(stepped.enumerate().map(node).collect())
    }

    /// What each node has said in the round, as [`quorum`] decides on it.
    pub(super) fn cast(&self) -> impl ExactSizeIterator<Item = Vote> + Clone {
        self.0.iter().map(|node| node.vote)
    }

    /// The verdict on the votes that last beyond `needed`.
    pub(super) fn verdict(&self, needed: Instant) -> RoundVerdict {
        quorum::verdict(self.cast(), needed)
    }

    /// Until when at least a quorum of nodes holds the token.
    pub(super) fn lease_end(&self) -> Instant {
        quorum::lease_end(self.0.iter().map(|node| node.end))
    }

    /// Whether the reply to this request is the node's answer to the round.
    pub(super) fn is_awaited(&self, ticket: &RequestContext) -> bool {
        matches!(ticket.op, Op::Acquire { .. }) && self.0[ticket.node].vote == Vote::Awaited
    }

    /// Whether every node that was asked for its vote has answered, or failed to.
    pub(super) fn are_in(&self) -> bool {
        !self.cast().any(|vote| vote == Vote::Awaited)
    }
}

impl NodeVote {
    /// Notes that the node is asked for its vote, with that candidate for the fence;
    /// `queues`: and to queue the waiter if it refuses.
    pub(super) fn ask(&mut self, candidate: u64, queues: bool, renew_at: Instant) {
        self.vote = Vote::Awaited;
        self.mark = self.mark.asked(candidate);
        self.answer = Answer::Nothing;
        self.line = None;
        self.requests.reached += 1;
        self.requests.renew_at = renew_at;
        self.asked_again = false;
        self.queued |= queues;
    }

    /// Shortens the vote of a node whose clock has stepped forward, `stepped` µs in
    /// all by now. Returns whether it did.
    pub(super) fn step(&mut self, stepped: u64) -> bool {
        let by = Duration::from_micros(stepped - self.stepped);
        if by.is_zero() {
            return false;
        }
        self.stepped = stepped;
        self.end = self.end - by;
        self.confirmed.until = self.confirmed.until - by;
        if let Vote::Granted(end) = &mut self.vote {
            *end = *end - by;
        }
        true
    }

    /// Takes the node's reply into account, which came at `now` in this phase of the token.
    pub(super) fn take(
        &mut self,
        ticket: &RequestContext,
        reply: &Reply,
        now: Instant,
        phase: Phase,
        rules: &Rules,
    ) -> Repeat {
        if matches!(ticket.op, Op::Extend { .. }) {
            self.requests.renewing = None;
        }
        if matches!(
            reply,
            Reply::Failed(_) | Reply::Late | Reply::Quarantined { .. }
        ) {
            self.scripted = true;
        }
        match reply {
            Reply::Granted { .. } | Reply::Extended { .. } | Reply::Confirmed => {
                self.confirm(ticket, reply, rules);
            }
            Reply::Greater { fence } => self.greater(ticket, *fence),
            Reply::Refused {
                left,
                holder,
                place,
                subscribers,
                shared,
            } => {
                let answer = Answer::Refused {
                    left: *left,
                    holder: holder.clone(),
                    shared: *shared,
                };
                self.refuse(answer);
                self.line = Some(QueueInfo {
                    place: *place,
                    deaf: *subscribers == 0,
                    shared: *shared,
                });
            }
            Reply::Taken => {
                self.refuse(Answer::Taken);
                self.line = None;
                // Nothing of ours is there.
                self.requests.reached = self.requests.reached.saturating_sub(1);
            }
            Reply::NotMine | Reply::Banned => {
                self.refuse(match reply {
                    Reply::Banned => Answer::Forced,
                    _ => Answer::Refused {
                        left: None,
                        holder: None,
                        shared: false,
                    },
                });
                self.requests.renew_at = rules.coarse(now + rules.renew_every);
            }
            // No vote: the node is still to be asked for that slot, and has nothing of the token.
            Reply::Chosen { .. } => {
                self.vote = Vote::Unasked;
                self.answer = Answer::NotAsked;
                self.requests.reached = self.requests.reached.saturating_sub(1);
            }
            Reply::Quarantined { left } => self.quarantine(ticket, *left, now, rules),
            // The node rejected the deadline, and has done nothing. The reply has brought its
            // clock, so the next request has a better deadline.
            Reply::Late if phase == Phase::Asking && !self.asked_again && now < ticket.deadline => {
                self.asked_again = true;
                // Plain commands may have left a value there that does not count.
                self.requests.reached += 1;
                return Repeat::Yes;
            }
            Reply::Late => self.late(ticket, now),
            Reply::Failed(fault) => self.fail(ticket, fault, now, phase),
            Reply::Released { .. } | Reply::Kept | Reply::Seen(_) | Reply::Reserved { .. } => {}
        }
        Repeat::No
    }

    /// A vote: our token stands there for its ttl, or for as long as the node says,
    /// counted from before the request was sent.
    fn confirm(&mut self, ticket: &RequestContext, reply: &Reply, rules: &Rules) {
        let sent = ticket.sent;
        let ttl = match reply {
            Reply::Granted {
                lasts: Some(lasts), ..
            } => *lasts,
            _ => ttl_of(ticket.op),
        };
        let less = clock::drift_allowance(ttl, rules.drift);
        let counted = ttl.saturating_sub(less);
        let new = sent + counted;
        self.end = self.end.max(new);
        self.vote = Vote::Granted(self.end);
        self.confirmed = ConfirmedVote {
            until: if self.confirmed.server == ticket.server {
                self.confirmed.until.max(new)
            } else {
                new
            },
            server: ticket.server,
        };
        self.answer = Answer::Granted;
        self.requests.failures = 0;
        self.requests.renew_at = rules.coarse(ticket.sent + rules.renew_every);
        match reply {
            Reply::Granted { fence, .. } => {
                if self.mark.blind {
                    self.mark.found = *fence
                } else {
                    self.mark.stored = *fence
                }
                // This vote ended the waiter's place; no other does.
                self.queued = false;
            }
            Reply::Confirmed => self.mark.stored = written_back(ticket.op),
            _ => {}
        }
    }

    /// A write-back was refused: others have stored a larger fence. Nothing else raises the counter
    /// while our token stands there.
    fn greater(&mut self, ticket: &RequestContext, fence: u64) {
        let mark = &mut self.mark;
        mark.found = mark.found.max(fence);
        if mark.asked == written_back(ticket.op) {
            mark.asked = 0;
        }
    }

    /// Another's token, or none, stands there.
    fn refuse(&mut self, answer: Answer) {
        self.end = Instant::NEVER;
        self.vote = Vote::Refused;
        self.answer = answer;
    }

    /// No vote. Of an extension: the vote that was there is gone, but the node grants no other as
    /// long as the quarantine lasts. To end the lease now would free the other nodes before its
    /// holder knows.
    fn quarantine(&mut self, ticket: &RequestContext, left: Duration, now: Instant, rules: &Rules) {
        let less = clock::drift_allowance(left, rules.drift);
        let kept = ticket.sent + left.saturating_sub(less);
        let end = self.end;
        self.end = end.min(kept);
        self.vote = Vote::Failed;
        self.answer = Answer::Quarantined { left };
        self.requests.renew_at = rules.coarse(now + rules.renew_every.min(left));
    }

    /// Nothing was done there, for its clock was beyond what the request allowed.
    fn late(&mut self, ticket: &RequestContext, now: Instant) {
        if matches!(ticket.op, Op::Acquire { .. }) {
            self.vote = Vote::Failed;
        }
        self.mark.failed = true;
        self.answer = Answer::Late;
        self.requests.renew_at = now;
    }

    /// No answer, or an answer that is no vote. What stood there stands as long as it did.
    fn fail(&mut self, ticket: &RequestContext, fault: &Fault, now: Instant, phase: Phase) {
        let open = phase == Phase::Asking || self.vote == Vote::Awaited;
        if open && matches!(ticket.op, Op::Acquire { .. }) {
            self.vote = Vote::Failed;
            if phase == Phase::Dead && fault.kind == FaultKind::Refused {
                // The request was wanted no more, and not sent: the node was not asked.
                self.vote = Vote::Unasked;
            }
        }
        // An acquire may fail unsent while an extension behind it is still to be
        // sent.
        if !fault.sent && matches!(ticket.op, Op::Acquire { .. } | Op::Extend { .. }) {
            let reached = &mut self.requests.reached;
            *reached = reached.saturating_sub(1);
        }
        self.mark.failed = true;
        self.answer = Answer::Fault(fault.clone());
        self.requests.failures = self.requests.failures.saturating_add(1);
        if let Op::Extend { ttl, .. } = ticket.op {
            let pause = retry::renewal_pause(self.requests.failures, ttl);
            self.requests.renew_at = now + pause;
        }
    }
}

/// For how long a request stores the token; a release does not.
fn ttl_of(op: Op) -> Duration {
    match op {
        Op::Acquire { ttl, .. } | Op::Extend { ttl, .. } | Op::Confirm { ttl, .. } => ttl,
        Op::Release | Op::Inspect | Op::Reserve { .. } => Duration::ZERO,
    }
}

/// The fence that a request writes back; 0 for none.
fn written_back(op: Op) -> u64 {
    match op {
        Op::Confirm { fence, .. } => fence,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
