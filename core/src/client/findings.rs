//! Turns what a probe saw of the nodes into findings, which say what is wrong and what to do. Pure.
//! Each finding has its row in docs/operations/doctor.md.

use std::time::Duration;

use crate::clock::Instant;
use crate::config::defaults;
use crate::error::shown;
use crate::foreign;
use crate::node::address::{Address, Endpoint};
use crate::node::admission::{
    DeleteByValue, Expected, Newness, QuarantineCause, Record, Rejection, beginning,
};
use crate::node::redis::connect::{Diagnosis, Obstacle, PLACELESS, RUNLESS};
use crate::node::{Cause, ServerState};
use crate::report::{ClockOffset, Finding, NodeReport, Severity};

/// A clock that is off by more than this is worth a note, for fences are made of it.
const CLOCK_NOTE: u64 = 1_000_000;
/// One that is off by more than this costs what fences promise where counters are lost.
const CLOCK_ERROR: u64 = 10_000_000;

/// By what a node is judged.
pub(super) struct Terms<'a> {
    pub(super) expected: &'a Expected,
    pub(super) node_timeout: Duration,
    pub(super) drift: f64,
    pub(super) namespace: &'a str,
    /// The epoch of the set, by the first node that tells one.
    pub(super) epoch: Option<u64>,
    /// No node has a record, and all were seen: the first client founds the set.
    pub(super) unfounded: bool,
}

fn found(severity: Severity, id: &'static str, what: String, remedy: &str) -> Finding {
    Finding {
        id,
        severity,
        what: foreign::message(what),
        remedy: remedy.to_owned(),
    }
}

/// What is said of the node at that address.
pub(super) fn report(address: &Address, looked: &Diagnosis, terms: &Terms<'_>) -> NodeReport {
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
                    foreign::told(text)
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

/// The states of a server in which it gives no vote to any lock, whatever it is asked; the finding, and what to do.
const REFUSALS: [(ServerState, &str, &str); 10] = [
    (
        ServerState::OutOfMemory,
        "QD30",
        "give it more memory (CONFIG SET maxmemory): an empty server needs more than 1 MB, and \
         `quorlock explain sizes` says how many bytes a name takes, and for how long",
    ),
    (
        ServerState::CannotPersist,
        "QD31",
        "make room on its disk and look into its log; locks need no snapshots: CONFIG SET save \"\" \
         ends them",
    ),
    (
        ServerState::FewReplicas,
        "QD32",
        "bring its replicas back, or lower its min-replicas-to-write",
    ),
    (
        ServerState::RunsScript,
        "QD33",
        "SCRIPT KILL ends the script that another program has started there; give the locks a server \
         of their own",
    ),
    (
        ServerState::ManyClients,
        "QD34",
        "end a program that has many connections to it, by what the other nodes' CLIENT LIST and the \
         hosts tell (ss -tnp): until then no redis-cli is let in; then CONFIG SET maxclients",
    ),
    (
        ServerState::Protected,
        "QD35",
        "its protected mode takes clients of its own machine alone: give it a file of users whose \
         first line is `user default off`, and a user with a password (`quorlock explain deploy`)",
    ),
    (
        ServerState::Loading,
        "QD36",
        "wait: it is reading its data; a server that is for locks alone needs none",
    ),
    (
        ServerState::NoMaster,
        "QD36",
        "wait: it is a replica that has no link to its master, or look at that link",
    ),
    (
        ServerState::ReadOnly,
        "QD06",
        "list the master in its place",
    ),
    (
        ServerState::ClusterDown,
        "QD37",
        "look at CLUSTER INFO and at the primaries that have failed: a part of the hash slots is served \
         by none",
    ),
];

/// The finding of a fault, if its cause is one of those.
fn refusal(cause: Cause) -> Option<(&'static str, &'static str)> {
    let found = REFUSALS
        .iter()
        .find(|(state, ..)| cause == Cause::State(*state))?;
    Some((found.1, found.2))
}

/// How much memory a server uses, and how much it may.
fn used(looked: &Diagnosis) -> Option<String> {
    let (used, most) = (looked.server.memory_used?, looked.server.memory_limit?);
    Some(format!(
        " (it uses {used} bytes, and its maxmemory is {most})"
    ))
}

/// A look that came to its end before all was seen.
fn of_stop(stopped: &Obstacle, looked: &Diagnosis) -> Finding {
    if let Some(fault) = stopped.fault()
        && let Some((id, remedy)) = refusal(fault.cause)
    {
        let full = (id == "QD30").then(|| used(looked)).flatten();
        let what = format!("{}{}", fault.text, full.unwrap_or_default());
        return found(Severity::Error, id, what, remedy);
    }
    let (id, why, remedy) = match stopped {
        Obstacle::Unreached(fault) if fault.cause == Cause::LongReply => (
            "QD28",
            &*fault.text,
            "look what the node's address leads to, and what it answers there (INFO, CLUSTER SLOTS, \
             the key of its record)",
        ),
        Obstacle::Clock(fault) => ("QD29", &*fault.text, "set its clock, by NTP"),
        Obstacle::Unreached(fault) => (
            "QD01",
            &*fault.text,
            "start the server, have it go on if it is stopped (kill -CONT), or look at its address and \
             at the network between",
        ),
        Obstacle::Tls(fault) => (
            "QD16",
            &*fault.text,
            "look at the node's certificate and at `ca`, `cert` and `key`; redis:// is for a port \
             without TLS",
        ),
        Obstacle::Refused(fault) => (
            "QD02",
            &*fault.text,
            "give the user and the password that the server knows in the node's URL",
        ),
        Obstacle::Unnamed(fault) => (
            "QD24",
            &*fault.text,
            "write the URL as `quorlock explain sentinel` has it: the master by the name that the sentinels \
             know, and their own user and password if they want those",
        ),
        Obstacle::Lacks(fault) => (
            "QD03",
            &*fault.text,
            "give its user the permissions that `quorlock acl` prints",
        ),
        Obstacle::NoVote(fault) => (
            "QD38",
            &*fault.text,
            "look into the server's log; it answers, and refuses what every lock does",
        ),
        Obstacle::Several(fault) => (
            "QD25",
            &*fault.text,
            "list each server by a name or an address of its own",
        ),
        Obstacle::Rejected(unfit, why) => match unfit {
            Rejection::Unsupported(kind) => {
                let (id, remedy) = kind.finding();
                (id, &**why, remedy)
            }
            Rejection::Old => ("QD04", &**why, "install Redis 6.2 or later, or Valkey"),
            Rejection::Replica => ("QD06", &**why, "list the master in its place"),
            Rejection::Evicts => (
                "QD07",
                &**why,
                "CONFIG SET maxmemory-policy noeviction, or a server of its own",
            ),
        },
    };
    found(Severity::Error, id, why.to_owned(), remedy)
}

/// A share of memory, or of connections, from which on a server is nearly full, in percent.
const NEARLY: u64 = 80;
/// How long before its end a certificate is to be told of.
const RENEWED: Duration = Duration::from_secs(14 * 86_400);
/// How many commands a second of one client flood a server.
const FLOOD: u64 = 2000;

/// What will keep locks from being won soon.
fn crowded(looked: &Diagnosis) -> Vec<Finding> {
    let (server, census) = (&looked.server, &looked.census);
    let mut findings = Vec::new();
    let mut soon = |id, what: String, remedy| {
        findings.push(found(Severity::Warning, id, what, remedy));
    };
    let nearly = |used: u64, most: u64| most > 0 && used.saturating_mul(100) / most >= NEARLY;
    if let (Some(used), Some(most)) = (server.memory_used, server.memory_limit)
        && nearly(used, most)
    {
        let share = used.saturating_mul(100) / most;
        let names = census.ending.map_or_else(String::new, |keys| {
            let rate = keys as f64 / defaults::FENCE_TTL.as_secs_f64();
            format!(
                ": {keys} keys end by themselves, nearly all of them counters of fences, each of which lives \
                 for {:?} after a lock was used, which is {rate:.1} new names a second",
                defaults::FENCE_TTL
            )
        });
        soon(
            "QD39",
            format!(
                "it uses {share} % of its maxmemory, and takes no new lock where that is full{names}"
            ),
            "raise its maxmemory, use fewer names, or a shorter fence_ttl (`quorlock explain sizes`)",
        );
    }
    if let Some((connected, most)) = census.clients
        && nearly(connected, most)
    {
        soon(
            "QD40",
            format!("{connected} clients are connected to it, and it takes {most} at most"),
            "raise its maxclients and its limit of open files; share one client in each process",
        );
    }
    // By the clock of the server, which its clients' are held against elsewhere.
    let left = looked
        .certificate_expires
        .zip(looked.told)
        .map(|(ends, told)| Duration::from_secs(ends).saturating_sub(Duration::from_micros(told)));
    if let Some(left) = left.filter(|left| *left < RENEWED) {
        let hours = left.as_secs() / 3600;
        soon(
            "QD41",
            format!(
                "its certificate is good for {} days and {} h more, and no client connects afterwards",
                hours / 24,
                hours % 24
            ),
            "renew it, and have the server read it: CONFIG SET tls-cert-file …",
        );
    }
    if let Some((name, rate)) = &census.busiest
        && *rate >= FLOOD
    {
        soon(
            "QD42",
            format!("the client {name} sends it {rate} commands a second"),
            "let that client wait for locks, in place of trying again and again",
        );
    }
    findings
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
            looked.cause.map(QuarantineCause::told).unwrap_or_default()
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
pub(super) fn seated_twice(report: &mut NodeReport, why: String) {
    report.votes = false;
    let remedy = "list each server once";
    report
        .findings
        .push(found(Severity::Error, "QD12", why, remedy));
}

/// Notes how the clocks of the nodes stand against the one in the middle.
pub(super) fn clocks(
    reports: &mut [NodeReport],
    looked: &[Option<Diagnosis>],
    now: Instant,
    drift: f64,
) {
    let bounds: Vec<_> = looked
        .iter()
        .map(|looked| looked.as_ref()?.time.bounds(now, drift))
        .collect();
    let middle_of = |(low, high): (u64, u64)| low.midpoint(high);
    let mut known: Vec<u64> = bounds.iter().flatten().map(|b| middle_of(*b)).collect();
    known.sort_unstable();
    if known.is_empty() {
        return;
    }
    let middle = known[(known.len() - 1) / 2];
    for (report, bounds) in reports.iter_mut().zip(bounds) {
        let Some((low, high)) = bounds else { continue };
        let at = middle_of((low, high));
        let micros = (at as i64).saturating_sub(middle as i64);
        let error_micros = (high - low) / 2;
        report.clock = Some(ClockOffset {
            micros,
            error_micros,
        });
        let sure = micros.unsigned_abs().saturating_sub(error_micros);
        if sure <= CLOCK_NOTE {
            continue;
        }
        let grave = sure > CLOCK_ERROR;
        let off = Duration::from_micros(micros.unsigned_abs());
        let way = if micros > 0 { "ahead" } else { "behind" };
        report.findings.push(found(
            if grave {
                Severity::Error
            } else {
                Severity::Note
            },
            "QD11",
            format!("its clock is {off:.1?} {way} of the one in the middle of the set"),
            "let all nodes keep their time by NTP, and let that slew the clock, not step it",
        ));
    }
}

/// What is to be said of the set as a whole.
pub(super) fn of_set(nodes: usize) -> Vec<Finding> {
    if nodes < 2 || nodes % 2 == 1 {
        return Vec::new();
    }
    vec![found(
        Severity::Note,
        "QD15",
        format!(
            "the set has {nodes} nodes: it bears the loss of {}, as one of {} does",
            (nodes - 1) / 2,
            nodes - 1
        ),
        "take an odd number: 3 or 5 are usual",
    )]
}

/// Clients that have some of the nodes in their lists, and others not.
pub(super) fn other_list(clients: usize, listens: &str, not: &str) -> Finding {
    let (clients, listens_at) = match clients {
        1 => ("one client".to_owned(), "listens at"),
        more => (format!("{more} clients"), "listen at"),
    };
    found(
        Severity::Warning,
        "QD43",
        format!(
            "{clients} {listens_at} {listens} and not at {not}: with another list of nodes, so that \
             clients of this list are not kept out by its locks, or cut off from these nodes"
        ),
        "CLIENT LIST TYPE pubsub there says by name and address whose they are; give every client of a \
         set the same list (`quorlock explain sets`)",
    )
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

#[cfg(test)]
mod tests;
