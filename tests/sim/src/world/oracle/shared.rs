//! Votes that share a lock, as the judges see them: who has one where, until when.
//!
//! - RW1: at any instant at most one lease that is not shared is valid, and none beside a
//!   shared one; on each node never a vote of one kind beside one of the other.
//! - RW3, which is L1 of readers: after the tail no dead token shares anything.
//! - RW4 is L4: in the calm at the end, over links, half of the waiters share, and all are
//!   served in time.
//! - RW5: no reader is let in past a live waiter that wants the lock for itself, and has asked
//!   in the last three seconds, unless readers are being called.
//! - RW6: a reader that says that its home has let it in has a vote, and that stands.

use quorlock::sim::{
    AuxKeys, ClaimCell, Instant, Keys, MemoryNode, Mode, Op, Reply, Request, ReservedFor,
    StoredValue, Value,
};

use super::{Inner, Seen, holds_until, name_of};
use crate::neighbour::{Known, known};
use crate::world::Node;

/// The votes on a node for the lock with that key and what goes with it, each with its end by the
/// node's clock. What another lock has under that key is among them.
pub(super) fn votes_on(
    state: &MemoryNode,
    lock: &[u8],
    aux: &AuxKeys,
    now: Instant,
) -> Vec<(Value, Instant)> {
    let time = MemoryNode::time(now);
    let Some((form, end)) = state.form(lock, now) else {
        return Vec::new();
    };
    if let Some(holder) = form.holder(time).filter(|_| !form.is_kept()) {
        return vec![(holder.clone(), holds_until(form, end))];
    }
    if form.is_shared() {
        readers_on(state, aux, now)
    } else {
        Vec::new()
    }
}

/// The votes that share it, whatever stands under the lock's own key.
pub(in crate::world) fn readers_on(
    state: &MemoryNode,
    aux: &AuxKeys,
    now: Instant,
) -> Vec<(Value, Instant)> {
    let key = aux.shared();
    let time = MemoryNode::time(now);
    let readers = state.readers(&key, now).into_iter();
    let readers = readers.flat_map(|readers| &readers.votes);
    let live = readers.filter(|(_, until)| time <= **until);
    live.map(|(value, until)| (value.clone(), Instant(until * 1000)))
        .collect()
}

/// All votes on a node.
pub(super) fn all_votes(node: &Node, now: Instant) -> impl Iterator<Item = Value> {
    let of = |lock: &Known| votes_on(&node.state, &lock.lock, &lock.aux, now);
    let votes = known().iter().flat_map(of).map(|(value, _)| value);
    let votes: Vec<_> = votes.chain(tokens(&node.state, now)).collect();
    votes.into_iter()
}

/// The tokens that are counted in locks of Redisson's layout.
fn tokens(state: &MemoryNode, now: Instant) -> impl Iterator<Item = Value> {
    let counted = state.hashes(now).flat_map(|(_, fields, _)| fields);
    let ours = |(field, count): (Vec<u8>, u64)| (count > 0).then(|| Value(field.into()));
    counted.filter_map(ours).filter(Value::is_ours)
}

/// Until when the owner in these keys holds its lock, in Redisson's layout, by this token.
pub(super) fn has_entered(
    state: &MemoryNode,
    keys: &Keys,
    token: &[u8],
    now: Instant,
) -> Option<Instant> {
    let of = |key: &[u8]| state.hashes(now).find(|(other, ..)| *other == key);
    let owner = keys.field.as_ref()?.name.to_vec();
    let (_, lock, end) = of(&keys.lock)?;
    let (_, tokens, _) = of(keys.aux.queue())?;
    let counted = tokens.keys().any(|field| field.starts_with(token));
    (lock.contains_key(&owner) && counted).then_some(end)
}

impl Inner {
    /// Whether a node has the lease's vote.
    pub(super) fn has_vote(&self, node: &Node, hold: &ClaimCell) -> bool {
        let token = hold.token().as_bytes();
        let (keys, now) = (&hold.terms().keys, node.clock.local(self.time));
        if keys.field.is_some() {
            return has_entered(&node.state, keys, token, now).is_some();
        }
        let votes = votes_on(&node.state, &hold.lock_key(), &keys.aux, now);
        votes.iter().any(|(value, _)| value.0.starts_with(token))
    }

    /// The votes there of whoever asks.
    pub(super) fn votes_for(
        &self,
        node: usize,
        request: &Request,
        now: Instant,
    ) -> Vec<(Value, Instant)> {
        let (state, keys) = (&self.nodes[node].state, &request.keys);
        if keys.field.is_some() {
            let end = has_entered(state, keys, &request.value.0, now);
            return end
                .map(|end| (request.value.clone(), end))
                .into_iter()
                .collect();
        }
        votes_on(state, &keys.lock, &keys.aux, now)
    }

    /// RW1 on a node, S3 of readers, and RW5: by what has changed there.
    pub(super) fn judge_readers(
        &mut self,
        node: usize,
        request: &Request,
        seen: &Seen,
        reply: Option<&Reply>,
    ) {
        let (lock, now) = (&request.keys.lock, seen.local);
        let state = &self.nodes[node].state;
        let after = readers_on(state, &request.keys.aux, now);
        let form = state.form(lock, now).map(|(form, _)| form);
        let alone = form.is_some_and(|form| form.holder(MemoryNode::time(now)).is_some());
        let forgotten = !form.is_some_and(StoredValue::is_shared);
        // What is left of readers behind a hold of one alone had ended before that.
        let lost = seen.readers.iter().find(|(value, until)| {
            let still = after
                .iter()
                .any(|(other, end)| other == value && end >= until);
            *value != request.value && !still
        });
        let what = match () {
            () if !seen.readers.is_empty() && alone => "RW1 gives a vote beside readers",
            () if !seen.readers.is_empty() && forgotten && !after.is_empty() => {
                "RW1 forgets its readers"
            }
            () if lost.is_some() => "S3 takes another's share away",
            () if self.passes_writer(node, request, seen, reply) => {
                "RW5 lets a reader pass a waiter"
            }
            () => return,
        };
        if !self.oracle.steps_seen {
            let op = request.op;
            let before = &seen.form;
            self.violated(format!(
                "{what}: n{node}, {op:?}, before {before:?} at {:?}",
                seen.local
            ));
        }
    }

    /// RW6, of a request that its client is about to send at `now` of its clock.
    pub(super) fn check_let_in(&mut self, request: &Request, now: Instant) {
        let Op::Acquire { let_in: true, .. } = request.op else {
            return;
        };
        let life = self.oracle.tokens.get(&name_of(&request.value.0));
        let has_vote = life.is_some_and(|life| life.ends.iter().any(|end| now < *end));
        // A clock that has stepped ends a vote that nobody has looked at since.
        let has_vote = has_vote || self.oracle.steps_seen;
        if !has_vote || request.keys.mode != Mode::Shared {
            self.violated("RW6 is said to be let in by its home without a vote".into());
        }
    }

    fn passes_writer(
        &self,
        node: usize,
        request: &Request,
        seen: &Seen,
        reply: Option<&Reply>,
    ) -> bool {
        let granted = matches!(reply, Some(Reply::Granted { .. }));
        let shared = request.keys.mode == Mode::Shared && matches!(request.op, Op::Acquire { .. });
        let time = MemoryNode::time(seen.local);
        // Called before, or by the one that is let in.
        let state = &self.nodes[node].state;
        let after = state.form(&request.keys.lock, seen.local);
        let forms = [
            seen.form.as_ref().map(|(form, _)| form),
            after.map(|(form, _)| form),
        ];
        let reserved =
            |form: &StoredValue| matches!(form.reserved(time), Some(ReservedFor::Readers(_)));
        let called = forms.into_iter().flatten().any(reserved);
        let own = seen
            .readers
            .iter()
            .any(|(value, _)| *value == request.value);
        granted && shared && seen.first_before.is_some() && !called && !own
    }
}
