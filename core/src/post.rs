//! The post of one client: what nodes tell its waiters without being asked.
//!
//! A message names a waiter by the number that the client gave it. It is a
//! hint: what it brings is that the waiter asks again. One that names nobody
//! who waits is counted, and that is all.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::Instant;
use crate::mutants::mutant;
use crate::node::{Link, Mail, Nodes, Waiter};
use crate::sync::lock;

/// For how long a lock counts as contended after it was seen to be.
const CONTENDED: Duration = Duration::from_secs(1);
/// Contended locks that are remembered; beyond it those are forgotten that
/// were not seen to be contended for long enough.
const REMEMBERED: usize = 1024;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Post {
    /// The channel on which the client listens.
    inbox: Arc<[u8]>,
    table: Mutex<Table>,
    stray: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    last: u64,
    entries: BTreeMap<u64, Entry>,
    /// Whoever comes now is to look at once.
    closed: bool,
    /// When each lock was seen to be contended last.
    contended: HashMap<Arc<[u8]>, Instant>,
}

#[derive(Debug)]
struct Entry {
    /// The lock that it waits for.
    key: Arc<[u8]>,
    /// The nodes in whose queues it stands, or may.
    homes: Nodes,
    /// How many wait before it there, at its last word.
    place: Option<u32>,
    news: News,
    waker: Option<Waker>,
}

/// What a waiter was told since it looked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// Its home says that its turn has come.
    pub(crate) called: bool,
    /// The connection to its home is a new one, so that what it said before may
    /// be lost.
    pub(crate) listening: bool,
    /// Something has changed in this client: it is closed, or the lock was won
    /// by an owner that may be the waiter's.
    pub(crate) look: bool,
}

impl Post {
    /// The post of a client that listens on `inbox` of those nodes.
    pub fn new(inbox: Arc<[u8]>, links: &[Arc<dyn Link>]) -> Arc<Post> {
        let post = Arc::new(Post {
            inbox,
            table: Mutex::default(),
            stray: AtomicU64::new(0),
        });
        for link in links {
            link.listen(post.clone());
        }
        post
    }

    /// A letterbox for someone who waits for the lock of that key.
    pub(crate) fn rent(self: &Arc<Self>, key: &Arc<[u8]>) -> Letterbox {
        Letterbox {
            post: self.clone(),
            number: lock(&self.table).add(key.clone()),
        }
    }

    /// Has all that wait for `key` look again; all of the client without one.
    pub fn look_again(&self, key: Option<&[u8]>) {
        let of_key = |entry: &Entry| key.is_none_or(|key| *entry.key == *key);
        self.tell_all(of_key, |news| news.look = true);
    }

    /// Has all look again, and whoever comes later.
    pub(crate) fn close(&self) {
        lock(&self.table).closed = true;
        self.look_again(None);
    }

    fn tell_all(&self, whom: impl Fn(&Entry) -> bool, what: impl Fn(&mut News)) {
        let mut table = lock(&self.table);
        let told = table.entries.values_mut().filter(|entry| whom(entry));
        let wakers: Vec<_> = told.filter_map(|entry| entry.tell(&what)).collect();
        drop(table);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Notes that others want the lock of that key too.
    pub(crate) fn note_contention(&self, key: &Arc<[u8]>, now: Instant) {
        let mut table = lock(&self.table);
        if table.contended.len() >= REMEMBERED && !table.contended.contains_key(key) {
            table.contended.retain(|_, at| now < *at + CONTENDED);
            if table.contended.len() >= REMEMBERED {
                return;
            }
        }
        table.contended.insert(key.clone(), now);
    }

    /// Whether others were seen lately to want it.
    pub(crate) fn is_contended(&self, key: &[u8], now: Instant) -> bool {
        let mut table = lock(&self.table);
        match table.contended.get(key) {
            None => false,
            Some(at) if now < *at + CONTENDED => true,
            Some(_) => {
                table.contended.remove(key);
                false
            }
        }
    }

    /// How many messages named nobody who waits.
    pub(crate) fn stray(&self) -> u64 {
        self.stray.load(Ordering::Relaxed)
    }

    /// How many stand in the queue of a node.
    pub(crate) fn queued(&self) -> usize {
        let table = lock(&self.table);
        let places = table.entries.values().filter_map(|entry| entry.place);
        places.count()
    }

    /// How many wait before the last of those that stand in the queue of a node.
    pub(crate) fn ahead(&self) -> u32 {
        let table = lock(&self.table);
        let places = table.entries.values().filter_map(|entry| entry.place);
        places.max().unwrap_or(0)
    }
}

impl Table {
    fn add(&mut self, key: Arc<[u8]>) -> u64 {
        self.last += 1;
        let entry = Entry {
            key,
            homes: Nodes::NONE,
            place: None,
            news: News {
                look: self.closed,
                ..News::default()
            },
            waker: None,
        };
        self.entries.insert(self.last, entry);
        self.last
    }
}

impl Entry {
    /// To be woken once the table is free.
    fn tell(&mut self, what: impl FnOnce(&mut News)) -> Option<Waker> {
        what(&mut self.news);
        self.waker.take()
    }
}

impl Mail for Post {
    fn on_message(&self, node: usize, number: u64) {
        let mut table = lock(&self.table);
        let ours = |entry: &&mut Entry| entry.homes.contains(node);
        let Some(entry) = table.entries.get_mut(&number).filter(ours) else {
            drop(table);
            self.stray.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let waker = entry.tell(|news| news.called = mutant!("messages-unheard", true, false));
        drop(table);
        waker.into_iter().for_each(Waker::wake);
    }

    fn on_listening(&self, node: usize) {
        let there = |entry: &Entry| entry.homes.contains(node);
        self.tell_all(there, |news| news.listening = true);
    }

    // Whoever waits there is told once there is another: nothing can be done
    // before, but what its timer does.
    fn on_deaf(&self, _: usize) {}

    fn is_awaited(&self, node: usize) -> bool {
        let table = lock(&self.table);
        table
            .entries
            .values()
            .any(|entry| entry.homes.contains(node))
    }
}

/// Who hears what nodes tell one waiter. Dropped, nobody does.
#[derive(Debug)]
pub(crate) struct Letterbox {
    post: Arc<Post>,
    number: u64,
}

impl Letterbox {
    /// How nodes know the waiter.
    pub(crate) fn waiter(&self) -> Waiter {
        Waiter {
            number: self.number,
            inbox: self.post.inbox.clone(),
        }
    }

    /// From here on it is another waiter: the one before has left, or leaves,
    /// the queues that it stood in.
    pub(crate) fn become_another(&mut self) {
        let mut table = lock(&self.post.table);
        if let Some(old) = table.entries.remove(&self.number) {
            self.number = table.add(old.key);
            let entry = table.entries.get_mut(&self.number);
            entry.expect("added above").news.look = old.news.look;
        }
    }

    /// It stands in the queues of those nodes, or may; `place`: behind so many.
    pub(crate) fn stands_at(&self, homes: Nodes, place: Option<u32>) {
        if let Some(entry) = lock(&self.post.table).entries.get_mut(&self.number) {
            entry.homes = homes;
            entry.place = place;
        }
    }

    /// Ready when there is news.
    pub(crate) fn poll_news(&self, cx: &Context<'_>) -> Poll<News> {
        let mut table = lock(&self.post.table);
        let Some(entry) = table.entries.get_mut(&self.number) else {
            return Poll::Pending;
        };
        let news = std::mem::take(&mut entry.news);
        if news != News::default() {
            return Poll::Ready(news);
        }
        entry.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Letterbox {
    fn drop(&mut self) {
        lock(&self.post.table).entries.remove(&self.number);
    }
}
