//! Which node may vote: its record, its identity, and what it says of itself.
//! The decisions are pure; [`connect`](super::connect) carries them out.
//!
//! Each node stores a *record* of the set that it belongs to, with the
//! `run_id` that it had when the record was written. A record that is missing
//! or of another run means that the node may have lost votes that it gave: it
//! gets a new record and a *quarantine*, a key that lives as long as any vote
//! may, and gives no new vote meanwhile. This is the "delayed restart" of the
//! Redlock specification, carried out by clients in place of an operator.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::clock::{Clock, Instant};
use crate::sync::lock;
use crate::token::Rng;

/// The protocol of docs/PROTOCOL.md.
pub const PROTOCOL: u32 = 1;
/// Stands for a run that is not known.
const NO_RUN: &str = "-";

/// What a client expects of every node of its set.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The set's name.
    pub set_name: String,
    /// How many nodes it has.
    pub nodes: usize,
    /// The longest ttl of its locks, in ms.
    pub max_ttl: u64,
    /// Whether restarts are guarded.
    pub guard: bool,
}

/// What the connections of a client need to admit nodes.
pub(crate) struct Gate {
    pub(crate) expected: Expected,
    /// Whether servers may serve that drop keys when they are full.
    pub(crate) accept_eviction: bool,
    /// How long a quarantine lasts: as long as any vote given before may.
    pub(crate) quarantine: Duration,
    pub(crate) record_key: Arc<[u8]>,
    pub(crate) quarantine_key: Arc<[u8]>,
    /// A key to try permissions on.
    pub(crate) scratch_key: Arc<[u8]>,
    /// The name of the client's inbox.
    pub(crate) inbox: Arc<[u8]>,
    /// It was said that messages do not get through.
    pub(crate) told_deaf: AtomicBool,
    pub(crate) roster: Roster,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rng: Arc<dyn Rng>,
    pub(crate) warn: fn(String),
}

/// A node's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    set_name: String,
    epoch: u64,
    nodes: usize,
    max_ttl: u64,
    node: String,
    run: String,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{PROTOCOL} {} {} {} {} {} {}",
            self.set_name, self.epoch, self.nodes, self.max_ttl, self.node, self.run
        )
    }
}

impl Record {
    fn parse(text: &str) -> Option<Record> {
        let mut words = text.split(' ');
        if words.next()? != PROTOCOL.to_string() {
            return None;
        }
        let record = Record {
            set_name: words.next()?.to_owned(),
            epoch: words.next()?.parse().ok()?,
            nodes: words.next()?.parse().ok()?,
            max_ttl: words.next()?.parse().ok()?,
            node: words.next()?.to_owned(),
            run: words.next()?.to_owned(),
        };
        words.next().is_none().then_some(record)
    }

    /// The id of the node whose record this text is.
    pub(crate) fn node_of(text: &str) -> Option<String> {
        Record::parse(text).map(|record| record.node)
    }

    /// The record of a node of a new set.
    pub fn new(expected: &Expected, node: &str, run: Option<&str>) -> Record {
        Record {
            set_name: expected.set_name.clone(),
            epoch: 1,
            nodes: expected.nodes,
            max_ttl: expected.max_ttl,
            node: node.to_owned(),
            // Written without a guard, a record vouches for no run: to a
            // client with one the node is as good as restarted.
            run: run.filter(|_| expected.guard).unwrap_or(NO_RUN).to_owned(),
        }
    }
}

/// What to do about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may vote: its record is this one.
    Admit,
    /// Replace its record by this one, with a quarantine or without.
    Write {
        /// The new record.
        record: Record,
        /// Whether the node may have lost its memory.
        quarantine: bool,
    },
    /// It is no node of this set; why.
    Refuse(String),
}

/// As much of a `run_id` as a record holds.
pub(crate) fn beginning(run: &str) -> &str {
    run.get(..16).unwrap_or(run)
}

/// Decides on a node that holds the record `stored` in its run `run` (`None`:
/// the server does not tell). `epoch` is what other nodes of the set say;
/// `fresh` names the node if it has no name yet.
pub fn decide(
    expected: &Expected,
    stored: Option<&str>,
    run: Option<&str>,
    epoch: Option<u64>,
    fresh: &str,
) -> Decision {
    let run = run.map(beginning);
    let Some(text) = stored else {
        let mut record = Record::new(expected, fresh, run);
        record.epoch = epoch.unwrap_or(1);
        return Decision::Write {
            record,
            quarantine: expected.guard,
        };
    };
    let Some(record) = Record::parse(text) else {
        return Decision::Refuse(format!(
            "its record is `{}`: not one of protocol {PROTOCOL}, which this client speaks",
            text.chars().take(80).collect::<String>().escape_debug()
        ));
    };
    if record.set_name != expected.set_name {
        return Decision::Refuse(format!(
            "it belongs to the set `{}`, this client's is `{}`",
            record.set_name, expected.set_name
        ));
    }
    if record.nodes != expected.nodes {
        return Decision::Refuse(format!(
            "it belongs to a set of {} nodes, this client lists {}",
            record.nodes, expected.nodes
        ));
    }
    if let Some(epoch) = epoch.filter(|epoch| *epoch != record.epoch) {
        return Decision::Refuse(format!(
            "its record is of epoch {}, those of other nodes of epoch {epoch}",
            record.epoch
        ));
    }
    if !expected.guard {
        return Decision::Admit;
    }
    let same_run = run.is_none_or(|run| run == record.run);
    if !same_run {
        let record = Record {
            max_ttl: record.max_ttl.max(expected.max_ttl),
            run: run.unwrap_or(NO_RUN).to_owned(),
            ..record
        };
        return Decision::Write {
            record,
            quarantine: true,
        };
    }
    if record.max_ttl != expected.max_ttl {
        return Decision::Refuse(format!(
            "its set has a max_ttl of {} ms, this client's is {} ms: give every client of the set \
             the same",
            record.max_ttl, expected.max_ttl
        ));
    }
    Decision::Admit
}

/// What a server's `INFO` says, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Random, made when the server starts.
    pub run_id: Option<String>,
    version: String,
    /// `host:port` of its master, for a replica.
    master: Option<String>,
    /// What it drops when it is full; `None` if it has no bound or drops
    /// nothing.
    eviction: Option<String>,
}

impl Info {
    /// Reads the text of `INFO`.
    pub fn parse(text: &str) -> Info {
        let get = |name: &str| {
            text.lines()
                .filter_map(|line| line.trim_end().split_once(':'))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.to_owned())
        };
        let replica = get("role").is_some_and(|role| role != "master");
        let bounded = get("maxmemory").is_some_and(|bytes| bytes != "0");
        Info {
            // One of another kind would not fit into a record.
            run_id: get("run_id")
                .filter(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric())),
            version: get("redis_version").unwrap_or_default(),
            master: replica.then(|| {
                let host = get("master_host").unwrap_or_else(|| "?".into());
                format!("{host}:{}", get("master_port").unwrap_or_default())
            }),
            eviction: get("maxmemory_policy").filter(|p| bounded && p != "noeviction"),
        }
    }

    /// Why a server like this cannot be a node.
    pub fn unfit(&self, accept_eviction: bool) -> Option<String> {
        let mut version = self.version.split('.').map_while(|n| n.parse::<u32>().ok());
        let (major, minor) = (version.next(), version.next().unwrap_or(0));
        if major.is_some_and(|major| (major, minor) < (6, 2)) {
            return Some(format!(
                "it is Redis {}; 6.2 or later is needed",
                self.version
            ));
        }
        if let Some(master) = &self.master {
            return Some(format!(
                "it is a replica of {master}: only masters may vote"
            ));
        }
        match &self.eviction {
            Some(policy) if !accept_eviction => Some(format!(
                "its maxmemory_policy is {policy}, which may drop locks: set it to noeviction, or \
                 accept it with accept_eviction"
            )),
            _ => None,
        }
    }
}

/// Who sits where: what the connections of a client know of each other's
/// nodes.
///
/// A server that has left its seat is remembered for as long as a vote that it
/// gave there may stand: in another seat it would vote twice for one token.
#[derive(Debug)]
pub struct Roster {
    memory: Duration,
    seats: Mutex<Vec<Seat>>,
}

#[derive(Clone, Debug)]
struct Seat {
    node: usize,
    shown: String,
    run: Option<String>,
    /// From its record, once it is admitted.
    name: Option<String>,
    epoch: Option<u64>,
    /// Since when another server sits there, or none.
    left: Option<Instant>,
}

impl Roster {
    /// A roster that remembers for so long.
    pub fn new(memory: Duration) -> Roster {
        Roster {
            memory,
            seats: Mutex::default(),
        }
    }

    /// The epoch that nodes other than `node` are of.
    pub fn epoch(&self, node: usize) -> Option<u64> {
        let seats = lock(&self.seats);
        let others = seats.iter().filter(|s| s.node != node && s.left.is_none());
        others.filter_map(|s| s.epoch).next()
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
        seats.push(Seat {
            node,
            shown: shown.to_owned(),
            run: run.map(str::to_owned),
            name: None,
            epoch: None,
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
        let name = Some(record.node);
        let mut seats = self.seats(now);
        if let Err(twice) = refuse_twice(&seats, node, |s| s.name == name) {
            leave(&mut seats, node, now);
            return Err(twice);
        }
        // It is back.
        seats.retain(|s| s.node != node || s.left.is_none() || s.name != name);
        let own = |s: &&mut Seat| s.node == node && s.left.is_none();
        if let Some(seat) = seats.iter_mut().find(own) {
            (seat.name, seat.epoch) = (name, Some(record.epoch));
        }
        Ok(())
    }

    /// What is known at `now`.
    fn seats(&self, now: Instant) -> MutexGuard<'_, Vec<Seat>> {
        let mut seats = lock(&self.seats);
        seats.retain(|s| s.left.is_none_or(|left| now < left + self.memory));
        seats
    }
}

/// The node's seat is empty. One that was never admitted gave no votes.
fn leave(seats: &mut Vec<Seat>, node: usize, now: Instant) {
    let sits = |s: &Seat| s.node == node && s.left.is_none();
    seats.retain(|s| !sits(s) || s.name.is_some());
    if let Some(seat) = seats.iter_mut().find(|s| sits(s)) {
        seat.left = Some(now);
    }
}

fn refuse_twice(seats: &[Seat], node: usize, same: impl Fn(&Seat) -> bool) -> Result<(), String> {
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

    fn expected() -> Expected {
        Expected {
            set_name: "s".into(),
            nodes: 3,
            max_ttl: 60_000,
            guard: true,
        }
    }

    fn write(decision: Decision) -> (String, bool) {
        match decision {
            Decision::Write { record, quarantine } => (record.to_string(), quarantine),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_node_without_record_is_in_quarantine_first() {
        let e = expected();
        let (record, quarantine) = write(decide(&e, None, Some("r1"), None, "n1"));
        assert_eq!((&*record, quarantine), ("1 s 1 3 60000 n1 r1", true));
        assert_eq!(
            decide(&e, Some(&record), Some("r1"), Some(1), "x"),
            Decision::Admit
        );
        // Another run: the same node, in quarantine again.
        let (next, quarantine) = write(decide(&e, Some(&record), Some("r2"), None, "x"));
        assert_eq!((&*next, quarantine), ("1 s 1 3 60000 n1 r2", true));
        // A server that does not tell its run is known by its record alone.
        assert_eq!(decide(&e, Some(&record), None, None, "x"), Decision::Admit);
    }

    #[test]
    fn without_guard_a_record_vouches_for_no_run() {
        let e = Expected {
            guard: false,
            ..expected()
        };
        let (record, quarantine) = write(decide(&e, None, Some("r1"), None, "n1"));
        assert_eq!((&*record, quarantine), ("1 s 1 3 60000 n1 -", false));
        assert_eq!(
            decide(&e, Some(&record), Some("r9"), None, "x"),
            Decision::Admit
        );
        assert!(write(decide(&expected(), Some(&record), Some("r1"), None, "x")).1);
    }

    #[test]
    fn identity_is_checked_with_guard_and_without() {
        for guard in [true, false] {
            let e = Expected {
                guard,
                ..expected()
            };
            for (record, word) in [
                ("1 t 1 3 60000 n r", "set `t`"),
                ("1 s 1 5 60000 n r", "5 nodes"),
                ("1 s 2 3 60000 n r", "epoch 2"),
                ("2 s 1 3 60000 n r", "protocol 1"),
                ("nonsense", "protocol 1"),
            ] {
                match decide(&e, Some(record), Some("r"), Some(1), "x") {
                    Decision::Refuse(why) => assert!(why.contains(word), "{why}"),
                    other => panic!("{record}: {other:?}"),
                }
            }
        }
        let other = decide(&expected(), Some("1 s 1 3 500 n r"), Some("r"), None, "x");
        assert!(matches!(other, Decision::Refuse(why) if why.contains("500 ms")));
    }

    const NOW: Instant = Instant(1_000);
    const MEMORY: Duration = Duration::from_nanos(100);

    #[test]
    fn one_server_sits_once() {
        let roster = Roster::new(MEMORY);
        assert_eq!(roster.epoch(0), None);
        roster.meet(0, "a", Some("r1"), NOW).unwrap();
        roster.meet(0, "a", Some("r1"), NOW).unwrap();
        let twice = roster.meet(1, "b", Some("r1"), NOW);
        assert!(twice.unwrap_err().contains("same server as a"));
        // A server that does not tell its run shows by its record.
        roster.admit(0, "1 s 4 3 9 n1 r1", NOW).unwrap();
        roster.meet(1, "b", None, NOW).unwrap();
        assert_eq!((roster.epoch(0), roster.epoch(1)), (None, Some(4)));
        assert!(roster.admit(1, "1 s 4 3 9 n1 -", NOW).is_err());
        roster.meet(1, "b", Some("r2"), NOW).unwrap();
        roster.admit(1, "1 s 4 3 9 n2 r2", NOW).unwrap();
        assert_eq!(roster.epoch(0), Some(4));
    }

    #[test]
    fn a_server_that_restarts_does_not_change_its_seat() {
        let roster = Roster::new(MEMORY);
        roster.meet(0, "a", Some("r1"), NOW).unwrap();
        roster.admit(0, "1 s 4 3 9 n1 r1", NOW).unwrap();
        // Listed twice, and met at the other place first.
        roster.meet(1, "b", Some("r2"), NOW).unwrap();
        assert!(roster.meet(0, "a", Some("r2"), NOW).is_err());
        let twice = roster.admit(1, "1 s 4 3 9 n1 r2", NOW);
        assert!(twice.unwrap_err().contains("same server as a"));
        roster.meet(0, "a", Some("r2"), NOW).unwrap();
        roster.admit(0, "1 s 4 3 9 n1 r2", NOW).unwrap();
        assert!(roster.meet(1, "b", Some("r2"), NOW).is_err());
    }

    #[test]
    fn servers_change_seats_once_their_votes_are_over() {
        let roster = Roster::new(MEMORY);
        let record = |name: &str| format!("1 s 4 3 9 {name} -");
        for (node, run) in ["r0", "r1"].into_iter().enumerate() {
            roster.meet(node, "a", Some(run), NOW).unwrap();
            roster
                .admit(node, &record(&format!("n{node}")), NOW)
                .unwrap();
        }
        for moment in [NOW, NOW + MEMORY - Duration::from_nanos(1)] {
            assert!(roster.meet(0, "a", Some("r1"), moment).is_err());
            assert!(roster.meet(1, "a", Some("r0"), moment).is_err());
        }
        roster.meet(0, "a", Some("r1"), NOW + MEMORY).unwrap();
        roster.admit(0, &record("n1"), NOW + MEMORY).unwrap();
        roster.meet(1, "a", Some("r0"), NOW + MEMORY).unwrap();
        roster.admit(1, &record("n0"), NOW + MEMORY).unwrap();
    }

    #[test]
    fn unfit_servers_are_told_apart() {
        let info = |text: &str| Info::parse(&text.replace('\n', "\r\n"));
        let good = "redis_version:7.0.15\nrun_id:ab\nrole:master\nmaxmemory:0\nmaxmemory_policy:allkeys-lru\n";
        assert_eq!(info(good).unfit(false), None);
        assert_eq!(info(good).run_id.as_deref(), Some("ab"));
        for strange in ["run_id:", "run_id:a b", "run_id:ééééééééé"] {
            assert_eq!(info(&good.replace("run_id:ab", strange)).run_id, None);
        }
        for (old, new, word) in [
            ("7.0.15", "6.0.9", "6.2 or later"),
            (
                "role:master",
                "role:slave\nmaster_host:h\nmaster_port:1",
                "replica of h:1",
            ),
            ("maxmemory:0", "maxmemory:100", "allkeys-lru"),
        ] {
            let why = info(&good.replace(old, new)).unfit(false).unwrap();
            assert!(why.contains(word), "{why}");
        }
        assert_eq!(
            info(&good.replace("maxmemory:0", "maxmemory:9")).unfit(true),
            None
        );
    }
}
