//! The plain commands of native requests, and what is answered to each. The tables are in
//! docs/reference/protocol.md; this file and that page change together.

use redis::Value as Resp;

use super::replies;
use super::resp;
use super::script::{self, Guard, millis};
use crate::node::admission::DeleteByValue;
use crate::node::native::{NativeReplies, Trailer};
use crate::node::{Fault, Op, Request};

/// Whether a vote counts only by what the trailer says: there is a record to be minded,
/// or a `TIME` by which fences are counted.
pub(crate) fn needs_trailer(request: &Request, guard: Option<&Guard>) -> bool {
    !script::is_plain(request, guard)
}

/// Appends the commands of a native acquire; returns how many replies they have. `cold`: the
/// counter's expiry has to be set.
pub(crate) fn write_acquire(
    out: &mut Vec<u8>,
    request: &Request,
    guard: Option<&Guard>,
    cold: bool,
) -> u8 {
    let Op::Acquire { ttl, candidate, .. } = request.op else {
        unreachable!("no other op asks for a vote");
    };
    out.extend_from_slice(b"*6\r\n$3\r\nSET\r\n");
    resp::write_text(out, &request.keys.lock);
    resp::write_text(out, &request.value.0);
    if needs_trailer(request, guard) {
        out.extend_from_slice(b"$2\r\nNX\r\n$4\r\nPXAT\r\n");
        resp::write_number(out, request.not_after / 1000);
    } else {
        out.extend_from_slice(b"$2\r\nNX\r\n$2\r\nPX\r\n");
        resp::write_number(out, millis(ttl));
    }
    let Some((counter, life)) = request.keys.counter().filter(|_| candidate != 0) else {
        return 1;
    };
    out.extend_from_slice(b"*6\r\n$4\r\nZADD\r\n");
    resp::write_text(out, counter);
    out.extend_from_slice(b"$2\r\nGT\r\n$2\r\nCH\r\n");
    resp::write_number(out, candidate);
    out.extend_from_slice(b"$1\r\nf\r\n");
    if !cold {
        return 2;
    }
    // The expiry is a quarter longer, because the client renews it only once per quarter of the
    // counter's life.
    resp::write_array(out, 3);
    resp::write_text(out, b"PEXPIRE");
    resp::write_text(out, counter);
    resp::write_number(out, millis(life + life / 4));
    3
}

/// Appends the trailer of a write; returns how many replies it has.
pub(crate) fn write_trailer(out: &mut Vec<u8>, guard: Option<&Guard>) -> u8 {
    if let Some(guard) = guard {
        out.extend_from_slice(b"*3\r\n$4\r\nMGET\r\n");
        resp::write_text(out, &guard.record_key);
        resp::write_text(out, &guard.quarantine_key);
    }
    out.extend_from_slice(b"*1\r\n$4\r\nTIME\r\n");
    1 + u8::from(guard.is_some())
}

/// Appends the command of a native release. `with_text`: the node has forgotten the lean
/// script.
pub(crate) fn write_delete(
    out: &mut Vec<u8>,
    request: &Request,
    how: DeleteByValue,
    with_text: bool,
) {
    let (lock, value) = (&request.keys.lock, &request.value.0);
    match how {
        DeleteByValue::DelIfEq => {
            out.extend_from_slice(b"*3\r\n$7\r\nDELIFEQ\r\n");
            resp::write_text(out, lock);
        }
        DeleteByValue::DelEx => {
            out.extend_from_slice(b"*4\r\n$5\r\nDELEX\r\n");
            resp::write_text(out, lock);
            out.extend_from_slice(b"$4\r\nIFEQ\r\n");
        }
        DeleteByValue::ByScript => {
            return write_deletes(out, std::iter::once(request), with_text);
        }
    }
    resp::write_text(out, value);
}

/// Appends the lean script, which carries out several native releases: to run one for each costs the server more than all
/// else of them.
pub(crate) fn write_deletes<'a>(
    out: &mut Vec<u8>,
    requests: impl ExactSizeIterator<Item = &'a Request> + Clone,
    with_text: bool,
) {
    resp::write_array(out, 3 + 2 * requests.len());
    script::write_script(out, &script::COMPARE_AND_DELETE, with_text);
    resp::write_number(out, requests.len() as u64);
    for request in requests.clone() {
        resp::write_text(out, &request.keys.lock);
    }
    for request in requests {
        resp::write_text(out, &request.value.0);
    }
}

/// What is known of a native acquire as its replies come.
#[derive(Debug, Default)]
pub(crate) struct AcquireReplies {
    /// How many replies were read.
    read: u8,
    pub(crate) voted: NativeReplies,
    /// The counter's expiry was set.
    pub(crate) told: bool,
    /// The vote itself failed.
    pub(crate) failed: Option<Resp>,
}

impl AcquireReplies {
    /// Takes the next reply.
    pub(crate) fn take(&mut self, reply: Resp) {
        self.read += 1;
        match (self.read, reply) {
            (1, Resp::Okay) => self.voted.stored = true,
            (1, Resp::Nil) => {}
            (1, other) => self.failed = Some(other),
            // Any other reply means that the candidate was not stored.
            (2, Resp::Int(1)) => self.voted.counted = true,
            (3, Resp::Int(1)) => self.told = true,
            _ => {}
        }
    }
}

/// What is known of a trailer as its replies come.
#[derive(Debug)]
pub(crate) struct TrailerReplies {
    pub(crate) left: u8,
    pub(crate) trailer: Trailer,
    pub(crate) failed: Option<Fault>,
}

impl TrailerReplies {
    /// Makes the replies of a trailer that is yet to be answered, this many.
    pub(crate) fn new(left: u8) -> TrailerReplies {
        let trailer = Trailer {
            admitted: true,
            quarantined: false,
            time: 0,
        };
        TrailerReplies {
            left,
            trailer,
            failed: None,
        }
    }

    /// Takes the next reply.
    pub(crate) fn take(&mut self, reply: &Resp, guard: Option<&Guard>) {
        self.left -= 1;
        match (self.left, reply) {
            (_, Resp::ServerError(error)) => self.failed = Some(replies::fault(error)),
            (1, Resp::Array(parts)) => {
                let record = guard.map(|guard| guard.record.as_bytes());
                self.trailer.admitted = match parts.first() {
                    Some(Resp::BulkString(bytes)) => Some(&bytes[..]) == record,
                    _ => false,
                };
                let none = matches!(parts.get(1), Some(Resp::Nil));
                self.trailer.quarantined = !none;
            }
            (0, Resp::Array(parts)) => match replies::time(parts) {
                Some(time) => self.trailer.time = time,
                None => self.failed = Some(replies::no_time(parts)),
            },
            _ => self.failed = Some(replies::unexpected()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{AfterRelease, AuxKeys, Keys, Mode, Value, Waits};
    use redis::parse_redis_value;
    use std::sync::Arc;
    use std::time::Duration;

    fn request(candidate: u64, fence_ttl: Option<Duration>) -> Request {
        let ttl = Duration::from_millis(700);
        Request {
            op: Op::Acquire {
                ttl,
                candidate,
                home: false,
                let_in: false,
                block: 1,
            },
            native: true,
            keys: Arc::new(Keys {
                lock: b"k"[..].into(),
                aux: AuxKeys::of(b"q", b"f"),
                waits: Waits {
                    reservation: ttl,
                    place: ttl,
                    most: 1,
                },
                fence_ttl,
                mode: Mode::Exclusive,
                adopts: None,
                field: None,
            }),
            value: Value(b"t.l"[..].into()),
            waiter: None,
            leaving: AfterRelease::Free,
            not_after: 9_000,
        }
    }

    fn guard() -> Guard {
        Guard {
            record: "rec".into(),
            record_key: b"#node"[..].into(),
            quarantine_key: b"#quar"[..].into(),
            shard: false,
        }
    }

    /// The words of the commands in `out`.
    fn words(mut out: &[u8]) -> Vec<String> {
        let mut commands = Vec::new();
        while let Ok(Some((Resp::Array(words), end))) = resp::reply(out) {
            let words: Vec<_> = words.iter().map(replies::text).collect();
            commands.push(words.join(" "));
            out = &out[end..];
        }
        assert!(out.is_empty());
        commands
    }

    const LIFE: Option<Duration> = Some(Duration::from_millis(4_000));

    #[test]
    fn an_acquire_is_a_few_plain_commands() {
        let cases = [
            (0, None, None, true, &["SET k t.l NX PX 700"][..]),
            (
                0,
                None,
                Some(guard()),
                true,
                &["SET k t.l NX PXAT 9", "MGET #node #quar", "TIME"],
            ),
            (0, LIFE, None, true, &["SET k t.l NX PXAT 9", "TIME"]),
            (
                5,
                LIFE,
                None,
                false,
                &["SET k t.l NX PXAT 9", "ZADD f GT CH 5 f", "TIME"],
            ),
            (
                5,
                LIFE,
                Some(guard()),
                true,
                &[
                    "SET k t.l NX PXAT 9",
                    "ZADD f GT CH 5 f",
                    "PEXPIRE f 5000",
                    "MGET #node #quar",
                    "TIME",
                ],
            ),
        ];
        for (candidate, life, guard, cold, expected) in cases {
            let request = request(candidate, life);
            let mut out = Vec::new();
            let mut replies = write_acquire(&mut out, &request, guard.as_ref(), cold);
            if needs_trailer(&request, guard.as_ref()) {
                replies += write_trailer(&mut out, guard.as_ref());
            }
            assert_eq!(words(&out), expected);
            assert_eq!(usize::from(replies), expected.len());
        }
    }

    #[test]
    fn a_vote_is_deleted_by_what_the_server_knows() {
        let lean = format!("EVALSHA {} 1 k t.l", *script::COMPARE_AND_DELETE.sha);
        for (how, expected) in [
            (DeleteByValue::DelIfEq, "DELIFEQ k t.l"),
            (DeleteByValue::DelEx, "DELEX k IFEQ t.l"),
            (DeleteByValue::ByScript, &lean),
        ] {
            let mut out = Vec::new();
            write_delete(&mut out, &request(0, None), how, false);
            assert_eq!(words(&out), [expected]);
        }
        let (mut out, two) = (Vec::new(), [request(0, None), request(1, None)]);
        write_deletes(&mut out, two.iter(), false);
        let lean = format!("EVALSHA {} 2 k k t.l t.l", *script::COMPARE_AND_DELETE.sha);
        assert_eq!(words(&out), [lean]);
    }

    #[test]
    fn what_is_answered_to_a_vote() {
        let voted = |replies: &[&str]| {
            let mut taken = AcquireReplies::default();
            for reply in replies {
                taken.take(parse_redis_value(reply.as_bytes()).unwrap());
            }
            let NativeReplies { stored, counted } = taken.voted;
            (stored, counted, taken.failed.is_some())
        };
        let error = "-OOM no\r\n";
        assert_eq!(voted(&["+OK\r\n"]), (true, false, false));
        assert_eq!(voted(&["+OK\r\n", ":1\r\n", ":1\r\n"]), (true, true, false));
        assert_eq!(voted(&["+OK\r\n", ":0\r\n"]), (true, false, false));
        assert_eq!(voted(&["+OK\r\n", error]), (true, false, false));
        assert_eq!(voted(&["$-1\r\n", ":1\r\n"]), (false, true, false));
        assert_eq!(voted(&[error, ":1\r\n"]), (false, true, true));
        assert_eq!(voted(&[":1\r\n"]), (false, false, true));
    }

    #[test]
    fn what_is_answered_to_a_trailer() {
        const TIME: &str = "*2\r\n$2\r\n12\r\n$1\r\n7\r\n";
        let read = |replies: &[&str]| {
            let guard = (replies.len() == 2).then(guard);
            let mut reading = TrailerReplies::new(replies.len() as u8);
            for reply in replies {
                let reply = parse_redis_value(reply.as_bytes()).unwrap();
                reading.take(&reply, guard.as_ref());
            }
            let Trailer {
                admitted,
                quarantined,
                time,
            } = reading.trailer;
            (admitted, quarantined, time, reading.failed.is_some())
        };
        let time = 12_000_007;
        for (record, expected) in [
            ("*2\r\n$3\r\nrec\r\n$-1\r\n", (true, false, time, false)),
            ("*2\r\n$3\r\nrec\r\n$1\r\n1\r\n", (true, true, time, false)),
            ("*2\r\n$3\r\nran\r\n$-1\r\n", (false, false, time, false)),
            ("*2\r\n$-1\r\n$-1\r\n", (false, false, time, false)),
            ("*0\r\n", (false, true, time, false)),
            ("-NOPERM no\r\n", (true, false, time, true)),
            ("+OK\r\n", (true, false, time, true)),
        ] {
            assert_eq!(read(&[record, TIME]), expected, "{record:?}");
        }
        assert_eq!(read(&[TIME]), (true, false, time, false));
        assert!(read(&["*1\r\n$1\r\n7\r\n"]).3);
        assert!(read(&["-ERR no\r\n"]).3);
    }
}
