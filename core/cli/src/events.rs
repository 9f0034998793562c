//! What the main thread waits for: signals, wakers of futures, and time.
//!
//! Signal handlers and wakers write to one pipe, whose other end the main thread polls: it
//! sees all in one place and holds no lock in a handler.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::clock::Alarm;

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A signal came; `typed`: by a key of the terminal, whose whole group has got it.
    Signal { number: i32, typed: bool },
    /// A future may go on, or the time is over.
    Look,
}

/// Caught: all that is handed on, and the end of a child.
const CAUGHT: [i32; 10] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGCONT,
    // It would stop the renewals, and with them the lock.
    libc::SIGTSTP,
    libc::SIGCHLD,
];

/// What stops the whole group of a command that asks for its terminal from the background.
const STOPS_OF_GROUPS: [i32; 2] = [libc::SIGTTIN, libc::SIGTTOU];

/// Bytes on the pipe: 0 for a waker, else a signal, with this bit if it was typed.
const TYPED: u8 = 0x80;

/// The write end, for signal handlers.
static PIPE: AtomicI32 = AtomicI32::new(-1);

pub struct Events {
    pipe: PipeReader,
    bell: Arc<Bell>,
    waker: Waker,
    arrived: VecDeque<u8>,
    alarm: Alarm,
    /// Ends a wait, too, when there is something to read; negative for none.
    input: RawFd,
}

struct Bell {
    pipe: PipeWriter,
    rung: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // A full pipe wakes as well.
            let _ = (&self.pipe).write(&[0]);
        }
    }
}

impl Events {
    /// Catches the signals of this process. Those that it was started to ignore, as by
    /// `nohup`, stay ignored.
    pub fn new() -> io::Result<Events> {
        Events::of(&CAUGHT)
    }

    /// The same of a process that reads no terminal, so that no other's reading stops it.
    pub fn of_a_worker() -> io::Result<Events> {
        Events::of(&[&CAUGHT[..], &STOPS_OF_GROUPS].concat())
    }

    fn of(caught: &[i32]) -> io::Result<Events> {
        let (reader, writer) = io::pipe()?;
        for fd in [reader.as_raw_fd(), writer.as_raw_fd()] {
            // SAFETY: plain system calls on a descriptor that is ours.
            let set = unsafe {
                let flags = libc::fcntl(fd, libc::F_GETFL);
                libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK)
            };
            if set < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        PIPE.store(writer.as_raw_fd(), Ordering::Release);
        for signal in caught {
            catch(*signal)?;
        }
        let bell = Arc::new(Bell {
            pipe: writer,
            rung: AtomicBool::new(false),
        });
        Ok(Events {
            pipe: reader,
            waker: Waker::from(bell.clone()),
            bell,
            arrived: VecDeque::new(),
            alarm: Alarm::new(),
            input: -1,
        })
    }

    /// From now on a wait ends, too, when there is something to read there.
    pub fn watch_input(&mut self, input: RawFd) {
        self.input = input;
    }

    /// Polls a future; it wakes [`next`](Events::next).
    pub fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(&self.waker))
    }

    /// The next event, at the latest after `most`. May come early for nothing.
    pub fn next(&mut self, most: Duration) -> Event {
        if self.arrived.is_empty() {
            self.wait(most);
            self.read();
        }
        match self.arrived.pop_front() {
            None | Some(0) => Event::Look,
            Some(byte) => Event::Signal {
                number: (byte & !TYPED).into(),
                typed: byte & TYPED != 0,
            },
        }
    }

    /// Takes signals that have come until now as sent to this process alone: those that were typed
    /// before there was a command, or before it had its own handlers, have not reached that.
    pub fn as_sent(&mut self) {
        self.read();
        self.arrived.iter_mut().for_each(|byte| *byte &= !TYPED);
    }

    /// Reads what has come. A waker that rings from here on writes anew.
    fn read(&mut self) {
        self.bell.rung.store(false, Ordering::Release);
        let mut bytes = [0; 64];
        while let Ok(read) = self.pipe.read(&mut bytes)
            && read > 0
        {
            self.arrived.extend(&bytes[..read]);
        }
    }

    fn wait(&mut self, most: Duration) {
        // A signal interrupts it, and its byte is read then.
        self.alarm.wait(&[self.pipe.as_raw_fd(), self.input], most);
    }
}

/// Stops this process as Ctrl-Z would if that were not caught, until a shell lets it go on. Where
/// there is no such shell the kernel does not stop it.
pub fn stop_here() {
    // SAFETY: plain system calls; the handler is put back at once.
    unsafe {
        libc::signal(libc::SIGTSTP, libc::SIG_DFL);
        libc::raise(libc::SIGTSTP);
    }
    // It was caught before, so it can be.
    let _ = catch(libc::SIGTSTP);
}

/// Catches a signal, unless this process was started to ignore it.
fn catch(signal: i32) -> io::Result<()> {
    // SAFETY: all zeros is a valid sigaction, of the default handler, without flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: as above; it is written to.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: both are valid sigactions; the handler only does what a handler may.
    let failed = unsafe {
        libc::sigaction(signal, std::ptr::null(), &mut before) != 0
            || before.sa_sigaction != libc::SIG_IGN
                && libc::sigaction(signal, &action, std::ptr::null_mut()) != 0
            // A program that does not see its children end waits for them forever.
            || signal == libc::SIGCHLD
                && libc::sigaction(signal, &action, std::ptr::null_mut()) != 0
    };
    if failed {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives valid information; `write` may be called in a handler, and
    // errno is put back for the code that was interrupted.
    unsafe {
        let errno = errno();
        let kept = *errno;
        // From the kernel itself, that is from the terminal; `kill` has zero or less. Where the
        // terminal goes, the kernel tells the first process of the session alone.
        let typed = (*info).si_code > 0 && signal != libc::SIGHUP;
        let typed = if typed { TYPED } else { 0 };
        let byte = signal as u8 | typed;
        libc::write(PIPE.load(Ordering::Acquire), (&raw const byte).cast(), 1);
        *errno = kept;
    }
}

#[cfg(target_os = "linux")]
unsafe fn errno() -> *mut i32 {
    // SAFETY: always valid, for the calling thread.
    unsafe { libc::__errno_location() }
}

#[cfg(not(target_os = "linux"))]
unsafe fn errno() -> *mut i32 {
    // SAFETY: always valid, for the calling thread.
    unsafe { libc::__error() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_before_the_command_is_handed_on_and_what_is_typed_later_is_not() {
        let mut events = Events::of(&[]).expect("a pipe");
        let typed = |events: &Events| {
            let byte = libc::SIGINT as u8 | TYPED;
            (&events.bell.pipe).write_all(&[byte]).expect("it has room");
        };
        let int = |typed| Event::Signal {
            number: libc::SIGINT,
            typed,
        };
        typed(&events);
        events.as_sent();
        typed(&events);
        assert_eq!(events.next(Duration::MAX), int(false));
        assert_eq!(events.next(Duration::MAX), int(true));
    }

    #[test]
    fn a_waker_rings_again_behind_what_was_read() {
        let mut events = Events::of(&[]).expect("a pipe");
        for _ in 0..2 {
            events.waker.wake_by_ref();
            events.as_sent();
            assert_eq!(events.arrived.pop_front(), Some(0));
        }
    }
}
