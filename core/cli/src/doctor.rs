//! `quorlock doctor`: how it stands with the set, and what to mend.

use quorlock::{Finding, Health, NodeReport, Probe, Severity, blocking};
use serde_json::{Value, json};

use crate::args::Doctor;
use crate::connect;
use crate::exit::{self, Failure};
use crate::output::{line, object, plain, seconds};
use crate::times;

pub fn doctor(options: &Doctor) -> Result<i32, Failure> {
    let client = connect::client(&options.connection, None)?;
    let probe = blocking::wait(client.probe())?;
    match options.json {
        true => object(&as_object(&probe)),
        false => show(&probe),
    }
    Ok(match probe.health {
        Health::Works => 0,
        Health::WorksBut => exit::TO_MEND,
        _ => exit::NO_QUORUM,
    })
}

fn show(probe: &Probe) {
    line(&format!(
        "set {}, {} nodes, quorum {}, max_ttl {}, guard {}",
        probe.set_name,
        probe.nodes.len(),
        probe.quorum,
        times::shown(probe.max_ttl),
        if probe.guard { "on" } else { "off" }
    ));
    for node in &probe.nodes {
        let mark = if node.votes { "votes" } else { "no vote" };
        line(&plain(&format!("  {}  {mark}{}", node.node, facts(node))));
        node.findings.iter().for_each(tell);
    }
    probe.findings.iter().for_each(tell);
    let spare = probe.votes.checked_sub(probe.quorum);
    let verdict = match spare {
        None => "no lock can be won".to_owned(),
        Some(0) => "locks can be won; one more failure stops them".to_owned(),
        Some(1) => "locks can be won; one node may fail".to_owned(),
        Some(spare) => format!("locks can be won; {spare} nodes may fail"),
    };
    line(&format!(
        "verdict: {verdict} ({} of {} vote)",
        probe.votes,
        probe.nodes.len()
    ));
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
        let millis = |time: std::time::Duration| time.as_secs_f64() * 1000.0;
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
        Severity::Note => "note",
        Severity::Warning => "warning",
        _ => "error",
    };
    let Finding {
        id, what, remedy, ..
    } = found;
    line(&plain(&format!("    {id} {mark}: {what}")));
    line(&plain(&format!("         do: {remedy}")));
}

fn as_object(probe: &Probe) -> Value {
    json!({
        "set_name": probe.set_name,
        "health": probe.health.as_str(),
        "quorum": probe.quorum,
        "votes": probe.votes,
        "max_ttl": seconds(probe.max_ttl),
        "guard": probe.guard,
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
