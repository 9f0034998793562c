//! A sleep until a timer of the runtime rings, in a task that is not the runtime's own.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Context, Poll};

use super::{Driver, is_of_descriptors};
use crate::mutex::lock;

/// Sleeps until a timer of a runtime rings; elsewhere than in its tasks, or until that is known
/// to be broken.
pub(crate) struct Sleeper {
    driver: &'static Driver,
    number: Option<u64>,
}

impl Sleeper {
    pub(crate) fn new(driver: &'static Driver) -> Sleeper {
        Sleeper {
            driver,
            number: None,
        }
    }

    /// Whether there is a timer to be looked at. If not, the task of `cx` will be woken.
    pub(crate) fn may_sleep(&mut self, cx: &Context<'_>) -> bool {
        if self.driver.is_here() {
            return true;
        }
        let mut sleepers = lock(&self.driver.sleepers);
        let number = *self.number.get_or_insert_with(|| {
            sleepers.last += 1;
            sleepers.last
        });
        sleepers.wakers.insert(number, cx.waker().clone());
        drop(sleepers);
        self.driver.is_whole()
    }

    /// Looks at the timer, which panics where the runtime cannot learn that it is set.
    pub(crate) fn looks_at(&self, timer: impl FnOnce() -> Poll<()>) -> Poll<()> {
        catch_unwind(AssertUnwindSafe(timer)).unwrap_or_else(|panic| {
            if !is_of_descriptors(&*panic) {
                resume_unwind(panic);
            }
            self.driver.break_down();
            Poll::Pending
        })
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            lock(&self.driver.sleepers).wakers.remove(&number);
        }
    }
}
