//! A program that closes every descriptor it finds, as a daemon does that does not fork, and opens
//! files of its own under the numbers. The tests run themselves again as such a program: see `role`.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use quorlock::{Error, ErrorKind, LossReason, blocking};
use quorlock_tests::Stage;
use quorlock_tests::queue::{PATIENCE, patient, until};

const WAIT: Duration = Duration::from_secs(1);
/// As many files as the program opens afterwards: more than the library had descriptors.
const FILES: usize = 40;

/// What it does within the time that a test has, on another thread.
fn soon<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (told, hears) = channel();
    thread::spawn(move || told.send(work()));
    hears.recv_timeout(PATIENCE).expect(what)
}

/// The program's files, under the numbers that it has closed.
struct Files(Vec<File>, std::path::PathBuf);

impl Files {
    fn instead_of_all() -> Files {
        // SAFETY: what is closed is the library's, whose bearing is the matter, and the harness's,
        // which has no use for it any more.
        (3..256).for_each(|fd| unsafe {
            libc::close(fd);
        });
        let path = std::env::temp_dir().join(format!("quorlock-fds-{}", std::process::id()));
        let open = |_| File::options().create(true).append(true).open(&path);
        let files = (0..FILES).map(open).collect::<Result<_, _>>().unwrap();
        Files(files, path)
    }

    /// None was closed, and nothing was written to any of them.
    fn assert_untouched(mut self) {
        for file in &mut self.0 {
            // SAFETY: asks about a number.
            assert_ne!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) }, -1);
            file.write_all(b"x").unwrap();
        }
        assert_eq!(std::fs::read(&self.1).unwrap(), vec![b'x'; FILES]);
        std::fs::remove_file(&self.1).unwrap();
    }
}

fn assert_closed<T: std::fmt::Debug>(result: Result<T, Error>) {
    let kind = result.unwrap_err().kind();
    assert!(
        matches!(kind, ErrorKind::Closed | ErrorKind::QuorumUnavailable),
        "{kind:?}"
    );
}

/// What the program does. Without a role it is no test.
#[test]
fn role() {
    let Ok(role) = std::env::var("QUORLOCK_ROLE") else {
        return;
    };
    let nodes = std::env::var("QUORLOCK_NODES").unwrap();
    let nodes: Vec<String> = nodes.split(',').map(str::to_owned).collect();
    let client = patient(&nodes);
    let lease = blocking::wait(client.lock("mine").acquire()).unwrap();
    let waits = client.lock("theirs").wait(2 * WAIT);
    let files = match role.as_str() {
        "idle" => {
            blocking::wait(lease.release()).unwrap();
            Files::instead_of_all()
        }
        "holds" => {
            let files = Files::instead_of_all();
            let lost = soon("the loss", move || blocking::wait(lease.lost()));
            assert_eq!(lost, LossReason::Closed);
            files
        }
        "waits" => {
            let (told, hears) = channel();
            thread::spawn(move || told.send(blocking::wait(waits.acquire())));
            until("it waits", || client.stats().queued > 0);
            let files = Files::instead_of_all();
            assert_closed(hears.recv_timeout(PATIENCE).expect("its wait ends"));
            files
        }
        other => panic!("no role {other}"),
    };
    let other = client.lock("other").wait(WAIT);
    assert_closed(soon("an acquire", move || blocking::wait(other.acquire())));
    soon("close", move || blocking::wait(client.close()));
    let next = patient(&nodes);
    let won = soon("a new client", move || {
        let lease = blocking::wait(next.lock("next").acquire())?;
        blocking::wait(lease.release())
    });
    assert!(won.unwrap());
    files.assert_untouched();
    std::process::exit(0);
}

fn play(role: &str) {
    let stage = Stage::new(3);
    let theirs = patient(&stage.nodes);
    let _held = blocking::wait(theirs.lock("theirs").acquire()).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "role", "--nocapture"])
        .env("QUORLOCK_ROLE", role)
        .env("QUORLOCK_NODES", stage.nodes.join(","))
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn a_client_whose_descriptors_are_closed_while_it_is_idle_ends_and_the_next_works() {
    play("idle");
}

#[test]
fn a_lease_is_lost_where_descriptors_are_closed() {
    play("holds");
}

#[test]
fn a_wait_ends_where_descriptors_are_closed() {
    play("waits");
}
