//! What a claim reads of its client: the clocks, the health and the ids of the nodes.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Instant;
use crate::owner::ThreadBinding;
use crate::protocol::claim::LockParams;
use crate::protocol::claim::env::{BoundThread, Env};
use crate::protocol::set::Set;

/// The world as one claim reads it.
pub(super) struct CellEnv<'a> {
    set: &'a Set,
    terms: &'a LockParams,
    bound: &'a Option<Arc<ThreadBinding>>,
}

impl<'a> CellEnv<'a> {
    pub(super) fn of(
        set: &'a Set,
        terms: &'a LockParams,
        bound: &'a Option<Arc<ThreadBinding>>,
    ) -> CellEnv<'a> {
        CellEnv { set, terms, bound }
    }

    fn key(&self) -> &[u8] {
        &self.terms.keys.lock
    }
}

impl Env for CellEnv<'_> {
    fn terms(&self) -> &LockParams {
        self.terms
    }

    fn id(&self, node: usize) -> u64 {
        self.set.links[node].id()
    }

    fn is_met(&self, node: usize) -> bool {
        self.set.links[node].is_met()
    }

    fn is_ours(&self, node: usize) -> bool {
        self.set.links[node].is_ours()
    }

    fn is_out(&self, node: usize) -> bool {
        self.set.is_out(node, self.key())
    }

    fn is_late(&self, node: usize) -> bool {
        self.set.is_late(node, self.key())
    }

    fn has_failed(&self, node: usize) -> bool {
        self.set.has_failed(node, Some(self.key()))
    }

    fn is_contended(&self, now: Instant) -> bool {
        self.set.contention.is_seen(&self.terms.keys.lock, now)
    }

    fn stepped(&self, node: usize) -> u64 {
        self.set.stepped(node)
    }

    fn node_time(&self, node: usize, now: Instant) -> Option<((u64, u64), u64)> {
        self.set.node_time(node, now)
    }

    fn server_time(&self, node: usize, server: u64, now: Instant) -> Option<(u64, u64)> {
        self.set.server_time(node, server, now)
    }

    fn guess(&self, node: usize, now: Instant) -> Option<(u64, u64)> {
        self.set.guess(node, now)
    }

    fn draw_fence(&self, now: Instant) -> u64 {
        self.set.candidate(self.set.median(now))
    }

    fn max_ttl(&self) -> Duration {
        self.set.max_ttl
    }

    fn thread(&self) -> BoundThread {
        match self.bound {
            Some(bound) if bound.ends_lease() => BoundThread::EndsLease,
            Some(bound) if bound.is_to_tell() => BoundThread::Warns,
            _ => BoundThread::Alive,
        }
    }
}
