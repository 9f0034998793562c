use std::time::Duration;

use super::*;
use crate::node::admission::{Newness, Refusal};
use proptest::prelude::*;

const LEFT: Duration = Duration::from_secs(7);

fn expected(nodes: usize) -> Expectation {
    Expectation::new("s", nodes, Duration::from_secs(60), 0.01, true)
}

fn survey(expected: &Expectation) -> Survey {
    let name = |i: usize| (format!("node{i}").into(), false);
    Survey::new(expected.clone(), (0..expected.nodes).map(name).collect())
}

fn look(stored: &str) -> Observation {
    Observation {
        stored: (!stored.is_empty()).then(|| stored.to_owned()),
        run: Some("r".into()),
        newness: Newness::New,
        voted: false,
        stepped: false,
    }
}

fn blank(newness: Newness) -> Observation {
    Observation {
        newness,
        ..look("")
    }
}

/// What is written in the end, and for how long the node is in quarantine.
fn written(next: Admission) -> (String, Duration) {
    match next {
        Admission::Write(record, quarantine) => (record.to_string(), quarantine),
        other => panic!("{other:?}"),
    }
}

/// The whole way of a set of three blank nodes; returns their quarantines.
fn found(expected: &Expectation, newness: [Newness; 3]) -> [Duration; 3] {
    let survey = survey(expected);
    assert_eq!(survey.look(0, &blank(newness[0]), "a"), Admission::Wait);
    assert_eq!(survey.look(1, &blank(newness[1]), "b"), Admission::Wait);
    let mut looks = newness.map(blank);
    let quarantines = [2, 0, 1].map(|node| {
        let (pledge, quarantine) = written(survey.look(node, &looks[node], "n"));
        assert_eq!(pledge, "1 s 0 3 60000 n r on");
        looks[node].stored = Some(pledge);
        if node != 1 {
            assert_eq!(survey.look(node, &looks[node], "x"), Admission::Wait);
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
        assert_eq!(survey.look(node, &looks[node], "x"), Admission::Admit);
        assert!(survey.is_ours(node));
    }
    let new = expected.declares && !newness.contains(&Newness::Used);
    let young = new && newness.contains(&Newness::Young(LEFT));
    assert_eq!(survey.is_young(), young);
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
    let said = Expectation {
        declares: false,
        ..e
    };
    assert_eq!(found(&said, [New; 3]), full);
}

#[test]
fn a_node_of_this_process_has_lost_nothing_and_costs_no_quarantine() {
    let e = expected(2);
    for (newness, quarantine) in [
        (Newness::New, Duration::ZERO),
        (Newness::Used, e.quarantine),
    ] {
        let name = |i: usize| (format!("node{i}").into(), i == 1);
        let survey = Survey::new(e.clone(), (0..2).map(name).collect());
        assert!(survey.is_ours(1));
        let pledge = ("1 s 0 2 60000 n r on".to_owned(), quarantine);
        assert_eq!(written(survey.look(0, &blank(newness), "n")), pledge);
    }
}

/// The pledge was written late: the set was founded meanwhile, and the server has lost its data.
#[test]
fn a_pledge_on_a_server_that_may_have_voted_is_raised_with_a_quarantine() {
    let e = expected(3);
    let pledge = "1 s 0 3 60000 n r on";
    for others in [pledge, "1 s 1 3 60000 n r on"] {
        for (voted, quarantine) in [(false, Duration::ZERO), (true, e.quarantine)] {
            let survey = survey(&e);
            survey.look(0, &look(others), "x");
            survey.look(1, &look(others), "x");
            let look = Observation {
                voted,
                ..look(pledge)
            };
            let raised = ("1 s 1 3 60000 n r on".to_owned(), quarantine);
            assert_eq!(written(survey.look(2, &look, "x")), raised, "{others}");
        }
    }
}

#[test]
fn what_a_node_shows_anew_is_a_change_and_the_same_again_is_none() {
    let survey = survey(&expected(3));
    for (stored, changes, ours) in [
        ("", 1, false),
        ("", 1, false),
        ("1 s 1 3 60000 n r on", 2, true),
        ("1 s 1 3 60000 n r on", 2, true),
        ("", 3, false),
    ] {
        survey.look(0, &look(stored), "a");
        assert_eq!((survey.changes(), survey.is_ours(0)), (changes, ours));
        assert!(!survey.is_ours(1));
    }
}

#[test]
fn nothing_is_written_before_all_nodes_have_answered() {
    let survey = survey(&expected(3));
    survey.absent(2);
    assert_eq!(survey.look(0, &look(""), "n"), Admission::Wait);
    let why = survey.waits_for(0).unwrap();
    assert!(
        why.contains("founded once") && why.contains("node1, node2"),
        "{why}"
    );
    for node in [1, 0] {
        let next = survey.look(node, &look(""), "n");
        let Admission::Refuse(Refusal::Unfounded(why)) = next else {
            panic!("{next:?}")
        };
        assert!(why.ends_with("no answer of node2"), "{why}");
    }
}

#[test]
fn nothing_is_written_beside_a_foreign_record() {
    let survey = survey(&expected(3));
    let next = survey.look(0, &look("1 s 1 1 60000 n r on"), "n");
    let Admission::Refuse(Refusal::Foreign(why)) = next else {
        panic!("{next:?}")
    };
    for words in [
        "`1 s 1 1 60000 n r on`",
        "`1 s 1 3 60000 * * on`",
        "explain sets",
    ] {
        assert!(why.contains(words), "{why}");
    }
    for node in [1, 2, 1] {
        let next = survey.look(node, &look(""), "n");
        assert!(
            matches!(&next, Admission::Refuse(Refusal::Unfounded(why)) if why.contains("node0")),
            "{next:?}"
        );
    }
    // An unreachable node counts as what it was; a node with the set's own record counts as
    // founded.
    survey.absent(0);
    assert!(matches!(
        survey.look(1, &look(""), "n"),
        Admission::Refuse(_)
    ));
    assert_eq!(
        survey.look(0, &look("1 s 1 3 60000 n r on"), "n"),
        Admission::Admit
    );
    assert!(!written(survey.look(1, &look(""), "n")).1.is_zero());
}

#[test]
fn a_node_that_lost_its_record_is_given_it_with_a_quarantine() {
    let e = expected(3);
    let survey = survey(&e);
    assert_eq!(survey.look(1, &look(""), "n"), Admission::Wait);
    assert_eq!(
        survey.look(2, &look("1 s 4 3 60000 n r on"), "x"),
        Admission::Admit
    );
    let (record, quarantine) = written(survey.look(1, &look(""), "n"));
    assert_eq!(
        (&*record, quarantine),
        ("1 s 4 3 60000 n r on", e.quarantine)
    );
    // A record of an earlier or later epoch is of another set.
    let other = survey.look(0, &look("1 s 3 3 60000 n r on"), "x");
    assert!(matches!(other, Admission::Refuse(Refusal::Foreign(why)) if why.contains("epoch 3")));
}

#[test]
fn what_may_have_been_lost_is_told_by_run_guard_and_clock() {
    let e = expected(3);
    let off = Expectation {
        guard: false,
        ..e.clone()
    };
    let next = |e: &Expectation, stored: &str, run: Option<&str>, stepped| {
        let look = Observation {
            run: run.map(str::to_owned),
            stepped,
            ..look(stored)
        };
        survey(e).look(0, &look, "x")
    };
    let on = "1 s 1 3 60000 n r on";
    let again = (on.to_owned(), e.quarantine);
    assert_eq!(next(&e, on, Some("r"), false), Admission::Admit);
    assert_eq!(next(&e, on, None, false), Admission::Admit);
    assert_eq!(written(next(&e, on, Some("r"), true)), again);
    let other = ("1 s 1 3 60000 n q on".to_owned(), e.quarantine);
    assert_eq!(written(next(&e, on, Some("q"), false)), other);
    // A client raises a record's guard, and never lowers it.
    let none = "1 s 1 3 60000 n - off";
    assert_eq!(written(next(&e, none, Some("r"), false)), again);
    assert_eq!(next(&off, none, Some("r"), false), Admission::Admit);
    let lower = next(&off, on, Some("r"), false);
    assert!(matches!(lower, Admission::Refuse(Refusal::Foreign(why)) if why.contains("guard")));
}

#[test]
fn identity_is_checked_with_guard_and_without() {
    for guard in [true, false] {
        let e = Expectation {
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
            // The record counts in whatever run it was written.
            for run in ["r", "q"] {
                let look = Observation {
                    run: Some(run.into()),
                    ..look(record)
                };
                match survey(&e).look(0, &look, "x") {
                    Admission::Refuse(Refusal::Foreign(why)) => {
                        assert!(why.contains(word), "{why}")
                    }
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
            if let Admission::Write(record, _) = survey.look(node, &look(&stored), "n") {
                // The script writes only if the record is still the one that was read.
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
