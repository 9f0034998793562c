//! One token on all nodes: the round that wins it, the votes that keep it, the
//! undo that ends it.
//!
//! A [`Hold`] is one token's life. It begins as an attempt; if a quorum votes
//! for it, it is a lease; in the end it is dead, and its release is on the way
//! to every node that may know it. It takes the nodes' replies where they
//! arrive and wakes its waiter once.

mod extension;
mod keep;
mod pass;
mod release;
mod steps;
mod write_back;

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::Poll;
use std::time::Duration;

use crate::clock::Instant;
use crate::config::Timing;
use crate::drive;
use crate::fence::{self, Fence, Mark};
use crate::mutants::mutant;
use crate::node::{Fault, FaultKind, Keys, Op, Repair, Reply, Request, Sink, Ticket, Value};
use crate::quorum::{self, Verdict, Vote};
use crate::retry;
use crate::set::{Set, count};
use crate::sync::{Wakers, Watchers, lock};
use crate::token::Token;

pub use extension::Extended;
pub(crate) use pass::IN_A_ROW;
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
    /// Set when the owner of the lease has ended.
    pub gone: Option<Arc<AtomicBool>>,
}

/// One token's life. See the [module documentation](self).
pub struct Hold {
    /// Itself, to be the sink of what it sends.
    me: Weak<Hold>,
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
    /// See [`Request::guess`].
    guess: Option<Arc<OnceLock<u64>>>,
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
    /// What each has stored of the fence.
    marks: Vec<Mark>,
    /// What else is known of each.
    nodes: Vec<Node>,
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

/// Takes when a lease was released; nothing if it was lost.
type OnOver = dyn Fn(Option<Instant>) + Send + Sync;
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
    /// How far its clock had stepped forward when `ends` was looked at, in µs.
    stepped: u64,
    /// It was asked once more, after its clock had been misjudged.
    again: bool,
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
    Quarantined {
        left: Duration,
    },
    Late,
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
    /// Draws a token and asks all nodes for their votes, and for as many fences
    /// as `block` says: one, and one for each lease that may follow on the
    /// same token.
    pub fn begin(set: &Arc<Set>, terms: &Terms, block: u32) -> Arc<Hold> {
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
            reached: 1,
            asked: None,
            renew_at: begun + renew_every,
            failures: 0,
            had: Instant::NEVER,
            stepped: 0,
            again: false,
        };
        let node_of = |i: usize| Node {
            stepped: set.stepped(i),
            ..node.clone()
        };
        let candidate = match terms.keys.counter {
            Some(_) => set.candidate(begun),
            None => 0,
        };
        static IDS: AtomicU64 = AtomicU64::new(0);
        let hold = Arc::new_cyclic(|me| Hold {
            me: me.clone(),
            set: set.clone(),
            terms: terms.clone(),
            token,
            id: IDS.fetch_add(1, Ordering::Relaxed),
            value: Value(value),
            last_end: terms.max_hold.map_or(Instant::FAR, |d| begun + d),
            begun,
            renew_every,
            end: AtomicU64::new(Instant::NEVER.0),
            block,
            fence: AtomicU64::new(0),
            block_end: AtomicU64::new(0),
            on_earlier_end: OnceLock::new(),
            on_over: OnceLock::new(),
            guess: (terms.keys.counter.is_some() && candidate == 0).then(Arc::default),
            state: Mutex::new(State {
                phase: Phase::Asking,
                votes: vec![Vote::Awaited; nodes],
                ends: vec![Instant::NEVER; nodes],
                marks: vec![Mark::default(); nodes],
                nodes: (0..nodes).map(node_of).collect(),
                loss: None,
                round: Wakers::default(),
                watchers: Watchers::default(),
                callbacks: Vec::new(),
                warned: false,
                passed: 0,
                gone: terms.gone.clone(),
            }),
        });
        let sink: Arc<dyn Sink> = hold.clone();
        let _together = drive::gather();
        for node in 0..nodes {
            let op = Op::Acquire {
                ttl,
                candidate,
                home: false,
                block,
            };
            hold.send(node, op, begun, &sink);
        }
        hold
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Sends one request; never with the state locked, for a link may answer
    /// at once.
    fn send(&self, node: usize, op: Op, now: Instant, sink: &Arc<dyn Sink>) {
        let deadline = now + self.terms.timing.node_timeout;
        let deadline = match op {
            // A round is over after twice the time of one request.
            Op::Confirm { .. } => deadline.min(self.round_ends()),
            _ => deadline,
        };
        let give_up = match op {
            Op::Release => now + self.longest_life(),
            _ => deadline,
        };
        let not_after = match op {
            Op::Release => 0,
            _ => self.not_after(node, op, now),
        };
        let request = Request {
            op,
            keys: self.terms.keys.clone(),
            value: self.value.clone(),
            waiter: None,
            not_after,
            guess: self.guess.clone(),
        };
        let ticket = Ticket {
            node,
            sent: mutant!("start-taken-late", now, now + self.renew_every / 8),
            deadline,
            op,
        };
        self.set.links[node].send(request, ticket, sink.clone(), give_up);
    }

    /// How long a key may stand that a request stores which was sent by now.
    fn longest_life(&self) -> Duration {
        let max_ttl = self.set.max_ttl;
        let drift = quorum::drift_allowance(max_ttl, self.terms.drift);
        // It may be carried out late: see `not_after`.
        let late = 2 * self.terms.timing.node_timeout;
        max_ttl + drift + mutant!("given-up-early", late, Duration::ZERO)
    }

    /// When a round that is still open is over.
    pub(crate) fn round_ends(&self) -> Instant {
        self.begun + 2 * self.terms.timing.node_timeout
    }

    /// The node's `TIME` after which a request must do nothing: so that one
    /// which is stuck in a dead connection takes no lock that nobody wants.
    fn not_after(&self, node: usize, op: Op, now: Instant) -> u64 {
        let Some((low, high)) = self.set.node_time(node, now) else {
            return 0;
        };
        let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX / 2);
        let usual = high + micros(self.terms.timing.node_timeout.mul_f64(1.1));
        match op {
            // Allowed in quarantine only while the vote before would stand.
            Op::Extend {
                repair: Repair::InQuarantine,
                ..
            } => {
                let had = self.had(node);
                usual.min(low + micros(now.until(had)))
            }
            _ => usual,
        }
    }

    /// The lease's fence; 0 without fences, and before it is won.
    pub fn fence(&self) -> u64 {
        self.fence.load(Ordering::Acquire)
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

    /// Takes a reply to anything but a release into account.
    fn take(&self, ticket: Ticket, reply: &Reply, time: Option<u64>) {
        let now = self.set.clock.now();
        if let Some(time) = time {
            self.set.observe(ticket.node, ticket.sent, now, time);
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
        if mutant!("late-vote-revives", state.phase == Phase::Dead, false) {
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
                let less = quorum::drift_allowance(ttl, self.terms.drift);
                let counted = mutant!("drift-added", ttl.saturating_sub(less), ttl + less);
                *end = (*end).max(sent + counted);
                node.had = *end;
                *vote = Vote::Granted(*end);
                node.said = Said::Granted;
                node.failures = 0;
                node.renew_at = self.coarse(ticket.sent + self.renew_every);
                match reply {
                    Reply::Granted { fence } => mark.stored = *fence,
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
            Reply::Refused { left, holder, .. } => {
                *end = Instant::NEVER;
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
            // No vote; of an extension: the one that was there is gone.
            Reply::Quarantined { left } => {
                *end = Instant::NEVER;
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
                    self.send(ticket.node, ticket.op, now, &sink);
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
                if asking && matches!(ticket.op, Op::Acquire { .. }) {
                    *vote = mutant!(
                        "failure-is-a-vote",
                        Vote::Failed,
                        Vote::Granted(ticket.sent + self.terms.timing.counted)
                    );
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
            Phase::Asking => self.decide(state, now, reply),
            _ => {
                let end = self.end_of(&state);
                self.end.store(end.0, Ordering::Release);
                if now >= end {
                    self.lose(&mut state, LossReason::Refused);
                    self.publish(state);
                } else {
                    drop(state);
                    self.tell_earlier_end(before);
                }
            }
        }
    }

    /// The verdict of the round, after one more reply.
    fn decide(&self, mut state: MutexGuard<'_, State>, now: Instant, reply: &Reply) {
        let least = self.terms.timing.min_validity;
        let needed = now + mutant!("no-min-validity", least, Duration::ZERO);
        let fence = match quorum::verdict(&state.votes, needed) {
            Verdict::Open => return,
            Verdict::Lost => None,
            Verdict::Won => match fence::verdict(&state.votes, &state.marks, needed) {
                Fence::Agreed(fence) => Some(fence),
                Fence::WriteBack(fence) if now < self.round_ends() => {
                    return self.write_back(state, fence, now, needed);
                }
                Fence::WriteBack(_) | Fence::Lost => None,
            },
        };
        if let Some(fence) = fence {
            state.phase = Phase::Held;
            let fence = mutant!("fence-not-told", fence, 0);
            self.block_end.store(fence, Ordering::Release);
            let first = fence.saturating_sub(u64::from(self.block - 1));
            self.fence.store(first, Ordering::Release);
            self.end.store(self.end_of(&state).0, Ordering::Release);
            count(&self.set.counters.acquired);
        } else {
            state.phase = Phase::Dead;
            count(&self.set.counters.attempts_lost);
        }
        if matches!(reply, Reply::Failed(f) if f.kind == FaultKind::Timeout) {
            count(&self.set.counters.timeouts_awaited);
        }
        let undo = state.phase == Phase::Dead;
        let wakers = state.round.take();
        let reached = state.reached();
        drop(state);
        if mutant!("lost-round-stays", undo, false) {
            self.undo(&reached);
        }
        if mutant!("verdict-wakes-nobody", true, false) {
            wakers.wake();
        }
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
        let release = self.undo(&reached);
        if was == Phase::Held {
            self.tell_over(Some(now));
        }
        (was == Phase::Held, release)
    }

    /// Sends the release to the nodes that the token may have reached.
    fn undo(&self, reached: &[bool]) -> Arc<Release> {
        let most = mutant!("undo-at-a-quorum", reached.len(), reached.len() / 2 + 1);
        let targets = || reached.iter().enumerate().filter(|(_, r)| **r).take(most);
        let release = Release::new(&self.set, targets().count());
        let sink: Arc<dyn Sink> = release.clone();
        let now = self.set.clock.now();
        let _together = drive::gather();
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
                self.nodes[i].reached > 0,
                self.votes[i] != Vote::Failed
            ) && mutant!(
                "undo-what-granted",
                true,
                matches!(self.votes[i], Vote::Granted(_))
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
