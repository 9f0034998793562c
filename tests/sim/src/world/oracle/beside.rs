//! Locks beside each other: of two namespaces, raw and not, in two layouts, some with one key.
//!
//! - LN1: a request changes nothing on a node of any lock but its own. Where two have one key S3 says
//!   so of what stands there; and what a hash is to others, a string is to Redisson's.
//! - LN2: what a user is given is of the lock that it has asked for.
//! - S1 and K1 are judged by the key: whatever holds that, in whatever layout, keeps all others out.
//! - L1, when all ttls are over: no node has a key that belongs to nobody.

use quorlock::Lock;
use quorlock::sim::{ClaimCell, Instant, MemoryNode, Mode, Request};

use super::{Inner, Seen};
use crate::neighbour::known;
use crate::world::World;

impl World {
    /// From here on there are such locks.
    pub fn minds_neighbours(&self) {
        self.inner().oracle.neighbours = true;
    }

    /// LN2: a client has asked for this lock, and was given that.
    pub fn check_asked_for(&self, client: usize, lock: &Lock, hold: &ClaimCell) {
        let keys = &hold.terms().keys;
        let is = lock.place().is_ok_and(|(_, id)| id == keys.id().bytes());
        if !is {
            self.violated(format!(
                "LN2 c{client} has another lock than it has asked for"
            ));
        }
    }
}

impl Inner {
    /// All that lives on a node of other locks than that which is asked for, where that is judged.
    pub(super) fn apart_from(
        &self,
        node: usize,
        request: &Request,
        now: Instant,
    ) -> Option<MemoryNode> {
        // Slots of a semaphore are served together.
        let alone = matches!(request.keys.mode, Mode::Exclusive | Mode::Shared);
        (alone && self.oracle.neighbours).then(|| {
            let mut others = self.nodes[node].state.clone();
            others.expire(now);
            others.forget(&request.keys);
            others
        })
    }

    /// LN1: a node has carried a request out.
    pub(super) fn check_apart(&mut self, node: usize, request: &Request, seen: &Seen) {
        if !self.oracle.neighbours {
            return;
        }
        if seen.apart != self.apart_from(node, request, seen.local) {
            let op = request.op;
            self.violated(format!(
                "LN1 n{node} changes what is another lock's: {op:?}"
            ));
        }
        // What another lock holds under that key no queue is told of as it ends.
        let own = request.keys.id();
        let other =
            |lock: &crate::neighbour::Known| lock.lock == request.keys.lock && lock.id() != own;
        let foreign = known().iter().zip(&mut self.nodes[node].foreign);
        for (_, foreign) in foreign.filter(|(lock, _)| other(lock)) {
            *foreign = true;
        }
    }

    /// S2 of Redisson's counter, on one node: it never goes back.
    pub(super) fn check_hashed_counter(
        &mut self,
        node: usize,
        request: &Request,
        seen: &Seen,
        counter: &[u8],
    ) {
        let after = self.nodes[node].state.fence(counter, seen.local);
        let (before, after) = (seen.counted, after.unwrap_or(0));
        if after < before {
            let op = request.op;
            self.violated(format!(
                "S2 n{node}'s counter went from {before} to {after}: {op:?}"
            ));
        }
    }

    /// L1, when all ttls are over: what stands on a node that is of no lock, or whose users have
    /// all gone.
    pub(super) fn belongs_to_nobody(&self) -> Option<String> {
        let nodes = self.nodes.iter().enumerate();
        for (i, node) in nodes.filter(|(_, node)| self.oracle.neighbours && !node.forgot) {
            let now = node.clock.local(self.time);
            let mut rest = node.state.clone();
            rest.expire(now);
            if rest.hashes(now).next().is_some() {
                return Some(format!("L1 n{i} still has a lock in Redisson's layout"));
            }
            for lock in known() {
                rest.forget(&lock.keys());
            }
            if !rest.is_bare() {
                return Some(format!("L1 n{i} has a key that belongs to nobody"));
            }
        }
        None
    }
}
