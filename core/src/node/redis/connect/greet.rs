//! The first words with a server: the client's login, what the server is, and what it has lost.

use std::time::Duration;

use redis::Value as Resp;

use super::alike::SiblingAddresses;
use super::degraded;
use super::hello::{Hello, Questions, count, unanswered};
use super::locate::locate;
use super::prepare::permitted;
use super::talk::{exchange, exchange_long, good, refused};
use super::target::{ConnectHints, Target};
use crate::clock::Instant;
use crate::event::event;
use crate::hash::fnv1a;
use crate::node::address::{Address, Endpoint, Origin, shown};
use crate::node::admission::{
    Gate, Info, Newness, Observation, PromotionHistory, Record, Rejection, UnsupportedServer,
    beginning, may_have_voted,
};
use crate::node::redis::dial::DialError;
use crate::node::redis::replies::{self, text};
use crate::node::redis::resp;
use crate::node::redis::wire::Wire;
use crate::node::{Cause, Fault, FaultKind, Server};

/// What a node's clock was, by its own word: before anything was written there,
/// so that a step which ends a quarantine too early comes after it.
#[derive(Clone, Copy)]
pub(crate) struct ServerTime {
    /// The node's `TIME`, in µs.
    pub(crate) time: u64,
    /// Moments before it was asked, and after it had answered.
    pub(crate) asked: Instant,
    pub(crate) at: Instant,
}

/// A connection to a server that may or may not be a node.
pub(super) struct Greeting {
    pub(super) wire: Wire,
    pub(super) look: Observation,
    /// Which one it is: see [`RequestContext::server`](crate::node::RequestContext::server).
    pub(super) server: u64,
    /// Where it is.
    pub(super) endpoint: Endpoint,
    /// Where it stands in the order of masters.
    pub(super) promotions: PromotionHistory,
    pub(super) time: ServerTime,
    /// What it says of itself.
    pub(super) about: Server,
    /// Whether the server sends pushes.
    pub(super) resp3: bool,
}

/// Dials, authenticates, asks for pushes, and looks at the node. Where that fails the other nodes
/// take this node for absent.
pub(super) async fn greet(target: &Target, how: &ConnectHints) -> Result<Greeting, Fault> {
    let greeted = say_hello(target, how).await;
    if greeted.is_err() && target.routes.is_none() {
        target.gate.survey.absent(target.node);
    }
    greeted.map_err(|fault| target.address.quiet(fault))
}

async fn say_hello(target: &Target, how: &ConnectHints) -> Result<Greeting, Fault> {
    let address = &target.address;
    target.located.has_come(None, false);
    let (endpoint, sentinel) = locate(target).await?;
    target.located.has_come(Some(&endpoint), false);
    let stream = match target.dial.dial(&endpoint).await {
        Ok(stream) => stream,
        Err(undialled) => {
            target.located.pass(sentinel);
            let fault = fault_of(undialled, address, how);
            return Err(named(address, &endpoint, fault));
        }
    };
    target.located.has_come(Some(&endpoint), true);
    let mut others = SiblingAddresses::of(target, &endpoint, &stream);
    let mut wire = Wire::new(stream, target.gate.inbox.clone(), target.gate.clock.clone());
    let questions = Questions::of(target, how);
    let clock = &target.gate.clock;
    let asked = clock.now();
    let commands = questions.commands();
    let answers = exchange_long(&mut wire, &commands, resp::COUNTS);
    let answers = others.beside(answers).await;
    let answers = answers.map_err(unanswered)?;
    let at = clock.now();
    let hello = Hello::read(&questions, answers);
    // The kind comes before the password, which a sentinel refuses where it has none.
    let in_place =
        |kind: &UnsupportedServer| *kind == UnsupportedServer::Clustered && target.routes.is_some();
    if let Some(kind) = hello.unsupported().filter(|kind| !in_place(kind)) {
        return Err(unsupported(kind));
    }
    let info = hello.info();
    // Then comes the password: without it the server permits nothing else.
    for (command, reply) in [("auth", hello.login), ("select", hello.select)] {
        reply
            .map(|reply| permitted(&target.gate, command, reply))
            .transpose()?;
    }
    let record = hello.record;
    let record = record.map(|reply| permitted(&target.gate, "get", reply));
    let record = record.transpose()?;
    let time = match permitted(&target.gate, "time", hello.time)? {
        Resp::Array(parts) => replies::time(&parts).ok_or_else(|| replies::no_time(&parts)),
        _ => Err(replies::unexpected()),
    };
    let time = ServerTime {
        time: time?,
        asked,
        at,
    };
    let (own_address, counts, resp3) = (hello.own_address, hello.counts, hello.resp3);
    let info = info_of(target, info?);
    let info = match &target.routes {
        None => info,
        Some(_) => info.of_shard().map_err(refused)?,
    };
    let record = record.filter(|r| *r != Resp::Nil).map(|r| text(&r));
    match info.unfit_as(target.gate.accept_eviction) {
        None => {}
        // Sentinels that still name the replica, or an address that leads to the next master soon,
        // make this a passing state.
        Some((Rejection::Replica, why))
            if (address.fails_over() || how.reached || target.routes.is_some()) =>
        {
            target.located.pass(sentinel);
            let fault = Fault::new(FaultKind::NotReady, why, true);
            return Err(named(address, &endpoint, fault));
        }
        Some((_, why)) => return Err(refused(why)),
    }
    let (roster, run) = (&target.gate.roster, info.run.as_deref());
    others.are(run).await?;
    let fails_over = address.fails_over() || target.routes.is_some();
    if fails_over && target.gate.expected().guard && run.is_none() {
        return Err(refused(
            "it does not tell its run_id, by which a promotion is noticed: permit `+info` to its \
             user, or turn restart_guard off"
                .into(),
        ));
    }
    if target.routes.is_none() {
        roster
            .meet(target.node, &address.shown, run, target.gate.clock.now())
            .map_err(refused)?;
    }
    degraded::tell(target, &info, own_address);
    let (newness, voted) = match &target.routes {
        None => (
            newness_of(
                target,
                &mut wire,
                record.as_deref(),
                &info,
                counts.as_deref(),
            )
            .await?,
            has_voted(target, &mut wire, record.as_deref(), counts.as_deref()).await?,
        ),
        Some(_) => (Newness::Used, false),
    };
    Ok(Greeting {
        look: Observation {
            stored: record,
            run: run.map(|run| beginning(run).to_owned()),
            newness,
            voted,
            stepped: how.stepped,
        },
        server: if fails_over {
            // In networks of their own two servers may report the same address, so the number mixes
            // in the run; a server that was promoted again counts as another.
            fnv1a(format!("{own_address} {}", run.unwrap_or_default()).as_bytes())
        } else {
            own_address
        },
        endpoint,
        about: Server {
            memory: info.memory,
            certificate_expires: wire.certificate_expires(),
        },
        wire,
        promotions: info.promotions,
        time,
        resp3,
    })
}

/// The fault of a server that can be no node.
pub(super) fn unsupported(kind: UnsupportedServer) -> Fault {
    refused(kind.sentence().into()).because(Cause::Unsupported(kind))
}

/// The fault of a server that sentinels have named, which says so.
pub(super) fn named(address: &Address, endpoint: &Endpoint, fault: Fault) -> Fault {
    let text = of_server(address, endpoint, &fault.text);
    if address.fails_over() {
        fault.with_text(text)
    } else {
        fault
    }
}

/// What is wrong with a server, and where it is, if sentinels have named it.
pub(crate) fn of_server(address: &Address, endpoint: &Endpoint, text: &str) -> String {
    if address.fails_over() {
        format!("the sentinels name {}: {text}", shown(endpoint))
    } else {
        text.to_owned()
    }
}

/// Why there is no stream. Where the caller has named no node, and no server listens at the default
/// one, waiting does not help: the person has to start a server, or to name one. A server that was
/// there before is only restarting.
pub(super) fn fault_of(undialled: DialError, address: &Address, how: &ConnectHints) -> Fault {
    match (undialled, address.origin) {
        (DialError::Refused(_), Origin::Default(variable)) if !how.reached => refused(format!(
            "the connection was refused: no server listens at the default node. Start one (`redis-server`, or `docker run -p 6379:6379 \
             valkey/valkey`), or name the nodes, as an option of the client or in {variable}"
        )),
        (DialError::Refused(fault) | DialError::Other(fault), _) => fault,
    }
}

/// What the server said of itself. One whose user may not ask for that is taken without: what
/// that costs is logged.
fn info_of(target: &Target, said: Option<String>) -> Info {
    if said.is_none() {
        (target.gate.warn)(event!(
            "node_without_info",
            "the node {node} does not answer INFO: a restart shows by its record alone, a \
             replica and an eviction policy not at all (add `+info` to its user's ACL)",
            node = target.address.shown,
        ));
    }
    said.map_or_else(Info::default, |said| Info::parse(&said))
}

/// What the node may have lost, if it has no `record` or a pledge.
async fn newness_of(
    target: &Target,
    wire: &mut Wire,
    record: Option<&str>,
    info: &Info,
    counts: Option<&str>,
) -> Result<Newness, Fault> {
    match record {
        Some(text) if Record::parse(text).is_none_or(|record| !record.is_pledge()) => {
            Ok(Newness::Used)
        }
        // The client that founds the set has looked at the node before, and has given it the
        // quarantine that it needs.
        Some(_) if quarantine_left(&target.gate, wire).await?.is_zero() => Ok(Newness::New),
        Some(_) => Ok(Newness::Used),
        None => {
            let stats = counted(wire, counts).await?;
            Ok(info.newness(&stats, target.gate.expected().quarantine))
        }
    }
}

/// Whether the node holds a pledge, and may have voted before that was written.
pub(super) async fn has_voted(
    target: &Target,
    wire: &mut Wire,
    record: Option<&str>,
    counts: Option<&str>,
) -> Result<bool, Fault> {
    if is_pledge(record) && target.gate.expected().guard {
        Ok(may_have_voted(&counted(wire, counts).await?))
    } else {
        Ok(false)
    }
}

fn is_pledge(record: Option<&str>) -> bool {
    let record = record.and_then(Record::parse);
    record.is_some_and(|record| record.is_pledge())
}

/// What it has said to that, behind its record; or says now.
async fn counted(wire: &mut Wire, counts: Option<&str>) -> Result<String, Fault> {
    match counts {
        Some(counts) => Ok(counts.to_owned()),
        None => commandstats(wire).await,
    }
}

/// How often a server has carried out which commands; nothing where it does not tell.
pub(super) async fn commandstats(wire: &mut Wire) -> Result<String, Fault> {
    let stats = exchange_long(wire, &[count()], resp::COUNTS).await?.pop();
    Ok(stats.map(|reply| text(&reply)).unwrap_or_default())
}

/// How much longer the node is in quarantine.
pub(super) async fn quarantine_left(gate: &Gate, wire: &mut Wire) -> Result<Duration, Fault> {
    let left = redis::cmd("PTTL").arg(&*gate.quarantine_key).take();
    match exchange(wire, &[left]).await?.pop().map(good).transpose()? {
        Some(Resp::Int(left)) => Ok(Duration::from_millis(u64::try_from(left).unwrap_or(0))),
        _ => Err(replies::unexpected()),
    }
}
