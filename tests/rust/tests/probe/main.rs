//! What a probe finds: each finding of docs/operations/doctor.md, on real servers.

mod sets;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use quorlock::{
    Client, ClientBuilder, ErrorKind, Finding, Health, NodeReport, Probe, RestartGuard, Severity,
    blocking,
};
use quorlock_tests::queue::until;
use quorlock_tests::{Stage, documented_permissions, nap};

fn probe(builder: ClientBuilder) -> Probe {
    let client = builder.build().unwrap();
    let probe = blocking::wait(client.probe()).unwrap();
    blocking::wait(client.close());
    probe
}

fn of(nodes: &[String]) -> ClientBuilder {
    Client::builder().nodes(nodes)
}

fn ids(node: &NodeReport) -> Vec<&str> {
    node.findings.iter().map(|found| found.id).collect()
}

/// The one finding of a node, which costs it its vote.
fn sole<'a>(probe: &'a Probe, node: usize, id: &str) -> &'a Finding {
    let report = &probe.nodes[node];
    assert_eq!(ids(report), [id], "{report:?}");
    assert!(!report.votes, "{report:?}");
    let found = &report.findings[0];
    assert!(!found.what.is_empty() && !found.remedy.is_empty());
    found
}

/// An address that leads to a node, after a while, by what `change` makes of the answers.
fn between(node: &str, delay: Duration, change: fn(&mut [u8])) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    let to = node.strip_prefix("redis://").expect("TCP").to_owned();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(&to).expect("the node");
            let ways = [
                (client.try_clone(), server.try_clone(), false),
                (Ok(server), Ok(client), true),
            ];
            for (from, into, back) in ways {
                let (mut from, mut into) = (from.expect("cloned"), into.expect("cloned"));
                thread::spawn(move || {
                    let mut bytes = [0; 1 << 16];
                    while let Ok(length @ 1..) = from.read(&mut bytes) {
                        if back {
                            nap(delay);
                            change(&mut bytes[..length]);
                        }
                        if into.write_all(&bytes[..length]).is_err() {
                            return;
                        }
                    }
                });
            }
        }
    });
    url
}

#[test]
fn a_set_that_works_has_no_findings() {
    let stage = Stage::new(3);
    let probe = probe(of(&stage.nodes));
    assert_eq!(probe.health, Health::Works, "{probe:?}");
    assert_eq!((probe.votes, probe.quorum, probe.guard), (3, 2, true));
    assert_eq!(probe.set_name, "default");
    assert_eq!(probe.max_ttl, Duration::from_secs(60));
    assert_eq!(probe.all().count(), 0);
    for node in &probe.nodes {
        assert!(node.answers && node.votes, "{node:?}");
        assert_eq!((node.record, node.role), ("expected", Some("master")));
        assert!(matches!(node.server, Some("redis" | "valkey")), "{node:?}");
        assert!(node.version.is_some() && node.uptime.is_some());
        assert!(node.memory_used > Some(0) && node.memory_limit.is_none());
        assert!(node.release.is_some() && node.eviction.is_some());
        let (least, middle) = node.round_trip.unwrap();
        assert!(Duration::ZERO < least && least <= middle);
        let clock = node.clock.unwrap();
        // One machine, one clock.
        assert!(clock.micros.unsigned_abs() <= 2 * clock.error_micros + 10_000);
    }
    assert!(probe.to_string().contains("3 of 3 nodes vote"), "{probe}");
}

#[test]
fn nodes_that_do_not_answer_are_reported() {
    let stage = Stage::new(3);
    stage.tell("kill 1");
    stage.tell("stop 2");
    let brief = of(&stage.nodes).node_timeout(Duration::from_millis(50));
    let probe = probe(brief);
    stage.tell("cont 2");
    assert_eq!((probe.health, probe.votes), (Health::Cannot, 1));
    for node in [0, 1] {
        assert_eq!(sole(&probe, node, "QD01").severity, Severity::Error);
        assert_eq!(probe.nodes[node].record, "unknown");
        assert!(!probe.nodes[node].answers);
    }
    // The time to connect, and eight times that of a request.
    assert!(probe.nodes[1].findings[0].what.contains("2.4s"));
    assert_eq!(probe.nodes[2].record, "expected");
}

#[test]
fn passwords_and_permissions() {
    let stage = Stage::like(1, &["auth"]);
    let line = documented_permissions();
    let without = |word: &str| {
        stage.permit(
            line.iter()
                .map(String::as_str)
                .filter(|other| *other != word),
        );
    };
    without("");
    let (head, host) = stage.nodes[0].rsplit_once('@').unwrap();
    let password = head.rsplit_once(':').unwrap().1;
    let good = probe(of(&stage.nodes));
    assert_eq!(good.nodes[0].findings, [], "{good:?}");
    assert!(!format!("{good:?}").contains(password));
    for url in [
        format!("redis://quorlock:hunter2@{host}"),
        format!("redis://{host}"),
    ] {
        let probe = probe(of(&[url]));
        sole(&probe, 0, "QD02");
        assert!(!format!("{probe:?}").contains("hunter2"), "{probe:?}");
    }
    for word in ["+zadd", "+eval", "+get", "+time", "~lock:*"] {
        without(word);
        let probe = probe(of(&stage.nodes));
        let what = &sole(&probe, 0, "QD03").what;
        assert!(what.contains(&format!("`{word}`")), "{word}: {what}");
    }
    without("+info");
    let some = probe(of(&stage.nodes));
    assert_eq!(ids(&some.nodes[0]), ["QD03"], "{some:?}");
    assert!(some.nodes[0].votes && some.health == Health::WorksBut);
    without("+publish");
    let deaf = probe(of(&stage.nodes));
    assert_eq!(ids(&deaf.nodes[0]), ["QD14"], "{deaf:?}");
    assert!(deaf.nodes[0].votes && deaf.health == Health::WorksBut);
}

#[test]
fn servers_that_cannot_be_nodes() {
    let stage = Stage::new(2);
    let old = between(&stage.nodes[0], Duration::ZERO, |bytes| {
        let is_version = |at: &usize| bytes[*at..].starts_with(b"redis_version:");
        if let Some(at) = (0..bytes.len()).find(is_version) {
            bytes[at + 14..at + 18].copy_from_slice(b"5.0.");
        }
    });
    sole(&probe(of(&[old, stage.nodes[1].clone()])), 0, "QD04");
    let address = stage.nodes[0].replace("redis://", "").replace(':', " ");
    stage.tell(&format!("redis 2 REPLICAOF {address}"));
    let replica = probe(of(&stage.nodes));
    sole(&replica, 1, "QD06");
    assert_eq!(replica.nodes[1].role, Some("replica"));
    stage.tell("redis 2 REPLICAOF NO ONE");
    stage.tell("redis 1 CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru");
    let full = probe(of(&stage.nodes));
    assert_eq!(sole(&full, 0, "QD07").severity, Severity::Error);
    assert_eq!(full.nodes[0].memory_limit, Some(100 << 20));
    let accepted = probe(of(&stage.nodes).accept_eviction(true));
    let node = &accepted.nodes[0];
    assert_eq!((ids(node), node.votes), (vec!["QD07"], true));
    assert_eq!(node.findings[0].severity, Severity::Warning);
    let plain = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("rediss://{}", plain.local_addr().expect("bound"));
    thread::spawn(move || {
        for mut client in plain.incoming().flatten() {
            let _ = client.write_all(b"-ERR this is no TLS\r\n");
        }
    });
    let tls = probe(of(&[url]));
    sole(&tls, 0, "QD16");
    let clustered = Stage::like(1, &["cluster"]);
    sole(&probe(of(&clustered.nodes)), 0, "QD05");
}

/// A server that says this to a client and closes the connection.
fn closing(words: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.write_all(words.as_bytes());
        }
    });
    url
}

/// A server that answers well and gives no vote is found by what a lock does there, in its own
/// words, and its node is not counted.
#[test]
fn servers_that_give_no_vote_say_why() {
    let stage = Stage::new(3);
    let client = of(&stage.nodes).build().unwrap();
    let _held = blocking::wait(client.lock("a").acquire()).unwrap();
    // A connection from before: a server that is full takes no other.
    let mut operator = TcpStream::connect(stage.nodes[0].trim_start_matches("redis://")).unwrap();
    let mut tell = |words: &str| {
        operator
            .write_all(format!("{words}\r\n").as_bytes())
            .unwrap();
        let mut said = [0; 5];
        operator.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"+OK\r\n", "{words}");
    };
    for (begin, id, word, end) in [
        (
            "CONFIG SET maxmemory 1",
            "QD30",
            "OOM command not allowed",
            "CONFIG SET maxmemory 0",
        ),
        (
            "CONFIG SET min-replicas-to-write 1",
            "QD32",
            "NOREPLICAS Not enough good replicas",
            "CONFIG SET min-replicas-to-write 0",
        ),
        (
            "CONFIG SET maxclients 1",
            "QD34",
            "max number of clients",
            "CONFIG SET maxclients 10000",
        ),
    ] {
        tell(begin);
        let probe = probe(of(&stage.nodes));
        let found = sole(&probe, 0, id);
        assert!(found.what.contains(word), "{found:?}");
        let of_memory = found.what.ends_with("bytes, and its maxmemory is 1)");
        assert_eq!(of_memory, id == "QD30", "{found:?}");
        assert_eq!(found.severity, Severity::Error);
        assert_eq!((probe.votes, probe.health), (2, Health::WorksBut));
        tell(end);
    }
    let well = probe(of(&stage.nodes));
    assert_eq!((well.votes, well.health), (3, Health::Works), "{well:?}");
    for (words, id, word) in [
        (
            "-DENIED Redis is running in protected mode because protected mode is enabled\r\n",
            "QD35",
            "protected mode is enabled",
        ),
        (
            "-ERR max number of clients reached\r\n",
            "QD34",
            "max number of clients reached",
        ),
        (
            "-LOADING Redis is loading the dataset in memory\r\n",
            "QD36",
            "LOADING Redis is loading",
        ),
    ] {
        let nodes = [
            closing(words),
            stage.nodes[1].clone(),
            stage.nodes[2].clone(),
        ];
        let probe = probe(of(&nodes));
        let found = sole(&probe, 0, id);
        assert!(found.what.contains(word), "{found:?}");
        // What a lock is told.
        let told = blocking::wait(Client::new(&nodes[..1]).unwrap().lock("a").acquire());
        let told = told.unwrap_err();
        assert!(told.nodes()[0].message().contains(word), "{told}");
    }
}

/// The same of each shard of a cluster.
#[test]
fn a_shard_that_gives_no_vote_says_why() {
    let stage = Stage::like(1, &["shards=3"]);
    let builder = of(&stage.nodes).restart_guard(RestartGuard::On);
    let client = builder.clone().build().unwrap();
    blocking::wait(client.init_set_forced()).unwrap();
    stage.tell("redis 1 CONFIG SET min-replicas-to-write 1");
    let probe = probe(builder);
    let found = sole(&probe, 0, "QD32");
    assert!(
        found.what.contains("of the cluster: NOREPLICAS"),
        "{found:?}"
    );
    assert_eq!(probe.health, Health::Cannot);
}

/// A set that grows while one client is forgotten that has the old list: locks of the two do not
/// keep each other out, and nodes alone know of both.
#[test]
fn a_client_with_another_list_is_found() {
    let stage = Stage::like(3, &["new"]);
    let old = Client::new(&stage.nodes[..1]).unwrap();
    let _theirs = blocking::wait(old.lock("a").acquire()).unwrap();
    let client = Client::new(&stage.nodes).unwrap();
    // As docs/operations/sets.md has it, but for that client, which was to be stopped before.
    stage.tell("redis 1 DEL lock:#node");
    blocking::wait(client.init_set_forced()).unwrap();
    let probe = blocking::wait(client.probe()).unwrap();
    let found: Vec<_> = probe.findings.iter().map(|found| found.id).collect();
    assert_eq!(found, ["QD43"], "{probe:?}");
    let what = &probe.findings[0].what;
    let [first, second, third] = [0, 1, 2].map(|at| &stage.nodes[at]["redis://".len()..]);
    let said = format!("one client listens at {first} and not at {second}, {third}:");
    assert!(what.starts_with(&said), "{what}");
    assert_eq!(probe.health, Health::WorksBut);
    blocking::wait(old.close());
    until("it is gone", || {
        let probe = blocking::wait(client.probe()).unwrap();
        probe.health == Health::Works
    });
}

#[test]
fn a_server_that_is_nearly_full_is_found() {
    let stage = Stage::new(1);
    let client = Client::new(&stage.nodes).unwrap();
    for name in 0..50 {
        let _ = blocking::wait(client.lock(format!("a{name}")).acquire()).unwrap();
    }
    let used = probe(of(&stage.nodes)).nodes[0].memory_used.unwrap();
    stage.tell(&format!("redis 1 CONFIG SET maxmemory {}", used * 10 / 9));
    let full = probe(of(&stage.nodes));
    assert_eq!((ids(&full.nodes[0]), full.votes), (vec!["QD39"], 1));
    let what = &full.nodes[0].findings[0].what;
    // The counters of fifty locks, of ten minutes each.
    assert!(what.contains("which is 0.1 new names a second"), "{what}");
    assert_eq!(full.health, Health::WorksBut);
}

/// What is ready for a set: a node that votes, and one of a set that is not founded yet.
#[test]
fn a_node_by_itself() {
    let stage = Stage::like(3, &["new"]);
    let client = Client::new(&stage.nodes).unwrap();
    let ready = |place: usize| {
        let looked = blocking::wait(client.probe_node(&stage.nodes[place])).unwrap();
        assert!(stage.nodes[place].ends_with(&looked.node.node));
        let again = blocking::wait(client.probe_node(&looked.node.node)).unwrap();
        assert_eq!(again.ready, looked.ready);
        (looked.ready, looked.node.votes, looked.founded)
    };
    for place in 0..3 {
        assert!(ready(place).0, "{place}");
        assert!(!ready(place).2, "{place}");
    }
    blocking::wait(client.init_set_forced()).unwrap();
    assert_eq!(ready(1), (true, true, true));
    // Others do not matter, and one that is as new as before the set was founded is none of its.
    stage.tell("stop 1");
    stage.tell("kill 2");
    stage.tell("start 2");
    assert_eq!(ready(2), (true, true, true));
    assert_eq!(ready(1), (false, false, true));
    stage.tell("cont 1");
    stage.tell("redis 3 CONFIG SET min-replicas-to-write 1");
    assert_eq!(ready(2), (false, false, true));
    for (url, word) in [
        ("redis://127.0.0.1:1", "is no node of the client"),
        ("redis://u:s3cret@127.0.0.1:1", "holds a password"),
        ("nonsense", "does not say how to reach it"),
    ] {
        let error = blocking::wait(client.probe_node(url)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(text.contains(word) && !text.contains("s3cret"), "{text}");
    }
}

/// A policy that is set while clients are connected is seen by what looks anew: a probe, also by
/// one of these clients, each connection that is made from then on, and one in use after a while.
#[test]
fn an_eviction_policy_that_is_set_at_run_time() {
    let stage = Stage::new(1);
    let client = of(&stage.nodes).build().unwrap();
    let works = || blocking::wait(client.lock("a").acquire()).map(drop);
    works().unwrap();
    stage.tell("redis 1 CONFIG SET maxmemory 100mb maxmemory-policy volatile-ttl");
    let found = blocking::wait(client.probe()).unwrap();
    assert!(sole(&found, 0, "QD07").what.contains("volatile-ttl"));
    let new = of(&stage.nodes).build().unwrap();
    let refused = blocking::wait(new.lock("b").acquire()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Misconfigured, "{refused}");
    until("it is seen", || {
        works().is_err_and(|why| why.kind() == ErrorKind::Misconfigured)
    });
    stage.tell("redis 1 CONFIG SET maxmemory-policy noeviction");
    until("it is mended", || works().is_ok());
}
