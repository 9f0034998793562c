//! The names of the locks of which a node has a key, for people that look.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redis::Value as Resp;

use super::cluster;
use super::greet::{Greeting, greet};
use super::prepare::permitted;
use super::talk::{exchange_long, within};
use super::target::{ConnectHints, Target};
use crate::clock::Instant;
use crate::node::Fault;
use crate::node::address::Endpoint;
use crate::node::names::{name_of, slot_of};
use crate::node::redis::{replies, resp};

/// About this many keys a node looks at before it answers: for a moment in which it does nothing
/// else.
const COUNT: usize = 1000;
/// This many times what a request may take a server has to be connected to: its sentinels may
/// have to say where it is.
const STEPS: u32 = 8;

/// For how long the scan reads a node: about a hundred million keys. A server that reports ever
/// more keys is not read to the end.
const LONGEST: Duration = Duration::from_secs(30);

/// What keys were found: the names of locks, and of semaphores with how many slots they have at least.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) locks: BTreeSet<Vec<u8>>,
    pub(crate) semaphores: BTreeMap<Vec<u8>, u32>,
}

impl Names {
    pub(crate) fn len(&self) -> usize {
        self.locks.len() + self.semaphores.len()
    }

    pub(crate) fn extend(&mut self, other: Names) {
        self.locks.extend(other.locks);
        for (name, slots) in other.semaphores {
            let known = self.semaphores.entry(name).or_default();
            *known = slots.max(*known);
        }
    }

    fn take(&mut self, namespace: &str, key: &[u8]) {
        if let Some(name) = name_of(namespace, key) {
            self.locks.insert(name);
        } else if let Some((name, slot)) = slot_of(namespace, key) {
            let known = self.semaphores.entry(name).or_default();
            *known = (*known).max(slot + 1);
        }
    }
}

/// The names of locks and semaphores in a namespace whose keys are like one of the `patterns`, which are for the
/// server to understand; at most this many and a few more. And whether those are all. Each step has its time: a server
/// that hangs is a fault.
pub(crate) async fn scan(
    target: &Target,
    namespace: &str,
    patterns: &[Vec<u8>],
    most: usize,
) -> Result<(Names, bool), Fault> {
    let clock = &target.gate.clock;
    let end = clock.now() + LONGEST;
    let shards = match &target.address.endpoint {
        Endpoint::Cluster(_) => {
            let (shards, _) = within(clock, LONGEST, cluster::see(target)).await?;
            shards.into_iter().map(|shard| shard.greeted).collect()
        }
        _ => {
            let (gate, how) = (&target.gate, ConnectHints::default());
            let most = gate.node_timeout * STEPS;
            vec![within(&gate.clock, most, greet(target, &how)).await?]
        }
    };
    let (mut names, mut all) = (Names::default(), true);
    for mut greeted in shards {
        for pattern in patterns {
            let (found, whole) = one(target, &mut greeted, namespace, pattern, most, end).await?;
            names.extend(found);
            all &= whole;
        }
    }
    Ok((names, all))
}

/// Scans one server.
async fn one(
    target: &Target,
    greeted: &mut Greeting,
    namespace: &str,
    pattern: &[u8],
    most: usize,
    end: Instant,
) -> Result<(Names, bool), Fault> {
    let gate = &target.gate;
    let (mut names, mut cursor) = (Names::default(), "0".to_owned());
    while names.len() <= most && gate.clock.now() < end {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(pattern);
        scan.arg("COUNT").arg(COUNT);
        let asked = [scan];
        let answer = exchange_long(&mut greeted.wire, &asked, resp::KEYS);
        let mut answer = within(&gate.clock, gate.node_timeout, answer).await?;
        let reply = permitted(gate, "scan", answer.pop().unwrap_or(Resp::Nil))?;
        let (next, keys) = redis::from_redis_value::<(String, Vec<Vec<u8>>)>(reply)
            .map_err(|_| replies::unexpected())?;
        keys.iter().for_each(|key| names.take(namespace, key));
        if next == "0" {
            return Ok((names, true));
        }
        cursor = next;
    }
    Ok((names, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semaphore_is_listed_by_slots_that_it_may_have() {
        let mut names = Names::default();
        for key in [
            "lock:{a}",
            "lock:#p0:{api}",
            "lock:#p7:{api}",
            "lock:#p07:{api}",
            "lock:#p128:{api}",
            "lock:#p4294967295:{api}",
            "lock:#p127:{b}",
            "lock:#q:{c}",
        ] {
            names.take("lock:", key.as_bytes());
        }
        assert_eq!(names.locks, BTreeSet::from([b"a".to_vec()]));
        let semaphores = BTreeMap::from([(b"api".to_vec(), 8), (b"b".to_vec(), 128)]);
        assert_eq!(names.semaphores, semaphores);
    }
}
