//! Which nodes may vote, where a scenario cannot say it.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use quorlock::{Client, ErrorKind, LossReason, blocking};
use quorlock_tests::queue::until;
use quorlock_tests::relay::Relay;
use quorlock_tests::{Stage, documented_permissions, escaped};

#[test]
fn one_server_behind_two_urls_is_refused() {
    // Undeclared: a record that says one node would be the first thing told.
    let stage = Stage::like(1, &["new"]);
    let same = stage.nodes[0].replace("127.0.0.1", "localhost");
    let client = Client::new([stage.nodes[0].clone(), same]).unwrap();
    let lock = client.lock("a").wait(None);
    let error = blocking::wait(lock.acquire()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("same server as"), "{error}");
}

#[test]
fn releases_that_wait_for_a_dead_node_are_bounded() {
    let stage = Stage::new(1);
    let client = Client::builder()
        .nodes(&stage.nodes)
        .renew(false)
        .ttl(Duration::from_secs(60))
        .build()
        .unwrap();
    let leases: Vec<_> = (0..10_100)
        .map(|i| blocking::wait(client.lock(format!("{i}")).acquire()).unwrap())
        .collect();
    stage.tell("kill 1");
    drop(leases);
    let dropped = || client.stats().releases_dropped;
    for _ in 0..500 {
        if dropped() >= 90 {
            break;
        }
        quorlock_tests::nap(Duration::from_millis(10));
    }
    assert!((90..=200).contains(&dropped()), "{}", dropped());
    blocking::wait(client.close());
}

/// In quarantine a vote that is gone is stored anew by the server that gave it
/// alone: another, behind the same address, stands beside the first.
#[test]
fn in_quarantine_a_vote_is_taken_back_from_its_own_server_alone() {
    for known in [true, false] {
        let stage = stage(known);
        let client = Client::new(&stage.nodes).unwrap();
        // No less, for on a machine that stands still the lease would end.
        let lock = client.lock("a").ttl(Duration::from_millis(2_000));
        let lease = blocking::wait(lock.acquire()).unwrap();
        stage.tell(&format!("await 1 1 5000 EXISTS {}", key()));
        stage.tell(&format!("redis 1 DEL {} {}", record(), key()));
        stage.tell(&format!("await 1 1 5000 EXISTS {}", record()));
        let before = client.stats().renewals;
        until("renewed", || client.stats().renewals >= before + 8);
        stage.tell(&format!("expect 1 1 EXISTS {}", quarantine()));
        stage.tell(&format!("expect 1 {} EXISTS {}", u8::from(known), key()));
        stage.tell(&format!("redis 1 DEL {}", quarantine()));
        stage.tell(&format!("await 1 1 5000 EXISTS {}", key()));
        assert!(lease.is_held());
        blocking::wait(lease.release()).unwrap();
        blocking::wait(client.close());
    }
}

/// A vote that is gone where nobody is given another counts until its end: who
/// holds the lock would hear later than the next has it.
#[test]
fn a_vote_lost_in_quarantine_does_not_end_the_lease_early() {
    let stage = stage(false);
    stage.tell("kill 3");
    let client = Client::new(&stage.nodes).unwrap();
    let lock = client.lock("a").ttl(Duration::from_millis(500));
    let lease = blocking::wait(lock.acquire()).unwrap();
    stage.tell(&format!("redis 1 DEL {} {}", record(), key()));
    assert_eq!(blocking::wait(lease.lost()), LossReason::Expired);
    stage.tell(&format!("expect 1 0 EXISTS {}", key()));
    blocking::wait(client.close());
}

/// Another server behind an address tells another time: no clock has stepped, and
/// what the first has voted for stands.
#[test]
fn the_clock_of_another_server_is_no_step() {
    let (stage, other) = (Stage::new(3), Stage::like(1, &["new", "clocks"]));
    other.set_clock(1, 3);
    let address = Relay::new(&stage.nodes[0]);
    let nodes = [&address.url, &stage.nodes[1], &stage.nodes[2]];
    let client = Client::new(nodes).unwrap();
    let lock = client.lock("a").ttl(Duration::from_millis(2_000));
    let lease = blocking::wait(lock.acquire()).unwrap();
    for leads_to in [&other.nodes[0], &stage.nodes[0]] {
        address.lead_to(leads_to);
        let before = client.stats().renewals;
        until("asked", || client.stats().renewals >= before + 4);
        assert_eq!(client.stats().clock_steps, 0);
    }
    let told = other.tell(&format!("redis 1 EXISTS {}", record()));
    assert_eq!(told.trim(), "1", "the other was never asked");
    assert!(lease.is_held());
    blocking::wait(lease.release()).unwrap();
    blocking::wait(client.close());
}

/// Three servers, which tell who they are or do not: then one that comes without
/// its record may be another.
fn stage(known: bool) -> Stage {
    let stage = Stage::like(3, &["auth"]);
    let line = documented_permissions();
    let words = line.iter().map(String::as_str);
    stage.permit(words.filter(|word| known || *word != "+client|info"));
    stage
}

fn key() -> String {
    escaped("lock:{a}")
}

fn record() -> String {
    escaped("lock:#node")
}

fn quarantine() -> String {
    escaped("lock:#quarantine")
}

/// A user of another namespace may do that, and so may any script whose errors begin with words
/// that differ.
#[test]
fn a_server_with_errors_of_many_first_words_is_a_node_to_new_clients() {
    let stage = Stage::new(1);
    let at = stage.nodes[0].strip_prefix("redis://").expect("TCP");
    let mut server = TcpStream::connect(at).expect("the node");
    let script = "return redis.error_reply(ARGV[1] .. ' is no error')";
    let words: Vec<String> = (0..2000).map(|n| format!("WORD{n:024}")).collect();
    for word in &words {
        let (script_len, len) = (script.len(), word.len());
        let eval = format!(
            "*4\r\n$4\r\nEVAL\r\n${script_len}\r\n{script}\r\n$1\r\n0\r\n${len}\r\n{word}\r\n"
        );
        server.write_all(eval.as_bytes()).expect("written");
    }
    let mut answers = BufReader::new(server).lines();
    for word in &words {
        let answer = answers.next().expect("an answer").expect("text");
        assert!(answer.starts_with(&format!("-{word}")), "{answer}");
    }
    let client = Client::new(&stage.nodes).unwrap();
    let lease = blocking::wait(client.lock("a").acquire()).unwrap();
    assert!(blocking::wait(lease.release()).unwrap());
    let probe = blocking::wait(client.probe()).unwrap();
    assert!(probe.nodes[0].votes, "{probe:?}");
}
