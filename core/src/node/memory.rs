//! A node in memory: the meaning of each script, on a map.
//!
//! `memory://NAME` serves a user's own tests; the simulator drives the same
//! [`MemoryNode`] in virtual time.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use once_cell::sync::Lazy;

use super::{Fault, Link, Op, Repair, Reply, Request, Sink, Ticket, Value};
use crate::clock::{Clock, Instant};
use crate::mutants::mutant;
use crate::sync::lock;

/// The state of one node. Time is an argument, as everything else.
#[derive(Clone, Debug, Default)]
pub struct MemoryNode {
    keys: BTreeMap<Arc<[u8]>, (Value, Instant)>,
    /// Counters of fences, and the ends of their lives.
    counters: BTreeMap<Arc<[u8]>, (u64, Instant)>,
    /// The node's record.
    record: Option<Arc<str>>,
    /// The end of its quarantine.
    quarantine: Option<Instant>,
    /// Dead keys are dropped when there are this many in all.
    sweep_at: usize,
}

/// The furthest that a proposed fence may be ahead of the node's `TIME`, and
/// behind it, in µs.
const FURTHEST: u64 = 10_000_000;
const OLDEST: u64 = 1_000_000;

/// What a node answers: a reply, or that it holds another record than the one
/// expected.
pub type Answer = Result<Reply, OtherRecord>;

/// The node holds another record: see [`admission`](super::admission).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherRecord;

impl MemoryNode {
    /// The value under `key` and the moment its life ends, if it lives at
    /// `now`. A key lives up to and including its last millisecond, as on
    /// Redis.
    pub fn get(&self, key: &[u8], now: Instant) -> Option<(&Value, Instant)> {
        let (value, end) = self.keys.get(key)?;
        (tick(now) <= *end).then_some((value, *end))
    }

    /// Every living key with its value.
    #[cfg(feature = "sim")]
    pub fn keys(&self, now: Instant) -> impl Iterator<Item = (&[u8], &Value)> {
        self.keys
            .iter()
            .filter(move |(_, (_, end))| tick(now) <= *end)
            .map(|(key, (value, _))| (&**key, value))
    }

    /// Every living counter with its fence and the moment its life ends.
    #[cfg(feature = "sim")]
    pub fn counters(&self, now: Instant) -> impl Iterator<Item = (&[u8], u64, Instant)> {
        self.counters
            .iter()
            .filter(move |(_, (_, end))| tick(now) <= *end)
            .map(|(key, (fence, end))| (&**key, *fence, *end))
    }

    /// The node's `TIME` in µs when its own clock shows `now`.
    pub fn time(now: Instant) -> u64 {
        now.0 / 1000
    }

    /// The last fence counted under `key`, if the counter lives at `now`.
    pub fn fence(&self, key: &[u8], now: Instant) -> Option<u64> {
        let (fence, end) = self.counters.get(key)?;
        (tick(now) <= *end).then_some(*fence)
    }

    /// The node's record.
    #[cfg(feature = "sim")]
    pub fn record(&self) -> Option<&Arc<str>> {
        self.record.as_ref()
    }

    /// How long the quarantine lasts yet.
    pub fn quarantine(&self, now: Instant) -> Option<Duration> {
        let end = self.quarantine.filter(|end| tick(now) <= *end)?;
        Some(tick(now).until(end))
    }

    /// The init script: replaces the record, if it is still `old`, and begins
    /// a quarantine. Returns whether it did.
    #[cfg(any(test, feature = "sim"))]
    pub fn init(
        &mut self,
        old: Option<&str>,
        new: Arc<str>,
        quarantine: Duration,
        now: Instant,
    ) -> bool {
        if self.record.as_deref() != old {
            return false;
        }
        self.record = Some(new);
        let (quarantine, rest) = (whole(quarantine), self.quarantine(now).unwrap_or_default());
        if quarantine > rest && mutant!("quarantine-not-lengthened", true, rest.is_zero()) {
            self.quarantine = Some(tick(now) + quarantine);
        }
        true
    }

    /// Carries out one request at `now` of this node's own clock. `record`:
    /// what the node must hold; `None`: any.
    pub fn execute(&mut self, request: &Request, record: Option<&str>, now: Instant) -> Answer {
        let (value, end) = match self.get(&request.key, now) {
            Some((value, end)) => (Some(value), end),
            None => (None, tick(now)),
        };
        let full = |ttl: Duration| tick(now) + whole(ttl);
        let (mine, free) = (value == Some(&request.value), value.is_none());
        if request.op != Op::Release {
            let late = request.not_after != 0 && MemoryNode::time(now) > request.not_after;
            if mutant!("no-not-after", late, false) {
                return Ok(Reply::Late);
            }
            let other = record.is_some() && self.record.as_deref() != record;
            if mutant!("record-ignored", other, false) {
                return Err(OtherRecord);
            }
        }
        // Without a guard nobody minds it.
        let quarantine = self.quarantine(now).filter(|_| record.is_some());
        let quarantine = mutant!("no-quarantine", quarantine, None);
        let reply = match request.op {
            Op::Acquire { .. } if quarantine.is_some() && free => Reply::Quarantined {
                left: quarantine.unwrap_or_default(),
            },
            Op::Acquire { ttl, candidate } if mutant!("acquire-overwrites", free, true) => {
                let end = mutant!("vote-without-ttl", full(ttl), Instant::FAR);
                self.store(request, end);
                Reply::Granted {
                    fence: self.count(request, candidate, now),
                }
            }
            Op::Acquire { ttl, .. } if mine => {
                self.store(request, end.max(full(ttl)));
                let counter = request.counter.as_ref();
                if mutant!("resend-counts-again", false, true) {
                    let fence = self.count(request, 0, now);
                    return Ok(Reply::Granted { fence });
                }
                Reply::Granted {
                    fence: counter.and_then(|c| self.fence(&c.key, now)).unwrap_or(0),
                }
            }
            Op::Acquire { .. } if mutant!("refusal-says-granted", false, true) => {
                Reply::Granted { fence: 0 }
            }
            Op::Acquire { .. } => Reply::Refused {
                left: Some(tick(now).until(end)),
                holder: value.and_then(label),
            },
            Op::Extend { ttl, fence, .. } if mutant!("extend-unowned", mine, !free) => {
                let end = mutant!("renewal-shortens", end, now);
                self.store(request, end.max(full(ttl)));
                self.raise(request, fence, now);
                Reply::Extended { repaired: false }
            }
            Op::Extend { ttl, repair, fence }
                if repair != Repair::No && mutant!("repair-over-a-stranger", free, true) =>
            {
                if let Some(left) = quarantine.filter(|_| repair == Repair::Yes) {
                    return Ok(Reply::Quarantined { left });
                }
                self.store(request, full(ttl));
                self.raise(request, mutant!("repair-without-fence", fence, 0), now);
                Reply::Extended { repaired: true }
            }
            Op::Confirm { ttl, fence } if mutant!("confirm-unowned", mine, true) => {
                let counter = request.counter.as_ref();
                match counter.and_then(|c| self.fence(&c.key, now)) {
                    Some(stored) if mutant!("confirm-lowers", stored > fence, false) => {
                        Reply::Greater { fence: stored }
                    }
                    _ => {
                        self.store(request, end.max(full(ttl)));
                        self.raise(request, fence, now);
                        Reply::Confirmed
                    }
                }
            }
            Op::Extend { .. } if mutant!("extends-without-key", false, true) => {
                Reply::Extended { repaired: false }
            }
            Op::Extend { .. } | Op::Confirm { .. } => Reply::NotMine,
            Op::Release => {
                let delete = mutant!("release-unowned", mine, !free);
                if mutant!("release-keeps-key", delete, false) {
                    self.keys.remove(&request.key);
                }
                Reply::Released { held: mine }
            }
        };
        Ok(reply)
    }

    fn store(&mut self, request: &Request, end: Instant) {
        self.keys
            .insert(request.key.clone(), (request.value.clone(), end));
    }

    /// Counts a new vote; returns its fence.
    fn count(&mut self, request: &Request, candidate: u64, now: Instant) -> u64 {
        let Some(counter) = &request.counter else {
            return 0;
        };
        let time = MemoryNode::time(now);
        let candidate = if candidate + OLDEST < time {
            time
        } else {
            mutant!("no-clamp", candidate.min(time + FURTHEST), candidate)
        };
        let last = self.fence(&counter.key, now).unwrap_or(0);
        let fence = candidate.max(last + 1);
        let fence = mutant!("pure-counters", fence, last + 1);
        let end = tick(now) + whole(counter.ttl);
        self.counters.insert(counter.key.clone(), (fence, end));
        fence
    }

    /// Raises the counter to the fence of a lease, and lengthens its life.
    fn raise(&mut self, request: &Request, fence: u64, now: Instant) {
        let Some(counter) = &request.counter else {
            return;
        };
        let last = self.fence(&counter.key, now).unwrap_or(0);
        let fence = mutant!("raise-lowers", fence.max(last), fence);
        let end = tick(now) + whole(counter.ttl);
        self.counters.insert(counter.key.clone(), (fence, end));
    }

    /// Drops what is dead at `now`, as a server does at any time after: from
    /// then on it does not live again where the clock is set back.
    pub fn expire(&mut self, now: Instant) {
        self.keys.retain(|_, (_, end)| tick(now) <= *end);
        self.counters.retain(|_, (_, end)| tick(now) <= *end);
        self.quarantine = self.quarantine.filter(|end| tick(now) <= *end);
    }

    fn sweep(&mut self, now: Instant) {
        if self.keys.len() >= self.sweep_at {
            self.expire(now);
            self.sweep_at = 64.max(2 * self.keys.len());
        }
    }
}

/// The lives of keys begin and end with a millisecond.
fn tick(now: Instant) -> Instant {
    Instant(now.0 - now.0 % 1_000_000)
}

/// A length of time as it goes over the wire: in milliseconds.
fn whole(length: Duration) -> Duration {
    Duration::from_millis(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}

/// The label of a value: what stands behind the token and a dot.
fn label(value: &Value) -> Option<Box<str>> {
    let token = value.0.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let label = value.0.get(token..)?.strip_prefix(b".")?;
    (token > 0 && !label.is_empty()).then(|| label.escape_ascii().to_string().into())
}

/// The nodes of this process by name, for `memory://NAME`.
type Nodes = HashMap<String, Arc<Mutex<MemoryNode>>>;
static NODES: Lazy<Mutex<Nodes>> = Lazy::new(Mutex::default);

/// Forgets all `memory://` nodes: those that links still know live on in them.
pub(crate) fn forget() {
    *lock(&NODES) = Nodes::new();
}

/// The link to a `memory://` node: answers within the call.
pub(crate) struct MemoryLink {
    node: Arc<Mutex<MemoryNode>>,
    clock: Arc<dyn Clock>,
    shown: Arc<str>,
}

impl MemoryLink {
    pub(crate) fn new(name: &str, shown: Arc<str>, clock: Arc<dyn Clock>) -> MemoryLink {
        let node = lock(&NODES).entry(name.to_owned()).or_default().clone();
        MemoryLink { node, clock, shown }
    }
}

impl Link for MemoryLink {
    fn send(&self, request: Request, ticket: Ticket, sink: Arc<dyn Sink>, _give_up: Instant) {
        if !sink.wanted() {
            return sink.on_reply(ticket, Reply::Failed(Fault::unwanted()), None);
        }
        // Such a node lives as long as its process, so it needs no guard.
        let (reply, time) = {
            let mut node = lock(&self.node);
            let now = self.clock.now();
            node.sweep(now);
            let reply = node.execute(&request, None, now);
            (reply, MemoryNode::time(now))
        };
        let reply = reply.expect("no record was asked for");
        sink.on_reply(ticket, reply, Some(time));
    }

    fn shown(&self) -> Arc<str> {
        self.shown.clone()
    }

    fn close(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Counter;

    const TTL: Duration = Duration::from_millis(100);
    const ACQUIRE: Op = Op::Acquire {
        ttl: TTL,
        candidate: 0,
    };

    fn extend(repair: Repair) -> Op {
        Op::Extend {
            ttl: TTL,
            repair,
            fence: 0,
        }
    }

    /// The node's `TIME` at the start of a test, in µs.
    const START: u64 = 10_000_000;

    fn at(ms: u64) -> Instant {
        Instant(START * 1000 + ms * 1_000_000)
    }

    fn request(op: Op, value: &str) -> Request {
        Request {
            op,
            key: b"k"[..].into(),
            value: Value(value.as_bytes().into()),
            counter: Some(Counter {
                key: b"f"[..].into(),
                ttl: Duration::from_secs(10),
            }),
            not_after: 0,
            guess: None,
        }
    }

    fn ask(node: &mut MemoryNode, op: Op, value: &str, ms: u64) -> Reply {
        node.execute(&request(op, value), None, at(ms)).unwrap()
    }

    #[test]
    fn only_the_owner_extends_and_releases() {
        let mut node = MemoryNode::default();
        assert_eq!(
            ask(&mut node, ACQUIRE, "a", 1),
            Reply::Granted {
                fence: START + 1_000
            }
        );
        let left = Duration::from_millis(60);
        assert_eq!(
            ask(&mut node, ACQUIRE, "b", 41),
            Reply::Refused {
                left: Some(left),
                holder: None
            }
        );
        assert_eq!(ask(&mut node, extend(Repair::Yes), "b", 51), Reply::NotMine);
        assert_eq!(
            ask(&mut node, Op::Release, "b", 51),
            Reply::Released { held: false }
        );
        // Its own token again: lengthened to the full ttl, with the same fence.
        assert_eq!(
            ask(&mut node, ACQUIRE, "a", 51),
            Reply::Granted {
                fence: START + 1_000
            }
        );
        assert!(node.get(b"k", at(151)).is_some());
        assert!(node.get(b"k", at(152)).is_none());
        assert_eq!(ask(&mut node, extend(Repair::No), "a", 152), Reply::NotMine);
        assert_eq!(
            ask(&mut node, extend(Repair::Yes), "a", 152),
            Reply::Extended { repaired: true }
        );
        assert_eq!(
            ask(&mut node, Op::Release, "a", 153),
            Reply::Released { held: true }
        );
    }

    #[test]
    fn fences_grow_and_are_clamped() {
        let mut node = MemoryNode::default();
        let acquire = |candidate| Op::Acquire {
            ttl: TTL,
            candidate,
        };
        assert_eq!(
            ask(&mut node, acquire(START + 7_000), "a", 1),
            Reply::Granted {
                fence: START + 7_000
            }
        );
        ask(&mut node, Op::Release, "a", 1);
        assert_eq!(
            ask(&mut node, acquire(5), "b", 2),
            Reply::Granted {
                fence: START + 7_001
            }
        );
        let confirm = |fence| Op::Confirm { ttl: TTL, fence };
        assert_eq!(
            ask(&mut node, confirm(START + 9_000), "a", 2),
            Reply::NotMine
        );
        assert_eq!(
            ask(&mut node, confirm(START + 7_000), "b", 2),
            Reply::Greater {
                fence: START + 7_001
            }
        );
        assert_eq!(
            ask(&mut node, confirm(START + 9_000), "b", 2),
            Reply::Confirmed
        );
        ask(&mut node, Op::Release, "b", 2);
        let far = acquire(u64::MAX / 2);
        assert_eq!(
            ask(&mut node, far, "c", 3),
            Reply::Granted {
                fence: START + 3_000 + FURTHEST
            }
        );
    }

    #[test]
    fn in_quarantine_votes_are_kept_but_not_given() {
        let mut node = MemoryNode::default();
        let record: Arc<str> = "r".into();
        assert!(node.init(None, record.clone(), Duration::ZERO, at(0)));
        assert!(!node.init(None, "s".into(), Duration::ZERO, at(0)));
        let mut ask = |op, value: &str, record: &str, ms| {
            node.execute(&request(op, value), Some(record), at(ms))
        };
        assert_eq!(ask(ACQUIRE, "a", "s", 1), Err(OtherRecord));
        assert!(matches!(
            ask(ACQUIRE, "a", "r", 1),
            Ok(Reply::Granted { .. })
        ));
        assert!(node.init(Some("r"), "t".into(), Duration::from_millis(500), at(2)));
        let left = Duration::from_millis(498);
        let mut ask = |op, value: &str, ms| node.execute(&request(op, value), Some("t"), at(ms));
        assert!(matches!(ask(ACQUIRE, "a", 3), Ok(Reply::Granted { .. })));
        assert!(matches!(
            ask(extend(Repair::Yes), "a", 3),
            Ok(Reply::Extended { .. })
        ));
        ask(Op::Release, "a", 3).unwrap();
        for op in [ACQUIRE, extend(Repair::Yes)] {
            assert_eq!(ask(op, "a", 4), Ok(Reply::Quarantined { left }));
        }
        let repaired = Ok(Reply::Extended { repaired: true });
        assert_eq!(ask(extend(Repair::InQuarantine), "a", 4), repaired);
    }

    #[test]
    fn a_late_request_does_nothing() {
        let mut node = MemoryNode::default();
        let late = Request {
            not_after: START + 4_999,
            ..request(ACQUIRE, "a")
        };
        assert_eq!(node.execute(&late, None, at(5)), Ok(Reply::Late));
        assert!(node.get(b"k", at(5)).is_none());
    }
}
