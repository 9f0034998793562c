//! The set of nodes that vote together, and the seams to them.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use smallvec::SmallVec;

use crate::clock::{Clock, Instant};
use crate::event::{LogEvent, event};
use crate::mutex::lock;
use crate::node::names;
use crate::node::time::NodeTimes;
use crate::node::{FaultKind, Link, Reply, Request, RequestContext, Sink, TimeReading};
use crate::protocol::apart::HealthByLock;
use crate::protocol::claim::home::HomeWait;
use crate::protocol::contention::Contention;
use crate::protocol::counters::Counters;
use crate::protocol::fence;
use crate::protocol::quorum::quorum;
use crate::token::Rng;
use crate::wakers::Wakers;

/// What the protocol modules see of the world: links to the nodes, a clock,
/// and randomness.
pub struct Set {
    /// One link for each node, in the order of the node list.
    pub links: Vec<Arc<dyn Link>>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub rng: Arc<dyn Rng>,
    /// The longest ttl of any lock of the set: no vote outlives its last
    /// request by more.
    pub max_ttl: Duration,
    /// Bound on the difference of clock rates.
    pub drift: f64,
    /// What happened.
    pub counters: Arc<Counters>,
    /// How long calls that ask once wait for the first connections.
    pub connect_timeout: Duration,
    /// Where warnings go.
    pub warn: fn(LogEvent),
    /// Where goes what is worth knowing: losses.
    pub note: fn(LogEvent),
    /// What the keys of its locks begin with.
    pub namespace: Arc<str>,
    /// What to add to an error about the nodes: where their names come from, if not from the
    /// caller.
    pub origin: String,
    /// Which locks others were seen to want.
    pub(crate) contention: Contention,
    /// Which locks nodes cannot vote for that may vote for others.
    apart: HealthByLock,
    /// The last fence that was proposed.
    proposed: AtomicU64,
    clocks: Vec<NodeClock>,
    on_step: OnceLock<Box<dyn Fn() + Send + Sync>>,
    on_home_wait: OnceLock<Box<HomeWaitHook>>,
}

/// Is told until when which attempt waits for its home, and the number of its cell.
type HomeWaitHook = dyn Fn(Instant, u64, Weak<dyn HomeWait>) + Send + Sync;

/// What a call has that [has met](Set::met) its nodes.
pub(crate) struct KnownConnects {
    /// Which connections there were.
    connects: Vec<u64>,
    /// How much longer it may wait for others.
    left: Duration,
}

/// A request, and what goes with it to its node's link.
pub(crate) struct Outgoing {
    pub(crate) request: Request,
    pub(crate) ticket: RequestContext,
    /// A release is sent again until then.
    pub(crate) give_up: Instant,
}

/// The wake-ups that are owed for requests which leave together. Dropped, it
/// rings for them.
#[derive(Default)]
struct OwedWakeups<'a> {
    /// A link that owes them.
    link: Option<&'a dyn Link>,
    wakers: Wakers,
}

impl Drop for OwedWakeups<'_> {
    fn drop(&mut self) {
        if let Some(link) = self.link {
            link.ring(std::mem::take(&mut self.wakers));
        }
    }
}

/// How many renewals a node is given at a time. A server answers so many in less than a tenth of a
/// second; and at a round trip of 50 ms so many at a time are the renewals of 270,000 leases of
/// 10 s.
const RENEWALS: usize = 4096;

/// What is known of one node's clock.
#[derive(Default)]
struct NodeClock {
    times: Mutex<NodeTimes>,
    /// The sum of its forward steps, in µs.
    stepped: AtomicU64,
    /// It did not answer lately: out until this moment.
    silent_until: AtomicU64,
    /// It could not vote lately: out until this moment.
    shut_until: AtomicU64,
    /// It was waited for in vain as a home, and has not answered sooner since.
    late: AtomicBool,
    /// It was in quarantine lately: until this moment.
    quarantined_until: AtomicU64,
    /// How many renewals it has not answered yet.
    renewing: AtomicUsize,
    word: VoteRecord,
}

/// What a node has said of its votes last, for metrics: no lock rests on it.
#[derive(Default)]
struct VoteRecord {
    /// It did not answer.
    silent: AtomicBool,
    /// It answered that it gives none.
    refuses: AtomicBool,
    /// When it gave one last, or gave none.
    at: AtomicU64,
}

impl Set {
    /// The set of these nodes, as a client sees it.
    pub fn new(
        links: Vec<Arc<dyn Link>>,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
        max_ttl: Duration,
        drift: f64,
        warn: fn(LogEvent),
    ) -> Set {
        Set {
            clocks: links.iter().map(|_| NodeClock::default()).collect(),
            counters: Arc::new(Counters::new(links.len())),
            links,
            clock,
            rng,
            max_ttl,
            drift,
            connect_timeout: Duration::ZERO,
            contention: Contention::default(),
            apart: HealthByLock::default(),
            proposed: AtomicU64::new(0),
            warn,
            note: drop,
            namespace: "".into(),
            origin: String::new(),
            on_step: OnceLock::new(),
            on_home_wait: OnceLock::new(),
        }
    }

    /// Sends requests that leave together, and rings once for all of them. The sender has none of
    /// its own state locked, for a link may answer at once.
    pub(crate) fn send(&self, requests: impl IntoIterator<Item = Outgoing>, sink: &Arc<dyn Sink>) {
        let mut owed = OwedWakeups::default();
        for Outgoing {
            request,
            ticket,
            give_up,
        } in requests
        {
            let link = &*self.links[ticket.node];
            if let Some(wakers) = link.send(request, ticket, sink.clone(), give_up) {
                owed.link = Some(link);
                owed.wakers.extend(wakers);
            }
        }
    }

    /// Waits until a quorum of nodes is connected, or cannot be any more; for so long at most. At
    /// once where that is known, by the tries to connect that have ended.
    async fn meet(&self, most: Duration) {
        let quorum = quorum(self.links.len());
        let mut timer = None;
        poll_fn(|cx| {
            let (mut met, mut open) = (0, 0);
            for link in &self.links {
                match link.poll_met(cx) {
                    Poll::Ready(is_met) => met += usize::from(is_met),
                    Poll::Pending => open += 1,
                }
            }
            let decided = met >= quorum || met + open < quorum;
            if decided {
                return Poll::Ready(());
            }
            let timer =
                timer.get_or_insert_with(|| self.clock.sleep_until(self.clock.now() + most));
            timer.as_mut().poll(cx)
        })
        .await;
    }

    /// Waits as [`meet`](Set::meet) does, for [`connect_timeout`](Set::connect_timeout) at most.
    pub(crate) async fn met(&self) -> KnownConnects {
        let begun = self.clock.now();
        self.meet(self.connect_timeout).await;
        let waited = begun.until(self.clock.now());
        KnownConnects {
            connects: self.links.iter().map(|link| link.connects()).collect(),
            left: self.connect_timeout.saturating_sub(waited),
        }
    }

    /// For what was asked in vain over the connections of `before`: whether too many of them are
    /// gone for a quorum, as those of a process that was frozen for long are, and there are
    /// others in their place. Then it is worth asking again.
    pub(crate) async fn meets_again(&self, before: &KnownConnects) -> bool {
        let same = |node: usize| self.links[node].connects() == before.connects[node];
        if self.is_connected(same) {
            return false;
        }
        self.meet(before.left).await;
        self.is_connected(|_| true)
    }

    /// Whether a quorum of nodes is, of those that count.
    fn is_connected(&self, counts: impl Fn(usize) -> bool) -> bool {
        let cx = Context::from_waker(Waker::noop());
        let met = |node: &usize| self.links[*node].poll_met(&cx) == Poll::Ready(true);
        let nodes = 0..self.links.len();
        nodes.filter(|node| counts(*node)).filter(met).count() >= quorum(self.links.len())
    }

    /// Calls `act` whenever a node's clock has stepped forward: the votes that
    /// it gave end earlier than they were counted.
    pub fn on_step(&self, act: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_step.set(Box::new(act));
    }

    /// Calls `act` whenever an attempt begins to wait for its home alone. Without it such a wait ends
    /// with the home's answer, or with the timeout of the request.
    pub(crate) fn on_home_wait(
        &self,
        act: impl Fn(Instant, u64, Weak<dyn HomeWait>) + Send + Sync + 'static,
    ) {
        let _ = self.on_home_wait.set(Box::new(act));
    }

    /// An attempt, the cell of this number, waits for its home until `due`.
    pub(crate) fn waits_for_home(&self, due: Instant, id: u64, attempt: Weak<dyn HomeWait>) {
        if let Some(act) = self.on_home_wait.get() {
            act(due, id, attempt);
        }
    }

    /// The lock that has this key, for a line of the log: by its name, or by the key where that
    /// was given as it is.
    pub(crate) fn lock_of(&self, key: &[u8]) -> String {
        match names::name_of(&self.namespace, key) {
            Some(name) => name.escape_ascii().to_string(),
            None => key.escape_ascii().to_string(),
        }
    }

    /// Takes the `TIME` into account that the ticket's server reported.
    pub(crate) fn observe(&self, ticket: RequestContext, reading: TimeReading) {
        let node = ticket.node;
        let clock = &self.clocks[node];
        let TimeReading { time, at } = reading;
        let step = lock(&clock.times).observe(ticket.server, ticket.sent, at, time, self.drift);
        let Some(step) = step else { return };
        self.counters.measures.nodes[node].clock_stepped();
        (self.warn)(event!(
            "clock_stepped",
            "the clock of the node {node} has stepped by about {ms} ms: leases that stand on it are \
             shortened by a step forward",
            node = self.links[node].shown(),
            ms = step.0 / 1000,
        ));
        let forward = step.0;
        if let Ok(forward) = u64::try_from(forward) {
            clock.stepped.fetch_add(forward, Ordering::AcqRel);
            if let Some(act) = self.on_step.get() {
                act();
            }
        }
    }

    /// Whether what a node says of one lock tells nothing of others there.
    fn is_apart(&self, node: usize) -> bool {
        self.links[node].in_parts()
    }

    /// A node answered that it cannot vote now: it is [out](Set::is_out) for
    /// `pause`, or until it votes. For the lock of that key, if the fault is `of_lock`, or the
    /// node is in parts; else for all.
    pub(crate) fn shut(&self, node: usize, key: &Arc<[u8]>, of_lock: bool, pause: Duration) {
        let now = self.clock.now();
        let (until, at) = (now + pause, (node, self.links.len()));
        let apart = of_lock || self.is_apart(node);
        if !apart
            || !self
                .apart
                .note(key, at, now, |lock| lock.shut_until = until)
        {
            let shut_until = &self.clocks[node].shut_until;
            shut_until.store(until.0, Ordering::Relaxed);
        }
    }

    /// A node said for how much longer it is in quarantine.
    pub(crate) fn quarantined(&self, node: usize, left: Duration) {
        let until = self.clock.now() + left;
        let quarantined_until = &self.clocks[node].quarantined_until;
        quarantined_until.store(until.0, Ordering::Relaxed);
    }

    /// How much longer a node is in quarantine, as far as it has said.
    pub(crate) fn quarantine(&self, node: usize) -> Duration {
        let until = &self.clocks[node].quarantined_until;
        let until = Instant(until.load(Ordering::Relaxed));
        self.clock.now().until(until)
    }

    /// A node did not answer: it is out for `pause`, or until it does; one in parts for the lock
    /// of that key.
    pub(crate) fn silent(&self, node: usize, key: &Arc<[u8]>, pause: Duration) {
        let now = self.clock.now();
        let (until, at) = (now + pause, (node, self.links.len()));
        let apart = self.is_apart(node);
        if !apart
            || !self
                .apart
                .note(key, at, now, |lock| lock.silent_until = until)
        {
            let silent_until = &self.clocks[node].silent_until;
            silent_until.store(until.0, Ordering::Relaxed);
        }
    }

    /// A node has answered, about the lock of that key; `votes`: as only one does that can vote
    /// for it.
    pub(crate) fn answered(&self, node: usize, key: Option<&[u8]>, votes: bool) {
        if let Some(key) = key {
            self.apart.mend(key, node, |lock| {
                lock.silent_until = Instant::NEVER;
                if votes {
                    lock.shut_until = Instant::NEVER;
                }
            });
        }
        let NodeClock {
            silent_until,
            shut_until,
            ..
        } = &self.clocks[node];
        for until in [Some(silent_until), votes.then_some(shut_until)] {
            if let Some(until) = until
                && until.load(Ordering::Relaxed) != 0
            {
                until.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Whether a node failed to vote for the lock of that key lately, and has not since. A hint:
    /// it is asked for votes all the same, but is no home.
    pub(crate) fn is_out(&self, node: usize, key: &[u8]) -> bool {
        let until = self
            .out_until(node)
            .max(self.apart.of(key, node).out_until().0);
        until != 0 && self.clock.now().0 < until
    }

    /// Whether a node failed to vote when it was asked last, however long ago; for the lock of
    /// that key, or by a fault of its own without one.
    pub(crate) fn has_failed(&self, node: usize, key: Option<&[u8]>) -> bool {
        let apart = |key| self.apart.of(key, node).out_until() != Instant::NEVER;
        self.out_until(node) != 0 || key.is_some_and(apart)
    }

    /// The home of an attempt did not answer while the attempt waited for it: until it
    /// [was prompt](Set::was_prompt) it is [late](Set::is_late).
    pub(crate) fn waited_in_vain(&self, node: usize, key: &Arc<[u8]>) {
        let (now, at) = (self.clock.now(), (node, self.links.len()));
        let apart = self.is_apart(node);
        if !apart || !self.apart.note(key, at, now, |lock| lock.late = true) {
            self.clocks[node].late.store(true, Ordering::Relaxed);
        }
    }

    /// A node has replied to this: what that tells of its votes is its [word](Set::votes). What keeps
    /// it from voting for one lock tells nothing, nor does one part of a node that has several.
    pub(crate) fn heard(&self, node: usize, reply: &Reply, now: Instant) {
        let word = &self.clocks[node].word;
        let (silent, refuses) = match reply {
            Reply::Failed(fault) if fault.of_lock || fault.kind == FaultKind::Refused => return,
            Reply::Failed(_) | Reply::Quarantined { .. } if self.is_apart(node) => return,
            Reply::Failed(fault) => match fault.kind {
                FaultKind::Timeout | FaultKind::Unreachable => (true, false),
                _ => (false, true),
            },
            Reply::Quarantined { .. } => (false, true),
            // A vote that it gave before is another matter: a full node lengthens those.
            Reply::Granted { .. } | Reply::Chosen { .. } => (false, false),
            // It is there; whether it would vote is not said.
            _ => return word.silent.store(false, Ordering::Relaxed),
        };
        word.silent.store(silent, Ordering::Relaxed);
        word.refuses.store(refuses, Ordering::Relaxed);
        word.at.store(now.0, Ordering::Relaxed);
    }

    /// Whether a node would vote, by its last word; also if it was never asked.
    pub(crate) fn votes(&self, node: usize) -> bool {
        let word = &self.clocks[node].word;
        let (silent, refuses) = (&word.silent, &word.refuses);
        !(silent.load(Ordering::Relaxed) || refuses.load(Ordering::Relaxed))
    }

    /// When that word was said.
    pub(crate) fn last_word(&self, node: usize) -> Instant {
        Instant(self.clocks[node].word.at.load(Ordering::Relaxed))
    }

    /// A node was asked for its vote, and answered while it would have been waited for.
    pub(crate) fn was_prompt(&self, node: usize, key: &[u8]) {
        self.apart.mend(key, node, |lock| lock.late = false);
        let late = &self.clocks[node].late;
        if late.load(Ordering::Relaxed) {
            late.store(false, Ordering::Relaxed);
        }
    }

    /// Whether it is in vain to wait for the node as the home of the lock of that key, as far as
    /// is known.
    pub(crate) fn is_late(&self, node: usize, key: &[u8]) -> bool {
        self.clocks[node].late.load(Ordering::Relaxed) || self.apart.of(key, node).late
    }

    /// Counts a renewal that is about to be sent to the node, until it [ends](Set::renewal_ended).
    pub(crate) fn renewal_begins(&self, node: usize) {
        self.clocks[node].renewing.fetch_add(1, Ordering::Relaxed);
    }

    /// The node has answered a renewal, or its time is over.
    pub(crate) fn renewal_ended(&self, node: usize) {
        self.clocks[node].renewing.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether as many renewals are under way as the nodes are given at a time: at more nodes than
    /// a quorum can do without.
    pub(crate) fn is_renewing_enough(&self) -> bool {
        let has_room = |clock: &&NodeClock| clock.renewing.load(Ordering::Relaxed) < RENEWALS;
        self.clocks.iter().filter(has_room).count() < quorum(self.clocks.len())
    }

    fn out_until(&self, node: usize) -> u64 {
        let clock = &self.clocks[node];
        let silent = clock.silent_until.load(Ordering::Relaxed);
        silent.max(clock.shut_until.load(Ordering::Relaxed))
    }

    /// How far a node's clock has stepped forward so far, in µs.
    pub(crate) fn stepped(&self, node: usize) -> u64 {
        self.clocks[node].stepped.load(Ordering::Acquire)
    }

    /// Bounds on the `TIME` of the node's server that answered last at `now`, in
    /// µs, and which server that is.
    pub(crate) fn node_time(&self, node: usize, now: Instant) -> Option<((u64, u64), u64)> {
        let times = lock(&self.clocks[node].times);
        Some((times.present().bounds(now, self.drift)?, times.server()))
    }

    /// Bounds on the `TIME` of this server of the node at `now`, in µs.
    pub(crate) fn server_time(&self, node: usize, server: u64, now: Instant) -> Option<(u64, u64)> {
        let times = lock(&self.clocks[node].times);
        times.of(server).bounds(now, self.drift)
    }

    /// What the `TIME` of the node's server that answered last is at `now` by the best
    /// guess, in µs, and which server that is.
    pub(crate) fn guess(&self, node: usize, now: Instant) -> Option<(u64, u64)> {
        let times = lock(&self.clocks[node].times);
        Some((times.present().estimate(now)?, times.server()))
    }

    /// What `TIME` it is at `now` by the median of the nodes' clocks, in µs; 0 where too
    /// few are known. See [`fence::candidate`].
    pub(crate) fn median(&self, now: Instant) -> u64 {
        let known = self.clocks.iter();
        let mut known: SmallVec<[u64; 9]> = known
            .filter_map(|clock| lock(&clock.times).present().estimate(now))
            .collect();
        fence::candidate(&mut known, self.links.len())
    }

    /// The fence to propose at that [median](Set::median). Larger than any before,
    /// so that two holds of this client within one microsecond do not propose the same
    /// and have to write a larger one back.
    pub(crate) fn candidate(&self, median: u64) -> u64 {
        if median == 0 {
            return 0;
        }
        let next = |last: u64| median.max(last + 1);
        let last = self
            .proposed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(next(last))
            });
        last.map_or(median, next)
    }
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes: Vec<_> = self.links.iter().map(|link| link.shown()).collect();
        f.debug_struct("Set").field("nodes", &nodes).finish()
    }
}

#[cfg(test)]
pub(crate) mod tests;
