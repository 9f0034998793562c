//! Which server sits in which place of a list: a server must not vote in two places.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::{Expectation, Record};
use crate::clock::Instant;
use crate::mutex::lock;

/// Which server sits in which place: what the connections of a client know of each other's nodes.
///
/// The roster remembers a server that has left its seat for as long as a vote that it gave there
/// may stand: in another seat it would vote twice for one token.
#[derive(Debug)]
pub struct Roster {
    memory: Duration,
    seats: Mutex<Vec<RosterEntry>>,
}

#[derive(Clone, Debug)]
struct RosterEntry {
    node: usize,
    shown: String,
    run: Option<String>,
    /// The name from the server's record, once the server is admitted.
    name: Option<String>,
    /// Since when another server sits there, or none.
    left: Option<Instant>,
}

impl Roster {
    /// A roster for the nodes of such a set: as long as a vote may stand there.
    pub fn new(expected: &Expectation) -> Roster {
        Roster {
            memory: expected.quarantine,
            seats: Mutex::default(),
        }
    }

    /// Notes which server a node is, or tells which other node is the same.
    pub fn meet(
        &self,
        node: usize,
        shown: &str,
        run: Option<&str>,
        now: Instant,
    ) -> Result<(), String> {
        let mut seats = self.seats(now);
        let own = seats.iter().find(|s| s.node == node && s.left.is_none());
        if run.is_some() && own.is_some_and(|s| s.run.as_deref() == run) {
            return Ok(());
        }
        leave(&mut seats, node, now);
        refuse_twice(&seats, node, |s| run.is_some() && s.run.as_deref() == run)?;
        seats.push(RosterEntry {
            node,
            shown: shown.to_owned(),
            run: run.map(str::to_owned),
            name: None,
            left: None,
        });
        Ok(())
    }

    /// Notes the record that a node is admitted with, or tells which other node
    /// has it.
    pub fn admit(&self, node: usize, record: &str, now: Instant) -> Result<(), String> {
        let Some(record) = Record::parse(record) else {
            return Ok(());
        };
        let name = Some(record.node().to_owned());
        let mut seats = self.seats(now);
        if let Err(twice) = refuse_twice(&seats, node, |s| s.name == name) {
            leave(&mut seats, node, now);
            return Err(twice);
        }
        // The server is back in its own seat.
        seats.retain(|s| s.node != node || s.left.is_none() || s.name != name);
        let own = |s: &&mut RosterEntry| s.node == node && s.left.is_none();
        if let Some(seat) = seats.iter_mut().find(own) {
            seat.name = name;
        }
        Ok(())
    }

    /// What is known at `now`.
    fn seats(&self, now: Instant) -> MutexGuard<'_, Vec<RosterEntry>> {
        let mut seats = lock(&self.seats);
        seats.retain(|s| s.left.is_none_or(|left| now < left + self.memory));
        seats
    }
}

/// Empties the node's seat. A server that was never admitted gave no votes, so it is forgotten.
fn leave(seats: &mut Vec<RosterEntry>, node: usize, now: Instant) {
    let sits = |s: &RosterEntry| s.node == node && s.left.is_none();
    seats.retain(|s| !sits(s) || s.name.is_some());
    if let Some(seat) = seats.iter_mut().find(|s| sits(s)) {
        seat.left = Some(now);
    }
}

fn refuse_twice(
    seats: &[RosterEntry],
    node: usize,
    same: impl Fn(&RosterEntry) -> bool,
) -> Result<(), String> {
    match seats.iter().find(|s| s.node != node && same(s)) {
        None => Ok(()),
        Some(other) => Err(format!(
            "it is the same server as {}: each node must be a server of its own",
            other.shown
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(1_000);

    fn roster() -> Roster {
        Roster::new(&Expectation::new(
            "s",
            3,
            Duration::from_millis(9),
            0.01,
            true,
        ))
    }

    #[test]
    fn one_server_sits_once() {
        let roster = roster();
        roster.meet(0, "a", Some("r1"), NOW).unwrap();
        roster.meet(0, "a", Some("r1"), NOW).unwrap();
        let twice = roster.meet(1, "b", Some("r1"), NOW);
        assert!(twice.unwrap_err().contains("same server as a"));
        // The roster knows a server that does not tell its run by its record.
        roster.admit(0, "1 s 4 3 9 n1 r1 on", NOW).unwrap();
        roster.meet(1, "b", None, NOW).unwrap();
        assert!(roster.admit(1, "1 s 4 3 9 n1 - on", NOW).is_err());
        roster.meet(1, "b", Some("r2"), NOW).unwrap();
        roster.admit(1, "1 s 4 3 9 n2 r2 on", NOW).unwrap();
    }

    #[test]
    fn a_server_that_restarts_does_not_change_its_seat() {
        let roster = roster();
        roster.meet(0, "a", Some("r1"), NOW).unwrap();
        roster.admit(0, "1 s 4 3 9 n1 r1 on", NOW).unwrap();
        // The server is listed twice, and was met at the other place first.
        roster.meet(1, "b", Some("r2"), NOW).unwrap();
        assert!(roster.meet(0, "a", Some("r2"), NOW).is_err());
        let twice = roster.admit(1, "1 s 4 3 9 n1 r2 on", NOW);
        assert!(twice.unwrap_err().contains("same server as a"));
        roster.meet(0, "a", Some("r2"), NOW).unwrap();
        roster.admit(0, "1 s 4 3 9 n1 r2 on", NOW).unwrap();
        assert!(roster.meet(1, "b", Some("r2"), NOW).is_err());
    }

    #[test]
    fn servers_change_seats_once_their_votes_are_over() {
        let roster = roster();
        let memory = roster.memory;
        let record = |name: &str| format!("1 s 4 3 9 {name} - on");
        for (node, run) in ["r0", "r1"].into_iter().enumerate() {
            roster.meet(node, "a", Some(run), NOW).unwrap();
            roster
                .admit(node, &record(&format!("n{node}")), NOW)
                .unwrap();
        }
        for moment in [NOW, NOW + memory - Duration::from_nanos(1)] {
            assert!(roster.meet(0, "a", Some("r1"), moment).is_err());
            assert!(roster.meet(1, "a", Some("r0"), moment).is_err());
        }
        roster.meet(0, "a", Some("r1"), NOW + memory).unwrap();
        roster.admit(0, &record("n1"), NOW + memory).unwrap();
        roster.meet(1, "a", Some("r0"), NOW + memory).unwrap();
        roster.admit(1, &record("n0"), NOW + memory).unwrap();
    }
}
