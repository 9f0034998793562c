//! `quorlock run` where its log is read by nothing, and where the command may not be ended.

#![cfg(target_os = "linux")]

mod program;

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::time::Duration;

use program::{AWAITS_USR1, Flock, Running, STUBBORN, quorlock};
use quorlock::{Client, ErrorKind as Kind, blocking};
use quorlock_tests::Stage;

/// A pipe that takes nothing more.
fn full() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = io::pipe().expect("a pipe");
    let wait = |flags: i32| {
        // SAFETY: a plain system call on a descriptor that is open.
        assert!(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, flags) } >= 0);
    };
    wait(libc::O_NONBLOCK);
    let end = loop {
        if let Err(error) = (&writer).write(&[b'.'; 512]) {
            break error;
        }
    };
    assert_eq!(end.kind(), ErrorKind::WouldBlock);
    wait(0);
    writer.flush().expect("it has no buffer");
    (reader, writer)
}

/// It runs with such a pipe for its lines and its objects.
fn unread(stage: &Stage, words: &[&str]) -> (Running, PipeReader) {
    let (reader, writer) = full();
    let words = [&["run", "--json", "/dev/stderr"], words].concat();
    let mut command = quorlock(&stage.nodes, &words);
    command.stderr(writer);
    (Running::of(command), reader)
}

#[test]
fn a_command_ends_before_its_lock_though_nothing_reads_the_log() {
    let stage = Stage::new(3);
    let file = Flock::new("unread");
    let stubborn = ["python3", "-c", STUBBORN, file.path()];
    let words = [&["--print-wait", "a", "--"], &stubborn[..]].concat();
    let (mut run, _reader) = unread(&stage, &words);
    run.until("ready");
    stage.tell("stop all");
    file.wait();
    let (status, _) = run.end();
    stage.tell("cont all");
    assert_eq!(status.code(), Some(76));
}

#[test]
fn a_log_that_nothing_reads_ends_no_healthy_command() {
    let stage = Stage::new(3);
    let script = "echo $$; kill -STOP $$; exit 5";
    let words = ["--ttl", "5s", "a", "--", "sh", "-c", script];
    let (mut run, mut reader) = unread(&stage, &words);
    let pid: i32 = run.until("").trim().parse().expect("a process id");
    // Its lock is held beyond the ttl, while a warning would say that the command is stopped.
    let other = Client::new(&stage.nodes).expect("the nodes of a stage");
    let next = other.lock("a").wait(Duration::from_secs(7));
    let error = blocking::wait(next.acquire()).expect_err("it is held");
    assert_eq!(error.kind(), Kind::Timeout, "{error}");
    // SAFETY: a plain system call; the command is waited for when it has gone on.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGCONT) }, 0);
    let mut said = Vec::new();
    reader.read_to_end(&mut said).expect("it can be read");
    assert_eq!(run.end().0.code(), Some(5));
}

/// Has the kernel refuse TERM and KILL that this process, and what it starts, sends; as for a
/// command that has become another user.
fn refuse_to_end() -> io::Result<()> {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let (load, jump, end) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    // The number of the call, and the lower half of its second argument.
    let mut steps = [
        step(load, 0, 0, 0),
        step(jump, 0, 4, libc::SYS_kill as u32),
        step(load, 0, 0, 24),
        step(jump, 1, 0, libc::SIGTERM as u32),
        step(jump, 0, 1, libc::SIGKILL as u32),
        step(end, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(end, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: plain system calls with a valid filter.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) == 0
    };
    if set {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[test]
fn a_command_that_may_not_be_ended_is_told_at_once_and_not_as_killed() {
    let stage = Stage::new(3);
    let awaits = ["python3", "-c", AWAITS_USR1];
    let words = [
        &["run", "--json", "-", "--max-hold", "3s", "a", "--"],
        &awaits[..],
    ];
    let mut command = quorlock(&stage.nodes, &words.concat());
    // SAFETY: between fork and exec it makes system calls only.
    unsafe { command.pre_exec(refuse_to_end) };
    let mut run = Running::of(command);
    run.until(r#"{"event":"ending","reason":"max_hold","stopped":false,"nodes":[]}"#);
    run.until(r#"{"event":"not_permitted","signal":15}"#);
    run.until(r#"{"event":"not_permitted","signal":9}"#);
    // Two processes write these lines, in either order.
    if !run.seen.iter().any(|line| line == "ready\n") {
        run.until("ready");
    }
    run.signal(libc::SIGTERM);
    run.until(r#"{"event":"not_permitted","signal":15}"#);
    // It goes on, and obeys what may be sent to it.
    run.signal(libc::SIGUSR1);
    let (_, rest) = run.end();
    let said = run.stderr();
    // The lock may have ended meanwhile.
    assert!(rest.contains(r#""child":5"#), "{rest} {said}");
    assert!(said.contains("may not be ended"), "{said}");
    assert!(said.contains("cannot be killed"), "{said}");
    assert!(!said.contains(": killed"), "{said}");
}
