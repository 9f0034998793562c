//! A second process that ends the command where this one no longer can: because it was
//! killed, or stopped, or the command got it out of the way.
//!
//! It is forked before there is any thread, knows the command's process group and until when
//! the lock lasts by a page of memory that both have, and sees by the end of a pipe that this
//! process is gone. It has nothing to do as long as all goes well: a lock that is renewed has
//! its end moved on before it is there.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{self, Alarm};

/// How often a group is looked at that was asked to end: nothing reports its end.
const LOOK: Duration = Duration::from_millis(20);

/// What the two processes share.
#[derive(Debug)]
struct Page {
    /// As `kill` takes it: a process, or the negative of a group. 0: nothing is to be ended.
    whom: AtomicI32,
    /// On [`clock::now`], in ns.
    kill_at: AtomicU64,
    /// It was too late, and the command was killed.
    killed: AtomicBool,
}

/// The handle by which a command lets the warden know. Dropped, it lets the warden go.
#[derive(Debug)]
pub struct Warden {
    page: &'static Page,
    pipe: PipeWriter,
}

impl Warden {
    /// Forks the warden. To be called while this process has one thread.
    pub fn new() -> io::Result<Warden> {
        let page = shared()?;
        let (reader, writer) = io::pipe()?;
        // SAFETY: there is one thread, so the child may do whatever this process may.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(writer);
                // A panic must not go on as this program.
                let _ = std::panic::catch_unwind(|| watch(page, &reader));
                // SAFETY: what exit handlers there are belong to the other process.
                unsafe { libc::_exit(0) }
            }
            _ => Ok(Warden { page, pipe: writer }),
        }
    }

    /// The command, and when it is to be killed unless something else is said until then.
    pub fn guard(&self, whom: i32, kill_at: Duration) {
        let nanos = u64::try_from(kill_at.as_nanos()).unwrap_or(u64::MAX);
        self.page.kill_at.store(nanos, Ordering::SeqCst);
        if self.page.whom.swap(whom, Ordering::SeqCst) != whom {
            // Without it there would be no second look; a full pipe is as good.
            let _ = (&self.pipe).write(&[0]);
        }
    }
}

impl Warden {
    /// Whether the command was killed, since nothing else was said in time.
    pub fn has_killed(&self) -> bool {
        self.page.killed.load(Ordering::SeqCst)
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        self.page.whom.store(0, Ordering::SeqCst);
    }
}

/// A page of zeros that a forked child has, too.
fn shared() -> io::Result<&'static Page> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, which is never unmapped; all zeros are a valid page.
    unsafe {
        let page = libc::mmap(ptr::null_mut(), size_of::<Page>(), access, kind, -1, 0);
        if page == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(&*page.cast())
        }
    }
}

/// The warden's life.
fn watch(page: &Page, pipe: &PipeReader) {
    apart();
    let mut alarm = Alarm::new();
    let mut alone = false;
    loop {
        let whom = page.whom.load(Ordering::SeqCst);
        if alone && (whom == 0 || is_gone(whom)) {
            return;
        }
        let kill_at = Duration::from_nanos(page.kill_at.load(Ordering::SeqCst));
        let now = clock::now();
        if whom != 0 && now >= kill_at {
            page.killed
                .store(send(whom, libc::SIGKILL), Ordering::SeqCst);
            page.whom.store(0, Ordering::SeqCst);
            continue;
        }
        let left = match whom {
            0 => Duration::MAX,
            _ => kill_at - now,
        };
        if alone {
            alarm.wait(&[], left.min(LOOK));
            continue;
        }
        alarm.wait(&[pipe.as_raw_fd()], left);
        if has_ended(pipe) {
            alone = true;
            let whom = page.whom.load(Ordering::SeqCst);
            if whom != 0 {
                send(whom, libc::SIGTERM);
                // A process that is stopped could not end.
                send(whom, libc::SIGCONT);
            }
        }
    }
}

/// Out of the way of signals that are meant for the others, and of a reader that waits for the end
/// of an output.
fn apart() {
    // SAFETY: plain system calls.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::chdir(c"/".as_ptr());
    }
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        for fd in 0..3 {
            // SAFETY: plain system call on a descriptor that is open.
            unsafe { libc::dup2(null.as_raw_fd(), fd) };
        }
    }
}

/// Reads what came; whether the other end is closed, which only the end of its process does.
fn has_ended(pipe: &PipeReader) -> bool {
    let mut bytes = [0_u8; 64];
    let mut poll = libc::pollfd {
        fd: pipe.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: a single valid pollfd, and room for what is read.
    unsafe {
        libc::poll(&mut poll, 1, 0) == 1
            && libc::read(pipe.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) == 0
    }
}

/// The number stands for the same group as long as there is a process in it. Whether any of them
/// was sent the signal: those of another user may not be signalled.
fn send(whom: i32, signal: i32) -> bool {
    // SAFETY: a plain system call.
    unsafe { libc::kill(whom, signal) == 0 }
}

fn is_gone(whom: i32) -> bool {
    !send(whom, 0) && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}
