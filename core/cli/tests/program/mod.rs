//! The program as a process, against real servers.

#![allow(dead_code, unreachable_pub)] // Each test has all of it, and uses some.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

/// A command that says when it runs, and then runs until it is ended.
pub const ENDLESS: &str = "echo ready; exec tail -f /dev/null";

/// What a run has left.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// The program with these nodes and arguments; nothing of this process's environment names
/// any others.
pub fn quorlock(nodes: &[String], words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorlock"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("QUORLOCK_")) {
        command.env_remove(name);
    }
    command
        .args(words)
        .env("QUORLOCK_NODES", nodes.join(","))
        // Machines that run tests are busy.
        .env("QUORLOCK_NODE_TIMEOUT", "2s")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // What is ignored here, as in the background of a shell, would stay so there.
    // SAFETY: `signal` may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            leave_terminal();
            for number in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
                libc::signal(number, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    command
}

/// With a terminal the program is two processes, and its own tests see to that.
fn leave_terminal() {
    // SAFETY: plain system calls, which do nothing where there is no terminal.
    unsafe {
        let terminal = libc::open(c"/dev/tty".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if terminal >= 0 {
            libc::ioctl(terminal, libc::TIOCNOTTY);
            libc::close(terminal);
        }
    }
}

/// Runs it to its end.
pub fn done(nodes: &[String], words: &[&str]) -> Done {
    let output = quorlock(nodes, words).output().expect("it runs");
    Done {
        code: output.status.code().expect("it ends by itself"),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A command that runs, and whose output is read line by line.
pub struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    pub seen: Vec<String>,
}

impl Running {
    pub fn new(nodes: &[String], words: &[&str]) -> Running {
        Running::of(quorlock(nodes, words))
    }

    /// The same of a command that was changed.
    pub fn of(mut command: Command) -> Running {
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        Running {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// Reads until a line holds this; returns that line.
    pub fn until(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).expect("UTF-8");
            if read == 0 {
                let said = self.stderr();
                panic!("no `{text}` in {:?}, {said}", self.seen);
            }
            self.seen.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// The same of what it says to people, in a line that is read no further.
    pub fn until_error(&mut self, text: &str) {
        let mut said = String::new();
        let stderr = self.child.stderr.as_mut().expect("piped");
        let mut byte = [0];
        while !said.ends_with(text) {
            assert_eq!(
                stderr.read(&mut byte).expect("it can be read"),
                1,
                "no `{text}` in {said}"
            );
            said.push(byte[0].into());
        }
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn signal(&self, number: i32) {
        // SAFETY: a plain system call; the child was not waited for, so the number is its own.
        assert_eq!(unsafe { libc::kill(self.pid(), number) }, 0);
    }

    /// The same, at the latest after a time in which it has long ended.
    pub fn end_soon(&mut self) -> ExitStatus {
        for _ in 0..3000 {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status;
            }
            quorlock_tests::nap(std::time::Duration::from_millis(20));
        }
        panic!("it does not end; {:?}", self.seen);
    }

    /// Its end, and the rest of its standard output: until no process can write to it.
    pub fn end(&mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).expect("UTF-8");
        (self.child.wait().expect("it ends"), rest)
    }

    /// What it said to people, after its end.
    pub fn stderr(&mut self) -> String {
        let mut text = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            let _ = stderr.read_to_string(&mut text);
        }
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that ends with 5 at USR1. One process, so that no other can miss the signal.
pub const AWAITS_USR1: &str = "
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print('ready', flush=True)
signal.sigwait([signal.SIGUSR1])
sys.exit(5)";

/// A command that ignores TERM, as what it has started does, and holds a file as long as any of
/// them lives.
pub const STUBBORN: &str = "
import fcntl, os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
fcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
print('ready', flush=True)
os.fork()
while True:
    signal.pause()";

/// A lock file of a test, which no process holds at first.
pub struct Flock(std::path::PathBuf);

impl Flock {
    pub fn new(name: &str) -> Flock {
        let name = format!("quorlock-cli-{name}-{}", std::process::id());
        Flock(std::env::temp_dir().join(name))
    }

    pub fn path(&self) -> &str {
        self.0.to_str().expect("plain")
    }

    /// Waits until no process holds it.
    pub fn wait(&self) {
        let file = std::fs::File::open(&self.0).expect("the command has made it");
        // SAFETY: a plain system call on a descriptor that is open.
        assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0);
    }
}

impl Drop for Flock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
