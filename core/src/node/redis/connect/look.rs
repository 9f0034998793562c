//! A look at a node that admits and founds nothing: what it says of itself, and why
//! it cannot be used, for people to read.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use redis::Value as Resp;

use super::alike::SiblingAddresses;
use super::census::{Census, census};
use super::cluster;
use super::degraded::is_runless;
use super::greet::{commandstats, fault_of, named, quarantine_left, unsupported};
use super::hello::{Hello, Questions, unanswered};
use super::locate::{disagreement, locate};
use super::nested::nested;
use super::prepare::{permitted, prepare};
use super::talk::{exchange, exchange_long};
use super::target::{ConnectHints, Target};
use super::trial::{TrialResult, trial};
use crate::node::address::Endpoint;
use crate::node::admission::{
    DeleteByValue, Info, Newness, QuarantineCause, Record, Rejection, ServerFacts,
};
use crate::node::redis::replies::{self, text};
use crate::node::redis::resp;
use crate::node::redis::script::Guard;
use crate::node::redis::wire::Wire;
use crate::node::time::NodeTime;
use crate::node::{Cause, Fault, FaultKind};

/// How many round trips a look measures.
const ROUND_TRIPS: usize = 5;

/// Where a look came to its end, and why.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// The node has no stream, or does not answer.
    Unreached(Fault),
    /// TLS is not as it should be.
    Tls(Fault),
    /// The node's sentinels do not say where it is, and asking again would not help.
    Unnamed(Fault),
    /// The node does not take the user or the password.
    Refused(Fault),
    /// Something else is not permitted, or not to be had.
    Lacks(Fault),
    /// The node answers, and gives no vote.
    NoVote(Fault),
    /// The node's clock is beyond the last moment at which it may vote.
    Clock(Fault),
    /// The node's name leads to several servers.
    Several(Fault),
    /// The server is none that may vote.
    Rejected(Rejection, String),
}

impl Obstacle {
    /// What came in the way, where that has a text of the server's.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        match self {
            Obstacle::Unreached(fault)
            | Obstacle::Tls(fault)
            | Obstacle::Unnamed(fault)
            | Obstacle::Refused(fault)
            | Obstacle::Lacks(fault)
            | Obstacle::NoVote(fault)
            | Obstacle::Clock(fault)
            | Obstacle::Several(fault) => Some(fault),
            Obstacle::Rejected(..) => None,
        }
    }

    /// This obstacle in other words.
    fn told(self, say: impl Fn(Fault) -> Fault) -> Obstacle {
        match self {
            Obstacle::Unreached(fault) => Obstacle::Unreached(say(fault)),
            Obstacle::Tls(fault) => Obstacle::Tls(say(fault)),
            Obstacle::Unnamed(fault) => Obstacle::Unnamed(say(fault)),
            Obstacle::Refused(fault) => Obstacle::Refused(say(fault)),
            Obstacle::Lacks(fault) => Obstacle::Lacks(say(fault)),
            Obstacle::NoVote(fault) => Obstacle::NoVote(say(fault)),
            Obstacle::Clock(fault) => Obstacle::Clock(say(fault)),
            Obstacle::Several(fault) => Obstacle::Several(say(fault)),
            unfit @ Obstacle::Rejected(..) => unfit,
        }
    }
}

/// What a look has seen so far.
#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    pub(crate) stopped: Option<Obstacle>,
    pub(crate) server: ServerFacts,
    /// Whether the node does not answer `INFO`.
    pub(crate) info_lacks: bool,
    /// Which servers its sentinels name, where those are not one.
    pub(crate) masters: Option<String>,
    /// The random name of the server's run.
    pub(crate) run: Option<String>,
    /// Whether the node answers `INFO` without such a name.
    pub(crate) runless: bool,
    /// Whether the node does not report its own address.
    pub(crate) placeless: bool,
    /// The node's clock.
    pub(crate) time: NodeTime,
    /// The `TIME` that the node reported last, in µs.
    pub(crate) told: Option<u64>,
    pub(crate) round_trips: Vec<Duration>,
    /// The node's record, if that was read; `Some(None)`: the node has none.
    pub(crate) record: Option<Option<String>>,
    /// What one without a record may have lost.
    pub(crate) newness: Option<Newness>,
    pub(crate) quarantine: Duration,
    /// Why it is in quarantine, as the client has said that began it.
    pub(crate) cause: Option<QuarantineCause>,
    /// How votes are deleted by their value.
    pub(crate) delete: Option<DeleteByValue>,
    /// Messages to waiters get through; `None`: that was not tried.
    pub(crate) heard: Option<bool>,
    /// The other users of the server.
    pub(crate) census: Census,
    /// When the first of its certificates ends, in seconds since 1970.
    pub(crate) certificate_expires: Option<u64>,
    /// All that decides on its vote was seen.
    seen: bool,
    /// Namespaces with sets of their own that begin this client's, or are begun by it.
    pub(crate) nested: BTreeSet<Vec<u8>>,
}

impl Diagnosis {
    /// Notes what came of a trial vote.
    fn vote(&mut self, tried: Result<TrialResult, Fault>) -> Result<(), Obstacle> {
        match tried {
            Ok(TrialResult::Votes) => Ok(()),
            Ok(TrialResult::Quarantined(left)) => {
                self.quarantine = self.quarantine.max(left);
                Ok(())
            }
            Err(fault) if fault.kind == FaultKind::Misconfigured => Err(refused_or_lacks(fault)),
            Err(fault) => Err(Obstacle::NoVote(fault)),
        }
    }
}

/// Looks at a node for at most this long, and returns what it has seen until then.
pub(crate) async fn look(target: &Target, most: Duration) -> Diagnosis {
    let clock = &target.gate.clock;
    let mut timer = clock.sleep_until(clock.now() + most);
    let mut looked = Diagnosis::default();
    let stopped = {
        let mut work = pin!(see(target, &mut looked));
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Pending => timer.as_mut().poll(cx).map(|()| {
                let lacks = target.located.attempt().lacks();
                let why = format!("no end of what it was asked within {most:?}: {lacks}");
                Err(Obstacle::Unreached(Fault::new(
                    FaultKind::Timeout,
                    why,
                    true,
                )))
            }),
            done => done,
        })
        .await
    };
    // The look for other namespaces comes behind that, and does not stop the report.
    let stopped = stopped.err().filter(|_| !looked.seen);
    let say = |fault| {
        let told = match target.located.attempt().endpoint {
            Some(endpoint) => named(&target.address, &endpoint, fault),
            None => fault,
        };
        target.address.quiet(told)
    };
    looked.stopped = stopped.map(|stopped| stopped.told(say));
    looked
}

async fn see(target: &Target, looked: &mut Diagnosis) -> Result<(), Obstacle> {
    let (gate, address) = (&target.gate, &target.address);
    let how = ConnectHints {
        subscribe: true,
        ..ConnectHints::default()
    };
    if let Endpoint::Cluster(_) = &address.endpoint {
        return see_cluster(target, looked).await;
    }
    let (endpoint, by) = locate(target).await.map_err(|fault| match fault.kind {
        FaultKind::Misconfigured => Obstacle::Unnamed(fault),
        _ => Obstacle::Unreached(fault),
    })?;
    looked.masters = disagreement(target, by, &endpoint).await;
    target.located.has_come(Some(&endpoint), false);
    let stream = target.dial.dial(&endpoint).await;
    let stream = stream.map_err(|undialled| match fault_of(undialled, address, &how) {
        fault if fault.cause == Cause::Tls => Obstacle::Tls(fault),
        fault => Obstacle::Unreached(fault),
    })?;
    target.located.has_come(Some(&endpoint), true);
    looked.certificate_expires = stream.certificate_expires();
    let mut others = SiblingAddresses::of(target, &endpoint, &stream);
    let mut wire = Wire::new(stream, gate.inbox.clone(), gate.clock.clone());
    let questions = Questions::of(target, &how);
    let answers = others
        .beside(exchange_long(
            &mut wire,
            &questions.commands(),
            resp::COUNTS,
        ))
        .await
        .map_err(|fault| match fault.kind {
            FaultKind::Misconfigured => Obstacle::Tls(fault),
            _ => Obstacle::Unreached(unanswered(fault)),
        })?;
    let hello = Hello::read(&questions, answers);
    looked.placeless = hello.own_address == 0;
    // Such a server answers nothing but this, and perhaps has no password.
    if let Some(kind) = hello.unsupported() {
        return Err(refused_or_lacks(unsupported(kind)));
    }
    let said = hello.info();
    if let Some(reply) = hello.login {
        permitted(gate, "auth", reply).map_err(Obstacle::Refused)?;
    }
    if let Some(reply) = hello.select {
        permitted(gate, "select", reply).map_err(refused_or_lacks)?;
    }
    let said = said.map_err(refused_or_lacks)?;
    looked.info_lacks = said.is_none();
    let said = said.unwrap_or_default();
    looked.server = ServerFacts::parse(&said);
    let info = Info::parse(&said);
    looked.run = info.run.clone();
    looked.runless = is_runless(&info);
    let alike = others.are(info.run.as_deref()).await;
    let unfit = info.unfit_as(gate.accept_eviction);
    let asked = |command: &str, reply: Option<Resp>| {
        let reply = reply.ok_or_else(|| Obstacle::Lacks(replies::unexpected()))?;
        permitted(gate, command, reply).map_err(refused_or_lacks)
    };
    let record = asked("get", hello.record)?;
    let record = Some(&record).filter(|r| **r != Resp::Nil).map(text);
    looked.record = Some(record.clone());
    if let Resp::Array(parts) = asked("time", Some(hello.time))?
        && replies::time(&parts).is_none()
    {
        return Err(refused_or_lacks(replies::no_time(&parts)));
    }
    for _ in 0..ROUND_TRIPS {
        time_of(target, &mut wire, looked).await?;
    }
    if let Some((unfit, why)) = unfit {
        return Err(Obstacle::Rejected(unfit, why));
    }
    alike.map_err(Obstacle::Several)?;
    let ours = |record: &Record| record.differences(gate.expected(), None).is_empty();
    match record.as_deref().map(|text| (text, Record::parse(text))) {
        // The look sends harmless commands alone, or the node would not be new any more.
        None => {
            let load = redis::cmd("SCRIPT").arg("LOAD").arg("return 1").take();
            let loaded = exchange(&mut wire, &[load]).await;
            asked("script|load", loaded.map_err(Obstacle::Unreached)?.pop())?;
            let stats = commandstats(&mut wire).await.map_err(Obstacle::Unreached)?;
            looked.newness = Some(info.newness(&stats, gate.expected().quarantine));
            return Ok(());
        }
        Some((stored, Some(record))) if ours(&record) => {
            let founded = !record.is_pledge();
            if founded {
                let left = quarantine_left(gate, &mut wire).await;
                looked.quarantine = left.map_err(refused_or_lacks)?;
                let get = redis::cmd("GET").arg(&*gate.quarantine_key).take();
                let told = exchange(&mut wire, &[get]).await;
                let told = told.map_err(Obstacle::Unreached)?.pop();
                looked.cause = told.and_then(|word| QuarantineCause::read(&text(&word)));
            }
            let prepared = prepare(target, &mut wire, None, true, hello.resp3).await;
            let prepared = prepared.map_err(refused_or_lacks)?;
            looked.delete = Some(prepared.delete);
            looked.heard = Some(prepared.heard);
            let guard = gate.expected().guard.then(|| Guard {
                record: stored.into(),
                record_key: gate.record_key.clone(),
                quarantine_key: gate.quarantine_key.clone(),
                shard: false,
            });
            if founded {
                let tried = trial(target, &mut wire, guard.as_ref(), None).await;
                looked.vote(tried)?;
            }
        }
        // The client does not try what another set may do there.
        Some(_) => return Ok(()),
    }
    looked.seen = true;
    census(target, &mut wire, &mut looked.census).await;
    nested(target, &mut wire, &mut looked.nested).await;
    Ok(())
}

/// Looks at a cluster: its record, and whether the client may ask all its primaries.
async fn see_cluster(target: &Target, looked: &mut Diagnosis) -> Result<(), Obstacle> {
    let seen = cluster::see(target)
        .await
        .map_err(|fault| match fault.kind {
            FaultKind::Misconfigured => refused_or_lacks(fault),
            _ => Obstacle::Unreached(fault),
        });
    let (mut shards, record) = seen?;
    looked.record = Some(record.clone());
    if let Some(shard) = shards.first_mut() {
        looked.run = shard.greeted.look.run.clone();
        looked.placeless = shard.greeted.server == 0;
        for _ in 0..ROUND_TRIPS {
            time_of(target, &mut shard.greeted.wire, looked).await?;
        }
    }
    let is_founded = |record: Record| {
        let ours = record.differences(target.gate.expected(), None).is_empty();
        ours && !record.is_pledge()
    };
    if record
        .as_deref()
        .and_then(Record::parse)
        .is_some_and(is_founded)
    {
        for shard in &mut shards {
            let tried = shard.vote().await;
            looked.vote(tried)?;
        }
    }
    looked.seen = true;
    for shard in shards.iter_mut().filter(|_| record.is_some()) {
        nested(target, &mut shard.greeted.wire, &mut looked.nested).await;
    }
    Ok(())
}

/// Asks for its `TIME` once, and measures that.
async fn time_of(target: &Target, wire: &mut Wire, looked: &mut Diagnosis) -> Result<(), Obstacle> {
    let clock = &target.gate.clock;
    let sent = clock.now();
    let reply = exchange(wire, &[redis::cmd("TIME")]).await;
    let reply = reply.map_err(Obstacle::Unreached)?.pop();
    let received = clock.now();
    looked.round_trips.push(sent.until(received));
    let time = match &reply {
        Some(Resp::Array(parts)) => replies::time(parts),
        _ => None,
    };
    if let Some(time) = time {
        looked.told = Some(time);
        looked.time.observe(sent, received, time, target.gate.drift);
    }
    Ok(())
}

/// Why a look ends at a server that answers with this fault. A server that wants a password, and
/// was given none, says so at any command; and one of a kind that can be no node may show that at
/// any command.
fn refused_or_lacks(fault: Fault) -> Obstacle {
    match fault.cause {
        Cause::Unsupported(kind) => {
            Obstacle::Rejected(Rejection::Unsupported(kind), fault.text.to_string())
        }
        Cause::NoPassword => Obstacle::Refused(fault),
        Cause::LateClock => Obstacle::Clock(fault),
        _ => Obstacle::Lacks(fault),
    }
}
