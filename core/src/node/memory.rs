//! A node in memory: the meaning of each script, on a map.
//!
//! `memory://NAME` serves a user's own tests; the simulator drives the same
//! [`MemoryNode`] in virtual time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use once_cell::sync::Lazy;

use super::{Fault, Link, Op, Reply, Request, Sink, Ticket, Value};
use crate::clock::{Clock, Instant};
use crate::mutants::mutant;
use crate::sync::lock;

/// The state of one node. Time is an argument, as everything else.
#[derive(Debug, Default)]
pub struct MemoryNode {
    keys: HashMap<Arc<[u8]>, (Value, Instant)>,
    /// Dead keys are dropped when there are this many in all.
    sweep_at: usize,
}

impl MemoryNode {
    /// The value under `key` and the moment its life ends, if it lives at
    /// `now`. A key lives up to and including its last millisecond, as on
    /// Redis.
    pub fn get(&self, key: &[u8], now: Instant) -> Option<(&Value, Instant)> {
        let (value, end) = self.keys.get(key)?;
        (now <= *end).then_some((value, *end))
    }

    /// Every living key with its value.
    #[cfg(any(test, feature = "sim"))]
    pub fn keys(&self, now: Instant) -> impl Iterator<Item = (&[u8], &Value)> {
        self.keys
            .iter()
            .filter(move |(_, (_, end))| now <= *end)
            .map(|(key, (value, _))| (&**key, value))
    }

    /// Carries out one request at `now` of this node's own clock.
    pub fn execute(&mut self, request: &Request, now: Instant) -> Reply {
        let (value, end) = match self.get(&request.key, now) {
            Some((value, end)) => (Some(value), end),
            None => (None, now),
        };
        let mine = value == Some(&request.value);
        match request.op {
            Op::Acquire { ttl } if value.is_none() => {
                self.store(request, now + ttl);
                Reply::Granted
            }
            Op::Acquire { ttl } if mine => {
                self.store(request, end.max(now + ttl));
                Reply::Granted
            }
            Op::Acquire { .. } => Reply::Refused {
                left: Some(now.until(end)),
                holder: None,
            },
            Op::Extend { ttl, .. } if mutant!("extend-unowned", mine, value.is_some()) => {
                self.store(request, end.max(now + ttl));
                Reply::Extended { repaired: false }
            }
            Op::Extend { ttl, repair: true } if value.is_none() => {
                self.store(request, now + ttl);
                Reply::Extended { repaired: true }
            }
            Op::Extend { .. } => Reply::NotMine,
            Op::Release => {
                let delete = mutant!("release-unowned", mine, value.is_some());
                if delete {
                    self.keys.remove(&request.key);
                }
                Reply::Released { held: mine }
            }
        }
    }

    fn store(&mut self, request: &Request, end: Instant) {
        self.keys
            .insert(request.key.clone(), (request.value.clone(), end));
    }

    fn sweep(&mut self, now: Instant) {
        if self.keys.len() >= self.sweep_at {
            self.keys.retain(|_, (_, end)| now <= *end);
            self.sweep_at = 64.max(2 * self.keys.len());
        }
    }
}

/// The nodes of this process by name, for `memory://NAME`.
type Nodes = HashMap<String, Arc<Mutex<MemoryNode>>>;
static NODES: Lazy<Mutex<Nodes>> = Lazy::new(Mutex::default);

/// Forgets all `memory://` nodes: those that links still know live on in them.
pub(crate) fn forget() {
    *lock(&NODES) = Nodes::new();
}

/// The link to a `memory://` node: answers within the call.
pub(crate) struct MemoryLink {
    node: Arc<Mutex<MemoryNode>>,
    clock: Arc<dyn Clock>,
    shown: Arc<str>,
}

impl MemoryLink {
    pub(crate) fn new(name: &str, shown: Arc<str>, clock: Arc<dyn Clock>) -> MemoryLink {
        let node = lock(&NODES).entry(name.to_owned()).or_default().clone();
        MemoryLink { node, clock, shown }
    }
}

impl Link for MemoryLink {
    fn send(&self, request: Request, ticket: Ticket, sink: Arc<dyn Sink>, _give_up: Instant) {
        if !sink.wanted() {
            return sink.on_reply(ticket, Reply::Failed(Fault::unwanted()));
        }
        let reply = {
            let mut node = lock(&self.node);
            let now = self.clock.now();
            node.sweep(now);
            node.execute(&request, now)
        };
        sink.on_reply(ticket, reply);
    }

    fn shown(&self) -> Arc<str> {
        self.shown.clone()
    }

    fn close(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn request(op: Op, value: &str) -> Request {
        Request {
            op,
            key: b"k"[..].into(),
            value: Value(value.as_bytes().into()),
        }
    }

    #[test]
    fn only_the_owner_extends_and_releases() {
        let mut node = MemoryNode::default();
        let ttl = Duration::from_millis(100);
        let at = |ms: u64| Instant(ms * 1_000_000);
        let acquire = Op::Acquire { ttl };
        assert_eq!(node.execute(&request(acquire, "a"), at(0)), Reply::Granted);
        assert_eq!(
            node.execute(&request(acquire, "b"), at(40)),
            Reply::Refused {
                left: Some(Duration::from_millis(60)),
                holder: None
            }
        );
        let extend = |repair| Op::Extend { ttl, repair };
        assert_eq!(
            node.execute(&request(extend(true), "b"), at(50)),
            Reply::NotMine
        );
        assert_eq!(
            node.execute(&request(Op::Release, "b"), at(50)),
            Reply::Released { held: false }
        );
        // Its own token again: lengthened to the full ttl.
        assert_eq!(node.execute(&request(acquire, "a"), at(50)), Reply::Granted);
        assert!(node.get(b"k", at(150)).is_some());
        assert!(node.get(b"k", at(151)).is_none());
        assert_eq!(
            node.execute(&request(extend(false), "a"), at(151)),
            Reply::NotMine
        );
        assert_eq!(
            node.execute(&request(extend(true), "a"), at(151)),
            Reply::Extended { repaired: true }
        );
        assert_eq!(
            node.execute(&request(Op::Release, "a"), at(152)),
            Reply::Released { held: true }
        );
        assert_eq!(node.keys(at(152)).count(), 0);
    }
}
