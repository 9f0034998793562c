//! Watches a node's clock for steps. A quarantine ends by the node's own clock: a forward step
//! during a quarantine ends it too early, so it begins again. Pure.

use std::time::Duration;

use crate::clock::Instant;
use crate::node::time::NodeTimes;
use crate::node::{Fault, FaultKind, Reply};

/// Watches a node's clock for as long as a quarantine may stand there: for the
/// length of one after each connection to the node, and whenever the node says
/// that it is in quarantine.
#[derive(Debug)]
pub struct StepWatch {
    times: NodeTimes,
    length: Duration,
    drift: f64,
    until: Instant,
}

impl StepWatch {
    /// For a set whose quarantines last so long. `drift` bounds the difference
    /// of clock rates.
    pub fn new(length: Duration, drift: f64) -> StepWatch {
        StepWatch {
            times: NodeTimes::default(),
            length,
            drift,
            until: Instant::NEVER,
        }
    }

    /// The server of that number was admitted; its `TIME` was `time` µs between
    /// `sent` and `received`. Whether a quarantine has to begin again.
    pub fn admitted(&mut self, server: u64, sent: Instant, received: Instant, time: u64) -> bool {
        self.until = received + self.length;
        self.observe(server, sent, received, time)
    }

    /// As [`admitted`](StepWatch::admitted), for the reply to a request.
    /// `quarantined`: it says that the node is in quarantine.
    pub fn told(
        &mut self,
        server: u64,
        sent: Instant,
        received: Instant,
        time: u64,
        quarantined: bool,
    ) -> bool {
        (quarantined || received < self.until) && self.observe(server, sent, received, time)
    }

    /// What the reply is worth that shows the step: the node has voted although a
    /// quarantine may be due there, so a new vote is none.
    pub fn worth(reply: Reply) -> Reply {
        let new = matches!(
            reply,
            Reply::Granted { .. } | Reply::Extended { repaired: true }
        );
        if new {
            let why = "its clock has stepped: it may have voted too early after a restart";
            Reply::Failed(Fault::new(FaultKind::NotReady, why, true))
        } else {
            reply
        }
    }

    fn observe(&mut self, server: u64, sent: Instant, received: Instant, time: u64) -> bool {
        let step = self.times.observe(server, sent, received, time, self.drift);
        step.is_some_and(|step| step.0 > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn forward_steps_count_while_a_quarantine_may_stand() {
        let mut watch = StepWatch::new(Duration::from_millis(1_000), 0.01);
        let micros = |ms: u64| ms * 1_000;
        assert!(!watch.admitted(1, at(10), at(11), micros(5_010)));
        assert!(!watch.told(1, at(20), at(21), micros(5_020), false));
        // A backward step is no danger; from there on the clock is measured anew.
        assert!(!watch.told(1, at(30), at(31), micros(4_030), false));
        assert!(watch.told(1, at(40), at(41), micros(5_040), false));
        assert!(!watch.told(1, at(50), at(51), micros(5_050), true));
        // Another server has another clock.
        assert!(!watch.told(2, at(60), at(61), micros(9_060), false));
        // Later a step counts only where the reply itself shows a quarantine.
        assert!(!watch.told(1, at(1_100), at(1_101), micros(7_100), false));
        assert!(watch.told(1, at(1_200), at(1_201), micros(7_200), true));
        // The clock has stepped between two connections.
        assert!(watch.admitted(1, at(1_300), at(1_301), micros(8_300)));
    }

    #[test]
    fn a_new_vote_that_comes_with_a_step_is_none() {
        let new = [
            Reply::Granted {
                fence: 7,
                lasts: None,
            },
            Reply::Extended { repaired: true },
        ];
        for reply in new {
            let worth = StepWatch::worth(reply);
            let Reply::Failed(fault) = worth else {
                panic!("{worth:?}")
            };
            assert!(fault.sent && fault.kind == FaultKind::NotReady);
        }
        // A lengthened vote stood before the step, so it stands.
        let kept = Reply::Extended { repaired: false };
        assert_eq!(StepWatch::worth(kept.clone()), kept);
    }
}
