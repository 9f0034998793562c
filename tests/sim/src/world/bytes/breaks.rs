//! How streams come to harm, beyond what the network does to messages of the layer
//! of links: each drawn from the schedule's seed.

use super::{End, Wire};
use crate::random::Random;
use crate::world::faults::{FaultEvent, Memory};
use crate::world::{Inner, Time};

/// How streams misbehave: each in percent of the cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaks {
    /// Pieces that are cut in two, writes that take a part, reads that give one.
    pub cut: u64,
    /// Writes that find no room for a while.
    pub full: u64,
    /// Dials that are accepted by somebody who never reads.
    pub ignored: u64,
    /// Dials that lead to a node itself while its address leads astray: two servers
    /// are behind it then.
    pub other: u64,
    /// Connections whose end overtakes what the node has yet to read.
    pub discard: u64,
    /// Broken ways whose other end is closed or reset, so that it shows.
    pub shown: u64,
    /// Commands behind which the node restarts, of those that others follow.
    pub restart: u64,
    /// Commands that meet an error.
    pub errors: u64,
    /// Commands before which the node forgets its scripts.
    pub forgets: u64,
}

impl Breaks {
    /// Draws them.
    pub fn draw(random: &Random) -> Breaks {
        let on = |share: u64, of: &[u64]| {
            if random.chance(share) {
                *random.pick(of)
            } else {
                0
            }
        };
        Breaks {
            cut: on(50, &[5, 20, 60]),
            full: on(15, &[2, 10]),
            ignored: on(10, &[10, 30]),
            other: on(50, &[30, 60]),
            discard: on(30, &[20, 60]),
            shown: on(50, &[30, 80]),
            restart: on(10, &[1, 3]),
            errors: on(12, &[2, 10]),
            forgets: on(15, &[1, 5]),
        }
    }

    /// What is left once nothing goes wrong any more: bytes still come in pieces.
    pub fn calm(self) -> Breaks {
        Breaks {
            cut: self.cut,
            ..Breaks::default()
        }
    }
}

/// Errors of a server that may pass.
const PASSING: [&str; 5] = [
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "OOM command not allowed when used memory > 'maxmemory'. script: 00, on @user_script:1.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist.",
    "READONLY You can't write against a read only replica. script: 00, on @user_script:1.",
    "NOPERM this user has no permissions to run the 'evalsha' command",
];

/// What a server answers while it loads its data.
const LOADING: [&str; 6] = ["auth", "hello", "info", "select", "time", "client|info"];

/// What a replica refuses.
const WRITES: [&str; 7] = [
    "eval", "evalsha", "set", "zadd", "pexpire", "delifeq", "delex",
];

impl Inner {
    /// The error that a command meets, if one does.
    pub(super) fn refusal(&mut self, wire: usize, command: &str) -> Option<String> {
        let pair = self.open_wire(wire).pair;
        let (node, client) = (self.pairs[pair].node, self.pairs[pair].client);
        let breaks = self.bytes().breaks;
        if command == "subscribe" && self.clients[client].mute {
            return Some(format!(
                "NOPERM this user has no permissions to run the '{command}' command"
            ));
        }
        let astray = self.connections[wire].astray;
        if self.demoted(node) && WRITES.contains(&command) {
            return Some("READONLY You can't write against a read only replica.".into());
        }
        if !astray && self.nodes[node].loading_until > self.time && !LOADING.contains(&command) {
            return Some("LOADING Redis is loading the dataset in memory".into());
        }
        if self.random_below(breaks.forgets).is_some() {
            self.note(|| format!("n{node} forgets its scripts"));
            self.bytes().loaded[node][usize::from(astray)] = 0;
        }
        let passing = self.random_below(breaks.errors)?;
        let error = PASSING[passing as usize % PASSING.len()];
        let met = matches!(command, "eval" | "evalsha").then(|| error.to_owned());
        if met.is_some() {
            self.faults += 1;
            self.lines_in_vain(wire);
            self.note(|| format!("n{node} says {error}"));
        }
        met
    }

    /// Whether the node restarts between two commands that came at once.
    pub(super) fn breaks_off(&mut self, wire: usize) -> bool {
        let restart = self.bytes().breaks.restart;
        let pair = self.open_wire(wire).pair;
        let astray = self.connections[wire].astray;
        let waits = !self.open_wire(wire).sent.is_empty();
        if !waits || astray || self.random_below(restart).is_none() {
            return self.connections[wire].dead;
        }
        let long = self.network.reach / 100;
        let memory = *self.random.pick(&[Memory::Kept, Memory::Lost]);
        let restart = FaultEvent::CrashNode(self.pairs[pair].node, long, memory);
        self.mended_at = self.mended_at.max(self.time + 2 * long);
        self.go_wrong(restart);
        true
    }

    /// Until when a write finds no room, if it does not.
    pub(super) fn finds_no_room(&mut self, wire: usize) -> Option<Time> {
        let full = self.bytes().breaks.full;
        let now = self.time;
        let begins = self.random_below(full);
        let reach = self.network.reach;
        let w = self.open_wire(wire);
        if let (true, Some(share)) = (w.full_until <= now, begins) {
            w.full_until = now + 1 + share % (reach / 4);
            w.was_full = true;
        }
        let (until, pair) = (w.full_until, w.pair);
        let full = until > now;
        self.bytes().lanes[pair].was_full |= full;
        full.then_some(until)
    }

    /// Whether something waited for room on a connection of a client to a node that the
    /// client has not closed: the copy of a release may still, where what it undoes has
    /// arrived.
    pub(in crate::world) fn found_no_room(&self, client: usize, node: usize) -> bool {
        // A client lists the nodes in an order of its own, and perhaps one twice.
        let leads =
            |pair: usize| self.pairs[pair].client == client && self.pairs[pair].node == node;
        let waits = |w: &Wire| leads(w.pair) && w.was_full && !w.closed;
        self.bytes
            .as_ref()
            .is_some_and(|bytes| bytes.wires.iter().any(waits))
    }

    /// How a broken way ends where that shows.
    pub(super) fn draw_end(&mut self) -> Option<End> {
        let shown = self.bytes().breaks.shown;
        let drawn = self.random_below(shown)?;
        Some([End::Closed, End::Reset][drawn as usize % 2])
    }

    /// The connection that a client uses is reset, and it sees that. What was sent
    /// may still be carried out, or not.
    pub(in crate::world) fn reset_wire(&mut self, pair: usize) {
        let discard = self.bytes().breaks.discard;
        let wires = &self.bytes().wires;
        let open = |wire: &usize| wires[*wire].pair == pair && !wires[*wire].closed;
        let open: Vec<usize> = (0..wires.len()).filter(open).collect();
        for wire in open {
            self.connections[wire].broken = true;
            if self.random_below(discard).is_some() {
                self.connections[wire].dead = true;
                self.lose_sent(wire, None);
            }
            self.lines_in_vain(wire);
            let end = [End::Reset, End::Reset, End::Closed][self.random.below(3) as usize];
            self.arrive_back(wire, &[], Some(end));
            let (at, node) = (self.found_dead(), self.pairs[pair].node);
            self.ends(at, node, wire as u64, false);
        }
        self.breaks_line(pair);
    }

    /// The connections that lead to a node, which goes down.
    pub(in crate::world) fn node_dies(&mut self, node: usize) {
        let place = self.nodes[node].place;
        self.server_dies(node, place);
        if let Some(bytes) = &mut self.bytes {
            bytes.unload(node);
        }
    }

    /// The connections that lead to one of a node's servers, which closes them.
    pub(in crate::world) fn server_dies(&mut self, node: usize, place: usize) {
        let Some(bytes) = &self.bytes else { return };
        let leads = |wire: &usize| {
            let (w, c) = (&bytes.wires[*wire], &self.connections[*wire]);
            self.pairs[w.pair].node == node && !c.astray && c.place == place
        };
        let dead: Vec<usize> = (0..bytes.wires.len()).filter(leads).collect();
        for wire in dead {
            let connection = &mut self.connections[wire];
            (connection.broken, connection.dead) = (true, true);
            self.lose_sent(wire, None);
            self.lines_in_vain(wire);
        }
    }

    /// Connections break, or are made: locks may be idle until they are ready.
    pub(super) fn breaks_line(&mut self, pair: usize) {
        let settled = self.time + self.settles(pair);
        for line in &mut self.lines {
            line.breaks(settled, self.time);
        }
    }

    /// What should have followed over a connection is lost.
    pub(super) fn lines_in_vain(&mut self, wire: usize) {
        if self.lines.is_empty() {
            return;
        }
        let pair = self.open_wire(wire).pair;
        self.lost(None, None);
        if self.connections[wire].subscribed {
            self.unheard(pair, None);
        }
    }
}
