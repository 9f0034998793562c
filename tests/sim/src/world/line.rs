//! L4, no lost wake-up: a lock that is free while somebody waits for it is
//! soon won, and nobody waits forever. Judged once nothing goes wrong any more.
//!
//! This is fed with what happens to one lock and knows nothing else. It is
//! *idle* while a quorum of its nodes would vote for whoever asks, nobody holds
//! it, and somebody waits. Where messages work and nobody vanished, the hand-off
//! ends that within a part of the reservation. A wake-up that comes to nothing
//! costs the reservation made for it and a poll of whoever asks next; a message
//! that did not arrive, no more than until its client hears that node again, for
//! then it asks by itself. Whoever cannot be called asks all the time.
//!
//! Where nothing is wrong, and no wake-up came to nothing, a lock does not *stand still* either:
//! a majority would vote, nobody is inside, and somebody waits, for longer than some round trips.
//! That there are votes elsewhere of attempts that come to nothing is no excuse.

use std::collections::BTreeMap;

use super::{MS, Time};

/// A lock may be idle for so much of a reservation,
const GAP_SHARE: f64 = 0.45;
/// or for so long,
const GAP_LEAST: Time = 20 * MS;
/// or for this many round trips, whatever is longest.
const GAP_TRIPS: Time = 8;
/// Where nothing is wrong nobody is inside for so many at most, while somebody waits; in the calm at
/// the end, after all that went wrong, for [`GAP_LEAST`] at least.
const STILL_TRIPS: Time = 10;
/// The longest time between two polls of those next in line,
const POLL_NEAR: Time = 500 * MS / 10 * 12;
/// and of others.
pub const POLL_FAR: Time = 2_000 * MS / 10 * 12;
/// And of those that messages do not reach.
const POLL_MUTE: Time = 100 * MS / 10 * 12;
/// The longest pause after an attempt that came to its end.
const BACK_OFF: Time = 640 * MS;
/// This many are next in line.
const NEAR: u32 = 2;

/// What is promised of a lock.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Nodes whose votes win it.
    pub quorum: usize,
    /// How long it is kept for the waiter whose turn it is.
    pub reservation: Time,
    /// The longest round trip.
    pub trip: Time,
    /// Nobody waits for longer.
    pub longest: Time,
    /// Nothing goes wrong, so somebody is inside or on the way in.
    pub healthy: bool,
}

/// Workers have smaller numbers; those that wait or hold before the calm have others.
pub const OTHERS: usize = 1_000;

/// A worker of a client.
pub type Who = (usize, usize);
/// From a node to a client: their connections.
pub type Way = usize;

/// What has happened to one lock. Events are told in their order.
#[derive(Debug)]
pub struct Line {
    bounds: Bounds,
    /// Judged from here on.
    calm: Option<Time>,
    /// Nothing goes wrong at all: whether it stands still is judged all along.
    always: bool,
    /// From when each node votes for whoever asks.
    free_from: Vec<Time>,
    holders: Vec<Who>,
    /// When the last of them was not that any more.
    left: Time,
    waiting: BTreeMap<Who, Waiting>,
    /// Wake-ups that came to nothing: whose they were stand in no queue until they
    /// ask again, whoever wins meanwhile.
    vain: Vec<Vain>,
    /// Connections that broke are made anew by then, clients that hear again have
    /// begun to ask, and pauses are over.
    settled: Time,
    /// Waiters of clients that vanished, and until when nodes take them for
    /// alive.
    ghosts: Vec<(Time, u32)>,
    wrong: Option<String>,
}

/// A wake-up that came to nothing.
#[derive(Debug)]
struct Vain {
    at: Time,
    /// It was a message that did not arrive.
    unheard: Option<Way>,
}

#[derive(Debug)]
struct Waiting {
    since: Time,
    /// No message reaches it.
    mute: bool,
    /// How many were before it when it asked last.
    place: u32,
}

impl Line {
    /// A lock that nobody has, on this many nodes.
    pub fn new(nodes: usize, bounds: Bounds) -> Line {
        Line {
            bounds,
            calm: None,
            always: false,
            free_from: vec![0; nodes],
            holders: Vec::new(),
            left: 0,
            waiting: BTreeMap::new(),
            vain: Vec::new(),
            settled: 0,
            ghosts: Vec::new(),
            wrong: None,
        }
    }

    /// Whether it is judged before the calm.
    pub fn is_judged_before(&self) -> bool {
        self.always && self.calm.is_none()
    }

    /// Nothing goes wrong, from the beginning.
    pub fn is_healthy(&mut self) {
        self.always = true;
    }

    /// Nothing goes wrong from here on.
    pub fn calm(&mut self, at: Time) {
        self.calm.get_or_insert(at);
        // From here on the workers of the calm tell of themselves.
        self.holders.retain(|(_, number)| *number < OTHERS);
        self.waiting.retain(|(_, number), _| *number < OTHERS);
    }

    /// The node votes for nobody new before `from`; with `from` in the past:
    /// now it would.
    pub fn votes_from(&mut self, node: usize, from: Time, at: Time) {
        self.judge(at);
        let known = &mut self.free_from[node];
        *known = if from > at { from } else { at.min(*known) };
    }

    /// Somebody begins to wait; `mute`: whom no message reaches.
    pub fn waits(&mut self, who: Who, mute: bool, at: Time) {
        self.judge(at);
        let waiting = Waiting {
            since: at,
            mute,
            place: u32::MAX,
        };
        self.waiting.insert(who, waiting);
    }

    /// A waiter was told how many are before it.
    pub fn placed(&mut self, who: Who, place: u32, at: Time) {
        self.judge(at);
        if let Some(waiting) = self.waiting.get_mut(&who) {
            waiting.place = place;
        }
    }

    /// A waiter has given up.
    pub fn leaves(&mut self, who: Who, at: Time) {
        self.judge(at);
        self.waiting.remove(&who);
        if self.calm.is_none() {
            // It may have been called, and its turn be passed on.
            self.left = at;
        }
    }

    /// Somebody has won the lock, and waits no more.
    pub fn wins(&mut self, who: Who, at: Time) {
        self.judge(at);
        self.waiting.remove(&who);
        self.holders.push(who);
    }

    /// A hold is over.
    pub fn ends(&mut self, who: Who, at: Time) {
        self.judge(at);
        self.holders.retain(|holder| *holder != who);
        self.left = at;
    }

    /// A wake-up came to nothing: a request or reply that should have followed
    /// the message was lost, or the message itself, on its `unheard` way.
    pub fn in_vain(&mut self, unheard: Option<Way>, at: Time) {
        self.judge(at);
        let lasts = self.bounds.reservation + POLL_FAR;
        self.vain.retain(|vain| at < vain.at + lasts);
        self.vain.push(Vain { at, unheard });
    }

    /// A client hears a node again: what it did not hear it asks for now.
    pub fn hears(&mut self, way: Way, at: Time) {
        self.judge(at);
        let known = self.vain.len();
        self.vain.retain(|vain| vain.unheard != Some(way));
        if self.vain.len() < known {
            self.settled = self.settled.max(at);
        }
    }

    /// An attempt that had the home's vote was given up. Where that is because
    /// somebody else has the lock without the home, it stands in no queue until
    /// its pause is over.
    pub fn backs_off(&mut self, at: Time) {
        self.judge(at);
        if !self.holders.is_empty() || self.quorum_from() > at {
            self.settled = self.settled.max(at + BACK_OFF);
        }
    }

    /// A client may ask no node as yet, for its set is not founded: it asks again when its pause is
    /// over.
    pub fn unfounded(&mut self, at: Time) {
        self.breaks(at + BACK_OFF, at);
    }

    /// A connection broke; there is another by then.
    pub fn breaks(&mut self, until: Time, at: Time) {
        self.judge(at);
        self.settled = self.settled.max(until);
    }

    /// A client vanished; until then nodes may take it for alive.
    pub fn vanishes(&mut self, client: usize, until: Time, at: Time) {
        self.judge(at);
        let waited = self.waiting.len();
        self.waiting.retain(|who, _| who.0 != client);
        self.holders.retain(|who| who.0 != client);
        self.left = at;
        // Its last waiter may have left without its nodes knowing.
        let ghosts = (waited - self.waiting.len()).max(1);
        self.ghosts.push((until, ghosts as u32));
    }

    /// A node remembers so many that may have left long ago, until then.
    pub fn haunted(&mut self, ghosts: u32, until: Time, at: Time) {
        self.judge(at);
        self.ghosts.push((until, ghosts));
    }

    /// What was wrong, up to `at`.
    pub fn check(&mut self, at: Time) -> Option<&str> {
        self.judge(at);
        self.wrong.as_deref()
    }

    /// Since when the lock is idle, if it is; `mute`: for those that no message
    /// reaches, too.
    fn idle_since(&self, mute: bool, at: Time) -> Option<Time> {
        let calm = self.calm.filter(|_| self.holders.is_empty())?;
        let waiting = self.waiting.values().filter(|w| mute || !w.mute);
        let waited_for = waiting.map(|w| w.since).min()?;
        let free = self.quorum_from();
        let since = calm.max(waited_for).max(self.left).max(free);
        let since = since.max(self.settled);
        (since < at).then_some(since)
    }

    /// Since when nobody is inside while somebody waits, whatever nodes have.
    fn still_since(&self, at: Time) -> Option<Time> {
        let from = self.calm.or(self.always.then_some(0));
        let calm = from.filter(|_| self.holders.is_empty() && self.bounds.healthy)?;
        let waiting = self.waiting.values().filter(|w| !w.mute);
        let waited_for = waiting.map(|w| w.since).min()?;
        let mut free = self.free_on(self.free_from.len() / 2 + 1);
        if !self.tells(free) {
            // Each node ends such votes by its own clock, and none is won before the home has.
            let ends = self.free_from.iter().filter(|end| **end != Time::MAX);
            free = ends.max().map_or(free, |last| free.max(*last));
        }
        let since = calm.max(waited_for).max(self.left).max(self.settled);
        let since = since.max(free);
        (since < at && self.odd(since) == 0).then_some(since)
    }

    /// Whether somebody is told that the lock is free from then on: nobody is told of votes that end by
    /// themselves, as those of a lease that was exported and that nobody adopts.
    fn tells(&self, free: Time) -> bool {
        free <= self.left + STILL_TRIPS * self.bounds.trip
    }

    /// From when a quorum votes for whoever asks.
    fn quorum_from(&self) -> Time {
        self.free_on(self.bounds.quorum)
    }

    /// From when so many do.
    fn free_on(&self, nodes: usize) -> Time {
        let mut free = self.free_from.clone();
        free.sort_unstable();
        free[nodes - 1]
    }

    /// How many wake-ups may have come to nothing for what has been idle since then.
    fn odd(&self, since: Time) -> u32 {
        let reservation = self.bounds.reservation;
        // Where the lock was free by then, it may have been called, and is kept the lock
        // for as long as anybody.
        let gone = |until: Time| {
            if self.left <= until {
                until + reservation <= since
            } else {
                until <= since
            }
        };
        let ghosts = self.ghosts.iter().filter(|(until, _)| !gone(*until));
        let lasts = reservation + POLL_FAR;
        let vain = self.vain.iter().filter(|vain| since < vain.at + lasts);
        vain.count() as u32 + ghosts.map(|(_, ghosts)| ghosts).sum::<u32>()
    }

    /// How long it may be that which has been idle since then.
    fn bound(&self, since: Time) -> Time {
        let Bounds {
            reservation, trip, ..
        } = self.bounds;
        let share = (reservation as f64 * GAP_SHARE) as Time;
        let vain = self.odd(since);
        let near = self.waiting.values().any(|w| w.place < NEAR);
        let poll = if near { POLL_NEAR } else { POLL_FAR };
        share.max(GAP_LEAST).max(GAP_TRIPS * trip) + Time::from(vain) * (reservation + poll)
    }

    /// Judges that somebody is inside, or on the way in, where nothing is wrong.
    fn judge_still(&mut self, at: Time) {
        let ms = |time: Time| time as f64 / MS as f64;
        if let Some(since) = self.still_since(at) {
            // What nobody is told of the next poll finds out.
            let free = self.free_on(self.free_from.len() / 2 + 1);
            let told = since > free || self.tells(free);
            let least = match self.calm {
                // Nodes count whole milliseconds, and a waiter that has the home's vote asks those that refused again 1.3 ms
                // later at the latest, however near they are.
                None if told => 2 * MS,
                _ => GAP_LEAST,
            };
            let (still, bound) = (at - since, least.max(STILL_TRIPS * self.bounds.trip));
            if still > bound {
                self.wrong = Some(format!(
                    "L4 nobody is inside for {:.3} ms of {:.3} although {} wait and nothing is wrong",
                    ms(still),
                    ms(bound),
                    self.waiting.len(),
                ));
            }
        }
    }

    /// Judges all the time up to `at`, in which nothing happened.
    fn judge(&mut self, at: Time) {
        if self.wrong.is_some() {
            return;
        }
        self.judge_still(at);
        let Some(calm) = self.calm.filter(|_| self.wrong.is_none()) else {
            return;
        };
        let ms = |time: Time| time as f64 / MS as f64;
        // Past those that hear nothing whoever hears is called.
        for (mute, asks) in [(false, 0), (true, POLL_MUTE)] {
            let Some(since) = self.idle_since(mute, at) else {
                continue;
            };
            let (idle, bound) = (at - since, self.bound(since) + asks);
            if idle > bound {
                self.wrong = Some(format!(
                    "L4 a lock is idle for {:.3} ms of {:.3} although {} wait",
                    ms(idle),
                    ms(bound),
                    self.waiting.len(),
                ));
                return;
            }
        }
        let longest = self.bounds.longest;
        let starved = |w: &Waiting| at.saturating_sub(w.since.max(calm)) > longest;
        if let Some(((client, worker), _)) = self.waiting.iter().find(|(_, w)| starved(w)) {
            self.wrong = Some(format!(
                "L4 c{client}'s worker {worker} waits for longer than {:.3} ms",
                ms(longest)
            ));
        }
    }
}

#[cfg(test)]
mod tests;
