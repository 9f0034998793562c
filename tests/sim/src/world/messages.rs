//! Messages: who listens where, and how what a node publishes gets there.
//!
//! As on the real link: a connection whose client listens subscribes its inbox
//! in the last step of its set-up, and messages come between its replies, in
//! order with them; what breaks the connection loses them. A client is deaf
//! from when it gives its connection up until the next one is ready. The node
//! sees the end of a connection when it is told, or, if nobody can tell it, some
//! time later; until then its messages go to nobody, and it counts a listener.

use std::cell::RefMut;
use std::sync::Arc;

use quorlock::sim::{Hint, Message, Request, Subscriber, Waiter};

use super::events::Event;
use super::faults::Node;
use super::{FaultEvent, Inner, Time, World};
use crate::history::Happened;

/// A node finds out that a connection is dead within this many ttls.
pub const HALF_OPEN: f64 = 1.0;

/// The subscription of a client's inbox on one node, as the client knows it.
pub(super) struct Subscription {
    /// Who is told what comes.
    pub(super) subscriber: Arc<dyn Subscriber>,
    inbox: Arc<[u8]>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// There has been none.
    Never,
    /// The connection in use has it.
    Stands,
    /// One had it, and was given up.
    Lost,
}

impl Subscription {
    pub(super) fn new(inbox: Arc<[u8]>, subscriber: Arc<dyn Subscriber>) -> Subscription {
        Subscription {
            subscriber,
            inbox,
            state: State::Never,
        }
    }

    /// Whether it stood, and does not any more.
    pub(super) fn is_lost(&self) -> bool {
        self.state == State::Lost
    }
}

/// A listener: a subscription as its node knows it.
pub(super) struct Listener {
    pub(super) pair: usize,
    pub(super) connection: u64,
    pub(super) inbox: Arc<[u8]>,
}

impl Node {
    /// The node starts anew: its connections are gone, and what they had
    /// subscribed.
    pub(super) fn drop_listeners(&mut self) {
        for listener in self.listeners.drain(..) {
            self.state.unsubscribe(&listener.inbox);
        }
    }

    /// Other data has taken the place of the node's own; its connections stand.
    pub(super) fn keep_listeners(&mut self) {
        for listener in &self.listeners {
            self.state.subscribe(&listener.inbox);
        }
    }

    /// What is saved of a node: its data.
    pub(super) fn save(&mut self) {
        self.saved = self.state.clone();
        for listener in &self.listeners {
            self.saved.unsubscribe(&listener.inbox);
        }
    }
}

/// The name of a client's inbox.
pub(super) fn inbox_of(client: usize) -> Arc<[u8]> {
    format!("lock:#in:{client:032x}").into_bytes().into()
}

impl World {
    /// The name of a client's inbox.
    pub fn inbox(&self, client: usize) -> Arc<[u8]> {
        inbox_of(client)
    }

    /// Messages do not reach a client: a proxy passes none on, say.
    pub fn mute(&self, client: usize) {
        self.inner().clients[client].mute = true;
    }

    /// Whether a connection of the pair is wanted although no request asks for
    /// one. Where nobody listens it always is. Asked with the world unlocked.
    pub(super) fn awaited<'a>(
        &'a self,
        inner: RefMut<'a, Inner>,
        pair: usize,
    ) -> (RefMut<'a, Inner>, bool) {
        let Some(subscription) = &inner.pairs[pair].subscription else {
            return (inner, true);
        };
        let (subscriber, place) = (subscription.subscriber.clone(), pair % inner.nodes.len());
        drop(inner);
        let awaited = subscriber.is_awaited(place);
        (self.inner(), awaited)
    }

    /// Tells those that have subscribed.
    pub(super) fn tell_subscribed(&self, mut inner: RefMut<'_, Inner>) {
        let subscribed = std::mem::take(&mut inner.subscribed);
        let nodes = inner.nodes.len();
        drop(inner);
        for (pair, subscriber) in subscribed {
            self.inner().traces_subscribed(pair);
            subscriber.on_subscribed(pair % nodes);
        }
    }

    /// A message has reached a client.
    pub(super) fn heard(
        &self,
        mut inner: RefMut<'_, Inner>,
        pair: usize,
        connection: u64,
        hint: Hint,
    ) {
        let (p, wire) = (&inner.pairs[pair], &inner.connections[connection as usize]);
        let reads = p.current == Some(connection) || p.old == Some(connection);
        let subscription = p.subscription.as_ref();
        let Some(subscription) = subscription.filter(|_| reads && !wire.reset) else {
            if subscription.is_some_and(Subscription::is_lost) {
                // Else it hears again, and has asked since.
                inner.unheard(pair, None);
            }
            return;
        };
        let (subscriber, place) = (subscription.subscriber.clone(), pair % inner.nodes.len());
        let (client, node) = (p.client, p.node);
        inner.note(|| Happened::Called {
            client,
            node,
            number: hint.number,
        });
        inner.traces_called(pair, hint.number);
        drop(inner);
        subscriber.on_message(place, hint);
    }
}

impl Inner {
    /// A node carries a subscription out.
    pub(super) fn subscribe(&mut self, pair: usize, connection: u64) {
        let node = self.pairs[pair].node;
        let Some(subscription) = &self.pairs[pair].subscription else {
            return;
        };
        let listener = Listener {
            pair,
            connection,
            inbox: subscription.inbox.clone(),
        };
        self.nodes[node].state.subscribe(&listener.inbox);
        self.nodes[node].listeners.push(listener);
        let wire = &mut self.connections[connection as usize];
        wire.subscribed = true;
        if wire.hung_up {
            // Given up before it came to this.
            let at = self.found_dead();
            self.ends(at, node, connection, false);
        }
    }

    /// The connection in use has subscribed, or was given up.
    pub(super) fn hears(&mut self, pair: usize, hears: bool) {
        let Some(subscription) = &mut self.pairs[pair].subscription else {
            return;
        };
        if hears {
            subscription.state = State::Stands;
            self.subscribed
                .push((pair, subscription.subscriber.clone()));
            self.hears_again(pair);
        } else if subscription.state == State::Stands {
            subscription.state = State::Lost;
        }
    }

    /// A client has no more use for a connection; its node hears of that.
    pub(super) fn hang_up(&mut self, pair: usize, connection: u64) {
        if self.pairs[pair].subscription.is_none() {
            return;
        }
        let wire = &mut self.connections[connection as usize];
        if std::mem::replace(&mut wire.hung_up, true) || !wire.subscribed {
            return;
        }
        let (broken, node) = (wire.broken, self.pairs[pair].node);
        let at = if broken {
            self.found_dead()
        } else {
            self.time + self.delay(node)
        };
        self.ends(at, node, connection, false);
    }

    /// When a node finds out that a connection is dead which dies now.
    pub(super) fn found_dead(&self) -> Time {
        let share = self.random.over_decades(HALF_OPEN / 1e3, HALF_OPEN);
        self.time + (self.network.reach as f64 * share) as Time
    }

    /// A node will see the end of a connection. `closed`: it closes it then,
    /// though the client may think that it stands.
    pub(super) fn ends(&mut self, at: Time, node: usize, connection: u64, closed: bool) {
        self.push(
            at,
            Event::Ended {
                node,
                connection,
                closed,
            },
        );
    }

    /// A node has seen the end of a connection.
    pub(super) fn ended(&mut self, node: usize, connection: u64, closed: bool) {
        let state = &mut self.nodes[node];
        if state.paused_until > self.time {
            let event = Event::Ended {
                node,
                connection,
                closed,
            };
            return state.held_back.push(event);
        }
        let other = self.connections[connection as usize].place != state.place;
        if other {
            state.turn();
        }
        let listeners = &mut state.listeners;
        let place = listeners.iter().position(|l| l.connection == connection);
        let listener = place.map(|place| listeners.remove(place));
        if let Some(listener) = &listener {
            state.state.unsubscribe(&listener.inbox);
        }
        if other {
            state.turn();
        }
        if closed {
            let wire = &mut self.connections[connection as usize];
            (wire.broken, wire.dead) = (true, true);
            if let Some(Listener { pair, .. }) = listener
                && !self.clients[self.pairs[pair].client].crashed
            {
                // Whoever slept takes it for good, and its waiters are passed over.
                self.unheard(pair, None);
            }
        }
    }

    /// The client is gone forever, or its machine sleeps until a time: its
    /// nodes miss it after a while, and close its connections.
    pub(super) fn falls_silent(&mut self, client: usize, until: Time) {
        let nodes = self.nodes.len();
        for pair in client * nodes..(client + 1) * nodes {
            let p = &self.pairs[pair];
            if p.subscription.is_none() && self.bytes.is_none() {
                continue;
            }
            let node = p.node;
            let current: Vec<u64> = match &self.bytes {
                Some(bytes) => bytes.open(pair).collect(),
                None => p.current.into_iter().chain(p.old).collect(),
            };
            for connection in current {
                let at = self.found_dead();
                let wire = &mut self.connections[connection as usize];
                wire.hung_up |= until == Time::MAX;
                // A sleeper mostly wakes up before it is missed.
                if !wire.subscribed || at >= until {
                    continue;
                }
                self.ends(at, node, connection, true);
                if until < Time::MAX && self.random.chance(50) {
                    // It finds that as it wakes up.
                    let found = FaultEvent::Reset(client, pair % nodes);
                    self.push(at, Event::Fault(found));
                }
            }
        }
    }

    /// Sends what a node has published to whoever listens. `guarded`: at the request of one
    /// whose requests say which record has to stand there.
    pub(super) fn publish(
        &mut self,
        node: usize,
        key: &[u8],
        messages: Vec<Message>,
        guarded: bool,
    ) {
        let state = &self.nodes[node];
        let local = state.clock.local_ms(self.time);
        let shut = self.admission.expected.guard && state.state.quarantine(local).is_some();
        if shut && guarded && !messages.is_empty() {
            // It would vote for nobody: the turn comes to nothing.
            self.violated(format!("L4 n{node} calls a waiter in its quarantine"));
        }
        for (inbox, hint) in messages {
            let number = hint.number;
            self.note(|| Happened::calls(node, &inbox, number));
            let (mut told, mut lost) = (None, None);
            for place in 0..self.nodes[node].listeners.len() {
                let listener = &self.nodes[node].listeners[place];
                if listener.inbox == inbox {
                    let (pair, connection) = (listener.pair, listener.connection);
                    if self.carry(pair, connection, &inbox, hint) {
                        told = Some(pair)
                    } else {
                        lost = Some(pair)
                    }
                }
            }
            match (told, lost) {
                (Some(pair), _) => {
                    let client = self.pairs[pair].client;
                    let won = self.has_won(client, number);
                    if won && !self.may_stand(node, pair, number, &inbox) {
                        self.violated(format!(
                            "L4 n{node} calls waiter {number} of c{client}, which won and stayed"
                        ));
                    }
                    let gone = self.is_excused_in_line(node, number, &inbox);
                    if won || gone || !self.may_win(client) {
                        self.in_vain(key);
                    }
                }
                (None, Some(pair)) => self.unheard(pair, Some(key)),
                (None, None) => {}
            }
        }
    }

    /// Whether a client knows a quorum of nodes to be there: without, it leaves
    /// calls alone.
    fn may_win(&self, client: usize) -> bool {
        let nodes = self.nodes.len();
        let doubted = 2 * self.network.patience;
        let there = self.pairs[client * nodes..][..nodes].iter().filter(|p| {
            let known = p.failed_at == 0 || self.time > p.failed_at + doubted;
            p.current.is_some() && !p.connecting && known
        });
        there.count() > nodes / 2
    }

    /// Whether the place of a waiter that has won may still stand in the queue of
    /// a node: its client has yet to hear what the node answered, or the node that
    /// it left; or the node brought it back.
    fn may_stand(&self, node: usize, pair: usize, number: u64, inbox: &[u8]) -> bool {
        let its = |w: &Waiter| w.number == number && *w.inbox == *inbox;
        let of = |r: &Request| r.waiter.as_ref().is_some_and(its);
        let open = self.pairs[pair].open.values();
        let unheard = || {
            open.clone()
                .any(|open| open.sink.is_some() && of(&open.request))
        };
        self.nodes[node].forgot || unheard() || self.is_excused_in_line(node, number, inbox)
    }

    /// Sends a message over one connection, sometimes twice; false if it is
    /// lost.
    fn carry(&mut self, pair: usize, connection: u64, inbox: &[u8], hint: Hint) -> bool {
        if self.random.chance(self.network.deaf) {
            // Something between drops it; the connection stands.
            let number = hint.number;
            self.note(|| Happened::NotCalled { number });
            return false;
        }
        let copies = 1 + u64::from(self.random.chance(self.network.twice));
        for _ in 0..copies {
            if self.bytes.is_some() {
                let carried = self.carry_push(connection as usize, inbox, hint);
                if !carried || copies == 1 {
                    return carried;
                }
                continue;
            }
            let Some(at) = self.back(pair, connection) else {
                // The node writes to nobody, and will find out.
                let wire = &mut self.connections[connection as usize];
                if !std::mem::replace(&mut wire.hung_up, true) {
                    let (at, node) = (self.found_dead(), self.pairs[pair].node);
                    self.ends(at, node, connection, false);
                }
                return false;
            };
            self.push(
                at,
                Event::Message {
                    pair,
                    connection,
                    hint,
                },
            );
        }
        true
    }

    /// Somebody who may publish sends a message: for a waiter that was, that
    /// waits now, or that never will be.
    pub(super) fn forge(&mut self, client: usize, place: usize) {
        let pair = client * self.nodes.len() + place;
        let p = &self.pairs[pair];
        if let (Some(current), Some(_)) = (p.current, &self.bytes) {
            let hears = self.connections[current as usize].subscribed;
            return if hears {
                self.forge_over(pair, current)
            };
        }
        let stands = |subscription: &Subscription| subscription.state == State::Stands;
        let hears = p.subscription.as_ref().is_some_and(stands);
        let (Some(connection), true) = (p.current, hears) else {
            return;
        };
        self.forge_over(pair, connection);
    }

    fn forge_over(&mut self, pair: usize, connection: u64) {
        let client = self.pairs[pair].client;
        let latest = self.clients[client].waiter;
        let number = match self.random.below(3) {
            0 => latest,
            1 => latest.wrapping_sub(1 + self.random.below(3)),
            _ => self.random.bits(),
        };
        let hint = Hint { number, slot: None };
        self.carry(pair, connection, &inbox_of(client), hint);
    }
}
