//! A waker that wakes a parked thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::mutex::lock;

/// Wakes the waiting thread. The flag tells our wake-ups from others'.
pub(crate) struct Parker {
    thread: Thread,
    woken: AtomicBool,
    /// While the thread drives the I/O: it is not parked then.
    driver: Mutex<Option<Waker>>,
}

impl Parker {
    /// For the calling thread. Woken at first, for the first poll.
    pub(crate) fn here() -> Arc<Parker> {
        Arc::new(Parker {
            thread: thread::current(),
            woken: AtomicBool::new(true),
            driver: Mutex::default(),
        })
    }

    /// Whether it has been woken since this was asked last.
    pub(crate) fn take_woken(&self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }

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

impl Wake for Parker {
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
