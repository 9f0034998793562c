//! From an address to a connection that is ready for scripts: dial, authenticate
//! and [look](say_hello) at the node, [`admit`] it, and [`prepare`] the connection.

mod admit;
mod prepare;
mod talk;

use std::sync::Arc;
use std::time::Duration;

use redis::Value as Resp;

use super::address::Address;
use super::admission::{Gate, Info, Look, Newness, Record, beginning};
use super::dial::dial;
use super::replies::{self, text};
use super::script::Guard;
use super::tls::Tls;
use super::wire::Wire;
use super::{Fault, FaultKind, server_error};
use crate::clock::Instant;
use crate::hash::fnv1a;
use admit::admit;
use prepare::{permitted, prepare};
pub(crate) use talk::broken;
use talk::{exchange, good};

/// A connection to a node that may vote.
pub(crate) struct Connected {
    pub(crate) wire: Wire,
    /// What goes with each request that gives a vote, if restarts are guarded.
    pub(crate) guard: Option<Guard>,
    /// The hash of the node's id.
    pub(crate) id: u64,
    /// See [`Ticket::server`](super::Ticket::server).
    pub(crate) server: u64,
    /// What the node's clock was.
    pub(crate) time: Told,
    /// As it was [asked](How::stepped): the quarantine has begun again.
    pub(crate) stepped: bool,
    /// The inbox is subscribed.
    pub(crate) subscribed: bool,
}

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

/// Which node to connect to.
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) tls: Tls,
    /// Its place in the set.
    pub(crate) node: usize,
    pub(crate) gate: Arc<Gate>,
}

/// How a connection is to be made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    /// Subscribe the inbox, where the node permits it.
    pub(crate) subscribe: bool,
    /// See [`Look::stepped`].
    pub(crate) stepped: bool,
}

/// Connects to a node and admits it.
pub(crate) async fn connect(target: &Target, how: How) -> Result<Connected, Fault> {
    let mut greeted = greet(target, how).await?;
    let record = admit(target, &mut greeted).await?;
    let Greeted {
        mut wire,
        server,
        time,
        resp3,
        ..
    } = greeted;
    let gate = &target.gate;
    let subscribed = prepare(target, &mut wire, how.subscribe, resp3).await?;
    let id = Record::parse(&record).map_or(0, |record| fnv1a(record.node().as_bytes()));
    let guard = gate.expected().guard.then(|| Guard {
        record: record.into(),
        record_key: gate.record_key.clone(),
        quarantine_key: gate.quarantine_key.clone(),
    });
    Ok(Connected {
        wire,
        guard,
        id,
        server,
        time,
        stepped: how.stepped,
        subscribed,
    })
}

/// Admits a node as any client does, which founds a new set together with the
/// other nodes. Returns how long it is in quarantine yet; with `force` the
/// quarantine is lifted.
pub(crate) async fn declare(target: &Target, force: bool) -> Result<Duration, Fault> {
    let mut greeted = greet(target, How::default()).await?;
    admit(target, &mut greeted).await?;
    let (gate, wire) = (&target.gate, &mut greeted.wire);
    if force {
        let lift = redis::cmd("DEL").arg(&*gate.quarantine_key).take();
        exchange(wire, &[lift])
            .await?
            .into_iter()
            .try_for_each(|reply| good(reply).map(drop))?;
    }
    quarantine_left(gate, wire).await
}

/// How long the node is in quarantine yet.
async fn quarantine_left(gate: &Gate, wire: &mut Wire) -> Result<Duration, Fault> {
    let left = redis::cmd("PTTL").arg(&*gate.quarantine_key).take();
    match exchange(wire, &[left]).await?.pop().map(good).transpose()? {
        Some(Resp::Int(left)) => Ok(Duration::from_millis(u64::try_from(left).unwrap_or(0))),
        _ => Err(replies::unexpected()),
    }
}

/// The fault of a node that cannot serve until somebody mends it.
fn refused(why: String) -> Fault {
    Fault::new(FaultKind::Misconfigured, why, true)
}

/// A connection to a server that may or may not be a node.
struct Greeted {
    wire: Wire,
    look: Look,
    /// Which one it is: see [`Ticket::server`](super::Ticket::server).
    server: u64,
    time: Told,
    /// It sends pushes.
    resp3: bool,
}

/// Dials, authenticates, asks for pushes, and looks at the node. One that does
/// not come so far is absent, to the others.
async fn greet(target: &Target, how: How) -> Result<Greeted, Fault> {
    let greeted = say_hello(target, how).await;
    if greeted.is_err() {
        target.gate.survey.absent(target.node);
    }
    greeted
}

async fn say_hello(target: &Target, how: How) -> Result<Greeted, Fault> {
    let address = &target.address;
    let stream = dial(&address.endpoint, &target.tls).await?;
    let mut wire = Wire::new(stream, target.gate.inbox.clone());
    let commands = greeting(target, how);
    let clock = &target.gate.clock;
    let asked = clock.now();
    let mut answers = exchange(&mut wire, &commands).await?;
    let at = clock.now();
    let resp3 = how.subscribe && matches!(answers.pop(), Some(Resp::Map(_)));
    let server = answers.pop().map_or(0, |reply| own_address(&text(&reply)));
    let time = answers.pop();
    let record = answers.pop();
    let info = answers.pop();
    // The password first: without it nothing else is permitted.
    for reply in answers {
        permitted(&target.gate, "select", reply)?;
    }
    let record = record.map(|reply| permitted(&target.gate, "get", reply));
    let record = record.transpose()?;
    let time = time.map(|reply| permitted(&target.gate, "time", reply));
    let time = match time.transpose()? {
        Some(Resp::Array(parts)) => replies::time(&parts),
        _ => None,
    };
    let time = Told {
        time: time.ok_or_else(replies::unexpected)?,
        asked,
        at,
    };
    let info = info_of(target, info)?;
    let record = record.filter(|r| *r != Resp::Nil).map(|r| text(&r));
    if let Some(why) = info.unfit(target.gate.accept_eviction) {
        return Err(refused(why));
    }
    let (roster, run) = (&target.gate.roster, info.run_id.as_deref());
    roster
        .meet(target.node, &address.shown, run, target.gate.clock.now())
        .map_err(refused)?;
    let newness = newness_of(target, &mut wire, record.as_deref(), &info).await?;
    Ok(Greeted {
        wire,
        look: Look {
            stored: record,
            run: run.map(|run| beginning(run).to_owned()),
            newness,
            stepped: how.stepped,
        },
        server,
        time,
        resp3,
    })
}

/// What a server is asked before anything is done there.
fn greeting(target: &Target, how: How) -> Vec<redis::Cmd> {
    let address = &target.address;
    let mut commands = Vec::new();
    if let Some(password) = &address.password {
        let mut auth = redis::cmd("AUTH");
        if let Some(user) = &address.user {
            auth.arg(user);
        }
        commands.push(auth.arg(password).take());
    }
    if address.db != 0 {
        commands.push(redis::cmd("SELECT").arg(address.db).take());
    }
    commands.push(redis::cmd("INFO"));
    commands.push(redis::cmd("GET").arg(&*target.gate.record_key).take());
    commands.push(redis::cmd("TIME"));
    commands.push(redis::cmd("CLIENT").arg("INFO").take());
    if how.subscribe {
        // Last, for servers that do not know it, and so that the replies before
        // it look the same with it and without.
        commands.push(redis::cmd("HELLO").arg(3).take());
    }
    commands
}

/// What the server said of itself, where its user may ask for that.
fn info_of(target: &Target, reply: Option<Resp>) -> Result<Info, Fault> {
    match reply {
        Some(Resp::ServerError(error)) if server_error::forbidden(&error) => {
            (target.gate.warn)(format!(
                "the node {} does not answer INFO: a restart shows by its record alone, a replica \
                 and an eviction policy not at all (add `+info` to its user's ACL)",
                target.address.shown
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
) -> Result<Newness, Fault> {
    match record {
        Some(text) if Record::parse(text).is_none_or(|record| !record.is_pledge()) => {
            Ok(Newness::Used)
        }
        // Who founds the set has looked at it before, and given it what it needs.
        Some(_) if quarantine_left(&target.gate, wire).await?.is_zero() => Ok(Newness::New),
        Some(_) => Ok(Newness::Used),
        None => {
            let ask = redis::cmd("INFO").arg("commandstats").take();
            let stats = exchange(wire, &[ask]).await?.pop();
            let stats = stats.map(|reply| text(&reply)).unwrap_or_default();
            Ok(info.newness(&stats, target.gate.expected().quarantine))
        }
    }
}

/// The hash of the address in `CLIENT INFO` at which the server itself has
/// this connection; 0 if it does not tell.
fn own_address(client_info: &str) -> u64 {
    let mut words = client_info.split_ascii_whitespace();
    let address = words.find_map(|word| word.strip_prefix("laddr="));
    address.map_or(0, |address| fnv1a(address.as_bytes()))
}
