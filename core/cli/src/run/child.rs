//! The command as a process: its start, its process group, its end.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::exit::{self, Failure};

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
    Ended(i32),
}

impl Child {
    /// Starts a command. From the main thread: where the kernel tells a child of its
    /// parent's death, it means the thread that has started it.
    pub fn start(
        words: &[OsString],
        environment: &[(&str, OsString)],
        foreground: bool,
    ) -> Result<Child, Failure> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(Failure::new(exit::USAGE, "there is no command to run"));
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(environment.iter().map(|(k, v)| (k, v)));
        if !foreground {
            command.process_group(0);
        }
        #[cfg(target_os = "linux")]
        {
            adopt_orphans();
            end_with_parent(&mut command);
        }
        match command.spawn() {
            Ok(child) => Ok(Child {
                // What the kernel gives fits.
                pid: child.id() as i32,
                grouped: !foreground,
                code: None,
            }),
            Err(e) => {
                let code = match e.kind() {
                    ErrorKind::NotFound => exit::NOT_FOUND,
                    _ => exit::NOT_RUNNABLE,
                };
                let message = format!("cannot run {}: {e}", program.to_string_lossy());
                Err(Failure::new(code, message))
            }
        }
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What has become of it; waits for nothing.
    pub fn look(&mut self) -> Option<Change> {
        if self.code.is_some() {
            return None;
        }
        let mut status = 0;
        // SAFETY: `status` is valid to write to.
        let pid = unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG | libc::WUNTRACED) };
        if pid != self.pid {
            return None;
        }
        if libc::WIFSTOPPED(status) {
            return Some(Change::Stopped);
        }
        let code = match libc::WIFSIGNALED(status) {
            true => exit::SIGNAL + libc::WTERMSIG(status),
            false => libc::WEXITSTATUS(status),
        };
        self.code = Some(code);
        Some(Change::Ended(code))
    }

    /// Sends a signal to its group, or to it alone where it has none of its own.
    pub fn signal(&self, number: i32) {
        if !self.is_gone() {
            // SAFETY: a plain system call. The number stands for this group as long as it
            // has a process, or one that was not waited for.
            unsafe { libc::kill(self.target(), number) };
        }
    }

    /// Whether it and its whole group have ended.
    pub fn is_gone(&self) -> bool {
        if self.code.is_none() {
            return false;
        }
        // What was left to this process has to be waited for: until then it is in the group.
        // SAFETY: a plain system call; beside it there is the warden, whose end is nobody's.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
        // SAFETY: a plain system call that sends nothing.
        let gone = || unsafe { libc::kill(self.target(), 0) } != 0;
        !self.grouped || gone() && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
    }

    /// As `kill` takes it.
    pub fn target(&self) -> i32 {
        if self.grouped { -self.pid } else { self.pid }
    }
}

/// Makes this process the parent of what the command leaves behind: its end is seen then, also
/// in a container whose first process waits for nobody. Without, the end is seen later.
#[cfg(target_os = "linux")]
fn adopt_orphans() {
    // SAFETY: a plain system call.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Asks the kernel to send TERM to the child when this process dies, so that KILL leaves no
/// orphan whose lock nobody renews.
#[cfg(target_os = "linux")]
fn end_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: between fork and exec it makes system calls only.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) != 0 {
                return Err(io::Error::last_os_error());
            }
            // It may have died before the kernel knew.
            if libc::getppid() as u32 != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}
