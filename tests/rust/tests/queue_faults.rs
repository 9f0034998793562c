//! What waiters do who die or hang, and what becomes of the others when nobody
//! can be called.

use std::time::Duration;

use quorlock_tests::muted::Muted;
use quorlock_tests::queue::{Process, connect, connected, hold, queue, release, since, until};
use quorlock_tests::{Stage, documented_permissions, monotonic};

const WAITER: &str = env!("CARGO_BIN_EXE_waiter");

#[test]
fn a_killed_waiter_is_skipped_by_the_script_that_finds_it() {
    for nodes in [1, 3] {
        let stage = Stage::new(nodes);
        let holder = connected(&stage.nodes);
        let lease = hold(&holder);
        let mut dead = [0; 2].map(|_| Process::queue(WAITER, &stage));
        let next = Process::queue(WAITER, &stage);
        let home = stage.home();
        let waiters = stage.tell(&format!("redis {home} ZRANGE lock:#q:{{k}} 0 -1"));
        let its = waiters.split_whitespace().last().unwrap();
        // The next is kept from asking, so that what is seen is that script's.
        next.stop();
        dead.iter_mut().for_each(Process::kill);
        until("dead", || stage.listening(home) == 2);
        stage.tell("reset-counters");
        release(lease);
        // The lean release of each node, and at the home the one that finds it crowded.
        let scripts = nodes + 1;
        stage.tell(&format!("expect-calls evalsha {scripts} {scripts} 5000"));
        assert_eq!(stage.calls("publish"), 3);
        assert_eq!(stage.queued()[home - 1], 0);
        stage.tell(&format!("expect {home} ends:{its} GET lock:{{k}}"));
        next.go_on();
        next.held();
        stage.await_nothing_left();
    }
}

#[test]
fn a_stopped_waiter_costs_one_reservation() {
    for nodes in [1, 3] {
        let stage = Stage::new(nodes);
        let clients = [0; 2].map(|_| connected(&stage.nodes));
        let [holder, next] = &clients;
        let lease = hold(holder);
        let stopped = Process::queue(WAITER, &stage);
        let waits = queue(next);
        stopped.stop();
        stage.tell("reset-counters");
        let begun = monotonic();
        release(lease);
        waits.join().unwrap();
        stage.tell("await-free lock:{k} 5000");
        // The stopped one was called in vain. The next asked, in vain too at
        // first, but then when the reservation was over.
        assert_eq!(stage.calls("publish"), 1);
        let (scripts, n, time) = (stage.calls("evalsha"), nodes as u64, since(begun));
        println!("N = {nodes}: {scripts} scripts in {time:?}");
        // Over a slow network, which its timeout tells of, a reservation is long.
        let polls = time.as_millis() as u64 / 400;
        assert!(scripts <= 3 * n + 2 + polls, "{scripts}");
        stopped.go_on();
        stopped.held();
        stage.await_nothing_left();
    }
}

/// Four wait for a lock; once it is free all have it, one after the other.
fn all_are_served(stage: &Stage, urls: &[String]) {
    let holder = connected(urls);
    let lease = hold(&holder);
    let clients = [0; 4].map(|_| connected(urls));
    let waits: Vec<_> = clients.iter().map(queue).collect();
    let begun = monotonic();
    release(lease);
    for thread in waits {
        thread.join().unwrap();
    }
    let time = since(begun);
    println!("{} nodes: all served in {time:?}", urls.len());
    // At worst each is called and does not hear, and all that know of nothing
    // ask every two seconds.
    assert!(time < Duration::from_secs(15), "{time:?}");
    stage.await_nothing_left();
}

#[test]
fn without_any_message_all_are_served() {
    for nodes in [1, 3] {
        let stage = Stage::new(nodes);
        let proxies: Vec<_> = stage.nodes.iter().map(|url| Muted::new(url)).collect();
        let urls: Vec<_> = proxies.iter().map(|proxy| proxy.url.clone()).collect();
        all_are_served(&stage, &urls);
        assert!(proxies.iter().any(|proxy| proxy.dropped() > 0));
    }
}

#[test]
fn without_resp3_all_are_served() {
    for nodes in [1, 3] {
        let stage = Stage::like(nodes, &["resp2"]);
        all_are_served(&stage, &stage.nodes);
    }
}

#[test]
fn without_permission_to_publish_all_are_served() {
    let stage = Stage::like(3, &["auth"]);
    let line = documented_permissions();
    let words = line.iter().map(String::as_str);
    stage.permit(words.filter(|word| *word != "+publish"));
    all_are_served(&stage, &stage.nodes);
}

#[test]
fn a_waiter_whose_connection_breaks_is_called_all_the_same() {
    let stage = Stage::new(1);
    let clients = [0; 2].map(|_| connected(&stage.nodes));
    let lease = hold(&clients[0]);
    let waits = queue(&clients[1]);
    stage.tell("redis 1 CLIENT KILL TYPE pubsub");
    // The waiter connects again by itself, and the holder with its next request.
    connect(&clients[0]);
    until("again", || stage.listening(1) == 2);
    stage.tell("reset-counters");
    release(lease);
    waits.join().unwrap();
    assert_eq!(stage.calls("publish"), 1);
    stage.await_nothing_left();
}
