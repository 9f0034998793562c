//! Which finding follows from what was seen of a node.

use std::time::Duration;

use super::crowded::{FLOOD, crowded};
use super::stopped::{REFUSALS, of_stop};
use crate::node::redis::connect::{Diagnosis, Obstacle};
use crate::node::redis::server_error::fault_of;

#[test]
fn what_ends_soon_is_told_before() {
    let ids = |change: &dyn Fn(&mut Diagnosis)| -> Vec<&str> {
        let mut looked = Diagnosis::default();
        change(&mut looked);
        crowded(&looked).iter().map(|found| found.id).collect()
    };
    assert!(ids(&|_| {}).is_empty());
    for (used, most, expected) in [(79, 100, &[][..]), (80, 100, &["QD39"]), (9, 0, &[])] {
        let full = |looked: &mut Diagnosis| {
            (looked.server.memory_used, looked.server.memory_limit) = (Some(used), Some(most));
        };
        assert_eq!(ids(&full), expected, "{used} of {most}");
        let crowd = |looked: &mut Diagnosis| looked.census.clients = Some((used, most));
        let expected: Vec<_> = expected.iter().map(|_| "QD40").collect();
        assert_eq!(ids(&crowd), expected, "{used} of {most}");
    }
    let told = Duration::from_secs(86_400 * 20_000);
    for (days, expected) in [(13, vec!["QD41"]), (15, vec![]), (0, vec!["QD41"])] {
        let until = told + Duration::from_secs(86_400 * days);
        let ends = |looked: &mut Diagnosis| {
            looked.told = Some(told.as_micros() as u64);
            looked.certificate_expires = Some(until.as_secs());
        };
        assert_eq!(ids(&ends), expected);
    }
    for (rate, expected) in [(FLOOD - 1, vec![]), (FLOOD, vec!["QD42"])] {
        let floods = |looked: &mut Diagnosis| looked.census.busiest = Some(("web".into(), rate));
        assert_eq!(ids(&floods), expected);
    }
}

/// Each error that a server can give to a vote is found as what it is, in its own words.
#[test]
fn each_refusal_of_a_vote_has_its_finding() {
    const WORDS: [(&str, &str); 9] = [
        ("OOM", "QD30"),
        ("MISCONF", "QD31"),
        ("NOREPLICAS", "QD32"),
        ("BUSY", "QD33"),
        ("ERR max number of clients", "QD34"),
        ("DENIED", "QD35"),
        ("LOADING", "QD36"),
        ("MASTERDOWN", "QD36"),
        ("READONLY", "QD06"),
    ];
    let errors = include_str!("../../node/redis/errors.txt");
    let mut ids = std::collections::BTreeSet::new();
    for line in errors
        .lines()
        .filter_map(|line| line.strip_prefix("node -"))
    {
        let (code, detail) = line.split_once(' ').unwrap();
        let fault = fault_of(code, Some(detail));
        let named = fault
            .clone()
            .with_text(format!("the server a:1: {}", fault.text));
        let found =
            [fault, named].map(|fault| of_stop(&Obstacle::NoVote(fault), &Diagnosis::default()));
        assert_eq!(found[0].id, found[1].id, "{line}");
        let own = WORDS.iter().find(|(word, _)| line.contains(word));
        // Elsewhere the words of others say that it may be one of these.
        let expected = own.map_or("QD38", |(_, id)| *id);
        assert_eq!(found[0].id, expected, "{line}");
        ids.insert(found[0].id);
    }
    let all = REFUSALS.iter().map(|(_, id, _)| *id).chain(["QD38"]);
    assert_eq!(ids, all.filter(|id| *id != "QD37").collect());
}
