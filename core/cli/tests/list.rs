//! `quorlock list` and `quorlock watch` against real servers.

mod program;

use std::time::Duration;

use program::{Running, done};
use quorlock::{Client, ErrorKind, blocking};
use quorlock_tests::Stage;

fn client(stage: &Stage, label: &str) -> Client {
    let client = Client::builder().nodes(&stage.nodes).label(label).build();
    client.expect("the nodes of a stage")
}

#[test]
fn list_shows_who_holds_what() {
    let stage = Stage::new(3);
    let empty = done(&stage.nodes, &["list"]);
    assert_eq!(
        (empty.code, empty.stdout.lines().count()),
        (0, 1),
        "{}",
        empty.stdout
    );
    let (one, two) = (client(&stage, "web-1:1"), client(&stage, "web-2:2"));
    let _held: Vec<_> = ["orders:1", "stock"]
        .iter()
        .map(|name| blocking::wait(one.lock(*name).acquire()).expect("free"))
        .collect();
    let waiter = std::thread::spawn(move || {
        let lock = two.lock("stock").wait(Duration::from_secs(60));
        blocking::wait(lock.acquire()).map(drop)
    });
    let table = loop {
        let done = done(&stage.nodes, &["list"]);
        assert_eq!(done.code, 0, "{}", done.stderr);
        let rows: Vec<_> = done.stdout.lines().map(str::to_owned).collect();
        // The lock that is waited for stands first.
        if rows[1].starts_with("stock") && rows[1].ends_with(" 1") {
            break rows;
        }
    };
    assert_eq!(table.len(), 3, "{table:?}");
    assert!(
        table[0].starts_with("NAME") && table[0].ends_with("WAIT"),
        "{table:?}"
    );
    assert!(
        table[2].starts_with("orders:1") && table[2].contains("web-1:1"),
        "{table:?}"
    );
    let json = done(&stage.nodes, &["list", "--json", "orders:*"]).stdout;
    assert!(
        json.contains(r#""name":"orders:1""#) && !json.contains("stock"),
        "{json}"
    );
    assert!(json.contains(r#""complete":true"#), "{json}");
    drop(_held);
    waiter.join().expect("it ends").expect("it gets the lock");
}

#[test]
fn list_without_a_quorum_says_which_nodes_and_what_the_others_have() {
    let stage = Stage::new(3);
    let client = Client::new(&stage.nodes).expect("the nodes");
    let lease = blocking::wait(client.lock("orders").acquire()).expect("it is free");
    stage.tell("kill 1,2");
    let done = done(&stage.nodes, &["list"]);
    assert_eq!(done.code, 69, "{}", done.stderr);
    for said in [
        "orders",
        "too few nodes were read",
        "127.0.0.1",
        "was not read",
    ] {
        assert!(done.stdout.contains(said), "{}", done.stdout);
    }
    drop(lease);
}

#[test]
fn the_live_list_wants_a_terminal() {
    let stage = Stage::new(1);
    let done = done(&stage.nodes, &["list", "--watch"]);
    assert_eq!(done.code, 64);
    assert!(done.stderr.contains("terminal"), "{}", done.stderr);
}

#[test]
fn watch_tells_each_change_and_ends_when_it_is_free() {
    let stage = Stage::new(3);
    let client = client(&stage, "web-1:1");
    let first = blocking::wait(client.lock("a").acquire()).expect("free");
    let words = ["watch", "--until-free", "--every", "10ms", "a"];
    let mut watch = Running::new(&stage.nodes, &words);
    watch.until("held by web-1:1, fence ");
    blocking::wait(first.release()).expect("nodes answer");
    let (status, rest) = watch.end();
    assert_eq!(status.code(), Some(0), "{rest}");
    assert!(
        rest.lines().last().expect("a line").contains("free"),
        "{rest}"
    );
}

#[test]
fn watch_tells_programs_the_same() {
    let stage = Stage::new(1);
    let words = ["watch", "--until-free", "--json", "a"];
    let done = done(&stage.nodes, &words);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.starts_with(r#"{"at":1"#), "{}", done.stdout);
    assert!(
        done.stdout.contains(r#""verdict":"free""#),
        "{}",
        done.stdout
    );
}

/// The words of the line that `quorlock acl` prints with these.
fn line(words: &[&str]) -> Vec<String> {
    let printed = done(&[], &[&["acl", "--file"][..], words].concat());
    let line = printed.stdout.lines().nth(1).expect("a user");
    let line = line.strip_prefix("user quorlock on >PASSWORD ");
    let line = line.expect("the line").split(' ');
    line.map(str::to_owned).collect()
}

/// Each as a user that has the line that is printed for it, and nothing else.
#[test]
fn an_application_may_lock_in_its_namespace_and_an_operator_may_look_at_all() {
    let stage = Stage::like(1, &["auth"]);
    let permit = |words: &[&str]| stage.permit(line(words).iter().map(String::as_str));
    let code = |words: &[&str]| {
        let done = done(&stage.nodes, words);
        (done.code, done.stdout + &done.stderr)
    };
    let get = |namespace: &str| {
        let client = Client::builder().nodes(&stage.nodes);
        let client = client.namespace(namespace).build().expect("the nodes");
        blocking::wait(client.lock("orders").acquire())
    };

    permit(&[]);
    let held = get("lock:").expect("an application may lock");
    let (listed, said) = code(&["list"]);
    assert!(listed == 78 && said.contains("+scan"), "{listed}: {said}");
    let others = get("other:").expect_err("it is another's namespace");
    assert_eq!(others.kind(), ErrorKind::Misconfigured, "{others}");

    permit(&["--operator"]);
    for words in [&["list"][..], &["inspect", "orders"], &["doctor"]] {
        let (code, said) = code(words);
        assert_eq!(code, 0, "{words:?}: {said}");
    }
    let (forced, said) = code(&["release", "--force", "orders"]);
    assert_eq!(forced, 0, "{said}");
    assert!(!blocking::wait(held.release()).expect("it answers"));
    // The names of others are read, and nothing that stands there.
    let others = get("other:").expect_err("it is another's namespace");
    assert_eq!(others.kind(), ErrorKind::Misconfigured, "{others}");
}
