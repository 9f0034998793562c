//! The script `release` on a node in memory: gives the lock back, and calls the next.

use super::lookup::KeyLookup;
use super::queue::{Message, QueueEntry, QueueTurn};
use super::times::{life, micros};
use super::{MemoryNode, ReservedFor, StoredValue};
use crate::node::{AfterRelease, Mode, Reply, Request, Value};

impl MemoryNode {
    /// Gives the vote back, and takes the waiter out of the queue. If the lock is free then, the
    /// node reserves it for the first waiter, where it may promise a vote.
    pub(super) fn release(
        &mut self,
        request: &Request,
        found: &KeyLookup,
        admitted: bool,
        messages: &mut Vec<Message>,
    ) -> Reply {
        let now = found.now;
        // The value counts after its end, too: no client has taken the lock since.
        let value = found.form.as_ref().and_then(StoredValue::value);
        let forced = matches!(request.leaving, AfterRelease::Forced(_));
        // A forced release names what an inspection has shown, which may be another library's
        // value.
        let told = |value: &Value| forced && *value == request.value;
        let alone = !request.value.0.is_empty()
            && value.is_some_and(|value| request.value.proves(value) || told(value));
        let mut last = found.last.as_ref().map(|(_, until)| *until);
        let shared =
            found.form.as_ref().is_some_and(StoredValue::is_shared) && self.end_share(request, now);
        if shared {
            let readers = self.readers(&request.keys.aux.shared(), now);
            last = readers
                .and_then(|readers| readers.last(found.time))
                .map(|(_, until)| until);
        }
        let held = alone || shared;
        let answer = Reply::Released { held };
        self.leave(request, now);
        if let AfterRelease::Forced(long) = request.leaving {
            let (keys, value) = (&request.keys, &request.value);
            self.bans.add(keys, value, found.now, long);
        }
        // Unadmitted or in quarantine, this node may have forgotten another lease's vote, which its
        // client still counts: the keep stands, and counts for nothing.
        let may_vote = admitted && found.quarantine.is_none();
        if !forced && self.keep(request, found, alone) {
            return if alone || !may_vote {
                answer
            } else {
                Reply::Kept
            };
        }
        let open = found.alone_free() && !self.is_anothers(request, found);
        let free = alone || open;
        if !free {
            return answer;
        }
        // A reservation promises a vote, too.
        if !may_vote && last.is_none() && self.is_queued(request, now) {
            self.close_out(request, now);
            return answer;
        }
        if may_vote && self.turn(request, None, last, now, messages) == QueueTurn::Other {
            return answer;
        }
        if last.is_none() {
            self.keys.remove(&request.keys.lock);
        } else if let Some((StoredValue::Shared { until, whom, .. }, _)) =
            self.keys.get_mut(&request.keys.lock)
            && found.time <= *until
        {
            // The waiter that the lock was reserved for has gone.
            (*until, *whom) = (0, ReservedFor::NoWaiter);
        }
        answer
    }

    /// Whether the lock is reserved for another waiter than the request's, and that waiter may
    /// still come: of the notified readers a waiter is queued until it does.
    fn is_anothers(&self, request: &Request, found: &KeyLookup) -> bool {
        let Some(form) = &found.form else {
            return false;
        };
        match form.reserved(found.time) {
            None => false,
            Some(ReservedFor::Readers(ticket)) => {
                let line = self.lines.get(request.keys.aux.queue());
                let line = line.filter(|line| line.lives(found.now));
                let first = line.and_then(|line| line.queue.front());
                // A waiter that wants the lock for itself may have a ticket of theirs: tickets
                // begin anew in a queue that was empty.
                let shares = |first: &QueueEntry| first.mode == Mode::Shared;
                let called = |first: &QueueEntry| shares(first) && first.ticket <= *ticket;
                first.is_some_and(called)
            }
            Some(_) => !form.is_for(request, found.time),
        }
    }

    /// Leaves the lock taken by the released value, where the request says so or the lock is kept
    /// already; also where no vote stands at all, for another client would win by this node. A
    /// crowded key outlives the places of the waiters.
    fn keep(&mut self, request: &Request, found: &KeyLookup, alone: bool) -> bool {
        let form = found.form.as_ref();
        let kept = form.is_some_and(StoredValue::is_kept);
        if alone && kept {
            let stands = form.is_some_and(|form| form.holder(found.time).is_some());
            return stands;
        }
        let AfterRelease::TakenFor(long) = request.leaving else {
            return false;
        };
        let shared = form.is_some_and(StoredValue::is_shared);
        let reserved = form.and_then(|form| form.reserved(found.time)).is_some();
        let mine = form.is_some_and(|form| form.is_for(request, found.time));
        let open = found.free && !shared && (!reserved || mine) && !request.value.0.is_empty();
        if !(alone || open) {
            return false;
        }
        let waited = form.is_none() && self.is_queued(request, found.now);
        let least = if found.is_crowded() || waited {
            life(found.now, request.keys.waits.place)
        } else {
            found.now
        };
        let until = found.time + micros(long);
        let value = request.value.clone();
        let end = life(found.now, long).max(least);
        self.put(request, StoredValue::Kept { until, value }, end);
        true
    }
}
