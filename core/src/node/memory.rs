//! A node in memory: the meaning of each script, on a map.
//!
//! `memory://NAME` serves a user's own tests; the simulator drives the same
//! [`MemoryNode`] in virtual time.

mod line;
mod link;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Op, Repair, Reply, Request, Value, Waiter};
use crate::clock::Instant;
use crate::mutants::mutant;
use line::Listeners;

#[cfg(feature = "sim")]
pub use line::Place;
pub use line::{Line, Message};
pub(crate) use link::{MemoryLink, forget};

/// The state of one node. Time is an argument, as everything else.
#[derive(Clone, Debug, Default)]
pub struct MemoryNode {
    keys: BTreeMap<Arc<[u8]>, (Value, Instant)>,
    /// Counters of fences, and the ends of their lives.
    counters: BTreeMap<Arc<[u8]>, (u64, Instant)>,
    /// Who waits, by the keys of their queues.
    lines: BTreeMap<Arc<[u8]>, Line>,
    listeners: Listeners,
    /// The node's record.
    record: Option<Arc<str>>,
    /// The end of its quarantine.
    quarantine: Option<Instant>,
    /// Dead keys are dropped when there are this many in all.
    sweep_at: usize,
}

/// The furthest that a proposed fence may be ahead of the node's `TIME`, in µs.
const FURTHEST: u64 = 10_000_000;

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
    /// what the node must hold; `None`: any. Also returns what it published.
    pub fn execute(
        &mut self,
        request: &Request,
        record: Option<&str>,
        now: Instant,
    ) -> (Answer, Vec<Message>) {
        let mut messages = Vec::new();
        let answer = self.answer(request, record, now, &mut messages);
        (answer, messages)
    }

    fn answer(
        &mut self,
        request: &Request,
        record: Option<&str>,
        now: Instant,
        messages: &mut Vec<Message>,
    ) -> Answer {
        let (value, end) = match self.get(&request.keys.lock, now) {
            Some((value, end)) => (Some(value.clone()), end),
            None => (None, tick(now)),
        };
        let full = |ttl: Duration| tick(now) + whole(ttl);
        let mine = !request.value.0.is_empty() && value.as_ref() == Some(&request.value);
        let free = value.is_none();
        let admitted = record.is_none() || self.record.as_deref() == record;
        let admitted = mutant!(
            "extend-ignores-record",
            admitted,
            admitted || matches!(request.op, Op::Extend { .. })
        );
        if request.op != Op::Release {
            // First of all: the time of another server says nothing of this one's.
            if mutant!("record-ignored", !admitted, false) {
                return Err(OtherRecord);
            }
            let late = request.not_after != 0 && MemoryNode::time(now) > request.not_after;
            if mutant!("no-not-after", late, false) {
                return Ok(Reply::Late);
            }
        }
        // Without a guard nobody minds it.
        let quarantine = self.quarantine(now).filter(|_| record.is_some());
        let quarantine = mutant!("no-quarantine", quarantine, None);
        let reply = match request.op {
            Op::Acquire { .. } if quarantine.is_some() && (free || !mine && joins(request)) => {
                Reply::Quarantined {
                    left: quarantine.unwrap_or_default(),
                }
            }
            Op::Acquire {
                ttl,
                candidate,
                block,
                ..
            } if mutant!("acquire-overwrites", free, true) => {
                if let Some(left) = self.reserved(request, now, messages) {
                    return Ok(self.refuse(request, left, None, now));
                }
                let end = mutant!("vote-without-ttl", full(ttl), Instant::FAR);
                self.store(request, end);
                self.end_turn(request, now);
                Reply::Granted {
                    fence: self.count(request, candidate, block, now),
                }
            }
            Op::Acquire { ttl, candidate, .. } if mine => {
                let full = mutant!("own-token-not-lengthened", full(ttl), end);
                self.store(request, end.max(full));
                let counter = request.keys.counter();
                if mutant!("resend-counts-again", false, true) {
                    let fence = self.count(request, candidate, 1, now);
                    return Ok(Reply::Granted { fence });
                }
                Reply::Granted {
                    fence: counter
                        .and_then(|(key, _)| self.fence(key, now))
                        .unwrap_or(0),
                }
            }
            Op::Acquire { .. } if mutant!("refusal-says-granted", false, true) => {
                Reply::Granted { fence: 0 }
            }
            Op::Acquire { .. } => {
                let holder = value.as_ref().and_then(label);
                self.refuse(request, tick(now).until(end), holder, now)
            }
            Op::Extend { ttl, fence, .. } if mutant!("extend-unowned", mine, !free) => {
                let end = mutant!("renewal-shortens", end, now);
                self.store(request, end.max(full(ttl)));
                self.raise(request, fence, now);
                Reply::Extended { repaired: false }
            }
            Op::Extend { ttl, repair, fence }
                if repair != Repair::No && mutant!("repair-over-a-stranger", free, true) =>
            {
                if let Some(left) = quarantine
                    .filter(|_| mutant!("repairs-in-quarantine", repair == Repair::Yes, false))
                {
                    return Ok(Reply::Quarantined { left });
                }
                self.store(request, full(ttl));
                if let Some(line) = live(&mut self.lines, request, now) {
                    line.reserved = None;
                }
                self.raise(request, mutant!("repair-without-fence", fence, 0), now);
                Reply::Extended { repaired: true }
            }
            Op::Confirm { ttl, fence } if mutant!("confirm-unowned", mine, true) => {
                let counter = request.keys.counter();
                match counter.and_then(|(key, _)| self.fence(key, now)) {
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
                    self.keys.remove(&request.keys.lock);
                }
                let may_vote = admitted && quarantine.is_none();
                self.serve(request, may_vote, now, messages);
                Reply::Released { held: mine }
            }
        };
        Ok(reply)
    }

    fn store(&mut self, request: &Request, end: Instant) {
        self.keys
            .insert(request.keys.lock.clone(), (request.value.clone(), end));
    }

    /// How long the lock, which is free, is reserved for another than asks;
    /// `None`: it may have it.
    fn reserved(
        &mut self,
        request: &Request,
        now: Instant,
        messages: &mut Vec<Message>,
    ) -> Option<Duration> {
        let line = live(&mut self.lines, request, now)?;
        let (me, time) = (request.waiter.as_ref(), MemoryNode::time(now));
        if let Some((whose, left)) = line.standing(time) {
            let another = Some(whose) != me;
            return mutant!("newcomer-barges", another, false)
                .then(|| Duration::from_millis(left.div_ceil(1000)));
        }
        let length = request.keys.waits.reservation;
        let ours = line.turn(me, time, length, &self.listeners, messages);
        (!ours).then(|| whole(length))
    }

    /// The waiter has had its turn.
    fn end_turn(&mut self, request: &Request, now: Instant) {
        if let Some(line) = live(&mut self.lines, request, now) {
            if let Some(waiter) = &request.waiter {
                line.leave(waiter);
            }
            self.unreserve(request);
        }
    }

    /// Refuses a vote for so long; at its home the waiter is queued.
    fn refuse(
        &mut self,
        request: &Request,
        left: Duration,
        holder: Option<Box<str>>,
        now: Instant,
    ) -> Reply {
        let place = match &request.waiter {
            Some(waiter) if joins(request) => self.join(request, waiter, now),
            _ => None,
        };
        let waiter = request.waiter.as_ref().filter(|_| place.is_some());
        let listeners = waiter.map_or(1, |waiter| self.listeners.of(&waiter.inbox));
        Reply::Refused {
            left: Some(left),
            holder,
            place,
            subscribers: mutant!("dead-subscription-not-reported", listeners, 1),
        }
    }

    fn join(&mut self, request: &Request, waiter: &Waiter, now: Instant) -> Option<u32> {
        let mut fresh = Line::new();
        let line = live(&mut self.lines, request, now);
        let new = line.is_none();
        let place = line
            .unwrap_or(&mut fresh)
            .join(waiter, now, request.keys.waits);
        if new && place.is_some() {
            self.lines
                .insert(request.keys.companions.queue().into(), fresh);
        }
        place
    }

    /// A waiter leaves; if nobody has a claim to the lock, it is reserved for
    /// whose turn it is.
    fn serve(
        &mut self,
        request: &Request,
        may_vote: bool,
        now: Instant,
        messages: &mut Vec<Message>,
    ) {
        let free = self.get(&request.keys.lock, now).is_none();
        let time = MemoryNode::time(now);
        let Some(line) = live(&mut self.lines, request, now) else {
            return;
        };
        if let Some(waiter) = &request.waiter
            && mutant!("cancelled-waiter-stays-queued", true, false)
        {
            line.leave(waiter);
        }
        if let Some((whose, _)) = line.standing(time)
            && Some(whose) != request.waiter.as_ref()
        {
            return;
        }
        let length = request.keys.waits.reservation;
        let reserve = mutant!("reservation-over-live-key", free, true)
            && mutant!("reservation-in-quarantine", may_vote, true);
        if !reserve || line.turn(None, time, length, &self.listeners, messages) {
            self.unreserve(request);
        }
    }

    /// Ends the reservation, whoever it is for.
    fn unreserve(&mut self, request: &Request) {
        let key = request.keys.companions.queue();
        match self.lines.get_mut(key) {
            Some(line) if !line.queue.is_empty() => line.reserved = None,
            _ => drop(self.lines.remove(key)),
        }
    }

    /// One more listens on an inbox.
    pub fn subscribe(&mut self, inbox: &Arc<[u8]>) {
        self.listeners.subscribe(inbox);
    }

    /// One less listens on it.
    pub fn unsubscribe(&mut self, inbox: &[u8]) {
        self.listeners.unsubscribe(inbox);
    }

    /// Whether clients may publish messages and ask who listens. They may, to
    /// begin with.
    #[cfg(any(test, feature = "sim"))]
    pub fn permit_messages(&mut self, permitted: bool) {
        self.listeners.forbidden = !permitted;
    }

    /// The line with that queue, if it lives at `now`.
    #[cfg(feature = "sim")]
    pub fn line(&self, queue: &[u8], now: Instant) -> Option<&Line> {
        self.lines.get(queue).filter(|line| tick(now) <= line.end)
    }

    /// Counts a new vote as `block` fences; returns the last of them. Where none
    /// is proposed it counts nothing, and returns what is stored: no clock of
    /// this node alone makes a fence.
    fn count(&mut self, request: &Request, candidate: u64, block: u32, now: Instant) -> u64 {
        let Some((counter, ttl)) = request.keys.counter() else {
            return 0;
        };
        let (time, last) = (MemoryNode::time(now), self.fence(counter, now).unwrap_or(0));
        if candidate == 0 {
            return last;
        }
        let candidate = mutant!("one-clock-makes-a-fence", candidate, candidate.max(time));
        let candidate = mutant!("no-clamp", candidate.min(time + FURTHEST), candidate);
        let fence = candidate.max(last + u64::from(block));
        let fence = mutant!("pure-counters", fence, last + 1);
        let end = tick(now) + whole(ttl);
        self.counters.insert(counter.into(), (fence, end));
        fence
    }

    /// Raises the counter to the fence of a lease, and lengthens its life.
    fn raise(&mut self, request: &Request, fence: u64, now: Instant) {
        let Some((counter, ttl)) = request.keys.counter() else {
            return;
        };
        let last = self.fence(counter, now).unwrap_or(0);
        let fence = mutant!("raise-lowers", fence.max(last), fence);
        let end = tick(now) + whole(ttl);
        self.counters.insert(counter.into(), (fence, end));
    }

    /// Drops what is dead at `now`, as a server does at any time after: from
    /// then on it does not live again where the clock is set back.
    pub fn expire(&mut self, now: Instant) {
        self.keys.retain(|_, (_, end)| tick(now) <= *end);
        self.counters.retain(|_, (_, end)| tick(now) <= *end);
        self.quarantine = self.quarantine.filter(|end| tick(now) <= *end);
        self.lines.retain(|_, line| line.lives(now));
    }

    fn sweep(&mut self, now: Instant) {
        let held = self.keys.len() + self.lines.len();
        if held >= self.sweep_at {
            self.expire(now);
            self.sweep_at = 64.max(2 * held);
        }
    }
}

/// Whether a refusal queues the waiter.
fn joins(request: &Request) -> bool {
    matches!(request.op, Op::Acquire { home: true, .. }) && request.waiter.is_some()
}

/// The lock's line, if it lives at `now`.
fn live<'a>(
    lines: &'a mut BTreeMap<Arc<[u8]>, Line>,
    request: &Request,
    now: Instant,
) -> Option<&'a mut Line> {
    let line = lines.get_mut(request.keys.companions.queue())?;
    line.lives(now).then_some(line)
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
