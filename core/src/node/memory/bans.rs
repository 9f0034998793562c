//! Which values were forced out of their locks, on a node in memory: those are not stored
//! anew by an extension.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::micros;
use crate::node::Request;

/// By the key of the bans and the value: until the node's `TIME` shows more than so many µs.
#[derive(Clone, Debug, Default)]
pub(super) struct Bans(BTreeMap<(Vec<u8>, Arc<[u8]>), u64>);

impl Bans {
    /// The request's value is banned for so long from `time` on, or longer if it is already.
    pub(super) fn add(&mut self, request: &Request, time: u64, long: Duration) {
        let until = self.0.entry(Bans::key(request)).or_default();
        *until = (*until).max(time + micros(long));
    }

    /// Whether the request's value is banned.
    pub(super) fn has(&self, request: &Request, time: u64) -> bool {
        // A node seldom has any.
        !self.0.is_empty() && (self.0.get(&Bans::key(request))).is_some_and(|until| time <= *until)
    }

    /// Drops what is over.
    pub(super) fn expire(&mut self, time: u64) {
        self.0.retain(|_, until| time <= *until);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn key(request: &Request) -> (Vec<u8>, Arc<[u8]>) {
        (request.keys.companions.bans(), request.value.0.clone())
    }
}
