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
    /// A signal came; `typed`: from the terminal, whose whole group has got it.
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
        for signal in CAUGHT {
            catch(signal)?;
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
            self.bell.rung.store(false, Ordering::Release);
            let mut bytes = [0; 64];
            let read = self.pipe.read(&mut bytes).unwrap_or(0);
            self.arrived.extend(&bytes[..read]);
        }
        match self.arrived.pop_front() {
            None | Some(0) => Event::Look,
            Some(byte) => Event::Signal {
                number: (byte & !TYPED).into(),
                typed: byte & TYPED != 0,
            },
        }
    }

    fn wait(&mut self, most: Duration) {
        // A signal interrupts it, and its byte is read then.
        self.alarm.wait(&[self.pipe.as_raw_fd(), self.input], most);
    }
}

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
            // One who does not see its children end waits for them forever.
            || signal == libc::SIGCHLD
                && libc::sigaction(signal, &action, std::ptr::null_mut()) != 0
    };
    match failed {
        true => Err(io::Error::last_os_error()),
        false => Ok(()),
    }
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives valid information; `write` may be called in a handler, and
    // errno is put back for the code that was interrupted.
    unsafe {
        let errno = errno();
        let kept = *errno;
        // From the kernel itself, that is from the terminal; `kill` has zero or less.
        let typed = if (*info).si_code > 0 { TYPED } else { 0 };
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
