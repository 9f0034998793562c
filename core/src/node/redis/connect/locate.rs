//! Where a node's server is now: at its own address, or where its sentinels say.
//!
//! The client asks the sentinels one after the other, beginning with the sentinel that answered
//! last, and the first answer counts. The connection finds out whether that server is a master:
//! sentinels may be late, and may disagree.

use std::time::Duration;

use redis::Value as Resp;

use super::alike::run_of;
use super::talk::{exchange, within};
use super::target::Target;
use crate::foreign;
use crate::node::address::{Endpoint, Sentinels, shown};
use crate::node::redis::dial::DialError;
use crate::node::redis::replies::text;
use crate::node::redis::resp::number;
use crate::node::redis::server_error;
use crate::node::redis::wire::Wire;
use crate::node::{Fault, FaultKind};

/// How long one sentinel may take, at least.
const PATIENCE: Duration = Duration::from_millis(250);
/// This many times what a node has to answer, where that is longer: a connection, TLS, and what
/// is asked.
const STEPS: u32 = 3;

/// The address of the node's server, and the place of the sentinel that has named it.
pub(crate) async fn locate(target: &Target) -> Result<(Endpoint, usize), Fault> {
    let Endpoint::Sentinel(sentinels) = &target.address.endpoint else {
        return Ok((target.address.endpoint.clone(), 0));
    };
    let (mut unknown, mut refused, mut away) = (false, None, None);
    for place in target.located.order(sentinels.hosts.len()) {
        // The next attempt begins with another sentinel even if the connection's time ends before
        // this one answers.
        target.located.pass(place);
        match ask(target, sentinels, place).await {
            Ok(Some(named)) => {
                target.located.answered(place);
                return Ok((named, place));
            }
            Ok(None) => unknown = true,
            Err(fault) if fault.kind == FaultKind::Misconfigured => refused = Some(fault),
            Err(fault) => away = Some(fault),
        }
    }
    let master = sentinels.master.escape_debug();
    Err(match (refused, away) {
        (Some(refused), _) => refused,
        (None, None) => Fault::new(
            FaultKind::Misconfigured,
            format!(
                "the sentinels know no master of the name `{master}`: write the name that \
                 `SENTINEL MASTERS` shows"
            ),
            false,
        ),
        (None, Some(away)) => {
            let others = if unknown {
                ", and the others know no master of that name"
            } else {
                ""
            };
            let text = format!(
                "no sentinel says where the master `{master}` is: {}{others}",
                away.text
            );
            Fault::new(FaultKind::Unreachable, text, false).because(away.cause)
        }
    })
}

/// What another sentinel says, if that is not `named`, the server that the sentinel at `by` has
/// named. Some sentinels of one deployment may name a host and others its address, so the client
/// asks a differing server for its run.
pub(crate) async fn disagreement(target: &Target, by: usize, named: &Endpoint) -> Option<String> {
    let Endpoint::Sentinel(sentinels) = &target.address.endpoint else {
        return None;
    };
    for place in (0..sentinels.hosts.len()).filter(|place| *place != by) {
        if let Ok(Some(other)) = ask(target, sentinels, place).await
            && other != *named
            && !is_one_server(target, named, &other).await
        {
            let host = |place: usize| shown(&sentinels.hosts[place]);
            return Some(format!(
                "{} names {}, and {} names {}",
                host(by),
                shown(named),
                host(place),
                shown(&other)
            ));
        }
    }
    None
}

/// Whether one master answers at both.
async fn is_one_server(target: &Target, one: &Endpoint, other: &Endpoint) -> bool {
    let run = run_at(target, one).await;
    run.is_some() && run == run_at(target, other).await
}

/// The run of the master there, if it tells that in time.
async fn run_at(target: &Target, endpoint: &Endpoint) -> Option<String> {
    let gate = &target.gate;
    let most = PATIENCE.max(gate.node_timeout * STEPS);
    let work = async {
        Ok(match target.dial.dial(endpoint).await {
            Ok(stream) => run_of(target, stream).await,
            Err(_) => None,
        })
    };
    within(&gate.clock, most, work).await.ok()?
}

/// Asks the sentinel at that place where the master is; `None`: it knows none of the name.
pub(crate) async fn ask(
    target: &Target,
    sentinels: &Sentinels,
    place: usize,
) -> Result<Option<Endpoint>, Fault> {
    let ask = redis::cmd("SENTINEL")
        .arg("GET-MASTER-ADDR-BY-NAME")
        .arg(&sentinels.master)
        .take();
    let (_, reply) = say(target, sentinels, place, ask).await?;
    match &reply {
        Resp::Nil => Ok(None),
        Resp::Array(parts) => match &parts[..] {
            [host, Resp::BulkString(port)] => {
                let named = foreign::host(&text(host)).filter(|host| !host.is_empty());
                let named = named.zip(number(port)).map(|(host, port)| Endpoint::Tcp {
                    host,
                    port,
                    tls: sentinels.tls,
                });
                named.map(Some).ok_or_else(|| no_sentinel(sentinels, place))
            }
            _ => Err(no_sentinel(sentinels, place)),
        },
        _ => Err(no_sentinel(sentinels, place)),
    }
}

/// Connects to the sentinel at that place, and sends it one command.
pub(crate) async fn say(
    target: &Target,
    sentinels: &Sentinels,
    place: usize,
    command: redis::Cmd,
) -> Result<(Wire, Resp), Fault> {
    let (host, gate) = (&sentinels.hosts[place], &target.gate);
    let most = PATIENCE.max(gate.node_timeout * STEPS);
    let shown = shown(host);
    let mut commands = Vec::new();
    if let Some(password) = &sentinels.password {
        let mut auth = redis::cmd("AUTH");
        if let Some(user) = &sentinels.user {
            auth.arg(user);
        }
        commands.push(auth.arg(password).take());
    }
    commands.push(command);
    let work = async {
        let stream = target.dial.dial(host).await.map_err(|undialled| {
            let (DialError::Refused(fault) | DialError::Other(fault)) = undialled;
            fault
        })?;
        let mut wire = Wire::new(stream, gate.inbox.clone(), gate.clock.clone());
        let replies = exchange(&mut wire, &commands).await?;
        Ok((wire, replies))
    };
    let said = within(&gate.clock, most, work).await;
    let (wire, replies) = said.map_err(|fault| {
        let text = format!("the sentinel {shown} is not reached: {}", fault.text);
        fault.with_text(text)
    })?;
    let mut last = Resp::Nil;
    for reply in replies {
        if let Resp::ServerError(error) = &reply {
            return Err(refusal(&shown, error));
        }
        last = reply;
    }
    Ok((wire, last))
}

/// What a sentinel's error means.
fn refusal(shown: &str, error: &redis::ServerError) -> Fault {
    let Fault {
        cause, text: said, ..
    } = server_error::fault_of(error.code(), error.details());
    let why = match error.code() {
        "NOAUTH" | "WRONGPASS" | "NOPERM" => format!(
            "the sentinel {shown} wants another user or password: write them into the URL, \
             ?sentinel_user=…&sentinel_password=… ({said})"
        ),
        _ => format!("the sentinel {shown} does not serve as one: {said}"),
    };
    Fault::new(FaultKind::Misconfigured, why, false).because(cause)
}

fn no_sentinel(sentinels: &Sentinels, place: usize) -> Fault {
    let shown = shown(&sentinels.hosts[place]);
    let why = format!("{shown} answers as no sentinel does: is it one?");
    Fault::new(FaultKind::Misconfigured, why, false)
}
