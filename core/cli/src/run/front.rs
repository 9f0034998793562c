//! The process that a shell at a terminal sees. It stops when the command has stopped, as by Ctrl-Z,
//! so that the shell has its terminal again; another one, which holds the lock, goes on renewing it.
//! Ctrl-Z itself does not stop it: a command may take that for something else, and where it does
//! stop, the shell may have the job go on as soon as it sees this process stopped.
//!
//! It is there wherever there is a terminal to give back. It forks the other one, the worker,
//! before there is any thread, and hands on the signals that are sent to it alone: those of the
//! terminal go to both. The worker is killed with it, and then the warden ends the command, as where
//! there is one process only.

use std::fs::File;
use std::io::{self, PipeReader};
use std::thread;
use std::time::Duration;

use super::child;
use crate::events::{Event, Events};

/// What a process is after [`split`].
#[derive(Debug)]
pub enum Side {
    /// The process that holds the lock, and what it has of the front, if there is a front.
    Worker(Option<Front>),
    /// The process that the shell sees, once the worker has ended with this code.
    Front(i32),
}

/// What a worker has of the process that the shell sees.
#[derive(Debug)]
pub struct Front {
    pid: i32,
    /// Ends with that process.
    life: Option<PipeReader>,
}

/// Splits this process where it has a terminal. To be called while it has one thread.
pub fn split() -> io::Result<Side> {
    if !has_terminal() {
        return Ok(Side::Worker(None));
    }
    let (life, alive) = io::pipe()?;
    let pid = std::process::id().cast_signed();
    // SAFETY: there is one thread, so the child may do whatever this process may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(alive);
            let life = Some(life);
            Ok(Side::Worker(Some(Front { pid, life })))
        }
        worker => {
            drop(life);
            let code = stand(worker)?;
            drop(alive);
            Ok(Side::Front(code))
        }
    }
}

impl Front {
    /// The process that its user knows.
    pub fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// From here on this process ends with the front. To be called once it may have threads.
    pub fn die_with_it(&mut self) -> io::Result<()> {
        let Some(mut life) = self.life.take() else {
            return Ok(());
        };
        let watch = move || {
            // Nothing is ever written there.
            let _ = io::copy(&mut life, &mut io::sink());
            // SAFETY: plain system calls.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        };
        thread::Builder::new().spawn(watch).map(drop)
    }

    /// Stops the front, so that the shell has its terminal again; not where no shell would have it
    /// go on: the kernel lets a group without one go on.
    pub fn stop(&self) {
        self.signal(STOP);
    }

    /// Has the front go on.
    pub fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, number: i32) {
        // SAFETY: a plain system call; this process ends with that one, so the number is its own.
        unsafe { libc::kill(self.pid, number) };
    }
}

/// A worker that was stopped with the command could not end with it.
impl Drop for Front {
    fn drop(&mut self) {
        self.go_on();
    }
}

/// What stops the front. It is not Ctrl-Z's, which the front catches; and the front writes nothing,
/// for which the kernel would send it.
const STOP: i32 = libc::SIGTTOU;

fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// The front's life: until the worker has ended, and with which code.
fn stand(worker: i32) -> io::Result<i32> {
    // SAFETY: a plain system call; whatever this process was started to ignore.
    unsafe { libc::signal(STOP, libc::SIG_DFL) };
    let mut events = Events::new()?;
    loop {
        // The first process of a container is left all orphans when the worker ends.
        while let Some((pid, status)) = child::next_change() {
            if pid == worker && libc::WIFSTOPPED(status) {
                // It stops by itself where there is no command so far. SAFETY: a plain system call.
                unsafe { libc::raise(STOP) };
            } else if pid == worker && !libc::WIFCONTINUED(status) {
                return Ok(child::code(status));
            }
        }
        // What was typed has gone to the worker as well.
        if let Event::Signal {
            number,
            typed: false,
        } = events.next(Duration::MAX)
            && number != libc::SIGCHLD
        {
            // SAFETY: a plain system call; the worker was not waited for, so the number is its own.
            unsafe { libc::kill(worker, number) };
        }
    }
}
