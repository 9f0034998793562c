//! Nodes whose names have several addresses. Each test runs once more as a process that has
//! an `/etc/hosts` of its own.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;

use quorlock::{Client, ErrorKind, blocking};
use quorlock_tests::Stage;
use quorlock_tests::queue::until;
use quorlock_tests::relay::Relay;

/// Says in the environment that this process is the second one.
const INSIDE: &str = "QUORLOCK_TEST_HOSTS";

/// Whether this process has `hosts` as its names. If not, the test is run by one that has.
fn is_inside(test: &str, hosts: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let own = std::env::temp_dir().join(format!("quorlock-{test}-{}", std::process::id()));
    let mut file = std::fs::File::create(&own).expect("a file");
    write!(file, "127.0.0.1 localhost\n{hosts}\n").expect("room");
    let apart = |script: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]);
        unshare.arg(&own).arg(std::env::current_exe().expect("us"));
        unshare.args(["--exact", test, "--nocapture"]);
        unshare.env(INSIDE, "1").output()
    };
    let mount = r#"mount --bind "$1" /etc/hosts"#;
    // Not every system permits it.
    if apart(mount).is_ok_and(|done| done.status.success()) {
        let done = apart(&format!(r#"{mount} && shift && exec "$@""#)).expect("it ran");
        let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.contains("1 passed"), "{said}");
    }
    std::fs::remove_file(own).expect("it is there");
    false
}

/// Two addresses that lead to the first and the last server of a stage, and their port.
fn relays(stage: &Stage) -> ([Relay; 2], String) {
    let second = Relay::at("127.0.0.3:0", stage.nodes.last().expect("a node"));
    let port = second.url.rsplit(':').next().expect("a port").to_owned();
    let first = Relay::at(&format!("127.0.0.2:{port}"), &stage.nodes[0]);
    ([first, second], port)
}

#[test]
fn a_name_of_two_servers_is_misconfigured() {
    let test = "a_name_of_two_servers_is_misconfigured";
    if !is_inside(test, "127.0.0.2 several.test\n127.0.0.3 several.test") {
        return;
    }
    let stage = Stage::new(2);
    let (_relays, port) = relays(&stage);
    let url = format!("redis://several.test:{port}");
    // A server that does not answer soon is not compared: one of a busy machine, say.
    until("it is refused", || {
        let client = Client::builder().nodes([&url]).build().unwrap();
        let refused = blocking::wait(client.lock("a").acquire()).err();
        blocking::wait(client.close());
        refused.is_some_and(|error| {
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
            assert!(error.to_string().contains("several servers"), "{error}");
            true
        })
    });
    let client = Client::builder().nodes([url]).build().unwrap();
    until("a probe says so", || {
        let probe = blocking::wait(client.probe()).unwrap();
        probe.all().any(|(_, found)| found.id == "QD25")
    });
    blocking::wait(client.close());
}

#[test]
fn a_name_of_one_server_may_have_two_addresses() {
    let test = "a_name_of_one_server_may_have_two_addresses";
    if !is_inside(test, "127.0.0.2 one.test\n127.0.0.3 one.test") {
        return;
    }
    let stage = Stage::new(1);
    let (_relays, port) = relays(&stage);
    let url = format!("redis://one.test:{port}");
    let client = Client::builder().nodes([url]).build().unwrap();
    let lock = client.lock("a");
    let lease = blocking::wait(lock.acquire()).unwrap();
    blocking::wait(lease.release()).unwrap();
    blocking::wait(client.close());
}

#[test]
fn a_first_address_that_swallows_all_does_not_hide_the_second() {
    let test = "a_first_address_that_swallows_all_does_not_hide_the_second";
    if !is_inside(test, "127.0.0.2 hole.test\n127.0.0.3 hole.test") {
        return;
    }
    let stage = Stage::new(1);
    let relay = Relay::at("127.0.0.3:0", &stage.nodes[0]);
    let port = relay.url.rsplit(':').next().expect("a port");
    // A queue of connections that is full, and never looked at.
    let hole = TcpListener::bind(format!("127.0.0.2:{port}")).expect("a port");
    // SAFETY: it is a socket that listens.
    assert_eq!(unsafe { libc::listen(hole.as_raw_fd(), 0) }, 0);
    let at = hole.local_addr().expect("bound");
    let tries = |_| TcpStream::connect_timeout(&at, Duration::from_millis(100));
    let full: Vec<_> = (0..4).map(tries).collect();
    assert!(full.iter().any(Result::is_err), "it still answers");
    let client = Client::builder()
        .nodes([format!("redis://hole.test:{port}")])
        .build()
        .unwrap();
    let lock = client.lock("a");
    let lease = blocking::wait(lock.acquire()).unwrap();
    blocking::wait(lease.release()).unwrap();
    blocking::wait(client.close());
}
