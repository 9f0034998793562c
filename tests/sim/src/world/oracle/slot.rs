//! Slots of a semaphore, as the judges see them. Each is a lock, so that S1 to L7 are judged
//! of each; beside that
//!
//! - SE1: at any instant at most as many leases are valid as there are slots.
//! - SE2: a token has a vote for one slot of a node at most.
//! - SE3, which is L1 and L2 of slots: after the tail all of them are to be had at once.
//! - SE4: whoever waits for one in the calm at the end has it in time; L5 says so of the call.
//! - Whoever chooses among them takes nothing away that is held, and passes no queue.

use std::sync::Arc;

use quorlock::sim::{MemoryNode, Mode, Reply, Request, ReservedFor};

use super::{Inner, Seen, shared};
use crate::contender::{KEYS, NAMES};
use crate::neighbour::{Known, known};

/// What is asked of each slot, where all are.
pub(super) fn requests(request: &Request) -> Vec<Request> {
    let Mode::AnySlot(slots) = request.keys.mode else {
        return Vec::new();
    };
    let one = |slot| Request {
        keys: Arc::new(request.keys.of_slot(slot)),
        ..request.clone()
    };
    (0..slots).map(one).collect()
}

/// Whether the slot was kept for whoever asks: that one has been called for it.
fn is_reserved(one: &Request, before: &Seen) -> bool {
    let form = before.form.as_ref();
    let whom = form.and_then(|(form, _)| form.reserved(MemoryNode::time(before.local)));
    whom.is_some() && whom.cloned() == one.waiter.clone().map(ReservedFor::Waiter)
}

impl Inner {
    /// A node has chosen among slots, or somebody who waited for them has gone.
    pub(super) fn judge_choice(
        &mut self,
        node: usize,
        request: &Request,
        seen: &Seen,
        reply: Option<&Reply>,
    ) {
        for (one, seen) in &seen.slots {
            self.check_theft(node, one, seen);
        }
        let Some(Reply::Chosen { slot }) = reply else {
            return;
        };
        let wrong = match seen.slots.get(*slot as usize) {
            None => "SE1 chooses a slot that is not there",
            Some((one, before)) if !self.votes_on(node, one, before).is_empty() => {
                "SE1 chooses a slot that is held"
            }
            _ if seen.quarantined => "L4 chooses in its quarantine",
            Some((one, before))
                if !is_reserved(one, before) && self.passes(node, request, seen) =>
            {
                "L7 chooses past a live queue"
            }
            _ => return,
        };
        self.violated(format!("{wrong}: n{node}, slot {slot}"));
    }

    /// Whether somebody was before whoever asks, and has not been called.
    fn passes(&self, node: usize, request: &Request, seen: &Seen) -> bool {
        let first = seen.first_before.as_ref();
        let passed = first.is_some_and(|first| self.is_in_line(node, request, first));
        passed && !self.oracle.steps_seen
    }

    fn votes_on(&self, node: usize, one: &Request, seen: &Seen) -> Vec<quorlock::sim::Value> {
        let state = &self.nodes[node].state;
        let votes = shared::votes_on(state, &one.keys.lock, &one.keys.aux, seen.local);
        votes.into_iter().map(|(value, _)| value).collect()
    }

    /// SE1 of valid leases, where S1 is promised of all of them.
    pub(super) fn too_many(&self, valid: &[usize]) -> Option<String> {
        let watch = |i: &usize| &self.oracle.watches[*i];
        let slots = valid.iter().map(watch);
        let slots = slots.filter(|w| w.hold.mode().slot().is_some());
        let most = slots.clone().map(|w| match w.hold.terms().keys.mode {
            Mode::AnySlot(slots) => slots as usize,
            // One that was adopted does not know how many there are.
            _ => usize::MAX,
        });
        let (held, most) = (slots.count(), most.max().unwrap_or(0));
        let excused = self.nodes.iter().any(|node| node.excused);
        (held > most && !excused).then(|| format!("SE1 {held} hold a semaphore of {most}"))
    }

    /// SE2: a token with votes for two slots of a node.
    pub(super) fn voted_twice(&self, node: usize, request: &Request) -> bool {
        let (state, local) = (
            &self.nodes[node].state,
            self.nodes[node].clock.local(self.time),
        );
        let votes = |lock: &&Known| {
            let votes = shared::votes_on(state, &lock.lock, &lock.aux, local);
            votes.iter().any(|(value, _)| *value == request.value)
        };
        known()[NAMES.len()..KEYS.len()]
            .iter()
            .filter(votes)
            .count()
            > 1
    }
}
