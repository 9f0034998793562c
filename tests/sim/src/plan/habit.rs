//! Clients that differ, and clients in crowds.

use std::time::Duration;

use super::{DRIFT, Plan};
use crate::random::Random;

/// What one client's user has chosen; all of it may differ within a set.
#[derive(Clone, Copy, Debug)]
pub struct Habit {
    /// The drift that its leases allow for.
    pub drift: f64,
    /// Its locks' ttl.
    pub ttl: Duration,
    /// Whether its leases are renewed.
    pub renew: bool,
    /// Whether they have fences.
    pub fences: bool,
    /// From which its node list is shuffled; `None`: as the nodes are numbered.
    pub order: Option<u64>,
}

impl Plan {
    /// The same with clients that differ.
    pub(super) fn with_habits(self, random: &Random) -> Plan {
        let usual = self.habit(0);
        let shorter = (usual.ttl / 2).as_millis().max(10) as u64;
        let habit = |_| Habit {
            // Each knows a bound of its own; none is too small.
            drift: DRIFT * random.pick(&[1.0, 1.0, 2.0, 5.0]),
            ttl: *random.pick(&[usual.ttl, usual.ttl, Duration::from_millis(shorter)]),
            renew: usual.renew != random.chance(20),
            fences: usual.fences && random.chance(85),
            order: random.chance(50).then(|| random.bits()),
        };
        let habits = (0..self.clients).map(habit).collect();
        Plan { habits, ..self }
    }

    /// What a client's user has chosen.
    pub fn habit(&self, client: usize) -> Habit {
        let usual = Habit {
            drift: DRIFT,
            ttl: self.ttl,
            renew: self.renew,
            fences: self.fence_ttl.is_some(),
            order: None,
        };
        self.habits.get(client).copied().unwrap_or(usual)
    }

    /// The same with two clients, each with a line so long that it could keep
    /// the lock for itself: leases without fences, which may be passed on.
    pub(super) fn crowded(self) -> Plan {
        Plan {
            clients: 2,
            workers: 4,
            tail: 8,
            mute: 0,
            renew: true,
            fence_ttl: None,
            capped: 0,
            ..self
        }
    }
}
