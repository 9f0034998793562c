//! Between two steps at a node nothing changes there but by time: what a step finds is what the last one left.

use std::collections::{BTreeSet, HashMap};

use quorlock::sim::Keys;

use crate::spec::lock::Lock;

/// A server, by its node and by which of those it is that have stood in its place.
pub type Server = (usize, (usize, u64));

/// Which of a node's servers its address leads astray to.
const ASTRAY: usize = 2;

/// What each server was seen to have last, by the keys that it is stored under.
#[derive(Debug, Default)]
pub struct Frame {
    keys: HashMap<(Server, Vec<u8>), Lock>,
    counters: HashMap<(Server, Vec<u8>), Lock>,
    companions: HashMap<(Server, Vec<u8>), Lock>,
    /// The nodes of which nothing is known but what was seen since: at first they have nothing.
    vague: BTreeSet<usize>,
}

impl Frame {
    /// What is to be there at that `TIME`, where the node shows `seen`: that itself where nothing is known.
    pub fn expected(&self, server: Server, keys: &Keys, seen: &Lock, time: u64) -> Lock {
        let mut lock = seen.clone();
        // Another server at the node's address has what it had when it stood there before.
        if server.1.0 != ASTRAY && !self.vague.contains(&server.0) {
            lock = Lock::default();
        }
        if let Some(known) = self.keys.get(&(server, keys.lock.to_vec())) {
            lock.key = known.key.clone();
        }
        if let Some(known) = self.counters.get(&(server, keys.aux.counter().to_vec())) {
            lock.counter = known.counter;
        }
        if let Some(known) = self.companions.get(&(server, keys.aux.queue().to_vec())) {
            (lock.bans, lock.queue) = (known.bans.clone(), known.queue.clone());
            lock.queue_end = known.queue_end;
            lock.readers = known.readers.clone();
        }
        lock.at(time)
    }

    /// Notes what a step has left.
    pub fn note(&mut self, server: Server, keys: &Keys, lock: &Lock) {
        let at = |key: &[u8]| (server, key.to_vec());
        self.keys.insert(at(&keys.lock), lock.clone());
        self.counters.insert(at(keys.aux.counter()), lock.clone());
        self.companions.insert(at(keys.aux.queue()), lock.clone());
    }

    /// What a node has is not known any more.
    pub fn forget(&mut self, node: usize) {
        self.vague.insert(node);
        self.keys.retain(|((server, _), _), _| *server != node);
        self.counters.retain(|((server, _), _), _| *server != node);
        self.companions
            .retain(|((server, _), _), _| *server != node);
    }
}
