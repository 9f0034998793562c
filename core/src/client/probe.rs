//! The probe of a set, which looks at all nodes at once.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::admission::{gate, target};
use super::findings::{Terms, clocks, of_set, other_list, report, seated_twice};
use super::inner::Inner;
use crate::error::Error;
use crate::event::LogEvent;
use crate::node::address::{Address, Endpoint, Origin};
use crate::node::admission::{Gate, Record};
use crate::node::redis::connect::{Diagnosis, inboxes, look};
use crate::protocol::quorum::quorum;
use crate::report::{Finding, Health, NodeReport, Probe, Readiness, Severity};
use crate::runtime::task::Task;

/// This many times `node_timeout` a look may take behind `connect_timeout`: where a round trip
/// takes less than that, and locks can be won, it comes to its end.
const STEPS: u32 = 8;
/// Between two looks at which clients listen where.
const AGAIN: Duration = Duration::from_secs(1);

/// The nodes of a client, and by what they are judged. Nothing that is learnt by it goes to the client: its gate
/// is its own.
struct Look<'a> {
    client: &'a Inner,
    gate: Arc<Gate>,
}

impl Look<'_> {
    fn of(client: &Inner) -> Look<'_> {
        let (settings, set) = (&client.settings, &client.set);
        // What is worth a line in the log is among the findings.
        let quiet: [fn(LogEvent); 2] = [drop, drop];
        let gate = Arc::new(gate(settings, set.clock.clone(), set.rng.clone(), quiet));
        Look { client, gate }
    }

    /// Begins to look at each node; nothing of one within the process.
    fn begin(&self) -> Vec<Option<Task<Diagnosis>>> {
        let settings = &self.client.settings;
        let most = settings.connect_timeout + settings.node_timeout * STEPS;
        let begin = |(node, address): (usize, &Address)| {
            if matches!(address.endpoint, Endpoint::Memory(_)) {
                return None;
            }
            let target = target(address, node, &self.client.tls, &self.gate);
            let look = async move { look(&target, most).await };
            Some(self.client.io.spawn(look))
        };
        settings.nodes.iter().enumerate().map(begin).collect()
    }

    /// Clients that listen at some of the nodes that vote, and at others not. A client that is just coming or
    /// going is seen so once, and not again a moment later.
    async fn strangers(&self, nodes: &[NodeReport]) -> Option<Finding> {
        let first = self.partly(nodes).await;
        if first.is_empty() {
            return None;
        }
        let clock = &self.client.set.clock;
        clock.sleep_until(clock.now() + AGAIN).await;
        let second = self.partly(nodes).await;
        let both = first
            .into_iter()
            .filter(|(inbox, at)| second.get(inbox) == Some(at));
        let mut where_heard: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        for (_, at) in both {
            *where_heard.entry(at).or_default() += 1;
        }
        let (at, clients) = where_heard
            .into_iter()
            .max_by_key(|(_, clients)| *clients)?;
        let named = |inside: bool| {
            let places = (0..nodes.len())
                .filter(|place| nodes[*place].votes && at.contains(place) == inside);
            let names: Vec<_> = places.map(|place| &*nodes[place].node).collect();
            names.join(", ")
        };
        Some(other_list(clients, &named(true), &named(false)))
    }

    /// The inboxes that some of the nodes that vote have and others not, and which have them.
    async fn partly(&self, nodes: &[NodeReport]) -> BTreeMap<Vec<u8>, Vec<usize>> {
        let settings = &self.client.settings;
        let most = settings.connect_timeout + settings.node_timeout * STEPS;
        let listed = settings.nodes.iter().zip(nodes).enumerate();
        let asked: Vec<_> = listed
            .filter(|(_, (address, node))| {
                // A server without a record is asked nothing more, or it would be new no more.
                let founded = node.votes && node.record == "expected";
                founded && !matches!(address.endpoint, Endpoint::Memory(_))
            })
            .map(|(place, (address, _))| {
                let target = target(address, place, &self.client.tls, &self.gate);
                let work = async move { inboxes(&target, most).await };
                (place, self.client.io.spawn(work))
            })
            .collect();
        let (mut heard, mut told) = (BTreeMap::<_, Vec<_>>::new(), 0);
        for (place, work) in asked {
            let Ok(Some(inboxes)) = work.await else {
                continue;
            };
            told += 1;
            for inbox in inboxes {
                heard.entry(inbox).or_default().push(place);
            }
        }
        heard.retain(|_, at| at.len() < told);
        heard
    }

    /// What is expected of the nodes, as these have seen it.
    fn terms<'b>(&'b self, seen: &'b [Option<Diagnosis>]) -> Terms<'b> {
        let (settings, set) = (&self.client.settings, &self.client.set);
        let records = || seen.iter().flatten().map(|looked| looked.record.as_ref());
        let epoch = records()
            .flatten()
            .flatten()
            .find_map(|text| self.epoch(text));
        Terms {
            expected: self.gate.expected(),
            node_timeout: settings.node_timeout,
            drift: settings.drift,
            namespace: &set.namespace,
            epoch,
            unfounded: records().all(|record| record.is_some_and(Option::is_none)),
        }
    }

    /// The epoch of a record that is of the client's set and founded.
    fn epoch(&self, text: &str) -> Option<u64> {
        let record = Record::parse(text)?;
        let same = record.differences(self.gate.expected(), None).is_empty();
        (same && !record.is_pledge()).then(|| record.epoch())
    }
}

/// What a probe can say of a node within the process.
fn of_memory(address: &Address) -> NodeReport {
    NodeReport {
        node: address.shown.to_string(),
        answers: true,
        votes: true,
        server: Some("memory"),
        record: "expected",
        ..NodeReport::default()
    }
}

/// The gravest first.
fn sorted(mut node: NodeReport) -> NodeReport {
    node.findings
        .sort_by(|a, b| b.severity.cmp(&a.severity).then(a.id.cmp(b.id)));
    node
}

/// The node of that URL in a client's list, or of the name by which errors have it.
fn place_of(client: &Inner, url: &str) -> Result<usize, Error> {
    let nodes = &client.settings.nodes;
    if let Some(place) = nodes.iter().position(|node| *node.shown == *url) {
        return Ok(place);
    }
    let asked = Address::parse(0, url, Origin::Caller)?;
    if asked.password.is_some() {
        return Err(Error::invalid(
            "the URL of the node holds a password, which is in the client's list already: give it \
             without",
        ));
    }
    let place = nodes
        .iter()
        .position(|node| node.endpoint == asked.endpoint);
    place.ok_or_else(|| {
        let names: Vec<_> = nodes.iter().map(|node| &*node.shown).collect();
        Error::invalid(format!(
            "{} is no node of the client, whose nodes are {}",
            asked.shown,
            names.join(", ")
        ))
    })
}

/// Looks at one node of a client's list; at the others only as long as that takes.
pub(super) async fn probe_node(client: &Inner, url: &str) -> Result<Readiness, Error> {
    let place = place_of(client, url)?;
    let look = Look::of(client);
    let mut work = look.begin();
    let mut seen: Vec<Option<Diagnosis>> = work.iter().map(|_| None).collect();
    let address = &client.settings.nodes[place];
    let Some(own) = work[place].take() else {
        return Ok(Readiness {
            node: of_memory(address),
            founded: true,
            ready: true,
        });
    };
    seen[place] = Some(own.await?);
    let clock = &client.set.clock;
    let mut timer = clock.sleep_until(clock.now() + client.settings.node_timeout);
    let mut over = false;
    for (seen, work) in seen.iter_mut().zip(&mut work) {
        let Some(work) = work else { continue };
        *seen = poll_fn(|cx| match Pin::new(&mut *work).poll(cx) {
            Poll::Ready(looked) => Poll::Ready(looked.ok()),
            Poll::Pending => {
                // A timer is asked no more once it has rung.
                over = over || timer.as_mut().poll(cx).is_ready();
                if over {
                    Poll::Ready(None)
                } else {
                    Poll::Pending
                }
            }
        })
        .await;
    }
    let is_founded = |looked: &Diagnosis| {
        let record = looked.record.iter().flatten().next();
        record.is_some_and(|text| look.epoch(text).is_some())
    };
    let founded = seen.iter().flatten().any(is_founded);
    let node = seen[place]
        .as_ref()
        .map(|own| report(address, own, &look.terms(&seen)));
    let node = sorted(node.unwrap_or_default());
    let grave = node
        .findings
        .iter()
        .any(|found| found.severity == Severity::Error);
    let quarantine = look.gate.expected().quarantine;
    let old = node.uptime.is_some_and(|uptime| uptime > quarantine);
    let waits = node.answers && !grave && node.record == "none" && (!founded || old);
    Ok(Readiness {
        ready: node.votes || waits,
        node,
        founded,
    })
}

/// Looks at all nodes of a client's set.
pub(super) async fn probe(client: &Inner) -> Result<Probe, Error> {
    let (settings, set) = (&client.settings, &client.set);
    let look = Look::of(client);
    let gate = &look.gate;
    let mut seen: Vec<Option<Diagnosis>> = Vec::with_capacity(settings.nodes.len());
    for work in look.begin() {
        seen.push(match work {
            Some(work) => Some(work.await?),
            None => None,
        });
    }
    let terms = look.terms(&seen);
    let now = set.clock.now();
    let of = |(address, looked): (&Address, &Option<Diagnosis>)| match looked {
        Some(looked) => report(address, looked, &terms),
        None => of_memory(address),
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
    let nodes: Vec<NodeReport> = nodes.into_iter().map(sorted).collect();
    let mut findings = of_set(nodes.len());
    findings.extend(look.strangers(&nodes).await);
    let votes = nodes.iter().filter(|node| node.votes).count();
    let mut probe = Probe {
        set_name: settings.set_name.to_string(),
        quorum: quorum(nodes.len()),
        max_ttl: settings.max_ttl(),
        guard: gate.expected().guard,
        votes,
        health: Health::Works,
        findings,
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
