//! The queue: how what was started reaches an event loop, on a thread of its own.
//!
//! The thread that drives the I/O puts what is done into a mailbox and writes one byte, if that
//! was empty; the loop's thread then takes all there is and runs the callbacks. The queue knows
//! calls and losses by what they put into it, and imports neither.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use quorlock_core::binding::{Mailbox, Revocation, lock, this_thread};
use quorlock_core::{Error, ErrorKind};

use crate::callback::{LossSlot, tell_loss};
use crate::error::quorlock_error_t;
use crate::handle::{self, Handle, Shareable};

/// Where an event loop hears what has come of calls that were started: a descriptor that
/// can be read while something is there, for poll, epoll, libuv or any other, and
/// quorlock_queue_dispatch(), which then runs the callbacks. May be used by all threads at
/// once. Free it with quorlock_queue_free().
pub struct quorlock_queue_t(pub(crate) Arc<Queue>);

impl Handle for quorlock_queue_t {
    const ANEW: &str = "queue";
}

impl Shareable for quorlock_queue_t {
    type Share = Arc<Queue>;

    fn share(&self) -> Arc<Queue> {
        self.0.clone()
    }
}

/// What the callbacks of one loop are called for, and the calls that it waits for.
pub(crate) struct Queue {
    pub(crate) news: Arc<Mailbox<News>>,
    bell: Arc<Bell>,
    calls: Mutex<Calls>,
    /// Rings when a callback has returned.
    idle: Condvar,
    numbers: AtomicU64,
}

#[derive(Default)]
struct Calls {
    /// The calls under way, by number. Each is taken out before its callback is called, so that the
    /// callback is called once.
    under_way: HashMap<u64, Call>,
    /// The threads that run a callback of the queue, each as often as it is within one.
    threads: Vec<usize>,
    closed: bool,
}

/// Calls the callback of a call. Dropped before that, it gives back what the call has won.
pub(crate) type Report = Box<dyn FnOnce() + Send>;

/// A call that is under way.
pub(crate) struct Call {
    /// Says that the queue was freed.
    pub(crate) give_up: Report,
    pub(crate) revocation: Option<Revocation>,
}

/// Something for the loop's thread.
pub(crate) enum News {
    /// The call of that number is over.
    Done(u64, Report),
    /// A lease is lost.
    Lost(Arc<LossSlot>, i32),
}

/// The time in which this thread runs a callback of the queue. A thread that frees the queue
/// meanwhile waits for its end.
struct Running<'a>(&'a Queue);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let here = this_thread();
        let mut calls = lock(&self.0.calls);
        if let Some(at) = calls.threads.iter().rposition(|thread| *thread == here) {
            calls.threads.remove(at);
        }
        drop(calls);
        self.0.idle.notify_all();
    }
}

/// Both ends live as long as either is used: a byte that no end is left to read would raise a
/// signal.
struct Bell {
    reader: Socket,
    writer: Socket,
}

#[cfg(unix)]
type Socket = std::os::unix::net::UnixStream;
#[cfg(windows)]
type Socket = std::net::TcpStream;

/// Two ends that are connected.
#[cfg(unix)]
fn pair() -> std::io::Result<(Socket, Socket)> {
    Socket::pair()
}

/// Two ends that are connected. Windows has no such call, so they meet on a port of this machine,
/// to which another program may have come first.
#[cfg(windows)]
fn pair() -> std::io::Result<(Socket, Socket)> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let writer = Socket::connect(listener.local_addr()?)?;
    let (ours, mut accepted) = (writer.local_addr()?, listener.accept()?);
    while accepted.1 != ours {
        accepted = listener.accept()?;
    }
    writer.set_nodelay(true)?;
    Ok((accepted.0, writer))
}

#[cfg(unix)]
fn descriptor(socket: &Socket) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(socket)
}

/// Only 32 bits of Windows' handles are ever used.
#[cfg(windows)]
fn descriptor(socket: &Socket) -> i32 {
    std::os::windows::io::AsRawSocket::as_raw_socket(socket) as i32
}

impl Queue {
    fn new() -> std::io::Result<Queue> {
        let (reader, writer) = pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        let bell = Arc::new(Bell { reader, writer });
        // Calls under way have the mailbox, and keep no descriptor of a queue that was freed.
        let ring = Arc::downgrade(&bell);
        let ring = move || {
            if let Some(bell) = ring.upgrade() {
                // A full buffer has woken the loop already.
                drop((&bell.writer).write(&[0]));
            }
        };
        Ok(Queue {
            news: Arc::new(Mailbox::new(ring)),
            bell,
            calls: Mutex::default(),
            idle: Condvar::new(),
            numbers: AtomicU64::new(0),
        })
    }

    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Expects the news of a call, before the call can be over.
    pub(crate) fn expect(&self, number: u64, call: Call) -> Result<(), Error> {
        let mut calls = lock(&self.calls);
        if calls.closed {
            return Err(Error::from_binding(ErrorKind::Closed, "the queue has been freed"));
        }
        calls.under_way.insert(number, call);
        Ok(())
    }

    /// Expects nothing of that call any more, which could not be started.
    pub(crate) fn forget(&self, number: u64) {
        let call = lock(&self.calls).under_way.remove(&number);
        drop(call);
    }

    /// Calls the callbacks of all there is, until a callback or another thread frees the queue.
    /// Returns how many were called.
    fn dispatch(&self) -> usize {
        let mut bytes = [0; 64];
        while matches!((&self.bell.reader).read(&mut bytes), Ok(64)) {}
        let mut called = 0;
        // What is left of them at the end is dropped: a lease that was won is given back.
        for news in self.news.take() {
            // Asked for each of them: the callback before may have freed the queue.
            let mut calls = lock(&self.calls);
            if calls.closed {
                break;
            }
            match news {
                News::Done(number, report) => {
                    let Some(_call) = calls.under_way.remove(&number) else {
                        // First: a lease that goes with the report takes locks of its own.
                        drop(calls);
                        continue;
                    };
                    let _running = self.running(calls);
                    report();
                    called += 1;
                }
                News::Lost(slot, state) => {
                    let _running = self.running(calls);
                    called += usize::from(tell_loss(&slot, state));
                }
            }
        }
        called
    }

    /// Notes that this thread calls a callback, under the lock by which the queue was seen not to
    /// be closed. That is let go, for the callback may start the next call, or free the queue.
    fn running(&self, mut calls: MutexGuard<'_, Calls>) -> Running<'_> {
        calls.threads.push(this_thread());
        Running(self)
    }

    /// Gives up the calls under way. When this returns no callback runs, but the callback that
    /// itself has called this, and none is called any more.
    fn close(&self) {
        let here = this_thread();
        let mut calls = lock(&self.calls);
        calls.closed = true;
        // A callback that frees the queue does not wait for another thread's, which may wait for
        // it.
        while !calls.threads.is_empty() && !calls.threads.contains(&here) {
            calls = self.idle.wait(calls).unwrap_or_else(PoisonError::into_inner);
        }
        let under_way = mem::take(&mut calls.under_way);
        drop(calls);
        // What was won and not reported is given back here.
        self.news.close();
        for Call { give_up, revocation } in under_way.into_values() {
            drop(revocation);
            give_up();
        }
    }
}

impl Drop for quorlock_queue_t {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Makes a queue. Fails with #QUORLOCK_INTERNAL if the process may open no more descriptors.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_queue_new(queue: *mut *mut quorlock_queue_t, error: *mut *mut quorlock_error_t) -> i32 {
    boundary!(error, {
        handle::wanted(queue, "queue")?;
        let made = Queue::new().map_err(|why| {
            let message = format!("a queue needs two descriptors: {why}: raise the limit of the process");
            Error::from_binding(ErrorKind::Internal, message)
        })?;
        handle::give(queue, "queue", quorlock_queue_t(Arc::new(made)))
    })
}

/// The descriptor to watch, on Windows the socket: it can be read while there is something
/// to dispatch. Do not read it, write it or close it; take it out of the loop before the
/// queue is freed. -1 for NULL, and in a forked child.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_queue_fd(queue: *const quorlock_queue_t) -> i32 {
    boundary!(or - 1, { Ok(descriptor(&handle::borrow(&queue, "queue")?.0.bell.reader)) })
}

/// Runs the callbacks of all that is done, on the calling thread, and returns how many they
/// were: 0 if there was nothing, for NULL, and in a forked child. Never waits. A callback
/// may call anything of this header, also this, and may free the queue: then this calls no
/// further callback, and returns.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_queue_dispatch(queue: *const quorlock_queue_t) -> usize {
    boundary!(or 0, {
        Ok(handle::share(queue, "queue")?.dispatch())
    })
}

/// Frees a queue. NULL is allowed. Each call that was started with it and whose callback has
/// not been called is given up: the callback is called on this thread, before this returns, with
/// #QUORLOCK_CANCELLED. An acquire among them is undone, or its lease given back; a release
/// goes on. Losses that were to come by it come no more. Locks, leases and clients may
/// be freed before or after.
///
/// When it returns, no callback of the queue runs, and none will: it waits for a callback that
/// another thread runs. So do not hold what such a callback waits for. Called by a callback of the queue
/// it waits for none, and that one is the last on its thread.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_queue_free(queue: *mut quorlock_queue_t) {
    boundary!({ handle::free(queue) });
}

/// A queue that C lends, or NULL for the library's own thread.
pub(crate) fn shared(queue: *const quorlock_queue_t) -> Result<Option<Arc<Queue>>, Error> {
    Ok(handle::maybe(&queue, "queue")?.map(|queue| queue.0.clone()))
}
