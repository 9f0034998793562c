//! The node's end of a connection: what arrives is carried out, command by command.

use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::names;
use quorlock::sim::{Hint, MemoryNode, OtherRecord, Reply};

use super::{Answered, End, Sent, address, run_id};
use crate::server::scripts::{Call, Script};
use crate::server::{self, Host, Life, Told, resp};
use crate::world::admission::OTHER;
use crate::world::events::{Event, Said};
use crate::world::messages::Listener;
use crate::world::{Inner, Time};

/// The keys that a node has beside those of locks.
const NAMESPACE: &str = "lock:";
/// Who asks for a password.
pub(super) const PASSWORD: &str = "secret";

impl Inner {
    /// A piece has arrived at its node.
    pub(in crate::world) fn arrive_forth(&mut self, wire: usize, bytes: Vec<u8>) {
        let pair = self.open_wire(wire).pair;
        let (node, now) = (self.pairs[pair].node, self.time);
        if self.nodes[node].paused_until > now {
            // Waits in the node's socket.
            let waiting = Event::Forth { wire, bytes };
            return self.nodes[node].held_back.push(waiting);
        }
        if self.nodes[node].down_until > now || self.connections[wire].dead {
            // What is lost of a stream ends it: no later piece may pass for its beginning.
            let connection = &mut self.connections[wire];
            (connection.broken, connection.dead) = (true, true);
            self.lose_sent(wire, None);
            // A host that is up knows nothing of the connection, and says so.
            if self.nodes[node].down_until <= now || self.random.chance(50) {
                let at = now + self.way(pair);
                let (bytes, end) = (Vec::new(), Some(End::Reset));
                self.push(at, Event::Back { wire, bytes, end });
            }
            return;
        }
        if self.open_wire(wire).ignored {
            self.connections[wire].broken = true;
            return self.lose_sent(wire, None);
        }
        self.at_server(pair, wire as u64, |inner| inner.serve(wire, &bytes));
    }

    /// Carries out all commands that have arrived whole, and answers them.
    fn serve(&mut self, wire: usize, bytes: &[u8]) {
        let mut session = std::mem::take(&mut self.open_wire(wire).session);
        session.input.add(bytes);
        let mut out = Vec::new();
        let mut any = false;
        while !session.waits {
            if any && self.breaks_off(wire) {
                // Some answers are still under way.
                let keep = self.random.below(out.len() as u64 + 1) as usize;
                out.truncate(keep);
                break;
            }
            let words = match session.input.command() {
                Ok(Some(words)) => words,
                Ok(None) => break,
                Err(resp::ProtocolError) => {
                    self.violated("L5 a client writes what is no command".into());
                    break;
                }
            };
            let end = session.input.passed();
            let mut host = Serving {
                inner: self,
                wire,
                end,
            };
            server::serve(&mut session, &words, &mut host, &mut out);
            any = true;
            self.has_served(wire, end, out.len());
        }
        self.open_wire(wire).session = session;
        if !out.is_empty() {
            self.answer(wire, &out);
        }
    }

    /// The server at the end of a connection has waited for replicas: it says how many have
    /// what it has, and goes on.
    pub(in crate::world) fn has_waited(&mut self, wire: usize) {
        let pair = self.open_wire(wire).pair;
        if self.connections[wire].dead {
            return;
        }
        self.at_server(pair, wire as u64, |inner| {
            let mut out = Vec::new();
            resp::int(&mut out, i64::from(inner.replicas(inner.pairs[pair].node)));
            inner.open_wire(wire).session.waits = false;
            inner.answer(wire, &out);
            inner.serve(wire, &[]);
        });
    }

    /// A command has been carried out that ended there; if it was a request, its
    /// answer ends at this many bytes behind what the node wrote before.
    fn has_served(&mut self, wire: usize, end: u64, length: usize) {
        let served = self.bytes().served.take();
        let deferred = std::mem::take(&mut self.bytes().deferred);
        let settled = std::mem::take(&mut self.bytes().settled);
        let w = self.open_wire(wire);
        let at = w.answered + length as u64;
        w.answers.extend(
            settled
                .into_iter()
                .map(|answer| Answered { end: at, ..answer }),
        );
        // An error answers all requests of the command.
        while let Some(sent) = self.open_wire(wire).next_sent(end) {
            let answer = (!deferred).then(|| Answered::to(&sent, served.clone(), at));
            self.open_wire(wire).answers.extend(answer);
            self.was_served(wire, sent, served.clone(), deferred);
        }
    }

    /// A request of the command that ends there has been carried out, and another of it comes.
    fn has_served_part(&mut self, wire: usize, end: u64) {
        let served = self.bytes().served.take();
        let deferred = std::mem::take(&mut self.bytes().deferred);
        if let Some(sent) = self.open_wire(wire).next_sent(end) {
            let answer = (!deferred).then(|| Answered::to(&sent, served.clone(), 0));
            self.bytes().settled.extend(answer);
            self.was_served(wire, sent, served, deferred);
        }
    }

    /// A request has been carried out.
    fn was_served(&mut self, wire: usize, sent: Sent, served: Option<Reply>, deferred: bool) {
        let release = sent.request.op == quorlock::sim::Op::Release;
        let pair = self.open_wire(wire).pair;
        let node = self.pairs[pair].node;
        self.under_way(node, &sent.request, -1);
        let open = self.pairs[pair].open.get(&sent.message);
        if let (Some(Reply::Late), Some(open)) = (&served, open) {
            let client = self.pairs[pair].client;
            let deadline = self.clients[client].clock.time(open.ticket.deadline);
            // The link's own word, where the core knows nothing of the node's clock.
            let links = open.request.not_after == 0;
            // What a node says of its time while a connection is set up comes behind much else, in
            // pieces, and is taken to be as old as half of that.
            if links && self.is_swift(pair) && self.time + 32 * self.network.base < deadline {
                let m = sent.message;
                self.violated(format!(
                    "L6 n{node} takes c{client}'s m{m} for late, which is not"
                ));
            }
        }
        let newest = self.pairs[pair].current == Some(wire as u64);
        // Once there is a newer connection nobody minds what becomes of it over this one.
        let replaced = self.bytes().lanes[pair].ready > Some(wire);
        if served.is_none() && !deferred && release && (sent.copy || replaced) {
            // Refused, though what it was to undo may have been carried out.
            self.came_late(node, &sent.request);
        }
        if served.is_some() || deferred {
            // One that found no room may have been closed with the copy of a release
            // unwritten: for the client that is given up all the same.
            let given_up = self.is_given_up(wire) || self.open_wire(wire).was_full;
            let sent_at = (&sent.request, sent.at);
            self.look_if_late(
                pair,
                wire as u64,
                sent.message,
                sent_at,
                !newest && given_up,
            );
        }
    }

    /// Whether a connection has ended for its client.
    pub(super) fn is_given_up(&mut self, wire: usize) -> bool {
        self.open_wire(wire).closed || self.connections[wire].broken
    }

    /// Whether nothing ever held up what passes between a client and its node: else
    /// the client takes the node's clock to be behind by as much.
    fn is_swift(&self, pair: usize) -> bool {
        let p = &self.pairs[pair];
        let (node, client) = (&self.nodes[p.node], &self.clients[p.client]);
        let apart = node.clock.rate != client.clock.rate;
        let clocks = self.oracle.steps_seen || self.oracle.led_astray || apart;
        let harmless = self.bytes.as_ref().is_some_and(|bytes| bytes.harmless);
        !clocks && harmless && self.faults == 0
    }

    /// Sends the node's words on their way.
    fn answer(&mut self, wire: usize, bytes: &[u8]) {
        self.open_wire(wire).answered += bytes.len() as u64;
        let mut rest = bytes;
        while !rest.is_empty() {
            let cut = self.bytes().breaks.cut;
            let part = self.random_below(cut);
            let length = part.map_or(rest.len(), |part| 1 + part as usize % rest.len());
            let (piece, more) = rest.split_at(length);
            self.carry_back(wire, piece);
            rest = more;
        }
    }

    fn carry_back(&mut self, wire: usize, piece: &[u8]) {
        let pair = self.open_wire(wire).pair;
        let before = self.connections[wire].broken;
        let (at, piece) = match self.back(pair, wire as u64) {
            Some(at) => (at, piece),
            None => {
                self.lines_in_vain(wire);
                if before {
                    return;
                }
                // It stops in the middle, and may be closed there.
                let part = self.random.below(piece.len() as u64 + 1) as usize;
                let at = (self.time + self.way(pair)).max(self.connections[wire].replies_until);
                if let Some(end) = self.draw_end() {
                    let (bytes, end) = (piece[..part].to_vec(), Some(end));
                    return self.push(at, Event::Back { wire, bytes, end });
                }
                (at, &piece[..part])
            }
        };
        if !piece.is_empty() {
            let (bytes, end) = (piece.to_vec(), None);
            self.push(at, Event::Back { wire, bytes, end });
        }
    }

    /// Sends a message over a connection; false if it is lost.
    pub(in crate::world) fn carry_push(&mut self, wire: usize, inbox: &[u8], hint: Hint) -> bool {
        if self.connections[wire].broken || self.open_wire(wire).closed {
            return false;
        }
        let mut out = Vec::new();
        resp::array(&mut out, b'>', 3);
        let said = match hint.slot {
            Some(slot) => format!("{} {slot}", hint.number),
            None => hint.number.to_string(),
        };
        for word in [b"message", inbox, said.as_bytes()] {
            resp::bulk(&mut out, word);
        }
        self.answer(wire, &out);
        !self.connections[wire].broken
    }
}

/// A node that carries out what came over a connection.
pub(super) struct Serving<'a> {
    pub(super) inner: &'a mut Inner,
    pub(super) wire: usize,
    /// The connection's bytes up to the last of the command.
    end: u64,
}

impl Serving<'_> {
    pub(super) fn pair(&self) -> usize {
        let bytes = self.inner.bytes.as_ref();
        bytes.map_or(0, |bytes| bytes.wires[self.wire].pair)
    }

    pub(super) fn node(&self) -> usize {
        self.inner.pairs[self.pair()].node
    }

    fn astray(&self) -> bool {
        self.inner.connections[self.wire].astray
    }

    fn loaded(&mut self) -> &mut u16 {
        let (node, astray) = (self.node(), self.astray());
        let place = self.inner.connections[self.wire].place;
        &mut self.inner.bytes().loaded[node][place | usize::from(astray)]
    }
}

impl Host for Serving<'_> {
    fn password(&self) -> Option<&str> {
        // Half of the clients come by a URL with a password.
        let client = self.inner.pairs[self.pair()].client;
        client.is_multiple_of(2).then_some(PASSWORD)
    }

    fn refusal(&mut self, command: &str) -> Option<String> {
        let refusal = self.inner.refusal(self.wire, command);
        if refusal.is_some() {
            self.inner.open_wire(self.wire).lives.refuses();
        }
        refusal
    }

    fn time(&self) -> u64 {
        let node = &self.inner.nodes[self.node()];
        MemoryNode::time(node.clock.local(self.inner.time))
    }

    fn info(&self, section: Option<&str>) -> String {
        let (node, now) = (self.node(), self.inner.time);
        let state = &self.inner.nodes[node];
        if section == Some("commandstats") {
            return format!("# Commandstats\r\n{}", state.commandstats());
        }
        let run = if self.astray() { OTHER } else { state.run };
        let uptime = state.started.until(state.clock.local(now)).as_secs();
        let run = format!("{}{:024}", run_id(node, run), 0);
        server::info(&run, uptime, state.history, self.inner.demoted(node))
    }

    fn own_address(&self) -> String {
        let place = self.inner.connections[self.wire].place;
        address(self.node(), self.astray() || place > 0)
    }

    fn get(&mut self, key: &[u8]) -> Option<String> {
        let record = self.inner.nodes[self.node()].state.record();
        let record = record.filter(|_| key == names::record_key(NAMESPACE));
        record.map(|record| record.to_string())
    }

    fn pttl(&mut self, key: &[u8]) -> Option<Duration> {
        let node = &self.inner.nodes[self.node()];
        let local = node.clock.local_ms(self.inner.time);
        let quarantine = node.state.quarantine(local);
        quarantine.filter(|_| key == names::quarantine_key(NAMESPACE))
    }

    fn load(&mut self, script: Script) {
        *self.loaded() |= script.bit();
    }

    fn knows(&mut self, script: Script) -> bool {
        let knows = *self.loaded() & script.bit() != 0;
        if !knows {
            self.inner.open_wire(self.wire).lives.refuses();
        }
        knows
    }

    fn deletes_by(&self) -> Option<&'static str> {
        // As servers of different makes and ages do.
        [Some("delifeq"), None, Some("delex")][self.node() % 3]
    }

    fn set_new(&mut self, key: &[u8], value: &[u8], life: Life) -> bool {
        self.vote(key, value, life)
    }

    fn propose(&mut self, counter: &[u8], fence: u64) -> bool {
        let (node, now) = (self.node(), self.inner.time);
        self.count(node, now, counter, fence)
    }

    fn keep_counter(&mut self, counter: &[u8], life: Duration) {
        let (node, now) = (self.node(), self.inner.time);
        self.inner.open_wire(self.wire).lives.lasts(counter);
        let node = &mut self.inner.nodes[node];
        let local = node.clock.local(now);
        node.state.keep_counter(counter, life, local);
    }

    fn goes_on(&mut self) {
        self.inner.has_served_part(self.wire, self.end);
    }

    fn delete(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.delete_natively(key, value)
    }

    fn told(&mut self, told: Told<'_>) {
        self.inner.reads_trailer(self.wire, told);
    }

    fn carry_out(&mut self, call: &Call) -> Result<Reply, OtherRecord> {
        let (pair, wire) = (self.pair(), self.wire);
        let sent = self.inner.open_wire(wire).sent.front();
        let message = sent.map_or(0, |sent| sent.message);
        let record = call.record.clone();
        let lost = sent.is_none();
        let node = self.node();
        let inner = &mut *self.inner;
        if let Some((counter, life)) = call.request.keys.counter()
            && !life.is_zero()
        {
            inner.open_wire(wire).lives.lasts(counter);
        }
        if lost {
            // It was taken for lost with its connection, and so was what came behind it.
            inner.came_late(node, &call.request);
        }
        let answer = inner.carry_out(pair, wire as u64, message, &call.request, record);
        let reply = match answer.said {
            Said::Reply(reply) => Some(reply),
            Said::OtherRecord | Said::AskByScript | Said::Demoted => None,
        };
        inner.bytes().served = reply.clone();
        reply.ok_or(OtherRecord)
    }

    fn init(&mut self, old: &str, new: Arc<str>, quarantine: Duration) -> Result<(), String> {
        let (pair, node) = (self.pair(), self.node());
        let old = Some(old).filter(|old| !old.is_empty());
        self.inner.breaks_line(pair);
        if self.inner.write_record(pair, old, &new, quarantine) {
            Ok(())
        } else {
            let found = self.inner.nodes[node].state.record();
            Err(found.map(|found| found.to_string()).unwrap_or_default())
        }
    }

    fn wait(&mut self, replicas: u64, long: Duration) -> Option<u32> {
        let (wire, have) = (self.wire, self.inner.replicas(self.node()));
        if replicas <= u64::from(have) {
            return Some(have);
        }
        if !long.is_zero() {
            let at = self.inner.time + long.as_nanos() as Time;
            self.inner.push(at, Event::Waited { wire });
        }
        None
    }

    fn subscribe(&mut self, channel: &[u8]) -> usize {
        let (pair, node) = (self.pair(), self.node());
        if self.astray() {
            // Nobody is called there.
            return 1;
        }
        let listener = Listener {
            pair,
            connection: self.wire as u64,
            inbox: channel.into(),
        };
        let inner = &mut *self.inner;
        inner.nodes[node].state.subscribe(&listener.inbox);
        inner.nodes[node].listeners.push(listener);
        inner.connections[self.wire].subscribed = true;
        if inner.connections[self.wire].hung_up {
            // Given up before it came to this.
            let at: Time = inner.found_dead();
            inner.ends(at, node, self.wire as u64, false);
        }
        1
    }
}
