//! Starting a program, with the errors and exit codes of a shell.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};

use crate::exit::{self, Failure};
use crate::given;

/// The command of these words.
pub fn command(words: &[OsString]) -> Result<Command, Failure> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::new(exit::USAGE, "there is no command to run"));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Starts it. What it was made of is named where that fails.
pub fn spawn(command: &mut Command, words: &[OsString]) -> Result<Child, Failure> {
    command.spawn().map_err(|e| {
        let code = match e.kind() {
            ErrorKind::NotFound => exit::NOT_FOUND,
            _ => exit::NOT_RUNNABLE,
        };
        let program = words.first().map(|word| given::program(word));
        let message = format!("cannot run {}: {e}", program.unwrap_or_default());
        Failure::new(code, message)
    })
}

/// What it ended with, as a shell has it.
pub fn code(status: ExitStatus) -> i32 {
    match status.signal() {
        Some(number) => exit::SIGNAL + number,
        None => status.code().unwrap_or(exit::BUG),
    }
}

/// Asks the kernel to send a signal to the child when this process dies, so that KILL leaves
/// nothing behind. To be spawned from the main thread: the kernel means the thread.
#[cfg(target_os = "linux")]
pub fn end_with_parent(command: &mut Command, signal: i32) {
    use std::io;
    use std::os::unix::process::CommandExt;

    let parent = std::process::id();
    // SAFETY: between fork and exec it makes system calls only.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, signal) != 0 {
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

#[cfg(not(target_os = "linux"))]
pub fn end_with_parent(_: &mut Command, _: i32) {}
