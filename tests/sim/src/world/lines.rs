//! How the locks' [lines](super::line) hear of what happens. They are kept only
//! in schedules whose contenders wait on the nodes.

use std::sync::Arc;

use quorlock::sim::{MemoryNode, StoredValue};

use super::line::{Bounds, Line, OTHERS, Who};
use super::messages::HALF_OPEN;
use super::oracle::{holds_until, readers_on};
use super::{Inner, MS, Time, World};
use crate::contender::{KEYS, NAMES, SEMAPHORE, companions_of};
use crate::plan::DRIFT;

/// Whether a request for that key is about the lock of the `known` one: what is asked of a
/// semaphore is about each of its slots.
fn is_about(key: &[u8], known: &[u8]) -> bool {
    key == known || key == SEMAPHORE && KEYS[NAMES.len()..].contains(&known)
}

/// Tasks have smaller numbers than leases.
const LEASES: usize = 1_000_000;

/// Somebody waits for a lock.
#[derive(Debug)]
pub struct Waits {
    world: Arc<World>,
    who: Who,
    lock: usize,
}

impl Drop for Waits {
    fn drop(&mut self) {
        let (who, mut inner) = (self.who, self.world.inner());
        inner.line(self.lock, |line, at| {
            if line.is_judged_before() {
                line.leaves(who, at);
            }
        });
    }
}

impl World {
    /// L4 is judged from the [calm](World::judge_calm) on: for each lock, with these
    /// bounds. `fenced`: with fences, for which the nodes are founded.
    pub fn judge_lines(&self, bounds: Bounds, fenced: bool) {
        let mut inner = self.inner();
        inner.fenced = fenced;
        let line = |_| Line::new(inner.nodes.len(), bounds);
        inner.lines = KEYS.iter().map(line).collect();
        (0..inner.nodes.len()).for_each(|node| inner.look_at_lines(node));
    }

    /// Nothing goes wrong in this schedule: no lock stands still, all along.
    pub fn judge_still(&self) {
        self.inner().lines.iter_mut().for_each(Line::is_healthy);
    }

    /// The polled task waits for a lock, until that is dropped: where it is connected to all nodes,
    /// and so is on the way in as soon as it is called.
    pub fn waits_for(self: &Arc<Self>, client: usize, lock: usize) -> Waits {
        let mut inner = self.inner();
        let who = (client, OTHERS + inner.polled);
        let n = inner.nodes.len();
        let own = &inner.pairs[client * n..][..n];
        let connected = own.iter().all(|p| p.current.is_some() && !p.connecting);
        let mute = inner.clients[client].mute;
        if connected {
            inner.line(lock, |line, at| {
                if line.is_judged_before() {
                    line.waits(who, mute, at);
                }
            });
        }
        drop(inner);
        Waits {
            world: self.clone(),
            who,
            lock,
        }
    }

    /// From here on nothing goes wrong.
    pub fn judge_calm(&self) {
        let mut inner = self.inner();
        let at = inner.time;
        (0..inner.nodes.len()).for_each(|node| inner.look_at_lines(node));
        inner.lines.iter_mut().for_each(|line| line.calm(at));
    }

    /// A worker begins to wait for a lock.
    pub fn waits(&self, who: Who, lock: usize) {
        let mut inner = self.inner();
        let mute = inner.clients[who.0].mute;
        inner.oracle.one_slot |= lock == NAMES.len();
        inner.line(lock, |line, at| line.waits(who, mute, at));
    }

    /// It was told how many are before it.
    pub fn placed(&self, who: Who, lock: usize, place: u32) {
        self.inner()
            .line(lock, |line, at| line.placed(who, place, at));
    }

    /// It waits no more, and has not won.
    pub fn leaves(&self, who: Who, lock: usize) {
        self.inner().line(lock, |line, at| line.leaves(who, at));
    }

    /// It has won the lock, whether it waited or not.
    pub fn wins(&self, who: Who, lock: usize) {
        self.inner().line(lock, |line, at| line.wins(who, at));
    }

    /// It holds the lock no more.
    pub fn ends(&self, who: Who, lock: usize) {
        self.inner().line(lock, |line, at| line.ends(who, at));
    }

    /// How many stand in a queue, at most, of a node that has old data again.
    pub fn ghosts(&self) -> u32 {
        let inner = self.inner();
        let queued = inner.nodes.iter().filter(|node| node.forgot).map(|node| {
            let local = node.clock.local_ms(inner.time);
            let keys = KEYS.map(companions_of);
            let lines = keys
                .iter()
                .filter_map(|keys| node.state.line(keys.queue(), local));
            lines.map(|line| line.queue.len()).max().unwrap_or(0)
        });
        queued.max().unwrap_or(0) as u32
    }

    /// L4, up to now. A node whose clock has stepped may keep keys and
    /// reservations for longer: then nothing is promised.
    pub fn check_lines(&self) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        if inner.oracle.steps_seen {
            return;
        }
        let at = inner.time;
        let wrong = inner.lines.iter_mut().find_map(|line| line.check(at));
        if let Some(wrong) = wrong.map(str::to_owned) {
            inner.violated(wrong);
        }
    }
}

impl Inner {
    fn line(&mut self, lock: usize, tell: impl FnOnce(&mut Line, Time)) {
        if let Some(line) = self.lines.get_mut(lock) {
            tell(line, self.time);
        }
    }

    /// Somebody has this lease of a lock now, or has it no more.
    pub(super) fn holds(&mut self, lock: usize, client: usize, lease: usize, now: bool) {
        let who = (client, LEASES + lease);
        self.line(lock, |line, at| match now {
            true if line.is_judged_before() => line.wins(who, at),
            true => {}
            false if line.is_judged_before() => line.ends(who, at),
            false => {}
        });
    }

    /// Something may have changed on a node: from when does it vote?
    pub(super) fn look_at_lines(&mut self, node: usize) {
        for (lock, key) in KEYS.iter().enumerate().take(self.lines.len()) {
            let from = self.votes_from(node, key);
            self.line(lock, |line, at| line.votes_from(node, from, at));
        }
    }

    /// From when a node votes for whoever asks for that lock.
    fn votes_from(&self, node: usize, key: &[u8]) -> Time {
        let state = &self.nodes[node];
        let local = state.clock.local(self.time);
        let admitted = |record: &str| {
            let run = record.rsplit(' ').next();
            run == Some(self.admission.run_id(node, state.run).as_str())
        };
        let record = state.state.record();
        if self.admission.expected.guard && !record.is_some_and(|r| admitted(r)) {
            // Its quarantine begins when somebody finds out.
            return Time::MAX;
        }
        if self.fenced && record.is_none() {
            // All nodes are founded together, before the first fence.
            return Time::MAX;
        }
        // Keys live up to and including their last millisecond.
        let end = |at| state.clock.time(at) + MS;
        // For whom it is reserved, it votes.
        let held = |form: &StoredValue| form.holder(MemoryNode::time(local)).is_some();
        let form = state.state.form(key, local);
        let readers = if form.is_some_and(|(form, _)| form.is_shared()) {
            readers_on(&state.state, &companions_of(key), local)
        } else {
            Vec::new()
        };
        let readers = readers.into_iter().map(|(_, last)| end(last)).max();
        let form = form.filter(|(form, _)| held(form));
        let key = form.map(|(form, last)| end(holds_until(form, last)));
        let key = key.max(readers);
        let quarantine = state.state.quarantine(local);
        let quarantine = quarantine.map(|left| end(local + left));
        let up = state.down_until.max(state.loading_until);
        let up = up.max(state.paused_until);
        up.max(key.unwrap_or(0)).max(quarantine.unwrap_or(0))
    }

    /// What should follow a message was lost, or came to nothing: of the lock
    /// with that key.
    pub(super) fn in_vain(&mut self, key: &[u8]) {
        self.lost(Some(key), None);
    }

    /// A message did not arrive over the connections of a pair: of the lock with
    /// that key, or of any.
    pub(super) fn unheard(&mut self, pair: usize, key: Option<&[u8]>) {
        self.lost(key, Some(pair));
    }

    pub(super) fn lost(&mut self, key: Option<&[u8]>, unheard: Option<usize>) {
        for (lock, known) in KEYS.iter().enumerate().take(self.lines.len()) {
            if key.is_none_or(|key| is_about(key, known)) {
                self.line(lock, |line, at| line.in_vain(unheard, at));
            }
        }
    }

    /// An attempt that had its home's vote is given up.
    pub(super) fn backs_off(&mut self, key: &[u8]) {
        for (line, known) in self.lines.iter_mut().zip(KEYS) {
            if is_about(key, known) {
                line.backs_off(self.time);
            }
        }
    }

    /// A client hears its node again.
    pub(super) fn hears_again(&mut self, pair: usize) {
        for line in &mut self.lines {
            line.hears(pair, self.time);
        }
    }

    /// Old data has come back, and with it who waited then.
    pub(super) fn haunted(&mut self, node: usize) {
        let (at, state) = (self.time, &self.nodes[node]);
        let local = state.clock.local_ms(at);
        for (line, key) in self.lines.iter_mut().zip(KEYS) {
            let keys = companions_of(key);
            let old = state.state.line(keys.queue(), local);
            let form = state.state.form(key, local);
            let reserved =
                form.filter(|(form, _)| form.reserved(MemoryNode::time(local)).is_some());
            let waiters = old.map_or(0, |old| old.queue.len()) + usize::from(reserved.is_some());
            let ends = [old.map(|old| old.end), reserved.map(|(_, end)| end)];
            if let Some(end) = ends.into_iter().flatten().max() {
                line.haunted(waiters as u32, state.clock.time(end) + MS, at);
            }
        }
    }

    /// A client stands still until then, or forever: then its nodes find out
    /// some time.
    pub(super) fn vanishes(&mut self, client: usize, until: Time) {
        let at = self.time;
        // By a clock as slow as clocks may be: until then keys of its stand too.
        let missed = at + (self.network.reach as f64 * HALF_OPEN * (1.0 + DRIFT)) as Time + 2 * MS;
        let until = if until == Time::MAX { missed } else { until };
        for line in &mut self.lines {
            line.vanishes(client, until, at);
        }
    }
}
