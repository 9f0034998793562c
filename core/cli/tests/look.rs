//! The commands that look at locks and nodes, and those that change them, on real servers: one
//! row for each exit code.

mod program;

use std::io::{BufRead, BufReader};
use std::time::Duration;

use program::{Done, done, quorlock};
use quorlock::{Client, blocking};
use quorlock_tests::Stage;
use serde_json::Value;

/// Runs it for a person and for a program: the same code, and one object a line.
fn both(nodes: &[String], words: &[&str], code: i32) -> Vec<Value> {
    let plain = done(nodes, words);
    assert_eq!(plain.code, code, "{words:?}: {plain:?}");
    objects(nodes, words, code)
}

/// The same for a program alone: for what cannot be done twice.
fn objects(nodes: &[String], words: &[&str], code: i32) -> Vec<Value> {
    let words = [words, &["--json"]].concat();
    let Done {
        code: found,
        stdout,
        stderr,
    } = done(nodes, &words);
    assert_eq!(found, code, "{words:?}: {stdout} {stderr}");
    let object = |line| serde_json::from_str(line).expect("an object a line");
    stdout.lines().map(object).collect()
}

fn client(stage: &Stage) -> Client {
    let builder = Client::builder().nodes(&stage.nodes).label("web-2");
    builder.build().expect("the nodes of a stage")
}

#[test]
fn inspect_tells_who_holds_a_lock() {
    let stage = Stage::new(3);
    let ours = client(&stage);
    let lease = blocking::wait(ours.lock("a").acquire()).expect("nobody has it");
    // All nodes have voted.
    stage.tell("expect-votes lock:{a} 3 5000");
    let found = both(&stage.nodes, &["inspect", "a"], 0);
    assert_eq!(found[0]["name"], "a");
    assert_eq!(found[0]["verdict"], "held");
    assert_eq!(found[0]["holder"]["label"], "web-2");
    assert_eq!(found[0]["holder"]["fence"].as_u64(), lease.fence());
    assert_eq!(found[0]["nodes"].as_array().map(Vec::len), Some(3));
    let text = done(&stage.nodes, &["inspect", "a"]).stdout;
    assert!(text.contains("held by web-2 with 3 of 3 votes"), "{text}");
    assert!(!text.contains(lease.token()), "{text}");
    let found = both(&stage.nodes, &["inspect", "a", "b"], 3);
    assert_eq!(
        (&found[0]["verdict"], &found[1]["verdict"]),
        (&"held".into(), &"free".into())
    );
    both(&stage.nodes, &["inspect", "{"], 64);
    both(&stage.nodes, &["inspect"], 64);
    stage.tell("kill 2,3");
    let found = both(&stage.nodes, &["inspect", "a"], 69);
    assert_eq!(found[0]["verdict"], "unknown");
}

#[test]
fn release_takes_a_lock_away() {
    let stage = Stage::new(3);
    let ours = client(&stage);
    let lease = blocking::wait(ours.lock("a").acquire()).expect("nobody has it");
    let found = both(&stage.nodes, &["inspect", "a"], 0);
    let held = found[0]["holder"]["fence"]
        .as_u64()
        .expect("it has a fence");
    both(&stage.nodes, &["release", "a"], 64);
    let other = (held - 1).to_string();
    let refused = ["release", "--force", "--fence", &other, "a"];
    both(&stage.nodes, &refused, 75);
    assert!(lease.is_held());
    let fence = held.to_string();
    let force = ["release", "--force", "--fence", &fence, "a"];
    let forced = objects(&stage.nodes, &force, 0);
    assert!(forced[0]["freed"].as_u64() >= Some(2), "{forced:?}");
    assert_eq!(forced[0]["found"]["holder"]["label"], "web-2");
    assert_eq!(blocking::wait(lease.lost()).as_str(), "forced");
    let nobody = both(&stage.nodes, &["release", "--force", "a"], 3);
    assert_eq!(nobody[0]["freed"], 0);
    stage.tell("kill 2,3");
    both(&stage.nodes, &["release", "--force", "a"], 69);
}

#[test]
fn init_declares_a_set() {
    let stage = Stage::like(3, &["new"]);
    // These servers are young: to wait for max_ttl would be long, and force does not.
    let declared = both(&stage.nodes, &["init", "--force"], 0);
    assert_eq!(declared[0]["declared"], true);
    assert_eq!(declared[0]["quarantine"], 0.0);
    both(&stage.nodes, &["init"], 0);
    both(&stage.nodes, &["init", "--set-name", "another"], 78);
    let url = done(&stage.nodes, &["init", "redis://:s3cret@h"]);
    assert_eq!(url.code, 64);
    assert!(url.stderr.contains("QUORLOCK_NODES"), "{url:?}");
    assert!(!url.stderr.contains("s3cret"), "{url:?}");
    // A set that stands needs a quorum, and no more.
    stage.tell("kill 2");
    let declared = both(&stage.nodes, &["init"], 0);
    assert_eq!(
        (&declared[0]["votes"], &declared[0]["quorum"]),
        (&2.into(), &2.into())
    );
    stage.tell("kill 3");
    both(&stage.nodes, &["init"], 69);
}

#[test]
fn doctor_says_how_it_stands() {
    let stage = Stage::new(3);
    let probe = both(&stage.nodes, &["doctor"], 0);
    assert_eq!(probe[0]["health"], "works", "{probe:?}");
    assert_eq!(probe[0]["votes"], 3);
    stage.tell("kill 2");
    let probe = both(&stage.nodes, &["doctor"], 1);
    assert_eq!(probe[0]["health"], "works_but");
    assert_eq!(probe[0]["nodes"][1]["votes"], false);
    assert!(probe[0]["nodes"][1]["findings"][0]["id"].is_string());
    let text = done(&stage.nodes, &["doctor"]).stdout;
    assert!(
        text.contains("one more failure stops them (2 of 3 vote)"),
        "{text}"
    );
    stage.tell("kill 3");
    let probe = both(&stage.nodes, &["doctor"], 69);
    assert_eq!(probe[0]["health"], "cannot");
}

#[test]
fn nodes_of_the_environment_that_are_no_text_are_refused() {
    use std::os::unix::ffi::OsStringExt;
    let nodes = std::ffi::OsString::from_vec(b"redis://u:secret\xff@127.0.0.1".to_vec());
    let mut command = program::quorlock(&[], &["inspect", "a"]);
    let done = command
        .env("QUORLOCK_NODES", nodes)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(78), "{said}");
    assert!(said.contains("QUORLOCK_NODES is not UTF-8"), "{said}");
    assert!(!said.contains("secret"), "{said}");
}

/// The fence that the holder itself has is the fence to give, however many ask in vain.
#[test]
fn release_takes_a_contended_lock_away_from_the_hold_of_that_fence() {
    let stage = Stage::new(3);
    let ours = client(&stage);
    drop(blocking::wait(ours.lock("warm").acquire()).expect("nobody has it"));
    let lease = blocking::wait(ours.lock("a").acquire()).expect("nobody has it");
    let run = ["run", "-n", "a", "--", "true"];
    for _ in 0..3 {
        assert_eq!(done(&stage.nodes, &run).code, 75);
    }
    let theirs = client(&stage);
    drop(blocking::wait(theirs.lock("warm").acquire()).expect("nobody has it"));
    let refused = blocking::wait(theirs.lock("a").try_acquire()).expect("the nodes answer");
    assert!(refused.is_none());
    let found = objects(&stage.nodes, &["inspect", "a"], 0);
    assert_eq!(found[0]["holder"]["fence"].as_u64(), lease.fence());
    assert!(
        found[0]["fence"].as_u64() > lease.fence(),
        "it was asked for in vain"
    );
    let fence = lease.fence().expect("it has one").to_string();
    objects(
        &stage.nodes,
        &["release", "--force", "--fence", &fence, "a"],
        0,
    );
    assert_eq!(blocking::wait(lease.lost()).as_str(), "forced");
}

#[test]
fn a_semaphore_is_shown_and_taken_away_by_its_slots() {
    let stage = Stage::new(3);
    let ours = client(&stage);
    let semaphore = || blocking::wait(ours.semaphore("api", 3).acquire()).expect("a slot is free");
    let leases = [semaphore(), semaphore()];
    for lease in &leases {
        blocking::wait(lease.extend(None)).expect("it is held");
        stage.tell(&format!(
            "expect-votes lock:#p{}:{{api}} 3 5000",
            lease.slot().expect("a slot")
        ));
    }
    let found = both(&stage.nodes, &["inspect", "--slots", "3", "api"], 3);
    assert_eq!(
        (&found[0]["slots_held"], &found[0]["verdict"]),
        (&2.into(), &"free".into())
    );
    for lease in &leases {
        let slot = &found[0]["slots"][lease.slot().expect("a slot") as usize];
        assert_eq!(slot["holder"]["label"], "web-2");
        assert_eq!(slot["holder"]["fence"].as_u64(), lease.fence());
    }
    let text = done(&stage.nodes, &["inspect", "--slots", "3", "api"]).stdout;
    assert!(text.contains("has 2 of 3 slots held"), "{text}");
    assert!(text.contains("held, by web-2"), "{text}");
    // Without the number of slots the command says that a semaphore of that name is in use.
    let text = done(&stage.nodes, &["inspect", "api"]).stdout;
    assert!(text.contains("2 of its slots are held"), "{text}");
    assert!(text.contains("quorlock inspect --slots N api\n"), "{text}");
    assert_eq!(
        both(&stage.nodes, &["inspect", "api"], 3)[0]["slots_held"],
        2
    );
    let text = done(&stage.nodes, &["list"]).stdout;
    assert!(
        text.contains("api") && text.contains("2 slots held: web-2"),
        "{text}"
    );
    let listed = both(&stage.nodes, &["list", "ap*"], 0);
    assert_eq!(listed[0]["locks"][0]["slots_held"], 2, "{listed:?}");
    both(
        &stage.nodes,
        &["watch", "--until-free", "--slots", "3", "api"],
        0,
    );
    let last = semaphore();
    let waits = [
        "watch",
        "--until-free",
        "--slots",
        "3",
        "--wait",
        "100ms",
        "--every",
        "50ms",
        "api",
    ];
    both(&stage.nodes, &waits, 75);
    assert!(blocking::wait(last.release()).expect("it is asked"));
    // One slot goes, then all.
    both(
        &stage.nodes,
        &["release", "--force", "--slot", "0", "api"],
        64,
    );
    let (slot, fence) = (
        leases[0].slot().expect("a slot"),
        leases[1].fence().expect("a fence"),
    );
    let (slot, fence) = (slot.to_string(), fence.to_string());
    let of_another = [
        "release", "--force", "--slots", "3", "--slot", &slot, "--fence", &fence, "api",
    ];
    both(&stage.nodes, &of_another, 75);
    let one = ["release", "--force", "--slots", "3", "--slot", &slot, "api"];
    objects(&stage.nodes, &one, 0);
    assert_eq!(blocking::wait(leases[0].lost()).as_str(), "forced");
    assert!(leases[1].is_held());
    objects(
        &stage.nodes,
        &["release", "--force", "--slots", "3", "api"],
        0,
    );
    assert_eq!(blocking::wait(leases[1].lost()).as_str(), "forced");
    both(
        &stage.nodes,
        &["release", "--force", "--slots", "3", "api"],
        3,
    );
}

/// As `quorlock watch a | head -1` has it, where nothing changes.
#[test]
fn a_watch_ends_when_nothing_reads_it_any_more() {
    let nodes = ["memory://watched".to_owned()];
    for words in [
        &["watch", "a"][..],
        &["watch", "--json", "--every", "1h", "a"],
    ] {
        let mut child = quorlock(&nodes, words).spawn().expect("it starts");
        let mut first = String::new();
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        lines.read_line(&mut first).expect("UTF-8");
        assert!(first.contains("free"), "{first}");
        drop(lines);
        let mut ends = (0..1500).map(|_| {
            quorlock_tests::nap(Duration::from_millis(20));
            child.try_wait().expect("it can be waited for")
        });
        let ended = ends.find_map(|ended| ended);
        let _ = child.kill();
        assert_eq!(ended.and_then(|status| status.code()), Some(0), "{words:?}");
    }
}

#[test]
fn a_variable_that_is_empty_is_not_set() {
    let mut inspect = quorlock(&[], &["inspect", "empty"]);
    for name in [
        "RESTART_GUARD",
        "NAMESPACE",
        "WAIT_REPLICAS",
        "MAX_TTL",
        "ACCEPT_EVICTION",
    ] {
        inspect.env(format!("QUORLOCK_{name}"), "");
    }
    let ended = inspect.env("QUORLOCK_NODES", "memory://empty").output();
    let ended = ended.expect("it runs");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "it is free: {said}");
}
