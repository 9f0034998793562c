//! One token on all nodes: the round that wins it, the votes that keep it, the
//! undo that ends it.
//!
//! A [`Hold`] is one token's life. It begins as an attempt; if a quorum votes
//! for it, it is a lease; in the end it is dead, and its release is on the way
//! to every node that may know it. It takes the nodes' replies where they
//! arrive and wakes its waiter once.

mod extension;
mod keep;
mod release;

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use crate::clock::Instant;
use crate::config::Timing;
use crate::mutants::mutant;
use crate::node::{Fault, FaultKind, Op, Reply, Request, Sink, Ticket, Value};
use crate::quorum::{self, Verdict, Vote};
use crate::retry;
use crate::set::{Set, count};
use crate::sync::{Wakers, Watchers, lock};
use crate::token::Token;

pub use extension::Extended;
pub use release::Release;

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// Its validity ended before it was renewed: not renewed at all, or too
    /// few nodes could be reached.
    Expired,
    /// Nodes answered that the lock is another's: deleted, or lost in a
    /// restart, and taken since.
    Refused,
    /// It reached `max_hold`.
    MaxHold,
    /// The thread that owned it ended without releasing it.
    OwnerGone,
    /// Its client was closed.
    Closed,
}

impl LossReason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [LossReason; 5] = [
        LossReason::Expired,
        LossReason::Refused,
        LossReason::MaxHold,
        LossReason::OwnerGone,
        LossReason::Closed,
    ];

    /// The reason's number, the same for ever.
    pub const fn number(self) -> i32 {
        match self {
            LossReason::Expired => 1,
            LossReason::Refused => 2,
            LossReason::MaxHold => 3,
            LossReason::OwnerGone => 4,
            LossReason::Closed => 5,
        }
    }

    /// The reason as a word: `expired`, `refused`, `max_hold`, `owner_gone`,
    /// `closed`.
    pub const fn as_str(self) -> &'static str {
        match self {
            LossReason::Expired => "expired",
            LossReason::Refused => "refused",
            LossReason::MaxHold => "max_hold",
            LossReason::OwnerGone => "owner_gone",
            LossReason::Closed => "closed",
        }
    }
}

/// What a lock asks for with one token.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The lock's key on the nodes.
    pub key: Arc<[u8]>,
    /// The label that goes with the token; empty for none.
    pub label: Arc<str>,
    /// Times that follow from the ttl.
    pub timing: Timing,
    /// Bound on the difference of clock rates.
    pub drift: f64,
    /// Whether the watchdog renews the lease.
    pub renew: bool,
    /// Longest life of the token.
    pub max_hold: Option<Duration>,
    /// Set when the owner of the lease has ended.
    pub gone: Option<Arc<AtomicBool>>,
}

/// One token's life. See the [module documentation](self).
pub struct Hold {
    pub(crate) set: Arc<Set>,
    pub(crate) terms: Terms,
    token: Token,
    /// Names the hold to the watchdog.
    pub(crate) id: u64,
    value: Value,
    /// The lease ends here at the latest.
    last_end: Instant,
    /// The first request of the round was sent after this moment.
    pub(crate) begun: Instant,
    renew_every: Duration,
    /// The lease's end while it is valid; `NEVER` before and after. Written
    /// under `state`, read without it.
    end: AtomicU64,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The round is open.
    Asking,
    /// A quorum voted for it: a lease.
    Held,
    /// No longer wanted: lost, undone or released.
    Dead,
}

struct State {
    phase: Phase,
    /// The nodes' votes in the round.
    votes: Vec<Vote>,
    /// Until when each holds our token for certain.
    ends: Vec<Instant>,
    /// What else is known of each.
    nodes: Vec<Node>,
    loss: Option<LossReason>,
    /// Who waits for the verdict of the round.
    round: Wakers,
    /// Who waits for the loss.
    watchers: Watchers,
    callbacks: Vec<Callback>,
    warned: bool,
}

type Callback = Box<dyn FnOnce(LossReason) + Send>;

/// What is known of one node.
#[derive(Clone)]
struct Node {
    /// What it said last, for error messages.
    said: Said,
    /// It may know the token: a byte of a request may have reached it.
    reached: bool,
    /// A renewal is under way and will be answered by then.
    asked: Option<Instant>,
    /// When to renew its vote.
    renew_at: Instant,
    failures: u32,
}

/// A node's last word, for error messages.
#[derive(Clone, Debug)]
pub enum Said {
    Nothing,
    Granted,
    Refused {
        left: Option<Duration>,
        holder: Option<Box<str>>,
    },
    Fault(Fault),
}

/// How a round that was not won ended.
#[derive(Debug)]
pub struct Lost {
    /// Refusals alone prevent a quorum.
    pub(crate) contended: bool,
    /// A quorum of nodes answered.
    pub(crate) answered: bool,
    /// Wrong settings alone prevent a quorum.
    pub(crate) misconfigured: bool,
    pub(crate) said: Vec<Said>,
}

impl Hold {
    /// Draws a token and asks all nodes for their votes.
    pub fn begin(set: &Arc<Set>, terms: &Terms) -> Arc<Hold> {
        let (token, jitter) = Token::with_jitter(&*set.rng);
        let value = if terms.label.is_empty() {
            token.as_str().as_bytes().into()
        } else {
            format!("{}.{}", token.as_str(), terms.label)
                .into_bytes()
                .into()
        };
        let begun = set.clock.now();
        let ttl = terms.timing.ttl;
        // Up to a fifth of jitter keeps leases that were won together apart.
        let renew_every = ttl.mul_f64(0.3 + 0.06 * jitter);
        let nodes = set.links.len();
        let node = Node {
            said: Said::Nothing,
            reached: true,
            asked: None,
            renew_at: begun + renew_every,
            failures: 0,
        };
        static IDS: AtomicU64 = AtomicU64::new(0);
        let hold = Arc::new(Hold {
            set: set.clone(),
            terms: terms.clone(),
            token,
            id: IDS.fetch_add(1, Ordering::Relaxed),
            value: Value(value),
            last_end: terms.max_hold.map_or(Instant::FAR, |d| begun + d),
            begun,
            renew_every,
            end: AtomicU64::new(Instant::NEVER.0),
            state: Mutex::new(State {
                phase: Phase::Asking,
                votes: vec![Vote::Awaited; nodes],
                ends: vec![Instant::NEVER; nodes],
                nodes: (0..nodes).map(|_| node.clone()).collect(),
                loss: None,
                round: Wakers::default(),
                watchers: Watchers::default(),
                callbacks: Vec::new(),
                warned: false,
            }),
        });
        let sink: Arc<dyn Sink> = hold.clone();
        for node in 0..nodes {
            hold.send(node, Op::Acquire { ttl }, begun, &sink);
        }
        hold
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Sends one request; never with the state locked, for a link may answer
    /// at once.
    fn send(&self, node: usize, op: Op, now: Instant, sink: &Arc<dyn Sink>) {
        let give_up = match op {
            Op::Release => now + self.set.max_ttl,
            _ => now + self.terms.timing.node_timeout,
        };
        let request = Request {
            op,
            key: self.terms.key.clone(),
            value: self.value.clone(),
        };
        let ticket = Ticket {
            node,
            sent: now,
            deadline: now + self.terms.timing.node_timeout,
            op,
        };
        self.set.links[node].send(request, ticket, sink.clone(), give_up);
    }

    /// Waits for the verdict of the round: won, or how it was lost. A lost
    /// token is dead and its undo sent.
    pub async fn verdict(&self) -> Result<(), Lost> {
        poll_fn(|cx| {
            let mut state = self.state();
            match state.phase {
                Phase::Asking => state.round.park(cx),
                Phase::Held => Poll::Ready(Ok(())),
                // A lease may be lost before its winner looks: it was won.
                Phase::Dead if state.loss.is_some() => Poll::Ready(Ok(())),
                Phase::Dead => Poll::Ready(Err(state.lost_round())),
            }
        })
        .await
    }

    /// What the nodes have said so far, for a round that is given up.
    pub(crate) fn so_far(&self) -> Lost {
        self.state().lost_round()
    }

    /// Takes a reply to an acquire or an extend into account.
    fn take(&self, ticket: Ticket, reply: &Reply) {
        let now = self.set.clock.now();
        let mut state = self.state();
        // A lease that has ended stays ended, even if this reply would have
        // saved it a moment ago.
        if self.end_if_over(&mut state, now) {
            return self.publish(state);
        }
        if mutant!("late-vote-revives", state.phase == Phase::Dead, false) {
            return;
        }
        let asking = state.phase == Phase::Asking;
        let State {
            votes, ends, nodes, ..
        } = &mut *state;
        let (node, vote) = (&mut nodes[ticket.node], &mut votes[ticket.node]);
        let end = &mut ends[ticket.node];
        let ttl = match ticket.op {
            Op::Acquire { ttl } | Op::Extend { ttl, .. } => ttl,
            Op::Release => return,
        };
        let renewal = matches!(ticket.op, Op::Extend { .. });
        if renewal {
            node.asked = None;
        }
        match reply {
            Reply::Granted | Reply::Extended { .. } => {
                let sent = mutant!("end-from-reply", ticket.sent, now);
                let counted = ttl.saturating_sub(quorum::drift_allowance(ttl, self.terms.drift));
                *end = (*end).max(sent + counted);
                *vote = Vote::Granted(*end);
                node.said = Said::Granted;
                node.failures = 0;
                node.renew_at = self.coarse(ticket.sent + self.renew_every);
                if renewal {
                    count(&self.set.counters.renewals);
                }
                if matches!(reply, Reply::Extended { repaired: true }) {
                    count(&self.set.counters.repairs);
                }
            }
            Reply::Refused { left, holder } => {
                *end = Instant::NEVER;
                *vote = Vote::Refused;
                node.said = Said::Refused {
                    left: *left,
                    holder: holder.clone(),
                };
            }
            Reply::NotMine => {
                *end = Instant::NEVER;
                *vote = Vote::Refused;
                node.said = Said::Refused {
                    left: None,
                    holder: None,
                };
                node.renew_at = self.coarse(now + self.renew_every);
            }
            Reply::Failed(fault) => {
                if asking {
                    *vote = Vote::Failed;
                }
                if matches!(ticket.op, Op::Acquire { .. }) {
                    node.reached = fault.sent;
                }
                node.said = Said::Fault(fault.clone());
                node.failures = node.failures.saturating_add(1);
                if renewal {
                    node.renew_at = now + retry::renewal_pause(node.failures, ttl);
                    if mutant!("any-answer-renews", false, true) {
                        *end = ticket.sent + self.terms.timing.counted;
                    }
                }
            }
            Reply::Released { .. } => {}
        }
        match state.phase {
            Phase::Asking => self.decide(state, now, reply),
            _ => {
                let end = self.end_of(&state);
                self.end.store(end.0, Ordering::Release);
                if now >= end {
                    self.lose(&mut state, LossReason::Refused);
                    self.publish(state);
                }
            }
        }
    }

    /// The verdict of the round, after one more reply.
    fn decide(&self, mut state: MutexGuard<'_, State>, now: Instant, reply: &Reply) {
        match quorum::verdict(&state.votes, now + self.terms.timing.min_validity) {
            Verdict::Open => return,
            Verdict::Won => {
                state.phase = Phase::Held;
                self.end.store(self.end_of(&state).0, Ordering::Release);
                count(&self.set.counters.acquired);
            }
            Verdict::Lost => {
                state.phase = Phase::Dead;
                count(&self.set.counters.attempts_lost);
            }
        }
        if matches!(reply, Reply::Failed(f) if f.kind == FaultKind::Timeout) {
            count(&self.set.counters.timeouts_awaited);
        }
        let undo = state.phase == Phase::Dead;
        let wakers = state.round.take();
        let reached = state.reached();
        drop(state);
        if undo {
            self.undo(&reached);
        }
        wakers.wake();
    }

    /// The token.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// What its lock asked for.
    #[cfg(feature = "sim")]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Ends the token's life and sends its release to every node that may
    /// know it. Returns whether the lease was valid, and the nodes' answers to
    /// come. Also the end of an attempt that is given up.
    pub fn release(&self) -> (bool, Arc<Release>) {
        let now = self.set.clock.now();
        let mut state = self.state();
        if self.end_if_over(&mut state, now) {
            self.publish(state);
            return (false, Release::new(&self.set, 0));
        }
        let was = state.phase;
        // Dead first, then the first byte: nothing is renewed, repaired or
        // won for this token from here on.
        if mutant!("release-before-end", true, false) {
            state.phase = Phase::Dead;
            self.end.store(Instant::NEVER.0, Ordering::Release);
        }
        let reached = state.reached();
        let wakers = state.round.take();
        drop(state);
        wakers.wake();
        if was == Phase::Dead {
            return (false, Release::new(&self.set, 0));
        }
        if was == Phase::Held {
            count(&self.set.counters.released);
        }
        if mutant!("cancel-leaks", false, was == Phase::Asking) {
            return (false, Release::new(&self.set, 0));
        }
        (was == Phase::Held, self.undo(&reached))
    }

    /// Sends the release to the nodes that the token may have reached.
    fn undo(&self, reached: &[bool]) -> Arc<Release> {
        let targets = || reached.iter().enumerate().filter(|(_, r)| **r);
        let release = Release::new(&self.set, targets().count());
        let sink: Arc<dyn Sink> = release.clone();
        let now = self.set.clock.now();
        for (node, _) in targets() {
            self.send(node, Op::Release, now, &sink);
        }
        release
    }
}

impl State {
    /// The nodes that may know the token.
    fn reached(&self) -> Vec<bool> {
        let reached = |i: usize| {
            mutant!(
                "no-undo-unless-granted",
                self.nodes[i].reached,
                self.votes[i] != Vote::Failed
            )
        };
        (0..self.nodes.len()).map(reached).collect()
    }

    fn lost_round(&self) -> Lost {
        let votes = &self.votes;
        let misconfigured =
            |n: &&Node| matches!(&n.said, Said::Fault(f) if f.kind == FaultKind::Misconfigured);
        let hopeless = self.nodes.iter().filter(misconfigured).count();
        Lost {
            contended: quorum::refusals_decide(votes),
            answered: quorum::quorum_answered(votes),
            misconfigured: hopeless > votes.len() - quorum::quorum(votes.len()),
            said: self.nodes.iter().map(|n| n.said.clone()).collect(),
        }
    }
}

impl Sink for Hold {
    fn on_reply(&self, ticket: Ticket, reply: Reply) {
        self.take(ticket, &reply);
    }

    fn wanted(&self) -> bool {
        self.state().phase != Phase::Dead
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold")
            .field("key", &crate::error::shown(&self.terms.key))
            .finish_non_exhaustive()
    }
}
