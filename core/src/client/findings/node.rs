//! What is said of one node: what it lacks, how its record and its restarts stand, and whether it
//! votes.

use std::time::Duration;

use super::crowded::crowded;
use super::found;
use super::stopped::of_stop;
use crate::error::shown;
use crate::foreign;
use crate::node::address::{Address, Endpoint};
use crate::node::admission::{
    DeleteByValue, Expectation, Newness, QuarantineCause, Record, Rejection, beginning,
};
use crate::node::redis::connect::{Diagnosis, Obstacle, PLACELESS, RUNLESS};
use crate::report::{Finding, NodeReport, Severity};

/// By what a node is judged.
pub(crate) struct Terms<'a> {
    pub(crate) expected: &'a Expectation,
    pub(crate) node_timeout: Duration,
    pub(crate) drift: f64,
    pub(crate) namespace: &'a str,
    /// The epoch of the set, by the first node that tells one.
    pub(crate) epoch: Option<u64>,
    /// No node has a record, and all were seen: the first client founds the set.
    pub(crate) unfounded: bool,
}

/// What is said of the node at that address.
pub(crate) fn report(address: &Address, looked: &Diagnosis, terms: &Terms<'_>) -> NodeReport {
    let server = &looked.server;
    let mut report = NodeReport {
        node: address.shown.to_string(),
        answers: !looked.round_trips.is_empty(),
        round_trip: round_trip(&looked.round_trips),
        server: server.flavor.name(),
        version: server.flavor.version().map(str::to_owned),
        role: server.role,
        uptime: server.uptime,
        eviction: server.eviction.clone(),
        memory_used: server.memory_used,
        memory_limit: server.memory_limit,
        record: "unknown",
        quarantine: looked.quarantine,
        release: looked.delete.map(DeleteByValue::name),
        ..NodeReport::default()
    };
    let findings = &mut report.findings;
    findings.extend(
        looked
            .stopped
            .as_ref()
            .map(|stopped| of_stop(stopped, looked)),
    );
    let strange = matches!(
        looked.stopped,
        Some(Obstacle::Rejected(Rejection::Unsupported(_), _))
    );
    if looked.info_lacks && !strange {
        findings.push(found(
            Severity::Warning,
            "QD03",
            "its user lacks the permission to run `info`: a restart shows by its record alone, a \
             replica and an eviction policy not at all"
                .into(),
            "add `+info` to its ACL",
        ));
    }
    if let Some(masters) = &looked.masters {
        findings.push(found(
            Severity::Error,
            "QD26",
            format!(
                "its sentinels do not name one master: {masters}; clients that ask another of them \
                 lock on another server"
            ),
            "list the sentinels of one deployment in each URL; while one fails over, look again",
        ));
    }
    let evicts = server.eviction.as_deref().filter(|p| *p != "noeviction");
    if let (Some(policy), Some(_), None) = (evicts, server.memory_limit, &looked.stopped) {
        findings.push(found(
            Severity::Warning,
            "QD07",
            format!(
                "its maxmemory_policy is {policy}, which may drop locks, and this client accepts it"
            ),
            "set it to noeviction, or give the locks a server of their own",
        ));
    }
    let record = looked
        .record
        .as_ref()
        .map(|text| text.as_deref().map(|text| (text, Record::parse(text))));
    let mut may_vote = looked.stopped.is_none();
    match record {
        None => {}
        Some(None) => {
            report.record = "none";
            let votes = !terms.expected.guard
                || terms.unfounded
                    && terms.expected.declares
                    && looked.newness == Some(Newness::New);
            may_vote &= votes;
            if looked.stopped.is_none() {
                findings.push(no_record(terms, votes));
            }
        }
        Some(Some((text, record))) => {
            let differences = match &record {
                Some(record) => record.differences(terms.expected, terms.epoch),
                None => vec![format!(
                    "it is not one of the protocol that this client speaks: `{}`",
                    foreign::excerpt(text)
                )],
            };
            report.record = if differences.is_empty() {
                "expected"
            } else {
                "other"
            };
            if !differences.is_empty() {
                may_vote = false;
                findings.push(found(
                    Severity::Error,
                    "QD08",
                    format!("its record is of another set: {}", differences.join("; ")),
                    "name the nodes of one set and give all of its clients the same settings; to \
                     change a set see `quorlock explain sets`, \"Any other change\"",
                ));
            }
            report.differences = differences;
            // A cluster's record is of no run: what its shards may have lost their stamps tell.
            let cluster = matches!(address.endpoint, Endpoint::Cluster(_));
            let run = looked.run.as_deref().filter(|_| !cluster).map(beginning);
            let restarted = terms.expected.guard
                && report.differences.is_empty()
                && record.is_some_and(|record| record.is_of_before(run));
            if restarted || !looked.quarantine.is_zero() {
                may_vote = false;
                findings.push(quarantine(looked, restarted, address.fails_over()));
            }
        }
    }
    if terms.expected.guard && looked.stopped.is_none() {
        degraded(looked, &mut report.findings);
    }
    report.votes = may_vote;
    if let Some((_, middle)) = report.round_trip
        && middle * 2 > terms.node_timeout
    {
        report.findings.push(found(
            Severity::Warning,
            "QD13",
            format!(
                "a round trip takes {} ms, and node_timeout is {:?}",
                middle.as_millis(),
                terms.node_timeout
            ),
            &format!(
                "raise node_timeout to {:?}, and the ttl to four times that at least, or bring the \
                 node nearer",
                ample(middle)
            ),
        ));
    }
    if looked.stopped.is_none() {
        report.findings.extend(crowded(looked));
    }
    for other in &looked.nested {
        let (ours, other) = (terms.namespace, shown(other));
        report.findings.push(found(
            Severity::Warning,
            "QD27",
            format!(
                "it has a set in the namespace {other}, and this client's is {ours}: one begins the \
                 other, so locks of both can have one key, and do not keep each other out",
                ours = shown(ours.as_bytes()),
            ),
            "give each set a namespace that no other begins with",
        ));
    }
    if looked.heard == Some(false) {
        report.findings.push(found(
            Severity::Warning,
            "QD14",
            "it cannot tell those who wait for a lock that it is their turn, so they ask again and \
             again"
                .into(),
            "let its user publish and subscribe on the channels of the namespace \
             (`quorlock acl` prints the line), and let it speak RESP3",
        ));
    }
    report
}

/// What a server lacks that answers well, and locks can do without.
fn degraded(looked: &Diagnosis, findings: &mut Vec<Finding>) {
    let mut lacks = |id, what: &str, remedy| {
        findings.push(found(Severity::Warning, id, format!("it {what}"), remedy));
    };
    if looked.runless {
        lacks(
            "QD22",
            RUNLESS,
            "let more than max_ttl pass before a server that has ended is started again; \
             `quorlock explain servers` says which servers tell it",
        );
    }
    if looked.placeless {
        lacks(
            "QD23",
            PLACELESS,
            "add `+client|info` to its user's ACL; a server that does not know it does without",
        );
    }
}

fn no_record(terms: &Terms<'_>, votes: bool) -> Finding {
    let (severity, what) = match (votes, terms.unfounded) {
        (true, _) => (
            Severity::Note,
            "it has no record yet: the first client that uses it writes one",
        ),
        (false, true) => (
            Severity::Warning,
            "it has no record, and may have lost votes: the set is still to be founded, and this \
             node gives no vote for max_ttl then",
        ),
        (false, false) => (
            Severity::Warning,
            "it has lost its record, or is new: it is given one with a quarantine when a client \
             meets it, if no node belongs to another set",
        ),
    };
    found(
        severity,
        "QD09",
        what.to_owned(),
        "`quorlock init --wait 5m` gives it one, and ends when a quorum votes; a server that is young \
         each time that you look restarts again and again: its log says why",
    )
}

fn quarantine(looked: &Diagnosis, restarted: bool, fails_over: bool) -> Finding {
    let left = looked.quarantine;
    let what = match (restarted, fails_over) {
        (false, _) if looked.cause.is_some() => format!(
            "it {}, so it may have lost votes: it is in quarantine for another {left:?}",
            looked.cause.map(QuarantineCause::text).unwrap_or_default()
        ),
        (true, false) => {
            "it has restarted: it gives no vote for max_ttl from when a client meets it".into()
        }
        (true, true) => "it was promoted, or has restarted: it gives no vote for max_ttl and 15 s \
                         from when a client meets it"
            .into(),
        (false, _) => format!(
            "it is in quarantine for another {left:?}: it is new, has restarted{}, or its clock \
             has stepped, so it may have lost votes",
            if fails_over { ", was promoted" } else { "" }
        ),
    };
    let remedy = if fails_over {
        "wait; where no lock is held any more, `init --force` ends the wait, and a lower \
             max_ttl, the same for every client, makes the next one shorter (`quorlock explain sentinel`)"
    } else {
        "wait; restart one node at a time, with more than max_ttl between"
    };
    found(Severity::Warning, "QD10", what, remedy)
}

/// The node that has its seat twice.
pub(crate) fn seated_twice(report: &mut NodeReport, why: String) {
    report.votes = false;
    let remedy = "list each server once";
    report
        .findings
        .push(found(Severity::Error, "QD12", why, remedy));
}

/// What `node_timeout` should be where a round trip takes so long: four times that, in steps of
/// 10 ms.
fn ample(round_trip: Duration) -> Duration {
    let tens = (round_trip * 4).as_millis().div_ceil(10);
    Duration::from_millis(10 * u64::try_from(tens).unwrap_or(u64::MAX / 10))
}

/// The shortest, and the one in the middle.
fn round_trip(measured: &[Duration]) -> Option<(Duration, Duration)> {
    let mut sorted = measured.to_vec();
    sorted.sort_unstable();
    let middle = *sorted.get((sorted.len().max(1) - 1) / 2)?;
    Some((sorted[0], middle))
}
