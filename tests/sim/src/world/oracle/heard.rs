//! HL1: whose lease is over, and was not ended by itself, is told, whatever ended it.

use quorlock::LossReason;

use super::{Inner, Watch, say};
use crate::death;
use crate::history::Happened;
use crate::world::{MS, Time, World};

/// It is told within this time after the end of validity (S5).
const TOLD_WITHIN: Time = 10 * MS;

impl World {
    /// A user of the lease of this place listens whether it is lost.
    pub fn listens(&self, index: usize) {
        self.inner().oracle.watches[index].ears += 1;
    }

    /// It is told so.
    pub fn told_of_loss(&self, index: usize, reason: LossReason) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let watch = &mut inner.oracle.watches[index];
        watch.heard += 1;
        let (c, ended) = (watch.client, watch.released && watch.handles.is_empty());
        let now = inner.clients[c].now(inner.time);
        let held = now < say(&watch.handles);
        let gave_up = ended && watch.stood;
        inner.note(|| Happened::Lost { client: c, reason });
        if held {
            inner.violated(format!(
                "HL1 c{c} is told of the loss of a lease that it has"
            ));
        } else if gave_up {
            inner.violated(format!(
                "HL1 c{c} is told of the loss of a lease that it ended"
            ));
        }
    }

    /// HL1, of all leases.
    pub fn check_heard(&self) {
        let mut inner = self.inner();
        let watches = inner.oracle.watches.iter();
        let untold = watches.filter(|watch| inner.is_untold(watch));
        if let Some(c) = untold.map(|watch| watch.client).next() {
            inner.violated(format!("HL1 c{c}'s lease is over, and it was not told"));
        }
    }
}

impl Inner {
    fn is_untold(&self, watch: &Watch) -> bool {
        let client = &self.clients[watch.client];
        if watch.heard >= watch.ears || watch.released || client.crashed {
            return false;
        }
        if client.now(self.time) < watch.end() {
            return false;
        }
        let ended = client.clock.time(watch.last_end);
        let ended = watch.cut_short.map_or(ended, |cut| cut.min(ended));
        let awake = client.awake_since <= ended;
        awake && self.time > ended + TOLD_WITHIN + death::rested()
    }
}
