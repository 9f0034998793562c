//! The state of the set: all nodes are looked at, at once.

use std::sync::Arc;

use super::admission::{gate, target};
use super::findings::{Terms, clocks, of_set, report, seated_twice};
use super::inner::Inner;
use crate::error::Error;
use crate::event::LogEvent;
use crate::node::address::{Address, Endpoint};
use crate::node::admission::Record;
use crate::node::redis::connect::{Looked, look};
use crate::protocol::quorum::quorum;
use crate::report::{Health, NodeReport, Probe, Severity};

/// This many times `node_timeout` a look may take behind `connect_timeout`: where a round trip
/// takes less than that, and locks can be won, it comes to its end.
const STEPS: u32 = 8;

/// Looks at all nodes of a client's set. Nothing that was learnt by it goes to the
/// client: its gate is its own.
pub(super) async fn probe(client: &Inner) -> Result<Probe, Error> {
    let (settings, set) = (&client.settings, &client.set);
    // What is worth a line in the log is among the findings.
    let quiet: [fn(LogEvent); 2] = [drop, drop];
    let gate = Arc::new(gate(settings, set.clock.clone(), set.rng.clone(), quiet));
    let most = settings.connect_timeout + settings.node_timeout * STEPS;
    let begin = |(node, address): (usize, &Address)| {
        if matches!(address.endpoint, Endpoint::Memory(_)) {
            return None;
        }
        let target = target(address, node, &client.tls, &gate);
        Some(client.io.spawn(async move { look(&target, most).await }))
    };
    let work: Vec<_> = settings.nodes.iter().enumerate().map(begin).collect();
    let mut seen: Vec<Option<Looked>> = Vec::with_capacity(work.len());
    for work in work {
        seen.push(match work {
            Some(work) => Some(work.await?),
            None => None,
        });
    }
    let records = || seen.iter().flatten().map(|looked| looked.record.as_ref());
    let ours = |text: &String| {
        let record = Record::parse(text)?;
        let same = record.differences(gate.expected(), None).is_empty();
        (same && !record.is_pledge()).then(|| record.epoch())
    };
    let terms = Terms {
        expected: gate.expected(),
        node_timeout: settings.node_timeout,
        drift: settings.drift,
        namespace: &set.namespace,
        epoch: records().flatten().flatten().find_map(ours),
        unfounded: records().all(|record| record.is_some_and(Option::is_none)),
    };
    let now = set.clock.now();
    let of = |(address, looked): (&Address, &Option<Looked>)| match looked {
        Some(looked) => report(address, looked, &terms),
        None => NodeReport {
            node: address.shown.to_string(),
            answers: true,
            votes: true,
            server: Some("memory"),
            record: "expected",
            ..NodeReport::default()
        },
    };
    let mut nodes: Vec<NodeReport> = settings.nodes.iter().zip(&seen).map(of).collect();
    for (place, looked) in seen.iter().enumerate() {
        let run = looked.as_ref().and_then(|looked| looked.run.as_deref());
        let (shown, roster) = (&nodes[place].node, &gate.roster);
        if run.is_some()
            && let Err(why) = roster.meet(place, shown, run, now)
        {
            seated_twice(&mut nodes[place], why);
        }
    }
    clocks(&mut nodes, &seen, now, terms.drift);
    for node in &mut nodes {
        node.findings
            .sort_by(|a, b| b.severity.cmp(&a.severity).then(a.id.cmp(b.id)));
    }
    let votes = nodes.iter().filter(|node| node.votes).count();
    let mut probe = Probe {
        set_name: settings.set_name.to_string(),
        quorum: quorum(nodes.len()),
        max_ttl: settings.max_ttl(),
        guard: gate.expected().guard,
        votes,
        health: Health::Works,
        findings: of_set(nodes.len()),
        nodes,
    };
    let grave = probe
        .all()
        .any(|(_, found)| found.severity > Severity::Note);
    probe.health = match (votes >= probe.quorum, grave) {
        (false, _) => Health::Cannot,
        (true, true) => Health::WorksBut,
        (true, false) => Health::Works,
    };
    Ok(probe)
}
