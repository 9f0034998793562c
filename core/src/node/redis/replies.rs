//! What the scripts answer. The tables of replies are in docs/reference/protocol.md; this
//! file and that page change together.
//!
//! A reply is a code, alone or at the head of an array.

use std::time::Duration;

use redis::Value as Resp;

use super::resp::number;
use super::server_error::{Redirect, demoted, fault_of, redirect};
use crate::foreign;
use crate::node::{Cause, Fault, FaultKind, LockState, Op, Reply, Standing, Value, native};

/// The largest fence: beyond it Lua's numbers are not exact.
const LARGEST: u64 = (1 << 53) - 1;

/// What a node said to a request.
#[derive(Debug, PartialEq)]
pub(crate) enum RequestOutcome {
    /// A reply, and the node's `TIME` in µs where the reply has it.
    Reply(Reply, Option<u64>),
    /// The node does not know the script.
    NoScript,
    /// The server may not write any more: it has become a replica.
    Demoted(Fault),
    /// The server is of a cluster, and does not serve the request.
    Elsewhere(Redirect, Fault),
    /// The node holds another record than the one it was admitted with: it may
    /// have lost its memory.
    OtherRecord,
    /// Plain commands have not decided it.
    AskByScript,
}

/// Reads a reply. Anything unexpected is a fault, never a vote.
pub(crate) fn outcome(op: Op, value: &Resp) -> RequestOutcome {
    let (code, more) = match value {
        Resp::Int(code) => (*code, &[][..]),
        Resp::Array(parts) => match parts.split_first() {
            Some((Resp::Int(code), more)) => (*code, more),
            _ => (-1, &[][..]),
        },
        _ if is_forgotten(value) => return RequestOutcome::NoScript,
        Resp::ServerError(error) => {
            let fault = fault_of(error.code(), error.details());
            if demoted(error) {
                return RequestOutcome::Demoted(fault);
            }
            if let Some(redirect) = redirect(error) {
                return RequestOutcome::Elsewhere(redirect, fault);
            }
            return RequestOutcome::Reply(Reply::Failed(fault), None);
        }
        _ => (-1, &[][..]),
    };
    let (reply, rest) = match (op, code, more) {
        (Op::Acquire { .. }, 1, []) => (Some(granted(0)), more),
        (Op::Acquire { .. }, 1, [f, rest @ ..]) => (fence(f).map(granted), rest),
        (Op::Acquire { .. }, 0, [left, holder, place, subscribers, rest @ ..]) => {
            let shared = matches!(rest, [_, _, Resp::Int(1)]);
            (refused([left, holder, place, subscribers], shared), rest)
        }
        (Op::Acquire { .. }, 2, _) => (Some(Reply::NotMine), more),
        (Op::Acquire { .. }, 9, _) => (Some(Reply::Failed(read_write())), more),
        (Op::Acquire { .. }, 7, [Resp::Int(slot), rest @ ..]) => {
            let slot = u32::try_from(*slot).ok();
            (slot.map(|slot| Reply::Chosen { slot }), rest)
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
        (Op::Extend { .. } | Op::Confirm { .. }, 0, [_, _, Resp::Int(1), ..]) => {
            (Some(Reply::Banned), more)
        }
        (Op::Extend { .. } | Op::Confirm { .. }, 0, _) => (Some(Reply::NotMine), more),
        (Op::Acquire { .. } | Op::Extend { .. }, 3, [Resp::Int(left), rest @ ..]) => {
            let left = Duration::from_millis(u64::try_from(*left).unwrap_or(0));
            (Some(Reply::Quarantined { left }), rest)
        }
        (Op::Release, 0 | 1, _) => (Some(Reply::Released { held: code == 1 }), more),
        (Op::Release, 2, _) => (Some(Reply::Kept), more),
        (Op::Inspect, 8, [stands, left, value, fence, queued, quarantine, rest @ ..]) => {
            let readers = rest.get(2..).unwrap_or_default();
            (
                seen([stands, left, value, fence, queued, quarantine], readers),
                rest,
            )
        }
        (Op::Reserve { .. }, 0 | 1, _) => (Some(Reply::Reserved { done: code == 1 }), more),
        (_, 4, _) if op != Op::Release => return RequestOutcome::OtherRecord,
        (_, 5, _) if op != Op::Release => (Some(Reply::Late), more),
        _ => (None, more),
    };
    match reply {
        Some(reply) => match time(rest) {
            // A server whose clock is beyond [`LATEST`] gives no vote; its answer to a release
            // still counts.
            None if op != Op::Release && told(rest).is_some() => {
                RequestOutcome::Reply(Reply::Failed(no_time(rest)), None)
            }
            time => RequestOutcome::Reply(reply, time),
        },
        None => RequestOutcome::Reply(Reply::Failed(unexpected()), None),
    }
}

/// The script's vote lasts for its ttl.
fn granted(fence: u64) -> Reply {
    Reply::Granted { fence, lasts: None }
}

/// What a native acquire has come to, at a node whose `TIME` was that.
pub(crate) fn of_native(outcome: native::Outcome, time: Option<u64>) -> RequestOutcome {
    match outcome {
        native::Outcome::Reply(reply) => RequestOutcome::Reply(reply, time),
        native::Outcome::OtherRecord => RequestOutcome::OtherRecord,
        native::Outcome::Quarantined => RequestOutcome::AskByScript,
    }
}

/// Whether the node does not know a script that was called.
pub(crate) fn is_forgotten(reply: &Resp) -> bool {
    matches!(reply, Resp::ServerError(error) if error.code() == "NOSCRIPT")
}

/// What an error of the server means that is no answer to a script.
pub(crate) fn fault(error: &redis::ServerError) -> Fault {
    fault_of(error.code(), error.details()).of_lock(false)
}

/// Another value holds the lock, or it is reserved for another waiter.
fn refused(parts: [&Resp; 4], shared: bool) -> Option<Reply> {
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
        holder: (!holder.is_empty()).then(|| foreign::excerpt_of_bytes(holder).into()),
        place: u32::try_from(*place).ok(),
        subscribers: u32::try_from(*subscribers).ok()?,
        shared,
    })
}

/// What a node has of a lock.
fn seen(parts: [&Resp; 6], readers: &[Resp]) -> Option<Reply> {
    let [
        Resp::BulkString(stands),
        Resp::Int(left),
        Resp::BulkString(value),
        counted,
        Resp::Int(queued),
        Resp::Int(quarantine),
    ] = parts
    else {
        return None;
    };
    let left = u64::try_from(*left).ok().map(Duration::from_millis);
    let value = Value(value[..].into());
    let standing = match &stands[..] {
        b"" => Standing::Free,
        b"=" => Standing::Held,
        b"&" => Standing::Shared,
        b"-" => Standing::Kept,
        b"@" => Standing::Reserved,
        // Our values have an end, and only our scripts mark a value.
        b"." if value.is_ours() && left.is_some() => Standing::Held,
        b"." => Standing::Foreign,
        _ => return None,
    };
    let held = !matches!(standing, Standing::Free | Standing::Reserved);
    let Resp::BulkString(counted) = counted else {
        return None;
    };
    let mut counted = counted.splitn(2, |byte| *byte == b' ');
    let mut next = || {
        fence(&Resp::BulkString(
            counted.next().unwrap_or_default().to_vec(),
        ))
    };
    let (counted, own) = (next()?, next()?);
    let [Resp::Int(slots), Resp::Int(readers), sharers @ ..] = readers else {
        return None;
    };
    let sharer = |one: &Resp| match one {
        Resp::BulkString(one) => Some(Value(one[..].into())),
        _ => None,
    };
    Some(Reply::Seen(Box::new(LockState {
        standing,
        left,
        value: held.then_some(value),
        fence: counted,
        own,
        queued: u32::try_from(*queued).ok()?,
        slots: u32::try_from(*slots).ok()?,
        readers: u32::try_from(*readers).ok()?,
        sharers: sharers.iter().map(sharer).collect::<Option<_>>()?,
        quarantine: Duration::from_millis(u64::try_from(*quarantine).unwrap_or(0)),
    })))
}

/// What the init script answers: nothing if the record was replaced, else what it
/// is.
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
        Resp::BulkString(digits) => number(digits).filter(|f| *f <= LARGEST),
        _ => None,
    }
}

/// From which `TIME` on a server gives no vote, in µs: three months before [`LARGEST`], in the year
/// 2255. Fences are counted from the clocks, and beyond it not every language tells them apart.
const LATEST: u64 = (1 << 53) - (1 << 43);

/// The error for a server whose clock is beyond that.
pub(crate) const LATE_CLOCK: &str = "its clock (TIME) is in the year 2255 or later, where fences are no \
     numbers that all languages tell apart: set its clock";

/// `TIME` as the server gives it: seconds and µs. None that is beyond [`LATEST`].
pub(crate) fn time(rest: &[Resp]) -> Option<u64> {
    told(rest).filter(|time| *time < LATEST)
}

/// The fault of a reply without a [`time`].
pub(crate) fn no_time(rest: &[Resp]) -> Fault {
    match told(rest) {
        Some(_) => Fault::new(FaultKind::Misconfigured, LATE_CLOCK, true).because(Cause::LateClock),
        None => unexpected(),
    }
}

fn told(rest: &[Resp]) -> Option<u64> {
    match rest {
        [Resp::BulkString(seconds), Resp::BulkString(micros), ..] => number::<u64>(seconds)?
            .checked_mul(1_000_000)?
            .checked_add(number(micros)?),
        _ => None,
    }
}

/// The lock is one of Redisson's, and of another kind.
fn read_write() -> Fault {
    let text = "the key is that of Redisson's RReadWriteLock, which is no RLock: give the lock \
                another name";
    Fault::new(FaultKind::Misconfigured, text, true).of_lock(true)
}

/// The fault of a reply that is none of ours.
pub(crate) fn unexpected() -> Fault {
    let text = "a reply that no script of protocol 1 gives: is this a Redis or Valkey server?";
    Fault::new(FaultKind::Misconfigured, text, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Repair;
    use redis::parse_redis_value;

    const TTL: Duration = Duration::from_secs(1);
    const ACQUIRE: Op = Op::Acquire {
        ttl: TTL,
        candidate: 0,
        home: true,
        let_in: false,
        block: 1,
    };
    const EXTEND: Op = Op::Extend {
        ttl: TTL,
        repair: Repair::Yes,
        fence: 0,
        behind: 0,
    };
    const CONFIRM: Op = Op::Confirm {
        ttl: TTL,
        fence: 7,
        block: 1,
    };

    fn reply(op: Op, wire: &str) -> (Reply, Option<u64>) {
        match outcome(op, &parse_redis_value(wire.as_bytes()).unwrap()) {
            RequestOutcome::Reply(reply, time) => (reply, time),
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
            shared: false,
        };
        const TIME: &str = "$2\r\n12\r\n$1\r\n7\r\n";
        for (op, wire, expected) in [
            (ACQUIRE, ":1\r\n", granted(0)),
            (ACQUIRE, "*2\r\n:1\r\n$1\r\n5\r\n", granted(5)),
            (ACQUIRE, "*2\r\n:1\r\n$0\r\n\r\n", granted(0)),
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
            (Op::Release, ":2\r\n", Reply::Kept),
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
            (EXTEND, format!("*4\r\n:0\r\n{TIME}:1\r\n")),
            (CONFIRM, format!("*4\r\n:6\r\n$1\r\n9\r\n{TIME}")),
        ] {
            assert_eq!(reply(op, &wire).1, Some(12_000_007), "{wire:?}");
        }
        let banned = format!("*4\r\n:0\r\n{TIME}:1\r\n");
        assert_eq!(reply(EXTEND, &banned).0, Reply::Banned);
        assert_eq!(reply(CONFIRM, &banned).0, Reply::Banned);
        let other = parse_redis_value(b"*3\r\n:4\r\n$1\r\n1\r\n$1\r\n1\r\n").unwrap();
        assert_eq!(outcome(ACQUIRE, &other), RequestOutcome::OtherRecord);
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
    fn a_clock_beyond_the_numbers_of_fences_gives_no_vote() {
        let at = |micros: u64| {
            let (seconds, rest) = (
                (micros / 1_000_000).to_string(),
                (micros % 1_000_000).to_string(),
            );
            format!(
                "${}\r\n{seconds}\r\n${}\r\n{rest}\r\n",
                seconds.len(),
                rest.len()
            )
        };
        let vote = |micros| format!("*4\r\n:1\r\n$1\r\n5\r\n{}", at(micros));
        let refused = |micros| format!("*7\r\n:0\r\n:9\r\n$0\r\n\r\n:-1\r\n:0\r\n{}", at(micros));
        for micros in [LATEST, 1 << 53, u64::MAX / 2] {
            for wire in [vote(micros), refused(micros)] {
                let (said, time) = reply(ACQUIRE, &wire);
                let Reply::Failed(fault) = said else {
                    panic!("{wire}: {said:?}");
                };
                assert_eq!((&*fault.text, time), (LATE_CLOCK, None));
            }
            assert!(matches!(reply(EXTEND, &vote(micros)).0, Reply::Failed(_)));
        }
        let now = 1_700_000_000_000_000;
        assert_eq!(reply(ACQUIRE, &vote(now)), (granted(5), Some(now)));
        let last = LATEST - 1;
        assert_eq!(reply(ACQUIRE, &vote(last)), (granted(5), Some(last)));
    }
}
