//! FR1: once a lock was taken away from whoever had it, no quorum holds a lease that one held
//! before; its holder is told of that in time (HL1). Until it is, two may work, as docs say: so
//! a lease that somebody has asked to be taken away is no more judged by S1, S4 and K1.

use quorlock::sim::{AfterRelease, Request};

use super::{Inner, name_of, shared};
use crate::contender::companions_of;
use crate::neighbour::{place_of_hold, place_of_key};
use crate::world::World;

/// Leases on a lock, by their tokens.
#[derive(Debug)]
pub struct Before(Vec<u64>);

impl World {
    /// The leases on a lock that a quorum holds now.
    pub fn held_by_a_quorum(&self, lock: &[u8]) -> Before {
        let inner = self.inner();
        let mut names = inner.tokens_on(lock);
        names.sort_unstable();
        let quorum = inner.quorum();
        let mut held: Vec<u64> = Vec::new();
        for some in names.chunk_by(|one, other| one == other) {
            // One that is asked for yet may still be had.
            let life = inner.oracle.tokens.get(&some[0]);
            let watch = life.and_then(|life| life.watch);
            // What another namespace's lock has under that key is banned in that one alone.
            let own = |i: usize| place_of_hold(&inner.oracle.watches[i].hold) == place_of_key(lock);
            if some.len() >= quorum && watch.is_some_and(own) {
                held.push(some[0]);
            }
        }
        Before(held)
    }

    /// FR1: a client was told that it has taken the lock away.
    pub fn check_forced(&self, client: usize, lock: &[u8], before: &Before) {
        let mut inner = self.inner();
        // Where old data has come back, or a ban has ended early by a clock, so have votes.
        let back = inner.nodes.iter().any(|node| node.excused || node.forgot);
        if back || inner.oracle.steps_seen {
            return;
        }
        let names = inner.votes_that_count(lock);
        let on = |held: &u64| names.iter().filter(|name| *name == held).count();
        if before.0.iter().any(|held| on(held) >= inner.quorum()) {
            let what = format!("FR1 c{client} is told that a lock was taken away that stands");
            inner.violated(what);
        }
    }
}

impl Inner {
    /// Of each node the tokens that have a vote for a lock.
    fn tokens_on(&self, lock: &[u8]) -> Vec<u64> {
        self.tokens_by_node(lock).map(|(_, name)| name).collect()
    }

    /// The same, without those that a plain command has stored too late to be votes.
    fn votes_that_count(&self, lock: &[u8]) -> Vec<u64> {
        let counts = |(node, name): &(usize, u64)| {
            let life = self.oracle.tokens.get(name);
            life.is_none_or(|life| !life.too_late[*node])
        };
        self.tokens_by_node(lock)
            .filter(counts)
            .map(|(_, name)| name)
            .collect()
    }

    fn tokens_by_node(&self, lock: &[u8]) -> impl Iterator<Item = (usize, u64)> {
        self.nodes
            .iter()
            .enumerate()
            .flat_map(move |(number, node)| {
                let local = node.clock.local(self.time);
                let votes = shared::votes_on(&node.state, lock, &companions_of(lock), local);
                votes
                    .into_iter()
                    .map(move |(value, _)| (number, name_of(&value.0)))
            })
    }

    /// A plain command has stored a vote: too late to be one, where its token was asked for longer
    /// ago than twice the time that a node has to answer, by a clock as fast as it may be.
    pub(super) fn notes_too_late(&mut self, node: usize, request: &Request) {
        let (now, counts) = (
            self.time,
            self.network.patience * 2 - self.network.patience / 5,
        );
        if let Some(life) = self.oracle.tokens.get_mut(&name_of(&request.value.0)) {
            let begun = self.clients[life.client].clock.time(life.begun);
            life.too_late[node] = now > begun + counts;
        }
    }

    /// A client sends a release: it may be of another's lease.
    pub(super) fn is_forced_out(&mut self, request: &Request) {
        let AfterRelease::Forced(_) = request.leaving else {
            return;
        };
        let name = name_of(&request.value.0);
        self.oracle.kept.retain(|kept| !kept.is_of(name));
        if let Some(life) = self.oracle.tokens.get_mut(&name) {
            life.forced = true;
        }
    }

    /// Whether somebody has asked for it to be taken away.
    pub(super) fn is_forced(&self, name: &u64) -> bool {
        let life = self.oracle.tokens.get(name);
        life.is_some_and(|life| life.forced)
    }
}
