//! Doors to the bytes that go to a node and come back, for the comparison of the memory node with a
//! real one (tests/model) and for the fuzzer (tests/fuzz). Each calls what a connection calls.

pub mod link;
pub mod pushes;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::parse_redis_value;

use crate::client::ClientBuilder;
use crate::config::defaults;
use crate::error::Error;
use crate::node::address::{Address, Endpoint, Origin};
use crate::node::admission::QuarantineCause;
use crate::node::redis::replies::{self, RequestOutcome};
use crate::node::redis::{hashed, map, resp, script};
use crate::node::{Op, Reply, Request, names};

/// What a node said to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum ProbeReply {
    /// A reply, and the node's `TIME` in µs where the reply has it.
    Reply(Reply, Option<u64>),
    /// It does not know the script.
    NoScript,
    /// It holds another record.
    OtherRecord,
}

/// The texts of the scripts, with the hash under which a node is asked for
/// each.
pub fn scripts() -> [(&'static str, &'static str, &'static str); 13] {
    let named = |name, script: &'static script::Script| (name, &**script.text, &**script.sha);
    [
        named("acquire", &script::ACQUIRE),
        named("extend", &script::EXTEND),
        named("release", &script::RELEASE),
        named("lean", &script::COMPARE_AND_DELETE),
        named("inspect", &script::INSPECT),
        named("share", &script::SHARE),
        named("share_extend", &script::SHARE_EXTEND),
        named("reserve", &script::RESERVE),
        named("choose", &script::CHOOSE),
        named("adopt", &script::ADOPT),
        named("hacquire", &script::HACQUIRE),
        named("hextend", &script::HEXTEND),
        named("hrelease", &script::HRELEASE),
    ]
}

/// The hash slot of a key.
pub fn hash_slot(key: &[u8]) -> u16 {
    crate::node::hash_slot::of(key)
}

/// The text of the script of one key that lengthens a vote, and its hash.
pub fn prolong() -> (&'static str, &'static str) {
    (&script::PROLONG.text, &script::PROLONG.sha)
}

/// The text of the init script.
pub fn init_text() -> &'static str {
    &script::INIT.text
}

/// The text of the script that tries permissions.
pub fn try_text() -> &'static str {
    &script::TRY.text
}

/// A request as it is sent to a script; `record`: what the node must hold; `cold`:
/// the counter's life goes along in an acquire.
pub fn command(
    request: &Request,
    namespace: &str,
    record: Option<Arc<str>>,
    cold: bool,
) -> Vec<u8> {
    let guard = record.map(|record| script::Guard {
        record,
        record_key: names::record_key(namespace).into(),
        quarantine_key: names::quarantine_key(namespace).into(),
        shard: false,
    });
    let mut out = Vec::new();
    if hashed::is_meant(request) {
        hashed::write_command(&mut out, request, guard.as_ref(), false, false)
    } else {
        script::write_command(&mut out, request, guard.as_ref(), false, cold)
    }
    out
}

/// The init script's call as it is sent.
pub fn init_command(namespace: &str, old: &str, new: &str, quarantine: Duration) -> Vec<u8> {
    let keys = [
        &names::record_key(namespace)[..],
        &names::quarantine_key(namespace),
    ];
    script::init_command(keys, old, new, (quarantine, QuarantineCause::New.word()))
        .get_packed_command()
}

/// The answer to a request at the start of `bytes`, and its length; `None` if
/// not all of it has arrived.
pub fn read(op: Op, bytes: &[u8]) -> io::Result<Option<(ProbeReply, usize)>> {
    let Some((reply, end)) = resp::reply(bytes)? else {
        return Ok(None);
    };
    let said = match replies::outcome(op, &reply) {
        RequestOutcome::Reply(reply, time) => ProbeReply::Reply(reply, time),
        RequestOutcome::Demoted(fault) | RequestOutcome::Elsewhere(_, fault) => {
            ProbeReply::Reply(Reply::Failed(fault), None)
        }
        RequestOutcome::NoScript => ProbeReply::NoScript,
        RequestOutcome::OtherRecord => ProbeReply::OtherRecord,
        RequestOutcome::AskByScript => unreachable!("a script was asked"),
    };
    Ok(Some((said, end)))
}

/// Whether the reply at the start of `bytes` is read as redis-rs reads it.
pub fn read_alike(bytes: &[u8]) -> bool {
    match resp::reply(bytes) {
        Ok(Some((reply, end))) => {
            // Not a number is not equal to itself.
            let theirs = parse_redis_value(&bytes[..end]).map(|theirs| format!("{theirs:?}"));
            theirs.is_ok_and(|theirs| theirs == format!("{reply:?}"))
        }
        _ => true,
    }
}

/// What the init script answered, and the length of that: whether the record
/// was replaced, or what it is; `None` if not all of it has arrived.
pub fn read_init(bytes: &[u8]) -> io::Result<Option<(Result<(), String>, usize)>> {
    let Some((reply, end)) = resp::reply(bytes)? else {
        return Ok(None);
    };
    match replies::init_outcome(&reply) {
        Ok(other) => Ok(Some((other.map_or(Ok(()), Err), end))),
        Err(fault) => Err(io::Error::other(fault.text.to_string())),
    }
}

/// The ranges of hash slots in the map of a cluster at the start of `bytes`, the hash slots that
/// the server `a` serves by it, and those that are being moved to the server whose text it is;
/// nothing where it is refused.
pub fn read_map(bytes: &[u8]) -> (Vec<(u16, u16)>, Vec<u16>, Vec<u16>) {
    let Ok(Some((reply, _))) = resp::reply(bytes) else {
        return Default::default();
    };
    let asked = Endpoint::Tcp {
        host: "asked".into(),
        port: 1,
        tls: false,
    };
    let ranges = map::read(&reply, &asked).unwrap_or_default();
    (
        ranges
            .iter()
            .map(|range| (range.first, range.last))
            .collect(),
        map::own(&reply, "a").unwrap_or_default(),
        map::arriving(&replies::text(&reply)),
    )
}

/// Options of a client for which no node is named, if `url` were the default.
pub fn unnamed(url: &str) -> ClientBuilder {
    let origin = Origin::Default(defaults::NODES_VARIABLE);
    let mut builder = ClientBuilder::default();
    builder.nodes = Some((vec![url.to_owned()], origin));
    builder
}

/// A node's URL as it is shown, or why it is refused.
pub fn address(index: usize, url: &str) -> Result<Arc<str>, Error> {
    Address::parse(index, url, Origin::Caller).map(|address| address.shown)
}
