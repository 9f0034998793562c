//! Tasks that the runtime starts anew after a panic.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::clock::Clock;
use crate::event::{LogEvent, event};

/// Between the beginnings of two at least: the next may end at once again.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs what `begin` begins to its end; after a panic in it, another one. `warn` reports the panic.
pub async fn lasting<F: Future<Output = ()>>(
    begin: impl Fn() -> F,
    clock: Arc<dyn Clock>,
    warn: fn(LogEvent),
    what: &str,
) {
    loop {
        let begun = clock.now();
        let mut task = Box::pin(begin());
        let ended = poll_fn(|cx| {
            let polled = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx)));
            polled.map_or(Poll::Ready(false), |polled| polled.map(|()| true))
        });
        if ended.await {
            return;
        }
        drop(task);
        warn(event!(
            "task_panicked",
            "a panic in {task}, which is a bug in Quorlock, please report it; what it was asked has \
             failed, and it goes on",
            task = what,
        ));
        clock.sleep_until(begun + PAUSE).await;
    }
}
