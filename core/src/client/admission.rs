//! The rules by which a client admits its nodes, and how it declares its set to them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::inner::Inner;
use crate::clock::Clock;
use crate::config::{RestartGuard, Settings, process_label};
use crate::error::{Error, ErrorKind, NodeError};
use crate::event::{LogEvent, event};
use crate::node::FaultKind;
use crate::node::address::{Address, Endpoint};
use crate::node::admission::{Expectation, Gate, Roster, Survey};
use crate::node::names;
use crate::node::redis::connect::{Location, Target};
use crate::node::redis::dial::SystemDial;
use crate::node::redis::tls::Tls;
use crate::node::redis::{declare, subscription};
use crate::protocol::set::Set;
use crate::token::Rng;

/// What the nodes of a client are admitted by.
pub(super) fn gate(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    [warn, note]: [fn(LogEvent); 2],
) -> Gate {
    let (nodes, guard) = (settings.nodes.len(), settings.restart_guard);
    let fails_over = settings.fails_over();
    let mut expected = Expectation::new(
        &settings.set_name,
        nodes,
        settings.max_ttl(),
        settings.drift,
        guard.is_on(nodes, fails_over),
    );
    if fails_over {
        expected = expected.failing_over();
    }
    expected.declares &= guard == RestartGuard::Auto;
    let name = |node: &Address| {
        let apart = matches!(node.endpoint, Endpoint::Memory(_));
        (node.shown.clone(), apart)
    };
    let scratch = format!("{}#try", settings.namespace);
    Gate {
        accept_eviction: settings.accept_eviction,
        drift: settings.drift,
        node_timeout: settings.node_timeout,
        connect_timeout: settings.connect_timeout,
        // At most 16, which was checked.
        wait_replicas: settings.wait_replicas as u32,
        told_few: AtomicBool::new(false),
        record_key: names::record_key(&settings.namespace).into(),
        quarantine_key: names::quarantine_key(&settings.namespace).into(),
        scratch_key: scratch.into_bytes().into(),
        connection_name: connection_name(settings),
        inbox: subscription::channel(&settings.namespace, &*rng),
        told_deaf: AtomicBool::new(false),
        told_runless: AtomicBool::new(false),
        told_placeless: AtomicBool::new(false),
        roster: Roster::new(&expected),
        survey: Survey::new(expected, settings.nodes.iter().map(name).collect()),
        clock,
        rng,
        warn,
        note,
    }
}

/// The label as the name of a connection, in which a server takes no blanks and nothing beyond ASCII.
fn connection_name(settings: &Settings) -> Arc<[u8]> {
    let label = settings.lock.label.as_deref().cloned();
    let fit = |byte: u8| if byte.is_ascii_graphic() { byte } else { b'_' };
    label
        .unwrap_or_else(process_label)
        .bytes()
        .map(fit)
        .collect()
}

/// Declares the set of a client to its nodes. Returns how much longer it takes until
/// every node votes; see [`Client::init_set`](crate::Client::init_set).
pub(super) async fn declare(client: &Inner, force: bool) -> Result<Duration, Error> {
    let Set {
        clock,
        rng,
        warn,
        note,
        ..
    } = &*client.set;
    let gate = Arc::new(gate(
        &client.settings,
        clock.clone(),
        rng.clone(),
        [*warn, *note],
    ));
    let is_server = |address: &Address| !matches!(address.endpoint, Endpoint::Memory(_));
    let nodes = client.settings.nodes.iter().enumerate();
    let targets = nodes
        .filter(|(_, address)| is_server(address))
        .map(|(node, address)| target(address, node, &client.tls, &gate))
        .collect();
    let declared = declare::to_all(targets, force, &client.io).await?;
    let (mut left, mut faults, mut kind) =
        (Duration::ZERO, Vec::new(), ErrorKind::QuorumUnavailable);
    for (shown, outcome) in declared {
        match outcome {
            Ok(quarantine) => left = left.max(quarantine),
            Err(fault) => {
                if matches!(fault.kind, FaultKind::Misconfigured | FaultKind::Foreign) {
                    kind = ErrorKind::Misconfigured;
                }
                faults.push(NodeError::new(shown, fault.text.to_string()));
            }
        }
    }
    if !faults.is_empty() {
        let message = format!(
            "the set is not declared: every node must answer, and belong to this set or to none{}",
            client.set.origin
        );
        return Err(Error::with_nodes(kind, message, faults));
    }
    if gate.survey.is_young() && !left.is_zero() {
        warn(event!(
            "set_is_young",
            "the set is declared; its servers have run for less than max_ttl, so they give no vote \
             for another {time}: waiting",
            time = format!("{left:?}"),
        ));
        clock.sleep_until(clock.now() + left).await;
        left = Duration::ZERO;
    }
    Ok(left)
}

/// The node at `address`, as a connection to it is made.
pub(super) fn target(address: &Address, node: usize, tls: &Tls, gate: &Arc<Gate>) -> Target {
    Target {
        address: address.clone(),
        dial: Arc::new(SystemDial {
            tls: tls.clone(),
            clock: gate.clock.clone(),
            warn: gate.warn,
        }),
        node,
        gate: gate.clone(),
        located: Location::default(),
        routes: None,
    }
}
