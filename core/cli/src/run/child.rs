//! The command as a process: its start, its process group, its end.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;

use libc::EPERM;

use crate::exit::{self, Failure};
use crate::start;

/// A command that was started.
#[derive(Debug)]
pub struct Child {
    pid: i32,
    /// Whether it leads a process group.
    grouped: bool,
    /// What it ended with, as a shell has it; `None` while it runs.
    pub code: Option<i32>,
}

/// What became of a child since the last look.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    Stopped,
    /// It was stopped, and goes on.
    Continued,
    Ended(i32),
}

impl Child {
    /// Starts a command, with these variables and without those. From the main thread: where the kernel tells a child of its
    /// parent's death, it means the thread that has started it.
    pub fn start(
        words: &[OsString],
        environment: &[(&str, OsString)],
        without: &[&str],
        foreground: bool,
    ) -> Result<Child, Failure> {
        let mut command = start::command(words)?;
        for name in without {
            command.env_remove(name);
        }
        command.envs(environment.iter().map(|(k, v)| (k, v)));
        if !foreground {
            command.process_group(0);
        }
        #[cfg(target_os = "linux")]
        adopt_orphans();
        start::end_with_parent(&mut command, libc::SIGTERM);
        let child = start::spawn(&mut command, words)?;
        Ok(Child {
            // What the kernel gives fits.
            pid: child.id() as i32,
            grouped: !foreground,
            code: None,
        })
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What has become of it; waits for nothing. What else has ended and was left to this process,
    /// as the first of a container is left all orphans, is waited for.
    pub fn look(&mut self) -> Option<Change> {
        let mut change = None;
        while let Some((pid, status)) = next_change() {
            // The number of a child that was waited for may be another's by now.
            if pid != self.pid || self.code.is_some() {
                continue;
            }
            change = Some(if libc::WIFSTOPPED(status) {
                Change::Stopped
            } else if libc::WIFCONTINUED(status) {
                Change::Continued
            } else {
                let code = code(status);
                self.code = Some(code);
                Change::Ended(code)
            });
        }
        change
    }

    /// Sends a signal to its group, or to it alone where it has none of its own. Whether
    /// none of them may be signalled by this process, as where they have another user.
    pub fn signal(&self, number: i32) -> bool {
        // SAFETY: a plain system call. The number stands for this group as long as it has a
        // process, or a process that was not waited for.
        !self.is_gone() && unsafe { libc::kill(self.target(), number) } != 0 && errno() == EPERM
    }

    /// Whether all that is left of it may not be signalled by this process.
    pub fn is_out_of_reach(&self) -> bool {
        self.signal(0)
    }

    /// Whether it and its whole group have ended.
    pub fn is_gone(&self) -> bool {
        if self.code.is_none() {
            return false;
        }
        // What was left to this process has to be waited for: until then it is in the group.
        reap();
        // SAFETY: a plain system call that sends nothing.
        let gone = || unsafe { libc::kill(self.target(), 0) } != 0 && errno() == libc::ESRCH;
        !self.grouped || gone()
    }

    /// As `kill` takes it.
    pub fn target(&self) -> i32 {
        if self.grouped { -self.pid } else { self.pid }
    }
}

/// Waits for all that has ended, beside a command that was not started or has ended.
pub fn reap() {
    while next_change().is_some() {}
}

/// A child that has ended, was stopped or goes on, and how; without a wait. Beside the command
/// there is the warden, whose end tells nothing, and what was left to this process.
pub fn next_change() -> Option<(i32, i32)> {
    let mut status = 0;
    let kinds = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
    // SAFETY: `status` is valid to write to.
    let pid = unsafe { libc::waitpid(-1, &mut status, kinds) };
    (pid > 0).then_some((pid, status))
}

/// What a process that has ended with this status ended with, as a shell has it.
pub fn code(status: i32) -> i32 {
    if libc::WIFSIGNALED(status) {
        exit::SIGNAL + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    }
}

/// Why the last system call of this thread failed.
fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Makes this process the parent of what the command leaves behind: its end is seen then, also in a
/// container whose first process waits for none of its children. Without, the end is seen later.
#[cfg(target_os = "linux")]
fn adopt_orphans() {
    // SAFETY: a plain system call.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}
