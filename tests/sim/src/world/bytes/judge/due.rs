//! What is due: what a link has to have done by a time, or by the end of its turn.

use std::sync::Arc;

use quorlock::defaults;
use quorlock::sim::{AfterRelease, Op, Subscriber, Value};

use crate::world::bytes::{Sent, Wire, names_waiter_alone};
use crate::world::events::Event;
use crate::world::network::Open;
use crate::world::{Inner, MS, Time};

/// A link leaves its node alone for no longer.
const PAUSE: Time = 2_001 * MS;

/// Whether a release has to reach its node yet. Of those that say no token nobody can tell which
/// one was written.
fn is_owed(open: &Open, now: Time) -> bool {
    !open.readmitted && open.give_up > now && !names_waiter_alone(&open.request)
}

impl Inner {
    /// For how long a link may leave its node alone from now on, where links are real:
    /// for longer after each dial that led to no answer. A set is founded by all its
    /// nodes together, so one that answers too is left alone while another does not; and
    /// then for as long as it was in vain before, though nothing goes wrong any more.
    pub(in crate::world) fn left_alone(&self, pair: usize) -> Time {
        let Some(bytes) = &self.bytes else { return 0 };
        let doubled = (25 * MS) << bytes.lanes[pair].in_vain.clamp(1, 7);
        doubled.clamp(250 * MS, PAUSE)
    }

    /// A request has to be told by now that was asked at a time, if nothing held its
    /// client up.
    pub(in crate::world) fn overdue(&mut self, pair: usize, message: u64, asked: Time) {
        let client = self.pairs[pair].client;
        let awake = self.was_awake(client, asked);
        let open = self.pairs[pair].open.get(&message);
        if awake && open.is_some_and(|open| open.sink.is_some()) {
            self.violated(format!(
                "L6 c{client} is not told of m{message} at its deadline"
            ));
        }
    }

    /// A release that a node could not carry out at a time is sent again by now, if its
    /// connection stands.
    pub(in crate::world) fn sent_again(&mut self, pair: usize, message: u64, at: Time) {
        let (now, client) = (self.time, self.pairs[pair].client);
        let current = self.pairs[pair].current.map(|wire| wire as usize);
        let lane = &self.bytes().lanes[pair];
        let waits = lane.postponed.contains(&(message, at)) && !lane.was_full;
        let Some(wire) = lane.ready.filter(|ready| waits && current == Some(*ready)) else {
            return;
        };
        // One that is in doubt, or may be, is replaced first.
        let stands = !self.connections[wire].broken && self.is_sound(wire);
        let open = self.pairs[pair].open.get(&message);
        let owed = |open: &Open| is_owed(open, now) && !self.has_twins(pair, &open.request);
        let owed = open.is_some_and(owed);
        if stands && owed && self.was_awake(client, at) {
            self.violated(format!(
                "L6 c{client} does not try the release m{message} again"
            ));
        }
    }

    /// A release was not answered in time, and its connection in doubt for it at a
    /// time: if the node has not acknowledged it, another was dialled by now, whether or
    /// not anything else is asked for.
    pub(in crate::world) fn redials(&mut self, pair: usize, message: u64, wire: u64, at: Time) {
        let (now, client) = (self.time, self.pairs[pair].client);
        // A client that is closed waits for its last answers, and makes no connection for them.
        let ends = self.clients[client].closed;
        let lane = &self.bytes().lanes[pair];
        let excused = lane.was_full || lane.excuses(&message);
        if lane.dialled >= at || excused || ends || !self.was_awake(client, at) {
            return;
        }
        let open = self.pairs[pair].open.get(&message);
        let Some(open) = open.filter(|open| is_owed(open, now)) else {
            return;
        };
        // One may have been dialled before for a request beside it, and serves now.
        let same = open.connection == wire;
        if same && self.bytes().lanes[pair].ready == Some(wire as usize) {
            self.violated(format!(
                "L6 c{client} makes no connection for the release m{message}"
            ));
        }
    }

    /// Whether nothing has held a client up since a time.
    fn was_awake(&self, client: usize, since: Time) -> bool {
        let state = &self.clients[client];
        !state.crashed && state.awake_since <= since && state.paused_until <= self.time
    }

    /// A connection has ended for its client.
    pub(in crate::world::bytes) fn ends_for_client(&mut self, pair: usize, wire: usize) {
        let at = self.time;
        if self.connections[wire].subscribed && self.pairs[pair].current == Some(wire as u64) {
            self.push(at + self.vain(), Event::Missed { pair, at });
        }
    }

    /// Within what time a link dials where it misses a connection: one may be under way
    /// that comes to nothing.
    pub(in crate::world::bytes) fn vain(&self) -> Time {
        let connect = defaults::CONNECT_TIMEOUT.as_nanos() as Time;
        let long = connect.max(4 * self.network.patience) + PAUSE;
        // By its own clock, which may be slow.
        long + long / 20
    }

    /// A connection was lost at a time, and no other was dialled since: who would be
    /// told what comes.
    pub(in crate::world) fn misses(
        &mut self,
        pair: usize,
        at: Time,
    ) -> Option<Arc<dyn Subscriber>> {
        let client = self.pairs[pair].client;
        let lane = &self.bytes().lanes[pair];
        let (dialled, subscriber) = (lane.dialled, lane.subscriber.clone());
        subscriber.filter(|_| dialled < at && self.was_awake(client, at))
    }

    /// A link dials: nothing may speak for the connection that it has.
    pub(in crate::world::bytes) fn look_at_last(&mut self, pair: usize) {
        let (now, client) = (self.time, self.pairs[pair].client);
        let lane = &mut self.bytes().lanes[pair];
        lane.dialled = now;
        lane.in_vain += 1;
        let Some(last) = lane.ready.filter(|_| !lane.was_full) else {
            return;
        };
        let w = self.open_wire(last);
        w.late |= w.releases.iter().any(|due| *due <= now);
        let late = w.late;
        let answers = self.is_sound(last) && !late;
        // A clock that has stepped has its node admitted anew.
        let sure = !(self.oracle.steps_seen || self.oracle.led_astray);
        // Nor is a server kept whose place another has taken.
        let sure = sure && !self.fails_over(self.pairs[pair].node);
        if answers && sure {
            self.violated(format!(
                "L6 c{client} gives up connection {last}, which answers"
            ));
        }
    }

    /// Whether nothing speaks against a connection.
    fn is_sound(&mut self, wire: usize) -> bool {
        let w = self.open_wire(wire);
        !(w.closed || w.suspect || w.doubted || w.end.is_some())
    }

    /// A release is asked: its copy is due over each connection that has what it undoes.
    pub(in crate::world::bytes) fn is_released(&mut self, pair: usize, value: &Value) {
        let wires = self.bytes().wires.iter_mut().filter(|w| w.pair == pair);
        for (request, released) in wires.flat_map(|w| &mut w.not_undone) {
            *released |= request.value == *value;
        }
    }

    /// A client closes a connection. A link has one in doubt at most: the second that
    /// comes into doubt has the first closed, though the copy of a release waits for room
    /// there, behind a request that has arrived, or will. Then nothing deletes that
    /// request's key until it ends by itself.
    pub(in crate::world::bytes) fn excuse_waiting(&mut self, wire: usize) {
        let pair = self.open_wire(wire).pair;
        let node = self.pairs[pair].node;
        let next = self.bytes().lanes[pair].ready.filter(|next| *next > wire);
        let second = next.is_some_and(|next| !self.is_sound(next));
        // One that is lost to its client takes what waits with it, too.
        let lost = self.connections[wire].broken;
        let w = self.open_wire(wire);
        let lost = lost || w.end.is_some();
        if !(w.waits && (second || lost)) {
            return;
        }
        for (request, released) in std::mem::take(&mut w.not_undone) {
            if released {
                self.came_late(node, &request);
            }
        }
    }

    /// The task of a link has run: what it was asked meanwhile is written by now.
    pub(in crate::world) fn link_turned(&mut self, pair: usize) {
        if self.violation.is_some() {
            return;
        }
        let (client, current) = (self.pairs[pair].client, self.pairs[pair].current);
        let lane = &mut self.bytes().lanes[pair];
        let fresh = std::mem::take(&mut lane.fresh);
        let unwanted = std::mem::take(&mut lane.unwanted);
        let connects = lane.link.as_ref().map_or(0, |link| link.connects());
        let made = std::mem::replace(&mut lane.connects, connects) != connects;
        for (wire, message) in unwanted {
            let undone = self
                .open_wire(wire)
                .sent
                .iter()
                .any(|sent| sent.message == message);
            if undone && !self.is_undone(wire, message) {
                let what = format!("L6 c{client} writes m{message}, which nobody wants");
                self.violated(what);
            }
        }
        for message in fresh {
            self.look_behind(pair, message);
        }
        let Some(wire) = current.map(|wire| wire as usize) else {
            return;
        };
        if made && self.open_wire(wire).prepared {
            self.pairs[pair].connecting = false;
            self.bytes().lanes[pair].ready = Some(wire);
            self.look_at_owed(pair, wire);
        }
    }

    /// Whether a release was written behind a request over a connection.
    fn is_undone(&mut self, wire: usize, message: u64) -> bool {
        if self.connections[wire].broken || self.open_wire(wire).was_full {
            // It may have been written, and is lost; or waits for room.
            return true;
        }
        let sent = &self.open_wire(wire).sent;
        let Some(place) = sent.iter().position(|sent| sent.message == message) else {
            return true;
        };
        let request = &sent[place].request;
        // What is reserved ends with its waiter's place; without one nothing is.
        let reserves = names_waiter_alone(request);
        if reserves && request.waiter.is_none() {
            return true;
        }
        let undoes = |later: &Sent| {
            let same = if reserves {
                later.request.waiter == request.waiter
            } else {
                // Its label may have changed.
                later.request.value.identity() == request.value.identity()
            };
            later.request.op == Op::Release && same
        };
        sent.iter().skip(place).any(undoes)
    }

    /// A release that was asked a moment ago stands behind what it undoes, over each
    /// connection on which that is on its way.
    fn look_behind(&mut self, pair: usize, message: u64) {
        let Some(open) = self.pairs[pair].open.get(&message) else {
            return;
        };
        let (value, client) = (open.request.value.clone(), self.pairs[pair].client);
        // A forced release undoes no request of its client: the holder may ask for the lease yet.
        let forced = matches!(open.request.leaving, AfterRelease::Forced(_));
        if value.0.is_empty() || forced {
            return;
        }
        let Some(bytes) = &self.bytes else { return };
        let stuck = |(number, wire): (usize, &Wire)| {
            let of = |sent: &Sent| sent.request.value.identity() == value.identity();
            let place = wire.sent.iter().rposition(of);
            let undone = |place: usize| wire.sent[place].request.op == Op::Release;
            let broken = self.connections[number].broken || wire.end.is_some();
            let usable = !(wire.closed || broken || wire.was_full);
            usable && wire.pair == pair && place.is_some_and(|place| !undone(place))
        };
        if let Some(wire) = bytes.wires.iter().enumerate().position(stuck) {
            self.violated(format!(
                "L6 c{client}'s release m{message} is not behind what it undoes on connection {wire}"
            ));
        }
    }

    /// A new connection is ready: all releases that are owed go out over it.
    fn look_at_owed(&mut self, pair: usize, wire: usize) {
        let (now, client) = (self.time, self.pairs[pair].client);
        let w = self.open_wire(wire);
        if w.end.is_some() || w.was_full {
            return;
        }
        let lane = self.bytes.as_ref().map(|bytes| &bytes.lanes[pair]);
        let excused = |message: &u64| lane.is_some_and(|lane| lane.excuses(message));
        let owed = self.pairs[pair].open.iter().find(|(message, open)| {
            let release = open.request.op == Op::Release;
            let owed = release && is_owed(open, now) && !excused(message);
            owed && open.connection != wire as u64 && !self.has_twins(pair, &open.request)
        });
        if let Some((message, _)) = owed {
            let what = format!("L6 c{client} does not send the release m{message} again");
            self.violated(what);
        }
    }

    /// Requests that a client has written do not arrive: those that end beyond so
    /// many bytes, or all that are left.
    pub(in crate::world::bytes) fn lose_sent(&mut self, wire: usize, beyond: Option<u64>) {
        let pair = self.open_wire(wire).pair;
        let node = self.pairs[pair].node;
        let newest = self.pairs[pair].current == Some(wire as u64);
        loop {
            let w = self.open_wire(wire);
            let lost = |sent: &&Sent| beyond.is_none_or(|beyond| sent.end > beyond);
            if w.sent.back().filter(lost).is_none() {
                break;
            }
            let Some(sent) = w.sent.pop_back() else { break };
            self.under_way(node, &sent.request, -1);
            // The copy of a release behind a late request is lost: see the oracle.
            if sent.request.op == Op::Release && !newest {
                self.came_late(node, &sent.request);
            }
        }
        self.lines_in_vain(wire);
    }
}
