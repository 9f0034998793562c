//! What a link promises, judged from both of its ends: what it is asked and what it
//! tells on one, what it writes and what it reads on the other.
//!
//! - Each request is told once, and at its deadline at the latest.
//! - What it is told of a node is what that node answered to this very request.
//! - What was asked first is written first over a connection, but what was written
//!   before already, and releases that share a script: these come in front of later requests
//!   for their locks, and of later scripts.
//! - No request is written that nobody wants, unless its release is written behind it.
//! - A release is written behind the request that it undoes, over the same connection,
//!   while that stands; and over each new connection, until the node has acknowledged
//!   it over the last one, or it is given up.
//!   One that the node could not carry out is sent again after a while.
//! - Over a connection that left a request unanswered nothing is asked any more; and
//!   none is given up that answers. Another is made for a release that went over it.
//! - Where messages are awaited a connection that is lost is made again, unasked.
//! - A node takes no request for late before its deadline.
//!
//! All are L6 in a verdict: promises of a link.

mod due;

use std::sync::Arc;

use quorlock::sim::{FaultKind, Link, Op, Reply, Request, RequestContext, Sink, Subscriber};

use super::{Answered, Mark, Sent, natives};
use crate::server::scripts::{self, Script};
use crate::world::events::Event;
use crate::world::network::{NOT_SENT, Open};
use crate::world::{Inner, MS, Time};

/// A release that a node could not carry out is sent again within this time.
const POSTPONED: Time = 201 * MS;
/// A request that is written, and who wants it.
pub(super) type Asker = (u64, Arc<dyn Sink>);

/// What is known of a link.
#[derive(Default)]
pub(super) struct Lane {
    pub(super) link: Option<Arc<dyn Link>>,
    /// Who is told what comes to the inbox.
    pub(super) subscriber: Option<Arc<dyn Subscriber>>,
    /// When it dialled last.
    dialled: Time,
    /// How often it has dialled since its node answered a request.
    in_vain: u32,
    /// How many connections it has made.
    connects: u64,
    /// The last of them.
    pub(super) ready: Option<usize>,
    /// Releases that were asked since its task ran.
    pub(super) fresh: Vec<u64>,
    /// What it has read and was not told yet.
    heard: Vec<(Mark, Reply)>,
    /// The releases that were asked for so far.
    pub(super) released: Vec<Mark>,
    /// Requests that it wrote though nobody wants them: over which connection.
    unwanted: Vec<(usize, u64)>,
    /// One of its connections had no room for a while: what it wrote waited there.
    pub(super) was_full: bool,
    /// When requests were written last that are not answered; `None`: it may as well have
    /// been one that is alike.
    written: Vec<(u64, Option<Time>)>,
    /// Releases that a node could not carry out: sent again after a while.
    postponed: Vec<(u64, Time)>,
    /// Releases that a node has acknowledged over a connection that may have been in
    /// doubt when they were written: as a copy, or not.
    perhaps: Vec<u64>,
}

impl Lane {
    /// It dials, if not a node then who says where that is.
    pub(super) fn dials(&mut self, now: Time) {
        self.dialled = self.dialled.max(now);
    }

    /// Whether a release need not be sent over a new connection.
    fn excuses(&self, message: &u64) -> bool {
        self.postponed.iter().any(|(m, _)| m == message) || self.perhaps.contains(message)
    }
}

impl Inner {
    /// Looks at the commands that a client has written over a connection. Returns who
    /// wants the requests among them.
    pub(super) fn tap(&mut self, wire: usize) -> Vec<Asker> {
        let mut tap = std::mem::take(&mut self.open_wire(wire).tap);
        let mut askers = Vec::new();
        let pair = self.open_wire(wire).pair;
        while let Ok(Some(words)) = tap.command() {
            let words: Vec<&[u8]> = words.iter().map(|w| tap.word(w)).collect();
            let words = &words[..];
            let script = match words[0] {
                b"EVALSHA" => Script::of_sha(words[1]),
                b"EVAL" => Script::of_text(words[1]),
                // It was dialled to be a connection.
                b"INFO" if words.get(1) == Some(&&b"server"[..]) => {
                    self.open_wire(wire).before = None;
                    None
                }
                b"INFO" if words.get(1) == Some(&&b"replication"[..]) => {
                    // It was not dialled to ask anything else there.
                    let before = self.open_wire(wire).before.take();
                    let p = &mut self.pairs[pair];
                    if let Some(before) = before.filter(|_| p.current == Some(wire as u64)) {
                        (p.current, p.connecting) = before;
                    }
                    None
                }
                b"SCRIPT" => {
                    self.open_wire(wire).prepared = true;
                    None
                }
                _ => None,
            };
            let mut deletes = Vec::new();
            let request = match (script, words) {
                (Some(Script::Lean), [_, _, _, more @ ..]) => {
                    let (keys, values) = more.split_at(more.len() / 2);
                    let pairs = keys.iter().zip(values);
                    deletes.extend(
                        pairs.filter_map(|(key, value)| natives::begun(&[b"DELIFEQ", key, value])),
                    );
                    None
                }
                (Some(script), _) => {
                    let count = crate::server::resp::number(words[2]).unwrap_or(0) as usize;
                    let (keys, args) = words[3..].split_at(count.min(words.len() - 3));
                    scripts::call(script, keys, args).map(|call| call.request)
                }
                (None, words) => natives::begun(words),
            };
            let by_lean = !deletes.is_empty();
            for request in request.into_iter().chain(deletes) {
                let at = self.time;
                let sent = Sent {
                    end: tap.passed(),
                    message: 0,
                    request,
                    at,
                    copy: false,
                };
                askers.extend(self.written(wire, sent, by_lean));
            }
        }
        self.open_wire(wire).tap = tap;
        askers
    }

    /// Whether a client has asked a node for two releases of one lease, of which nobody can say
    /// which is written, again or at all: who adopts a lease in its own client releases it, too.
    fn has_twins(&self, pair: usize, request: &Request) -> bool {
        let mark = Mark::of(request);
        let asked = self.bytes.iter().flat_map(|b| &b.lanes[pair].released);
        asked.filter(|asked| **asked == mark).count() > 1
    }

    /// A request is written; `by_lean`: one script carries out all native releases of a write.
    fn written(&mut self, wire: usize, mut sent: Sent, by_lean: bool) -> Option<Asker> {
        let pair = self.open_wire(wire).pair;
        let (client, node) = (self.pairs[pair].client, self.pairs[pair].node);
        let (mark, release) = (Mark::of(&sent.request), sent.request.op == Op::Release);
        let alike = |open: &Open| Mark::of(&open.request) == mark;
        // The first that was not written yet; else one that is written again.
        let open = &self.pairs[pair].open;
        let fresh = open
            .iter()
            .find(|(_, o)| o.connection == NOT_SENT && alike(o));
        // Of those that are alike, one that this connection has not had.
        let new_here = |o: &Open| o.connection < wire as u64 && alike(o);
        let moved = || open.iter().find(|(_, o)| new_here(o));
        let again = || moved().or_else(|| open.iter().rev().find(|(_, o)| alike(o)));
        // Where one that is alike was written and may be written again, over the next connection
        // or with its script's text, nobody can say which of them this is.
        let mut others = open.values().filter(|o| alike(o));
        let first = fresh.is_some() && others.all(|o| o.connection == NOT_SENT);
        let first = first && !(release && self.has_twins(pair, &sent.request));
        let found = fresh.or_else(again).map(|(message, _)| *message);
        sent.message = found.unwrap_or(0);
        let message = sent.message;
        if let Some(open) = self.pairs[pair].open.get(&message)
            && sent.request.native
        {
            // All that plain commands do not say.
            sent.request = Request {
                native: true,
                not_after: sent.request.not_after,
                ..open.request.clone()
            };
        }
        self.under_way(node, &sent.request, 1);
        let op = sent.request.op;
        self.note(|| format!("c{client} writes m{message} for n{node} over {wire}: {op:?}"));
        let newest = self.pairs[pair].current == Some(wire as u64);
        // Nobody says how long those wait that were acknowledged over another.
        let open = self.pairs[pair].open.get(&message);
        let patience = open.map_or(self.network.patience * 4 / 10, |open| {
            let ticket = &open.ticket;
            ticket.sent.until(ticket.deadline).as_nanos() as Time
        });
        // One that is written again waits no longer for that: it, or any that it may be.
        let now = self.clients[client].now(self.time);
        let asked = self.pairs[pair]
            .open
            .values()
            .filter(|o| !first && alike(o));
        let left = asked.map(|o| now.until(o.ticket.deadline).as_nanos() as Time);
        let patience = left
            .filter(|left| *left > 0)
            .fold(patience, |least, left| least.min(left));
        let (at, due) = (self.time, self.time + patience * 9 / 10);
        // It may have waited for room until its release was asked.
        let released = self.is_dead(&sent.request.value);
        let w = self.open_wire(wire);
        w.not_undone
            .retain(|(r, _)| !r.value.is_of_one_lease_with(&sent.request.value));
        if !release {
            w.not_undone.push((sent.request.clone(), released));
        }
        // An adopted lease has the patience of its own ttl, which may be shorter than others'.
        w.late |= w.releases.iter().any(|due| *due <= at);
        if release {
            w.releases.push_back(due);
        }
        sent.copy = !newest || w.doubted || w.late || w.suspect;
        let (lock, native) = (sent.request.keys.lock.clone(), sent.request.native);
        w.sent.push_back(sent);
        // Releases of other locks may be written behind later requests.
        let of_lock = w.last_of.get(&lock).copied().unwrap_or(0);
        let last = if by_lean {
            w.last_script.max(of_lock)
        } else {
            w.last
        };
        if first {
            w.last_of.insert(lock, of_lock.max(message));
        }
        if first && !native {
            w.last_script = w.last_script.max(message);
        }
        let full = self.bytes().lanes[pair].was_full;
        if first && message < last && !full {
            self.violated(format!(
                "L6 c{client} writes what was asked first later: m{message}"
            ));
        } else if first {
            let w = self.open_wire(wire);
            w.last = w.last.max(message);
        }
        let w = self.open_wire(wire);
        if w.doubted && !release && !w.was_full {
            self.violated(format!(
                "L6 c{client} asks n{node} over a connection in doubt"
            ));
        }
        let at = self.time;
        // Any of those that are alike, if it is written again.
        let open = self.pairs[pair].open.iter();
        let alike = open.filter(|(m, o)| **m == message || !first && alike(o));
        let alike: Vec<u64> = alike.map(|(message, _)| *message).collect();
        let lane = &mut self.bytes().lanes[pair];
        if newest {
            // Over one in doubt it may have waited for room since.
            lane.postponed.retain(|(m, _)| !alike.contains(m));
        }
        lane.written.retain(|(m, _)| !alike.contains(m));
        let known = alike.len() <= 1;
        let at = known.then_some(at);
        lane.written
            .extend(alike.iter().map(|message| (*message, at)));
        let Some(open) = self.pairs[pair].open.get_mut(&message) else {
            if !release {
                // It was told already.
                self.wrote_unwanted(wire, vec![message]);
            }
            return None;
        };
        open.connection = match open.connection {
            NOT_SENT => wire as u64,
            before => before.max(wire as u64),
        };
        // Of several that are alike, another may be wanted.
        let judged = known && !release;
        let sink = open.sink.clone().filter(|_| judged);
        if sink.is_none() && judged {
            self.wrote_unwanted(wire, vec![message]);
        }
        sink.map(|sink| (message, sink))
    }

    /// A client has written requests that nobody wants.
    pub(super) fn wrote_unwanted(&mut self, wire: usize, messages: Vec<u64>) {
        let w = self.open_wire(wire);
        if w.was_full {
            // Nobody can say when.
            return;
        }
        let pair = w.pair;
        let lane = &mut self.bytes().lanes[pair];
        lane.unwanted
            .extend(messages.into_iter().map(|m| (wire, m)));
    }

    /// A client has read this many more bytes.
    pub(super) fn has_read(&mut self, wire: usize, bytes: usize) {
        let w = self.open_wire(wire);
        w.read += bytes as u64;
        while let Some(answer) = self.next_read(wire) {
            self.reads(wire, answer);
        }
    }

    fn next_read(&mut self, wire: usize) -> Option<Answered> {
        let w = self.open_wire(wire);
        let whole = w.answers.front().is_some_and(|answer| answer.end <= w.read);
        whole.then(|| w.answers.pop_front()).flatten()
    }

    /// A client has read an answer.
    fn reads(&mut self, wire: usize, answer: Answered) {
        let pair = self.open_wire(wire).pair;
        let now = self.time;
        if answer.release {
            // A release that was sent again is answered in time, or its connection is in
            // doubt, though another may be dialled much later.
            let w = self.open_wire(wire);
            w.late |= w.releases.pop_front().is_some_and(|due| due <= now);
        }
        let message = if answer.release {
            self.one_of_those(pair, answer.message, &answer.mark)
        } else {
            answer.message
        };
        let lane = &mut self.bytes().lanes[pair];
        lane.in_vain = 0;
        let ready = lane.ready;
        let newer = ready.is_some_and(|ready| wire < ready);
        let Some(reply) = answer.reply else {
            if answer.release {
                lane.postponed.push((answer.message, now));
            }
            // What is answered over an earlier connection than the one in use was written
            // over that too.
            if answer.release && !answer.copy && !newer {
                let (message, at) = (answer.message, self.time);
                self.push(at + POSTPONED, Event::Postponed { pair, message, at });
                self.excuse_postponed(pair, message);
            }
            // Whichever it came over, the one in use is given up for it.
            for wire in ready.into_iter().chain([wire]) {
                self.open_wire(wire).suspect = true;
            }
            return;
        };
        lane.heard.push((answer.mark, reply));
        match answer.release && !newer {
            true if answer.copy => lane.perhaps.push(message),
            true => self.acknowledged(pair, message),
            false => {}
        }
    }

    /// A release is to be tried again after a while. One that is given up before then
    /// leaves the key that it was to delete, if what made that came late.
    fn excuse_postponed(&mut self, pair: usize, message: u64) {
        let (now, node) = (self.time, self.pairs[pair].node);
        let open = self.pairs[pair].open.get(&message);
        let given_up = open.filter(|open| open.give_up <= now + POSTPONED);
        if let Some(request) = given_up.map(|open| open.request.clone()) {
            self.came_late(node, &request);
        }
    }

    /// Which release is acknowledged, of those that nobody can tell apart: this, or another if
    /// this one was before.
    fn one_of_those(&self, pair: usize, message: u64, mark: &Mark) -> u64 {
        let bytes = self.bytes.as_ref();
        let perhaps = |m: &u64| bytes.is_some_and(|bytes| bytes.lanes[pair].perhaps.contains(m));
        let owed =
            |m: &u64, o: &Open| !o.readmitted && !perhaps(m) && Mark::of(&o.request) == *mark;
        let open = &self.pairs[pair].open;
        if open.get(&message).is_some_and(|o| owed(&message, o)) {
            return message;
        }
        let other = open.iter().find(|(m, o)| owed(m, o));
        other.map_or(message, |(other, _)| *other)
    }

    /// A release is acknowledged: nobody owes it any more.
    fn acknowledged(&mut self, pair: usize, message: u64) {
        let node = self.pairs[pair].node;
        let Some(open) = self.pairs[pair].open.get_mut(&message) else {
            return;
        };
        if std::mem::replace(&mut open.readmitted, true) {
            return;
        }
        let (request, told) = (open.request.clone(), open.sink.is_none());
        if told {
            self.pairs[pair].open.remove(&message);
        }
        self.under_way(node, &request, -1);
        self.leaves_line(node, &request, false);
    }

    /// A release is given up.
    pub(in crate::world) fn given_up(&mut self, pair: usize, message: u64) {
        let node = self.pairs[pair].node;
        let Some(open) = self.pairs[pair].open.get_mut(&message) else {
            return;
        };
        let acknowledged = std::mem::replace(&mut open.readmitted, true);
        let (request, told) = (open.request.clone(), open.sink.is_none());
        if told {
            self.pairs[pair].open.remove(&message);
        }
        if !acknowledged {
            self.under_way(node, &request, -1);
            // No key could stand any more, but for these: what it undoes may have been written long after it was
            // asked for, by a client that stands still now, and has the answer to the release unread.
            let asleep = self.clients[self.pairs[pair].client].paused_until > self.time;
            if self.oracle.stepped_back > 0 || asleep {
                self.came_late(node, &request);
            }
        }
    }

    /// A link tells what came of a request. Returns that request; `None`: it may not.
    pub(super) fn told(
        &mut self,
        pair: usize,
        message: u64,
        ticket: RequestContext,
        reply: &Reply,
    ) -> Option<Open> {
        let client = self.pairs[pair].client;
        let open = self.pairs[pair].open.get_mut(&message);
        let Some(sink) = open.as_ref().and_then(|open| open.sink.clone()) else {
            self.violated(format!("L6 c{client} is told twice of m{message}"));
            return None;
        };
        let open = open?;
        let copy = Open {
            request: open.request.clone(),
            ticket,
            sink: Some(sink),
            ..*open
        };
        open.sink = None;
        let (release, done) = (ticket.op == Op::Release, open.readmitted);
        if !release || done {
            self.pairs[pair].open.remove(&message);
        }
        let (now_true, now) = (self.time, self.clients[client].now(self.time));
        match reply {
            Reply::Failed(fault) if fault.kind == FaultKind::Timeout && fault.sent => {
                if now < ticket.deadline {
                    self.violated(format!("L6 c{client}'s m{message} timed out too early"));
                }
                let patience = ticket.sent.until(ticket.deadline).as_nanos() as Time;
                let late = |at: Time| now_true - at < patience * 6 / 10;
                let lane = &self.bytes().lanes[pair];
                let mut written = lane.written.iter();
                let at = written.find(|(m, _)| *m == message).map(|(_, at)| *at);
                // Where a write waited, nobody can say which request it was.
                let says_nothing = lane.was_full || at.is_some_and(|at| at.is_none_or(late));
                if copy.connection != NOT_SENT {
                    if release && !done && !says_nothing {
                        let owed = Event::Owed {
                            pair,
                            message,
                            wire: copy.connection,
                            at: now_true,
                        };
                        self.push(now_true + self.vain(), owed);
                    }
                    let at = at.flatten();
                    let may = at.is_none_or(|at| now_true - at >= patience * 4 / 10);
                    let wire = self.open_wire(copy.connection as usize);
                    wire.doubted |= !says_nothing;
                    wire.suspect |= may;
                }
            }
            Reply::Failed(_) => {}
            _ => {
                let mark = Mark::of(&copy.request);
                let heard = &mut self.bytes().lanes[pair].heard;
                match heard.iter().position(|(m, r)| *m == mark && r == reply) {
                    Some(place) => drop(heard.remove(place)),
                    None => self.violated(format!(
                        "L6 c{client} is told of m{message} what its node did not answer: {reply:?}"
                    )),
                }
            }
        }
        Some(copy)
    }
}
