//! The mailbox through which results and events reach the event loop of a binding.
//!
//! The I/O thread never attaches to an interpreter. It puts what there is to
//! tell into a [`Mailbox`] and rings if it was empty; the loop's thread wakes up
//! once and takes all.

use std::fmt;
use std::mem;

use crate::sync::{Mutex, lock};

/// What the core has for an event loop, until the loop takes it.
pub struct Mailbox<T> {
    state: Mutex<MailboxState<T>>,
    ring: Box<dyn Fn() + Send + Sync>,
}

struct MailboxState<T> {
    news: Vec<T>,
    /// The loop is about to take what there is.
    attended: bool,
    closed: bool,
}

impl<T> Mailbox<T> {
    /// `ring` must not block; it is called on any thread.
    pub fn new(ring: impl Fn() + Send + Sync + 'static) -> Mailbox<T> {
        Mailbox {
            state: Mutex::new(MailboxState {
                news: Vec::new(),
                attended: false,
                closed: false,
            }),
            ring: Box::new(ring),
        }
    }

    /// Tells the loop something, or drops it once the loop is gone.
    pub fn push(&self, news: T) {
        let state = lock(&self.state);
        if state.closed {
            // Dropped after the lock: dropping a lease takes others.
            drop(state);
            return drop(news);
        }
        let first = state.news.is_empty();
        // The state is looked at and changed under one lock, else a letter may come without a ring.
        let mut state = state;
        state.news.push(news);
        let rings = first && !state.attended;
        drop(state);
        if rings {
            (self.ring)();
        }
    }

    /// The loop is going to [take](Mailbox::take) what there is in a moment, or to [look](Mailbox::attended):
    /// it need not be rung for until then.
    pub fn attend(&self) {
        lock(&self.state).attended = true;
    }

    /// The loop attends no longer. Whether there is something, which it is to take: it is not rung
    /// for that.
    pub fn attended(&self) -> bool {
        let mut state = lock(&self.state);
        state.attended = false;
        !state.news.is_empty()
    }

    /// All there is, oldest first.
    pub fn take(&self) -> Vec<T> {
        let mut state = lock(&self.state);
        state.attended = false;
        mem::take(&mut state.news)
    }

    /// The loop is gone: it takes nothing any more.
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

#[cfg(all(test, quorlock_loom))]
mod loom_tests {
    use super::*;
    use crate::sync::explore::{ExploreWaker, explore};
    use loom::thread;
    use std::sync::Arc;

    /// Two threads tell the loop something, which takes it whenever it is rung
    /// for, and never else.
    #[test]
    fn everything_arrives_once_and_in_order() {
        explore(3, || {
            let bell = ExploreWaker::new();
            let ring = bell.clone();
            let mailbox = Arc::new(Mailbox::new(move || ring.ring()));
            let tells = |news: [u32; 2]| {
                let mailbox = mailbox.clone();
                thread::spawn(move || news.into_iter().for_each(|one| mailbox.push(one)))
            };
            let threads = [tells([1, 2]), tells([11, 12])];
            let mut taken = Vec::new();
            while taken.len() < 4 {
                bell.wait();
                taken.extend(mailbox.take());
            }
            for thread in threads {
                thread.join().unwrap();
            }
            assert!(mailbox.take().is_empty());
            let of = |low| taken.iter().copied().filter(move |one| one / 10 == low);
            assert_eq!(of(0).collect::<Vec<_>>(), [1, 2]);
            assert_eq!(of(1).collect::<Vec<_>>(), [11, 12]);
        });
    }

    /// The loop also looks by itself, and is not rung for what it takes then.
    #[test]
    fn a_loop_that_looks_by_itself_misses_nothing() {
        explore(3, || {
            let bell = ExploreWaker::new();
            let ring = bell.clone();
            let mailbox = Arc::new(Mailbox::new(move || ring.ring()));
            let tells = mailbox.clone();
            let other = thread::spawn(move || (1..=3).for_each(|one| tells.push(one)));
            mailbox.attend();
            let mut taken = mailbox.take();
            while taken.len() < 3 {
                bell.wait();
                taken.extend(mailbox.take());
            }
            other.join().unwrap();
            assert_eq!(taken, [1, 2, 3]);
        });
    }

    /// The loop looks first whether there is anything to take.
    #[test]
    fn a_loop_that_looks_before_it_takes_misses_nothing() {
        explore(3, || {
            let bell = ExploreWaker::new();
            let ring = bell.clone();
            let mailbox = Arc::new(Mailbox::new(move || ring.ring()));
            let tells = mailbox.clone();
            let other = thread::spawn(move || (1..=3).for_each(|one| tells.push(one)));
            mailbox.attend();
            let mut taken = Vec::new();
            if mailbox.attended() {
                taken.extend(mailbox.take());
            }
            while taken.len() < 3 {
                bell.wait();
                taken.extend(mailbox.take());
            }
            other.join().unwrap();
            assert_eq!(taken, [1, 2, 3]);
        });
    }

    /// The loop ends at any moment: nothing is kept for it.
    #[test]
    fn nothing_is_kept_for_a_loop_that_is_gone() {
        explore(3, || {
            let news = Arc::new(());
            let mailbox = Arc::new(Mailbox::new(|| ()));
            let (told, tells) = (news.clone(), mailbox.clone());
            let other = thread::spawn(move || {
                tells.push(told.clone());
                tells.push(told);
            });
            drop(mailbox.take());
            mailbox.close();
            other.join().unwrap();
            assert_eq!(Arc::strong_count(&news), 1);
        });
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
