//! What the nodes of a set have shown to one client, and what follows for each
//! of them. Pure, but for the lock around it.
//!
//! A set is *founded* once, by all its nodes: while any of them is not known,
//! or belongs elsewhere, nothing is written on the others. Two clients with
//! different lists may find the same servers empty at the same moment, so
//! founding takes two steps: each node is given a *pledge*, a record of epoch 0,
//! and only where all nodes hold the pledge of one set are they raised to epoch
//! 1 and may vote. A node has one record, so of two sets that share a node one
//! alone is founded.
//!
//! Later a node without a record has lost it, or is new in its place. It is
//! given one, with a quarantine, by a client that has seen this set's record on
//! another node and a foreign record on none.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use super::record::{FIRST, of_set};
use super::{Expected, Newness, Record};
use crate::mutants::mutant;
use crate::sync::{Watchers, lock};

/// What a client sees of a node on one connection.
#[derive(Clone, Debug)]
pub struct Look {
    /// The record that is stored there.
    pub stored: Option<String>,
    /// The server's run, as much of it as a record holds; `None` if it does not
    /// tell.
    pub run: Option<String>,
    /// What a node without a record, or with a pledge, may have lost.
    pub newness: Newness,
    /// Its clock has stepped forward while it was in quarantine, or may have
    /// been: the quarantine may have ended too early.
    pub stepped: bool,
}

/// What a node has shown last.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shown {
    /// Nothing, as yet.
    Unknown,
    /// It could not be reached, or does not serve, when it was tried last.
    Absent,
    /// No record.
    Blank(Newness),
    /// The pledge of this set.
    Pledged(Newness),
    /// This set's record, of that epoch.
    Ours(u64),
    /// A record of another set, or of this one on other terms.
    Foreign,
    /// It lives in this process and keeps no record.
    Apart,
}

/// What is to be done about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It may vote: its record is good as it is.
    Admit,
    /// Replace its record by this one, with a quarantine unless that is zero;
    /// then look again.
    Write(Record, Duration),
    /// What follows depends on other nodes that have yet to be seen: look again
    /// when one has [changed](Survey::poll_change).
    Wait,
    /// It may not vote; why.
    Refuse(Refusal),
}

/// Why a node may not vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its record is of another set, or on other terms.
    Foreign(String),
    /// It has no record, and cannot be given one now.
    Unfounded(String),
}

/// What the nodes of a set have shown. Shared by a client's connections.
#[derive(Debug)]
pub struct Survey {
    expected: Expected,
    /// The nodes as messages name them.
    names: Vec<Arc<str>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    shown: Vec<Shown>,
    /// Counts what has changed.
    changes: u64,
    watchers: Watchers,
    /// Why the nodes wait that do.
    waits: Vec<Option<String>>,
    /// A node was given its record when its server was too young, and no more.
    young: bool,
}

impl Survey {
    /// Nothing is known. `names`: of the nodes, as messages have them, and
    /// whether each lives in this process.
    pub fn new(expected: Expected, names: Vec<(Arc<str>, bool)>) -> Survey {
        let shown = |(_, apart): &(_, bool)| match apart {
            true => Shown::Apart,
            false => Shown::Unknown,
        };
        Survey {
            state: Mutex::new(State {
                shown: names.iter().map(shown).collect(),
                changes: 0,
                watchers: Watchers::default(),
                waits: vec![None; names.len()],
                young: false,
            }),
            names: names.into_iter().map(|(name, _)| name).collect(),
            expected,
        }
    }

    /// What the client expects of every node.
    pub fn expected(&self) -> &Expected {
        &self.expected
    }

    /// Notes what a node shows, and says what follows. `fresh` names the node if
    /// it has no name yet.
    pub fn look(&self, node: usize, look: &Look, fresh: &str) -> Next {
        let mut state = lock(&self.state);
        let (shown, record) = self.shown(&state, node, look);
        let changed = state.shown[node] != shown;
        state.shown[node] = shown;
        let next = match record {
            Err(why) => Next::Refuse(Refusal::Foreign(why)),
            Ok(record) => self.next(&mut state, node, look, record, fresh),
        };
        let wait = (next == Next::Wait).then(|| self.missing(&state));
        state.waits[node] = wait;
        state.changes += u64::from(changed);
        let watchers = if changed {
            state.watchers.take()
        } else {
            Default::default()
        };
        drop(state);
        watchers.wake();
        next
    }

    /// A node could not be reached, or does not serve. What it has shown of a
    /// record stays known.
    pub fn absent(&self, node: usize) {
        let mut state = lock(&self.state);
        if matches!(state.shown[node], Shown::Unknown | Shown::Blank(_)) {
            state.shown[node] = Shown::Absent;
            state.changes += 1;
        }
        let watchers = state.watchers.take();
        drop(state);
        watchers.wake();
    }

    /// How often something has changed.
    pub fn changes(&self) -> u64 {
        lock(&self.state).changes
    }

    /// Ready when more has changed than `seen` counts.
    pub(crate) fn poll_change(
        &self,
        seen: u64,
        place: &mut Option<u64>,
        cx: &Context<'_>,
    ) -> Poll<()> {
        let mut state = lock(&self.state);
        if state.changes != seen {
            return Poll::Ready(());
        }
        state.watchers.park(place, cx)
    }

    /// The node's connection waits no longer; gives back its place of
    /// [`poll_change`](Survey::poll_change).
    pub(crate) fn leave(&self, node: usize, place: Option<u64>) {
        let mut state = lock(&self.state);
        state.waits[node] = None;
        state.watchers.leave(place);
    }

    /// Why the connection to a node [waits](Next::Wait) that is being made.
    pub(crate) fn waits_for(&self, node: usize) -> Option<String> {
        lock(&self.state).waits[node].clone()
    }

    /// Whether the node has shown this set's record.
    pub fn is_ours(&self, node: usize) -> bool {
        matches!(lock(&self.state).shown[node], Shown::Ours(_) | Shown::Apart)
    }

    /// Whether the set was founded by this client, and wholly new but for servers
    /// that were too young.
    pub(crate) fn is_young(&self) -> bool {
        lock(&self.state).young
    }

    /// What a node's record is to this set, and the record.
    fn shown(
        &self,
        state: &State,
        node: usize,
        look: &Look,
    ) -> (Shown, Result<Option<Record>, String>) {
        let Some(text) = &look.stored else {
            return (Shown::Blank(look.newness), Ok(None));
        };
        match of_set(&self.expected, text, state.epoch(node)) {
            Ok(record) if record.is_pledge() => (Shown::Pledged(look.newness), Ok(Some(record))),
            Ok(record) => (Shown::Ours(record.epoch()), Ok(Some(record))),
            Err(why) => (Shown::Foreign, Err(why)),
        }
    }

    fn next(
        &self,
        state: &mut State,
        node: usize,
        look: &Look,
        record: Option<Record>,
        fresh: &str,
    ) -> Next {
        let (expected, run) = (&self.expected, look.run.as_deref());
        let guarded = |lost| match expected.guard && lost {
            true => expected.quarantine,
            false => Duration::ZERO,
        };
        if let Some(record) = record.clone().filter(|record| !record.is_pledge()) {
            let stepped = mutant!("step-ends-quarantine", look.stepped, false);
            let lost = record.is_of_before(run) || stepped;
            if !(expected.guard && lost) {
                return Next::Admit;
            }
            let epoch = record.epoch();
            return Next::Write(record.renewed(expected, epoch, run), guarded(true));
        }
        let others = || state.others(node);
        if let Some(foreign) = others().find(|other| *other.1 == Shown::Foreign)
            && mutant!("founds-beside-a-foreign-record", true, false)
        {
            return Next::Refuse(Refusal::Unfounded(format!(
                "it has no record, and is given none, for the node {} belongs to another set",
                self.names[foreign.0]
            )));
        }
        // The set stands: this node has lost its record, or is new in its place.
        if let Some(epoch) = state.epoch(node) {
            return match record {
                Some(pledge) => {
                    let lost = pledge.is_of_before(run);
                    Next::Write(pledge.renewed(expected, epoch, run), guarded(lost))
                }
                None => Next::Write(Record::new(expected, epoch, fresh, run), guarded(true)),
            };
        }
        let missing = |shown: &Shown| matches!(shown, Shown::Unknown | Shown::Absent);
        if mutant!(
            "founded-by-some",
            others().any(|other| missing(other.1)),
            others().filter(|other| missing(other.1)).count() > expected.nodes / 2
        ) {
            // Who is named as missing has been tried.
            return match others().any(|other| *other.1 == Shown::Unknown) {
                true => Next::Wait,
                false => Next::Refuse(Refusal::Unfounded(self.missing(state))),
            };
        }
        let Some(pledge) = record else {
            let newness = state.newness(expected, node);
            state.young |= matches!(newness, Newness::Young(_));
            let quarantine = match newness {
                Newness::New => Duration::ZERO,
                Newness::Young(left) => guarded(true).min(left),
                Newness::Used => guarded(true),
            };
            let pledge = Record::pledge(expected, fresh, run);
            return Next::Write(pledge, quarantine);
        };
        let open = others().any(|other| matches!(other.1, Shown::Blank(_)));
        if mutant!("founded-before-all-have-pledged", open, false) {
            return Next::Wait;
        }
        let lost = pledge.is_of_before(run);
        Next::Write(pledge.renewed(expected, FIRST, run), guarded(lost))
    }

    /// Why the set cannot be founded now.
    fn missing(&self, state: &State) -> String {
        let names = |wanted: fn(&Shown) -> bool| {
            let all = state.shown.iter().zip(&self.names);
            let of = all.filter(|(shown, _)| wanted(shown));
            of.map(|(_, name)| &**name).collect::<Vec<_>>().join(", ")
        };
        let missing = names(|shown| matches!(shown, Shown::Unknown | Shown::Absent));
        if missing.is_empty() {
            let blank = names(|shown| matches!(shown, Shown::Blank(_)));
            return format!("the set is being founded: {blank} has yet to take its record");
        }
        format!(
            "it has no record yet: a set is founded once, by all its nodes together, and this \
             client has no answer of {missing}"
        )
    }
}

impl State {
    fn others(&self, node: usize) -> impl Iterator<Item = (usize, &Shown)> {
        self.shown
            .iter()
            .enumerate()
            .filter(move |(i, _)| *i != node)
    }

    /// The epoch that nodes other than this are of.
    fn epoch(&self, node: usize) -> Option<u64> {
        self.others(node).find_map(|(_, shown)| match shown {
            Shown::Ours(epoch) => Some(*epoch),
            _ => None,
        })
    }

    /// What a node without a record may have lost, as one of a new set.
    fn newness(&self, expected: &Expected, node: usize) -> Newness {
        let lost_nothing = |shown: &Shown| match shown {
            Shown::Blank(newness) | Shown::Pledged(newness) => *newness != Newness::Used,
            _ => *shown == Shown::Apart,
        };
        let mut shown = self.shown.iter();
        let wholly_new = mutant!(
            "one-virgin-node-is-enough",
            shown.all(lost_nothing),
            shown.any(lost_nothing)
        );
        let place = mutant!("uptime-of-another-server", node, 0);
        match self.shown[place] {
            Shown::Blank(newness) | Shown::Pledged(newness) if expected.declares && wholly_new => {
                newness
            }
            _ => Newness::Used,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEFT: Duration = Duration::from_secs(7);

    fn expected(nodes: usize) -> Expected {
        Expected::new("s", nodes, Duration::from_secs(60), 0.01, true)
    }

    fn survey(expected: &Expected) -> Survey {
        let name = |i: usize| (format!("node{i}").into(), false);
        Survey::new(expected.clone(), (0..expected.nodes).map(name).collect())
    }

    fn look(stored: &str) -> Look {
        Look {
            stored: (!stored.is_empty()).then(|| stored.to_owned()),
            run: Some("r".into()),
            newness: Newness::New,
            stepped: false,
        }
    }

    fn blank(newness: Newness) -> Look {
        Look {
            newness,
            ..look("")
        }
    }

    /// What is written in the end, and for how long the node is in quarantine.
    fn written(next: Next) -> (String, Duration) {
        match next {
            Next::Write(record, quarantine) => (record.to_string(), quarantine),
            other => panic!("{other:?}"),
        }
    }

    /// The whole way of a set of three blank nodes; returns their quarantines.
    fn found(expected: &Expected, newness: [Newness; 3]) -> [Duration; 3] {
        let survey = survey(expected);
        assert_eq!(survey.look(0, &blank(newness[0]), "a"), Next::Wait);
        assert_eq!(survey.look(1, &blank(newness[1]), "b"), Next::Wait);
        let mut looks = newness.map(blank);
        let quarantines = [2, 0, 1].map(|node| {
            let (pledge, quarantine) = written(survey.look(node, &looks[node], "n"));
            assert_eq!(pledge, "1 s 0 3 60000 n r on");
            looks[node].stored = Some(pledge);
            if node != 1 {
                assert_eq!(survey.look(node, &looks[node], "x"), Next::Wait);
            }
            quarantine
        });
        for node in [1, 0, 2] {
            let (record, quarantine) = written(survey.look(node, &looks[node], "x"));
            assert_eq!(
                (&*record, quarantine),
                ("1 s 1 3 60000 n r on", Duration::ZERO)
            );
            looks[node].stored = Some(record);
            assert_eq!(survey.look(node, &looks[node], "x"), Next::Admit);
            assert!(survey.is_ours(node));
        }
        [quarantines[1], quarantines[2], quarantines[0]]
    }

    #[test]
    fn a_wholly_new_set_votes_at_once_and_any_other_after_a_quarantine() {
        use Newness::{New, Used, Young};
        let e = expected(3);
        let full = [e.quarantine; 3];
        assert_eq!(found(&e, [New; 3]), [Duration::ZERO; 3]);
        let young = [New, Young(LEFT), New];
        assert_eq!(found(&e, young), [Duration::ZERO, LEFT, Duration::ZERO]);
        assert_eq!(found(&e, [New, Young(LEFT), Used]), full);
        assert_eq!(found(&e, [Used, New, New]), full);
        let said = Expected {
            declares: false,
            ..e
        };
        assert_eq!(found(&said, [New; 3]), full);
    }

    #[test]
    fn nothing_is_written_before_all_nodes_have_answered() {
        let survey = survey(&expected(3));
        survey.absent(2);
        assert_eq!(survey.look(0, &look(""), "n"), Next::Wait);
        let why = survey.waits_for(0).unwrap();
        assert!(
            why.contains("founded once") && why.contains("node1, node2"),
            "{why}"
        );
        for node in [1, 0] {
            let next = survey.look(node, &look(""), "n");
            let Next::Refuse(Refusal::Unfounded(why)) = next else {
                panic!("{next:?}")
            };
            assert!(why.ends_with("no answer of node2"), "{why}");
        }
    }

    #[test]
    fn nothing_is_written_beside_a_foreign_record() {
        let survey = survey(&expected(3));
        let next = survey.look(0, &look("1 s 1 1 60000 n r on"), "n");
        let Next::Refuse(Refusal::Foreign(why)) = next else {
            panic!("{next:?}")
        };
        for words in [
            "`1 s 1 1 60000 n r on`",
            "`1 s 1 3 60000 * * on`",
            "docs/SETS.md",
        ] {
            assert!(why.contains(words), "{why}");
        }
        for node in [1, 2, 1] {
            let next = survey.look(node, &look(""), "n");
            assert!(
                matches!(&next, Next::Refuse(Refusal::Unfounded(why)) if why.contains("node0")),
                "{next:?}"
            );
        }
        // Unreachable it is what it was; with the set's own record it is one.
        survey.absent(0);
        assert!(matches!(survey.look(1, &look(""), "n"), Next::Refuse(_)));
        assert_eq!(
            survey.look(0, &look("1 s 1 3 60000 n r on"), "n"),
            Next::Admit
        );
        assert!(!written(survey.look(1, &look(""), "n")).1.is_zero());
    }

    #[test]
    fn a_node_that_lost_its_record_is_given_it_with_a_quarantine() {
        let e = expected(3);
        let survey = survey(&e);
        assert_eq!(survey.look(1, &look(""), "n"), Next::Wait);
        assert_eq!(
            survey.look(2, &look("1 s 4 3 60000 n r on"), "x"),
            Next::Admit
        );
        let (record, quarantine) = written(survey.look(1, &look(""), "n"));
        assert_eq!(
            (&*record, quarantine),
            ("1 s 4 3 60000 n r on", e.quarantine)
        );
        // An earlier or later epoch is another set.
        let other = survey.look(0, &look("1 s 3 3 60000 n r on"), "x");
        assert!(matches!(other, Next::Refuse(Refusal::Foreign(why)) if why.contains("epoch 3")));
    }

    #[test]
    fn what_may_have_been_lost_is_told_by_run_guard_and_clock() {
        let e = expected(3);
        let off = Expected {
            guard: false,
            ..e.clone()
        };
        let next = |e: &Expected, stored: &str, run: Option<&str>, stepped| {
            let look = Look {
                run: run.map(str::to_owned),
                stepped,
                ..look(stored)
            };
            survey(e).look(0, &look, "x")
        };
        let on = "1 s 1 3 60000 n r on";
        let again = (on.to_owned(), e.quarantine);
        assert_eq!(next(&e, on, Some("r"), false), Next::Admit);
        assert_eq!(next(&e, on, None, false), Next::Admit);
        assert_eq!(written(next(&e, on, Some("r"), true)), again);
        let other = ("1 s 1 3 60000 n q on".to_owned(), e.quarantine);
        assert_eq!(written(next(&e, on, Some("q"), false)), other);
        // A guard is raised, and never lowered.
        let none = "1 s 1 3 60000 n - off";
        assert_eq!(written(next(&e, none, Some("r"), false)), again);
        assert_eq!(next(&off, none, Some("r"), false), Next::Admit);
        let lower = next(&off, on, Some("r"), false);
        assert!(matches!(lower, Next::Refuse(Refusal::Foreign(why)) if why.contains("guard")));
    }

    #[test]
    fn identity_is_checked_with_guard_and_without() {
        for guard in [true, false] {
            let e = Expected {
                guard,
                ..expected(3)
            };
            for (record, word) in [
                ("1 t 1 3 60000 n r off", "set `t`"),
                ("1 s 1 5 60000 n r off", "5 nodes"),
                ("1 s 1 3 500 n r off", "500 ms"),
                ("2 s 1 3 60000 n r off", "protocol 1"),
                ("1 s 1 3 60000 n r", "protocol 1"),
                ("nonsense", "protocol 1"),
            ] {
                // In whatever run it was written.
                for run in ["r", "q"] {
                    let look = Look {
                        run: Some(run.into()),
                        ..look(record)
                    };
                    match survey(&e).look(0, &look, "x") {
                        Next::Refuse(Refusal::Foreign(why)) => assert!(why.contains(word), "{why}"),
                        other => panic!("{record}: {other:?}"),
                    }
                }
            }
        }
    }

    proptest! {
        /// Two clients with lists that share a server, which both find empty:
        /// whatever steps come in whatever order, one of their sets at most is
        /// founded.
        #[test]
        fn of_two_sets_that_share_a_node_one_is_founded(
            lists in (1usize..4, 1usize..4, 1usize..3),
            steps in proptest::collection::vec((any::<bool>(), 0usize..5, any::<bool>()), 0..120)
        ) {
            let (first, second, shared) = lists;
            prop_assume!(shared <= first && shared <= second && first != second);
            let mut servers = vec![String::new(); first + second - shared];
            // The second list begins in the middle of the first.
            let clients = [(0, first), (first - shared, second)].map(|(from, nodes)| {
                (from, survey(&expected(nodes)), vec![None::<String>; nodes])
            });
            let mut clients = clients;
            for (which, node, greets) in steps {
                let (from, survey, seen) = &mut clients[usize::from(which)];
                let node = node % seen.len();
                let server = &mut servers[*from + node];
                if greets || seen[node].is_none() {
                    seen[node] = Some(server.clone());
                }
                let stored = seen[node].clone().unwrap_or_default();
                if let Next::Write(record, _) = survey.look(node, &look(&stored), "n") {
                    // As the script does: only if it is still what was read.
                    if *server == stored {
                        *server = record.to_string();
                    }
                    seen[node] = Some(server.clone());
                }
            }
            let founded = |nodes: usize| {
                let mine = format!("1 s 1 {nodes} ");
                servers.iter().any(|server| server.starts_with(&mine))
            };
            prop_assert!(!(founded(first) && founded(second)), "{servers:?}");
        }
    }
}
