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
use std::time::Duration;

use redis::Value as Resp;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::dial::Stream;
use super::pushes::{Push, Pushes};
use super::resp::{self, ReplyBound, Scan};
use crate::clock::{Clock, Instant, Sleep};

const CHUNK: usize = 16 * 1024;
/// How much room for requests the wire keeps when all are written.
const KEPT: usize = 4 * CHUNK;

/// How many bytes of pushes the wire takes at once, and then again in each [`TURN`]: about forty
/// notifications of waiters in each millisecond, and six hundred before that. The wire reads a
/// server that sends more so slowly that other servers do not wait for it.
const PUSHES: usize = 4 * 1024;
const TURN: Duration = Duration::from_millis(1);
const TURNS: u32 = 16;

/// What a server sends.
#[derive(Debug, PartialEq)]
pub(crate) enum ServerMessage {
    /// The answer to the oldest request.
    Reply(Resp),
    /// A push, which no request has asked for.
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
    clock: Arc<dyn Clock>,
    /// Until when what came of pushes is enough, and nothing is read while that is far ahead.
    enough: Instant,
    rest: Option<Sleep>,
}

impl Wire {
    /// `channel`: the name of our inbox.
    pub(crate) fn new(stream: Stream, channel: Arc<[u8]>, clock: Arc<dyn Clock>) -> Wire {
        Wire {
            stream,
            out: Vec::new(),
            written: 0,
            input: Input::new(channel),
            chunk: vec![0; CHUNK].into(),
            clock,
            enough: Instant::NEVER,
            rest: None,
        }
    }

    /// See [`Stream::certificate_expires`].
    pub(crate) fn certificate_expires(&self) -> Option<u64> {
        self.stream.certificate_expires()
    }

    /// Writes what is in `out`. Ready when all of it is gone.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.out.len() {
            let rest = &self.out[self.written..];
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.written += n,
            }
        }
        if self.written > 0 {
            self.out.clear();
            // The room that a burst has taken is given back.
            self.out.shrink_to(KEPT);
            self.written = 0;
            // A TLS stream keeps bytes back until it is flushed.
            return Pin::new(&mut self.stream).poll_flush(cx);
        }
        Poll::Ready(Ok(()))
    }

    /// The next whole reply or push.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ServerMessage>> {
        loop {
            if let Some(rest) = &mut self.rest {
                ready!(rest.as_mut().poll(cx));
                self.rest = None;
            }
            let next = self.input.next()?;
            if self.input.pushed >= PUSHES {
                self.pay();
            }
            if let Some(next) = next {
                return Poll::Ready(Ok(next));
            }
            if self.rest.is_some() {
                continue;
            }
            let mut chunk = ReadBuf::new(&mut self.chunk);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut chunk))?;
            if chunk.filled().is_empty() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.input.add(chunk.filled());
        }
    }

    /// Takes the pushes that have come from what may be read of them.
    fn pay(&mut self) {
        let turns = (self.input.pushed / PUSHES) as u32;
        self.input.pushed %= PUSHES;
        let now = self.clock.now();
        self.enough = self.enough.max(now - TURN * TURNS) + TURN * turns;
        if self.enough > now {
            self.rest = Some(self.clock.sleep_until(self.enough));
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
    pub(crate) bound: ReplyBound,
    pub(crate) pushes: Pushes,
    /// How many bytes of them have come that were not [paid](Wire::pay) for.
    pushed: usize,
}

impl Input {
    pub(crate) fn new(channel: Arc<[u8]>) -> Input {
        Input {
            bytes: Vec::new(),
            parsed: 0,
            scan: Scan::default(),
            bound: resp::REPLY,
            pushes: Pushes::new(channel),
            pushed: 0,
        }
    }

    /// How many bytes it holds that are not done with.
    pub(crate) fn held(&self) -> usize {
        self.bytes.len() - self.parsed
    }

    pub(crate) fn add(&mut self, chunk: &[u8]) {
        let done = self.parsed;
        self.bytes.drain(..done);
        self.parsed = 0;
        self.bytes.extend_from_slice(chunk);
    }

    /// The next whole reply or push; `None` if not all of it has arrived.
    pub(crate) fn next(&mut self) -> io::Result<Option<ServerMessage>> {
        let rest = &self.bytes[self.parsed..];
        let (taken, next) = if rest.first() == Some(&b'>') || self.pushes.is_inside() {
            let (taken, push) = self.pushes.read(rest)?;
            self.pushed += taken;
            (taken, push.map(ServerMessage::Push))
        } else {
            match self.scan.reply(rest, self.bound)? {
                Some((reply, end)) => (end, Some(ServerMessage::Reply(reply))),
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
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicU64, Ordering};

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
            ServerMessage::Push(Push::Message(crate::node::Hint {
                number: 7,
                slot: None,
            }))
        };
        assert_eq!(
            came,
            [
                ServerMessage::Reply(Resp::Int(1)),
                hint(),
                ServerMessage::Reply(Resp::Nil),
                hint(),
                hint(),
                ServerMessage::Reply(Resp::BulkString(b">".to_vec())),
            ]
        );
    }

    /// A server that says the same without end, and is read by so many bytes.
    struct Endless {
        head: &'static [u8],
        says: &'static [u8],
        read: Arc<AtomicU64>,
    }

    impl AsyncRead for Endless {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let head = std::mem::take(&mut self.head);
            buf.put_slice(head);
            while buf.remaining() >= self.says.len() {
                buf.put_slice(self.says);
            }
            let read = buf.filled().len() as u64;
            self.read.fetch_add(read, Ordering::Relaxed);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Endless {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    struct ByHand(Arc<AtomicU64>);

    impl Clock for ByHand {
        fn now(&self) -> Instant {
            Instant(self.0.load(Ordering::Relaxed))
        }

        fn sleep_until(&self, at: Instant) -> Sleep {
            let now = self.0.clone();
            Box::pin(poll_fn(move |_| match now.load(Ordering::Relaxed) {
                now if now < at.0 => Poll::Pending,
                _ => Poll::Ready(()),
            }))
        }
    }

    #[test]
    fn a_flood_of_pushes_is_read_slowly() {
        let call = b">3\r\n$7\r\nmessage\r\n$2\r\nin\r\n$1\r\n7\r\n";
        let stray = b">1\r\n+x\r\n";
        for (head, says) in [
            (&b""[..], &call[..]),
            (b"", stray),
            (b">3\r\n$2000000000\r\n", b"x"),
            (b">60000\r\n", b"$1\r\nx\r\n"),
        ] {
            let (now, read) = (Arc::new(AtomicU64::new(1 << 40)), Arc::default());
            let stream = Endless {
                head,
                says,
                read: Arc::clone(&read),
            };
            let clock = Arc::new(ByHand(now.clone()));
            let stream = Stream::Simulated(Box::new(stream));
            let mut wire = Wire::new(stream, Arc::from(&b"in"[..]), clock);
            let mut cx = Context::from_waker(std::task::Waker::noop());
            // In a long pause the wire forgets what it has read beyond that.
            let mut most = (TURNS as u64 + 1) * PUSHES as u64 + 2 * CHUNK as u64;
            let mut least = 0;
            for long in [0, 1, 10, 1, 1000, 0] {
                now.fetch_add(long * 1_000_000, Ordering::Relaxed);
                most += long.min(TURNS.into()) * PUSHES as u64;
                least += long.min(TURNS.into()) * PUSHES as u64;
                // The pushes are more than a server may have sent in all of that time.
                for _ in 0..1_000_000 {
                    match wire.poll_next(&mut cx) {
                        Poll::Pending => break,
                        Poll::Ready(next) => assert!(next.is_ok(), "{next:?}"),
                    }
                }
                let read = read.load(Ordering::Relaxed);
                let case = says.escape_ascii();
                assert!(
                    read <= most && read >= least,
                    "{case}: {read} of {least} to {most}"
                );
            }
        }
    }
}
