//! The inbox of one client: where it is heard what nodes tell its waiters without
//! being asked.
//!
//! A node publishes a *message*, the number of a waiter, to the channel that the inbox is named by.
//! Over a link's [subscription] it comes to the inbox, which is the [subscriber](Subscriber) of all
//! links. There each waiter has a [`Registration`], by which it gets its [`Notice`] and is woken.
//! All of this is a hint: what it brings is that the waiter asks again. A message whose number no
//! waiter has is counted, and that is all.
//!
//! [subscription]: crate::node::redis::subscription

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::mutex::lock;
use crate::node::{Hint, Link, LockId, Nodes, Subscriber, Waiter};

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Inbox {
    /// The channel to which nodes publish.
    name: Arc<[u8]>,
    table: Mutex<Table>,
    stray: AtomicU64,
    /// How many owners were named after it.
    owners: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    last: u64,
    registered: BTreeMap<u64, WaiterEntry>,
    /// A waiter that registers now is to look at once.
    closed: bool,
}

/// What is known of one waiter, by its number.
#[derive(Debug)]
struct WaiterEntry {
    /// The lock that it waits for.
    lock_id: LockId,
    /// The nodes in whose queues it stands, or may.
    homes: Nodes,
    /// How many wait before it there, at its last word.
    place: Option<u32>,
    notice: Notice,
    waker: Option<Waker>,
}

/// A notice to one waiter: what has happened since it looked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notice {
    /// Its home says that its turn has come.
    pub(crate) called: bool,
    /// And that this slot of the semaphore is reserved for it.
    pub(crate) slot: Option<u32>,
    /// The inbox is subscribed anew on its home, so that what that said before
    /// may be lost.
    pub(crate) subscribed: bool,
    /// Something has changed in this client: it is closed, or the lock was won
    /// by an owner that may be the waiter's.
    pub(crate) look: bool,
}

impl Inbox {
    /// The inbox of a client that listens on the channel `name` of those nodes.
    pub fn new(name: Arc<[u8]>, links: &[Arc<dyn Link>]) -> Arc<Inbox> {
        let inbox = Arc::new(Inbox {
            name,
            table: Mutex::default(),
            stray: AtomicU64::new(0),
            owners: AtomicU64::new(1),
        });
        for link in links {
            link.subscribe(inbox.clone());
        }
        inbox
    }

    /// Registers a waiter for that lock.
    pub(crate) fn register(self: &Arc<Self>, lock_id: &LockId) -> Registration {
        Registration {
            inbox: self.clone(),
            number: lock(&self.table).add(lock_id.clone()),
        }
    }

    /// The name of an owner that is only this client's, by which its user can see whose it is.
    pub(crate) fn owner(&self) -> Vec<u8> {
        let number = self.owners.fetch_add(1, Ordering::Relaxed);
        let at = self.name.iter().rposition(|byte| *byte == b':');
        let id = &self.name[at.map_or(0, |at| at + 1)..];
        [id, b":", number.to_string().as_bytes()].concat()
    }

    /// Has all that wait for that lock look again; all of the client without one.
    pub fn look_again(&self, lock_id: Option<&LockId>) {
        let meant = |waiter: &WaiterEntry| lock_id.is_none_or(|id| waiter.lock_id == *id);
        self.tell_all(meant, |notice| notice.look = true);
    }

    /// Has all waiters look again, and each that registers later.
    pub(crate) fn close(&self) {
        lock(&self.table).closed = true;
        self.look_again(None);
    }

    fn tell_all(&self, whom: impl Fn(&WaiterEntry) -> bool, what: impl Fn(&mut Notice)) {
        let mut table = lock(&self.table);
        let told = table.registered.values_mut().filter(|waiter| whom(waiter));
        let wakers: Vec<_> = told.filter_map(|waiter| waiter.tell(&what)).collect();
        drop(table);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// How many messages named no waiter.
    pub(crate) fn stray(&self) -> u64 {
        self.stray.load(Ordering::Relaxed)
    }

    /// How many stand in the queue of a node.
    pub(crate) fn queued(&self) -> usize {
        let table = lock(&self.table);
        let places = table.registered.values().filter_map(|waiter| waiter.place);
        places.count()
    }

    /// How many wait before the last of those that stand in the queue of a node.
    pub(crate) fn ahead(&self) -> u32 {
        let table = lock(&self.table);
        let places = table.registered.values().filter_map(|waiter| waiter.place);
        places.max().unwrap_or(0)
    }
}

impl Table {
    fn add(&mut self, lock_id: LockId) -> u64 {
        self.last += 1;
        let waiter = WaiterEntry {
            lock_id,
            homes: Nodes::NONE,
            place: None,
            notice: Notice {
                look: self.closed,
                ..Notice::default()
            },
            waker: None,
        };
        self.registered.insert(self.last, waiter);
        self.last
    }
}

impl WaiterEntry {
    /// To be woken once the table is free.
    fn tell(&mut self, what: impl FnOnce(&mut Notice)) -> Option<Waker> {
        what(&mut self.notice);
        self.waker.take()
    }
}

impl Subscriber for Inbox {
    fn on_message(&self, node: usize, hint: Hint) {
        let mut table = lock(&self.table);
        let ours = |waiter: &&mut WaiterEntry| waiter.homes.contains(node);
        let Some(waiter) = table.registered.get_mut(&hint.number).filter(ours) else {
            drop(table);
            self.stray.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let waker = waiter.tell(|notice| {
            notice.called = true;
            notice.slot = hint.slot;
        });
        drop(table);
        waker.into_iter().for_each(Waker::wake);
    }

    fn on_subscribed(&self, node: usize) {
        let there = |waiter: &WaiterEntry| waiter.homes.contains(node);
        self.tell_all(there, |notice| notice.subscribed = true);
    }

    fn is_awaited(&self, node: usize) -> bool {
        let table = lock(&self.table);
        table
            .registered
            .values()
            .any(|waiter| waiter.homes.contains(node))
    }
}

/// The registration of one waiter. Once it is dropped the waiter gets no more notices.
#[derive(Debug)]
pub(crate) struct Registration {
    inbox: Arc<Inbox>,
    number: u64,
}

impl Registration {
    /// How nodes know the waiter.
    pub(crate) fn waiter(&self) -> Waiter {
        Waiter {
            number: self.number,
            inbox: self.inbox.name.clone(),
        }
    }

    /// From here on it is another waiter: the previous one has left, or leaves, the queues that it
    /// stood in.
    pub(crate) fn become_another(&mut self) {
        let mut table = lock(&self.inbox.table);
        if let Some(old) = table.registered.remove(&self.number) {
            self.number = table.add(old.lock_id);
            let waiter = table.registered.get_mut(&self.number);
            waiter.expect("added above").notice.look = old.notice.look;
        }
    }

    /// It stands in the queues of those nodes, or may; `place`: behind this many.
    pub(crate) fn stands_at(&self, homes: Nodes, place: Option<u32>) {
        if let Some(waiter) = lock(&self.inbox.table).registered.get_mut(&self.number) {
            waiter.homes = homes;
            waiter.place = place;
        }
    }

    /// Ready when there is a notice for the waiter.
    pub(crate) fn poll_notice(&self, cx: &Context<'_>) -> Poll<Notice> {
        let mut table = lock(&self.inbox.table);
        let Some(waiter) = table.registered.get_mut(&self.number) else {
            return Poll::Pending;
        };
        let notice = std::mem::take(&mut waiter.notice);
        if notice != Notice::default() {
            return Poll::Ready(notice);
        }
        waiter.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&self.inbox.table).registered.remove(&self.number);
    }
}
