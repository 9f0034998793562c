//! The library's own threads. Signals are the program's: they are blocked in every one of
//! these, so that none is taken, or ends the process, where the program does not expect it.

use std::io;
use std::thread::{Builder, JoinHandle};

use crate::mutants::mutant;

/// Starts a thread of that name.
pub(crate) fn start(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    without_signals(|| Builder::new().name(name.into()).spawn(work))
}

/// Does what blocks on a thread of that name, which ends with it. A thread that is not to be
/// had is an error of this call alone.
pub(crate) async fn aside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (tell, told) = tokio::sync::oneshot::channel();
    start(name, move || drop(tell.send(work())))?;
    told.await
        .map_err(|_| io::Error::other(format!("the thread {name} has panicked")))
}

/// Runs what starts a thread, which inherits that signals are blocked: there is no moment
/// at which it takes one. Those that tell of a mistake of the thread itself stay as they are.
pub(crate) fn without_signals<T>(starts: impl FnOnce() -> T) -> T {
    let _blocked = mutant!(
        "threads-take-signals",
        Some(Blocked::now()),
        None::<Blocked>
    );
    starts()
}

/// Blocks the calling thread's signals until it is dropped.
#[cfg(unix)]
struct Blocked(libc::sigset_t);

#[cfg(unix)]
impl Blocked {
    fn now() -> Blocked {
        use libc::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
        // SAFETY: the sets are valid for the calls, and all zeros is a valid one. None of the
        // calls can fail with these arguments.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            for fault in [SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP] {
                libc::sigdelset(&mut all, fault);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
            Blocked(before)
        }
    }
}

#[cfg(unix)]
impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is the one that the thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// Elsewhere there are no such signals.
#[cfg(not(unix))]
struct Blocked;

#[cfg(not(unix))]
impl Blocked {
    fn now() -> Blocked {
        Blocked
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Which signals the calling thread blocks.
    fn blocked() -> Vec<i32> {
        // SAFETY: all zeros is a valid set, which the call fills.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is valid for the call, which changes nothing.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut set) };
        // SAFETY: the set is valid, and so are these numbers.
        (1..32)
            .filter(|signal| unsafe { libc::sigismember(&set, *signal) } == 1)
            .collect()
    }

    #[test]
    fn signals_are_blocked_where_a_thread_starts_and_nowhere_else() {
        let here = blocked();
        let (told, hears) = std::sync::mpsc::channel();
        let thread = start("quorlock-test", move || told.send(blocked()).unwrap());
        assert_eq!(blocked(), here);
        let there = hears.recv().unwrap();
        thread.unwrap().join().unwrap();
        for signal in [
            libc::SIGHUP,
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGUSR1,
            libc::SIGCHLD,
        ] {
            assert!(there.contains(&signal), "{signal} is taken");
        }
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE] {
            assert!(!there.contains(&fault), "{fault} is blocked");
        }
        // What was blocked before stays so.
        let nested = without_signals(|| without_signals(blocked) == blocked());
        assert!(nested);
    }
}
