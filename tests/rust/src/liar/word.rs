//! What servers say, as values: read from a stream of RESP, and written to one.

use std::io::{self, BufRead, Read};

use Word::{Bulk, Line, Nil, Raw, Row};

use super::Draw;

/// A reply, a push, or a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// A line that begins with this byte: `+`, `-`, `:`, `_`, `,`, `#` or `(`.
    Line(u8, Vec<u8>),
    /// A text.
    Bulk(Vec<u8>),
    /// No text.
    Nil,
    /// A row that begins with this byte: `*`, `~`, `%` or `>`; of a map its keys and values.
    Row(u8, Vec<Word>),
    /// Bytes that are none.
    Raw(Vec<u8>),
}

pub(super) fn text(text: &str) -> Word {
    Bulk(text.as_bytes().to_vec())
}

pub(super) fn int(number: i64) -> Word {
    Line(b':', number.to_string().into_bytes())
}

pub(super) fn error(text: &str) -> Word {
    Line(b'-', text.as_bytes().to_vec())
}

pub(super) fn row(words: Vec<Word>) -> Word {
    Row(b'*', words)
}

impl Word {
    /// The next of a stream.
    ///
    /// # Errors
    ///
    /// If the stream ends, or is none of this protocol.
    pub fn read(from: &mut impl BufRead) -> io::Result<Word> {
        let mut line = Vec::new();
        from.by_ref().take(1 << 20).read_until(b'\n', &mut line)?;
        let Some(said) = line.strip_suffix(b"\r\n").filter(|said| !said.is_empty()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let (kind, said) = (said[0], &said[1..]);
        let count = || -> io::Result<i64> {
            let digits = std::str::from_utf8(said).ok();
            let count = digits.and_then(|digits| digits.parse().ok());
            count.ok_or_else(|| io::ErrorKind::InvalidData.into())
        };
        Ok(match kind {
            b'$' | b'=' | b'!' => match usize::try_from(count()?) {
                Err(_) => Nil,
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    from.read_exact(&mut bytes)?;
                    bytes.truncate(length);
                    Bulk(bytes)
                }
            },
            b'*' | b'~' | b'>' | b'%' => match usize::try_from(count()?) {
                Err(_) => Nil,
                Ok(many) => {
                    let many = if kind == b'%' { 2 * many } else { many };
                    let words = (0..many).map(|_| Word::read(from));
                    Row(kind, words.collect::<io::Result<_>>()?)
                }
            },
            _ => Line(kind, said.to_vec()),
        })
    }

    /// As it goes over the wire.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Line(kind, said) => {
                out.push(*kind);
                out.extend_from_slice(said);
                out.extend_from_slice(b"\r\n");
            }
            Bulk(bytes) => {
                out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Nil => out.extend_from_slice(b"$-1\r\n"),
            Row(kind, words) => {
                let many = if *kind == b'%' {
                    words.len() / 2
                } else {
                    words.len()
                };
                out.push(*kind);
                out.extend_from_slice(format!("{many}\r\n").as_bytes());
                words.iter().for_each(|word| word.write(out));
            }
            Raw(bytes) => out.extend_from_slice(bytes),
        }
    }

    /// Some part of it, itself among them.
    pub(super) fn part(&mut self, draw: &mut Draw) -> &mut Word {
        let inside = match self {
            Row(_, words) => draw.below(words.len() + 1),
            _ => 0,
        };
        if !matches!(self, Row(_, words) if inside < words.len()) {
            return self;
        }
        match self {
            Row(_, words) => words[inside].part(draw),
            _ => unreachable!("it is a row"),
        }
    }

    /// Turns round what looks like a range.
    pub(super) fn turn(&mut self) {
        if let Row(_, words) = self {
            if let [Line(b':', first), Line(b':', last), ..] = &mut words[..] {
                std::mem::swap(first, last);
            }
            words.iter_mut().for_each(Word::turn);
        }
    }
}
