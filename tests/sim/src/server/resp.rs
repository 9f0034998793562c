//! RESP as a server reads and writes it: commands come in pieces of any size.

use std::ops::Range;

/// The longest word of a command.
const LONGEST: usize = 1 << 20;
/// As many words a command may have.
const MOST: usize = 1_000;

/// What has arrived over a connection, cut into commands.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    /// The first this many of them are done with.
    done: usize,
    /// How many were done with before those.
    passed: u64,
}

/// The words of a command, as places in the input.
pub type Words = Vec<Range<usize>>;

/// What is no command.
#[derive(Debug, PartialEq, Eq)]
pub struct ProtocolError;

impl Input {
    /// More has arrived.
    pub fn add(&mut self, bytes: &[u8]) {
        if self.done > 0 {
            self.bytes.drain(..self.done);
            self.passed += self.done as u64;
            self.done = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// A word of the command that was read last.
    pub fn word(&self, place: &Range<usize>) -> &[u8] {
        &self.bytes[place.clone()]
    }

    /// How many bytes of the connection are done with.
    pub fn passed(&self) -> u64 {
        self.passed + self.done as u64
    }

    /// The next whole command, of at least one word; `None` if not all of it has
    /// arrived.
    pub fn command(&mut self) -> Result<Option<Words>, ProtocolError> {
        loop {
            let mut at = self.done;
            let Some(count) = self.number(&mut at, b'*', MOST)? else {
                return Ok(None);
            };
            let mut words = Vec::with_capacity(count);
            for _ in 0..count {
                let Some(length) = self.number(&mut at, b'$', LONGEST)? else {
                    return Ok(None);
                };
                let Some(end) = self.bytes.get(at + length..at + length + 2) else {
                    return Ok(None);
                };
                if end != b"\r\n" {
                    return Err(ProtocolError);
                }
                words.push(at..at + length);
                at += length + 2;
            }
            self.done = at;
            if !words.is_empty() {
                return Ok(Some(words));
            }
        }
    }

    /// A line of a sign and a number that is no larger than `most`; passes it over.
    fn number(
        &self,
        at: &mut usize,
        sign: u8,
        most: usize,
    ) -> Result<Option<usize>, ProtocolError> {
        let rest = &self.bytes[*at..];
        let Some(end) = rest.iter().position(|b| *b == b'\r') else {
            return if rest.len() < 24 {
                Ok(None)
            } else {
                Err(ProtocolError)
            };
        };
        match rest.get(end + 1) {
            None => return Ok(None),
            Some(b'\n') => {}
            Some(_) => return Err(ProtocolError),
        }
        let (first, digits) = rest[..end].split_first().ok_or(ProtocolError)?;
        let number = number(digits).filter(|n| *n <= most as u64);
        let number = number.filter(|_| *first == sign).ok_or(ProtocolError)?;
        *at += end + 2;
        Ok(Some(number as usize))
    }
}

/// A number in decimal.
pub fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Appends a number.
pub fn int(out: &mut Vec<u8>, number: i64) {
    line(out, b':', &number.to_string());
}

/// Appends a text.
pub fn bulk(out: &mut Vec<u8>, text: &[u8]) {
    line(out, b'$', &text.len().to_string());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// Appends the head of this many elements.
pub fn array(out: &mut Vec<u8>, kind: u8, elements: usize) {
    line(out, kind, &elements.to_string());
}

/// Appends one line: a status, an error.
pub fn line(out: &mut Vec<u8>, kind: u8, text: &str) {
    out.push(kind);
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b"*1\r\n$4\r\nTIME\r\n*0\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\n\r\n*1\r\n*1\r\n$4\r\nPING\r\n";

    fn commands(pieces: &[&[u8]]) -> Vec<Vec<Vec<u8>>> {
        let (mut input, mut came) = (Input::default(), Vec::new());
        for piece in pieces {
            input.add(piece);
            while let Some(words) = input.command().unwrap() {
                came.push(words.iter().map(|w| input.word(w).to_vec()).collect());
            }
        }
        assert_eq!(input.passed(), STREAM.len() as u64);
        came
    }

    #[test]
    fn commands_are_the_same_at_every_cut() {
        let whole = commands(&[STREAM]);
        assert_eq!(whole.len(), 3);
        assert_eq!(whole[1], [&b"SET"[..], b"", b"\r\n*1"]);
        for first in 0..STREAM.len() {
            for second in first..STREAM.len() {
                let pieces = [&STREAM[..first], &STREAM[first..second], &STREAM[second..]];
                assert_eq!(commands(&pieces), whole, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn what_is_no_command_is_found() {
        for bytes in [
            &b"PING\r\n"[..],
            b"*x\r\n",
            b"*-1\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n$1\r\nab\r\n",
            b"*9999999\r\n",
            b"*1\rx",
            b"*1111111111111111111111111",
        ] {
            let mut input = Input::default();
            input.add(bytes);
            assert_eq!(
                input.command(),
                Err(ProtocolError),
                "{}",
                bytes.escape_ascii()
            );
        }
    }
}
