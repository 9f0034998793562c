//! Which leases were forced out of their locks, or go on in another client, on a node in memory:
//! their values are stored anew by no script, and are no votes where plain commands have stored them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::times::{life, micros, server_time, tick};
use crate::clock::Instant;
use crate::node::{Keys, Request, Value};

/// By the keys of the bans.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bans(BTreeMap<Vec<u8>, BanList>);

/// Of one lock: the [identities](crate::node::Value::identity) of the values, each until the node's `TIME` shows more than this many µs; and the
/// end of the key's life.
#[derive(Clone, Debug, PartialEq)]
struct BanList {
    values: BTreeMap<Vec<u8>, u64>,
    end: Instant,
}

impl BanList {
    fn lives(&self, now: Instant) -> bool {
        tick(now) <= self.end
    }
}

impl Bans {
    /// The value is banned for so long, or longer if it is already.
    pub(super) fn add(&mut self, keys: &Keys, value: &Value, now: Instant, long: Duration) {
        let (time, end) = (server_time(now), life(now, long));
        let key = keys.aux.bans();
        let known = self.0.remove(&key).filter(|known| known.lives(now));
        let mut banned = known.unwrap_or(BanList {
            values: BTreeMap::new(),
            end,
        });
        banned.values.retain(|_, until| time <= *until);
        let identity = value.identity().to_vec();
        let until = banned.values.entry(identity).or_default();
        *until = (*until).max(time + micros(long));
        banned.end = banned.end.max(end);
        self.0.insert(key, banned);
    }

    /// Whether the request's value is banned.
    pub(super) fn has(&self, request: &Request, now: Instant) -> bool {
        self.hold(&request.keys, &request.value, now)
    }

    /// Whether that value is.
    pub(super) fn hold(&self, keys: &Keys, value: &Value, now: Instant) -> bool {
        // A node seldom has any.
        if self.0.is_empty() {
            return false;
        }
        let banned = self.0.get(&keys.aux.bans());
        let banned = banned.filter(|banned| banned.lives(now));
        let until = banned.and_then(|banned| banned.values.get(value.identity()));
        until.is_some_and(|until| server_time(now) <= *until)
    }

    /// Drops those of one lock.
    pub(super) fn forget(&mut self, keys: &Keys) {
        self.0.remove(&keys.aux.bans());
    }

    /// Drops what is dead.
    pub(super) fn expire(&mut self, now: Instant) {
        self.0.retain(|_, banned| banned.lives(now));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Of every living key of bans the values with their ends, and the moment the key's life
    /// ends.
    pub(super) fn living(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (&[u8], impl Iterator<Item = (&[u8], u64)>, Instant)> {
        let living = self.0.iter().filter(move |(_, b)| b.lives(now));
        living.map(|(key, banned)| {
            let values = banned.values.iter();
            (
                &**key,
                values.map(|(value, end)| (&**value, *end)),
                banned.end,
            )
        })
    }
}
