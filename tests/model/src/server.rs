//! The real node: commands out, replies in, over a plain socket.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use quorlock::sim::{Op, probe, probe::ProbeReply};

/// A connection to the server.
#[derive(Debug)]
pub struct Server {
    stream: TcpStream,
    input: Vec<u8>,
}

/// A command in the server's protocol.
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// A plain reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plain {
    /// A number.
    Number(i64),
    /// A text, or nothing.
    Text(Option<Vec<u8>>),
    /// A status.
    Status(String),
}

impl Server {
    /// Connects to `redis://host:port`.
    pub fn connect(url: &str) -> io::Result<Server> {
        let place = url.trim_start_matches("redis://");
        let stream = TcpStream::connect(place)?;
        stream.set_nodelay(true)?;
        Ok(Server {
            stream,
            input: Vec::new(),
        })
    }

    /// Writes commands.
    pub fn send(&mut self, commands: &[u8]) -> io::Result<()> {
        self.stream.write_all(commands)
    }

    fn more(&mut self) -> io::Result<()> {
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                self.input.extend_from_slice(&chunk[..n]);
                Ok(())
            }
        }
    }

    /// The answer to a request, as a client reads it.
    pub fn said(&mut self, op: Op) -> io::Result<ProbeReply> {
        loop {
            if let Some((said, end)) = probe::read(op, &self.input)? {
                self.input.drain(..end);
                return Ok(said);
            }
            self.more()?;
        }
    }

    /// The answer to an init script, as a client reads it.
    pub fn said_to_init(&mut self) -> io::Result<Result<(), String>> {
        loop {
            if let Some((said, end)) = probe::read_init(&self.input)? {
                self.input.drain(..end);
                return Ok(said);
            }
            self.more()?;
        }
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.input.windows(2).position(|w| w == b"\r\n") {
                let line = String::from_utf8_lossy(&self.input[..end]).into_owned();
                self.input.drain(..end + 2);
                return Ok(line);
            }
            self.more()?;
        }
    }

    /// A reply that is no array; an error of the server is one of ours.
    pub fn plain(&mut self) -> io::Result<Plain> {
        let line = self.line()?;
        let number = || line[1..].parse::<i64>().map_err(io::Error::other);
        match line.as_bytes().first() {
            Some(b':') => Ok(Plain::Number(number()?)),
            Some(b'+') => Ok(Plain::Status(line[1..].to_owned())),
            Some(b'$') => {
                let Ok(length) = usize::try_from(number()?) else {
                    return Ok(Plain::Text(None));
                };
                while self.input.len() < length + 2 {
                    self.more()?;
                }
                let text = self.input.drain(..length + 2).take(length).collect();
                Ok(Plain::Text(Some(text)))
            }
            _ => Err(io::Error::other(format!("the server said {line}"))),
        }
    }

    /// A reply that is an array of plain ones.
    pub fn row(&mut self) -> io::Result<Vec<Plain>> {
        let line = self.line()?;
        match line.strip_prefix('*').map(str::parse::<usize>) {
            Some(Ok(length)) => (0..length).map(|_| self.plain()).collect(),
            _ => Err(io::Error::other(format!("the server said {line}"))),
        }
    }

    /// One command and its plain reply.
    pub fn ask(&mut self, words: &[&[u8]]) -> io::Result<Plain> {
        self.send(&command(words))?;
        self.plain()
    }
}
