//! What the nodes have said to one token, and what that is worth: their votes in
//! its round, until when each of them holds it, and what each stores of its
//! fence. Pure: no I/O, no clock, no lock, no await.

use std::time::Duration;

use crate::clock::{self, Instant};
use crate::node::{Fault, FaultKind, Op, QueueInfo, Reply, RequestContext};
use crate::protocol::fence::Mark;
use crate::protocol::quorum::Vote;
use crate::protocol::retry;
use crate::protocol::timing::Timing;

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

/// The nodes' votes for one token, in the order of the node list. The first
/// three are what [`quorum`](crate::protocol::quorum) and [`fence`](crate::protocol::fence) decide on.
pub(super) struct Votes {
    /// What each has said in the round.
    pub(super) cast: Box<[Vote]>,
    /// Until when each holds our token for certain.
    pub(super) ends: Box<[Instant]>,
    /// What each has stored of the fence.
    pub(super) marks: Box<[Mark]>,
    /// What else is known of each.
    pub(super) nodes: Box<[Node]>,
}

/// How far the token has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The round is open.
    Asking,
    /// A quorum voted for it: a lease.
    Held,
    /// No longer wanted: lost, undone or released.
    Dead,
}

/// A node's last word, for error messages.
#[derive(Clone, Debug)]
pub enum Said {
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

/// What is known of one node, beside its vote.
#[derive(Clone)]
pub(super) struct Node {
    /// What it said last, for error messages.
    pub(super) said: Said,
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
    pub(super) had: Had,
    /// How far its clock had stepped forward when `ends` was looked at, in µs.
    pub(super) stepped: u64,
}

/// What was sent to one node for the token.
#[derive(Clone, Copy)]
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
#[derive(Clone, Copy)]
pub(super) struct Had {
    /// Until when it held our token.
    pub(super) until: Instant,
    /// Which server that was: see [`RequestContext::server`].
    pub(super) server: u64,
}

impl Votes {
    /// Of nodes that were not asked yet, whose clocks had stepped so far.
    /// `queued`: the one in whose queue the waiter stands already, or may.
    pub(super) fn new(stepped: impl Iterator<Item = u64>, queued: Option<usize>) -> Votes {
        let node = |(i, stepped)| Node {
            said: Said::NotAsked,
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
            had: Had {
                until: Instant::NEVER,
                server: 0,
            },
            stepped,
        };
        let nodes: Box<[Node]> = stepped.enumerate().map(node).collect();
        Votes {
            cast: vec![Vote::Unasked; nodes.len()].into(),
            ends: vec![Instant::NEVER; nodes.len()].into(),
            marks: vec![Mark::default(); nodes.len()].into(),
            nodes,
        }
    }

    /// Notes that a node is asked for its vote, with that candidate for the fence;
    /// `queues`: and to queue the waiter if it refuses.
    pub(super) fn ask(
        &mut self,
        i: usize,
        candidate: u64,
        queues: bool,
        renew_at: Instant,
    ) -> &mut Node {
        self.cast[i] = Vote::Awaited;
        self.marks[i] = self.marks[i].asked(candidate);
        let node = &mut self.nodes[i];
        node.said = Said::Nothing;
        node.line = None;
        node.requests.reached += 1;
        node.requests.renew_at = renew_at;
        node.asked_again = false;
        node.queued |= queues;
        node
    }

    /// Whether the reply to this request is the node's answer to the round.
    pub(super) fn is_awaited(&self, ticket: &RequestContext) -> bool {
        matches!(ticket.op, Op::Acquire { .. }) && self.cast[ticket.node] == Vote::Awaited
    }

    /// Whether every node that was asked for its vote has answered, or failed to.
    pub(super) fn are_in(&self) -> bool {
        !self.cast.contains(&Vote::Awaited)
    }

    /// Shortens the vote of a node whose clock has stepped forward, `stepped` µs in
    /// all by now. Returns whether it did.
    pub(super) fn step(&mut self, i: usize, stepped: u64) -> bool {
        let node = &mut self.nodes[i];
        let by = Duration::from_micros(stepped - node.stepped);
        if by.is_zero() {
            return false;
        }
        node.stepped = stepped;
        self.ends[i] = self.ends[i] - by;
        node.had.until = node.had.until - by;
        if let Vote::Granted(end) = &mut self.cast[i] {
            *end = *end - by;
        }
        true
    }

    /// Takes a node's reply into account, which came at `now` in this phase of the
    /// token. Returns whether the node is to be asked the same once more, and
    /// nothing else has come of it.
    #[must_use]
    pub(super) fn apply(
        &mut self,
        ticket: RequestContext,
        reply: &Reply,
        now: Instant,
        phase: Phase,
        rules: &Rules,
    ) -> bool {
        let i = ticket.node;
        if matches!(ticket.op, Op::Extend { .. }) {
            self.nodes[i].requests.renewing = None;
        }
        if matches!(
            reply,
            Reply::Failed(_) | Reply::Late | Reply::Quarantined { .. }
        ) {
            self.nodes[i].scripted = true;
        }
        match reply {
            Reply::Granted { .. } | Reply::Extended { .. } | Reply::Confirmed => {
                let sent = ticket.sent;
                self.confirm(&ticket, reply, sent, rules);
            }
            Reply::Greater { fence } => {
                // Not while our token stands there: nothing else raises it then.
                let mark = &mut self.marks[i];
                mark.found = mark.found.max(*fence);
                if mark.asked == written_back(ticket.op) {
                    mark.asked = 0;
                }
            }
            Reply::Refused {
                left,
                holder,
                place,
                subscribers,
                shared,
            } => {
                self.ends[i] = Instant::NEVER;
                self.cast[i] = Vote::Refused;
                self.nodes[i].line = Some(QueueInfo {
                    place: *place,
                    deaf: *subscribers == 0,
                    shared: *shared,
                });
                self.nodes[i].said = Said::Refused {
                    left: *left,
                    holder: holder.clone(),
                    shared: *shared,
                };
            }
            Reply::Taken => {
                self.ends[i] = Instant::NEVER;
                self.cast[i] = Vote::Refused;
                let node = &mut self.nodes[i];
                node.line = None;
                node.said = Said::Taken;
                // Nothing of ours is there.
                node.requests.reached = node.requests.reached.saturating_sub(1);
            }
            Reply::NotMine | Reply::Banned => {
                self.ends[i] = Instant::NEVER;
                self.cast[i] = Vote::Refused;
                self.nodes[i].said = match reply {
                    Reply::Banned => Said::Forced,
                    _ => Said::Refused {
                        left: None,
                        holder: None,
                        shared: false,
                    },
                };
                self.nodes[i].requests.renew_at = rules.coarse(now + rules.renew_every);
            }
            // No vote: it is asked for that slot yet, and has nothing of the token.
            Reply::Chosen { .. } => {
                self.cast[i] = Vote::Unasked;
                let node = &mut self.nodes[i];
                node.said = Said::NotAsked;
                node.requests.reached = node.requests.reached.saturating_sub(1);
            }
            Reply::Quarantined { left } => self.quarantine(&ticket, *left, now, rules),
            // Nothing was done. By now its clock is known better.
            Reply::Late
                if phase == Phase::Asking
                    && !self.nodes[i].asked_again
                    && now < ticket.deadline =>
            {
                self.nodes[i].asked_again = true;
                // Plain commands may have left a value there that does not count.
                self.nodes[i].requests.reached += 1;
                return true;
            }
            Reply::Late => self.late(&ticket, now),
            Reply::Failed(fault) => self.fail(&ticket, fault, now, phase),
            Reply::Released { .. } | Reply::Kept | Reply::Seen(_) | Reply::Reserved { .. } => {}
        }
        false
    }

    /// A vote: our token stands there for its ttl, or for as long as the node says,
    /// counted from before the request was `sent`.
    fn confirm(&mut self, ticket: &RequestContext, reply: &Reply, sent: Instant, rules: &Rules) {
        let i = ticket.node;
        let ttl = match reply {
            Reply::Granted {
                lasts: Some(lasts), ..
            } => *lasts,
            _ => ttl_of(ticket.op),
        };
        let less = clock::drift_allowance(ttl, rules.drift);
        let counted = ttl.saturating_sub(less);
        let new = sent + counted;
        self.ends[i] = self.ends[i].max(new);
        self.cast[i] = Vote::Granted(self.ends[i]);
        let (node, mark) = (&mut self.nodes[i], &mut self.marks[i]);
        node.had = Had {
            until: if node.had.server == ticket.server {
                node.had.until.max(new)
            } else {
                new
            },
            server: ticket.server,
        };
        node.said = Said::Granted;
        node.requests.failures = 0;
        node.requests.renew_at = rules.coarse(ticket.sent + rules.renew_every);
        match reply {
            Reply::Granted { fence, .. } => {
                if mark.blind {
                    mark.found = *fence
                } else {
                    mark.stored = *fence
                }
                // This vote ended the waiter's place; no other does.
                node.queued = false;
            }
            Reply::Confirmed => mark.stored = written_back(ticket.op),
            _ => {}
        }
    }

    /// No vote. Of an extension: the one that was there is gone, but nobody is
    /// given another as long as the quarantine lasts. To end the lease now would
    /// free the other nodes before its holder knows.
    fn quarantine(&mut self, ticket: &RequestContext, left: Duration, now: Instant, rules: &Rules) {
        let i = ticket.node;
        let less = clock::drift_allowance(left, rules.drift);
        let kept = ticket.sent + left.saturating_sub(less);
        let end = self.ends[i];
        self.ends[i] = end.min(kept);
        self.cast[i] = Vote::Failed;
        self.nodes[i].said = Said::Quarantined { left };
        self.nodes[i].requests.renew_at = rules.coarse(now + rules.renew_every.min(left));
    }

    /// Nothing was done there, for its clock was beyond what the request allowed.
    fn late(&mut self, ticket: &RequestContext, now: Instant) {
        let i = ticket.node;
        if matches!(ticket.op, Op::Acquire { .. }) {
            self.cast[i] = Vote::Failed;
        }
        self.marks[i].failed = true;
        self.nodes[i].said = Said::Late;
        self.nodes[i].requests.renew_at = now;
    }

    /// No answer, or one that is no vote. What stood there stands as long as it did.
    fn fail(&mut self, ticket: &RequestContext, fault: &Fault, now: Instant, phase: Phase) {
        let i = ticket.node;
        let vote = &mut self.cast[i];
        let (node, mark) = (&mut self.nodes[i], &mut self.marks[i]);
        let open = phase == Phase::Asking || *vote == Vote::Awaited;
        if open && matches!(ticket.op, Op::Acquire { .. }) {
            *vote = Vote::Failed;
            if phase == Phase::Dead && fault.kind == FaultKind::Refused {
                // It was wanted no more, and not sent: the node was not asked.
                *vote = Vote::Unasked;
            }
        }
        // An acquire may fail unsent while an extension behind it is still to be
        // sent.
        if !fault.sent && matches!(ticket.op, Op::Acquire { .. } | Op::Extend { .. }) {
            let reached = &mut node.requests.reached;
            *reached = reached.saturating_sub(1);
        }
        mark.failed = true;
        node.said = Said::Fault(fault.clone());
        node.requests.failures = node.requests.failures.saturating_add(1);
        if let Op::Extend { ttl, .. } = ticket.op {
            let pause = retry::renewal_pause(node.requests.failures, ttl);
            node.requests.renew_at = now + pause;
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
