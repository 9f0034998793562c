//! Requests to a node that are yet to be written, in order.
//!
//! Requests wait for as long as their sender does. Releases stay until they
//! are written, or given up: what they undo may stand on the node. There are
//! thousands of these when a busy node hangs, so they are set aside where the
//! requests that come and fail meanwhile do not pass them by.

use std::collections::VecDeque;

use super::outbox::Item;
use crate::clock::Instant;
use crate::hash::HashMap;
use crate::lean::trim;
use crate::node::{Fault, FaultKind, Reply};

/// Releases that wait for a node that is away. Beyond it the oldest are given
/// up: their keys end by themselves.
const CLEAN_UP_BOUND: usize = 10_000;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Backlog {
    /// Releases for the next connection, before all else.
    kept: VecDeque<Box<Item>>,
    fresh: VecDeque<Box<Item>>,
}

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.fresh.is_empty()
    }

    pub(crate) fn add(&mut self, item: Box<Item>) {
        self.fresh.push_back(item);
    }

    /// The next to be written.
    pub(crate) fn next(&mut self) -> Option<Box<Item>> {
        let fresh = |fresh: &mut VecDeque<Box<Item>>| fresh.pop_front();
        let next = self.kept.pop_front().or_else(|| fresh(&mut self.fresh));
        trim(&mut self.fresh);
        next
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Box<Item>> {
        self.kept.iter().chain(&self.fresh)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Box<Item>> {
        self.kept.iter_mut().chain(&mut self.fresh)
    }

    /// What has come since requests were [failed](Backlog::fail_requests).
    pub(crate) fn fresh_mut(&mut self) -> impl Iterator<Item = &mut Box<Item>> {
        self.fresh.iter_mut()
    }

    /// Another connection is in doubt, which has had none of what waits: releases that were
    /// set aside go out over it, too.
    pub(crate) fn renew(&mut self) {
        for item in self.iter_mut() {
            item.on_old = false;
        }
        let mut all = std::mem::take(&mut self.kept);
        all.append(&mut self.fresh);
        self.fresh = all;
    }

    /// Everything, to be failed.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Box<Item>> {
        self.kept.drain(..).chain(self.fresh.drain(..))
    }

    /// Puts one in front that was written in vain. What was behind it comes
    /// behind it again: replies come in order, and these are written before
    /// anything new.
    pub(crate) fn again(&mut self, mut item: Box<Item>) {
        item.again = true;
        let mut all = std::mem::take(&mut self.kept);
        all.append(&mut self.fresh);
        let place = all.iter().take_while(|i| i.again).count();
        all.insert(place, item);
        self.fresh = all;
    }

    /// Requests fail; releases are set aside for the next connection.
    pub(crate) fn fail_requests(&mut self, fault: &Fault) {
        for mut item in self.fresh.drain(..) {
            if item.is_release() {
                self.kept.push_back(item);
            } else {
                item.tell(Reply::Failed(fault.clone()), None);
            }
        }
    }

    /// Gives up the oldest releases, if there are too many: how many.
    pub(crate) fn drop_oldest_releases(&mut self) -> u64 {
        let held = self.kept.len() + self.fresh.len();
        let over = held.saturating_sub(CLEAN_UP_BOUND);
        let mut dropped = 0;
        let mut drop = |mut item: Box<Item>| {
            item.fail(FaultKind::Refused, "too many releases wait for it", true);
            dropped += 1;
        };
        let kept = over.min(self.kept.len());
        self.kept.drain(..kept).for_each(&mut drop);
        for _ in kept..over {
            match self.fresh.iter().position(|item| item.is_release()) {
                Some(place) => self.fresh.remove(place).into_iter().for_each(&mut drop),
                None => break,
            }
        }
        dropped
    }

    /// Fails what is past its deadline, and says `why`; lowers `due` to what comes
    /// next.
    pub(crate) fn expire(&mut self, now: Instant, due: &mut Instant, why: &str) {
        let mut keep = |item: &mut Box<Item>| {
            if item.due() <= now {
                item.fail(FaultKind::Timeout, why, item.is_release());
            }
            let keep = item.due() > now && (item.sink.is_some() || item.is_release());
            if keep {
                *due = (*due).min(item.due());
            }
            keep
        };
        self.kept.retain_mut(&mut keep);
        self.fresh.retain_mut(&mut keep);
    }
}

/// How many releases of each lease wait to be written.
pub(crate) struct ReleaseCounts(HashMap<Box<[u8]>, usize>);

impl ReleaseCounts {
    pub(crate) fn of(waiting: &Backlog) -> ReleaseCounts {
        let mut counts = HashMap::default();
        for item in waiting.iter().filter(|item| item.is_release()) {
            *counts.entry(lease_of(item).into()).or_default() += 1;
        }
        ReleaseCounts(counts)
    }

    /// Whether there is one of the lease that a request is for.
    pub(crate) fn have_of(&self, item: &Item) -> bool {
        self.0.get(lease_of(item)).is_some_and(|count| *count > 0)
    }

    /// One of them waits no more.
    pub(crate) fn remove(&mut self, release: &Item) {
        if let Some(count) = self.0.get_mut(lease_of(release)) {
            *count -= 1;
        }
    }
}

fn lease_of(item: &Item) -> &[u8] {
    item.request.value.identity()
}

impl Extend<Box<Item>> for Backlog {
    fn extend<T: IntoIterator<Item = Box<Item>>>(&mut self, items: T) {
        self.fresh.extend(items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{
        AfterRelease, AuxKeys, Keys, Mode, Op, Request, RequestContext, Sink, TimeReading, Value,
        Waits,
    };
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// The replies that the sinks were given, by the numbers of the requests.
    #[derive(Default)]
    struct ToldNodes(Mutex<Vec<usize>>);

    impl Sink for ToldNodes {
        fn on_reply(&self, ticket: RequestContext, _: Reply, _: Option<TimeReading>) {
            self.0.lock().unwrap().push(ticket.node);
        }

        fn wanted(&self) -> bool {
            true
        }
    }

    fn item(number: usize, op: Op, told: &Arc<ToldNodes>) -> Box<Item> {
        let key: Arc<[u8]> = b"k"[..].into();
        let keys = Keys {
            aux: AuxKeys::of(b"q", b"f"),
            lock: key,
            waits: Waits {
                reservation: Duration::ZERO,
                place: Duration::ZERO,
                most: 0,
            },
            fence_ttl: None,
            mode: Mode::Exclusive,
            adopts: None,
            field: None,
        };
        let request = Request {
            op,
            keys: Arc::new(keys),
            value: Value(b"v"[..].into()),
            waiter: None,
            leaving: AfterRelease::Free,
            native: false,
            not_after: 0,
        };
        let ticket = RequestContext {
            node: number,
            sent: Instant(1),
            deadline: Instant(5),
            op,
            server: 0,
        };
        Item::new(request, ticket, told.clone(), Instant(9))
    }

    const REQUEST: Op = Op::Confirm {
        ttl: Duration::ZERO,
        fence: 0,
        block: 1,
    };

    fn numbers(backlog: &Backlog) -> Vec<usize> {
        backlog.iter().map(|item| item.ticket.node).collect()
    }

    #[test]
    fn releases_outlive_failing_requests_in_their_order() {
        let told = Arc::<ToldNodes>::default();
        let mut backlog = Backlog::default();
        for (number, op) in [(1, REQUEST), (2, Op::Release), (3, REQUEST)] {
            backlog.add(item(number, op, &told));
        }
        let fault = Fault::unwanted();
        backlog.fail_requests(&fault);
        assert_eq!(*told.0.lock().unwrap(), [1, 3]);
        assert_eq!(backlog.fresh_mut().count(), 0);
        backlog.add(item(4, Op::Release, &told));
        backlog.add(item(5, REQUEST, &told));
        assert_eq!(numbers(&backlog), [2, 4, 5]);
        // The first item is answered when it is dropped.
        let next = backlog.next().unwrap();
        assert_eq!(next.ticket.node, 2);
        // An item that was written in vain comes first, and fails as any other.
        backlog.again(item(6, REQUEST, &told));
        assert_eq!(numbers(&backlog), [6, 4, 5]);
        backlog.fail_requests(&fault);
        assert_eq!(*told.0.lock().unwrap(), [1, 3, 6, 5]);
        // The release is answered at its deadline, and kept until it is given up.
        let mut due = Instant::FAR;
        backlog.expire(Instant(5), &mut due, "late");
        assert_eq!(*told.0.lock().unwrap(), [1, 3, 6, 5, 4]);
        assert_eq!((numbers(&backlog), due), (vec![4], Instant(9)));
        backlog.expire(Instant(9), &mut due, "late");
        assert!(backlog.is_empty());
    }

    #[test]
    fn the_oldest_releases_are_given_up_and_no_request() {
        let told = Arc::<ToldNodes>::default();
        let mut backlog = Backlog::default();
        backlog.add(item(0, Op::Release, &told));
        backlog.fail_requests(&Fault::unwanted());
        backlog.add(item(1, REQUEST, &told));
        for number in 2..CLEAN_UP_BOUND {
            backlog.add(item(number, Op::Release, &told));
        }
        assert_eq!(backlog.drop_oldest_releases(), 0);
        backlog.add(item(CLEAN_UP_BOUND, Op::Release, &told));
        backlog.add(item(CLEAN_UP_BOUND + 1, Op::Release, &told));
        assert_eq!(backlog.drop_oldest_releases(), 2);
        assert_eq!(*told.0.lock().unwrap(), [0, 2]);
        assert_eq!(numbers(&backlog)[..2], [1, 3]);
    }
}
