//! A crowd in one process: the line, and leases that are passed on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use quorlock::{Client, Holder, NodeView, blocking};
use quorlock_tests::Stage;
use quorlock_tests::queue::until;

const CROWD: usize = 32;
const EACH: usize = 40;

/// Everyone takes the lock, looks that nobody else is there, and that the
/// fence has grown, and gives it back; as often as all others.
fn contend(client: &Client) {
    let inside = Arc::new(AtomicUsize::new(0));
    let last = Arc::new(AtomicU64::new(0));
    let crowd: Vec<_> = (0..CROWD)
        .map(|_| {
            let lock = client.lock("crowd").wait(None);
            let (inside, last) = (inside.clone(), last.clone());
            std::thread::spawn(move || {
                for _ in 0..EACH {
                    let lease = blocking::wait(lock.acquire()).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    let before = last.swap(lease.fence().unwrap(), Ordering::SeqCst);
                    assert!(lease.fence() > Some(before), "{lease:?} after {before}");
                    inside.fetch_sub(1, Ordering::SeqCst);
                    assert!(blocking::wait(lease.release()).unwrap());
                    assert!(!lease.is_held() && lease.loss().is_none());
                }
            })
        })
        .collect();
    for one in crowd {
        one.join().unwrap();
    }
}

#[test]
fn a_crowd_in_one_process_asks_the_nodes_seldom() {
    for nodes in [1, 5] {
        let stage = Stage::new(nodes);
        let client = Client::new(&stage.nodes).unwrap();
        blocking::wait(
            blocking::wait(client.lock("crowd").acquire())
                .unwrap()
                .release(),
        )
        .unwrap();
        stage.tell("reset-counters");
        contend(&client);
        let stats = client.stats();
        let holds = (CROWD * EACH) as u64;
        assert_eq!(stats.acquired, holds + 1);
        // Nobody stands in anybody's way; a machine that stands still may cost
        // an attempt.
        assert!(stats.attempts_lost <= holds / 100, "{stats:?}");
        assert_eq!(stats.waiting, 0);
        // A token serves 17 leases in a row, where as many wait.
        assert!(stats.passed_on >= holds * 3 / 4, "{stats:?}");
        let attempts = holds - stats.passed_on + stats.attempts_lost;
        let most = nodes as u64 * 2 * attempts + stats.write_backs + stats.renewals;
        stage.tell(&format!("expect-calls evalsha 1 {most} 5000"));
        stage.tell("await-free lock:{crowd} 5000");
        blocking::wait(client.close());
    }
}

#[test]
fn a_lease_that_was_passed_on_is_over_for_who_released_it() {
    let stage = Stage::new(3);
    let client = Client::builder()
        .nodes(&stage.nodes)
        // Longer than a machine stands still.
        .ttl(Duration::from_secs(2))
        .build()
        .unwrap();
    let lock = client.lock("k").wait(None);
    // Taken by one for whom others wait already, so that it has fences to
    // pass on.
    let first = blocking::wait(lock.acquire()).unwrap();
    let next = std::thread::spawn({
        let lock = lock.clone();
        move || blocking::wait(lock.acquire()).unwrap()
    });
    let after = std::thread::spawn({
        let lock = lock.clone();
        move || blocking::wait(lock.acquire()).unwrap()
    });
    while client.stats().waiting < 2 {
        std::thread::yield_now();
    }
    blocking::wait(first.release()).unwrap();
    // Either may have come first.
    while !next.is_finished() && !after.is_finished() {
        std::thread::yield_now();
    }
    let (second, last) = if next.is_finished() {
        (next.join().unwrap(), after)
    } else {
        (after.join().unwrap(), next)
    };
    assert!(blocking::wait(second.release()).unwrap());
    let third = last.join().unwrap();
    assert_eq!(client.stats().passed_on, 1);
    assert_eq!(second.token(), third.token());
    assert!(third.fence() > second.fence() && second.fence() > first.fence());
    // It can do no harm any more.
    assert!(!second.is_held() && third.is_held());
    assert!(!blocking::wait(second.release()).unwrap());
    assert!(blocking::wait(second.extend(None)).is_err());
    assert!(third.is_held());
    // And what comes of the third is none of its business.
    stage.tell("kill 1");
    stage.tell("kill 2");
    blocking::wait(third.lost());
    assert!(third.loss().is_some() && second.loss().is_none());
}

/// Labels are no reason to go over the nodes; each node has the present lease's soon.
#[test]
fn a_lease_is_passed_on_to_another_label_and_the_nodes_hear_of_it() {
    let stage = Stage::new(3);
    let builder = Client::builder().nodes(&stage.nodes);
    let client = builder.label("client's").build().unwrap();
    let watch = Client::new(&stage.nodes).unwrap();
    let shown = |label: &str| {
        until(label, || {
            let seen = blocking::wait(watch.lock("k").inspect()).unwrap();
            let shows = |view: &NodeView| view.label() == Some(label);
            seen.nodes().iter().all(shows) && seen.holder().and_then(Holder::label) == Some(label)
        });
    };
    // More than half of the ttl is left, on a machine that stands still too.
    let lock = client.lock("k").wait(None).ttl(Duration::from_secs(60));
    // It takes fences for those that wait behind it.
    let blocker = blocking::wait(lock.acquire()).unwrap();
    let acquire = |label: &str, waiting: u64| {
        let lock = lock.clone().label(label);
        let acquired = std::thread::spawn(move || blocking::wait(lock.acquire()).unwrap());
        until("it waits", || client.stats().waiting == waiting);
        acquired
    };
    let (first, second) = (acquire("first", 1), acquire("second", 2));
    shown("client's");
    blocking::wait(blocker.release()).unwrap();
    let first = first.join().unwrap();
    shown("first");
    assert!(blocking::wait(first.release()).unwrap());
    let second = second.join().unwrap();
    assert_eq!(client.stats().passed_on, 1);
    assert_eq!(first.token(), second.token());
    shown("second");
    blocking::wait(second.extend(None)).unwrap();
    assert!(blocking::wait(second.release()).unwrap());
    stage.tell("await-free lock:{k} 5000");
}

#[test]
fn what_was_passed_on_to_another_label_goes_on_in_another_client_and_is_forced_out() {
    let stage = Stage::new(3);
    let client = Client::new(&stage.nodes).unwrap();
    let other = Client::builder()
        .nodes(&stage.nodes)
        .label("other")
        .build()
        .unwrap();
    let passed_on = |name: &str| {
        let lock = client.lock(name).wait(None).ttl(Duration::from_secs(60));
        let blocker = blocking::wait(lock.acquire()).unwrap();
        let waiting = ["one", "two"].map(|label| {
            let lock = lock.clone().label(label);
            std::thread::spawn(move || blocking::wait(lock.acquire()).unwrap())
        });
        until("both wait", || client.stats().waiting == 2);
        blocking::wait(blocker.release()).unwrap();
        until("one has it", || waiting.iter().any(|one| one.is_finished()));
        let [one, two] = waiting;
        let (first, last) = if one.is_finished() {
            (one, two)
        } else {
            (two, one)
        };
        assert!(blocking::wait(first.join().unwrap().release()).unwrap());
        last.join().unwrap()
    };
    let text = blocking::wait(passed_on("a").export()).unwrap();
    let adopted = blocking::wait(other.adopt(&text)).unwrap();
    assert!(blocking::wait(adopted.extend(None)).is_ok());
    assert!(blocking::wait(adopted.release()).unwrap());
    stage.tell("await-free lock:{a} 5000");

    let lease = passed_on("b");
    let forced = blocking::wait(other.lock("b").force_release(None)).unwrap();
    assert!(forced.holder().is_some(), "{forced:?}");
    until("its holder hears of it", || !lease.is_held());
    stage.tell("await-free lock:{b} 5000");
}

#[test]
fn a_crowd_in_one_client_leaves_the_lock_to_others_too() {
    const TIMES: usize = 5;
    let stage = Stage::new(3);
    let crowd = Client::new(&stage.nodes).unwrap();
    let over = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (lock, over) = (crowd.lock("k").wait(None), over.clone());
            std::thread::spawn(move || {
                while over.load(Ordering::SeqCst) == 0 {
                    let lease = blocking::wait(lock.acquire()).unwrap();
                    quorlock_tests::nap(Duration::from_millis(1));
                    blocking::wait(lease.release()).unwrap();
                }
            })
        })
        .collect();
    let other = Client::new(&stage.nodes).unwrap();
    let lock = other.lock("k").wait(Duration::from_secs(30));
    for _ in 0..TIMES {
        let lease = blocking::wait(lock.acquire()).unwrap();
        blocking::wait(lease.release()).unwrap();
    }
    over.store(1, Ordering::SeqCst);
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(crowd.stats().passed_on > 0);
}
