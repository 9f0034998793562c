//! How a reply becomes a lie: other words in its place, and what happens to the stream behind them.

use Word::{Bulk, Line, Nil, Raw, Row};

use super::Draw;
use super::word::{Word, error, int, row, text};

/// Numbers at their edges.
const EDGES: [&str; 22] = [
    "0",
    "-0",
    "-1",
    "1",
    "2",
    "7",
    "16383",
    "16384",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740991",
    "9007199254740992",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "nan",
];

/// What ends lines, rules terminals and turns letters round.
pub const WICKED: &str = "m\n\r\x1b[2J\u{202e}\u{2028}\u{9b}\u{7f}\u{feff}\t";

/// Errors that servers know, and some that they do not.
const ERRORS: [&str; 22] = [
    "ERR unknown command 'X'",
    "NOSCRIPT No matching script",
    "READONLY You can't write",
    "LOADING x",
    "NOAUTH Authentication required.",
    "WRONGPASS x",
    "NOPERM this user has no permissions",
    "OOM x",
    "MASTERDOWN x",
    "BUSY x",
    "MISCONF x",
    "WRONGTYPE x",
    "CLUSTERDOWN The cluster is down",
    "TRYAGAIN x",
    "CROSSSLOT x",
    "MOVED 16384 a:b",
    "MOVED 1 :0",
    "ASK 1 127.0.0.1:1",
    "MOVED 65535 127.0.0.1:1",
    "EXECABORT x",
    "DENIED x",
    "",
];

/// A text that is too long, or wicked.
pub(super) fn long(draw: &mut Draw) -> Vec<u8> {
    let many = *draw.one(&[0, 1, 30, 300, 3_000, 100_000]);
    let mut text = WICKED.as_bytes().to_vec();
    text.extend(std::iter::repeat_n(b'x', many));
    text
}

/// What becomes of the connection behind a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    GoOn,
    Close,
    Hush,
}

/// Says something else than the truth.
pub(super) fn lie(draw: &mut Draw, mut word: Word) -> (Vec<Word>, Then) {
    let one = |word| (vec![word], Then::GoOn);
    match draw.below(16) {
        0 | 1 => one(other(draw)),
        2 | 3 => {
            for _ in 0..=draw.below(3) {
                let number = draw.one(&EDGES).as_bytes().to_vec();
                let later = draw.below(4);
                match word.part(draw) {
                    Line(b':', said) => *said = number,
                    Bulk(said) if later > 0 => *said = number,
                    Row(_, words) => words.push(Line(b':', number)),
                    _ => {}
                }
            }
            one(word)
        }
        4 => {
            match word.part(draw) {
                Row(_, words) => match draw.below(3) {
                    0 => words.truncate(words.len() / 2),
                    1 => words.clear(),
                    _ => {
                        let more = words.clone();
                        words.extend((0..draw.below(300)).flat_map(|_| more.clone()).take(3_000));
                    }
                },
                Bulk(said) => said.truncate(said.len() / 2),
                whole => *whole = row(Vec::new()),
            }
            one(word)
        }
        5 => {
            if let Row(_, words) = word.part(draw) {
                words.reverse();
            }
            one(word)
        }
        6 => {
            let deep = draw.below(12);
            let part = word.part(draw);
            let inner = std::mem::replace(part, Nil);
            *part = (0..deep).fold(inner, |inner, _| row(vec![inner]));
            one(word)
        }
        7 => {
            word.turn();
            one(word)
        }
        8 | 9 => {
            for _ in 0..=draw.below(3) {
                let said = long(draw);
                match word.part(draw) {
                    Bulk(text) => *text = said,
                    Row(_, words) => words.push(Bulk(said)),
                    other => *other = Bulk(said),
                }
            }
            one(word)
        }
        10 => (vec![word.clone(), word], Then::GoOn),
        11 => (Vec::new(), Then::GoOn),
        12 => {
            let mut words: Vec<_> = (0..draw.below(300)).map(|_| push(draw)).collect();
            words.push(word);
            (words, Then::GoOn)
        }
        13 => {
            let mut said = draw.one(&ERRORS).as_bytes().to_vec();
            if draw.below(2) == 0 {
                let more = long(draw)
                    .into_iter()
                    .filter(|byte| !b"\r\n".contains(byte));
                said.extend(more);
            }
            one(Line(b'-', said))
        }
        14 => {
            let mut bytes = Vec::new();
            word.write(&mut bytes);
            bytes.truncate(draw.below(bytes.len() + 1));
            (
                vec![Raw(bytes)],
                *draw.one(&[Then::Close, Then::Hush, Then::GoOn]),
            )
        }
        _ => {
            let heads: [&[u8]; 8] = [
                b"$2147483648\r\n",
                b"*1000000000\r\n",
                b"$-2\r\n",
                b"*65536\r\n:1\r\n",
                b"%9999999\r\n",
                b"\r\n",
                b"HTTP/1.1 400\r\n\r\n",
                b">3\r\n$2000000000\r\nxxx",
            ];
            let then = *draw.one(&[Then::Close, Then::Hush, Then::GoOn]);
            (vec![Raw(draw.one(&heads).to_vec())], then)
        }
    }
}

/// A reply of any type.
fn other(draw: &mut Draw) -> Word {
    match draw.below(9) {
        0 => Line(b':', draw.one(&EDGES).as_bytes().to_vec()),
        1 => Bulk(long(draw)),
        2 => Nil,
        3 => Line(b'_', Vec::new()),
        4 => Line(b'+', b"OK".to_vec()),
        5 => error(draw.one::<&str>(&ERRORS)),
        6 => Row(b'%', vec![text("a"), int(1)]),
        7 => Line(*draw.one(b",#("), draw.one(&EDGES).as_bytes().to_vec()),
        _ => row((0..draw.below(5)).map(|_| other(draw)).collect()),
    }
}

/// A push that nobody asked for.
pub(super) fn push(draw: &mut Draw) -> Word {
    let channel = || text("lock:#in:00000000000000000000000000000000");
    Row(
        b'>',
        match draw.below(5) {
            0 => vec![text("message"), channel(), text("1")],
            1 => vec![text("message"), channel(), Bulk(long(draw))],
            2 => vec![text("subscribe"), channel(), int(1)],
            3 => vec![text("invalidate"), row(vec![Nil; draw.below(9)])],
            _ => Vec::new(),
        },
    )
}
