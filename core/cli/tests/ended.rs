//! What ends `quorlock run`, or stops it, ends its command before the lock.

mod program;

#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;

use program::{ENDLESS, Flock, Running, STUBBORN, quorlock};
use quorlock::{Client, Verdict, blocking};
use quorlock_tests::Stage;

fn client(stage: &Stage) -> Client {
    Client::new(&stage.nodes).expect("the nodes of a stage")
}

#[test]
fn what_ends_the_program_ends_all_of_the_command() {
    let stage = Stage::new(1);
    // A shell and two more, all of which have the standard output.
    let script = "tail -f /dev/null & tail -f /dev/null & echo ready; wait";
    for number in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // A shell has what it leaves in the background ignore two of them.
        let script = match number {
            libc::SIGINT | libc::SIGQUIT => ENDLESS,
            _ => script,
        };
        let mut run = Running::new(&stage.nodes, &["run", "a", "--", "sh", "-c", script]);
        run.until("ready");
        run.signal(number);
        let (status, _) = run.end();
        assert_eq!(status.code(), Some(128 + number), "{}", run.stderr());
        stage.tell("expect-votes lock:{a} 0 0");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_that_is_killed_leaves_no_orphan() {
    let stage = Stage::new(1);
    let script = "
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print('ready', flush=True)
signal.sigwait([signal.SIGTERM])
print('term')";
    let words = ["run", "a", "--", "python3", "-c", script];
    let mut run = Running::new(&stage.nodes, &words);
    run.until("ready");
    run.signal(libc::SIGKILL);
    let (_, rest) = run.end();
    assert_eq!(rest, "term\n");
}

/// The kernel tells the command itself, and nothing but the warden all that it has started.
#[cfg(target_os = "linux")]
#[test]
fn a_program_that_is_killed_leaves_no_group_and_no_warden() {
    let stage = Stage::new(1);
    let script = "
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
if os.fork():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    signal.pause()
print('ready', flush=True)
signal.sigwait([signal.SIGTERM])
print('term')";
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let fd = writer.as_raw_fd();
    let words = ["run", "--ttl", "60s", "a", "--", "python3", "-c", script];
    let mut command = quorlock(&stage.nodes, &words);
    // All that comes of the program has it from there on.
    // SAFETY: between fork and exec it makes system calls only.
    unsafe {
        command.pre_exec(move || match libc::fcntl(fd, libc::F_SETFD, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let mut run = Running::of(command);
    drop(writer);
    run.until("ready");
    run.signal(libc::SIGKILL);
    let (_, rest) = run.end();
    assert_eq!(rest, "term\n");
    let mut ended = libc::pollfd {
        fd: reader.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: a plain system call with one valid pollfd.
    let told = unsafe { libc::poll(&mut ended, 1, 40_000) };
    assert_eq!(told, 1, "the warden is there yet");
}

#[test]
fn what_a_command_has_left_is_waited_for_as_long_as_the_grace_says() {
    let stage = Stage::new(1);
    // It would end by itself, and much later.
    let script = "sleep 60 >/dev/null 2>&1 & echo $!; exit 4";
    let words = ["run", "--grace", "300ms", "a", "--", "sh", "-c", script];
    let mut run = Running::new(&stage.nodes, &words);
    let left: i32 = run.until("").trim().parse().expect("a process id");
    let (status, _) = run.end();
    let said = run.stderr();
    // SAFETY: a plain system call; whether it is there yet is what the test is about.
    let there = unsafe { libc::kill(left, libc::SIGKILL) } == 0;
    assert_eq!((status.code(), there), (Some(4), true), "{said}");
    assert!(said.contains("has left processes behind"), "{said}");
    stage.tell("expect-votes lock:{a} 0 0");
}

#[test]
fn a_command_that_stands_still_goes_on_where_it_is_told_to_end() {
    let stage = Stage::new(1);
    let script = "trap 'echo term; exit 7' TERM; echo ready; kill -STOP $$; exec tail -f /dev/null";
    let words = [
        "run", "--ttl", "3s", "--grace", "20s", "a", "--", "sh", "-c", script,
    ];
    let mut run = Running::new(&stage.nodes, &words);
    run.until_error("the command is stopped");
    let forced = blocking::wait(client(&stage).force_release("a", None));
    assert_eq!(forced.expect("nodes answer").freed(), 1);
    let (status, rest) = run.end();
    assert_eq!((status.code(), &*rest), (Some(76), "ready\nterm\n"));
}

#[test]
fn a_group_that_ignores_everything_ends_with_its_killed_program() {
    let stage = Stage::new(1);
    let file = Flock::new("killed");
    let words = [
        "run",
        "--ttl",
        "2s",
        "a",
        "--",
        "python3",
        "-c",
        STUBBORN,
        file.path(),
    ];
    let mut command = quorlock(&stage.nodes, &words);
    command.process_group(0);
    let mut run = Running::of(command);
    run.until("ready");
    let next = client(&stage).lock("a").wait(None);
    // All of its own group, to which neither the command nor the warden belongs.
    // SAFETY: a plain system call; the program was not waited for, so the number is its group's.
    assert_eq!(unsafe { libc::kill(-run.pid(), libc::SIGKILL) }, 0);
    // Not before the group is gone.
    let lease = blocking::wait(next.acquire()).expect("it ends by its ttl");
    file.wait();
    assert!(lease.is_held());
    run.end();
}

#[test]
fn a_program_that_is_stopped_does_not_leave_its_command_without_a_lock() {
    let stage = Stage::new(1);
    let file = Flock::new("stopped");
    let words = [
        "run",
        "--ttl",
        "2s",
        "--json",
        "-",
        "a",
        "--",
        "python3",
        "-c",
        STUBBORN,
        file.path(),
    ];
    let mut run = Running::new(&stage.nodes, &words);
    run.until("ready");
    run.signal(libc::SIGSTOP);
    file.wait();
    // It still holds the key, so the command has ended before.
    let found = blocking::wait(client(&stage).inspect("a")).expect("a name");
    assert_eq!(found.verdict(), Verdict::Held, "{found}");
    run.signal(libc::SIGCONT);
    let (status, rest) = run.end();
    assert_eq!(status.code(), Some(76), "{rest}");
    assert!(rest.contains(r#""child":137"#), "{rest}");
}
