//! What becomes of a client whose runtime ends first, as the runtime of a test or of a worker does.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use super::inner::Inner;
use crate::mutex::lock;

/// Tells a client that its runtime has ended.
#[derive(Default)]
pub(super) struct EndWatch {
    gone: Arc<AtomicBool>,
    client: Mutex<Weak<Inner>>,
    /// Tasks that go once the client has heard of the end, while it is: threads of the runtime drop
    /// them at the same time, and each still has releases to write.
    going: Mutex<Option<Vec<DroppedTask>>>,
}

/// A task that the runtime has dropped.
type DroppedTask = Box<dyn Send>;

impl EndWatch {
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

    /// The runtime drops this task.
    fn tell(&self, task: DroppedTask) {
        self.gone.store(true, Ordering::Release);
        match &mut *lock(&self.going) {
            Some(going) => return going.push(task),
            none => *none = Some(vec![task]),
        }
        let client = lock(&self.client).upgrade();
        if let Some(client) = client {
            client.runtime_has_ended();
        }
        while let Some(tasks) = self.take_going() {
            drop(tasks);
        }
    }

    /// Those that came meanwhile; after `None` the next tells for itself.
    fn take_going(&self) -> Option<Vec<DroppedTask>> {
        let mut going = lock(&self.going);
        let tasks = going.take().filter(|tasks| !tasks.is_empty());
        if tasks.is_some() {
            *going = Some(Vec::new());
        }
        tasks
    }

    /// The same task, whose runtime is seen to end where the task is dropped before its end.
    pub(super) fn told_by<F>(self: &Arc<EndWatch>, task: F) -> WatchedTask<F>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        WatchedTask {
            ends: self.clone(),
            task: Some(Box::pin(task)),
        }
    }
}

/// See [`EndWatch::told_by`].
pub(super) struct WatchedTask<F: Future<Output = ()> + Send + 'static> {
    ends: Arc<EndWatch>,
    /// Until it has ended by itself. It is dropped after the client has heard: releases are still
    /// written by it.
    task: Option<Pin<Box<F>>>,
}

impl<F: Future<Output = ()> + Send + 'static> Future for WatchedTask<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(task) = &mut self.task else {
            return Poll::Ready(());
        };
        let polled = task.as_mut().poll(cx);
        if polled.is_ready() {
            self.task = None;
        }
        polled
    }
}

impl<F: Future<Output = ()> + Send + 'static> Drop for WatchedTask<F> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            self.ends.tell(Box::new(task));
        }
    }
}
