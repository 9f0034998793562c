//! How sets are founded, and what keeps two of them apart, on real servers.

use std::time::Duration;

use quorlock::{Client, ClientBuilder, Error, ErrorKind, Lease, RestartGuard, blocking};
use quorlock_tests::queue::until;
use quorlock_tests::{Stage, escaped};

/// Long enough for servers that stand still for a moment, and short enough to
/// wait for.
const MAX_TTL: Duration = Duration::from_millis(1_500);

fn client(nodes: &[String]) -> ClientBuilder {
    Client::builder()
        .nodes(nodes)
        .max_ttl(MAX_TTL)
        .ttl(MAX_TTL)
        .fence_ttl(Duration::from_secs(600))
        .restart_guard(RestartGuard::On)
}

fn attempt(client: &Client, wait: Duration) -> Result<Lease, Error> {
    blocking::wait(client.lock("a").wait(wait).acquire())
}

#[track_caller]
fn hold(client: &Client) -> Lease {
    attempt(client, Duration::from_secs(30)).unwrap()
}

fn record() -> String {
    escaped("lock:#node")
}

/// Founds the set of these nodes, and waits until it votes.
fn founded(nodes: &[String]) -> Client {
    let client = client(nodes).build().unwrap();
    blocking::wait(hold(&client).release()).unwrap();
    client
}

/// Asserts that the client is refused for a node of another set, and that it has
/// written nothing to these nodes.
fn assert_refused(client: &Client, stage: &Stage, untouched: &[usize]) {
    let error = attempt(client, Duration::from_secs(10)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    let text = error.to_string();
    assert!(text.contains("explain sets"), "{text}");
    for node in untouched {
        stage.tell(&format!("expect {node} 0 DBSIZE"));
    }
}

#[test]
fn a_set_that_grows_is_refused() {
    let stage = Stage::like(3, &["new"]);
    let old = founded(&stage.nodes[..1]);
    let lease = hold(&old);
    let new = client(&stage.nodes).build().unwrap();
    for _ in 0..3 {
        assert_refused(&new, &stage, &[2, 3]);
    }
    assert!(lease.is_held());
    // As the how-to says: without clients, without records, a new set.
    blocking::wait(old.close());
    stage.tell(&format!("redis 1 DEL {}", record()));
    // Without a restart of the client, once its pause for each node is over. Another
    // error in between tells nothing: the nodes may be asked again one after the other.
    until("asked again", || match attempt(&new, MAX_TTL) {
        Ok(lease) => blocking::wait(lease.release()).unwrap(),
        Err(_) => false,
    });
    for node in 1..=3 {
        let told = stage.tell(&format!("redis {node} GET {}", record()));
        assert!(
            told.contains("1 default 1 3 1500 ") && told.contains(" on"),
            "{told}"
        );
    }
    assert_refused(&client(&stage.nodes[..1]).build().unwrap(), &stage, &[]);
}

#[test]
fn a_set_that_grows_while_its_node_is_away_is_not_founded() {
    let stage = Stage::like(3, &["new"]);
    drop(founded(&stage.nodes[..1]));
    for silent in ["kill", "stop"] {
        stage.tell(&format!("{silent} 1"));
        let new = client(&stage.nodes).build().unwrap();
        let error = attempt(&new, Duration::from_millis(1_200)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::QuorumUnavailable, "{error}");
        let missing = stage.nodes[0].trim_start_matches("redis://");
        let said = error.nodes().iter().map(|node| node.message());
        let told = said.filter(|said| said.contains("founded once") && said.contains(missing));
        assert_eq!(told.count(), 2, "{error}");
        for node in [2, 3] {
            stage.tell(&format!("expect {node} 0 DBSIZE"));
        }
        stage.tell(match silent {
            "kill" => "start 1",
            _ => "cont 1",
        });
        blocking::wait(new.close());
    }
}

#[test]
fn a_foreign_node_alone_gives_no_vote_once_a_quorum_is_known() {
    let stage = Stage::like(3, &["new"]);
    let standing = founded(&stage.nodes);
    // A stray client of one node meets a server that has lost its record.
    stage.tell(&format!("redis 3 DEL {}", record()));
    let stray = client(&stage.nodes[2..]).build().unwrap();
    drop(hold(&stray));
    // Its vote is void: the record is read behind it.
    assert!(blocking::wait(hold(&standing).release()).unwrap());
    stage.tell("await 3 0 5000 EXISTS lock:{a}");
    for client in [&standing, &client(&stage.nodes).build().unwrap()] {
        let lease = hold(client);
        blocking::wait(lease.extend(None)).unwrap();
        stage.tell("expect 3 0 EXISTS lock:{a}");
        assert!(blocking::wait(lease.release()).unwrap());
    }
    blocking::wait(stray.close());
    stage.tell(&format!("redis 3 DEL {}", record()));
    let lease = hold(&standing);
    // Given its record again, and a vote after the quarantine.
    stage.tell("await 3 1 10000 EXISTS lock:{a}");
    drop(lease);
}

#[test]
fn another_max_ttl_is_refused_in_whatever_run() {
    let stage = Stage::like(3, &["new"]);
    drop(founded(&stage.nodes));
    let stored = |node| stage.tell(&format!("redis {node} GET {}", record()));
    let before: Vec<String> = (1..=3).map(stored).collect();
    for (number, before) in (1..).zip(&before) {
        // A restart with the record, and without what came after it.
        stage.tell(&format!("kill {number}"));
        stage.tell(&format!("start {number}"));
        stage.tell(&format!(
            "redis {number} SET {} {}",
            record(),
            escaped(before)
        ));
    }
    let short = Duration::from_millis(500);
    let other = client(&stage.nodes)
        .max_ttl(short)
        .ttl(short)
        .build()
        .unwrap();
    assert_refused(&other, &stage, &[]);
    for (node, before) in (1..).zip(&before) {
        assert_eq!(
            &stage.tell(&format!("redis {node} GET {}", record())),
            before
        );
    }
}

#[test]
fn a_guard_is_raised_with_a_quarantine_and_never_lowered() {
    let stage = Stage::like(3, &["new"]);
    let off = client(&stage.nodes).restart_guard(RestartGuard::Off);
    let off = off.build().unwrap();
    blocking::wait(hold(&off).release()).unwrap();
    let on = client(&stage.nodes).build().unwrap();
    let error = attempt(&on, Duration::ZERO).unwrap_err();
    assert!(error.to_string().contains("quarantine"), "{error}");
    blocking::wait(hold(&on).release()).unwrap();
    let again = client(&stage.nodes).restart_guard(RestartGuard::Off);
    assert_refused(&again.build().unwrap(), &stage, &[]);
}

/// Servers that have run for longer than any vote lives.
fn old_enough(stage: &Stage) {
    let told = |node| stage.tell(&format!("redis {node} INFO server"));
    let uptime = |node| {
        let info = told(node);
        let words = info.split("uptime_in_seconds:").nth(1).expect("uptime");
        let digits: String = words.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().expect("seconds")
    };
    until("old enough", || {
        (1..=stage.nodes.len()).all(|node| uptime(node) >= 6)
    });
}

#[test]
fn a_wholly_new_set_votes_at_once_unless_the_guard_was_asked_for() {
    let stage = Stage::like(3, &["new"]);
    // A quarantine would outlast the wait by far, on a slow machine too.
    let max_ttl = 2 * MAX_TTL;
    let asked = || client(&stage.nodes).max_ttl(max_ttl).build().unwrap();
    let auto = || {
        let client = client(&stage.nodes).max_ttl(max_ttl);
        client.restart_guard(RestartGuard::Auto).build().unwrap()
    };
    let quarantines = || {
        let count = |node| stage.tell(&format!("redis {node} EXISTS lock:#quarantine"));
        (1..=3).filter(|node| count(*node).contains('1')).count()
    };
    old_enough(&stage);
    let lease = attempt(&auto(), max_ttl * 4 / 5).unwrap();
    assert_eq!(quarantines(), 0);
    drop(lease);
    // A server that stored something may have lost it.
    for number in 1..=3 {
        stage.tell(&format!("redis {number} FLUSHALL"));
    }
    assert!(attempt(&auto(), Duration::ZERO).is_err());
    assert_eq!(quarantines(), 3);
    for number in 1..=3 {
        stage.tell(&format!("kill {number}"));
        stage.tell(&format!("start {number}"));
    }
    old_enough(&stage);
    assert!(attempt(&asked(), Duration::ZERO).is_err());
    assert_eq!(quarantines(), 3);
}

#[test]
fn init_lifts_no_quarantine_but_by_force() {
    let stage = Stage::like(3, &["new"]);
    // As servers are that have lost everything.
    for number in 1..=3 {
        stage.tell(&format!("redis {number} FLUSHALL"));
    }
    // The deploy script that always declares.
    let max_ttl = Duration::from_secs(20);
    let deploy = client(&stage.nodes).max_ttl(max_ttl).build().unwrap();
    let left = blocking::wait(deploy.init_set()).unwrap();
    assert!(left > max_ttl / 2, "{left:?}");
    let again = blocking::wait(deploy.init_set()).unwrap();
    assert!(Duration::ZERO < again && again <= left, "{again:?}");
    assert!(attempt(&deploy, Duration::ZERO).is_err());
    assert_eq!(
        blocking::wait(deploy.init_set_forced()).unwrap(),
        Duration::ZERO
    );
    drop(hold(&deploy));
}

#[test]
fn init_waits_for_servers_that_are_too_young() {
    let stage = Stage::like(3, &["new"]);
    let young = client(&stage.nodes)
        .restart_guard(RestartGuard::Auto)
        .build()
        .unwrap();
    assert_eq!(blocking::wait(young.init_set()).unwrap(), Duration::ZERO);
    drop(hold(&young));
}

/// A server boots with its clock behind, and the clock is set right: the
/// quarantine that this ends begins again.
#[test]
fn a_clock_that_steps_after_boot_ends_no_quarantine() {
    let stage = Stage::like(3, &["new", "clocks"]);
    let client = founded(&stage.nodes);
    let lease = hold(&client);
    stage.set_clock(1, -3_600);
    stage.tell("kill 1");
    stage.tell("start 1");
    stage.tell("await 1 1 10000 EXISTS lock:#quarantine");
    stage.set_clock(1, 0);
    // The renewals of the lease find it.
    stage.tell("await 1 1 10000 EXISTS lock:#quarantine");
    assert!(lease.is_held());
}

/// A set is founded by all its nodes, so one that is set up wrong keeps it from that: no wait helps, and the error says what to
/// mend.
#[test]
fn a_set_that_cannot_be_founded_is_told_at_once() {
    let stage = Stage::like(3, &["new"]);
    let forever =
        |nodes: &[String]| attempt(&client(nodes).build().unwrap(), Duration::from_secs(3600));
    let mut twice = stage.nodes.clone();
    twice[1] = twice[0].replace("127.0.0.1", "localhost");
    let error = forever(&twice).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("the same server"), "{error}");
    stage.tell("redis 2 CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru");
    let error = forever(&stage.nodes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("allkeys-lru"), "{error}");
    // Mended, it is won by the same client's next try, as by any.
    stage.tell("redis 2 CONFIG SET maxmemory-policy noeviction");
    let _ = forever(&stage.nodes).unwrap();
    // Of a set that stands a quorum is enough.
    stage.tell("redis 2 CONFIG SET maxmemory-policy allkeys-lru");
    let _ = forever(&stage.nodes).unwrap();
}
