//! The script `release` on a node in memory: gives the lock back, and calls the next.

use super::line::{Message, Turn, life};
use super::scripts::Found;
use super::{Form, MemoryNode, micros};
use crate::mutants::mutant;
use crate::node::{Leaving, Reply, Request};

impl MemoryNode {
    /// Gives the vote back, and takes the waiter out of the queue. Where the lock is free
    /// then, it is reserved for the first who waits, if the node may promise that.
    pub(super) fn release(
        &mut self,
        request: &Request,
        found: &Found,
        admitted: bool,
        messages: &mut Vec<Message>,
    ) -> Reply {
        let now = found.now;
        // Also one that is over: nobody has taken the lock since.
        let value = found.form.as_ref().and_then(Form::value);
        let held = !request.value.0.is_empty() && value == Some(&request.value);
        let answer = Reply::Released { held };
        if mutant!("cancelled-waiter-stays-queued", true, false) {
            self.leave(request, now);
        }
        let forced = match request.leaving {
            Leaving::Forced(long) => {
                self.bans.add(request, found.now, long);
                true
            }
            _ => false,
        };
        if held
            && !forced
            && let Some(form) = &found.form
            && self.keep(request, form, found)
        {
            return answer;
        }
        let claimed = found
            .form
            .as_ref()
            .and_then(|form| form.reserved(found.time));
        let anothers = claimed.is_some_and(|(whose, _)| Some(whose) != request.waiter.as_ref());
        let gives = mutant!("release-unowned", held, !found.free)
            && mutant!("release-keeps-key", true, false);
        let free = gives || found.free && !anothers;
        if !mutant!("reservation-over-live-key", free, !anothers) {
            return answer;
        }
        // To reserve is to promise a vote.
        let may_vote = admitted && found.quarantine.is_none();
        let may_vote = mutant!("reservation-in-quarantine", may_vote, true);
        if !may_vote && self.is_queued(request, now) {
            self.close_out(request, now);
            return answer;
        }
        let serves = may_vote && mutant!("release-serves-nobody", true, false);
        if !serves || self.turn(request, None, now, messages) != Turn::Anothers {
            self.keys.remove(&request.keys.lock);
        }
        answer
    }

    /// Leaves the lock taken by the value that is released, where that is asked for, or it
    /// is kept already. A crowded key outlives the places of those who wait.
    fn keep(&mut self, request: &Request, form: &Form, found: &Found) -> bool {
        if form.is_kept() {
            let stands = form.holder(found.time).is_some();
            return stands && mutant!("keep-close-deletes", true, false);
        }
        let Leaving::TakenFor(long) = request.leaving else {
            return false;
        };
        let least = match found.is_crowded() {
            true => life(found.now, request.keys.waits.place),
            false => found.now,
        };
        let until = found.time + micros(long);
        let value = request.value.clone();
        let end = life(found.now, long).max(least);
        self.put(request, Form::Kept { until, value }, end);
        true
    }
}
