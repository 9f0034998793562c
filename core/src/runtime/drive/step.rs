//! A step of an event loop that drives: see [`Driver::step`](super::Driver::step).

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio::task::unconstrained;

use super::{Driver, Turn};
use crate::runtime::kept::{Bell, Call, LISTED, OrphanPolicy};

/// How many tasks a step runs itself, before it leaves them to the runtime: those may be many, and each its own next.
pub(super) const STEP: usize = 64;

/// How often a step lets the runtime look at its sockets and its queue.
const PASSES: u32 = 2;

impl Turn {
    /// Lets what there is to read reach its tasks, and what these wake. The tasks run here and not as the runtime would
    /// run them, which looks at its sockets before and behind, by a system call each. What waits in the runtime's queue
    /// runs first.
    pub(super) fn step(&self, calls: Vec<Call>) {
        let sockets = &self.driver.sockets;
        sockets.arm();
        let mut looks = calls.is_empty();
        let mut calls = Some(calls);
        let list = StepList::begin(self.driver);
        let (mut passes, queued) = (0, &self.driver.queued);
        // None of the tasks may be put off to the next look at the sockets.
        self.drive(unconstrained(poll_fn(|cx| {
            // Wakes what others have rung for. Whether the wheel is wanted is no matter: it is left at once.
            self.driver.wheel.is_wanted(self.driver.bell(cx));
            if passes < PASSES
                && (std::mem::take(&mut looks) || queued.swap(false, Ordering::AcqRel))
            {
                passes += 1;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            for call in calls.take().unwrap_or_default() {
                self.driver.spawn(call, OrphanPolicy::GoesOn);
            }
            if list.run() {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })));
    }
}

/// While it lives the tasks that are woken on this thread are listed. What is left in the list then is the runtime's.
struct StepList(&'static Driver);

impl StepList {
    fn begin(driver: &'static Driver) -> StepList {
        LISTED.set(Some(Vec::new()));
        StepList(driver)
    }

    /// Leaves tasks to the runtime.
    fn leave(&self, tasks: &[Arc<Bell>]) {
        if !tasks.is_empty() {
            self.0.queued.store(true, Ordering::Release);
            tasks.iter().for_each(|task| task.wake_in_runtime());
        }
    }

    /// Runs those that are listed, and what these list. False where so many are that the runtime has to run the rest.
    fn run(&self) -> bool {
        let mut left = STEP;
        loop {
            let next = LISTED.with_borrow_mut(|listed| listed.as_mut().map(std::mem::take));
            let tasks = next.unwrap_or_default();
            if tasks.is_empty() {
                return true;
            }
            if tasks.len() > left {
                LISTED.set(None);
                self.leave(&tasks);
                return false;
            }
            left -= tasks.len();
            tasks.into_iter().for_each(Bell::run);
        }
    }
}

impl Drop for StepList {
    fn drop(&mut self) {
        self.leave(&LISTED.take().unwrap_or_default());
    }
}
