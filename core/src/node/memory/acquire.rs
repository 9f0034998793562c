//! The script `acquire` on a node in memory: a vote, or a place in the queue.

use std::time::Duration;

use super::lookup::KeyLookup;
use super::queue::{Message, QueueTurn};
use super::times::{life, micros, tick, whole};
use super::{MemoryNode, StoredValue};
use crate::clock::Instant;
use crate::foreign;
use crate::node::{Adoption, Op, Reply, Request, Value};

/// How long, the fence that is proposed, and how many at once.
type AcquireTerms = (Duration, u64, u32);

impl MemoryNode {
    pub(super) fn acquire(
        &mut self,
        request: &Request,
        found: &KeyLookup,
        asked: AcquireTerms,
        messages: &mut Vec<Message>,
    ) -> Reply {
        if let Some(old) = &request.keys.adopts {
            return self.adopt(request, old, found, asked);
        }
        if (found.own || found.free) && self.bans.has(request, found.now) {
            return Reply::NotMine;
        }
        let me = request.waiter.as_ref();
        let reserved = found.form.as_ref();
        let reserved = reserved.and_then(|form| form.reserved(found.time));
        let mine = found
            .form
            .as_ref()
            .is_some_and(|form| form.is_for(request, found.time));
        if mine && found.last.is_none() && found.quarantine.is_none() {
            // Where readers had the lock, it may be reserved for a waiter that stands in the queue
            // yet.
            if found.form.as_ref().is_some_and(StoredValue::is_shared) {
                self.leave(request, found.now);
            }
            return self.grant(request, found, asked, true);
        }
        if found.own {
            return self.confirm_own(request, found, asked);
        }
        let free = found.free;
        if let Some(left) = found.quarantine
            && (free || joins(request))
        {
            return Reply::Quarantined { left };
        }
        if !free {
            return self.refuse(request, found, found.left());
        }
        if reserved.is_some() {
            return self.refuse(request, found, found.left());
        }
        let turn = self.turn(request, me, None, found.now, messages);
        match turn {
            QueueTurn::Other | QueueTurn::AfterReaders => {
                let length = request.keys.waits.reservation;
                self.refuse(request, found, Some(whole(length)))
            }
            QueueTurn::Asker | QueueTurn::Unnotified => {
                self.leave(request, found.now);
                let crowded = turn == QueueTurn::Asker;
                self.grant(request, found, asked, crowded)
            }
            QueueTurn::Free => self.grant(request, found, asked, false),
        }
    }

    /// The vote of this lease becomes the request's.
    fn adopt(
        &mut self,
        request: &Request,
        old: &Adoption,
        found: &KeyLookup,
        asked: AcquireTerms,
    ) -> Reply {
        let Adoption { value: old, ban } = old;
        // A text that is not one of our values names no token: it proves nothing, and bans nothing.
        if !old.is_ours() {
            return Reply::NotMine;
        }
        // A banned value under the key is no vote of the lease: a plain command, which knows no
        // bans, has come late.
        let dead = self.bans.hold(&request.keys, old, found.now);
        self.bans.add(&request.keys, old, found.now, *ban);
        if self.bans.has(request, found.now) {
            return Reply::NotMine;
        }
        let form = found.form.as_ref().filter(|form| !form.is_kept());
        let holder = form.and_then(|form| form.holder(found.time));
        let stands = found.own || !dead && holder.is_some_and(|holder| old.proves(holder));
        if stands {
            self.confirm_own(request, found, asked)
        } else {
            Reply::NotMine
        }
    }

    /// Gives the vote: crowded where others may wait behind it.
    fn grant(
        &mut self,
        request: &Request,
        found: &KeyLookup,
        (ttl, candidate, block): AcquireTerms,
        crowded: bool,
    ) -> Reply {
        let now = found.now;
        if crowded {
            let least = life(now, request.keys.waits.place);
            self.hold_crowded(request, found.time + micros(ttl), least, now);
        } else {
            let end = life(now, ttl);
            self.put(
                request,
                StoredValue::Uncontended(request.value.clone()),
                end,
            );
        }
        Reply::Granted {
            fence: self.count(request, candidate, block, now),
            lasts: None,
        }
    }

    /// Confirms a vote whose value stands already. In quarantine the value may be no vote: a void
    /// one stands there, too (rule Q). Other tokens may have counted a fence since, so this one
    /// counts anew.
    fn confirm_own(
        &mut self,
        request: &Request,
        found: &KeyLookup,
        (ttl, candidate, block): AcquireTerms,
    ) -> Reply {
        if let Some(left) = found.quarantine {
            return Reply::Quarantined { left };
        }
        self.lengthen_own(request, found, ttl);
        let fence = self.count(request, candidate, block, found.now);
        Reply::Granted { fence, lasts: None }
    }

    /// Refuses a vote for so long; at its home the waiter is queued, and the lock
    /// crowded from then on.
    pub(super) fn refuse(
        &mut self,
        request: &Request,
        found: &KeyLookup,
        left: Option<Duration>,
    ) -> Reply {
        let holder = found.form.as_ref().and_then(|form| form.holder(found.time));
        let holder = holder.or(found.last.as_ref().map(|(reader, _)| reader));
        self.refuse_for(request, found, left, holder.and_then(shown))
    }

    /// Refuses a vote for so long, with the label of `holder`.
    pub(super) fn refuse_for(
        &mut self,
        request: &Request,
        found: &KeyLookup,
        left: Option<Duration>,
        holder: Option<Box<str>>,
    ) -> Reply {
        let waiter = request.waiter.as_ref().filter(|_| joins(request));
        let place = waiter.and_then(|waiter| self.join(request, waiter, found.now));
        if place.is_some() {
            self.mark(request, found.now);
        }
        let waiter = waiter.filter(|_| place.is_some());
        let listeners = waiter.map_or(1, |waiter| self.listeners(waiter));
        Reply::Refused {
            left,
            holder,
            place,
            subscribers: listeners,
            shared: found.last.is_some(),
        }
    }

    /// Makes the key crowded because a waiter has joined, so that it outlives the waiter's place. A
    /// foreign value stays as it is, for its owner compares it; so does a value without an end.
    pub(super) fn mark(&mut self, request: &Request, now: Instant) {
        let least = life(now, request.keys.waits.place);
        let Some((form, end)) = self.form(&request.keys.lock, now) else {
            return;
        };
        match form {
            StoredValue::Uncontended(value) => {
                let ours = value.is_ours() && end != Instant::FAR;
                if ours {
                    let left = micros(tick(now).until(end));
                    let left = left + 1_000;
                    let until = MemoryNode::time(now) + left;
                    let value = value.clone();
                    self.put(
                        request,
                        StoredValue::Contended { until, value },
                        end.max(least),
                    );
                }
            }
            _ => self.lengthen(request, least),
        }
    }
}

/// Whether a refusal queues the waiter.
pub(super) fn joins(request: &Request) -> bool {
    matches!(request.op, Op::Acquire { home: true, .. }) && request.waiter.is_some()
}

/// The label of a value, as errors show it.
fn shown(value: &Value) -> Option<Box<str>> {
    let label = value.label().filter(|label| !label.is_empty())?;
    Some(foreign::excerpt_of_bytes(label).into())
}
