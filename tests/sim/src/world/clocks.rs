//! Clocks: of nodes and clients, each at a rate of its own; and the clients
//! that read them, which may stand still while their clock goes on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;

use quorlock::sim::{Clock, Instant, Sleep};

use super::events::Event;
use super::{MS, Time, World};
use crate::death;
use crate::plan::DRIFT;

/// Timers are set for no longer than this at a time, so that a sleeper looks
/// at the clock soon after a suspend (`LONGEST_SLEEP` of the core's clock).
const NAP: Time = 1_000 * MS;

/// A clock that runs at a rate of its own.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// What it shows at true time zero.
    pub offset: u64,
    /// Local nanoseconds for a true one.
    pub rate: f64,
}

impl Rate {
    /// What the clock shows at `time`.
    pub fn local(&self, time: Time) -> Instant {
        Instant(self.offset + (time as f64 * self.rate) as u64)
    }

    /// What a node's clock shows: servers count whole milliseconds.
    pub fn local_ms(&self, time: Time) -> Instant {
        Instant(self.local(time).0 / MS * MS)
    }

    /// The first true time at which it shows `at` or more.
    pub fn time(&self, at: Instant) -> Time {
        let time = (at.0.saturating_sub(self.offset) as f64 / self.rate) as u64;
        time.saturating_add(1)
    }
}

/// A client as the world sees it.
pub(super) struct ClientState {
    pub(super) clock: Rate,
    /// How far it takes rates to differ, at the most.
    pub(super) drift: f64,
    pub(super) paused_until: Time,
    pub(super) crashed: bool,
    /// A program has closed it.
    pub(super) closed: bool,
    /// Replies and wake-ups that came while it was paused.
    pub(super) held_back: Vec<Event>,
    /// The last suspension.
    suspended: (Time, Time),
    /// How long it has been suspended in all.
    pub(super) lost_time: Time,
    /// Its timers ring in time from here on, until the next pause.
    pub(super) awake_since: Time,
    /// Its connections hear no messages.
    pub(super) mute: bool,
    /// It will stand still for so long once its home votes for it.
    pub(super) pauses_at_vote: Option<Time>,
    /// The number of the waiter that it named last.
    pub(super) waiter: u64,
    /// The token with which each of its waiters asked last, by their numbers; kept
    /// for L4.
    pub(super) asked_with: BTreeMap<u64, u64>,
}

impl ClientState {
    pub(super) fn new(clock: Rate) -> ClientState {
        ClientState {
            clock,
            drift: DRIFT,
            paused_until: 0,
            crashed: false,
            closed: false,
            held_back: Vec::new(),
            suspended: (0, 0),
            lost_time: 0,
            awake_since: 0,
            mute: false,
            pauses_at_vote: None,
            waiter: 0,
            asked_with: BTreeMap::new(),
        }
    }

    /// Stands still from `now` for `long`; false if it does already.
    pub(super) fn pause(&mut self, now: Time, long: Time, suspend: bool) -> bool {
        if self.paused_until > now {
            return false;
        }
        self.paused_until = now + long;
        let mut awake = now + long;
        if suspend {
            self.suspended = (now, awake);
            awake += NAP;
            // Only what is over counts; nothing runs before.
            self.lost_time += long;
        }
        self.awake_since = self.awake_since.max(awake);
        true
    }

    /// When a timer rings that was set at `set_at` to ring `now`, if it is
    /// later: during a suspension timers stand still.
    pub(super) fn rings_later(&self, set_at: Time, now: Time) -> Option<Time> {
        let (from, until) = self.suspended;
        if set_at >= from || now < from {
            return None;
        }
        Some((until + (now - from).min(NAP)).max(now))
    }

    /// What the client believes the time to be.
    pub(super) fn now(&self, time: Time) -> Instant {
        self.clock.local(time.saturating_sub(self.stood_still()))
    }

    /// When it will believe the time to be `at`.
    fn time(&self, at: Instant) -> Time {
        self.clock.time(at).saturating_add(self.stood_still())
    }

    /// How long its clock has stood still: a clock that counts suspends never
    /// does.
    fn stood_still(&self) -> Time {
        0
    }
}

pub(super) struct SimClock {
    pub(super) world: Arc<World>,
    pub(super) client: usize,
}

impl Clock for SimClock {
    fn now(&self) -> Instant {
        let inner = self.world.inner();
        inner.clients[self.client].now(inner.time)
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        let world = self.world.clone();
        let client = self.client;
        let mut set_for = None;
        Box::pin(std::future::poll_fn(move |cx| {
            let mut inner = world.inner();
            if inner.violation.is_some() {
                // What goes round in circles stops here.
                return Poll::Pending;
            }
            let state = &inner.clients[client];
            if state.now(inner.time) >= at {
                death::slept();
                return Poll::Ready(());
            }
            let rings = state.time(at);
            if set_for != Some(rings) && at < Instant::FAR {
                set_for = Some(rings);
                let waker = cx.waker().clone();
                let set_at = inner.time;
                inner.push(
                    rings,
                    Event::Timer {
                        client,
                        set_at,
                        waker,
                    },
                );
            }
            drop(inner);
            death::waits();
            Poll::Pending
        }))
    }
}
