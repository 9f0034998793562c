//! The client's end of a connection.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use quorlock::sim::probe::link::{Bytes, DialFuture};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{End, Wire, place_at};
use crate::death;
use crate::server::Session;
use crate::server::resp::Input;
use crate::world::events::Event;
use crate::world::network::Connection;
use crate::world::{Inner, Time, World};

/// A client's end.
struct Stream {
    world: Arc<World>,
    wire: usize,
}

/// What comes of a dial, and when.
enum Outcome {
    Accepted,
    Refused,
    Silence,
}

/// Dials the node of a pair, or one of its servers at an address.
pub(super) fn dial(world: Arc<World>, pair: usize, address: String) -> DialFuture {
    Box::pin(async move {
        let (wire, at, outcome) = world.inner().dial(pair, &address);
        // Closed by its drop, whatever comes of it.
        let stream = Stream {
            world: world.clone(),
            wire,
        };
        match outcome {
            Outcome::Silence => std::future::pending().await,
            _ => until(&world, at).await,
        }
        match outcome {
            Outcome::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
            _ => Ok(Box::new(stream) as Box<dyn Bytes>),
        }
    })
}

/// Ends at a time.
pub(super) fn until(world: &Arc<World>, at: Time) -> impl Future<Output = ()> + Send {
    let world = world.clone();
    let mut set = false;
    poll_fn(move |cx| {
        let mut inner = world.inner();
        if inner.time >= at {
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut set, true) {
            inner.push(at, Event::Wake(cx.waker().clone()));
        }
        drop(inner);
        death::waits();
        Poll::Pending
    })
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut guard = self.world.inner();
        let inner = &mut *guard;
        let cut = inner.bytes().breaks.cut;
        let part = inner.random_below(cut);
        let wire = inner.open_wire(self.wire);
        if wire.incoming.is_empty() {
            return match wire.end {
                Some(End::Closed) => Poll::Ready(Ok(())),
                Some(End::Reset) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                None => {
                    wire.reader = Some(cx.waker().clone());
                    drop(guard);
                    death::waits();
                    Poll::Pending
                }
            };
        }
        let most = wire.incoming.len().min(buf.remaining());
        let taken = part.map_or(most, |part| 1 + part as usize % most);
        let (first, second) = wire.incoming.as_slices();
        let first = &first[..first.len().min(taken)];
        buf.put_slice(first);
        buf.put_slice(&second[..taken - first.len()]);
        wire.incoming.drain(..taken);
        inner.has_read(self.wire, taken);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let (taken, written) = {
            let mut guard = self.world.inner();
            let inner = &mut *guard;
            let pair = inner.open_wire(self.wire).pair;
            // Whatever is dropped of a client that has crashed, no byte leaves any more.
            let crashed = inner.clients[inner.pairs[pair].client].crashed;
            if crashed || inner.open_wire(self.wire).end == Some(End::Reset) {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            let no_room = inner.finds_no_room(self.wire);
            inner.open_wire(self.wire).waits = no_room.is_some();
            if let Some(at) = no_room {
                inner.push(at, Event::Wake(cx.waker().clone()));
                drop(guard);
                death::waits();
                return Poll::Pending;
            }
            let cut = inner.bytes().breaks.cut;
            let part = inner.random_below(cut);
            let taken = part.map_or(buf.len(), |part| 1 + part as usize % buf.len());
            (taken, inner.write(self.wire, &buf[..taken]))
        };
        // Asked with the world unlocked.
        let unwanted = written.into_iter().filter(|(_, sink)| !sink.wanted());
        let unwanted: Vec<_> = unwanted.map(|(message, _)| message).collect();
        if !unwanted.is_empty() {
            self.world.inner().wrote_unwanted(self.wire, unwanted);
        }
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.world.inner().close(self.wire);
    }
}

impl Inner {
    /// A draw for something that happens in this many percent of the cases.
    pub(super) fn random_below(&self, percent: u64) -> Option<u64> {
        (percent > 0 && self.random.chance(percent)).then(|| self.random.bits())
    }

    /// A client dials its node: the number of the connection, what comes of it, and
    /// when.
    fn dial(&mut self, pair: usize, address: &str) -> (usize, Time, Outcome) {
        let (node, now) = (self.pairs[pair].node, self.time);
        let number = self.connections.len();
        // The layer of links has no more than that before the first question arrives.
        let back = if self.network.even { 0 } else { self.way(pair) };
        let accepted = now + self.way(pair) + back;
        let breaks = self.bytes().breaks;
        let itself = self.random_below(breaks.other).is_some();
        let astray = now < self.pairs[pair].astray_until && !itself;
        let ignored = self.random_below(breaks.ignored).is_some();
        let (named, _) = self.named(pair);
        let place = place_at(node, address).unwrap_or(named);
        let server = self.server_at(node, place);
        self.connections.push(Connection {
            requests_until: accepted,
            replies_until: accepted,
            astray,
            place,
            server: if astray { Time::MAX } else { server },
            ..Connection::default()
        });
        self.bytes().wires.push(Wire::new(pair, ignored));
        // Else a client wants to know what became of the server that was there before.
        if place == named {
            self.look_at_last(pair);
            let p = &mut self.pairs[pair];
            let before = Some((p.current, p.connecting));
            (p.current, p.connecting, p.replaced_at) = (Some(number as u64), true, now);
            self.open_wire(number).before = before;
        }
        let p = &self.pairs[pair];
        let (forth, back) = (p.requests_cut, p.replies_cut);
        self.note(|| format!("pair {pair} dials: connection {number}"));
        self.breaks_line(pair);
        let down = self.nodes[node].down_until > accepted;
        let refuse = self.random_below(self.network.refuse).is_some();
        let lost = |cut: crate::world::network::Cut| cut.until > now;
        let gone = self.is_gone(node, place);
        // A refusal at the address of a server that was the master is taken for the end of its
        // process: whoever drops connections to one that lives must not say so.
        let unsaid = refuse && !gone && self.fails_over(node) && place != named;
        let outcome = if unsaid {
            Outcome::Silence
        } else if refuse || gone || down && self.random.chance(50) {
            Outcome::Refused
        } else if down || lost(forth) || lost(back) {
            Outcome::Silence
        } else {
            Outcome::Accepted
        };
        (number, accepted, outcome)
    }

    /// A client writes: to whom the requests among it are to be answered.
    fn write(&mut self, wire: usize, bytes: &[u8]) -> Vec<super::judge::Asker> {
        let w = self.open_wire(wire);
        w.tap.add(bytes);
        w.written += bytes.len() as u64;
        let askers = self.tap(wire);
        let mut rest = bytes;
        while !rest.is_empty() {
            let cut = self.bytes().breaks.cut;
            let part = self.random_below(cut);
            let length = part.map_or(rest.len(), |part| 1 + part as usize % rest.len());
            let (piece, more) = rest.split_at(length);
            self.carry_forth(wire, piece, more.len());
            rest = more;
        }
        askers
    }

    /// Sends a piece on its way to the node; behind it come this many more bytes.
    fn carry_forth(&mut self, wire: usize, piece: &[u8], more: usize) {
        let pair = self.open_wire(wire).pair;
        let before = self.connections[wire].broken;
        let (at, piece) = match self.forth(pair, wire as u64) {
            Some(at) => (at, piece),
            None if before => return self.lose_sent(wire, None),
            None => {
                // A part arrives, and nothing behind it.
                let part = self.random.below(piece.len() as u64 + 1) as usize;
                let arrives = self.open_wire(wire).written - (more + piece.len() - part) as u64;
                self.lose_sent(wire, Some(arrives));
                let at = self.time + self.way(pair);
                (
                    at.max(self.connections[wire].requests_until),
                    &piece[..part],
                )
            }
        };
        if !piece.is_empty() {
            let bytes = piece.to_vec();
            self.push(at, Event::Forth { wire, bytes });
        }
    }

    /// A piece has arrived at its client, or the end of the connection.
    pub(in crate::world) fn arrive_back(&mut self, wire: usize, bytes: &[u8], end: Option<End>) {
        let keeps = end != Some(End::Reset) || self.random.chance(50);
        let w = self.open_wire(wire);
        if w.closed || w.end.is_some() {
            return;
        }
        w.incoming.extend(bytes);
        w.end = end;
        let pair = w.pair;
        if !keeps {
            w.incoming.clear();
        }
        if let Some(reader) = w.reader.take() {
            reader.wake();
        }
        if end.is_some() {
            self.ends_for_client(pair, wire);
        }
    }

    /// A client closes a connection, or gives up making it.
    fn close(&mut self, wire: usize) {
        let pair = self.open_wire(wire).pair;
        if self.clients[self.pairs[pair].client].crashed {
            // Whatever is dropped then, no byte leaves any more.
            return;
        }
        let breaks = self.bytes().breaks;
        self.excuse_waiting(wire);
        self.open_wire(wire).closed = true;
        self.note(|| format!("connection {wire} is closed by its client"));
        let p = &mut self.pairs[pair];
        if p.current == Some(wire as u64) {
            (p.current, p.connecting) = (None, false);
        }
        self.breaks_line(pair);
        // A close with replies unread is a reset, which overtakes what the node has
        // yet to read.
        if self.random_below(breaks.discard).is_some() {
            self.connections[wire].dead = true;
            self.lose_sent(wire, None);
        }
        let at = if self.connections[wire].broken {
            self.found_dead()
        } else {
            (self.time + self.way(pair)).max(self.connections[wire].requests_until)
        };
        let node = self.pairs[pair].node;
        self.connections[wire].hung_up = true;
        self.ends(at, node, wire as u64, false);
    }
}

impl Wire {
    fn new(pair: usize, ignored: bool) -> Wire {
        Wire {
            pair,
            session: Session::default(),
            ignored,
            tap: Input::default(),
            written: 0,
            sent: Default::default(),
            answered: 0,
            read: 0,
            answers: Default::default(),
            releases: Default::default(),
            late: false,
            incoming: Default::default(),
            end: None,
            reader: None,
            full_until: 0,
            was_full: false,
            waits: false,
            not_undone: Vec::new(),
            closed: false,
            before: None,
            prepared: false,
            doubted: false,
            suspect: false,
            lives: Default::default(),
            last: 0,
            last_script: 0,
            last_of: BTreeMap::new(),
            ballots: Vec::new(),
            trailer: Default::default(),
        }
    }
}
