//! What is watched from outside: tokens, leases and keys, for the invariants.
//!
//! The oracle keeps books of its own: what each node has confirmed to each
//! token, and from when that counts. It judges what the faults of the schedule
//! leave promised:
//!
//! - S3, S4 (by the books), S5, L2, L5: always.
//! - L1: but for what `not_after` bounds. A request on a connection that broke
//!   may be carried out after its release was, within 1.1 node timeouts (and
//!   what is not known of the node's clock) of its sending; its key then
//!   stands for its ttl. Plain requests, without guard and fences, carry no
//!   `not_after`, and a step back of the clock lengthens it.
//! - S1, and that the votes a lease counts on are really there: a node is
//!   *excused* once its clock has stepped forward or it has lost data without
//!   a guard. With none excused, always. With fewer than a quorum of them, for
//!   a lease whose votes stand on all the others (the design's "with votes on
//!   all N nodes, q-1 of them may step"). With a quorum of them, never.
//!   A node that lost data with a guard is not excused: it votes for nobody.
//! - S2: whatever clocks do, while fewer nodes lost their counters, since the
//!   first vote for either hold, than any two quorums share. Whatever happens to
//!   counters, while the median of the clocks has gone on from one hold to the
//!   other, whichever quorum of them is known (`judges::median_went_on`). And on
//!   each node: its counter never goes back, is moved by what is proposed alone,
//!   no further than 10 s ahead of its clock, and what it says is so.
//!
//! A lease is held where a handle of its user says so (S1), given back or not;
//! the books say whether it may. Nothing here calls a lease in a way that changes
//! it: one that nobody looks at stays as it is.

mod beside;
mod books;
mod fences;
mod forced;
mod heard;
mod judges;
mod kept;
mod order;
mod places;
mod shared;
mod slot;
mod texts;
mod told;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use quorlock::Lease;
use quorlock::sim::{ClaimCell, Instant, MemoryNode, Mode, Request, StoredValue, Value};

use super::{Inner, Node, Time, World};
use crate::history::Happened;
use crate::neighbour::{known, place_of_hold};
use crate::trace::Step;
use kept::Kept;
pub use order::Natives;
use order::Words;
use places::Places;
pub(super) use shared::readers_on;

const MOST_NODES: usize = 7;

/// As often a token may be passed on.
const IN_A_ROW: u32 = 16;

#[derive(Default)]
pub(super) struct Oracle {
    /// What each client was told of each server's clock.
    times: Vec<Option<told::Told>>,
    /// A node's clock has stepped.
    pub(super) steps_seen: bool,
    /// An address led to another server, with another clock.
    pub(super) led_astray: bool,
    tokens: BTreeMap<u64, Life>,
    /// Until when each server, by its own clock, has last promised to keep a
    /// token, whatever it lost since.
    votes: BTreeMap<(u64, u64), Instant>,
    pub(super) watches: Vec<Watch>,
    /// Those that may be valid.
    active: Vec<usize>,
    /// Who stands in queues without need.
    places: Places,
    /// Holds that are to keep their locks.
    kept: Vec<Kept>,
    natives: Natives,
    /// Some wait for a semaphore of one slot under the name of a larger one: whoever takes
    /// another slot passes nobody who waits for it.
    pub(super) one_slot: bool,
    /// Leases may go from one user to another without either saying so.
    passes_unseen: bool,
    /// There are [locks](crate::neighbour) beside those of every schedule.
    neighbours: bool,
    /// How far node clocks stepped back in all: keys live longer by it.
    pub(super) stepped_back: Time,
}

/// What is known of a token from outside.
struct Life {
    task: usize,
    client: usize,
    /// Since when its task has no use for it any more.
    dead_since: Option<Time>,
    /// When its first request was sent, by its client's clock.
    begun: Instant,
    /// When a node first voted for it, and which.
    first_vote: Time,
    first_voter: usize,
    /// A vote was found to be lost, before its fence was written back or where its answer was lost, so
    /// that the token may have been asked for anew.
    denied: bool,
    /// Until when each node has confirmed to hold it, by the client's clock.
    ends: [Instant; MOST_NODES],
    /// The lease that was won with it last.
    watch: Option<usize>,
    /// What the nodes have said to it.
    words: Words,
    /// Its home has voted for it, and it has not been given up.
    at_home: bool,
    /// Requests on their way to each node, and releases that wait for their
    /// acknowledgement.
    under_way: [i32; MOST_NODES],
    /// A node carried out a request that came over a connection given up, or
    /// the release behind it was lost with that connection; within the
    /// request's `not_after`.
    late: [bool; MOST_NODES],
    /// Its lease was exported: on these nodes its votes stand until they end, or are taken over.
    exported: Option<[bool; MOST_NODES]>,
    /// How much of `max_hold` was left of it then.
    left: Option<Duration>,
    /// Where a vote of it was taken over by who adopts it.
    taken_over: [bool; MOST_NODES],
    /// How many have adopted it.
    adopters: u32,
    /// Somebody has asked for it to be taken away: its holder has yet to learn of that.
    forced: bool,
    /// A plain command has stored it there, later than any client counts it as a vote.
    too_late: [bool; MOST_NODES],
}

impl Life {
    /// Until when a quorum has confirmed to hold it, by the books.
    fn until(&self, quorum: usize) -> Instant {
        let mut ends = self.ends;
        ends.sort_unstable_by(|a, b| b.cmp(a));
        ends[quorum - 1]
    }
}

/// A lease that some contender holds or held.
pub(super) struct Watch {
    name: u64,
    pub(super) client: usize,
    pub(super) hold: Arc<ClaimCell>,
    /// Which of the token's leases it is.
    pub(super) lease: u32,
    /// What its users have of it; those that they gave back and keep.
    handles: Vec<Handle>,
    given_back: Vec<Handle>,
    /// They gave all of them up.
    released: bool,
    /// It stood when the last of them was given up.
    stood: bool,
    /// It was passed on: the token lives.
    pub(super) passed: bool,
    /// It was seen invalid.
    over: bool,
    /// Its end as it was seen last.
    last_end: Instant,
    /// When it was lost before its end.
    cut_short: Option<Time>,
    won_at: Time,
    /// How many listen whether it is lost, and how many of them were told.
    ears: u32,
    heard: u32,
    fence: Option<u64>,
    /// In which mode it was won.
    mode: Mode,
}

/// A handle on a lease, as its user has it.
type Handle = Weak<Lease>;

/// Until when the best of them says that it is held.
fn say(handles: &[Handle]) -> Instant {
    let alive = handles.iter().filter_map(Weak::upgrade);
    let says = alive.map(|lease| lease.says_until());
    says.max().unwrap_or(Instant::NEVER)
}

impl Watch {
    /// Until when its handles say that it is held: those that its users have, and those that they gave back.
    pub(super) fn says(&self) -> (Instant, Instant) {
        (say(&self.handles), say(&self.given_back))
    }

    /// The end of this lease of the token.
    pub(super) fn end(&self) -> Instant {
        if self.hold.lease() == self.lease {
            self.hold.end()
        } else {
            Instant::NEVER
        }
    }
}

/// What stands on a node before it carries a request out.
pub(super) struct Seen {
    /// Under the lock's key, and the key's end.
    form: Option<(StoredValue, Instant)>,
    /// What is counted.
    counted: u64,
    /// It is in quarantine, and that is minded.
    quarantined: bool,
    /// Whoever asks minds the node's record.
    guarded: bool,
    /// A live place stands before whoever asks; before readers one of those that are none.
    first_before: Option<quorlock::sim::Waiter>,
    /// Who shares the lock, each until then by the node's clock.
    readers: Vec<(Value, Instant)>,
    /// When, by its own clock.
    pub(super) local: Instant,
    /// All that stands there of other locks, where that is judged.
    apart: Option<MemoryNode>,
    /// The same of each slot, where all of them are asked for.
    pub(super) slots: Vec<(Request, Seen)>,
}

/// Until when what stands under a key holds the lock, or keeps it for a waiter: of a key
/// with that end.
pub(super) fn holds_until(form: &StoredValue, end: Instant) -> Instant {
    match form {
        StoredValue::Uncontended(_) => end,
        StoredValue::Contended { until, .. }
        | StoredValue::Kept { until, .. }
        | StoredValue::Reserved { until, .. }
        | StoredValue::Shared { until, .. } => end.min(Instant(until * 1000)),
    }
}

/// A lease as it was before a reply.
pub(super) struct Before {
    watch: usize,
    end: Instant,
    now: Instant,
}

/// The lease's fencing token, if its lock counts them.
fn fence_of(lease: &Lease) -> Option<u64> {
    let counts = lease.hold().terms().keys.fence_ttl;
    counts.map(|_| lease.fence().unwrap_or(0))
}

/// Whether both values begin with one token, written out independently: what stands behind
/// the dot is a label.
pub(super) fn of_one_token(one: &Value, other: &Value) -> bool {
    let token = |value: &Value| value.0.iter().position(|byte| *byte == b'.');
    let (one, other) = (&one.0[..token(one).unwrap_or(one.0.len())], other);
    one == &other.0[..token(other).unwrap_or(other.0.len())]
}

/// A token's first 64 bits, as a name for it.
fn name_of(token: &[u8]) -> u64 {
    let digit = |name, byte: &u8| name << 4 | u64::from((byte & 15) + (byte >> 6) * 9);
    token.iter().take(16).fold(0, digit)
}

/// S4: how long a confirmed request counts, written out independently.
fn counted(ttl: Duration, drift: f64) -> Duration {
    ttl.saturating_sub(ttl.mul_f64(drift) + Duration::from_millis(2))
}

impl Oracle {
    /// The lease that was won last with a request's token.
    pub(super) fn watch_of(&self, request: &Request) -> Option<&Watch> {
        let life = self.tokens.get(&name_of(&request.value.0))?;
        self.watches.get(life.watch?)
    }
}

impl World {
    /// The polled task has no use any more for its tokens, but for those of which
    /// somebody has a handle.
    pub fn done_with_tokens(&self) {
        let task = self.inner().polled;
        self.end_tokens(|life| life.task == task);
    }

    /// From here on users wait for several locks, and give back unseen what they have won.
    /// It may be passed on to another of their client, who has it unseen too.
    pub fn passes_unseen(&self) {
        self.inner().oracle.passes_unseen = true;
    }

    /// Nobody asks for anything any more.
    pub fn all_done(&self) {
        self.inner().oracle.passes_unseen = false;
        self.end_tokens(|_| true);
    }

    fn end_tokens(&self, of: impl Fn(&Life) -> bool) {
        let mut inner = self.inner();
        let now = inner.time;
        let Oracle {
            tokens,
            watches,
            passes_unseen,
            ..
        } = &mut inner.oracle;
        let mut useless = Vec::new();
        for (name, life) in tokens {
            let kept = || life.watch.is_some_and(|i| !watches[i].handles.is_empty());
            let voted = || life.ends.iter().any(|end| *end != Instant::NEVER);
            let passed = || *passes_unseen && life.watch.is_none() && voted();
            if of(life) && life.dead_since.is_none() && !kept() && !passed() {
                life.dead_since = Some(now);
                useless.push(*name);
            }
        }
        for token in useless {
            inner.traces(|_| Step::Useless { token });
        }
    }

    /// Reports a broken invariant.
    pub fn violated(&self, what: String) {
        self.inner().violated(what);
    }

    /// A contender got this lease, in this moment; or another handle on one that
    /// stands. Returns its place.
    pub fn won(&self, client: usize, lease: &Arc<Lease>) -> usize {
        self.handed(client, lease, true)
    }

    /// The same, of a lease that may have been won a while before, by who waited for others:
    /// what the nodes said since is no matter of its order.
    pub fn won_with_others(&self, client: usize, lease: &Arc<Lease>) -> usize {
        self.handed(client, lease, false)
    }

    /// Whether a node may have voted twice, as its excuse says.
    pub fn has_excused(&self) -> bool {
        self.inner().nodes.iter().any(|node| node.excused)
    }

    fn handed(&self, client: usize, lease: &Arc<Lease>, now_won: bool) -> usize {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let hold = lease.hold();
        let name = name_of(hold.token().as_bytes());
        let (time, now) = (inner.time, inner.clients[client].now(inner.time));
        let known = inner.oracle.tokens.get(&name).and_then(|life| life.watch);
        let known = known.filter(|i| inner.oracle.watches[*i].lease == lease.number());
        if let Some(index) = known {
            inner.note(|| Happened::ReEntered {
                client,
                token: hold.token()[..6].into(),
            });
            inner.saw(|| format!("c{client} re-entered {}", &hold.token()[..6]));
            if now >= lease.says_until() {
                inner.violated(format!("S5 c{client} re-entered a lease that is over"));
            }
            let watch = &mut inner.oracle.watches[index];
            watch.handles.push(Arc::downgrade(lease));
            inner.traces_won(index, lease, now_won, true);
            return index;
        }
        let end = hold.end();
        inner.note(|| Happened::Won {
            client,
            token: hold.token()[..6].into(),
            fence: lease.fence(),
            left: now.until(end),
        });
        inner.saw(|| {
            let (token, number, fence) = (&hold.token()[..6], lease.number(), lease.fence());
            format!("c{client} won {token}, lease {number}, fence {fence:?}, until {end:?}")
        });
        // The winner runs in the moment of the verdict.
        if now + hold.terms().timing.min_validity > end {
            inner.violated(format!("S4 c{client} won a lease with too little validity"));
        }
        let index = inner.oracle.watches.len();
        inner.oracle.watches.push(Watch {
            name,
            client,
            hold: hold.clone(),
            lease: lease.number(),
            handles: vec![Arc::downgrade(lease)],
            given_back: Vec::new(),
            released: false,
            stood: false,
            passed: false,
            over: false,
            last_end: end,
            cut_short: (end == Instant::NEVER).then_some(time),
            won_at: time,
            ears: 0,
            heard: 0,
            fence: fence_of(lease),
            mode: hold.mode(),
        });
        if let Some(life) = inner.oracle.tokens.get_mut(&name) {
            life.watch = Some(index);
            life.task = inner.polled;
        }
        inner.oracle.active.push(index);
        inner.traces_won(index, lease, now_won, false);
        inner.holds(place_of_hold(hold), client, index, true);
        if lease.number() > IN_A_ROW {
            inner.violated(format!("L5 c{client}'s line keeps a token for itself"));
        }
        inner.due(inner.clients[client].clock.time(end));
        inner.check_honest(index);
        if lease.number() == 0 && now_won {
            inner.check_home(client, hold);
        }
        inner.check_fence(index);
        inner.check_adopted(client, lease);
        inner.check_kept(client, lease);
        inner.check_holds();
        index
    }

    /// A contender is about to give a handle up.
    pub fn give_up(&self, index: usize, lease: &Arc<Lease>) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let watch = &mut inner.oracle.watches[index];
        watch.stood = inner.clients[watch.client].now(inner.time) < watch.end();
        let handle = Arc::downgrade(lease);
        watch.handles.retain(|other| !other.ptr_eq(&handle));
        watch.given_back.push(handle);
        watch.released = watch.handles.is_empty();
        let last = watch.released;
        if let Some(life) = inner.oracle.tokens.get_mut(&watch.name) {
            // Whoever has the last one ends it.
            life.task = inner.polled;
        }
        inner.traces_giving_up(index, last);
    }

    /// It has given it up: with the last handle the lease is over, from before
    /// the first byte was sent, or passed on to another of its client. With any
    /// other nothing has changed.
    pub fn gave_up(&self, index: usize) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let watch = &mut inner.oracle.watches[index];
        let (client, hold, end) = (watch.client, watch.hold.clone(), watch.end());
        let (released, ended) = (watch.released, watch.stood && end == Instant::NEVER);
        watch.passed = hold.lease() != watch.lease;
        if let Some(life) = inner.oracle.tokens.get_mut(&watch.name)
            && watch.passed
        {
            // Nobody's, until that other takes it.
            life.task = usize::MAX;
        }
        inner.traces_given_up(index, released);
        inner.traces_standing(index);
        inner.note(|| Happened::GaveUp {
            client,
            token: hold.token()[..6].into(),
            over: released,
        });
        inner.saw(|| format!("c{client} released {}", &hold.token()[..6]));
        if released {
            inner.holds(place_of_hold(&hold), client, index, false);
        }
        if released && end != Instant::NEVER {
            inner.violated(format!("S5 a released lease of c{client} is valid"));
        } else if !released && ended {
            inner.violated(format!("S5 one of c{client}'s handles ended the lease"));
        }
    }

    /// The lease of this place was exported, by its only handle.
    pub fn exported(&self, index: usize, lease: &Arc<Lease>) {
        self.give_up(index, lease);
        self.inner().traces_exported(index);
        self.inner().note_exported(index);
        self.gave_up(index);
    }

    /// When a lease ends, in true time, if nothing lengthens it.
    pub fn end_of(&self, index: usize) -> Time {
        let inner = self.inner();
        let watch = &inner.oracle.watches[index];
        inner.clients[watch.client].clock.time(watch.end())
    }

    /// Whether the client has been awake since a time: nothing held it up.
    pub fn awake_since(&self, client: usize, since: Time) -> bool {
        let inner = self.inner();
        inner.clients[client].awake_since <= since
    }

    /// A program closes the client.
    pub fn is_closed(&self, client: usize) {
        self.inner().clients[client].closed = true;
        self.inner().traces(|_| Step::Closed { client });
    }

    /// Whether the client is gone.
    pub fn is_crashed(&self, client: usize) -> bool {
        self.inner().clients[client].crashed
    }

    /// How far node clocks stepped back in all.
    pub fn stepped_back(&self) -> Time {
        self.inner().oracle.stepped_back
    }

    /// The native requests for a vote that nodes carried out.
    pub fn natives(&self) -> Natives {
        self.inner().oracle.natives
    }

    /// How many keys on all nodes hold a lock.
    pub fn all_keys(&self) -> usize {
        let inner = self.inner();
        let living = |node: &Node| {
            let (local, keys) = (node.clock.local(inner.time), &node.state);
            let time = MemoryNode::time(local);
            let held = keys.keys(local);
            let held = held.filter(|(_, form, _)| form.holder(time).is_some());
            let readers = known().iter();
            let readers = readers.map(|lock| shared::readers_on(keys, &lock.aux, local).len());
            held.count() + readers.sum::<usize>()
        };
        inner.nodes.iter().map(living).sum()
    }
}

impl Inner {
    pub(super) fn violated(&mut self, what: String) {
        if self.violation.is_none() {
            self.note(|| Happened::Violation(what.clone()));
            self.violation = Some(what);
        }
    }

    fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// How many nodes a client lists, and a quorum of those.
    pub(super) fn listed(&self, client: usize) -> (usize, usize) {
        let nodes = self.surveys[client].expected().nodes;
        (nodes, nodes / 2 + 1)
    }

    /// In how many places of its list a client has nodes that are excused.
    fn excused(&self, client: usize) -> usize {
        let first = client * self.nodes.len();
        let own = self.pairs[first..][..self.listed(client).0].iter();
        own.filter(|p| self.nodes[p.node].excused).count()
    }
}
