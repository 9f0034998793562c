//! A client whose runtime ends before it does: the caller's, of a test or a worker, say.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use super::inner::Inner;
use crate::mutex::lock;

/// Tells a client that its runtime has ended.
#[derive(Default)]
pub(super) struct Ends {
    gone: Arc<AtomicBool>,
    client: Mutex<Weak<Inner>>,
}

impl Ends {
    /// Whether it has.
    pub(super) fn gone(&self) -> &Arc<AtomicBool> {
        &self.gone
    }

    /// This is the client.
    pub(super) fn of(&self, client: &Arc<Inner>) {
        *lock(&self.client) = Arc::downgrade(client);
        if self.gone.load(Ordering::Acquire) {
            client.runtime_has_ended();
        }
    }

    fn tell(&self) {
        self.gone.store(true, Ordering::Release);
        let client = lock(&self.client).upgrade();
        if let Some(client) = client {
            client.runtime_has_ended();
        }
    }

    /// The same task, whose runtime is seen to end where the task is dropped before its end.
    pub(super) fn told_by<F: Future<Output = ()> + Send>(self: &Arc<Ends>, task: F) -> Told<F> {
        Told {
            ends: Some(self.clone()),
            task: Box::pin(task),
        }
    }
}

/// See [`Ends::told_by`].
pub(super) struct Told<F> {
    /// Until it has ended by itself.
    ends: Option<Arc<Ends>>,
    /// Dropped behind what tells: releases are still written by it.
    task: Pin<Box<F>>,
}

impl<F: Future<Output = ()>> Future for Told<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.task.as_mut().poll(cx);
        if polled.is_ready() {
            self.ends = None;
        }
        polled
    }
}

impl<F> Drop for Told<F> {
    fn drop(&mut self) {
        if let Some(ends) = self.ends.take() {
            ends.tell();
        }
    }
}
