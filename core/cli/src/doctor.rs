//! `quorlock doctor`: the state of the set, and what to fix.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use quorlock::{Client, Finding, Health, Inspection, NodeReport, Probe, Severity, blocking};
use serde_json::{Value, json};

use crate::args::Doctor;
use crate::clock::{now, time_of_day};
use crate::connect;
use crate::exit::{self, Failure};
use crate::inspect;
use crate::output::{Ink, ink, line, object, plain, seconds};
use crate::times;

/// This many locks are won and given back to see how long that takes.
const CYCLES: usize = 20;

pub fn doctor(options: &Doctor) -> Result<i32, Failure> {
    let client = connect::client(&options.connection, None)?;
    if let Some(url) = &options.node {
        return of_one(&client, url, options.json);
    }
    let probe = blocking::wait(client.probe())?;
    // A lock would found a set that no operator has declared: that is not for a look to do.
    let founded = probe.nodes.iter().all(|node| node.record != "none");
    let cycle = if founded && probe.votes >= probe.quorum {
        Some(cycle(&client))
    } else {
        None
    };
    let lock = options
        .name
        .as_ref()
        .map(|name| blocking::wait(client.inspect(name.as_bytes())));
    let lock = lock.transpose()?;
    if options.json {
        object(&as_object(&probe, &cycle, lock.as_ref()));
    } else {
        show(&probe, &cycle);
        lock.iter().for_each(inspect::show);
    }
    Ok(match (probe.health, cycle) {
        // Votes alone are no lock: the nodes differ from one moment to the next.
        (_, Some(Err(failure))) => failure.code,
        (Health::Works, _) => 0,
        (Health::WorksBut, _) => exit::TO_MEND,
        _ => exit::NO_QUORUM,
    })
}

/// The state of one node, for what starts and stops servers.
fn of_one(client: &Client, url: &str, json: bool) -> Result<i32, Failure> {
    let found = blocking::wait(client.probe_node(url))?;
    if json {
        object(&json!({
            "ready": found.ready, "founded": found.founded, "node": of_node(&found.node),
        }));
    } else {
        show_node(&found.node);
        line(if found.ready {
            "verdict: ready"
        } else {
            "verdict: not ready"
        });
    }
    Ok(if found.ready { 0 } else { exit::NO_QUORUM })
}

/// How long it takes to win a lock that no other client wants, and to give it back: the median, and
/// the longest.
fn cycle(client: &Client) -> Result<(Duration, Duration), Failure> {
    let name = format!("quorlock-doctor:{}:{}", std::process::id(), time_of_day().0);
    let lock = client.lock(name).fencing(false);
    let mut took = Vec::with_capacity(CYCLES);
    for _ in 0..CYCLES {
        let begun = now();
        let lease = blocking::wait(lock.acquire())?;
        blocking::wait(lease.release())?;
        took.push(now() - begun);
    }
    took.sort();
    Ok((took[CYCLES / 2], took[CYCLES - 1]))
}

/// What came of locks that were won to see how long that takes.
type Cycle = Option<Result<(Duration, Duration), Failure>>;

fn show(probe: &Probe, cycle: &Cycle) {
    line(&format!(
        "set {}, {} nodes, quorum {}, max_ttl {}, guard {}",
        probe.set_name,
        probe.nodes.len(),
        probe.quorum,
        times::shown(probe.max_ttl),
        if probe.guard { "on" } else { "off" }
    ));
    probe.nodes.iter().for_each(show_node);
    probe.findings.iter().for_each(tell);
    match cycle {
        Some(Ok((middle, longest))) => line(&format!(
            "a lock is won and given back in {:.2} ms, at most {:.2} ms of {CYCLES}",
            millis(*middle),
            millis(*longest)
        )),
        Some(Err(failure)) => line(&format!("a lock was not won: {}", plain(&failure.message))),
        None => {}
    }
    let spare = probe.votes.checked_sub(probe.quorum);
    let (color, verdict) = match spare {
        _ if matches!(cycle, Some(Err(_))) => (
            Ink::Wrong,
            "a quorum votes, and a lock was not won all the same".to_owned(),
        ),
        None => (Ink::Wrong, "no lock can be won".to_owned()),
        Some(0) if probe.nodes.len() == 1 => (Ink::Good, "locks can be won".to_owned()),
        Some(0) => (
            Ink::Warning,
            "locks can be won; one more failure stops them".to_owned(),
        ),
        Some(1) => (Ink::Good, "locks can be won; one node may fail".to_owned()),
        Some(spare) => (
            Ink::Good,
            format!("locks can be won; {spare} nodes may fail"),
        ),
    };
    line(&format!(
        "verdict: {} ({} of {} vote)",
        ink(color, &verdict),
        probe.votes,
        probe.nodes.len()
    ));
}

fn show_node(node: &NodeReport) {
    let mark = if node.votes {
        ink(Ink::Good, "votes")
    } else {
        ink(Ink::Wrong, "no vote")
    };
    line(&format!("  {}  {mark}{}", node.node, plain(&facts(node))));
    node.findings.iter().for_each(tell);
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// What is known of a node, in one line.
fn facts(node: &NodeReport) -> String {
    let mut facts = String::new();
    let mut add = |fact: String| facts.push_str(&format!(", {fact}"));
    if let Some(server) = node.server {
        add(match &node.version {
            Some(version) => format!("{server} {version}"),
            None => server.to_owned(),
        });
    }
    if let Some(uptime) = node.uptime {
        add(format!("up {}", times::shown(uptime)));
    }
    if let Some(clock) = node.clock {
        add(format!("clock {:+.1} ms", clock.micros as f64 / 1000.0));
    }
    if let Some((shortest, middle)) = node.round_trip {
        add(format!(
            "round trip {:.2} to {:.2} ms",
            millis(shortest),
            millis(middle)
        ));
    }
    add(format!("record {}", node.record));
    facts
}

fn tell(found: &Finding) {
    let mark = match found.severity {
        Severity::Note => "note".to_owned(),
        Severity::Warning => ink(Ink::Warning, "warning"),
        _ => ink(Ink::Wrong, "error"),
    };
    let Finding {
        id, what, remedy, ..
    } = found;
    line(&format!("    {id} {mark}: {}", plain(what)));
    line(&plain(&format!("         do: {remedy}")));
}

fn as_object(probe: &Probe, cycle: &Cycle, lock: Option<&Inspection>) -> Value {
    let (took, failed) = match cycle {
        Some(Ok(took)) => (Some(*took), None),
        Some(Err(failure)) => (None, Some(&failure.message)),
        None => (None, None),
    };
    json!({
        "set_name": probe.set_name,
        "health": probe.health.as_str(),
        "quorum": probe.quorum,
        "votes": probe.votes,
        "max_ttl": seconds(probe.max_ttl),
        "guard": probe.guard,
        "cycle": took.map(|(middle, longest)| json!({
            "median": seconds(middle), "longest": seconds(longest),
        })),
        "cycle_error": failed,
        "lock": lock.map(inspect::as_object),
        "findings": probe.findings.iter().map(of_finding).collect::<Vec<_>>(),
        "nodes": probe.nodes.iter().map(of_node).collect::<Vec<_>>(),
    })
}

fn of_node(node: &NodeReport) -> Value {
    json!({
        "node": node.node,
        "answers": node.answers,
        "votes": node.votes,
        "round_trip": node.round_trip.map(|(low, mid)| [seconds(low), seconds(mid)]),
        "server": node.server,
        "version": node.version,
        "role": node.role,
        "uptime": node.uptime.map(seconds),
        "clock": node.clock.map(|clock| json!({
            "micros": clock.micros, "error_micros": clock.error_micros,
        })),
        "eviction": node.eviction,
        "memory_used": node.memory_used,
        "memory_limit": node.memory_limit,
        "record": node.record,
        "differences": node.differences,
        "quarantine": seconds(node.quarantine),
        "release": node.release,
        "findings": node.findings.iter().map(of_finding).collect::<Vec<_>>(),
    })
}

fn of_finding(found: &Finding) -> Value {
    json!({
        "id": found.id,
        "severity": found.severity.as_str(),
        "what": found.what,
        "remedy": found.remedy,
    })
}
