//! The stream of bytes to and from one server: commands out of one buffer, whole
//! [replies](super::resp) and [pushes](super::pushes) in.
//!
//! redis-rs's own multiplexed connection puts a channel, a task and a oneshot
//! between a request and its bytes, which costs about half of an uncontended
//! round on five nodes, and does not say which requests have been written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use redis::Value as Resp;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::dial::Stream;
use super::pushes::{Push, Pushes};
use super::resp::{self, Bound, Scan};
use crate::mutants::mutant;

const CHUNK: usize = 16 * 1024;
/// So much room for requests is kept when all are written.
const KEPT: usize = 4 * CHUNK;

/// What a server sends.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// The answer to the oldest request.
    Reply(Resp),
    /// What nobody asked for.
    Push(Push),
}

/// A stream with its buffers.
pub(crate) struct Wire {
    stream: Stream,
    /// To be written; the first `written` bytes have been.
    pub(crate) out: Vec<u8>,
    written: usize,
    pub(crate) input: Input,
    chunk: Box<[u8]>,
}

impl Wire {
    /// `channel`: the name of our inbox.
    pub(crate) fn new(stream: Stream, channel: Arc<[u8]>) -> Wire {
        Wire {
            stream,
            out: Vec::new(),
            written: 0,
            input: Input::new(channel),
            chunk: vec![0; CHUNK].into(),
        }
    }

    /// Writes what is in `out`. Ready when all of it is gone.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.out.len() {
            let rest = &self.out[self.written..];
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.written += mutant!("rest-not-written", n, rest.len()),
            }
        }
        if self.written > 0 {
            self.out.clear();
            // What a burst has taken is given back.
            self.out.shrink_to(KEPT);
            self.written = 0;
            // A TLS stream keeps bytes back until it is flushed.
            return Pin::new(&mut self.stream).poll_flush(cx);
        }
        Poll::Ready(Ok(()))
    }

    /// The next whole reply or push.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Incoming>> {
        loop {
            if let Some(next) = self.input.next()? {
                return Poll::Ready(Ok(next));
            }
            let mut chunk = ReadBuf::new(&mut self.chunk);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut chunk))?;
            if chunk.filled().is_empty() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.input.add(chunk.filled());
        }
    }
}

/// What was read, cut into replies and pushes.
pub(crate) struct Input {
    /// The first `parsed` of them are done with.
    bytes: Vec<u8>,
    parsed: usize,
    /// How far the next reply was looked through, and how long it may be.
    scan: Scan,
    pub(crate) bound: Bound,
    pub(crate) pushes: Pushes,
}

impl Input {
    pub(crate) fn new(channel: Arc<[u8]>) -> Input {
        Input {
            bytes: Vec::new(),
            parsed: 0,
            scan: Scan::default(),
            bound: resp::REPLY,
            pushes: Pushes::new(channel),
        }
    }

    /// How many bytes it holds that are not done with.
    pub(crate) fn held(&self) -> usize {
        self.bytes.len() - self.parsed
    }

    pub(crate) fn add(&mut self, chunk: &[u8]) {
        let done = mutant!("cut-loses-bytes", self.parsed, {
            self.scan = Scan::default();
            self.bytes.len()
        });
        self.bytes.drain(..done);
        self.parsed = 0;
        self.bytes.extend_from_slice(chunk);
    }

    /// The next whole reply or push; `None` if not all of it has arrived.
    pub(crate) fn next(&mut self) -> io::Result<Option<Incoming>> {
        let rest = &self.bytes[self.parsed..];
        let (taken, next) = if rest.first() == Some(&b'>') || self.pushes.is_inside() {
            let (taken, push) = self.pushes.read(rest)?;
            (taken, push.map(Incoming::Push))
        } else {
            match self.scan.reply(rest, self.bound)? {
                Some((reply, end)) => (end, Some(Incoming::Reply(reply))),
                None => (0, None),
            }
        };
        self.parsed += taken;
        if self.parsed == self.bytes.len() {
            self.bytes.clear();
            self.parsed = 0;
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_come_between_replies_and_are_none() {
        let mut input = Input::new(Arc::from(&b"in"[..]));
        let hint = b">3\r\n$7\r\nmessage\r\n$2\r\nin\r\n$1\r\n7\r\n";
        let stream = [&b":1\r\n"[..], hint, b"_\r\n", hint, hint, b"$1\r\n>\r\n"].concat();
        let mut came = Vec::new();
        for byte in stream {
            input.add(&[byte]);
            came.extend(input.next().unwrap());
        }
        let hint = || {
            Incoming::Push(Push::Message(crate::node::Hint {
                number: 7,
                slot: None,
            }))
        };
        assert_eq!(
            came,
            [
                Incoming::Reply(Resp::Int(1)),
                hint(),
                Incoming::Reply(Resp::Nil),
                hint(),
                hint(),
                Incoming::Reply(Resp::BulkString(b">".to_vec())),
            ]
        );
    }
}
