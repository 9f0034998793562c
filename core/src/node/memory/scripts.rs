//! What all scripts begin with, on a node in memory: may this node answer, and what does
//! it find.

use std::sync::Arc;
use std::time::Duration;

use super::line::Message;
use super::{MemoryNode, OtherRecord, ScriptAnswer, StoredValue, hashed, tick};
use crate::clock::Instant;
use crate::node::{Mode, Op, Reply, Request, Value};

/// What a request finds on the node.
pub(super) struct KeyLookup {
    /// What stands under the lock's key, and the moment the key's life ends.
    pub(super) form: Option<StoredValue>,
    pub(super) end: Instant,
    /// Its value holds the lock.
    pub(super) own: bool,
    /// Nobody's does, reserved or not, and no reader's vote lives.
    pub(super) free: bool,
    /// The reader whose vote ends last, and when, if it lives.
    pub(super) last: Option<(Value, u64)>,
    /// How much longer the node is in quarantine, where that is minded.
    pub(super) quarantine: Option<Duration>,
    pub(super) now: Instant,
    /// The node's `TIME` then.
    pub(super) time: u64,
}

impl KeyLookup {
    /// Crowded: scripts alone change it.
    pub(super) fn is_crowded(&self) -> bool {
        matches!(
            self.form,
            Some(
                StoredValue::Contended { .. }
                    | StoredValue::Kept { .. }
                    | StoredValue::Reserved { .. }
                    | StoredValue::Shared { .. }
            )
        )
    }

    /// Nobody has it alone.
    pub(super) fn alone_free(&self) -> bool {
        self.free || self.last.is_some()
    }

    /// Until when the last reader's vote lives.
    pub(super) fn ends_last(&self) -> Option<u64> {
        self.last.as_ref().map(|(_, until)| *until)
    }

    /// How long yet, in whole milliseconds: what stands there, or its hold or
    /// reservation. `None`: without end.
    pub(super) fn left(&self) -> Option<Duration> {
        if let Some(last) = self.ends_last() {
            return Some(left(last, self.time));
        }
        match self.form {
            Some(
                StoredValue::Contended { until, .. }
                | StoredValue::Kept { until, .. }
                | StoredValue::Reserved { until, .. }
                | StoredValue::Shared { until, .. },
            ) => Some(left(until, self.time)),
            _ if self.end == Instant::FAR => None,
            _ => Some(tick(self.now).until(self.end)),
        }
    }
}

/// How long it is until then, in whole milliseconds.
pub(super) fn left(until: u64, time: u64) -> Duration {
    Duration::from_millis(until.saturating_sub(time).div_ceil(1000))
}

impl MemoryNode {
    /// Carries out one script at `now` of this node's own clock, whether the request is
    /// native or not. `record`: what the node must hold; `None`: any, and nobody minds
    /// its quarantine. Also returns what it published.
    pub fn execute(
        &mut self,
        request: &Request,
        record: Option<&str>,
        now: Instant,
    ) -> (ScriptAnswer, Vec<Message>) {
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
    ) -> ScriptAnswer {
        let admitted = record.is_none() || self.record.as_deref() == record;
        if request.op != Op::Release {
            // First of all: the time of another server says nothing of this one's.
            if !admitted {
                return Err(OtherRecord);
            }
            // What changes nothing is never too late.
            let timed = request.not_after != 0 && request.op != Op::Inspect;
            let late = timed && MemoryNode::time(now) > request.not_after;
            if late {
                return Ok(Reply::Late);
            }
        }
        if let Some(field) = request
            .keys
            .field
            .as_ref()
            .filter(|_| request.op != Op::Inspect)
        {
            let quarantine = self.quarantine(now).filter(|_| record.is_some());
            return self.hashed(request, field, quarantine, now, messages);
        }
        if let Mode::AnySlot(slots) = request.keys.mode
            && request.op != Op::Inspect
        {
            let votes = admitted && (record.is_none() || self.quarantine(now).is_none());
            return Ok(match request.op {
                Op::Release => self.give_way(request, slots, votes, now, messages),
                _ => self.choose(request, slots, record.is_some(), now, messages),
            });
        }
        let found = self.found(request, record, now);
        let votes = matches!(request.op, Op::Acquire { .. } | Op::Reserve { .. });
        if votes && self.lock_of(request, now).is_some() {
            return Ok(hashed::of_another_layout());
        }
        let shares = request.keys.mode == Mode::Shared;
        Ok(match request.op {
            Op::Acquire { ttl, candidate, .. } if shares => {
                self.share(request, &found, (ttl, candidate), messages)
            }
            Op::Extend {
                ttl, repair, fence, ..
            } if shares => self.extend_shared(request, &found, ttl, repair, fence, messages),
            Op::Confirm { ttl, fence, .. } if shares => {
                self.confirm_shared(request, &found, ttl, fence)
            }
            Op::Reserve { long } => self.reserve(request, &found, long),
            Op::Acquire {
                ttl,
                candidate,
                block,
                ..
            } => self.acquire(request, &found, (ttl, candidate, block), messages),
            Op::Extend {
                ttl,
                repair,
                fence,
                behind,
            } => self.extend(request, &found, ttl, repair, (fence, behind)),
            Op::Confirm { ttl, fence, block } => self.confirm(request, &found, ttl, fence, block),
            Op::Release => self.release(request, &found, admitted, messages),
            Op::Inspect => self.inspect(request, &found),
        })
    }

    pub(super) fn found(&self, request: &Request, record: Option<&str>, now: Instant) -> KeyLookup {
        let (form, end) = match self.form(&request.keys.lock, now) {
            // Of another lock under that key.
            Some((StoredValue::Shared { .. }, end)) if request.keys.aux.is_raw() => {
                (Some(StoredValue::Uncontended(Value(Arc::default()))), end)
            }
            Some((form, end)) => (Some(form.clone()), end),
            None => match self.lock_of(request, now) {
                // Of another type: held, by somebody who is none of us.
                Some(lock) => (
                    Some(StoredValue::Uncontended(Value(Arc::default()))),
                    lock.end,
                ),
                None => (None, tick(now)),
            },
        };
        let time = MemoryNode::time(now);
        let holder = form.as_ref().and_then(|form| form.holder(time));
        // By a dead token.
        let kept = form.as_ref().is_some_and(StoredValue::is_kept);
        // Without a guard nobody minds it.
        let quarantine = self.quarantine(now).filter(|_| record.is_some());
        let shared = form.as_ref().is_some_and(StoredValue::is_shared);
        let readers = shared.then(|| request.keys.aux.shared());
        let readers = readers.and_then(|key| self.readers(&key, now));
        let last = readers.and_then(|readers| readers.last(time));
        let last = last.map(|(value, until)| (value.clone(), until));
        KeyLookup {
            own: !kept && holder.is_some_and(|holder| request.value.proves(holder)),
            free: holder.is_none() && last.is_none(),
            last,
            form,
            end,
            quarantine,
            now,
            time,
        }
    }
}
