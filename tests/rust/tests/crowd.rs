//! Many waiters: what they send and what memory they take while they wait, and
//! that nothing of them is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quorlock::{Client, ErrorKind, Stats};
use quorlock_tests::queue::{PATIENCE, connected, hold, since, until};
use quorlock_tests::{Stage, monotonic, nap, resident_kib};
use tokio::task::JoinHandle;

/// For the memory of the process is looked at.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Memory for one waiter, in bytes, all that runs for it included.
const MEMORY: u64 = 4 * 1024;

/// A number over all clients.
fn sum(clients: &[Client], number: impl Fn(&Stats) -> u64) -> u64 {
    clients.iter().map(|client| number(&client.stats())).sum()
}

/// Polls in a second, at most, of so many that queue for one lock: the first
/// two ask every 400 ms, the others every 1.6 s.
fn most_polls(queued: u64) -> f64 {
    let near = queued.min(2);
    near as f64 / 0.4 + (queued - near) as f64 / 1.6
}

/// What a number of waiters cost: so many locks, and so many waiters for each.
struct Cost {
    waiters: u64,
    queued: u64,
    locks: u64,
    memory_before: u64,
}

impl Cost {
    /// Watches them for a while.
    fn watch(&self, stage: &Stage) {
        let memory = resident_kib().saturating_sub(self.memory_before) * 1024 / self.waiters;
        stage.tell("reset-counters");
        let begun = monotonic();
        nap(Duration::from_secs(4));
        let scripts = stage.calls("evalsha");
        let each_second = scripts as f64 / since(begun).as_secs_f64();
        let most = self.locks as f64 * most_polls(self.queued);
        println!(
            "{} locks, {} waiters, {} nodes: {each_second:.0} scripts a second (at most {most:.0}), \
             {memory} bytes a waiter",
            self.locks,
            self.waiters,
            stage.nodes.len(),
        );
        assert!(
            each_second > 0.0 && each_second <= 1.1 * most,
            "{each_second}"
        );
        assert_eq!(stage.calls("publish"), 0);
        assert!(memory <= MEMORY, "{memory}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_waiters_on_one_lock() {
    const CLIENTS: u64 = 200;
    const EACH: u64 = 5;
    let _alone = ALONE.lock().await;
    let stage = Stage::new(3);
    let clients: Vec<Client> = (0..CLIENTS).map(|_| connected(&stage.nodes)).collect();
    let holder = connected(&stage.nodes);
    let lease = hold(&holder);
    let memory_before = resident_kib();
    let inside = Arc::<AtomicUsize>::default();
    let waits = |client: &Client| -> JoinHandle<()> {
        let (lock, inside) = (client.lock("k").wait(None), inside.clone());
        tokio::spawn(async move {
            let lease = lock.acquire().await.unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            inside.fetch_sub(1, Ordering::SeqCst);
            assert!(lease.release().await.unwrap());
        })
    };
    let each = clients.iter().cycle().take((CLIENTS * EACH) as usize);
    let tasks: Vec<_> = each.map(waits).collect();
    until("all wait", || {
        let queued = sum(&clients, |stats| stats.queued);
        queued == CLIENTS && sum(&clients, |stats| stats.waiting) == CLIENTS * (EACH - 1)
    });
    until("undone", || sum(&clients, |s| s.releases_pending) == 0);
    Cost {
        waiters: CLIENTS * EACH,
        queued: CLIENTS,
        locks: 1,
        memory_before,
    }
    .watch(&stage);

    stage.tell("reset-counters");
    let begun = monotonic();
    lease.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    println!(
        "all served in {:?}, {} scripts",
        since(begun),
        stage.calls("evalsha")
    );
    stage.await_nothing_left();
    assert_eq!(sum(&clients, |stats| stats.queued + stats.waiting), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_locks_with_fifty_waiters_each() {
    const LOCKS: u64 = 100;
    const CLIENTS: u64 = 50;
    let _alone = ALONE.lock().await;
    let stage = Stage::new(1);
    let clients: Vec<Client> = (0..CLIENTS).map(|_| connected(&stage.nodes)).collect();
    let holder = connected(&stage.nodes);
    let long = Duration::from_secs(60);
    let mut leases = Vec::new();
    for lock in 0..LOCKS {
        let lock = holder.lock(format!("k{lock}")).ttl(long);
        leases.push(lock.acquire().await.unwrap());
    }
    let memory_before = resident_kib();
    let mut tasks = Vec::new();
    for lock in 0..LOCKS {
        for client in &clients {
            let lock = client.lock(format!("k{lock}")).wait(None);
            tasks.push(tokio::spawn(
                async move { lock.acquire().await.map(|_| ()) },
            ));
        }
        let queued = (lock + 1) * CLIENTS * 9 / 10;
        until("queued", || sum(&clients, |stats| stats.queued) >= queued);
    }
    let waiters = LOCKS * CLIENTS;
    // One that asks at this moment is not counted.
    until("all wait", || {
        sum(&clients, |s| s.queued) >= waiters * 99 / 100
    });
    until("undone", || sum(&clients, |s| s.releases_pending) == 0);
    Cost {
        waiters,
        queued: CLIENTS,
        locks: LOCKS,
        memory_before,
    }
    .watch(&stage);
    // Half are cancelled, one lock after the other is served to the rest.
    for task in tasks.iter().step_by(2) {
        task.abort();
    }
    for lease in leases {
        assert!(lease.release().await.unwrap());
    }
    for (i, task) in tasks.into_iter().enumerate() {
        let ended = task.await;
        if i % 2 == 1 {
            ended.unwrap().unwrap();
        }
    }
    stage.await_nothing_left();
    assert_eq!(sum(&clients, |stats| stats.queued + stats.waiting), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_max_waiters_are_refused_at_once() {
    let stage = Stage::new(3);
    let [holder, client] = [0; 2].map(|_| connected(&stage.nodes));
    let lease = hold(&holder);
    let lock = client.lock("k").max_waiters(2).wait(PATIENCE);
    let take = |lock: quorlock::Lock| async move { lock.acquire().await?.release().await };
    let tasks = [0; 3].map(|_| tokio::spawn(take(lock.clone())));
    until("queued", || {
        client.stats().queued == 1 && client.stats().waiting == 2
    });
    until("undone", || client.stats().releases_pending == 0);
    stage.tell("reset-counters");
    let begun = monotonic();
    for _ in 0..1_000 {
        let refused = lock.acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooManyWaiters);
    }
    let polls = since(begun).as_millis() as u64 / 400 + 1;
    assert!(stage.calls("evalsha") <= polls);
    assert!(lease.release().await.unwrap());
    for task in tasks {
        assert!(task.await.unwrap().unwrap());
    }
    stage.await_nothing_left();
}
