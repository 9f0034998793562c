//! What the tests under loom share.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::{Condvar, Mutex};

use super::lock;

/// Runs a model in all interleavings with at most this many preemptions, which
/// is where bugs of this kind are.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    let explored = Arc::new(AtomicUsize::new(0));
    let count = explored.clone();
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{} interleavings", explored.load(Ordering::Relaxed));
}

/// A waker that keeps a ring until a thread waits for it. Where none ever comes, loom reports the
/// deadlock.
#[derive(Debug)]
pub(crate) struct ExploreWaker {
    rung: Mutex<bool>,
    told: Condvar,
}

impl ExploreWaker {
    pub(crate) fn new() -> Arc<ExploreWaker> {
        Arc::new(ExploreWaker {
            rung: Mutex::new(false),
            told: Condvar::new(),
        })
    }

    pub(crate) fn ring(&self) {
        *lock(&self.rung) = true;
        self.told.notify_one();
    }

    pub(crate) fn wait(&self) {
        let mut rung = lock(&self.rung);
        while !*rung {
            rung = self.told.wait(rung).expect("not poisoned");
        }
        *rung = false;
    }
}

impl Wake for ExploreWaker {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

/// Waits for what `poll` brings, polling it only at first and when it was woken.
pub(crate) fn wait<T>(mut poll: impl FnMut(&Context<'_>) -> Poll<T>) -> T {
    let bell = ExploreWaker::new();
    let waker = Waker::from(bell.clone());
    let mut future = pin!(poll_fn(|cx| poll(cx)));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        bell.wait();
    }
}
