//! What all scripts begin with, on a node in memory: may this node answer, and what does
//! it [find](super::lookup).

use std::sync::Arc;

use super::lookup::KeyLookup;
use super::queue::Message;
use super::redisson::of_another_layout;
use super::times::tick;
use super::{MemoryNode, OtherRecord, ScriptAnswer, StoredValue};
use crate::clock::Instant;
use crate::node::{Mode, Op, Reply, Request, Value};

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
            return Ok(of_another_layout());
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
