//! The Lua scripts and their replies. The tables of KEYS, ARGV and replies
//! are in docs/PROTOCOL.md; this file and that page change together.
//!
//! A reply is a code, alone or at the head of an array. Names and tokens
//! travel as KEYS and ARGV, never as Lua text. On an uncontended node a script
//! makes as few calls as there can be: each costs the server about as much as
//! all the rest of a request.

use std::sync::Arc;
use std::time::Duration;

use once_cell::sync::Lazy;
use redis::Value as Resp;

use super::resp::{self, Decimal};
use super::{Fault, FaultKind, Op, Repair, Reply, Request, Waiter};

/// A script: its text, and the hash by which the node knows it.
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) sha: Lazy<String>,
}

macro_rules! script {
    ($($file:literal),+) => {
        Script {
            text: concat!($(include_str!(concat!("lua/", $file))),+),
            sha: Lazy::new(|| sha1_hex(concat!($(include_str!(concat!("lua/", $file))),+))),
        }
    };
}

/// Vote for a token, and fence it; queue its waiter.
pub(crate) static ACQUIRE: Script = script!("line.lua", "acquire.lua");
/// Keep a vote; repair it; store a fence.
pub(crate) static EXTEND: Script = script!("extend.lua");
/// Take a vote back; reserve for the next in line.
pub(crate) static RELEASE: Script = script!("line.lua", "release.lua");
/// Replace a node's record, if it is still the one that was read.
pub(crate) static INIT: Script = script!("init.lua");
/// Find out which command is not permitted.
pub(crate) static TRY: Script = script!("try.lua");

/// The scripts of normal work, to be loaded on connect.
pub(crate) static ALL: [&Script; 3] = [&ACQUIRE, &EXTEND, &RELEASE];

/// Stands for "at any time" where a script compares the node's `TIME`.
const ANY_TIME: u64 = (1 << 53) - 1;

/// What a connection adds to the requests of a guarded set.
#[derive(Clone)]
pub(crate) struct Guard {
    /// The record that the node must hold.
    pub(crate) record: Arc<str>,
    /// Its key.
    pub(crate) record_key: Arc<[u8]>,
    /// The key of the quarantine.
    pub(crate) quarantine_key: Arc<[u8]>,
}

/// Appends the command for a request to `out`: `EVALSHA`, or `EVAL` with the
/// script's text for a node that has forgotten it. What neither guard nor
/// fences need is left out from the end.
pub(crate) fn write_command(
    out: &mut Vec<u8>,
    request: &Request,
    guard: Option<&Guard>,
    with_text: bool,
) {
    let (script, own, fence) = match request.op {
        Op::Acquire { candidate, .. } => (&ACQUIRE, 4, candidate),
        Op::Extend { fence, .. } | Op::Confirm { fence, .. } => (&EXTEND, 3, fence),
        Op::Release => (&RELEASE, 3, 0),
    };
    let release = request.op == Op::Release;
    let counter = request.keys.counter().filter(|_| !release);
    let plain = guard.is_none() && counter.is_none();
    let block = match request.op {
        Op::Acquire { block, .. } if block > 1 && counter.is_some() => Some(block),
        _ => None,
    };
    // A release minds the record only, and no counter.
    let (keys, more) = match (plain, release) {
        (true, _) => (3, 0),
        (false, true) => (5, 1),
        (false, false) => (4 + 2 * usize::from(guard.is_some()), 4),
    };
    resp::write_array(out, 3 + keys + own + more + usize::from(block.is_some()));
    if with_text {
        resp::write_text(out, b"EVAL");
        resp::write_text(out, script.text.as_bytes());
    } else {
        resp::write_text(out, b"EVALSHA");
        resp::write_text(out, script.sha.as_bytes());
    }
    resp::write_number(out, keys as u64);
    resp::write_text(out, &request.keys.lock);
    resp::write_text(out, request.keys.companions.queue());
    resp::write_text(out, request.keys.companions.reservation());
    if !plain && !release {
        // Without fences the place is kept by a key of the same lock.
        resp::write_text(out, counter.map_or(&request.keys.lock, |(key, _)| key));
    }
    if let Some(guard) = guard {
        resp::write_text(out, &guard.record_key);
        resp::write_text(out, &guard.quarantine_key);
    }
    resp::write_text(out, &request.value.0);
    write_own(out, request);
    if plain {
        return;
    }
    resp::write_text(out, guard.map_or(b"", |g| g.record.as_bytes()));
    if release {
        return;
    }
    resp::write_number(
        out,
        match request.not_after {
            0 => ANY_TIME,
            time => time.min(ANY_TIME),
        },
    );
    match counter {
        Some((_, ttl)) => {
            resp::write_number(out, fence);
            resp::write_number(out, millis(ttl));
        }
        None => {
            resp::write_text(out, b"");
            resp::write_text(out, b"");
        }
    }
    if let Some(block) = block {
        resp::write_number(out, block.into());
    }
}

/// The arguments of each script behind the value and before what all share.
fn write_own(out: &mut Vec<u8>, request: &Request) {
    let waits = request.keys.waits;
    let reservation = millis(waits.reservation);
    match request.op {
        Op::Acquire { ttl, home, .. } => {
            resp::write_number(out, millis(ttl));
            if home && request.waiter.is_some() {
                let texts = [reservation, millis(waits.place), waits.most as u64].map(Decimal::of);
                let [reservation, place, most] = texts.each_ref().map(Decimal::text);
                resp::write_parts(out, &[reservation, b" ", place, b" ", most]);
            } else {
                resp::write_number(out, reservation);
            }
            write_waiter(out, request.waiter.as_ref());
        }
        Op::Extend { ttl, repair, .. } => {
            resp::write_number(out, millis(ttl));
            let mode = match repair {
                Repair::No => 0,
                Repair::Yes => 1,
                Repair::InQuarantine { .. } => 2,
            };
            resp::write_number(out, mode);
        }
        Op::Confirm { ttl, .. } => {
            resp::write_number(out, millis(ttl));
            resp::write_number(out, 3);
        }
        Op::Release => {
            write_waiter(out, request.waiter.as_ref());
            resp::write_number(out, reservation);
        }
    }
}

/// The number, a blank, the inbox; empty for none.
fn write_waiter(out: &mut Vec<u8>, waiter: Option<&Waiter>) {
    match waiter {
        Some(waiter) => {
            let number = Decimal::of(waiter.number);
            resp::write_parts(out, &[number.text(), b" ", &waiter.inbox]);
        }
        None => resp::write_text(out, b""),
    }
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// What a node said to a request.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// A reply, and the node's `TIME` in µs where it told.
    Reply(Reply, Option<u64>),
    /// The node does not know the script.
    NoScript,
    /// The node holds another record than the one it was admitted with: it may
    /// have lost its memory.
    OtherRecord,
}

/// Reads a reply. Anything unexpected is a fault, never a vote.
pub(crate) fn outcome(op: Op, value: &Resp) -> Outcome {
    let (code, more) = match value {
        Resp::Int(code) => (*code, &[][..]),
        Resp::Array(parts) => match parts.split_first() {
            Some((Resp::Int(code), more)) => (*code, more),
            _ => (-1, &[][..]),
        },
        Resp::ServerError(error) if error.code() == "NOSCRIPT" => return Outcome::NoScript,
        Resp::ServerError(error) => {
            let fault = fault_of(error.code(), error.details());
            return Outcome::Reply(Reply::Failed(fault), None);
        }
        _ => (-1, &[][..]),
    };
    let (reply, rest) = match (op, code, more) {
        (Op::Acquire { .. }, 1, []) => (Some(Reply::Granted { fence: 0 }), more),
        (Op::Acquire { .. }, 1, [f, rest @ ..]) => {
            (fence(f).map(|fence| Reply::Granted { fence }), rest)
        }
        (Op::Acquire { .. }, 0, [left, holder, place, subscribers, rest @ ..]) => {
            (refused([left, holder, place, subscribers]), rest)
        }
        (Op::Extend { .. }, 1 | 2, _) => {
            let repaired = code == 2;
            (
                Some(Reply::Extended { repaired }),
                more.get(1..).unwrap_or_default(),
            )
        }
        (Op::Confirm { .. }, 1, _) => (Some(Reply::Confirmed), more.get(1..).unwrap_or_default()),
        (Op::Confirm { .. }, 6, [f, rest @ ..]) => {
            (fence(f).map(|fence| Reply::Greater { fence }), rest)
        }
        (Op::Extend { .. } | Op::Confirm { .. }, 0, _) => (Some(Reply::NotMine), more),
        (Op::Acquire { .. } | Op::Extend { .. }, 3, [Resp::Int(left), rest @ ..]) => {
            let left = Duration::from_millis(u64::try_from(*left).unwrap_or(0));
            (Some(Reply::Quarantined { left }), rest)
        }
        (Op::Release, 0 | 1, _) => (Some(Reply::Released { held: code == 1 }), more),
        (_, 4, _) if op != Op::Release => return Outcome::OtherRecord,
        (_, 5, _) if op != Op::Release => (Some(Reply::Late), more),
        _ => (None, more),
    };
    match reply {
        Some(reply) => Outcome::Reply(reply, time(rest)),
        None => Outcome::Reply(Reply::Failed(unexpected()), None),
    }
}

/// Another holds the lock, or it is reserved for another.
fn refused(parts: [&Resp; 4]) -> Option<Reply> {
    let [
        Resp::Int(left),
        Resp::BulkString(holder),
        Resp::Int(place),
        Resp::Int(subscribers),
    ] = parts
    else {
        return None;
    };
    Some(Reply::Refused {
        left: u64::try_from(*left).ok().map(Duration::from_millis),
        holder: (!holder.is_empty()).then(|| holder.escape_ascii().to_string().into()),
        place: u32::try_from(*place).ok(),
        subscribers: u32::try_from(*subscribers).ok()?,
    })
}

/// The init script: replace the record if it is `old` (empty: none), and begin
/// a quarantine. `keys`: those of the record and of the quarantine.
pub(crate) fn init_command(
    keys: [&[u8]; 2],
    old: &str,
    new: &str,
    quarantine: Duration,
) -> redis::Cmd {
    redis::cmd("EVAL")
        .arg(INIT.text)
        .arg(2)
        .arg(keys[0])
        .arg(keys[1])
        .arg(old)
        .arg(new)
        .arg(millis(quarantine))
        .take()
}

/// What it answers: nothing if the record was replaced, else what it is.
pub(crate) fn init_outcome(reply: &Resp) -> Result<Option<String>, Fault> {
    match reply {
        Resp::Array(parts) => match &parts[..] {
            [Resp::Int(1), ..] => Ok(None),
            [Resp::Int(0), other] => Ok(Some(text(other))),
            _ => Err(unexpected()),
        },
        _ => Err(unexpected()),
    }
}

/// A reply that is a text; anything else is an empty one.
pub(crate) fn text(reply: &Resp) -> String {
    match reply {
        Resp::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Resp::SimpleString(text) | Resp::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    }
}

/// A fence as the scripts write it: a decimal below 2^53, empty for none.
fn fence(value: &Resp) -> Option<u64> {
    match value {
        Resp::BulkString(digits) if digits.is_empty() => Some(0),
        Resp::BulkString(digits) => number(digits).filter(|f| *f <= ANY_TIME),
        _ => None,
    }
}

/// `TIME` as the server gives it: seconds and µs.
pub(crate) fn time(rest: &[Resp]) -> Option<u64> {
    match rest {
        [Resp::BulkString(seconds), Resp::BulkString(micros), ..] => number(seconds)?
            .checked_mul(1_000_000)?
            .checked_add(number(micros)?),
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

pub(crate) fn unexpected() -> Fault {
    let text = "a reply that no script of protocol 1 gives: is this a Redis or Valkey server?";
    Fault::new(FaultKind::Misconfigured, text, true)
}

/// Whether an error says that a command is not there for us.
pub(crate) fn forbidden(error: &redis::ServerError) -> bool {
    let unknown = |text: &str| text.contains("unknown command");
    error.code() == "NOPERM" || error.details().is_some_and(unknown)
}

/// What to tell of a command that is not permitted.
pub(crate) fn lacks(command: &str) -> String {
    format!("its user lacks the permission to run `{command}`: add `+{command}` to its ACL")
}

/// An error's code and text, without where in a script it came up. Redis before
/// 7.0 has a code behind that place, and then with a dash.
fn beyond_place<'a>(code: &'a str, detail: &'a str) -> (&'a str, &'a str) {
    if let Some((said, place)) = detail.rsplit_once(" script: ")
        && place.contains("on @user_script:")
    {
        return (code, said);
    }
    let place = detail.strip_prefix("Error running script ");
    let place = place.and_then(|place| place.rsplit_once("@user_script:"));
    let Some((_, said)) = place.and_then(|(_, line)| line.split_once(": ")) else {
        return (code, detail);
    };
    let said = said.strip_prefix('-').unwrap_or(said);
    match said.split_once(' ') {
        Some((inner, said)) if inner.bytes().all(|b| b.is_ascii_uppercase()) => (inner, said),
        _ => (code, said),
    }
}

/// A server's error, sorted by what can be done about it.
pub(crate) fn fault_of(code: &str, detail: Option<&str>) -> Fault {
    let (code, detail) = beyond_place(code, detail.unwrap_or_default());
    let kind = match code {
        "NOAUTH" | "WRONGPASS" | "NOPERM" | "NOPROTO" | "DENIED" | "WRONGTYPE" => {
            FaultKind::Misconfigured
        }
        // Other codes name a state of the server: LOADING, OOM, READONLY,
        // BUSY, MISCONF, MASTERDOWN, NOREPLICAS, CLUSTERDOWN, …
        _ => FaultKind::NotReady,
    };
    let kind = match (code, detail) {
        // Errors of the connection's set-up have no code of their own.
        ("ERR", text)
            if text.contains("AUTH")
                || text.contains("DB index")
                || text.contains("unknown command")
                // What a script may not do has none either; on Redis 8 and Valkey
                // it begins alike.
                || text.starts_with("ACL failure in script")
                || text.contains("can't run this command")
                || text.contains("can't access at least one of the keys") =>
        {
            FaultKind::Misconfigured
        }
        _ => kind,
    };
    if code == "NOPERM" && detail.contains("'evalsha'") {
        return Fault::new(kind, lacks("evalsha"), true);
    }
    let mut text = format!("{code} {detail}").trim_end().to_owned();
    if code == "WRONGTYPE" {
        text = "the key holds a value that is no lock: delete it, or choose another name".into();
    }
    if text.len() > 200 {
        let cut = (0..=200).rev().find(|i| text.is_char_boundary(*i));
        text.truncate(cut.unwrap_or(0));
        text.push('…');
    }
    Fault::new(kind, text, true)
}

/// SHA-1 in hex, as `EVALSHA` wants it.
fn sha1_hex(text: &str) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::parse_redis_value;

    const TTL: Duration = Duration::from_secs(1);
    const ACQUIRE: Op = Op::Acquire {
        ttl: TTL,
        candidate: 0,
        home: true,
        block: 1,
    };
    const EXTEND: Op = Op::Extend {
        ttl: TTL,
        repair: Repair::Yes,
        fence: 0,
    };
    const CONFIRM: Op = Op::Confirm { ttl: TTL, fence: 7 };

    fn reply(op: Op, wire: &str) -> (Reply, Option<u64>) {
        match outcome(op, &parse_redis_value(wire.as_bytes()).unwrap()) {
            Outcome::Reply(reply, time) => (reply, time),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn replies_are_read() {
        let refused = |left, holder: Option<&str>, place| Reply::Refused {
            left,
            holder: holder.map(Into::into),
            place,
            subscribers: 1,
        };
        const TIME: &str = "$2\r\n12\r\n$1\r\n7\r\n";
        for (op, wire, expected) in [
            (ACQUIRE, ":1\r\n", Reply::Granted { fence: 0 }),
            (
                ACQUIRE,
                "*2\r\n:1\r\n$1\r\n5\r\n",
                Reply::Granted { fence: 5 },
            ),
            (
                ACQUIRE,
                "*2\r\n:1\r\n$0\r\n\r\n",
                Reply::Granted { fence: 0 },
            ),
            (
                ACQUIRE,
                "*5\r\n:0\r\n:1500\r\n$3\r\nh:1\r\n:-1\r\n:1\r\n",
                refused(Some(Duration::from_millis(1500)), Some("h:1"), None),
            ),
            (
                ACQUIRE,
                "*5\r\n:0\r\n:-1\r\n$0\r\n\r\n:7\r\n:1\r\n",
                refused(None, None, Some(7)),
            ),
            (
                ACQUIRE,
                "*2\r\n:3\r\n:9\r\n",
                Reply::Quarantined {
                    left: Duration::from_millis(9),
                },
            ),
            (EXTEND, ":0\r\n", Reply::NotMine),
            (EXTEND, ":1\r\n", Reply::Extended { repaired: false }),
            (EXTEND, "*1\r\n:2\r\n", Reply::Extended { repaired: true }),
            (CONFIRM, "*2\r\n:1\r\n$1\r\n7\r\n", Reply::Confirmed),
            (
                CONFIRM,
                "*2\r\n:6\r\n$1\r\n9\r\n",
                Reply::Greater { fence: 9 },
            ),
            (CONFIRM, "*1\r\n:0\r\n", Reply::NotMine),
            (Op::Release, ":1\r\n", Reply::Released { held: true }),
            (Op::Release, ":0\r\n", Reply::Released { held: false }),
        ] {
            assert_eq!(reply(op, wire), (expected, None), "{wire:?}");
        }
        for (op, wire) in [
            (ACQUIRE, format!("*4\r\n:1\r\n$1\r\n5\r\n{TIME}")),
            (
                ACQUIRE,
                format!("*7\r\n:0\r\n:1\r\n$0\r\n\r\n:-1\r\n:1\r\n{TIME}"),
            ),
            (ACQUIRE, format!("*3\r\n:5\r\n{TIME}")),
            (ACQUIRE, format!("*4\r\n:3\r\n:9\r\n{TIME}")),
            (EXTEND, format!("*4\r\n:1\r\n$1\r\n5\r\n{TIME}")),
            (EXTEND, format!("*3\r\n:0\r\n{TIME}")),
            (CONFIRM, format!("*4\r\n:6\r\n$1\r\n9\r\n{TIME}")),
        ] {
            assert_eq!(reply(op, &wire).1, Some(12_000_007), "{wire:?}");
        }
        let other = parse_redis_value(b"*3\r\n:4\r\n$1\r\n1\r\n$1\r\n1\r\n").unwrap();
        assert_eq!(outcome(ACQUIRE, &other), Outcome::OtherRecord);
    }

    #[test]
    fn nothing_unexpected_is_a_vote() {
        for wire in [
            "*0\r\n",
            ":7\r\n",
            "+OK\r\n",
            "$-1\r\n",
            "*1\r\n:7\r\n",
            "*1\r\n$1\r\n1\r\n",
        ] {
            for op in [ACQUIRE, EXTEND, CONFIRM, Op::Release] {
                assert!(
                    matches!(reply(op, wire).0, Reply::Failed(_)),
                    "{wire:?} {op:?}"
                );
            }
        }
        for wire in [
            "*2\r\n:1\r\n$17\r\n90071992547409920\r\n",
            "*3\r\n:0\r\n:1\r\n$0\r\n\r\n",
            "*5\r\n:0\r\n:1\r\n$0\r\n\r\n:0\r\n:-1\r\n",
        ] {
            assert!(
                matches!(reply(ACQUIRE, wire).0, Reply::Failed(_)),
                "{wire:?}"
            );
        }
    }

    #[test]
    fn server_errors_are_sorted() {
        for (wire, kind) in [
            ("-OOM command not allowed", FaultKind::NotReady),
            ("-READONLY no", FaultKind::NotReady),
            ("-LOADING soon", FaultKind::NotReady),
            ("-NOPERM no", FaultKind::Misconfigured),
            ("-NOAUTH no", FaultKind::Misconfigured),
            ("-ERR DB index is out of range", FaultKind::Misconfigured),
            ("-WRONGTYPE x", FaultKind::Misconfigured),
            // Within a script: Redis 6.2, 7.0, 8.2 and Valkey 9.1.
            (
                "-ERR Error running script (call to f_5a): @user_script:9: WRONGTYPE x",
                FaultKind::Misconfigured,
            ),
            (
                "-ERR Error running script (call to f_5a): @user_script:9: @user_script: 9: -OOM x",
                FaultKind::NotReady,
            ),
            (
                "-ERR Error running script (call to f_5a): @user_script:9: @user_script: 9: \
                 The user executing the script can't run this command or subcommand",
                FaultKind::Misconfigured,
            ),
            (
                "-ERR The user executing the script can't run this command script: 5a, on @user_script:9.",
                FaultKind::Misconfigured,
            ),
            (
                "-ERR ACL failure in script: User u has no permissions to run the 'set' command \
                 script: 5a, on @user_script:9.",
                FaultKind::Misconfigured,
            ),
        ] {
            match reply(ACQUIRE, &format!("{wire}\r\n")).0 {
                Reply::Failed(fault) => {
                    assert_eq!(fault.kind, kind, "{wire}");
                    assert!(!fault.text.contains("user_script"), "{}", fault.text);
                }
                other => panic!("{wire}: {other:?}"),
            }
        }
    }
}
