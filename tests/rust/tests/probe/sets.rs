//! What a probe finds of a whole set, of its clocks, and of other sets beside it.

use std::time::Duration;

use quorlock::{Client, ClientBuilder, ErrorKind, Health, Probe, RestartGuard, Severity, blocking};
use quorlock_tests::queue::until;
use quorlock_tests::{Stage, documented_permissions, escaped};

use super::{between, ids, of, probe, sole};

#[test]
fn one_that_sentinels_name_and_the_next_that_they_do() {
    let stage = Stage::like(1, &["replicas=1", "sentinels=1"]);
    let before = probe(of(&stage.nodes));
    assert_eq!((before.health, before.guard), (Health::Works, true));
    let (sentinels, _) = stage.nodes[0].rsplit_once('/').unwrap();
    let wrong = probe(of(&[format!("{sentinels}/another")]));
    assert!(sole(&wrong, 0, "QD24").what.contains("`another`"));
    // Replication is behind for a moment, and one that has not the record yet would have lost it.
    stage.tell("await 1.replicas starts:1%20 10000 GET lock:#node");
    stage.tell("failover 1");
    stage.tell("await-failover 1 30000");
    // Nobody has met it yet.
    let promoted = probe(of(&stage.nodes));
    let found = sole(&promoted, 0, "QD10");
    assert!(found.what.contains("promoted"), "{found:?}");
    let ways = ["max_ttl", "init --force", "explain sentinel"];
    assert!(ways.iter().all(|way| found.remedy.contains(way)));
}

#[test]
fn records_of_others_and_none() {
    let stage = Stage::new(3);
    let with = |builder: ClientBuilder| {
        let probe = probe(builder);
        assert_eq!(probe.health, Health::Cannot);
        let what = sole(&probe, 0, "QD08").what.clone();
        assert_eq!(probe.nodes[0].record, "other");
        (what, probe.nodes[0].differences.clone())
    };
    let (what, fields) = with(of(&stage.nodes).max_ttl(Duration::from_secs(30)));
    assert!(
        what.contains("60000 ms") && what.contains("30000 ms"),
        "{what}"
    );
    assert_eq!(fields.len(), 1);
    let guard = of(&stage.nodes).restart_guard(RestartGuard::Off);
    let (_, fields) = with(guard.set_name("another"));
    assert_eq!(fields.len(), 2, "{fields:?}");
    stage.tell("redis 1 SET lock:#node what%20is%20this");
    sole(&probe(of(&stage.nodes)), 0, "QD08");
    stage.tell("redis 1 DEL lock:#node");
    let lost = probe(of(&stage.nodes));
    assert_eq!(sole(&lost, 0, "QD09").severity, Severity::Warning);
    assert_eq!((lost.votes, lost.health), (2, Health::WorksBut));
}

#[test]
fn clusters_that_work_have_no_findings() {
    for clusters in [1, 3] {
        let stage = Stage::like(clusters, &["shards=3"]);
        let builder = of(&stage.nodes).restart_guard(RestartGuard::On);
        let client = builder.clone().build().unwrap();
        blocking::wait(client.init_set_forced()).unwrap();
        let lease = blocking::wait(client.lock("a").acquire()).unwrap();
        for _ in 0..2 {
            let probe = probe(builder.clone());
            assert_eq!(probe.health, Health::Works, "{probe:?}");
            assert_eq!(probe.votes, clusters, "{probe:?}");
            for node in &probe.nodes {
                assert_eq!((node.record, ids(node)), ("expected", vec![]), "{node:?}");
            }
        }
        assert!(blocking::wait(lease.release()).unwrap());
        // A record of another set is one all the same.
        let other = probe(builder.set_name("another"));
        assert_eq!(sole(&other, 0, "QD08").severity, Severity::Error);
        assert_eq!(other.health, Health::Cannot);
    }
}

#[test]
fn a_node_that_lost_its_memory_is_in_quarantine() {
    let stage = Stage::new(3);
    stage.tell("kill 1");
    stage.tell("start 1");
    let client = Client::new(&stage.nodes).unwrap();
    until("it is given its record", || {
        drop(blocking::wait(client.lock("a").acquire()).unwrap());
        let probe = blocking::wait(client.probe()).unwrap();
        probe.nodes[0].record == "expected"
    });
    let probe = blocking::wait(client.probe()).unwrap();
    assert_eq!(sole(&probe, 0, "QD10").severity, Severity::Warning);
    let what = &probe.nodes[0].findings[0].what;
    assert!(what.starts_with("it came without a record"), "{what}");
    // So is a call told that needs its vote.
    stage.tell("kill 2");
    let error = blocking::wait(client.lock("a").wait(Duration::ZERO).acquire()).unwrap_err();
    assert!(
        error.to_string().contains("it came without a record"),
        "{error}"
    );
    stage.tell("start 2");
    // What other causes are told by.
    for (word, said) in [
        ("restarted", "it has restarted, so"),
        ("clock", "it has a clock that stepped, so"),
        ("1", "it is in quarantine for another"),
    ] {
        stage.tell(&format!("redis 1 SET lock:#quarantine {word} XX KEEPTTL"));
        let probe = blocking::wait(client.probe()).unwrap();
        let what = &probe.nodes[0].findings[0].what;
        assert!(what.starts_with(said), "{what}");
    }
    let left = probe.nodes[0].quarantine;
    assert!(left > Duration::from_secs(30) && left < Duration::from_secs(62));
    assert_eq!((probe.votes, probe.health), (2, Health::WorksBut));
    // Its record says that it was another run.
    stage.tell("redis 2 SET lock:#node 1%20default%201%203%2060000%20n%20another%20on");
    let restarted = blocking::wait(client.probe()).unwrap();
    assert!(sole(&restarted, 1, "QD10").what.contains("has restarted"));
    assert_eq!(restarted.health, Health::Cannot);
}

#[test]
fn clocks_and_distance() {
    let stage = Stage::like(3, &["clocks"]);
    stage.set_clock(1, 5);
    let noted = probe(of(&stage.nodes));
    let node = &noted.nodes[0];
    assert_eq!((ids(node), node.votes), (vec!["QD11"], true), "{node:?}");
    assert_eq!(node.findings[0].severity, Severity::Note);
    let off = node.clock.unwrap();
    assert!((off.micros - 5_000_000).unsigned_abs() < 500_000, "{off:?}");
    assert_eq!(noted.health, Health::Works);
    stage.set_clock(1, -60);
    let grave = probe(of(&stage.nodes));
    assert_eq!(ids(&grave.nodes[0]), ["QD11"]);
    assert_eq!(grave.nodes[0].findings[0].severity, Severity::Error);
    assert!(grave.nodes[0].findings[0].what.contains("behind"));
    stage.set_clock(1, 0);
    let mut nodes = stage.nodes.clone();
    nodes[2] = between(&nodes[2], Duration::from_millis(60), |_| ());
    let far = probe(of(&nodes).node_timeout(Duration::from_millis(100)));
    assert_eq!(ids(&far.nodes[2]), ["QD13"], "{far:?}");
    let remedy = &far.nodes[2].findings[0].remedy;
    assert!(remedy.starts_with("raise node_timeout to "), "{remedy}");
    assert!(far.nodes[2].round_trip.unwrap().0 >= Duration::from_millis(60));
    assert_eq!((far.votes, far.health), (3, Health::WorksBut));
}

#[test]
fn one_server_in_two_places_and_an_even_number() {
    let stage = Stage::like(1, &["new"]);
    let same = stage.nodes[0].replace("127.0.0.1", "localhost");
    let probe = probe(of(&[stage.nodes[0].clone(), same]));
    assert!(ids(&probe.nodes[1]).contains(&"QD12"), "{probe:?}");
    let set: Vec<_> = probe.findings.iter().map(|found| found.id).collect();
    assert_eq!((set, probe.health), (vec!["QD15"], Health::Cannot));
}

/// Else a look would cost it `max_ttl`.
#[test]
fn a_server_that_is_new_is_new_afterwards() {
    let stage = Stage::like(3, &["new"]);
    let max_ttl = Duration::from_millis(100);
    let builder = || of(&stage.nodes).max_ttl(max_ttl);
    let votes = || probe(builder()).votes;
    until("the servers are old enough", || votes() == 3);
    let noted = probe(builder());
    assert_eq!(ids(&noted.nodes[0]), ["QD09"]);
    assert_eq!(noted.health, Health::Works, "{noted:?}");
    assert_eq!(noted.nodes[0].record, "none");
    let client = builder().build().unwrap();
    let left = blocking::wait(client.init_set()).unwrap();
    assert_eq!(left, Duration::ZERO);
    stage.tell("expect all 0 EXISTS lock:#quarantine");
}

#[test]
fn memory_nodes_and_closed_clients() {
    let client = Client::new(["memory://probe"]).unwrap();
    let probe = blocking::wait(client.probe()).unwrap();
    assert_eq!((probe.health, probe.votes), (Health::Works, 1));
    let node = &probe.nodes[0];
    assert_eq!((node.server, node.record), (Some("memory"), "expected"));
    blocking::wait(client.close());
    let error = blocking::wait(client.probe()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

#[test]
fn namespaces_that_begin_each_other() {
    let in_namespace = |nodes: &[String], namespace: &str, set: &str| {
        let sets = of(nodes).namespace(namespace).set_name(set);
        sets.restart_guard(RestartGuard::Off)
    };
    let founded = |builder: ClientBuilder| {
        let client = builder.build().expect("URLs");
        let lease = blocking::wait(client.lock("x").acquire()).expect("free");
        blocking::wait(lease.release()).expect("it is asked");
        blocking::wait(client.close());
    };
    let nested = |probe: &Probe| -> Vec<String> {
        let found = probe.all().filter(|(_, found)| found.id == "QD27");
        found.map(|(_, found)| found.what.clone()).collect()
    };
    for words in [&[][..], &["shards=3"]] {
        let stage = Stage::like(1, words);
        let sets = [("a:", "one"), ("a:b:", "two"), ("c:", "three")];
        let sets = sets.map(|(namespace, set)| in_namespace(&stage.nodes, namespace, set));
        founded(sets[0].clone());
        // Data, however it is named.
        stage.tell("redis 1 SET a:x:%23node x");
        stage.tell("redis 1 RPUSH a:y:%23node x");
        // What is new is still so afterwards, and is asked nothing.
        for set in [&sets[0], &sets[1]] {
            assert_eq!(nested(&probe(set.clone())), [""; 0]);
        }
        founded(sets[1].clone());
        founded(sets[2].clone());
        for (set, other) in sets.iter().zip([Some("`a:b:`"), Some("`a:`"), None]) {
            let probe = probe(set.clone());
            let found = nested(&probe);
            assert_eq!(found.len(), usize::from(other.is_some()), "{probe:?}");
            assert!(
                found
                    .iter()
                    .all(|what| other.is_some_and(|other| what.contains(other)))
            );
            assert_eq!((probe.votes, probe.nodes[0].votes), (1, true), "{probe:?}");
        }
    }
}

#[test]
fn namespaces_are_not_looked_for_without_the_right_to_scan() {
    let stage = Stage::like(1, &["auth"]);
    let line = documented_permissions();
    let nested = |words: &[&str]| {
        let line = line.iter().map(String::as_str);
        stage.permit(line.chain(words.iter().copied()));
        let probe = probe(of(&stage.nodes));
        assert_eq!(probe.votes, 1, "{probe:?}");
        ids(&probe.nodes[0]) == ["QD27"]
    };
    assert!(!nested(&["+scan"]));
    let record = stage.tell("redis 1 GET lock:%23node");
    stage.tell(&format!("redis 1 SET lock:b:%23node {}", escaped(&record)));
    assert!(nested(&["+scan"]));
    assert!(!nested(&[]));
}
