//! K1: no hold of a lock begins within `keep` of a win whose release a quorum has carried
//! out, or its user was told so, by the clock of the client that won it. Nor is a lock kept for longer than that, but
//! for the drift that is allowed for.

use std::time::Duration;

use quorlock::Lease;
use quorlock::sim::{AfterRelease, Instant, Op, Reply, Request};

use super::{Inner, MOST_NODES, name_of};
use crate::neighbour::place_of_key;
use crate::world::{MS, Time, World};

/// A hold that is to keep its lock.
pub(super) struct Kept {
    /// By its key: whatever holds that, in whatever layout, is kept out.
    place: usize,
    token: u64,
    /// Which of the token's leases.
    lease: u32,
    /// By its client's clock.
    won: Instant,
    keep: Duration,
    /// How much longer it may be kept: the drift that its client allows for.
    slack: Duration,
    until: Time,
    /// Where the release that keeps it was carried out.
    on: [bool; MOST_NODES],
    /// Its user was told that the release is done.
    told: bool,
}

impl Kept {
    /// Whether it is a hold of this token.
    pub(super) fn is_of(&self, token: u64) -> bool {
        self.token == token
    }
}

impl World {
    /// The user of this lease was told that its release is done.
    pub fn released(&self, lease: &Lease) {
        let token = name_of(lease.hold().token().as_bytes());
        let over = lease.hold().end() == Instant::NEVER;
        self.inner().traces_released(lease, false);
        for kept in &mut self.inner().oracle.kept {
            kept.told |= over && (kept.token, kept.lease) == (token, lease.number());
        }
    }

    /// A lease is shared from here on: it keeps no lock.
    pub fn downgraded(&self, lease: &Lease) {
        let token = name_of(lease.hold().token().as_bytes());
        self.inner().traces_shared(lease);
        self.inner().oracle.kept.retain(|kept| kept.token != token);
    }
}

impl Inner {
    /// A user has this lease from now on: another hold of its lock may keep that still, or
    /// this one will.
    pub(super) fn check_kept(&mut self, client: usize, lease: &Lease) {
        let hold = lease.hold();
        let (place, token) = (
            place_of_key(&hold.lock_key()),
            name_of(hold.token().as_bytes()),
        );
        let (time, clock) = (self.time, &self.clients[client]);
        let won = clock.now(time);
        let (keep, quorum) = (hold.terms().asked.keep, self.listed(client).1);
        let until = clock.clock.time(won + keep);
        let stands = |kept: &&Kept| {
            let on = (0..self.nodes.len()).filter(|i| kept.on[*i] && !self.nodes[*i].excused);
            let excused = self.nodes.iter().any(|node| node.excused);
            time < kept.until && (on.count() >= quorum || kept.told && !excused)
        };
        let others = |kept: &&Kept| kept.place == place && kept.token != token;
        let mut before = self.oracle.kept.iter().filter(others);
        let broken = !self.listed_twice && before.any(|kept| stands(&kept));
        if broken {
            self.violated(format!("K1 c{client} has a lock that is kept"));
        }
        // A lease of the same token was passed on, which no node hears of.
        let passed = |kept: &Kept| (kept.token, kept.place) == (token, place);
        let passed =
            |kept: &Kept| passed(kept) && kept.lease != lease.number() && time < kept.until;
        if self.oracle.kept.iter().any(passed) {
            self.violated(format!("K1 c{client} passes a lock on that is kept"));
        }
        // Of the token's leases the last one counts.
        let over = |kept: &Kept| kept.until < time || kept.token == token;
        self.oracle.kept.retain(|kept| !over(kept));
        // It may be told of behind its being taken away.
        if !keep.is_zero() && !self.is_forced(&token) {
            self.oracle.kept.push(Kept {
                place,
                token,
                lease: lease.number(),
                won,
                keep,
                slack: keep.mul_f64(hold.terms().drift) + Duration::from_millis(3),
                until,
                on: [false; MOST_NODES],
                told: false,
            });
        }
    }

    /// A client sends a release: what it keeps, and for how long, was won.
    pub(super) fn check_keeping(&mut self, client: usize, request: &Request) {
        let (Op::Release, AfterRelease::TakenUntil(end)) = (request.op, request.leaving) else {
            return;
        };
        let token = name_of(&request.value.0);
        let kept = self.oracle.kept.iter().find(|kept| kept.token == token);
        // One that is over already may be out of the books.
        let Some(kept) = kept else { return };
        let (low, most) = (kept.won + kept.keep, kept.won + kept.keep + kept.slack);
        if end < low || end > most {
            let off = (low.until(end), end.until(low));
            self.violated(format!(
                "K1 c{client} keeps a lock for {off:?} more or less"
            ));
        }
    }

    /// A node has carried a request out.
    pub(super) fn note_kept(&mut self, node: usize, request: &Request, reply: Option<&Reply>) {
        // What the release did at the one server says nothing of the other, and the link tells nobody of it: a user that is
        // told is held to that at both.
        if self.has_two_masters(node) || matches!(request.leaving, AfterRelease::Forced(_)) {
            return;
        }
        if let (Op::Release, Some(Reply::Released { held: true } | Reply::Kept)) =
            (request.op, reply)
        {
            let token = name_of(&request.value.0);
            let (time, kept) = (self.time, self.oracle.kept.iter_mut());
            let mut ends = false;
            for kept in kept.filter(|kept| kept.token == token) {
                // What comes at its end may find it over.
                ends |= !kept.on.iter().any(|on| *on);
                kept.on[node] |= time + MS < kept.until;
            }
            if ends {
                // Nobody is called as that ends: whoever waits finds out with its next poll.
                self.in_vain(&request.keys.lock);
            }
        }
    }
}
