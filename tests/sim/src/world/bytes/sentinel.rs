//! The sentinels of a node that fails over, as one client of it sees them: they say where
//! the master is, each client when it is its time to hear that, and when it is another.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use quorlock::sim::probe::link::{Bytes, DialFuture};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{PORT, host, stream};
use crate::death;
use crate::server::resp::{Input, array, bulk, int, line};
use crate::world::{Inner, World};

/// The name by which they know a master.
pub(super) const MASTER: &str = "m";

/// A client's connection to them.
#[derive(Default)]
pub(super) struct Talk {
    pair: usize,
    input: Input,
    incoming: VecDeque<u8>,
    reader: Option<Waker>,
    /// It hears when the master is another.
    subscribed: bool,
}

/// A client's end of it.
struct Stream {
    world: Arc<World>,
    number: usize,
}

/// Dials the sentinels of a pair.
pub(super) fn dial(world: Arc<World>, pair: usize) -> DialFuture {
    Box::pin(async move {
        let (number, at) = {
            let mut inner = world.inner();
            let at = inner.time + inner.way(pair);
            inner.bytes().lanes[pair].dials(at);
            let talks = &mut inner.bytes().talks;
            talks.push(Talk {
                pair,
                ..Talk::default()
            });
            (talks.len() - 1, at)
        };
        let stream = Stream {
            world: world.clone(),
            number,
        };
        stream::until(&world, at).await;
        Ok(Box::new(stream) as Box<dyn Bytes>)
    })
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut inner = self.world.inner();
        let talk = &mut inner.bytes().talks[self.number];
        if talk.incoming.is_empty() {
            talk.reader = Some(cx.waker().clone());
            drop(inner);
            death::waits();
            return Poll::Pending;
        }
        let taken = talk.incoming.len().min(buf.remaining());
        let bytes: Vec<u8> = talk.incoming.drain(..taken).collect();
        buf.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.world.inner().asks_sentinels(self.number, buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut inner = self.world.inner();
        inner.bytes().talks[self.number] = Talk::default();
    }
}

impl Talk {
    fn says(&mut self, bytes: &[u8]) {
        self.incoming.extend(bytes);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl Inner {
    /// A client asks the sentinels.
    fn asks_sentinels(&mut self, number: usize, bytes: &[u8]) {
        let mut talk = std::mem::take(&mut self.bytes().talks[number]);
        talk.input.add(bytes);
        let mut out = Vec::new();
        while let Ok(Some(words)) = talk.input.command() {
            let words: Vec<&[u8]> = words.iter().map(|w| talk.input.word(w)).collect();
            match &words[..] {
                [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name] if *name == MASTER.as_bytes() => {
                    let (place, _) = self.named(talk.pair);
                    let node = self.pairs[talk.pair].node;
                    array(&mut out, b'*', 2);
                    bulk(&mut out, host(node, place).as_bytes());
                    bulk(&mut out, PORT.as_bytes());
                }
                [b"SUBSCRIBE", channel] => {
                    talk.subscribed = true;
                    array(&mut out, b'*', 3);
                    bulk(&mut out, b"subscribe");
                    bulk(&mut out, channel);
                    int(&mut out, 1);
                }
                [b"PING"] => {
                    array(&mut out, b'*', 2);
                    bulk(&mut out, b"pong");
                    bulk(&mut out, b"");
                }
                _ => line(&mut out, b'-', "ERR unknown command"),
            }
        }
        talk.says(&out);
        self.bytes().talks[number] = talk;
    }

    /// The sentinels of a client say that its node's master is another.
    pub(in crate::world) fn sentinels_say(&mut self, pair: usize) {
        let p = &self.pairs[pair];
        let (node, place) = (p.node, self.nodes[p.node].place);
        let (before, now) = (host(node, place ^ 1), host(node, place));
        let said = format!("{MASTER} {before} {PORT} {now} {PORT}");
        let mut out = Vec::new();
        array(&mut out, b'*', 3);
        for word in ["message", "+switch-master", &said] {
            bulk(&mut out, word.as_bytes());
        }
        let talks = self.bytes().talks.iter_mut();
        let hear = talks.filter(|talk| talk.subscribed && talk.pair == pair);
        hear.for_each(|talk| talk.says(&out));
    }
}
