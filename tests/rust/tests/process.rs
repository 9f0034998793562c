//! What becomes of a lock when its process exits, dies, or forks.
//!
//! The tests run themselves again as another process: see `role`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quorlock::{Client, ErrorKind, blocking};
use quorlock_tests::{Stage, monotonic};

const TTL: Duration = Duration::from_millis(1_000);
/// How late a busy machine may be, before a lock counts as stuck.
const PATIENCE: Duration = Duration::from_secs(5);

fn spawn(role: &str, stage: &Stage) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "role", "--nocapture"])
        .env("QUORLOCK_ROLE", role)
        .env("QUORLOCK_NODES", stage.nodes.join(","))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.any(|line| line.unwrap().contains("I hold it"));
    assert!(said, "{role} never held the lock");
    child
}

/// What the other process does. Without a role it is no test.
#[test]
fn role() {
    let Ok(role) = std::env::var("QUORLOCK_ROLE") else {
        return;
    };
    let client = Client::from_env().unwrap();
    let lease = blocking::wait(client.lock("k").ttl(TTL).acquire()).unwrap();
    println!("\nI hold it");
    match role.as_str() {
        "exits" => {
            // Neither dropped nor released: the exit of the process has to.
            std::mem::forget(lease);
            std::process::exit(0);
        }
        "lets-go" => {
            assert!(lease.release_unconfirmed().unwrap());
            std::mem::forget(lease);
            std::process::exit(0);
        }
        "hangs" => loop {
            std::thread::park();
        },
        "forks" => {
            // SAFETY: the child only calls what is under test, then leaves.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let refused = blocking::wait(client.lock("k").acquire());
                let kind = refused.map(|_| ()).map_err(|e| e.kind());
                let inert = !lease.is_held() && kind == Err(ErrorKind::Forked);
                drop(lease);
                drop(client);
                let fresh = Client::from_env().unwrap();
                let taken = blocking::wait(fresh.lock("k").try_acquire()).unwrap();
                let other = blocking::wait(fresh.lock("other").try_acquire()).unwrap();
                let works = taken.is_none() && other.is_some();
                eprintln!("in the child: {kind:?}, inert {inert}, works {works}");
                // Leaves without the exit handlers of the parent's libraries.
                drop(other);
                blocking::wait(fresh.close());
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(i32::from(!(inert && works))) };
            }
            let mut status = -1;
            // SAFETY: waits for the child just made.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(status, 0, "the child was not content");
            assert!(lease.is_held(), "the child released the parent's lease");
            assert!(blocking::wait(lease.release()).unwrap());
            // Nobody reads what the test harness would print.
            std::process::exit(0);
        }
        other => panic!("no role {other}"),
    }
}

#[test]
fn an_exit_releases_what_is_held() {
    let stage = Stage::new(3);
    let mut child = spawn("exits", &stage);
    assert!(child.wait().unwrap().success());
    // The exit waited for it.
    stage.tell("expect-votes lock:{k} 0 0");
}

#[test]
fn an_exit_waits_for_what_was_released_without_an_answer() {
    let stage = Stage::new(3);
    let mut child = spawn("lets-go", &stage);
    assert!(child.wait().unwrap().success());
    stage.tell("expect-votes lock:{k} 0 0");
}

#[test]
fn after_a_kill_the_next_holder_waits_for_the_ttl_and_no_longer() {
    let stage = Stage::new(3);
    let mut child = spawn("hangs", &stage);
    let client = Client::new(&stage.nodes).unwrap();
    child.kill().unwrap();
    let killed = monotonic();
    child.wait().unwrap();
    let lease = blocking::wait(client.lock("k").acquire()).unwrap();
    let waited = Duration::from_nanos(monotonic() - killed);
    assert!(lease.is_held());
    assert!(waited <= TTL + PATIENCE, "{waited:?}");
}

#[test]
fn a_forked_child_leaves_the_parents_lease_alone() {
    let stage = Stage::new(3);
    let mut child = spawn("forks", &stage);
    assert!(child.wait().unwrap().success());
}
