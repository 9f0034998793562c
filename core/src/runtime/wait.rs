//! How a blocked thread waits for a future, and meanwhile drives the I/O if no other thread does.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::runtime::drive::SentRequests;
use crate::runtime::parked::Parker;

/// How often to ask whether the wait is interrupted, and the function to ask.
type Interrupt<'a> = (Duration, &'a mut dyn FnMut() -> bool);

/// Waits for `future` on the calling thread, which drives the I/O meanwhile if it
/// is alone; `None` when it was interrupted. `sent`: when what it sends leaves.
pub(crate) fn run<F: Future>(
    future: F,
    mut interrupt: Option<Interrupt<'_>>,
    mut sent: SentRequests,
) -> Option<F::Output> {
    let mut future = pin!(future);
    let parked = Parker::here();
    let waker = Waker::from(parked.clone());
    let mut cx = Context::from_waker(&waker);
    let mut waited = false;
    loop {
        if parked.take_woken()
            && let Poll::Ready(output) = sent.by(|| future.as_mut().poll(&mut cx))
        {
            return Some(output);
        }
        let limit = match &mut interrupt {
            None => None,
            Some((every, interrupted)) => {
                if waited {
                    // An interpreter runs there.
                    sent.leave();
                    if interrupted() {
                        return None;
                    }
                }
                (*every < Duration::MAX).then_some(*every)
            }
        };
        sent.wait(&parked, limit);
        waited = true;
    }
}
