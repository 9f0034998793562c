//! Starts the library's own threads. Signals are the program's: they are blocked in every one of
//! these, so that none is taken, or ends the process, where the program does not expect it. A
//! callback of the program's has the mask of the thread that gave it, while it runs.

use std::fmt;
use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread of that name.
pub(crate) fn start(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    without_signals(|| Builder::new().name(name.into()).spawn(work))
}

/// Does what blocks on a thread of that name, which ends with it. A thread that is not to be
/// had is an error of this call alone.
#[cfg_attr(not(feature = "tls"), allow(dead_code))]
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
/// at which it takes one. Those that tell of a mistake of the thread itself stay as they are:
/// handlers of crashes see them.
pub(crate) fn without_signals<T>(starts: impl FnOnce() -> T) -> T {
    let all = Mask::here().with_all_but_faults();
    all.over(starts)
}

/// Which signals a thread blocks.
#[derive(Clone, Copy)]
pub struct Mask(SignalSet);

#[cfg(unix)]
type SignalSet = libc::sigset_t;
/// Elsewhere there are no such signals.
#[cfg(not(unix))]
type SignalSet = ();

impl Mask {
    /// That of the calling thread.
    pub fn here() -> Mask {
        #[cfg(unix)]
        // SAFETY: all zeros is a valid set, and the call changes nothing but this one.
        unsafe {
            let mut set: SignalSet = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut set);
            Mask(set)
        }
        #[cfg(not(unix))]
        Mask(())
    }

    fn with_all_but_faults(self) -> Mask {
        #[cfg(unix)]
        {
            use libc::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
            let mut all = self;
            // SAFETY: the sets are valid for the calls, and so are these numbers.
            unsafe {
                libc::sigfillset(&mut all.0);
                for fault in [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP] {
                    if libc::sigismember(&self.0, fault) == 0 {
                        libc::sigdelset(&mut all.0, fault);
                    }
                }
            }
            all
        }
        #[cfg(not(unix))]
        self
    }

    /// Runs `work` under this mask.
    pub fn over<T>(self, work: impl FnOnce() -> T) -> T {
        struct MaskGuard(Mask);
        impl Drop for MaskGuard {
            fn drop(&mut self) {
                self.0.set();
            }
        }
        let _before = MaskGuard(self.set());
        work()
    }

    /// Makes it that of the calling thread, and returns the previous one.
    fn set(self) -> Mask {
        let before = self;
        #[cfg(unix)]
        let before = {
            let mut before = before;
            // SAFETY: the sets are valid for the call.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, &mut before.0) };
            before
        };
        before
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mask")
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
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGFPE] {
            assert!(!there.contains(&fault), "{fault} is blocked");
        }
        // A callback has the mask of the thread that gave it, and the thread its own again.
        let given = Mask::here();
        let (under, after) = without_signals(|| (given.over(blocked), blocked()));
        assert_eq!(under, here);
        assert!(after.contains(&libc::SIGTERM));
        // What was blocked before stays so.
        let nested = without_signals(|| without_signals(blocked) == blocked());
        assert!(nested);
    }
}
