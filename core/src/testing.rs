//! Helpers for the tests of programs that take locks: nodes without a server, and a lock that is
//! lost when the test says so.
//!
//! ```
//! use quorlock::{Client, LossReason, blocking, testing};
//!
//! # fn main() -> Result<(), quorlock::Error> {
//! let client = Client::new(testing::nodes(1))?;
//! let lease = blocking::wait(client.lock("orders:42").acquire())?;
//! // … the code under test has the lease, and works …
//! assert_eq!(testing::lose("orders:42", LossReason::Expired), 1);
//! assert_eq!(lease.loss(), Some(LossReason::Expired));
//! # Ok(()) }
//! ```
//!
//! A lock that is held by another holder is a lease of another client with the same nodes.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::LossReason;
use crate::client::metrics::clients_of_process;

/// This many `memory://` nodes that no other test has: a set of its own, within this process.
pub fn nodes(count: usize) -> Vec<String> {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let node = |place| format!("memory://quorlock-testing-{number}-{place}");
    (1..=count).map(node).collect()
}

/// Makes every client of this process lose its leases on the lock of that name, and its slots of
/// the semaphore of that name, on whatever nodes; returns how many leases these were. When it
/// returns the loss is known: leases are held no longer, [`lost`](crate::Lease::lost) is ready,
/// callbacks have been called or are under way, and the lock is given back.
///
/// For tests: to the program it is as if the nodes had not answered for too long.
pub fn lose(name: impl AsRef<[u8]>, reason: LossReason) -> usize {
    let lose = |client: std::sync::Arc<dyn crate::client::metrics::MetricsSource>| {
        client.lose(name.as_ref(), reason)
    };
    clients_of_process().into_iter().map(lose).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Client;
    use crate::blocking::wait;

    fn client(nodes: &[String]) -> Client {
        Client::new(nodes).unwrap()
    }

    #[test]
    fn each_test_has_nodes_of_its_own() {
        let (first, second) = (client(&nodes(3)), client(&nodes(3)));
        let one = wait(first.lock("testing-own").acquire()).unwrap();
        let two = wait(second.lock("testing-own").acquire()).unwrap();
        assert!(one.is_held() && two.is_held());
    }

    #[test]
    fn a_lock_is_lost_at_once_and_free() {
        let nodes = nodes(3);
        let (ours, others) = (client(&nodes), client(&nodes));
        let lease = wait(ours.lock("testing-lost").acquire()).unwrap();
        let bystander = wait(ours.lock("testing-other").acquire()).unwrap();
        assert_eq!(lose("testing-lost", LossReason::Refused), 1);
        assert_eq!(wait(lease.lost()), LossReason::Refused);
        assert!(!lease.is_held() && bystander.is_held());
        let next = others.lock("testing-lost").wait(Duration::from_secs(5));
        assert!(wait(next.acquire()).unwrap().is_held());
        assert_eq!(lose("testing-nobody", LossReason::Expired), 0);
    }

    #[test]
    fn names_are_told_apart_as_locks_do() {
        let nodes = nodes(1);
        let client = client(&nodes);
        let tagged = wait(client.lock("{testing-tag}").acquire()).unwrap();
        let raw = wait(client.lock("testing-raw").raw(true).acquire()).unwrap();
        // `{x}` and `x` are one name.
        assert_eq!(lose("testing-tag", LossReason::Expired), 1);
        assert_eq!(lose("testing-raw", LossReason::Expired), 1);
        assert!(!tagged.is_held() && !raw.is_held());
    }

    #[test]
    fn the_slots_of_a_semaphore_are_lost_and_free() {
        let nodes = nodes(1);
        let (ours, others) = (client(&nodes), client(&nodes));
        let slot = |client: &Client| {
            let slots = client.semaphore("testing-slots", 2);
            wait(slots.wait(Duration::from_secs(5)).acquire()).unwrap()
        };
        let lost = [slot(&ours), slot(&ours)];
        let bystander = wait(ours.semaphore("testing-slot", 2).acquire()).unwrap();
        assert_eq!(lose("testing-slots", LossReason::Expired), 2);
        assert!(lost.iter().all(|lease| !lease.is_held()) && bystander.is_held());
        let next = [slot(&others), slot(&others)];
        assert!(next.iter().all(|lease| lease.is_held()));
    }
}
