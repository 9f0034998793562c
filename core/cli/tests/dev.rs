//! `quorlock dev`: servers that end with it, whatever ends it; and what is printed without any.

mod program;

use std::net::TcpStream;
use std::time::Duration;

use program::{Running, done};
use quorlock::{Client, blocking};

/// The ports of a node list.
fn ports(nodes: &str) -> Vec<u16> {
    let port = |url: &str| url.rsplit(':').next()?.trim().parse().ok();
    nodes.split(',').filter_map(port).collect()
}

/// Waits until no server listens there.
fn are_gone(ports: &[u16]) {
    for port in ports {
        while TcpStream::connect_timeout(&([127, 0, 0, 1], *port).into(), Duration::from_secs(5))
            .is_ok()
        {
            std::thread::yield_now();
        }
    }
}

fn started() -> (Running, String) {
    let mut dev = Running::new(&[], &["dev"]);
    let line = dev.until("export QUORLOCK_NODES=");
    let nodes = line
        .trim()
        .trim_start_matches("export QUORLOCK_NODES=")
        .to_owned();
    (dev, nodes)
}

#[test]
fn it_is_a_set_that_votes_at_once_and_ends_with_it() {
    let (mut dev, nodes) = started();
    assert_eq!(ports(&nodes).len(), 3, "{nodes}");
    let client = Client::new(nodes.split(',')).expect("nodes");
    let lease = blocking::wait(client.lock("a").acquire()).expect("they vote");
    assert!(lease.fence() > Some(0));
    drop(lease);
    dev.signal(libc::SIGINT);
    let (status, _) = dev.end();
    assert_eq!(status.code(), Some(0), "{}", dev.stderr());
    are_gone(&ports(&nodes));
}

#[test]
fn one_that_is_killed_leaves_no_server() {
    let (mut dev, nodes) = started();
    dev.signal(libc::SIGKILL);
    dev.end();
    are_gone(&ports(&nodes));
}

#[test]
fn a_command_has_them_as_long_as_it_runs() {
    let words = ["dev", "1", "--", "sh", "-c", "echo $QUORLOCK_NODES; exit 7"];
    let done = done(&[], &words);
    assert_eq!(done.code, 7, "{}", done.stderr);
    assert_eq!(ports(&done.stdout).len(), 1, "{}", done.stdout);
    are_gone(&ports(&done.stdout));
    let missing = program::done(&[], &["dev", "1", "--", "/nowhere/at/all"]);
    assert_eq!(missing.code, 127, "{}", missing.stderr);
}

#[test]
fn a_server_that_ends_is_told_with_the_way_back() {
    let (mut dev, nodes) = started();
    let client = Client::new(nodes.split(',')).expect("nodes");
    let port = ports(&nodes)[1];
    let server = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    std::io::Write::write_all(&mut (&server), b"SHUTDOWN NOSAVE\r\n").expect("it reads");
    are_gone(&[port]);
    let lease = blocking::wait(client.lock("a").acquire()).expect("two of three vote");
    drop(lease);
    dev.until_error("node 2 has ended. Start it again with: ");
    dev.signal(libc::SIGTERM);
    dev.end();
    are_gone(&ports(&nodes));
}

#[test]
fn without_a_server_it_says_what_to_install() {
    let none = done(&[], &["dev", "--server", "/nowhere/redis-server"]);
    assert_eq!(none.code, 78, "{}", none.stderr);
    assert!(
        none.stderr.contains("/nowhere/redis-server"),
        "{}",
        none.stderr
    );
}

#[test]
fn acl_prints_the_line_of_the_page() {
    let words = quorlock_tests::documented_permissions();
    let file = done(&[], &["acl", "--file"]).stdout;
    let user = format!("user quorlock on >PASSWORD {}", words.join(" "));
    assert_eq!(file, format!("user default off\n{user}\n"));
    let said = |more: &[&str]| {
        let line = done(&[], &[&["acl"], more].concat()).stdout;
        // Pasted into a shell behind a command, as behind `redis-cli`.
        let shell = std::process::Command::new("sh")
            .args(["-c", &format!("printf '%s\\n' {line}")])
            .output();
        let pasted = String::from_utf8(shell.expect("sh runs").stdout).expect("UTF-8");
        pasted.lines().collect::<Vec<_>>().join(" ")
    };
    let line = format!("ACL SETUSER quorlock on >PASSWORD {}", words.join(" "));
    assert_eq!(said(&[]), line);
    let more = said(&[
        "--user",
        "me",
        "--namespace",
        "a:",
        "--operator",
        "--wait-replicas",
    ]);
    assert!(
        more.starts_with("ACL SETUSER me on >PASSWORD ~a:* "),
        "{more}"
    );
    let last = " +scan +pubsub|channels +client|list +wait";
    assert!(more.ends_with(last), "{more}");
    assert_eq!(done(&[], &["acl", "--user", "a b"]).code, 64);
}

#[test]
fn completions_and_pages_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let text = done(&[], &["completions", shell]).stdout;
        for command in [
            "run", "inspect", "list", "watch", "release", "doctor", "init", "dev", "acl",
        ] {
            assert!(text.contains(command), "{shell}: {command}");
        }
    }
    let page = done(&[], &["man"]).stdout;
    assert!(
        page.contains(".TH QUORLOCK") && page.contains("doctor"),
        "{page}"
    );
    let page = done(&[], &["man", "run"]).stdout;
    assert!(
        page.contains("\\-\\-conflict\\-code") && page.contains("held by another"),
        "{page}"
    );
    assert_eq!(done(&[], &["man", "nothing"]).code, 64);
    let folder = std::env::temp_dir().join(format!("quorlock-man-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a new folder");
    let path = folder.to_str().expect("plain");
    assert_eq!(done(&[], &["man", "--dir", path]).code, 0);
    let pages = std::fs::read_dir(&folder).expect("it is there").count();
    let _ = std::fs::remove_dir_all(&folder);
    assert_eq!(pages, 13, "one for each command and one for the program");
}
