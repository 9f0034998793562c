//! `quorlock init`: declares the set, and says whether it votes.

use std::time::Duration;

use quorlock::{Client, ErrorKind, Level, Probe, blocking, set_log_sink};
use serde_json::json;

use crate::args::Init;
use crate::clock::{Alarm, now};
use crate::connect;
use crate::exit::{self, Failure};
use crate::output::{line, object, plain, seconds};
use crate::times;

/// How often it looks whether the set votes.
const EVERY: Duration = Duration::from_millis(500);

const RISK: &str = "--force: the set votes at once, also where its nodes may have lost the votes that they gave. Two may \
                    then hold a lock that was held within the last max_ttl";

pub fn init(options: &Init) -> Result<i32, Failure> {
    let client = connect::client(&options.connection, None)?;
    // It may have to wait until servers are old enough, and says so.
    set_log_sink(|level, text| {
        if level == Level::Warn {
            eprintln!("quorlock: {text}");
        }
    });
    if options.force {
        eprintln!("quorlock: {RISK}");
    }
    let declared = if options.force {
        blocking::wait(client.init_set_forced())
    } else {
        blocking::wait(client.init_set())
    };
    let mut probe = blocking::wait(client.probe())?;
    if let Err(error) = declared {
        // A set that stands needs no more than a quorum of its nodes, which vote or will.
        let away = error.kind() == ErrorKind::QuorumUnavailable && !options.force;
        if !(away && stands(&probe)) {
            return Err(error.into());
        }
    }
    if let Some(wait) = options.wait {
        wait_for_votes(&client, &mut probe, wait)?;
    }
    show(options, &probe);
    Ok(if votes(&probe) { 0 } else { exit::NO_VOTES })
}

/// Whether a quorum of the nodes has the record of the set, and votes or is in quarantine.
fn stands(probe: &Probe) -> bool {
    let ours = probe
        .nodes
        .iter()
        .filter(|node| node.record == "expected" && (node.votes || !node.quarantine.is_zero()));
    ours.count() >= probe.quorum
}

fn votes(probe: &Probe) -> bool {
    probe.votes >= probe.quorum
}

/// Looks again and again until a quorum votes, or the time is over.
fn wait_for_votes(client: &Client, probe: &mut Probe, wait: Duration) -> Result<(), Failure> {
    let (end, mut alarm) = (now() + wait, Alarm::new());
    while !votes(probe) && now() < end {
        alarm.wait(&[], EVERY.min(end.saturating_sub(now())));
        *probe = blocking::wait(client.probe())?;
    }
    Ok(())
}

fn show(options: &Init, probe: &Probe) {
    let longest = probe.nodes.iter().map(|node| node.quarantine).max();
    if options.json {
        return object(&json!({
            "declared": true,
            "forced": options.force,
            "quarantine": seconds(longest.unwrap_or_default()),
            "votes": probe.votes,
            "quorum": probe.quorum,
        }));
    }
    for node in &probe.nodes {
        let state = match (node.votes, node.quarantine) {
            (true, _) => "declared, votes".to_owned(),
            (false, left) if !left.is_zero() => {
                format!("declared, gives no vote for another {}", times::shown(left))
            }
            _ => match node.findings.first() {
                Some(found) => format!("no vote: {}", found.what),
                None => "no vote".to_owned(),
            },
        };
        line(&plain(&format!("{}: {state}", node.node)));
    }
    line(&if votes(probe) {
        format!(
            "the set is declared, and {} of {} nodes vote",
            probe.votes,
            probe.nodes.len()
        )
    } else {
        format!(
            "the set is declared, and no lock can be won yet: {} of {} nodes vote, {} must (--wait waits for that)",
            probe.votes,
            probe.nodes.len(),
            probe.quorum
        )
    });
}
