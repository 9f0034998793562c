//! Pushes: what a server sends between its replies, without being asked (RESP3).
//!
//! A publisher may send anything of any length, and that must cost the client neither memory nor
//! the connection. So the reader takes a push as it arrives: it keeps short words, passes over
//! everything else, and judges the push at its end. Only bytes that are no RESP3 at all end the
//! connection.

use std::io;
use std::sync::Arc;

use super::resp::{self, LONGEST_REPLY};
use crate::hash::HashMap;
use crate::node::Hint;
use crate::node::names::MAX_NAME;

/// The name of the longest channel of a lock in Redisson's layout.
const LOCK_CHANNEL: usize = MAX_NAME + 32;
/// Digits of the largest number.
const DIGITS: usize = 20;
/// What a message has at most: a number, a blank, and the number of a slot.
const MESSAGE: usize = DIGITS + 11;
/// A push of ours has this many words: its kind, the channel, and one more.
const WORDS: usize = 3;

/// What a push turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// A message to our inbox: a waiter is called.
    Message(Hint),
    /// Our inbox is subscribed.
    Subscribed,
    /// The channel of a lock in Redisson's layout is subscribed, or no more.
    Listens,
    /// Nothing that a node tells us.
    Stray,
}

/// Reads the pushes of one connection.
pub(crate) struct Pushes {
    /// The name of our inbox.
    channel: Arc<[u8]>,
    /// The waiters at locks in Redisson's layout, by channel.
    locks: HashMap<Vec<u8>, u64>,
    /// Whether such channels were ever subscribed.
    listened: bool,
    /// Elements of the push that are yet to come, those inside of others
    /// included; `None` between two pushes.
    left: Option<u64>,
    /// Bytes of an element that are yet to be passed over.
    skip: u64,
    words: Vec<Vec<u8>>,
    /// Whether the push had an element that is no short word.
    odd: bool,
}

impl Pushes {
    pub(crate) fn new(channel: Arc<[u8]>) -> Pushes {
        Pushes {
            channel,
            locks: HashMap::default(),
            listened: false,
            left: None,
            skip: 0,
            words: Vec::new(),
            odd: false,
        }
    }

    /// Has any message on the channel notify the waiter from now on. Returns whether the channel
    /// had no waiter before.
    pub(crate) fn listen(&mut self, channel: &[u8], waiter: u64) -> bool {
        self.listened = true;
        self.locks.insert(channel.to_vec(), waiter).is_none()
    }

    /// The waiter is called no more. Whether it was.
    pub(crate) fn hush(&mut self, channel: &[u8], waiter: u64) -> bool {
        let listens = self.locks.get(channel) == Some(&waiter);
        if listens {
            self.locks.remove(channel);
        }
        listens
    }

    /// Whether a push has begun and not ended.
    pub(crate) fn is_inside(&self) -> bool {
        self.left.is_some()
    }

    /// Takes as much of a push as `bytes` begin with: how many, and the push if
    /// it ends there. What is not taken has to come again, with more behind it.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> io::Result<(usize, Option<Push>)> {
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            let passed = self.skip.min(rest.len() as u64);
            self.skip -= passed;
            taken += passed as usize;
            if self.skip > 0 {
                return Ok((taken, None));
            }
            if self.left == Some(0) {
                return Ok((taken, Some(self.end())));
            }
            match self.element(&rest[passed as usize..])? {
                Some(length) => taken += length,
                None => return Ok((taken, None)),
            }
        }
    }

    /// Takes one element, or the head of an element that is passed over or contains others: its
    /// length, or `None` if too little of it has arrived.
    fn element(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let garbage = || io::Error::from(io::ErrorKind::InvalidData);
        let Some(line) = resp::line(bytes)? else {
            return Ok(None);
        };
        let head = line.len() + 2;
        let (kind, text) = (line[0], &line[1..]);
        let count = || match resp::number(text) {
            Some(-1) => Ok(None),
            Some(n) => u64::try_from(n).map(Some).map_err(|_| garbage()),
            None => Err(garbage()),
        };
        let elements = || match count()?.unwrap_or(0) {
            n if n <= LONGEST_REPLY as u64 => Ok(n),
            _ => Err(garbage()),
        };
        let Some(left) = self.left else {
            if kind != b'>' {
                return Err(garbage());
            }
            self.left = Some(elements()?);
            return Ok(Some(head));
        };
        let (mut length, mut inside) = (head, 0);
        match kind {
            b'+' | b':' => self.word(text),
            b'-' | b'_' | b',' | b'#' | b'(' => self.odd = true,
            b'$' | b'=' | b'!' => match count()? {
                None => self.odd = true,
                Some(size) if size <= self.longest() as u64 => {
                    length = head + size as usize + 2;
                    let Some(whole) = bytes.get(head..length) else {
                        return Ok(None);
                    };
                    self.word(whole.strip_suffix(b"\r\n").ok_or_else(garbage)?);
                }
                Some(size) => {
                    self.odd = true;
                    self.skip = size + 2;
                }
            },
            b'*' | b'~' | b'%' => {
                self.odd = true;
                inside = elements()? * if kind == b'%' { 2 } else { 1 };
            }
            _ => return Err(garbage()),
        }
        self.left = Some(left - 1 + inside);
        Ok(Some(length))
    }

    fn longest(&self) -> usize {
        // The bound counts channels that are just being left, too.
        let lock = if self.listened { LOCK_CHANNEL } else { 0 };
        self.channel.len().max(MESSAGE).max(lock)
    }

    fn word(&mut self, word: &[u8]) {
        if self.words.len() < WORDS && word.len() <= self.longest() {
            self.words.push(word.to_vec());
        } else {
            self.odd = true;
        }
    }

    fn end(&mut self) -> Push {
        self.left = None;
        let words = std::mem::take(&mut self.words);
        let odd = std::mem::take(&mut self.odd);
        match &words[..] {
            [kind, channel, more] if !odd && channel[..] == *self.channel => match &kind[..] {
                b"message" => called(more).map_or(Push::Stray, Push::Message),
                b"subscribe" => Push::Subscribed,
                _ => Push::Stray,
            },
            [kind, channel, _] if !odd && self.listened => self.of_lock(kind, channel),
            _ => Push::Stray,
        }
    }

    /// What a push over the channel of a lock is.
    fn of_lock(&self, kind: &[u8], channel: &[u8]) -> Push {
        match kind {
            // The text does not matter: Redisson says `0` where the lock is free, and `1` for
            // readers.
            b"message" => match self.locks.get(channel) {
                Some(&number) => Push::Message(Hint { number, slot: None }),
                // The message came as the channel was left.
                None => Push::Listens,
            },
            b"subscribe" | b"unsubscribe" => Push::Listens,
            _ => Push::Stray,
        }
    }
}

/// The hint in a node's message: the waiter's number, and for a semaphore a blank and the slot's
/// number; digits and nothing else.
fn called(message: &[u8]) -> Option<Hint> {
    let plain = |digits: &[u8]| digits.len() <= DIGITS && digits.iter().all(u8::is_ascii_digit);
    let blank = message.iter().position(|&byte| byte == b' ');
    let (number, slot) = match blank {
        Some(at) => (&message[..at], Some(&message[at + 1..])),
        None => (message, None),
    };
    if !plain(number) || !slot.is_none_or(plain) {
        return None;
    }
    let slot = match slot {
        Some(digits) => Some(resp::number(digits)?),
        None => None,
    };
    let number = resp::number(number)?;
    Some(Hint { number, slot })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redis::{PushKind, Value as Resp, parse_redis_value};

    use super::*;

    const CHANNEL: &[u8] = b"lock:#in:0123456789abcdef0123456789abcdef";

    fn bulk(word: &[u8]) -> Vec<u8> {
        [format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat()
    }

    fn push(words: &[&[u8]]) -> Vec<u8> {
        let words: Vec<_> = words.iter().map(|word| bulk(word)).collect();
        [format!(">{}\r\n", words.len()).into_bytes(), words.concat()].concat()
    }

    fn message(number: u64) -> Push {
        Push::Message(Hint { number, slot: None })
    }

    /// All pushes of a stream that arrives in pieces of this many bytes; what is
    /// left over must be less than one.
    fn read(stream: &[u8], piece: usize) -> io::Result<Vec<Push>> {
        let mut pushes = Pushes::new(CHANNEL.into());
        let (mut buffer, mut read) = (Vec::new(), Vec::new());
        for piece in stream.chunks(piece) {
            buffer.extend_from_slice(piece);
            while !buffer.is_empty() {
                let (taken, push) = pushes.read(&buffer)?;
                buffer.drain(..taken);
                match push {
                    Some(push) => read.push(push),
                    None => break,
                }
            }
            assert!(
                buffer.len() < 2 * CHANNEL.len() + 16,
                "kept what it need not"
            );
        }
        Ok(read)
    }

    #[test]
    fn what_a_node_tells_is_heard() {
        let confirmed = [
            b">3\r\n",
            &bulk(b"subscribe")[..],
            &bulk(CHANNEL),
            b":1\r\n",
        ]
        .concat();
        let stream = [
            confirmed,
            push(&[b"message", CHANNEL, b"0"]),
            push(&[b"message", CHANNEL, b"18446744073709551615"]),
            push(&[b"message", CHANNEL, b"12 7"]),
        ]
        .concat();
        let slot_7 = Push::Message(Hint {
            number: 12,
            slot: Some(7),
        });
        for piece in [1, 2, 7, 1000] {
            assert_eq!(
                read(&stream, piece).unwrap(),
                [Push::Subscribed, message(0), message(u64::MAX), slot_7]
            );
        }
    }

    #[test]
    fn anything_else_is_stray_and_costs_nothing() {
        let long = vec![b'1'; 200_000];
        let strays = [
            push(&[b"message", CHANNEL, b""]),
            push(&[b"message", CHANNEL, b"+1"]),
            push(&[b"message", CHANNEL, b"1 "]),
            push(&[b"message", CHANNEL, b" 1"]),
            push(&[b"message", CHANNEL, b"1 2 3"]),
            push(&[b"message", CHANNEL, b"1 -2"]),
            push(&[b"message", CHANNEL, b"1 4294967296"]),
            push(&[b"message", CHANNEL, b"18446744073709551616"]),
            push(&[b"message", CHANNEL, b"000000000000000000001"]),
            push(&[b"message", CHANNEL, &long]),
            push(&[b"message", &CHANNEL[1..], b"1"]),
            push(&[b"message", &long, b"1"]),
            push(&[b"message", CHANNEL]),
            push(&[b"message", CHANNEL, b"1", b"1"]),
            push(&[b"pmessage", b"*", CHANNEL, b"1"]),
            push(&[b"unsubscribe", CHANNEL, b"0"]),
            push(&[]),
            b">-1\r\n".to_vec(),
            b">2\r\n+invalidate\r\n*2\r\n$1\r\na\r\n%1\r\n_\r\n~1\r\n#t\r\n".to_vec(),
            [
                &b">3\r\n"[..],
                &bulk(b"message"),
                &bulk(CHANNEL),
                b"$-1\r\n",
            ]
            .concat(),
            [
                &b">3\r\n"[..],
                &bulk(b"message"),
                &bulk(CHANNEL),
                b"*1\r\n:1\r\n",
            ]
            .concat(),
            [
                &b">3\r\n"[..],
                &bulk(b"message"),
                &bulk(CHANNEL),
                b"=5\r\ntxt:1\r\n",
            ]
            .concat(),
        ];
        let hint = push(&[b"message", CHANNEL, b"7"]);
        for stray in &strays {
            let stream = [&hint[..], stray, &hint].concat();
            for piece in [3, 16_384] {
                assert_eq!(
                    read(&stream, piece).unwrap(),
                    [message(7), Push::Stray, message(7)],
                    "{}",
                    stray[..stray.len().min(60)].escape_ascii()
                );
            }
        }
    }

    #[test]
    fn what_is_no_push_is_not_passed_over() {
        for stream in [
            &b":1\r\n"[..],
            b">x\r\n",
            b">1\r\n>1\r\n:1\r\n",
            b">1\r\n$-2\r\n",
            b">1\r\n|1\r\n",
            b">99999999\r\n",
            b">1\r\n*99999999\r\n",
            b">1\r\n$1\r\nab\r\n",
            b">1\r\n\r\n",
        ] {
            assert!(read(stream, 100).is_err(), "{}", stream.escape_ascii());
        }
        let endless = vec![b'+'; LONGEST_REPLY + 8];
        assert!(
            Pushes::new(CHANNEL.into())
                .read(&[b">1\r\n", &endless[..]].concat())
                .is_err()
        );
    }

    /// The judgement of redis-rs's parser on the same bytes.
    fn judged(push: &[u8]) -> Push {
        let Ok(Resp::Push { kind, data }) = parse_redis_value(push) else {
            return Push::Stray;
        };
        match (kind, &data[..]) {
            (PushKind::Message, [Resp::BulkString(channel), Resp::BulkString(text)])
                if channel == CHANNEL && !text.contains(&b'+') =>
            {
                let text = String::from_utf8_lossy(text);
                let (number, slot) = match text.split_once(' ') {
                    Some((number, slot)) => (number, slot.parse().map(Some)),
                    None => (&*text, Ok(None)),
                };
                if number.len() > 20 {
                    return Push::Stray;
                }
                match (number.parse(), slot) {
                    (Ok(number), Ok(slot)) => Push::Message(Hint { number, slot }),
                    _ => Push::Stray,
                }
            }
            (PushKind::Subscribe, [Resp::BulkString(channel), Resp::BulkString(count)])
                if channel == CHANNEL && count.len() <= CHANNEL.len() =>
            {
                Push::Subscribed
            }
            _ => Push::Stray,
        }
    }

    fn word() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            Just(CHANNEL.to_vec()),
            Just(b"message".to_vec()),
            Just(b"subscribe".to_vec()),
            "[0-9+ ]{0,22}".prop_map(String::into_bytes),
            proptest::collection::vec(any::<u8>(), 0..60),
        ]
    }

    proptest! {
        #[test]
        fn pieces_change_nothing_and_redis_rs_agrees(
            stream in proptest::collection::vec(proptest::collection::vec(word(), 1..5), 1..6),
            piece in 1_usize..200,
        ) {
            let pushes: Vec<_> = stream
                .iter()
                .map(|words| push(&words.iter().map(|w| &w[..]).collect::<Vec<_>>()))
                .collect();
            let expected: Vec<_> = pushes.iter().map(|p| judged(p)).collect();
            prop_assert_eq!(read(&pushes.concat(), piece).unwrap(), expected);
        }

        #[test]
        fn no_bytes_make_it_stumble(
            bytes in proptest::collection::vec(
                proptest::sample::select(b">$*:+%~_-=0123\r\n".to_vec()), 0..64),
        ) {
            let mut pushes = Pushes::new(CHANNEL.into());
            if let Ok((taken, push)) = pushes.read(&bytes) {
                prop_assert!(taken <= bytes.len());
                prop_assert_eq!(pushes.is_inside(), push.is_none() && taken > 0);
            }
        }
    }
}
