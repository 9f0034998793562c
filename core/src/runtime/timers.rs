//! The system's clock, with timers of the runtime that a client runs on.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use crate::clock::{Clock, Instant, Sleep, system_now};
use crate::runtime::drive::Sleeper;
use crate::runtime::task::Io;

/// The system's clock, with timers of one tokio runtime.
#[derive(Clone, Debug)]
pub(crate) struct SystemClock {
    io: Io,
    gone: Arc<AtomicBool>,
}

impl SystemClock {
    /// `gone`: the runtime has ended, and its timers with it. Sleeps are over then.
    pub(crate) fn new(io: Io, gone: Arc<AtomicBool>) -> SystemClock {
        SystemClock { io, gone }
    }
}

/// Timers of the runtime do not run while the machine is suspended, so no
/// sleep is longer than this: a sleeper looks at the real clock this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        system_now()
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let SystemClock { io, gone } = self.clone();
        Box::pin(async move {
            let mut sleeper = io.driver.map(Sleeper::new);
            loop {
                let left = system_now().until(at);
                if left.is_zero() || gone.load(Ordering::Acquire) {
                    return;
                }
                let nap = {
                    let _context = io.handle.enter();
                    #[allow(clippy::disallowed_methods)]
                    tokio::time::sleep(left.min(LONGEST_SLEEP))
                };
                let mut nap = pin!(nap);
                // A timer of a runtime that has ended must not be looked at.
                poll_fn(|cx| match gone.load(Ordering::Acquire) {
                    true => Poll::Ready(()),
                    // Nor a timer that cannot ring any more: the sleeper is woken once that is
                    // known.
                    false if sleeper.as_mut().is_some_and(|s| !s.may_sleep(cx)) => {
                        if gone.load(Ordering::Acquire) {
                            Poll::Ready(())
                        } else {
                            Poll::Pending
                        }
                    }
                    false => match sleeper.as_ref() {
                        Some(sleeper) => sleeper.looks_at(|| nap.as_mut().poll(cx)),
                        None => nap.as_mut().poll(cx),
                    },
                })
                .await;
            }
        })
    }
}
