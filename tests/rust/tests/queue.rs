//! The queue of waiters between clients: what it costs, by the servers' own
//! counters, and its order.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use quorlock::{ErrorKind, blocking};
use quorlock_tests::queue::{
    PATIENCE, Process, connected, hold, patient, queue, release, since, until,
};
use quorlock_tests::{Stage, monotonic, nap};

/// The least time between two polls of the first two in a queue.
const NEAR: Duration = Duration::from_millis(400);

/// How many polls one of the first two may send within that time.
fn polls(time: Duration) -> u64 {
    (time.as_nanos() / NEAR.as_nanos()) as u64 + 1
}

#[test]
fn who_waits_sends_rare_polls_and_nothing_else() {
    for nodes in [1, 5] {
        let stage = Stage::new(nodes);
        let [holder, waiter] = [0; 2].map(|_| connected(&stage.nodes));
        let lease = hold(&holder);
        stage.tell("reset-counters");
        let begun = monotonic();
        let waits = queue(&waiter);
        until("undone", || waiter.stats().releases_pending == 0);
        // What all are asked by plain commands was refused and needs no undo, but where the
        // answer was not there yet when the home's was; then the home alone is asked by script.
        let (join, n) = (stage.calls("evalsha"), nodes as u64);
        let most = n + polls(since(begun));
        assert!((1..=most).contains(&join), "{join}");

        stage.tell("reset-counters");
        let begun = monotonic();
        nap(Duration::from_millis(1_200));
        let scripts = stage.calls("evalsha");
        let time = since(begun);
        println!("N = {nodes}: join {join} scripts, then {scripts} in {time:?}");
        assert!(
            (1..=polls(time)).contains(&scripts),
            "{scripts} in {time:?}"
        );
        // A poll changes nothing but the end of the place.
        for command in ["eval", "publish", "subscribe", "zrem", "del"] {
            assert_eq!(stage.calls(command), 0, "{command}");
        }

        stage.tell("reset-counters");
        let begun = monotonic();
        release(lease);
        waits.join().unwrap();
        // A release, a vote and a release, on each; and at the home, where the lean one
        // meets a crowd, another release.
        stage.tell("await-free lock:{k} 5000");
        let scripts = stage.calls("evalsha");
        assert!(scripts <= 3 * n + 1 + polls(since(begun)), "{scripts}");
        assert_eq!(stage.calls("publish"), 1);
        stage.await_nothing_left();
    }
}

#[test]
fn a_hand_off_between_clients_costs_so_many_scripts() {
    const EACH: u64 = 50;
    for nodes in [1, 3, 5] {
        let stage = Stage::new(nodes);
        let clients = [0; 3].map(|_| connected(&stage.nodes));
        stage.tell("reset-counters");
        let last = AtomicUsize::new(usize::MAX);
        let hand_offs = AtomicU64::new(0);
        let start = Barrier::new(clients.len());
        std::thread::scope(|scope| {
            for (i, client) in clients.iter().enumerate() {
                let (last, hand_offs, start) = (&last, &hand_offs, &start);
                scope.spawn(move || {
                    start.wait();
                    for _ in 0..EACH {
                        let lease = blocking::wait(client.lock("k").wait(PATIENCE).acquire());
                        if last.swap(i, Ordering::SeqCst) != i {
                            hand_offs.fetch_add(1, Ordering::SeqCst);
                        }
                        release(lease.unwrap());
                    }
                });
            }
        });
        stage.await_nothing_left();
        let (holds, scripts) = (3 * EACH, stage.calls("evalsha") + stage.calls("eval"));
        let each = scripts as f64 / holds as f64;
        let hand_offs = hand_offs.into_inner();
        println!("N = {nodes}: {each:.2} scripts a hold, {hand_offs} hand-offs in {holds} holds");
        // Whoever released goes behind the others; one whose threads come late, or that
        // is done first, leaves the others to themselves.
        assert!(hand_offs >= holds / 2, "{hand_offs}");
        assert!(each <= 2.0 * nodes as f64 + 2.0, "N = {nodes}: {each}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hand_offs_keep_the_order_of_those_that_still_wait() {
    for nodes in [1, 5] {
        let stage = Stage::new(nodes);
        let holder = connected(&stage.nodes);
        let lease = hold(&holder);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiters = Vec::new();
        let mut killed = None;
        for i in 0..8 {
            if i == 5 {
                killed = Some(Process::queue(env!("CARGO_BIN_EXE_waiter"), &stage));
                continue;
            }
            let client = connected(&stage.nodes);
            let (lock, order) = (client.lock("k").wait(PATIENCE), order.clone());
            let task = tokio::spawn(async move {
                let lease = lock.acquire().await?;
                order.lock().unwrap().push(i);
                lease.release().await.map(|_| ())
            });
            until("queued", || client.stats().queued == 1);
            waiters.push((i, client, task));
        }
        let home = stage.home();
        until("all wait", || stage.queued()[home - 1] == 8);
        until("all listen", || stage.listening(home) == 9);
        waiters[2].2.abort();
        until("cancelled", || stage.queued()[home - 1] == 7);
        waiters[4].1.close().await;
        until("closed", || stage.queued()[home - 1] == 6);
        killed.as_mut().unwrap().kill();
        until("dead", || stage.listening(home) == 7);

        stage.tell("reset-counters");
        assert!(lease.release().await.unwrap());
        for (i, _, task) in waiters {
            match (i, task.await) {
                (2, ended) => assert!(ended.unwrap_err().is_cancelled()),
                (4, ended) => assert_eq!(ended.unwrap().unwrap_err().kind(), ErrorKind::Closed),
                (_, ended) => ended.unwrap().unwrap(),
            }
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 3, 6, 7], "N = {nodes}");
        // Each was called once, and one that nobody heard.
        assert_eq!(stage.calls("publish"), 6);
        stage.await_nothing_left();
    }
}

#[test]
fn clients_that_have_just_started_queue_where_the_others_do() {
    // By chance they might even if they did not look.
    for _ in 0..3 {
        let stage = Stage::new(5);
        let holder = connected(&stage.nodes);
        let lease = hold(&holder);
        let known = [0; 3].map(|_| connected(&stage.nodes));
        let new = [0; 3].map(|_| patient(&stage.nodes));
        let waits: Vec<_> = known.iter().chain(&new).map(queue).collect();
        let home = stage.home();
        until("in one queue", || {
            let queued = stage.queued();
            queued[home - 1] == 6 && queued.iter().sum::<u64>() == 6
        });
        release(lease);
        for thread in waits {
            thread.join().unwrap();
        }
        stage.await_nothing_left();
    }
}

#[test]
fn a_lock_of_others_is_taken_when_they_are_done_with_it() {
    let stage = Stage::new(3);
    let clients = [0; 2].map(|_| connected(&stage.nodes));
    // They know no queue, so nobody is called.
    stage.tell("redis all SET lock:{k} theirs NX PX 60000");
    let waits: Vec<_> = clients.iter().map(queue).collect();
    stage.tell("redis all DEL lock:{k}");
    for thread in waits {
        thread.join().unwrap();
    }
    stage.await_nothing_left();
}

#[test]
fn a_lock_that_expires_is_asked_for_then() {
    let stage = Stage::new(1);
    let client = connected(&stage.nodes);
    // With two before it, it polls every two seconds: these are dead.
    for dead in ["1%20a", "2%20b"] {
        let ticket = &dead[..1];
        stage.tell(&format!(
            "redis 1 ZADD lock:#q:{{k}} {ticket} {dead} -9000000000000000 %21{dead}"
        ));
    }
    let now = stage.tell("redis 1 TIME");
    let (seconds, micros) = now.split_once(' ').unwrap();
    let now = seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap();
    let ends = now / 1_000 + 500;
    let theirs = "a".repeat(40);
    stage.tell(&format!(
        "redis 1 SET lock:{{k}} ={ends}000%20{theirs}. PX 60000"
    ));
    let lease = blocking::wait(client.lock("k").wait(PATIENCE).acquire()).unwrap();
    // The fence is the node's time when it was asked.
    let late = Duration::from_micros(lease.fence().unwrap().saturating_sub(ends * 1_000));
    release(lease);
    println!("{late:?} after the end");
    // Its next poll would come a second later at least.
    assert!(late < Duration::from_millis(900), "{late:?}");
    stage.await_nothing_left();
}
