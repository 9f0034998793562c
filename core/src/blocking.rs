//! Waiting for a future from ordinary code.
//!
//! ```no_run
//! # fn f(client: quorlock::Client) -> Result<(), quorlock::Error> {
//! use quorlock::blocking;
//!
//! let lease = blocking::wait(client.lock("orders:42").acquire())?;
//! // … the protected work …
//! blocking::wait(lease.release())?;
//! # Ok(()) }
//! ```

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::drive::Sent;
use crate::mutex::lock;

/// Wakes the waiting thread. The flag tells our wake-ups from others'.
pub(crate) struct Parked {
    thread: Thread,
    woken: AtomicBool,
    /// While the thread drives the I/O: it is not parked then.
    driver: Mutex<Option<Waker>>,
}

impl Parked {
    /// Whether it has been woken; if not, `driver` will be.
    pub(crate) fn is_woken(&self, driver: &Waker) -> bool {
        let mut known = lock(&self.driver);
        if known.is_none() {
            *known = Some(driver.clone());
        }
        drop(known);
        self.woken.load(Ordering::Acquire)
    }

    pub(crate) fn forget_driver(&self) {
        *lock(&self.driver) = None;
    }

    pub(crate) fn park(&self, limit: Option<Duration>) {
        match limit {
            _ if self.woken.load(Ordering::Acquire) => {}
            None => thread::park(),
            Some(limit) => thread::park_timeout(limit),
        }
    }
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        match &*lock(&self.driver) {
            Some(driver) => driver.wake_by_ref(),
            None => self.thread.unpark(),
        }
    }
}

/// Waits for `future` on the calling thread.
///
/// Do not call it from async code: it blocks the thread.
pub fn wait<F: Future>(future: F) -> F::Output {
    match run(future, None) {
        Some(output) => output,
        None => unreachable!("nothing interrupts this wait"),
    }
}

/// As [`wait`], but asks `interrupted` at least every `every`, and ends with
/// `None` when it says so. The future is dropped then: an acquire is undone.
pub fn wait_or<F: Future>(
    future: F,
    every: Duration,
    mut interrupted: impl FnMut() -> bool,
) -> Option<F::Output> {
    run(future, Some((every, &mut interrupted)))
}

type Interrupt<'a> = (Duration, &'a mut dyn FnMut() -> bool);

fn run<F: Future>(future: F, mut interrupt: Option<Interrupt<'_>>) -> Option<F::Output> {
    let mut future = pin!(future);
    let parked = Arc::new(Parked {
        thread: thread::current(),
        woken: AtomicBool::new(true),
        driver: Mutex::default(),
    });
    let waker = Waker::from(parked.clone());
    let mut cx = Context::from_waker(&waker);
    let mut sent = Sent::nothing();
    let mut waited = false;
    loop {
        if parked.woken.swap(false, Ordering::AcqRel)
            && let Poll::Ready(output) = sent.by(|| future.as_mut().poll(&mut cx))
        {
            return Some(output);
        }
        let limit = match &mut interrupt {
            None => None,
            Some((every, interrupted)) => {
                if waited && interrupted() {
                    return None;
                }
                (*every < Duration::MAX).then_some(*every)
            }
        };
        sent.wait(&parked, limit);
        waited = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, poll_fn};

    #[test]
    fn a_wake_from_another_thread_ends_the_wait() {
        let (sender, receiver) = std::sync::mpsc::channel::<Waker>();
        let other = thread::spawn(move || receiver.recv().unwrap().wake());
        let mut polls = 0;
        wait(poll_fn(|cx| {
            polls += 1;
            if polls == 1 {
                sender.send(cx.waker().clone()).unwrap();
                return Poll::Pending;
            }
            Poll::Ready(())
        }));
        other.join().unwrap();
        assert_eq!(polls, 2);
    }

    #[test]
    fn an_interrupt_ends_the_wait() {
        let mut asked = 0;
        let never = wait_or(pending::<()>(), Duration::from_millis(1), || {
            asked += 1;
            asked == 3
        });
        assert_eq!((never, asked), (None, 3));
    }
}
