//! The first words with a server: who one is, what it is, and what it has lost.

use std::time::Duration;

use redis::Value as Resp;

use super::alike::Others;
use super::degraded;
use super::locate::locate;
use super::prepare::permitted;
use super::talk::{CLOSED, exchange, exchange_long, good, login, refused};
use super::target::{How, Target};
use crate::clock::Instant;
use crate::event::event;
use crate::hash::fnv1a;
use crate::node::address::{Address, Endpoint, Origin, shown};
use crate::node::admission::{
    Gate, Info, Look, Newness, Record, Reign, Rejection, UnsupportedServer, beginning,
    may_have_voted,
};
use crate::node::redis::dial::Undialled;
use crate::node::redis::replies::{self, text};
use crate::node::redis::wire::Wire;
use crate::node::redis::{resp, server_error};
use crate::node::{Fault, FaultKind, Server};

/// What a node's clock was, by its own word: before anything was written there,
/// so that a step which ends a quarantine too early comes after it.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    /// The node's `TIME`, in µs.
    pub(crate) time: u64,
    /// Moments before it was asked, and after it had answered.
    pub(crate) asked: Instant,
    pub(crate) at: Instant,
}

/// A connection to a server that may or may not be a node.
pub(super) struct Greeted {
    pub(super) wire: Wire,
    pub(super) look: Look,
    /// Which one it is: see [`Ticket::server`](crate::node::Ticket::server).
    pub(super) server: u64,
    /// Where it is.
    pub(super) endpoint: Endpoint,
    /// Where it stands in the order of masters.
    pub(super) reign: Reign,
    pub(super) time: Told,
    /// What it says of itself.
    pub(super) about: Server,
    /// It sends pushes.
    pub(super) resp3: bool,
}

/// Dials, authenticates, asks for pushes, and looks at the node. One that does
/// not come so far is absent, to the others.
pub(super) async fn greet(target: &Target, how: &How) -> Result<Greeted, Fault> {
    let greeted = say_hello(target, how).await;
    if greeted.is_err() && target.routes.is_none() {
        target.gate.survey.absent(target.node);
    }
    greeted.map_err(|fault| target.address.quiet(fault))
}

async fn say_hello(target: &Target, how: &How) -> Result<Greeted, Fault> {
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
    let mut others = Others::of(target, &endpoint, &stream);
    let mut wire = Wire::new(stream, target.gate.inbox.clone(), target.gate.clock.clone());
    let commands = greeting(target, how);
    let clock = &target.gate.clock;
    let asked = clock.now();
    let answers = exchange_long(&mut wire, &commands, resp::COUNTS);
    let answers = others.beside(answers).await;
    let mut answers = answers.map_err(unanswered)?;
    let at = clock.now();
    let resp3 = how.subscribe && matches!(answers.pop(), Some(Resp::Map(_)));
    let own_address = answers.pop().map_or(0, |reply| own_address(&text(&reply)));
    let time = answers.pop();
    let counts = if counts_too(target, how) {
        answers.pop().map(|reply| text(&reply))
    } else {
        None
    };
    let record = match target.routes {
        None => answers.pop(),
        Some(_) => None,
    };
    let info = take_info(&mut answers);
    // Before the password, which a sentinel refuses where it has none.
    let stranger = stranger(info.as_ref());
    let clustered = stranger == Some(UnsupportedServer::Clustered);
    if let Some(stranger) = stranger.filter(|_| !(clustered && target.routes.is_some())) {
        return Err(refused(stranger.sentence().into()));
    }
    // Then the password: without it nothing else is permitted.
    for reply in answers {
        permitted(&target.gate, "select", reply)?;
    }
    let record = record.map(|reply| permitted(&target.gate, "get", reply));
    let record = record.transpose()?;
    let time = time.map(|reply| permitted(&target.gate, "time", reply));
    let time = match time.transpose()? {
        Some(Resp::Array(parts)) => replies::time(&parts).ok_or_else(|| replies::no_time(&parts)),
        _ => Err(replies::unexpected()),
    };
    let time = Told {
        time: time?,
        asked,
        at,
    };
    let info = info_of(target, info)?;
    let info = match &target.routes {
        None => info,
        Some(_) => info.of_shard().map_err(refused)?,
    };
    let record = record.filter(|r| *r != Resp::Nil).map(|r| text(&r));
    match info.unfit_as(target.gate.accept_eviction) {
        None => {}
        // Sentinels that still name it, or an address that leads to the next master soon.
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
    Ok(Greeted {
        look: Look {
            stored: record,
            run: run.map(|run| beginning(run).to_owned()),
            newness,
            voted,
            stepped: how.stepped,
        },
        server: if fails_over {
            // Two of them may have the same address by their own account, in networks of
            // their own; and one that was promoted again is as good as another.
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
        reign: info.reign,
        time,
        resp3,
    })
}

/// The fault of a server that sentinels have named, which says so.
pub(super) fn named(address: &Address, endpoint: &Endpoint, fault: Fault) -> Fault {
    let text = of_server(address, endpoint, &fault.text);
    if address.fails_over() {
        fault.told_as(text)
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

/// Why there is no stream. Where nobody has named a node, and none listens at the
/// default one, waiting helps nobody: a server is still to be started, or named. One
/// that was there before is only restarting.
pub(super) fn fault_of(undialled: Undialled, address: &Address, how: &How) -> Fault {
    match (undialled, address.origin) {
        (Undialled::Refused(_), Origin::Nobody(variable)) if !how.reached => refused(format!(
            "the connection was refused: no server listens at the default node. Start one (`redis-server`, or `docker run -p 6379:6379 \
             valkey/valkey`), or name the nodes, as an option of the client or in {variable}"
        )),
        (Undialled::Refused(fault) | Undialled::Other(fault), _) => fault,
    }
}

/// The sections of `INFO` in which a server says what it is, the one by which it is known first.
/// All of it may be of any length, for some sections grow with what anybody does there, such as
/// the first words of errors (`errorstats`). Redis before 7.0 takes one section at a time.
const SECTIONS: [&str; 5] = ["server", "memory", "stats", "cluster", "replication"];

/// Takes the answers to [`SECTIONS`] from the end of `answers`, as one; `None` where there are
/// none.
pub(super) fn take_info(answers: &mut Vec<Resp>) -> Option<Resp> {
    let sections = answers.split_off(answers.len().checked_sub(SECTIONS.len())?);
    let mut said = String::new();
    for (section, answer) in SECTIONS.iter().zip(sections) {
        match &answer {
            // A server that has no such section may say that so; one that knows no `INFO`, or
            // does not permit it, says that of each.
            Resp::ServerError(error) if *section != SECTIONS[0] && error.code() == "ERR" => {}
            Resp::ServerError(_) => return Some(answer),
            answer => {
                said.push_str(&text(answer));
                said.push_str("\r\n");
            }
        }
    }
    Some(Resp::BulkString(said.into_bytes()))
}

/// Whether a server is asked at once what it has carried out, which matters where it has no
/// record: one that was not met yet.
pub(super) fn counts_too(target: &Target, how: &How) -> bool {
    target.routes.is_none() && !how.reached
}

/// What a server is asked before anything is done there.
pub(super) fn greeting(target: &Target, how: &How) -> Vec<redis::Cmd> {
    let address = &target.address;
    let mut commands = login(address);
    if address.db != 0 {
        commands.push(redis::cmd("SELECT").arg(address.db).take());
    }
    commands.extend(SECTIONS.map(|section| redis::cmd("INFO").arg(section).take()));
    if target.routes.is_none() {
        commands.push(redis::cmd("GET").arg(&*target.gate.record_key).take());
    }
    if counts_too(target, how) {
        commands.push(count());
    }
    commands.push(redis::cmd("TIME"));
    commands.push(redis::cmd("CLIENT").arg("INFO").take());
    if how.subscribe {
        // Last, for servers that do not know it, and so that the replies before
        // it look the same with it and without.
        commands.push(redis::cmd("HELLO").arg(3).take());
    }
    commands
}

/// Of which kind a server is that can be no node, by what it answers to `INFO`.
pub(super) fn stranger(info: Option<&Resp>) -> Option<UnsupportedServer> {
    match info? {
        Resp::ServerError(error) => {
            UnsupportedServer::in_error(error.code(), error.details().unwrap_or_default())
        }
        said => Info::parse(&text(said)).stranger(),
    }
}

/// Why the first words went unanswered. What closes the connection at once may be on its way
/// down; or it speaks TLS, or is a proxy that does so at a command that it does not know.
pub(super) fn unanswered(fault: Fault) -> Fault {
    match &*fault.text {
        closed if closed == CLOSED || closed.contains("reset by peer") => Fault::new(
            fault.kind,
            format!(
                "{CLOSED} before it answered INFO, as a TLS port does to redis:// (write \
                 rediss://), and a proxy that does not know INFO (twemproxy)"
            ),
            fault.sent,
        ),
        _ => fault,
    }
}

/// What the server said of itself, where its user may ask for that.
fn info_of(target: &Target, reply: Option<Resp>) -> Result<Info, Fault> {
    match reply {
        Some(Resp::ServerError(error)) if server_error::forbidden(&error) => {
            (target.gate.warn)(event!(
                "node_without_info",
                "the node {node} does not answer INFO: a restart shows by its record alone, a \
                 replica and an eviction policy not at all (add `+info` to its user's ACL)",
                node = target.address.shown,
            ));
            Ok(Info::default())
        }
        Some(reply) => Ok(Info::parse(&text(&good(reply)?))),
        None => Ok(Info::default()),
    }
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
        // Whoever founds the set has looked at it before, and given it what it needs.
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

/// Asks how often a server has carried out which commands.
pub(super) fn count() -> redis::Cmd {
    redis::cmd("INFO").arg("commandstats").take()
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

/// The hash of the address in `CLIENT INFO` at which the server itself has
/// this connection; 0 if it does not tell.
pub(super) fn own_address(client_info: &str) -> u64 {
    let mut words = client_info.split_ascii_whitespace();
    let address = words.find_map(|word| word.strip_prefix("laddr="));
    address.map_or(0, |address| fnv1a(address.as_bytes()))
}

/// How much longer the node is in quarantine.
pub(super) async fn quarantine_left(gate: &Gate, wire: &mut Wire) -> Result<Duration, Fault> {
    let left = redis::cmd("PTTL").arg(&*gate.quarantine_key).take();
    match exchange(wire, &[left]).await?.pop().map(good).transpose()? {
        Some(Resp::Int(left)) => Ok(Duration::from_millis(u64::try_from(left).unwrap_or(0))),
        _ => Err(replies::unexpected()),
    }
}
