//! The real link of a client to a node, between two taps.

use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::probe::link::{Door, SENTINEL};
use quorlock::sim::{
    Hint, Instant, Link, Op, Reply, Request, RequestContext, Sink, Subscriber, TimeReading, Wakers,
};

use super::sentinel::{self, MASTER};
use super::serve::PASSWORD;
use super::{Mark, address, other_server, stream};
use crate::death;
use crate::plan::DRIFT;
use crate::random::Random;
use crate::world::events::Event;
use crate::world::network::{NOT_SENT, Open, Pair};
use crate::world::{MS, Time, World};

/// A request is told this much after its deadline, at the latest.
const TOLD_WITHIN: Time = MS / 100;

/// The real link, and what stands before it.
struct ByteLink {
    world: Arc<World>,
    pair: usize,
    real: Arc<dyn Link>,
}

impl World {
    /// The real links of a client to all nodes that it lists, over simulated streams.
    pub(in crate::world) fn real_links(self: &Arc<Self>, client: usize) -> Vec<Arc<dyn Link>> {
        let (nodes, names, expected, seed, waits) = {
            let inner = self.inner();
            let own = &inner.pairs[client * inner.nodes.len()..];
            let name = |pair: &Pair| format!("n{}", pair.node).into();
            let listed = inner.listed(client).0;
            let names: Vec<Arc<str>> = own.iter().take(listed).map(name).collect();
            let expected = inner.surveys[client].expected().clone();
            let waits = (
                Duration::from_nanos(inner.network.patience),
                inner.admission.wait_replicas,
            );
            let seed = inner.random.bits();
            (inner.nodes.len(), names, expected, seed, waits)
        };
        let rng = Arc::new(Random::new(seed));
        let inbox = self.inbox(client);
        let listed = names.len();
        let door = Door::new(
            expected,
            names,
            "lock:",
            inbox,
            DRIFT,
            waits,
            (self.clock(client), rng),
        );
        let door = if death::are_wanted() {
            door.lasting(death::told)
        } else {
            door
        };
        let link = |place: usize| -> Arc<dyn Link> {
            let pair = client * nodes + place;
            let world = self.clone();
            let dial = move |address: &str| {
                if address.starts_with(SENTINEL) {
                    sentinel::dial(world.clone(), pair)
                } else {
                    stream::dial(world.clone(), pair, address.into())
                }
            };
            let node = self.inner().pairs[pair].node;
            let fails_over = self.inner().fails_over(node).then_some(MASTER);
            let with_password = client.is_multiple_of(2).then_some(PASSWORD);
            let (real, task) = door.link(
                place,
                (with_password, (client % 3) as i64),
                fails_over,
                dial,
            );
            self.spawn_link(client, pair, task);
            self.inner().bytes().lanes[pair].link = Some(real.clone());
            let world = self.clone();
            Arc::new(ByteLink { world, pair, real })
        };
        (0..listed).map(link).collect()
    }
}

impl Link for ByteLink {
    fn send(
        &self,
        request: Request,
        ticket: RequestContext,
        sink: Arc<dyn Sink>,
        give_up: Instant,
    ) -> Option<Wakers> {
        let (pair, wanted) = (self.pair, sink.wanted());
        let message = {
            let mut inner = self.world.inner();
            let inner = &mut *inner;
            let client = inner.pairs[pair].client;
            let message = if wanted {
                inner.asks(pair, &request)?
            } else {
                // It was given up in this moment, and need not be entered.

                inner.messages += 1;
                inner.messages
            };
            let clock = inner.clients[client].clock;
            let (now, until) = (inner.time, clock.time(give_up));
            let open = Open {
                request: request.clone(),
                ticket,
                sink: Some(sink.clone()),
                give_up: until,
                sent: inner.clients[client].now(now),
                connection: NOT_SENT,
                readmitted: false,
                void: false,
            };
            inner.pairs[pair].open.insert(message, open);
            let deadline = clock.time(ticket.deadline);
            inner.due(deadline);
            let overdue = Event::Overdue {
                pair,
                message,
                asked: now,
            };
            inner.push(deadline + TOLD_WITHIN, overdue);
            if request.op == Op::Release {
                inner.push(until, Event::GivenUp { pair, message });
                let lane = &mut inner.bytes().lanes[pair];
                lane.fresh.push(message);
                lane.released.push(Mark::of(&request));
                inner.is_released(pair, &request.value);
            }
            message
        };
        let tap = Tap {
            world: self.world.clone(),
            pair,
            message,
            sink,
        };
        self.real.send(request, ticket, Arc::new(tap), give_up)
    }

    fn ring(&self, owed: Wakers) {
        self.real.ring(owed);
    }

    fn shown(&self) -> Arc<str> {
        self.real.shown()
    }

    fn id(&self) -> u64 {
        self.real.id()
    }

    fn is_ours(&self) -> bool {
        self.real.is_ours()
    }

    fn close(&self) {
        self.real.close();
    }

    fn subscribe(&self, subscriber: Arc<dyn Subscriber>) {
        let (world, pair) = (self.world.clone(), self.pair);
        world.inner().bytes().lanes[pair].subscriber = Some(subscriber.clone());
        self.real.subscribe(Arc::new(Ear {
            world,
            pair,
            subscriber,
        }));
    }

    fn stray(&self) -> u64 {
        self.real.stray()
    }
}

/// Hears what the link tells of one request.
struct Tap {
    world: Arc<World>,
    pair: usize,
    message: u64,
    sink: Arc<dyn Sink>,
}

impl Sink for Tap {
    fn on_reply(&self, ticket: RequestContext, reply: Reply, time: Option<TimeReading>) {
        let (pair, message) = (self.pair, self.message);
        let before = {
            let mut inner = self.world.inner();
            let inner = &mut *inner;
            let Some(open) = inner.told(pair, message, ticket, &reply) else {
                return;
            };
            let (client, node) = (inner.pairs[pair].client, inner.pairs[pair].node);
            if let Some(TimeReading { time, .. }) = time {
                let mut ticket = ticket;
                // Each server's clock is compared with itself.
                if ticket.server == other_server(node) {
                    ticket.server = Time::MAX;
                }
                debug_assert!(ticket.server != 0 || address(node, false).is_empty());
                inner.told_time(client, ticket, time);
            }
            if matches!(reply, Reply::Quarantined { .. } | Reply::Failed(_)) {
                inner.pairs[pair].failed_at = inner.time.max(1);
            }
            inner.note(|| format!("c{client} <- n{node} m{message} {reply:?}"));
            inner.confirm(&open, &reply);
            inner.before(&open.request)
        };
        self.sink.on_reply(ticket, reply, time);
        if let Some(before) = before {
            self.world.inner().after(before);
        }
    }

    fn wanted(&self) -> bool {
        self.sink.wanted()
    }
}

/// Hears what comes to the client's inbox.
struct Ear {
    world: Arc<World>,
    pair: usize,
    subscriber: Arc<dyn Subscriber>,
}

impl Subscriber for Ear {
    fn on_message(&self, node: usize, hint: Hint) {
        {
            let mut inner = self.world.inner();
            let p = &inner.pairs[self.pair];
            let (client, node) = (p.client, p.node);
            inner.note(|| format!("c{client} <- n{node} waiter {}", hint.number));
        }
        self.subscriber.on_message(node, hint);
    }

    fn on_subscribed(&self, node: usize) {
        self.world.inner().hears_again(self.pair);
        self.subscriber.on_subscribed(node);
    }

    fn is_awaited(&self, node: usize) -> bool {
        self.subscriber.is_awaited(node)
    }
}
