//! The Lua scripts and their replies. The tables of KEYS, ARGV and replies
//! are in docs/PROTOCOL.md; this file and that page change together.
//!
//! A reply is a code, alone or at the head of an array. Names and tokens
//! travel as KEYS and ARGV, never as Lua text. On an uncontended node a script
//! makes as few calls as there can be: each costs the server about as much as
//! all the rest of a request.

use std::time::Duration;

use once_cell::sync::Lazy;
use redis::Value as Resp;

use super::{Fault, FaultKind, Op, Reply, Request, wire};

/// A script: its text, and the hash by which the node knows it.
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) sha: Lazy<String>,
}

macro_rules! script {
    ($text:expr) => {
        Script {
            text: $text,
            sha: Lazy::new(|| sha1_hex($text)),
        }
    };
}

/// KEYS lock; ARGV value, ttl.
pub(crate) static ACQUIRE: Script = script!(
    "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
local v = redis.call('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
if v == ARGV[1] then
  if left < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return 1
end
return {0, left, string.match(v, '^%x+%.(.*)$') or ''}"
);

/// KEYS lock; ARGV value, ttl, 1 to repair.
pub(crate) static EXTEND: Script = script!(
    "local v = redis.call('GET', KEYS[1])
if v == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return 1
end
if not v and ARGV[3] == '1' then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 2
end
return 0"
);

/// KEYS lock; ARGV value.
pub(crate) static RELEASE: Script = script!(
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0"
);

/// All scripts, to be loaded on connect.
pub(crate) static ALL: [&Script; 3] = [&ACQUIRE, &EXTEND, &RELEASE];

/// Appends the command for a request to `out`: `EVALSHA`, or `EVAL` with the
/// script's text for a node that has forgotten it.
pub(crate) fn write_command(out: &mut Vec<u8>, request: &Request, with_text: bool) {
    let (script, ttl, repair) = match request.op {
        Op::Acquire { ttl } => (&ACQUIRE, Some(ttl), None),
        Op::Extend { ttl, repair } => (&EXTEND, Some(ttl), Some(repair)),
        Op::Release => (&RELEASE, None, None),
    };
    let arguments = usize::from(ttl.is_some()) + usize::from(repair.is_some());
    wire::write_array(out, 5 + arguments);
    if with_text {
        wire::write_text(out, b"EVAL");
        wire::write_text(out, script.text.as_bytes());
    } else {
        wire::write_text(out, b"EVALSHA");
        wire::write_text(out, script.sha.as_bytes());
    }
    wire::write_text(out, b"1");
    wire::write_text(out, &request.key);
    wire::write_text(out, &request.value.0);
    if let Some(ttl) = ttl {
        wire::write_number(out, u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    }
    if let Some(repair) = repair {
        wire::write_number(out, u64::from(repair));
    }
}

/// What a node said to a request.
pub(crate) enum Outcome {
    Reply(Reply),
    /// The node does not know the script.
    NoScript,
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
            return Outcome::Reply(Reply::Failed(fault_of(error.code(), error.details())));
        }
        _ => (-1, &[][..]),
    };
    let reply = match (op, code, more) {
        (Op::Acquire { .. }, 1, _) => Reply::Granted,
        (Op::Acquire { .. }, 0, [Resp::Int(left), Resp::BulkString(holder), ..]) => {
            Reply::Refused {
                left: u64::try_from(*left).ok().map(Duration::from_millis),
                holder: (!holder.is_empty()).then(|| holder.escape_ascii().to_string().into()),
            }
        }
        (Op::Extend { .. }, 1 | 2, _) => Reply::Extended {
            repaired: code == 2,
        },
        (Op::Extend { .. }, 0, _) => Reply::NotMine,
        (Op::Release, 0 | 1, _) => Reply::Released { held: code == 1 },
        _ => Reply::Failed(Fault::new(
            FaultKind::Misconfigured,
            "a reply that no script of protocol 1 gives: is this a Redis or Valkey server?",
            true,
        )),
    };
    Outcome::Reply(reply)
}

/// A server's error, sorted by what can be done about it.
pub(crate) fn fault_of(code: &str, detail: Option<&str>) -> Fault {
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
        ("ERR", Some(text))
            if text.contains("AUTH")
                || text.contains("DB index")
                || text.contains("unknown command") =>
        {
            FaultKind::Misconfigured
        }
        _ => kind,
    };
    let detail = detail.unwrap_or_default();
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

    const ACQUIRE: Op = Op::Acquire {
        ttl: Duration::from_secs(1),
    };
    const EXTEND: Op = Op::Extend {
        ttl: Duration::from_secs(1),
        repair: true,
    };

    fn reply(op: Op, wire: &str) -> Reply {
        match outcome(op, &parse_redis_value(wire.as_bytes()).unwrap()) {
            Outcome::Reply(reply) => reply,
            Outcome::NoScript => panic!("NOSCRIPT"),
        }
    }

    #[test]
    fn replies_are_read() {
        for (op, wire, expected) in [
            (ACQUIRE, ":1\r\n", Reply::Granted),
            (ACQUIRE, "*2\r\n:1\r\n:5\r\n", Reply::Granted),
            (
                ACQUIRE,
                "*3\r\n:0\r\n:1500\r\n$3\r\nh:1\r\n",
                Reply::Refused {
                    left: Some(Duration::from_millis(1500)),
                    holder: Some("h:1".into()),
                },
            ),
            (
                ACQUIRE,
                "*4\r\n:0\r\n:-1\r\n$0\r\n\r\n:9\r\n",
                Reply::Refused {
                    left: None,
                    holder: None,
                },
            ),
            (EXTEND, ":0\r\n", Reply::NotMine),
            (EXTEND, ":1\r\n", Reply::Extended { repaired: false }),
            (EXTEND, "*1\r\n:2\r\n", Reply::Extended { repaired: true }),
            (Op::Release, ":1\r\n", Reply::Released { held: true }),
            (Op::Release, ":0\r\n", Reply::Released { held: false }),
        ] {
            assert_eq!(reply(op, wire), expected, "{wire:?}");
        }
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
            for op in [ACQUIRE, EXTEND, Op::Release] {
                assert!(
                    matches!(reply(op, wire), Reply::Failed(_)),
                    "{wire:?} {op:?}"
                );
            }
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
        ] {
            match reply(ACQUIRE, &format!("{wire}\r\n")) {
                Reply::Failed(fault) => assert_eq!(fault.kind, kind, "{wire}"),
                other => panic!("{wire}: {other:?}"),
            }
        }
    }
}
