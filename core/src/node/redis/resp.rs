//! RESP, the protocol of Redis and Valkey, as bytes: writing commands, finding
//! where a reply ends, and reading it.
//!
//! Replies are read by redis-rs, but for what requests are answered. Pushes are
//! read [as they arrive](super::pushes), and are no replies.

use std::fmt;
use std::io;
use std::str::FromStr;

use redis::{Value as Resp, parse_redis_value};

/// How long a reply may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyBound {
    bytes: usize,
    /// How many elements may stand in it in all: one of three bytes takes as much memory as twenty.
    elements: usize,
    /// The error for a longer one: what it is, and what to do.
    longer: &'static str,
}

/// A server that sends more than this for one reply is none of ours.
pub(crate) const LONGEST_REPLY: usize = 64 * 1024;

/// What requests are answered, and what a connection begins with.
pub(crate) const REPLY: ReplyBound = ReplyBound {
    bytes: LONGEST_REPLY,
    elements: LONGEST_REPLY / 3,
    longer: "a reply of more than 64 KiB, which is longer than any that Quorlock asks for: is this a \
             Redis or Valkey server?",
};

/// What a server knows of its whole cluster: half a KiB for each of the 16,384 hash slots, which
/// is a range of its own with two replicas, all by address and name.
pub(crate) const MAP: ReplyBound = ReplyBound {
    bytes: 8 << 20,
    elements: 500_000,
    longer: "its map of the hash slots (CLUSTER SLOTS, CLUSTER NODES) is longer than 8 MiB, or has \
             more than 500,000 elements: give its \
             shards longer ranges of them (`redis-cli --cluster rebalance`), and fewer replicas",
};

/// The keys at which one `SCAN` has looked: about a thousand.
pub(crate) const KEYS: ReplyBound = ReplyBound {
    bytes: 8 << 20,
    elements: 200_000,
    longer: "the names in one answer to SCAN are longer than 8 MiB, or more than 200,000: ask for those of a longer \
             beginning",
};

/// What a server has counted of each of its commands, those of its modules among them.
pub(crate) const COUNTS: ReplyBound = ReplyBound {
    bytes: 1 << 20,
    elements: 10_000,
    longer: "its counters of commands (INFO commandstats) are longer than 1 MiB, or no text: is this a Redis or \
             Valkey server?",
};

/// A reply is longer than it may be.
#[derive(Debug)]
pub(crate) struct TooLong(ReplyBound);

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.longer)
    }
}

impl std::error::Error for TooLong {}

/// The reply at the start of `bytes`, and its length; `None` if not all of it
/// has arrived.
pub(crate) fn reply(bytes: &[u8]) -> io::Result<Option<(Resp, usize)>> {
    Scan::default().reply(bytes, REPLY)
}

/// How far a reply was looked through that has not arrived as a whole, so that a long one is not
/// looked through from its start again and again.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Where its next element begins.
    at: usize,
    /// How many elements the array about that has yet, and each about this one, outermost first.
    owed: Vec<usize>,
    /// How many elements were announced so far.
    announced: usize,
}

impl Scan {
    /// Scans a reply of which more may have arrived since the last scan.
    pub(crate) fn reply(
        &mut self,
        bytes: &[u8],
        most: ReplyBound,
    ) -> io::Result<Option<(Resp, usize)>> {
        let mut rest = bytes;
        if let Some(reply) = simple(&mut rest) {
            *self = Scan::default();
            return Ok(Some((reply, bytes.len() - rest.len())));
        }
        match self.end(bytes, most) {
            Ok(end) => {
                *self = Scan::default();
                match parse_redis_value(&bytes[..end]) {
                    Ok(reply) => Ok(Some((reply, end))),
                    Err(e) => Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("not a reply: {e}"),
                    )),
                }
            }
            Err(Incomplete::More) if bytes.len() <= most.bytes => Ok(None),
            Err(Incomplete::More | Incomplete::TooLong) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, TooLong(most)))
            }
            Err(Incomplete::Never) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// The length of the reply at the start of `bytes` (RESP2 and RESP3, Redis serialization
    /// protocol specification). A push is none, and none contains one.
    fn end(&mut self, bytes: &[u8], most: ReplyBound) -> Result<usize, Incomplete> {
        loop {
            if self.owed.len() > 8 {
                return Err(Incomplete::Never);
            }
            let (end, elements) = element_end(&bytes[self.at..], most.bytes)?;
            self.at += end;
            if elements > 0 {
                self.announced += elements;
                if self.announced > most.elements {
                    return Err(Incomplete::TooLong);
                }
                self.owed.push(elements);
                continue;
            }
            // The element may have been the last of an array, and that array the last of another.
            loop {
                let Some(owed) = self.owed.last_mut() else {
                    return Ok(self.at);
                };
                *owed -= 1;
                if *owed > 0 {
                    break;
                }
                self.owed.pop();
            }
        }
    }
}

/// `OK`, nothing, a number, a text, or a row of them at the start of `bytes`, which
/// loses it; `None` for anything else, and for what has not arrived as a whole. That is
/// what requests are answered: redis-rs's parser clears a buffer at every call, which
/// would cost more than all the rest.
fn simple(bytes: &mut &[u8]) -> Option<Resp> {
    let (kind, rest) = bytes.split_first()?;
    let word: Option<(&[u8], Resp)> = match kind {
        b'+' => Some((b"OK\r\n", Resp::Okay)),
        b'_' => Some((b"\r\n", Resp::Nil)),
        b'$' if rest.first() == Some(&b'-') => Some((b"-1\r\n", Resp::Nil)),
        _ => None,
    };
    if let Some((word, reply)) = word {
        *bytes = rest.strip_prefix(word)?;
        return Some(reply);
    }
    let line = rest.iter().position(|b| *b == b'\r')?;
    let number = integer(&rest[..line])?;
    *bytes = rest[line..].strip_prefix(b"\r\n")?;
    let length = |n: i64| usize::try_from(n).ok().filter(|n| *n <= LONGEST_REPLY);
    match kind {
        b':' => Some(Resp::Int(number)),
        b'$' => {
            let length = length(number)?;
            let text = bytes.get(..length)?.to_vec();
            *bytes = bytes[length..].strip_prefix(b"\r\n")?;
            Some(Resp::BulkString(text))
        }
        b'*' => {
            let row = (0..length(number)?).map(|_| match bytes.first()? {
                b'*' => None,
                _ => simple(bytes),
            });
            row.collect::<Option<_>>().map(Resp::Array)
        }
        _ => None,
    }
}

/// An integer in decimal, most often a short one without a sign.
fn integer(digits: &[u8]) -> Option<i64> {
    // So few digits never overflow.
    if (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit) {
        let grow = |n: i64, digit: &u8| 10 * n + i64::from(digit - b'0');
        return Some(digits.iter().fold(0, grow));
    }
    number(digits)
}

/// A number in decimal.
pub(crate) fn number<N: FromStr>(digits: &[u8]) -> Option<N> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The first line of `bytes`, which is not empty; `None` if not all of it has
/// arrived.
pub(crate) fn line(bytes: &[u8]) -> io::Result<Option<&[u8]>> {
    match line_end(bytes) {
        Ok(end) => Ok(Some(&bytes[..end])),
        Err(Incomplete::More) if bytes.len() <= LONGEST_REPLY => Ok(None),
        Err(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Why the end of a reply was not found.
#[derive(Debug, PartialEq, Eq)]
enum Incomplete {
    /// The end of the reply has not arrived yet.
    More,
    /// These bytes begin no reply.
    Never,
    /// The reply says that it is longer than it may be.
    TooLong,
}

/// Where the first line of `bytes` ends.
fn line_end(bytes: &[u8]) -> Result<usize, Incomplete> {
    let end = bytes
        .iter()
        .position(|b| matches!(b, b'\r' | b'\n'))
        .ok_or(Incomplete::More)?;
    match bytes.get(end + 1) {
        _ if bytes[end] == b'\n' || end == 0 => Err(Incomplete::Never),
        None => Err(Incomplete::More),
        Some(b'\n') => Ok(end),
        Some(_) => Err(Incomplete::Never),
    }
}

/// The length of the element at the start of `bytes`, and how many elements stand in it, which
/// come behind that.
fn element_end(bytes: &[u8], most: usize) -> Result<(usize, usize), Incomplete> {
    let line = line_end(bytes)?;
    let head = line + 2;
    let count = || -> Result<Option<usize>, Incomplete> {
        match number(&bytes[1..line]) {
            Some(-1) => Ok(None),
            Some(n) if (0..=most as i64).contains(&n) => Ok(Some(n as usize)),
            Some(n) if n > 0 => Err(Incomplete::TooLong),
            _ => Err(Incomplete::Never),
        }
    };
    let elements = match bytes[0] {
        // redis-rs would accept blanks around a number.
        b':' if number::<i64>(&bytes[1..line]).is_none() => return Err(Incomplete::Never),
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => 0,
        b'$' | b'!' | b'=' => {
            let end = count()?.map_or(head, |length| head + length + 2);
            return match bytes.get(..end) {
                None => Err(Incomplete::More),
                Some(reply) if reply.ends_with(b"\r\n") => Ok((end, 0)),
                Some(_) => Err(Incomplete::Never),
            };
        }
        b'*' | b'~' => count()?.unwrap_or(0),
        b'%' => 2 * count()?.unwrap_or(0),
        _ => return Err(Incomplete::Never),
    };
    Ok((head, elements))
}

/// Begins a command of this many words.
pub(crate) fn write_array(out: &mut Vec<u8>, words: usize) {
    write_head(out, b'*', words);
}

/// Appends one word of a command.
pub(crate) fn write_text(out: &mut Vec<u8>, word: &[u8]) {
    write_head(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// Appends one word of a command, made of these parts.
pub(crate) fn write_parts(out: &mut Vec<u8>, parts: &[&[u8]]) {
    write_head(out, b'$', parts.iter().map(|part| part.len()).sum());
    for part in parts {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a number as one word of a command.
pub(crate) fn write_number(out: &mut Vec<u8>, number: u64) {
    write_text(out, Decimal::of(number).text());
}

/// A line that says how long something is: nearly always below a hundred.
fn write_head(out: &mut Vec<u8>, kind: u8, length: usize) {
    let digit = |n: usize| b'0' + (n % 10) as u8;
    match length {
        0..10 => out.extend_from_slice(&[kind, digit(length), b'\r', b'\n']),
        10..100 => {
            out.extend_from_slice(&[kind, digit(length / 10), digit(length), b'\r', b'\n']);
        }
        _ => {
            out.push(kind);
            out.extend_from_slice(Decimal::of(length as u64).text());
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// The numbers below a hundred, of two digits each.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < pairs.len() {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

/// A number in decimal.
pub(crate) struct Decimal {
    digits: [u8; 20],
    /// Where it begins.
    at: usize,
}

impl Decimal {
    pub(crate) fn of(number: u64) -> Decimal {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut rest = number;
        // The digits are written two at a time, for the divisions take the time.
        while rest >= 10 {
            at -= 2;
            digits[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
            rest /= 100;
        }
        if rest > 0 || number == 0 {
            at -= 1;
            digits[at] = b'0' + rest as u8;
        }
        Decimal { digits, at }
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.digits[self.at..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn commands_are_written_as_redis_rs_writes_them() {
        let mut out = Vec::new();
        write_array(&mut out, 4);
        write_text(&mut out, b"GET");
        write_text(&mut out, b"\0\r\n");
        write_parts(&mut out, &[b"12", b"", b" x"]);
        write_number(&mut out, 1_234_567_890);
        let theirs = redis::cmd("GET")
            .arg(b"\0\r\n")
            .arg("12 x")
            .arg(1_234_567_890)
            .get_packed_command();
        assert_eq!(out, theirs);
    }

    fn reply_end(bytes: &[u8]) -> Result<usize, Incomplete> {
        Scan::default().end(bytes, REPLY)
    }

    /// As a cluster's map is answered, with this many ranges.
    fn map(ranges: usize) -> Vec<u8> {
        let primary = format!(
            "*3\r\n$9\r\n127.0.0.1\r\n:7000\r\n$40\r\n{}\r\n",
            "a".repeat(40)
        );
        let range = |n| format!("*3\r\n:{n}\r\n:{n}\r\n{primary}");
        let all: String = (0..ranges).map(range).collect();
        format!("*{ranges}\r\n{all}").into_bytes()
    }

    #[test]
    fn a_reply_that_is_too_long_is_told_by_what_it_is() {
        let map = map(1024);
        assert!(map.len() > LONGEST_REPLY);
        let told = |bound| Scan::default().reply(&map[..map.len() - 1], bound);
        assert!(told(MAP).unwrap().is_none());
        let long = |error: io::Error| error.into_inner().unwrap().to_string();
        assert_eq!(long(told(REPLY).unwrap_err()), REPLY.longer);
        // The array announces its excess before the elements come.
        for (head, bound) in [
            (&b"$65537\r\n"[..], REPLY),
            (b"*1\r\n*65537\r\n", REPLY),
            (b"$8388609\r\n", MAP),
            (b"*500001\r\n", MAP),
            (b"*2\r\n%250000\r\n", MAP),
            (b"%5001\r\n", COUNTS),
            (b"*200001\r\n", KEYS),
        ] {
            let told = Scan::default().reply(head, bound);
            assert_eq!(long(told.unwrap_err()), bound.longer);
        }
        let endless = vec![b'+'; MAP.bytes + 1];
        let told = Scan::default().reply(&endless, MAP);
        assert_eq!(long(told.unwrap_err()), MAP.longer);
    }

    #[test]
    fn a_long_reply_is_looked_through_once() {
        let map = map(1024);
        let mut scan = Scan::default();
        for end in (0..map.len()).step_by(1000) {
            let before = scan.at;
            assert!(scan.reply(&map[..end], MAP).unwrap().is_none());
            // Of the elements behind those that were scanned at most one has not arrived.
            assert!(
                scan.at >= before && end - scan.at <= 50,
                "{} of {end}",
                scan.at
            );
        }
        let whole = scan.reply(&map, MAP).unwrap();
        assert_eq!(whole, Some((parse_redis_value(&map).unwrap(), map.len())));
        // The scan of the next reply begins anew.
        assert_eq!((scan.at, &scan.owed), (0, &Vec::new()));
    }

    fn reply() -> impl Strategy<Value = Vec<u8>> {
        let leaf = prop_oneof![
            any::<i32>().prop_map(|n| format!(":{n}\r\n").into_bytes()),
            "[a-z ]{0,9}".prop_map(|s| format!("+{s}\r\n").into_bytes()),
            "[A-Z]{1,5} [a-z]{0,9}".prop_map(|s| format!("-{s}\r\n").into_bytes()),
            Just(b"$-1\r\n".to_vec()),
            Just(b"_\r\n".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..20)
                .prop_map(|b| { [format!("${}\r\n", b.len()).as_bytes(), &b, b"\r\n"].concat() }),
        ];
        leaf.prop_recursive(3, 20, 5, |inner| {
            proptest::collection::vec(inner, 0..5).prop_map(|parts| {
                [format!("*{}\r\n", parts.len()).into_bytes(), parts.concat()].concat()
            })
        })
    }

    #[test]
    fn what_does_not_end_where_it_should_is_no_reply() {
        for bytes in [
            &b"$1\r\nab\r\n"[..],
            b"*2\r\n:1\r\n$1\r\nabc\r\n",
            b":1\r\r\n",
            b": 1\r\n",
            b":1\n",
            b">1\r\n:1\r\n",
            b"*1\r\n>1\r\n:1\r\n",
        ] {
            assert_eq!(reply_end(bytes), Err(Incomplete::Never));
            assert!(super::reply(bytes).is_err());
        }
    }

    proptest! {
        #[test]
        fn integers_are_written_and_read_in_decimal(n in any::<u64>(), bits in 0..64u32) {
            let n = n >> bits;
            prop_assert_eq!(Decimal::of(n).text().to_vec(), n.to_string().into_bytes());
            for n in [n as i64, (n as i64).wrapping_neg()] {
                let text = n.to_string();
                prop_assert_eq!(integer(text.as_bytes()), Some(n));
                let longer = format!("{text} ");
                prop_assert_eq!(integer(longer.as_bytes()), None);
            }
        }

        #[test]
        fn a_reply_ends_where_it_ends(reply in reply(), behind in proptest::collection::vec(any::<u8>(), 0..5)) {
            let stream = [&reply[..], &behind].concat();
            prop_assert_eq!(reply_end(&stream), Ok(reply.len()));
            let theirs = parse_redis_value(&reply).unwrap();
            prop_assert_eq!(super::reply(&stream).unwrap(), Some((theirs, reply.len())));
            let mut scan = Scan::default();
            for cut in 0..reply.len() {
                prop_assert_eq!(scan.reply(&reply[..cut], REPLY).unwrap(), None);
                prop_assert_eq!(reply_end(&reply[..cut]), Err(Incomplete::More), "cut at {}", cut);
                prop_assert_eq!(super::reply(&reply[..cut]).unwrap(), None);
            }
            prop_assert_eq!(scan.reply(&stream, REPLY).unwrap(), super::reply(&stream).unwrap());
        }

        #[test]
        fn no_bytes_are_read_beyond_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(Some((_, end))) = super::reply(&bytes) {
                prop_assert!(end <= bytes.len());
            }
        }
    }
}
