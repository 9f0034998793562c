//! One token on all nodes: the round that wins it, the votes that keep it, the
//! undo that ends it.
//!
//! A [`Hold`] is one token's life. It begins as an attempt; if a quorum votes
//! for it, it is a lease; in the end it is dead, and its release is on the way
//! to every node that may know it. It takes the nodes' replies where they
//! arrive and wakes its waiter once.

mod ask;
mod extension;
mod keep;
mod loss;
mod no_quorum;
mod pass;
mod progress;
mod release;
mod steps;
mod write_back;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::clock::Instant;
use crate::counters::count;
use crate::fence::{self, Fence, Mark};
use crate::mutants::mutant;
use crate::node::{FaultKind, Keys, Line, Op, Reply, Sink, Ticket, Value, Waiter};
use crate::quorum::{self, Kind, Verdict, Vote};
use crate::retry;
use crate::set::Set;
use crate::sync::{Wakers, Watchers, lock};
use crate::timing::Timing;
use crate::token::Token;

pub use extension::Extended;
pub use loss::{LossReason, Watch};
pub use no_quorum::NoQuorum;
pub(crate) use pass::IN_A_ROW;
pub(crate) use progress::Heard;

use no_quorum::Said;

/// What a lock asks for with one token.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Which lock.
    pub keys: Arc<Keys>,
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
    /// Whether the lease is not passed on.
    pub fair: bool,
    /// Set when the owner of the lease has ended.
    pub gone: Option<Arc<AtomicBool>>,
}

/// One token's life. See the [module documentation](self).
pub struct Hold {
    /// Itself, to be the sink of what it sends.
    me: Weak<Hold>,
    pub(crate) set: Arc<Set>,
    pub(crate) terms: Terms,
    /// Names the hold to the watchdog.
    pub(crate) id: u64,
    /// The token, and behind it the label if there is one.
    value: Value,
    /// Who waits, if the attempt may.
    waiter: Option<Waiter>,
    /// The first request of the attempt was sent after this moment.
    begun: AtomicU64,
    renew_every: Duration,
    /// The lease's end while it is valid; `NEVER` before and after. Written
    /// under `state`, read without it.
    end: AtomicU64,
    /// How many fences the acquire takes, for leases that follow on this token.
    block: u32,
    /// The fence of the lease, once it is won; 0 without fences.
    fence: AtomicU64,
    /// The last of the block.
    block_end: AtomicU64,
    /// Told when the lease's end comes nearer.
    on_earlier_end: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Told when the lease is over.
    on_over: OnceLock<Box<OnOver>>,
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
    /// Counts what whoever waits is woken for.
    progress: u64,
    /// The nodes' votes in the round.
    votes: Box<[Vote]>,
    /// Until when each holds our token for certain.
    ends: Box<[Instant]>,
    /// What each has stored of the fence.
    marks: Box<[Mark]>,
    /// See [`propose`](Hold::propose).
    candidate: u64,
    /// What else is known of each.
    nodes: Box<[Node]>,
    loss: Option<LossReason>,
    /// Who waits for the verdict of the round.
    round: Wakers,
    /// Who waits for the loss.
    watchers: Watchers,
    callbacks: Vec<Callback>,
    warned: bool,
    /// How often the token was passed on.
    passed: u32,
    /// Set when the owner of the lease has ended.
    gone: Option<Arc<AtomicBool>>,
}

type OnOver = dyn Fn() + Send + Sync;
type Callback = Box<dyn FnOnce(LossReason) + Send>;

/// What is known of one node.
#[derive(Clone)]
struct Node {
    /// What it said last, for error messages.
    said: Said,
    /// Requests that may have reached it: it may know the token.
    reached: u32,
    /// A renewal is under way and will be answered by then.
    asked: Option<Instant>,
    /// When to renew its vote.
    renew_at: Instant,
    failures: u32,
    /// Until when it held our token for certain, whatever it said since.
    had: Instant,
    /// Which server that was: see [`Ticket::server`].
    server: u64,
    /// How far its clock had stepped forward when `ends` was looked at, in µs.
    stepped: u64,
    /// It was asked once more, after its clock had been misjudged.
    again: bool,
    /// The waiter stands in its queue, or may.
    queued: bool,
    /// What it said of the line when it refused.
    line: Option<Line>,
}

impl Hold {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The lease's fence; 0 without fences, and before it is won.
    pub fn fence(&self) -> u64 {
        self.fence.load(Ordering::Acquire)
    }

    /// The verdict of the round: won, or how it was lost. A lost token is dead
    /// and its undo sent; why it was lost may take answers that are still to
    /// come, each within its deadline.
    pub fn poll_verdict(&self, cx: &Context<'_>) -> Poll<Result<(), NoQuorum>> {
        let mut state = self.state();
        match state.phase {
            Phase::Asking => state.round.park(cx),
            Phase::Held => Poll::Ready(Ok(())),
            // A lease may be lost before its winner looks: it was won.
            Phase::Dead if state.loss.is_some() => Poll::Ready(Ok(())),
            Phase::Dead => {
                let lost = state.no_quorum(&self.set);
                match lost.kind() {
                    Kind::Undecided if !lost.misconfigured => state.round.park(cx),
                    _ => Poll::Ready(Err(lost)),
                }
            }
        }
    }

    /// What the nodes have said so far, for a round that is given up, or was.
    pub(crate) fn so_far(&self) -> NoQuorum {
        self.state().no_quorum(&self.set)
    }

    /// Takes a reply to anything but a release into account.
    fn take(&self, ticket: Ticket, reply: &Reply, time: Option<u64>) {
        let now = self.set.clock.now();
        if let Some(time) = time {
            self.set.observe(ticket, now, time);
        }
        let (node, pause) = (ticket.node, 2 * self.terms.timing.node_timeout);
        match reply {
            Reply::Quarantined { .. } => self.set.shut(node, pause),
            // A node in quarantine refuses too.
            Reply::Refused { place: None, .. } => self.set.answered(node, false),
            Reply::Failed(fault) => match fault.kind {
                FaultKind::Refused => {}
                FaultKind::Timeout | FaultKind::Unreachable => self.set.silent(node, pause),
                FaultKind::NotReady | FaultKind::Misconfigured | FaultKind::Foreign => {
                    self.set.shut(node, pause);
                }
            },
            _ => self.set.answered(node, true),
        }
        let mut state = self.state();
        let before = self.end();
        self.settle_steps(&mut state);
        // A lease that has ended stays ended, even if this reply would have
        // saved it a moment ago.
        if mutant!(
            "late-renewal-revives",
            self.end_if_over(&mut state, now),
            false
        ) {
            return self.publish(state);
        }
        // An answer to a round that is over says yet why it was not won.
        let dead = mutant!("late-vote-revives", state.phase == Phase::Dead, false);
        if dead && mutant!("late-answer-not-taken", !state.is_awaited(&ticket), true) {
            return;
        }
        let asking = state.phase == Phase::Asking;
        let State {
            votes,
            ends,
            marks,
            nodes,
            ..
        } = &mut *state;
        let (node, vote) = (&mut nodes[ticket.node], &mut votes[ticket.node]);
        let (end, mark) = (&mut ends[ticket.node], &mut marks[ticket.node]);
        let (ttl, confirmed) = match ticket.op {
            Op::Acquire { ttl, .. } | Op::Extend { ttl, .. } => (ttl, 0),
            Op::Confirm { ttl, fence } => (ttl, fence),
            Op::Release => return,
        };
        let renewal = matches!(ticket.op, Op::Extend { .. });
        if renewal {
            node.asked = None;
        }
        match reply {
            Reply::Granted { .. } | Reply::Extended { .. } | Reply::Confirmed => {
                let sent = mutant!("end-from-reply", ticket.sent, now);
                let ttl = mutant!("counted-at-own-ttl", ttl, self.terms.timing.ttl);
                let drift = mutant!("everybodys-drift", self.terms.drift, 0.01);
                let less = quorum::drift_allowance(ttl, drift);
                let counted = mutant!("drift-added", ttl.saturating_sub(less), ttl + less);
                let new = sent + counted;
                *end = (*end).max(new);
                node.had = match node.server == ticket.server {
                    true => node.had.max(new),
                    false => new,
                };
                node.server = ticket.server;
                *vote = Vote::Granted(*end);
                node.said = Said::Granted;
                node.failures = 0;
                node.renew_at = self.coarse(ticket.sent + self.renew_every);
                match reply {
                    Reply::Granted { fence } => {
                        match mutant!("no-mark-agrees", mark.blind, false) {
                            true => mark.found = *fence,
                            false => mark.stored = *fence,
                        }
                        // This vote ended the waiter's place; no other does.
                        node.queued = false;
                    }
                    Reply::Confirmed => mark.stored = confirmed,
                    _ => {}
                }
                if renewal {
                    count(&self.set.counters.renewals);
                }
                if matches!(reply, Reply::Extended { repaired: true }) {
                    count(&self.set.counters.repairs);
                }
            }
            Reply::Greater { fence } => {
                // Not while our token stands there: nothing else raises it then.
                mark.found = mark.found.max(*fence);
                mark.asked = 0;
            }
            Reply::Refused {
                left,
                holder,
                place,
                subscribers,
            } => {
                *end = Instant::NEVER;
                node.line = Some(Line {
                    place: *place,
                    deaf: *subscribers == 0,
                });
                *vote = Vote::Refused;
                node.said = Said::Refused {
                    left: *left,
                    holder: holder.clone(),
                };
            }
            Reply::NotMine => {
                *end = mutant!("denied-vote-counts", Instant::NEVER, *end);
                *vote = Vote::Refused;
                node.said = Said::Refused {
                    left: None,
                    holder: None,
                };
                node.renew_at = self.coarse(now + self.renew_every);
            }
            // No vote. Of an extension: the one that was there is gone, but
            // nobody is given another as long as the quarantine lasts. To end the
            // lease now would free the other nodes before its holder knows.
            Reply::Quarantined { left } => {
                let less = quorum::drift_allowance(*left, self.terms.drift);
                let kept = ticket.sent + left.saturating_sub(less);
                *end = mutant!("quarantine-ends-a-vote", (*end).min(kept), Instant::NEVER);
                *vote = Vote::Failed;
                node.said = Said::Quarantined { left: *left };
                node.renew_at = self.coarse(now + self.renew_every.min(*left));
            }
            // Nothing was done. By now its clock is known better.
            Reply::Late if asking && !node.again && now < ticket.deadline => {
                node.again = true;
                drop(state);
                if let Some(hold) = self.me.upgrade() {
                    let sink: Arc<dyn Sink> = hold;
                    self.send([(ticket.node, ticket.op)], now, &sink);
                }
                return;
            }
            Reply::Late => {
                if matches!(ticket.op, Op::Acquire { .. }) {
                    *vote = Vote::Failed;
                }
                mark.failed = true;
                if mutant!("late-is-a-vote", false, true) {
                    *end = ticket.sent + self.terms.timing.counted;
                }
                node.said = Said::Late;
                node.renew_at = now;
            }
            Reply::Failed(fault) => {
                let open = asking || *vote == Vote::Awaited;
                if open && matches!(ticket.op, Op::Acquire { .. }) {
                    *vote = mutant!(
                        "failure-is-a-vote",
                        Vote::Failed,
                        Vote::Granted(ticket.sent + self.terms.timing.counted)
                    );
                    if dead && fault.kind == FaultKind::Refused {
                        // It was wanted no more, and not sent: the node was not
                        // asked.
                        *vote = Vote::Unasked;
                    }
                }
                // An acquire may fail unsent while an extension behind it is
                // still to be sent.
                if !mutant!("timeout-means-not-sent", fault.sent, false)
                    && matches!(ticket.op, Op::Acquire { .. } | Op::Extend { .. })
                {
                    let unsent = mutant!("unsent-means-unknown", 1, node.reached);
                    node.reached = node.reached.saturating_sub(unsent);
                }
                mark.failed = true;
                if mutant!("silence-confirms", false, confirmed != 0) {
                    mark.stored = confirmed;
                }
                if mutant!(
                    "not-ready-is-a-refusal",
                    false,
                    fault.kind == FaultKind::NotReady
                ) {
                    *end = Instant::NEVER;
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
            Phase::Asking => self.decide(state, now, reply, ticket.node),
            _ if dead => {
                let wakers = state.round.take();
                drop(state);
                wakers.wake();
            }
            _ => {
                let end = self.end_of(&state);
                self.end.store(end.0, Ordering::Release);
                if now >= end {
                    self.lose(&mut state, LossReason::Refused);
                    self.publish(state);
                } else {
                    let traces = state.left_behind();
                    drop(state);
                    self.tell_earlier_end(before);
                    if !traces.is_empty() {
                        self.undo(&traces);
                    }
                }
            }
        }
    }

    /// The verdict of the round, after one more reply.
    fn decide(&self, mut state: MutexGuard<'_, State>, now: Instant, reply: &Reply, node: usize) {
        let least = self.terms.timing.min_validity;
        let needed = now + mutant!("no-min-validity", least, Duration::ZERO);
        let verdict = quorum::verdict(&state.votes, needed);
        if matches!(reply, Reply::Failed(f) if f.kind == FaultKind::Timeout) {
            let mut before = state.votes.clone();
            before[node] = Vote::Awaited;
            if verdict == Verdict::Lost && quorum::verdict(&before, needed) != verdict {
                count(&self.set.counters.timeouts_awaited);
            }
        }
        let fence = match verdict {
            Verdict::Open if self.waiter.is_none() => return,
            Verdict::Open | Verdict::Lost => None,
            // Votes of a request sent late outlast what `max_hold` leaves.
            Verdict::Won if mutant!("won-beyond-cap", needed > self.last_end(), false) => None,
            Verdict::Won if self.terms.keys.fence_ttl.is_none() => Some(0),
            Verdict::Won => {
                let median = self.propose(&mut state, now);
                let State { votes, marks, .. } = &*state;
                match fence::verdict(votes, marks, needed, self.block, median) {
                    Fence::Agreed(fence) => Some(fence),
                    // Whoever stores a larger one has it written back again; the
                    // end of the attempt bounds how often.
                    Fence::WriteBack(fence) if now < self.attempt_ends() => {
                        return self.write_back(state, fence, now, needed);
                    }
                    Fence::WriteBack(_) | Fence::Lost => None,
                }
            }
        };
        match fence {
            Some(fence) => self.win(&mut state, fence),
            // Whoever waits decides how it goes on.
            None if self.waiter.is_some() => {
                if state.count_progress(reply) {
                    let wakers = state.round.take();
                    drop(state);
                    wakers.wake();
                }
                return;
            }
            None => {
                state.phase = Phase::Dead;
                count(&self.set.counters.attempts_lost);
            }
        }
        let wakers = state.round.take();
        let traces = match state.phase {
            Phase::Dead => mutant!("lost-round-stays", state.traces(None), Vec::new()),
            _ => state.left_behind(),
        };
        drop(state);
        if !traces.is_empty() {
            self.undo(&traces);
        }
        if mutant!("verdict-wakes-nobody", true, false) {
            wakers.wake();
        }
    }

    /// A quorum has voted for the token, and stores its fence.
    fn win(&self, state: &mut State, fence: u64) {
        state.phase = Phase::Held;
        let fence = mutant!("fence-not-told", fence, 0);
        self.block_end.store(fence, Ordering::Release);
        let first = fence.saturating_sub(u64::from(self.block - 1));
        self.fence.store(first, Ordering::Release);
        self.end.store(self.end_of(state).0, Ordering::Release);
        count(&self.set.counters.acquired);
    }

    /// The token: 40 hex digits.
    pub fn token(&self) -> &str {
        let token = &self.value.0[..Token::LEN];
        std::str::from_utf8(token).expect("hex digits are ASCII")
    }

    /// What its lock asked for.
    #[cfg(feature = "sim")]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }
}

impl State {
    /// Whether the reply to this request is the node's answer to the round.
    fn is_awaited(&self, ticket: &Ticket) -> bool {
        matches!(ticket.op, Op::Acquire { .. }) && self.votes[ticket.node] == Vote::Awaited
    }
}

impl Sink for Hold {
    fn on_reply(&self, ticket: Ticket, reply: Reply, time: Option<u64>) {
        self.take(ticket, &reply, time);
    }

    fn wanted(&self) -> bool {
        self.state().phase != Phase::Dead
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold")
            .field("key", &crate::error::shown(&self.terms.keys.lock))
            .finish_non_exhaustive()
    }
}
