//! `blocking::wait`: ordinary code waits for a future.
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
use std::time::Duration;

use crate::runtime::drive::SentRequests;
use crate::runtime::wait::run;

/// Waits for `future` on the calling thread.
///
/// Do not call it from async code: it blocks the thread.
///
/// # Panics
///
/// On a thread that drives the runtime on which the client [runs](crate::ClientBuilder::on_current_runtime),
/// for the call would wait for itself. In `spawn_blocking` and `block_in_place` it does not.
pub fn wait<F: Future>(future: F) -> F::Output {
    match run(future, None, SentRequests::at_once()) {
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
    run(
        future,
        Some((every, &mut interrupted)),
        SentRequests::at_once(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, poll_fn};
    use std::task::{Poll, Waker};
    use std::thread;

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
