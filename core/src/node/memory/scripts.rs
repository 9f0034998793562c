//! The meaning of each script on a node in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::line::{Line, Message};
use super::{Answer, MemoryNode, OtherRecord, tick, whole};
use crate::clock::Instant;
use crate::mutants::mutant;
use crate::node::{Op, Repair, Reply, Request, Value, Waiter};

/// The furthest that a proposed fence may be ahead of the node's `TIME`, in µs.
pub(super) const FURTHEST: u64 = 10_000_000;

/// What a request finds on the node.
struct Found {
    /// What stands under the lock's key, and the moment its life ends.
    value: Option<Value>,
    end: Instant,
    /// That is the request's own.
    mine: bool,
    /// How long the node is in quarantine yet.
    quarantine: Option<Duration>,
    now: Instant,
}

impl Found {
    fn is_free(&self) -> bool {
        self.value.is_none()
    }

    /// When a life of `ttl` ends.
    fn full(&self, ttl: Duration) -> Instant {
        tick(self.now) + whole(ttl)
    }
}

impl MemoryNode {
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
        let found = self.found(request, record, now);
        Ok(match request.op {
            Op::Acquire {
                ttl,
                candidate,
                block,
                ..
            } => self.acquire(request, &found, ttl, candidate, block, messages),
            Op::Extend { ttl, repair, fence } => self.extend(request, &found, ttl, repair, fence),
            Op::Confirm { ttl, fence } => self.confirm(request, &found, ttl, fence),
            Op::Release => {
                let delete = mutant!("release-unowned", found.mine, !found.is_free());
                if mutant!("release-keeps-key", delete, false) {
                    self.keys.remove(&request.keys.lock);
                }
                let may_vote = admitted && found.quarantine.is_none();
                self.serve(request, may_vote, now, messages);
                Reply::Released { held: found.mine }
            }
        })
    }

    fn found(&self, request: &Request, record: Option<&str>, now: Instant) -> Found {
        let (value, end) = match self.get(&request.keys.lock, now) {
            Some((value, end)) => (Some(value.clone()), end),
            None => (None, tick(now)),
        };
        // Without a guard nobody minds it.
        let quarantine = self.quarantine(now).filter(|_| record.is_some());
        Found {
            mine: !request.value.0.is_empty() && value.as_ref() == Some(&request.value),
            value,
            end,
            quarantine: mutant!("no-quarantine", quarantine, None),
            now,
        }
    }

    fn acquire(
        &mut self,
        request: &Request,
        found: &Found,
        ttl: Duration,
        candidate: u64,
        block: u32,
        messages: &mut Vec<Message>,
    ) -> Reply {
        let Found { mine, end, now, .. } = *found;
        if let Some(left) = found.quarantine
            && (found.is_free() || !mine && joins(request))
        {
            return Reply::Quarantined { left };
        }
        if mutant!("acquire-overwrites", found.is_free(), true) {
            if let Some(left) = self.reserved(request, now, messages) {
                return self.refuse(request, left, None, now);
            }
            let end = mutant!("vote-without-ttl", found.full(ttl), Instant::FAR);
            self.store(request, end);
            self.end_turn(request, now);
            return Reply::Granted {
                fence: self.count(request, candidate, block, now),
            };
        }
        if mine {
            let full = mutant!("own-token-not-lengthened", found.full(ttl), end);
            self.store(request, end.max(full));
            let counter = request.keys.counter();
            let stored = counter.and_then(|(key, _)| self.fence(key, now));
            let fence = mutant!(
                "resend-counts-again",
                stored.unwrap_or(0),
                self.count(request, candidate, 1, now)
            );
            return Reply::Granted { fence };
        }
        if mutant!("refusal-says-granted", false, true) {
            return Reply::Granted { fence: 0 };
        }
        let holder = found.value.as_ref().and_then(label);
        self.refuse(request, tick(now).until(end), holder, now)
    }

    fn extend(
        &mut self,
        request: &Request,
        found: &Found,
        ttl: Duration,
        repair: Repair,
        fence: u64,
    ) -> Reply {
        let now = found.now;
        if mutant!("extend-unowned", found.mine, !found.is_free()) {
            let end = mutant!("renewal-shortens", found.end, now);
            self.store(request, end.max(found.full(ttl)));
            self.raise(request, fence, now);
            return Reply::Extended { repaired: false };
        }
        if repair != Repair::No && mutant!("repair-over-a-stranger", found.is_free(), true) {
            let shut = mutant!("repairs-in-quarantine", repair == Repair::Yes, false);
            if let Some(left) = found.quarantine.filter(|_| shut) {
                return Reply::Quarantined { left };
            }
            self.store(request, found.full(ttl));
            if let Some(line) = live(&mut self.lines, request, now) {
                line.reserved = None;
            }
            self.raise(request, mutant!("repair-without-fence", fence, 0), now);
            return Reply::Extended { repaired: true };
        }
        mutant!(
            "extends-without-key",
            Reply::NotMine,
            Reply::Extended { repaired: false }
        )
    }

    fn confirm(&mut self, request: &Request, found: &Found, ttl: Duration, fence: u64) -> Reply {
        if !mutant!("confirm-unowned", found.mine, true) {
            return Reply::NotMine;
        }
        let counter = request.keys.counter();
        match counter.and_then(|(key, _)| self.fence(key, found.now)) {
            Some(stored) if mutant!("confirm-lowers", stored > fence, false) => {
                Reply::Greater { fence: stored }
            }
            _ => {
                self.store(request, found.end.max(found.full(ttl)));
                self.raise(request, fence, found.now);
                Reply::Confirmed
            }
        }
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

/// The label of a value: what stands behind the token and a dot.
fn label(value: &Value) -> Option<Box<str>> {
    let token = value.0.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let label = value.0.get(token..)?.strip_prefix(b".")?;
    (token > 0 && !label.is_empty()).then(|| label.escape_ascii().to_string().into())
}
