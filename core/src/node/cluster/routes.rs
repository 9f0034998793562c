//! Where a request goes, and what becomes of a request that its server does not serve.
//!
//! A redirection of one hash slot (`MOVED`) counts at once, and the task asks for the whole map
//! anew. A redirected request goes to its new server before any later request of that hash slot:
//! both happen under one lock. A request whose token was released meanwhile is not sent again; see
//! [`Sink::wanted`](crate::node::Sink::wanted).

mod reader;
mod redirects;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use crate::clock::Instant;
use crate::event::event;
use crate::mutex::lock;
use crate::node::address::Endpoint;
use crate::node::hash_slot::{self, SLOTS};
use crate::node::redis::connect::{Target, View};
use crate::node::redis::map::{PRIMARIES, Range};
use crate::node::redis::outbox::{HAS_ENDED, Item};
use crate::node::redis::router::Router;
use crate::node::redis::{QUEUE_BOUND, RedisLink, TOO_MANY, Worker};
use crate::node::{Fault, FaultKind, Link, Reply, RequestContext, Server, Sink, Subscriber};
use crate::runtime::drive::Driver;
use crate::wakers::Wakers;

/// A map is asked for no more often than this,
const REFRESH: Duration = Duration::from_millis(100);
/// or after so long where none was to be had.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The first pause before a server is asked again that could not serve a hash slot yet; it
/// doubles up to [`REFRESH`].
const PAUSE: Duration = Duration::from_millis(2);
/// A request that was sent from server to server so often waits for the next map.
const REDIRECTS: u32 = 5;
/// No shard.
const NONE: u16 = u16::MAX;

/// Spawns what works for a shard.
pub(crate) type Spawn = Box<dyn Fn(Worker) + Send + Sync>;

type MapQuery = Pin<Box<dyn Future<Output = Result<View, Fault>> + Send>>;
type SeedCheck = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;

/// See the [module documentation](self).
pub(crate) struct Routes {
    /// The cluster as its URL names it.
    pub(crate) target: Target,
    driver: Option<&'static Driver>,
    spawn: Spawn,
    /// The hash of the node's id; 0 before that is known.
    id: AtomicU64,
    /// The last map that was asked for is there.
    mapped: AtomicBool,
    state: Mutex<RoutesState>,
    /// For the connections to its shards.
    me: Weak<Routes>,
}

struct RoutesState {
    shards: Vec<ShardLink>,
    /// The place of the shard that serves each hash slot.
    map: Box<[u16]>,
    /// Whether the map may be wrong, so that another is to be read.
    stale: bool,
    /// Why nothing is asked of the node any more, but to release.
    refused: Option<Fault>,
    /// Why the last that was asked for a map gave none.
    mapless: Option<Fault>,
    /// Requests that cannot go anywhere yet.
    waiting: VecDeque<ParkedRequest>,
    subscriber: Option<Arc<dyn Subscriber>>,
    /// The task that reads maps.
    task: Wakers,
    /// Whether the task is to look once more before it sleeps.
    fresh: bool,
    /// Whether the task has panicked and waits for its restart. A request fails at once meanwhile,
    /// for no task would answer it in time.
    rests: bool,
    closed: bool,
}

struct ShardLink {
    at: Endpoint,
    link: Arc<RedisLink>,
}

/// A request that waits.
struct ParkedRequest {
    item: Box<Item>,
    /// Until when the request waits; for a map, if that is never.
    until: Instant,
    why: &'static str,
}

/// What is due once the lock is dropped: a sink that is given a reply may send another request at
/// once, which takes the lock again.
#[derive(Default)]
struct Notifications {
    owed: Wakers,
    told: Vec<(Arc<dyn Sink>, RequestContext, Fault)>,
}

impl Notifications {
    /// Fails the item. The caller keeps a release that it is to send again.
    fn fail(&mut self, item: &mut Item, fault: Fault) {
        self.tells(item.sink.take(), item.ticket, fault);
    }

    fn tells(&mut self, sink: Option<Arc<dyn Sink>>, ticket: RequestContext, fault: Fault) {
        self.told.extend(sink.map(|sink| (sink, ticket, fault)));
    }

    /// Fails an item that waits for a map, because the task that reads maps has ended.
    fn has_ended(&mut self, item: &mut Item) {
        let sent = item.is_sent();
        self.fail(item, Fault::new(FaultKind::Unreachable, HAS_ENDED, sent));
    }

    /// Tells what has failed.
    fn tell(&mut self) {
        for (sink, ticket, fault) in self.told.drain(..) {
            sink.on_reply(ticket, Reply::Failed(fault), None);
        }
    }
}

impl RoutesState {
    /// The item goes to the shard of that place.
    fn send(&self, shard: usize, item: Box<Item>, after: &mut Notifications) {
        match self.shards[shard].link.put(item) {
            Ok(owed) => after.owed.extend(owed),
            Err((sink, ticket, fault)) => after.tells(sink, ticket, fault),
        }
    }

    /// Sends the item to the shard that serves its hash slot, or parks it until the map names that
    /// shard.
    fn route(&mut self, mut item: Box<Item>, after: &mut Notifications) {
        if let Some(fault) = self.refused.clone().filter(|_| !item.is_release()) {
            return after.fail(&mut item, fault);
        }
        if let Some(shard) = self.place_of(&item) {
            return self.send(shard, item, after);
        }
        if self.closed {
            let fault = Fault::new(FaultKind::Refused, "the client is closed", false);
            return after.fail(&mut item, fault);
        }
        self.stale = true;
        let why = if self.shards.is_empty() {
            "its servers are not known yet"
        } else {
            "no server of the cluster serves its hash slot"
        };
        self.wait(item, Instant::NEVER, why, after);
    }

    /// The item waits until then, and for a map if need be.
    fn wait(
        &mut self,
        mut item: Box<Item>,
        until: Instant,
        why: &'static str,
        after: &mut Notifications,
    ) {
        if self.waiting.len() >= QUEUE_BOUND && !item.is_release() {
            let fault = Fault::new(FaultKind::Refused, TOO_MANY, item.is_sent());
            return after.fail(&mut item, fault);
        }
        if self.rests {
            after.has_ended(&mut item);
            if !item.is_release() {
                return;
            }
        }
        self.waiting.push_back(ParkedRequest { item, until, why });
        self.fresh = true;
        after.owed.extend(self.task.take());
    }

    fn place_of(&self, item: &Item) -> Option<usize> {
        let slot = hash_slot::of(&item.request.keys.lock);
        let place = usize::from(self.map[usize::from(slot)]);
        (place < self.shards.len()).then_some(place)
    }

    /// Takes out those that serve nothing, if there are more than a map may name: each server that
    /// a request was ever sent to stays, and there may be ever new ones.
    fn forget(&mut self) -> Vec<ShardLink> {
        if self.shards.len() <= PRIMARIES {
            return Vec::new();
        }
        let (mut kept, mut left) = (Vec::new(), Vec::new());
        let mut places = vec![NONE; self.shards.len()];
        self.map.iter().for_each(|place| {
            if let Some(kept) = places.get_mut(usize::from(*place)) {
                *kept = 0;
            }
        });
        for (shard, place) in std::mem::take(&mut self.shards)
            .into_iter()
            .zip(&mut places)
        {
            match *place {
                NONE => left.push(shard),
                _ => {
                    *place = kept.len() as u16;
                    kept.push(shard);
                }
            }
        }
        for place in &mut self.map {
            *place = places.get(usize::from(*place)).copied().unwrap_or(NONE);
        }
        self.shards = kept;
        left
    }

    /// Whether a request may be sent to a server of which nothing was known.
    fn has_room(&self, to: &Endpoint) -> bool {
        self.shards.len() < 2 * PRIMARIES || self.shards.iter().any(|shard| shard.at == *to)
    }

    fn shard_of(&self, item: &Item) -> Option<&ShardLink> {
        self.place_of(item).map(|place| &self.shards[place])
    }
}

impl Routes {
    /// Makes routes that know nothing of the cluster yet.
    pub(super) fn new(
        target: Target,
        driver: Option<&'static Driver>,
        spawn: Spawn,
    ) -> Arc<Routes> {
        Arc::new_cyclic(|me| Routes {
            me: me.clone(),
            target,
            driver,
            spawn,
            id: AtomicU64::new(0),
            mapped: AtomicBool::new(false),
            state: Mutex::new(RoutesState {
                shards: Vec::new(),
                map: vec![NONE; SLOTS].into(),
                stale: false,
                refused: None,
                mapless: None,
                waiting: VecDeque::new(),
                subscriber: None,
                task: Wakers::default(),
                fresh: false,
                rests: false,
                closed: false,
            }),
        })
    }

    /// Queues an item for the shard that serves its hash slot; returns the wake-up that is owed.
    pub(super) fn put(&self, item: Box<Item>) -> Option<Wakers> {
        let mut after = Notifications::default();
        lock(&self.state).route(item, &mut after);
        after.tell();
        Some(after.owed)
    }

    fn finish(&self, mut after: Notifications) {
        after.tell();
        self.ring(after.owed);
    }

    /// The place of the shard at an endpoint, whose link is made if there is none.
    fn shard(&self, state: &mut MutexGuard<'_, RoutesState>, at: Endpoint) -> usize {
        if let Some(place) = state.shards.iter().position(|shard| shard.at == at) {
            return place;
        }
        let target = self.target_at(at.clone());
        let (link, worker) = RedisLink::new(target, self.target.gate.clock.clone(), self.driver);
        if let Some(subscriber) = &state.subscriber {
            link.subscribe(subscriber.clone());
        }
        if state.closed {
            link.close();
        }
        (self.spawn)(worker);
        state.shards.push(ShardLink {
            at,
            link: Arc::new(link),
        });
        state.shards.len() - 1
    }

    /// The server at an endpoint, as a connection to it is made.
    fn target_at(&self, at: Endpoint) -> Target {
        let address = self.target.address.of_cluster(at);
        let me = self.me.upgrade().map(|me| me as Arc<dyn Router>);
        self.target.at(address, me)
    }

    /// The primaries of the map.
    fn primaries(&self) -> Vec<Endpoint> {
        let state = lock(&self.state);
        let serves = |place: &usize| state.map.contains(&(*place as u16));
        let places = (0..state.shards.len()).filter(serves);
        places.map(|place| state.shards[place].at.clone()).collect()
    }

    /// The hash of the node's id; 0 before that is known.
    pub(super) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// Whether it is known which server serves what, and so whose fault one is.
    pub(super) fn is_mapped(&self) -> bool {
        self.mapped.load(Ordering::Relaxed)
    }

    /// The sum over all links that there are.
    pub(super) fn sum(&self, of: impl Fn(&RedisLink) -> u64) -> u64 {
        let state = lock(&self.state);
        state.shards.iter().map(|shard| of(&shard.link)).sum()
    }

    /// What the fullest of the shards has said, and when the first of their certificates ends.
    pub(super) fn fullest(&self) -> Server {
        let state = lock(&self.state);
        let said = state.shards.iter().map(|shard| shard.link.server());
        said.reduce(Server::worse).unwrap_or_default()
    }

    pub(super) fn subscribe(&self, subscriber: Arc<dyn Subscriber>) {
        let mut state = lock(&self.state);
        for shard in &state.shards {
            shard.link.subscribe(subscriber.clone());
        }
        state.subscriber = Some(subscriber);
    }

    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        (state.closed, state.fresh) = (true, true);
        let task = state.task.take();
        let links: Vec<_> = state
            .shards
            .iter()
            .map(|shard| shard.link.clone())
            .collect();
        drop(state);
        self.ring(task);
        links.iter().for_each(|link| link.close());
    }

    pub(super) fn ring(&self, owed: Wakers) {
        match self.driver {
            Some(driver) => driver.wake(owed),
            None => owed.wake(),
        }
    }

    /// No task keeps the map any more: what waits for another one is answered.
    pub(super) fn end(&self) {
        let waiting = std::mem::take(&mut lock(&self.state).waiting);
        for mut waits in waiting {
            let item = &mut waits.item;
            item.fail(FaultKind::Refused, "the client is closed", true);
        }
    }

    /// Takes another map.
    fn take_map(&self, ranges: Vec<Range>) {
        let mut state = lock(&self.state);
        state.mapless = None;
        state.map.fill(NONE);
        for range in ranges {
            let shard = self.shard(&mut state, range.primary) as u16;
            state.map[usize::from(range.first)..=usize::from(range.last)].fill(shard);
        }
        let left = state.forget();
        drop(state);
        left.iter().for_each(|shard| shard.link.close());
        self.mapped.store(true, Ordering::Relaxed);
    }

    /// Sends on what need not wait any more, and fails what waited for too long. Returns when
    /// to look again.
    fn look(&self, now: Instant) -> Instant {
        let mut guard = lock(&self.state);
        let (mut next, mut after) = (Instant::FAR, Notifications::default());
        for mut waits in std::mem::take(&mut guard.waiting) {
            let item = &mut waits.item;
            if item.due() <= now {
                let late = || Fault::new(FaultKind::Timeout, waits.why, item.is_sent());
                // The last attempt to read a map says best why there is no map.
                let mapless = guard.mapless.as_ref();
                let fault = match mapless.filter(|_| guard.place_of(item).is_none()) {
                    Some(fault) => Fault {
                        sent: item.is_sent(),
                        ..fault.clone()
                    },
                    None => late(),
                };
                let given_up = !item.is_release() || item.give_up <= now;
                after.fail(item, fault);
                if given_up {
                    continue;
                }
            }
            let nowhere = guard.place_of(item).is_none();
            guard.stale |= nowhere;
            if waits.until > now || nowhere {
                let until = if waits.until > now {
                    waits.until
                } else {
                    Instant::FAR
                };
                next = next.min(until).min(item.due());
                guard.waiting.push_back(waits);
                continue;
            }
            guard.route(waits.item, &mut after);
        }
        drop(guard);
        self.finish(after);
        next
    }

    /// Refuses the node because its URL names servers of two clusters.
    fn refuse(&self, fault: Fault) {
        lock(&self.state).refused = Some(fault.clone());
        (self.target.gate.warn)(event!(
            "cluster_refused",
            "the node {node}: {reason}",
            node = self.target.address.shown,
            reason = fault.text,
        ));
        self.no_map(&fault);
    }

    /// No map is to be had: requests that wait for one fail, and releases go on waiting.
    fn no_map(&self, fault: &Fault) {
        self.mapped.store(false, Ordering::Relaxed);
        let mut state = lock(&self.state);
        state.mapless = Some(fault.clone());
        let waiting = std::mem::take(&mut state.waiting);
        let (lost, kept) = waiting
            .into_iter()
            .partition(|waits| !waits.item.is_release() && state.shard_of(&waits.item).is_none());
        state.waiting = kept;
        drop(state);
        let lost: VecDeque<ParkedRequest> = lost;
        for mut waits in lost {
            let sent = waits.item.is_sent();
            let fault = Fault {
                sent,
                ..fault.clone()
            };
            waits.item.tell(Reply::Failed(fault), None);
        }
    }
}
