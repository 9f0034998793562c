//! For bindings with an event loop of their own: how what has happened reaches
//! it.
//!
//! The I/O thread never attaches to an interpreter. It puts what there is to
//! tell into a [`Mailbox`] and rings if it was empty; the loop's thread wakes up
//! once and takes all.

use std::fmt;
use std::mem;
use std::sync::Mutex;

use crate::mutex::lock;

/// What a loop has not been told yet.
pub struct Mailbox<T> {
    state: Mutex<State<T>>,
    ring: Box<dyn Fn() + Send + Sync>,
}

struct State<T> {
    news: Vec<T>,
    closed: bool,
}

impl<T> Mailbox<T> {
    /// `ring` must not block; it is called on any thread.
    pub fn new(ring: impl Fn() + Send + Sync + 'static) -> Mailbox<T> {
        Mailbox {
            state: Mutex::new(State {
                news: Vec::new(),
                closed: false,
            }),
            ring: Box::new(ring),
        }
    }

    /// Tells the loop something, or drops it once the loop is gone.
    pub fn push(&self, news: T) {
        let mut state = lock(&self.state);
        if state.closed {
            // Dropped after the lock: dropping a lease takes others.
            drop(state);
            return drop(news);
        }
        let first = state.news.is_empty();
        state.news.push(news);
        drop(state);
        if first {
            (self.ring)();
        }
    }

    /// All there is, oldest first.
    pub fn take(&self) -> Vec<T> {
        mem::take(&mut lock(&self.state).news)
    }

    /// The loop is gone: nobody takes anything any more.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        drop(self.take());
    }
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mailbox")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn it_rings_once_until_it_is_emptied() {
        let rings = Arc::new(AtomicUsize::new(0));
        let bell = rings.clone();
        let mailbox = Mailbox::new(move || {
            bell.fetch_add(1, Ordering::Relaxed);
        });
        mailbox.push(1);
        mailbox.push(2);
        assert_eq!(rings.load(Ordering::Relaxed), 1);
        assert_eq!(mailbox.take(), [1, 2]);
        mailbox.push(3);
        assert_eq!(rings.load(Ordering::Relaxed), 2);
        mailbox.close();
        mailbox.push(4);
        assert!(mailbox.take().is_empty());
        assert_eq!(rings.load(Ordering::Relaxed), 2);
    }
}
