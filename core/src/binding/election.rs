//! What bindings need of an election.

use crate::election::{Election, rest};
use crate::error::Error;
use crate::event::event;
use crate::lock::Lock;
use std::fmt;
use std::time::Duration;

impl Election {
    /// For bindings: over a lock [for an election](Lock::for_election), with its options.
    #[doc(hidden)]
    pub fn of(lock: Lock) -> Election {
        Election::new(lock)
    }

    /// For bindings: waits for so long, or until the client is closed.
    #[doc(hidden)]
    pub async fn pause(&self, time: Duration) -> Result<(), Error> {
        let begun = self.lock.running()?.set.clock.now();
        rest(&self.lock, begun + time).await
    }

    /// For bindings, too: tells the log that the work of a term failed, and why; in how long
    /// this campaigns again, or that the term was over.
    #[doc(hidden)]
    pub fn tell_failed(&self, why: &dyn fmt::Display, pause: Option<Duration>) {
        let Ok(client) = self.lock.running() else {
            return;
        };
        let lock = self.name().escape_ascii();
        match pause {
            Some(pause) => (client.set.warn)(event!(
                "leader_failed",
                "the work of the leader of `{lock}` failed, which campaigns again in {pause}: \
                 {reason}",
                lock = lock,
                pause = format!("{pause:?}"),
                reason = why,
            )),
            None => (client.set.note)(event!(
                "deposed_leader_failed",
                "the work of the leader of `{lock}` failed, whose term is over: {reason}",
                lock = lock,
                reason = why,
            )),
        }
    }

    /// For bindings: counts from now on. The result tells for how long it has.
    #[doc(hidden)]
    pub fn stopwatch(&self) -> Result<impl Fn() -> Duration + use<>, Error> {
        let set = self.lock.running()?.set.clone();
        let begun = set.clock.now();
        Ok(move || begun.until(set.clock.now()))
    }
}
