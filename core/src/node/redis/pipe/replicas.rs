//! Votes that count once replicas have them: `wait_replicas`.
//!
//! Behind the requests of a write goes one `WAIT`, which the server answers when this many replicas
//! have all that this connection has written, or the time is up. The votes of that write are
//! *parked* until then; all other answers pass at once. A vote that too few replicas have does not
//! count, and may stand: the client undoes it as an unanswered request.
//!
//! `WAIT` is a command of its own, for within a script it does not wait. It holds up what comes
//! behind it on the connection, so it never waits for long.

use std::collections::VecDeque;
use std::time::Duration;

use redis::Value as Resp;

use crate::clock::Instant;
use crate::lean::trim;
use crate::node::redis::outbox::Item;
use crate::node::redis::replies::RequestOutcome;
use crate::node::redis::resp;
use crate::node::{Fault, FaultKind, Reply};

/// See the [module documentation](self).
pub(super) struct Replicas {
    /// How many must have a vote.
    wanted: u32,
    /// The longest that one `WAIT` may take.
    most: Duration,
    /// When the first of this write's votes is of no use any more; `None`: it has none.
    owed: Option<Instant>,
    /// The votes of the write whose `WAIT` is to be answered next.
    parked: VecDeque<(Option<Box<Item>>, RequestOutcome)>,
}

impl Replicas {
    /// For votes that `wanted` replicas must have, of a node that has `node_timeout` for each
    /// request; `None` if none must.
    pub(super) fn new(wanted: u32, node_timeout: Duration) -> Option<Replicas> {
        (wanted > 0).then(|| Replicas {
            wanted,
            most: node_timeout / 2,
            owed: None,
            parked: VecDeque::new(),
        })
    }

    /// A request that may bring a vote is written.
    pub(super) fn wrote(&mut self, deadline: Instant) {
        self.owed = Some(self.owed.unwrap_or(Instant::FAR).min(deadline));
    }

    /// Writes the `WAIT` behind the requests of a write, if there may be votes among their
    /// answers: whether it did.
    pub(super) fn end_write(&mut self, out: &mut Vec<u8>, now: Instant) -> bool {
        let Some(deadline) = self.owed.take() else {
            return false;
        };
        // A `WAIT` of 0 ms would wait forever.
        let most = now.until(deadline).min(self.most).as_millis().max(1);
        resp::write_array(out, 3);
        resp::write_text(out, b"WAIT");
        resp::write_number(out, self.wanted.into());
        resp::write_number(out, u64::try_from(most).unwrap_or(u64::MAX));
        true
    }

    /// Parks the votes among the outcomes, from there on.
    pub(super) fn park(&mut self, done: &mut VecDeque<(Box<Item>, RequestOutcome)>, from: usize) {
        for (item, outcome) in done.split_off(from) {
            let vote = matches!(
                outcome,
                RequestOutcome::Reply(
                    Reply::Granted { .. } | Reply::Extended { .. } | Reply::Confirmed,
                    _
                )
            );
            if vote {
                self.parked.push_back((Some(item), outcome))
            } else {
                done.push_back((item, outcome))
            }
        }
    }

    /// Takes the answer to a `WAIT`: the votes before it become granted or failed.
    pub(super) fn take(&mut self, reply: &Resp, done: &mut VecDeque<(Box<Item>, RequestOutcome)>) {
        let have = match reply {
            Resp::Int(have) => u32::try_from(*have).unwrap_or(0),
            _ => 0,
        };
        let enough = have >= self.wanted;
        for (item, outcome) in self.parked.drain(..) {
            let Some(item) = item else { continue };
            let outcome = match outcome {
                RequestOutcome::Reply(_, time) if !enough => {
                    let text = format!(
                        "{have} of {} replicas have confirmed its vote in time",
                        self.wanted
                    );
                    // The vote may stand on the server, so the request counts as sent.
                    let fault = Fault::new(FaultKind::NotReady, text, true);
                    RequestOutcome::Reply(Reply::Failed(fault), time)
                }
                outcome => outcome,
            };
            done.push_back((item, outcome));
        }
        trim(&mut self.parked);
    }

    /// The requests whose votes are parked.
    pub(super) fn items_mut(&mut self) -> impl Iterator<Item = &mut Option<Box<Item>>> {
        self.parked.iter_mut().map(|(item, _)| item)
    }

    /// The parked items, to be looked at.
    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.parked.iter().filter_map(|(item, _)| item.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wait_is_written_for_all_votes_and_never_for_ever() {
        const NOW: Instant = Instant(1_000_000_000);
        let mut replicas = Replicas::new(2, Duration::from_millis(250)).unwrap();
        let mut wait = |deadlines: &[u64]| {
            for ms in deadlines {
                replicas.wrote(NOW + Duration::from_millis(*ms));
            }
            let mut out = Vec::new();
            let written = replicas.end_write(&mut out, NOW);
            assert_eq!(written, !out.is_empty());
            String::from_utf8(out).unwrap()
        };
        let of = |ms: &str| format!("*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n${}\r\n{ms}\r\n", ms.len());
        assert_eq!(wait(&[]), "");
        assert_eq!(wait(&[250, 40, 90]), of("40"));
        // The requests behind the `WAIT` on the connection need some of the time, too.
        assert_eq!(wait(&[250]), of("125"));
        assert_eq!(wait(&[0]), of("1"));
        assert_eq!(wait(&[]), "");
    }
}
