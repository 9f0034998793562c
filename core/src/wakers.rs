//! The wakers of all tasks that wait for one event.

use std::task::{Context, Poll, Waker};

use crate::lean::push_exact;

/// The wakers of tasks that wait for one thing. Nearly always there is one,
/// which costs no allocation.
#[derive(Debug, Default)]
pub struct Wakers {
    first: Option<Waker>,
    more: Vec<Waker>,
}

impl Wakers {
    /// Registers the task of `cx` and reports that it has to wait.
    pub(crate) fn park<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        let waker = cx.waker();
        if self.first.is_none() {
            self.first = Some(waker.clone());
        } else if !self
            .first
            .iter()
            .chain(&self.more)
            .any(|w| w.will_wake(waker))
        {
            self.more.push(waker.clone());
        }
        Poll::Pending
    }

    /// Takes all wakers out. Wake them after the lock is dropped.
    pub(crate) fn take(&mut self) -> Wakers {
        std::mem::take(self)
    }

    #[inline]
    pub(crate) fn wake(self) {
        if let Some(first) = self.first {
            first.wake();
        }
        if !self.more.is_empty() {
            self.more.into_iter().for_each(Waker::wake);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.more.is_empty()
    }
}

impl Extend<Waker> for Wakers {
    fn extend<T: IntoIterator<Item = Waker>>(&mut self, wakers: T) {
        for waker in wakers {
            match self.first {
                None => self.first = Some(waker),
                Some(_) => self.more.push(waker),
            }
        }
    }
}

impl IntoIterator for Wakers {
    type Item = Waker;
    type IntoIter = std::iter::Chain<std::option::IntoIter<Waker>, std::vec::IntoIter<Waker>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more)
    }
}

/// The wakers of futures that come and go while they wait for one thing. Each
/// has a place of its own, to be given back when it is dropped: two futures of
/// one task have the same waker.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    next: u64,
    parked: Vec<(u64, Waker)>,
}

impl Watchers {
    /// Registers the task of `cx` at `place`, and reports that it has to wait.
    pub(crate) fn park<T>(&mut self, place: &mut Option<u64>, cx: &Context<'_>) -> Poll<T> {
        let at = *place.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        match self.parked.iter_mut().find(|(other, _)| *other == at) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => push_exact(&mut self.parked, (at, cx.waker().clone())),
        }
        Poll::Pending
    }

    /// Gives a place back.
    pub(crate) fn leave(&mut self, place: Option<u64>) {
        if let Some(at) = place {
            self.parked.retain(|(other, _)| *other != at);
        }
    }

    /// Takes all wakers out. Wake them after the lock is dropped.
    pub(crate) fn take(&mut self) -> Wakers {
        Wakers {
            first: None,
            more: self.parked.drain(..).map(|(_, waker)| waker).collect(),
        }
    }
}
