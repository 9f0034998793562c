//! A proxy in front of a node that lets everything through but messages.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// See the [module documentation](self). Ends when it is dropped.
#[derive(Debug)]
pub struct Muted {
    runtime: Option<Runtime>,
    dropped: Arc<AtomicU64>,
    /// Its URL.
    pub url: String,
}

impl Muted {
    /// A proxy for the node with that URL, without credentials.
    pub fn new(node: &str) -> Muted {
        let node = node.strip_prefix("redis://").expect("TCP").to_owned();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_io()
            .build()
            .expect("a runtime");
        let listener = runtime
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .expect("a port");
        let url = format!("redis://{}", listener.local_addr().expect("bound"));
        let dropped = Arc::<AtomicU64>::default();
        let count = dropped.clone();
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(node) = TcpStream::connect(&node).await else {
                    continue;
                };
                let (client, node) = (client.into_split(), node.into_split());
                tokio::spawn(pass(node.0, client.1, Some(count.clone())));
                tokio::spawn(pass(client.0, node.1, None));
            }
        });
        Muted {
            runtime: Some(runtime),
            dropped,
            url,
        }
    }

    /// How many messages it has dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Muted {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Passes one way of a connection on; with a count, without messages.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    dropped: Option<Arc<AtomicU64>>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    while from.read_buf(&mut bytes).await? > 0 {
        let Some(dropped) = &dropped else {
            to.write_all(&std::mem::take(&mut bytes)).await?;
            continue;
        };
        while let Some(length) = whole(&bytes) {
            let reply: Vec<u8> = bytes.drain(..length).collect();
            if reply.starts_with(b">3\r\n$7\r\nmessage\r\n") {
                dropped.fetch_add(1, Ordering::Relaxed);
            } else {
                to.write_all(&reply).await?;
            }
        }
    }
    to.shutdown().await
}

/// The length of the reply or push that the bytes begin with, if all of it is
/// there.
pub(crate) fn whole(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(2).position(|end| end == b"\r\n")? + 2;
    let number = || {
        let text = std::str::from_utf8(&bytes[1..head - 2]).expect("a number");
        usize::try_from(text.parse::<i64>().expect("a number")).ok()
    };
    let inside = match bytes[0] {
        b'$' | b'=' | b'!' => {
            let length = head + number().map_or(0, |size| size + 2);
            return (length <= bytes.len()).then_some(length);
        }
        b'*' | b'~' | b'>' => number().unwrap_or(0),
        b'%' => 2 * number().unwrap_or(0),
        _ => 0,
    };
    (0..inside).try_fold(head, |length, _| Some(length + whole(&bytes[length..])?))
}
