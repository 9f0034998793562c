//! Streams to nodes: TCP, TLS, and sockets of this machine. What [dials](Dial) is a
//! seam: behind it the simulator has streams of its own.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

#[cfg(feature = "tls")]
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
#[cfg(feature = "tls")]
use x509_cert::Certificate;
#[cfg(feature = "tls")]
use x509_cert::der::Decode;

use super::quiet::Quiet;
use super::race::race;
use super::tls::Tls;
#[cfg(feature = "tls")]
use super::words;
use crate::clock::Clock;
use crate::event::LogEvent;
#[cfg(feature = "tls")]
use crate::foreign;
#[cfg(feature = "tls")]
use crate::node::Cause;
use crate::node::address::Endpoint;
use crate::node::{Fault, FaultKind};
use crate::runtime::Runtime;
#[cfg(feature = "tls")]
use crate::runtime::threads::aside;

/// How long a connection may stay silent, or bytes unacknowledged, before the
/// system gives it up: a host that died leaves no reset behind.
const SILENCE: Duration = Duration::from_secs(3);

/// Why there is no stream.
pub(crate) enum DialError {
    /// No process listens there.
    Refused(Fault),
    /// Anything else.
    Other(Fault),
}

pub(crate) fn unreachable(error: &io::Error) -> DialError {
    let fault = Fault::new(FaultKind::Unreachable, error.to_string(), false);
    match error.kind() {
        io::ErrorKind::ConnectionRefused => DialError::Refused(fault),
        _ => DialError::Other(fault),
    }
}

/// A certificate, a key or a name that is not good.
#[cfg(feature = "tls")]
fn wrong(error: impl ToString) -> DialError {
    let text = error.to_string();
    let text = format!("TLS: {}{}", foreign::excerpt(&text), words::remedy(&text));
    let fault = Fault::new(FaultKind::Misconfigured, text, false);
    DialError::Other(fault.because(Cause::Tls))
}

/// A stream that is being made.
pub(crate) type StreamFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Stream, DialError>> + Send + 'a>>;

/// The seam through which a connection gets its stream. Nothing above it names a
/// socket, looks a name up, starts a thread or sets a timer, but by the client's
/// [`Clock`](crate::clock::Clock).
pub(crate) trait Dial: Send + Sync {
    /// A stream to the server at this endpoint, or why there is none.
    fn dial<'a>(&'a self, endpoint: &'a Endpoint) -> StreamFuture<'a>;

    /// The other addresses of the host, where its name has several: all but the address that the
    /// stream leads to.
    fn others(&self, _: &Endpoint, _: &Stream) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// A stream to the server at this one of them.
    fn dial_at<'a>(&'a self, endpoint: &'a Endpoint, _: SocketAddr) -> StreamFuture<'a> {
        self.dial(endpoint)
    }

    /// When the first of the certificates ends that the server shows there now; `None` where it
    /// shows none.
    fn certificate_expires<'a>(
        &'a self,
        endpoint: &'a Endpoint,
    ) -> Pin<Box<dyn Future<Output = Option<u64>> + Send + 'a>> {
        Box::pin(async move { self.dial(endpoint).await.ok()?.certificate_expires() })
    }

    /// Whether there is none yet because its name is being looked up.
    fn is_looking_up(&self, _: &Endpoint) -> bool {
        false
    }
}

/// Sockets of the system, in a tokio runtime, with these settings where a URL asks
/// for TLS.
#[cfg_attr(not(feature = "tls"), allow(dead_code))]
pub(crate) struct SystemDial {
    pub(crate) tls: Tls,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) warn: fn(LogEvent),
}

impl Dial for SystemDial {
    fn dial<'a>(&'a self, endpoint: &'a Endpoint) -> StreamFuture<'a> {
        Box::pin(dial(endpoint, None, self))
    }

    fn others(&self, endpoint: &Endpoint, stream: &Stream) -> Vec<SocketAddr> {
        let (Endpoint::Tcp { host, port, .. }, Some(here)) = (endpoint, stream.peer()) else {
            return Vec::new();
        };
        let mut others = Runtime::get().lookups().known(host);
        others.retain(|at| at.ip() != here.ip());
        others.iter_mut().for_each(|at| at.set_port(*port));
        others
    }

    fn dial_at<'a>(&'a self, endpoint: &'a Endpoint, at: SocketAddr) -> StreamFuture<'a> {
        Box::pin(dial(endpoint, Some(at), self))
    }

    fn is_looking_up(&self, endpoint: &Endpoint) -> bool {
        let lookups = Runtime::get().lookups();
        matches!(endpoint, Endpoint::Tcp { host, .. } if lookups.are_needed_for(host))
    }
}

/// A stream to the server at the endpoint; to that at one address of its name, if it is given.
async fn dial(
    endpoint: &Endpoint,
    at: Option<SocketAddr>,
    sockets: &SystemDial,
) -> Result<Stream, DialError> {
    Runtime::connects();
    let tcp = async |host: &str, port| match at {
        None => tcp(host, port, &sockets.clock).await,
        Some(at) => tuned(TcpStream::connect(at).await?),
    };
    match endpoint {
        Endpoint::Tcp {
            host,
            port,
            tls: false,
        } => Ok(Stream::Tcp(Quiet::new(
            tcp(host, *port).await.map_err(|e| unreachable(&e))?,
        ))),
        #[cfg(not(feature = "tls"))]
        Endpoint::Tcp { tls: true, .. } => unreachable!("no such URL is taken here"),
        #[cfg(feature = "tls")]
        Endpoint::Tcp {
            host,
            port,
            tls: true,
        } => {
            // The certificates are read on another thread, for reading blocks.
            let tls = sockets.tls.clone();
            let warn = sockets.warn;
            let config = aside("quorlock-tls", move || tls.config(warn))
                .await
                .map_err(|e| unreachable(&e))?
                .map_err(wrong)?;
            let name = ServerName::try_from(host.clone()).map_err(wrong)?;
            let stream = tcp(host, *port).await.map_err(|e| unreachable(&e))?;
            let stream = tokio_rustls::TlsConnector::from(config)
                .connect(name, Quiet::new(stream))
                .await
                .map_err(|e| match e.kind() {
                    // rustls reports a bad certificate of the peer, and its own verdict, as invalid
                    // data; any other error is the network's.
                    io::ErrorKind::InvalidData => wrong(e),
                    _ => unreachable(&e),
                })?;
            Ok(Stream::Tls(Box::new(stream)))
        }
        #[cfg(unix)]
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path)
                .await
                .map_err(|e| unreachable(&e))?;
            Runtime::watch((&stream).into());
            Ok(Stream::Unix(Quiet::new(stream)))
        }
        #[cfg(not(unix))]
        Endpoint::Unix(_) => unreachable!("no such URL is taken here"),
        Endpoint::Memory(_) | Endpoint::Sentinel(_) | Endpoint::Cluster(_) => {
            unreachable!("memory nodes have a link of their own, and others name an address")
        }
    }
}

async fn tcp(host: &str, port: u16, clock: &Arc<dyn Clock>) -> io::Result<TcpStream> {
    let stream = match host.parse::<IpAddr>() {
        Ok(address) => TcpStream::connect((address, port)).await?,
        Err(_) => {
            let lookup = Runtime::get().lookups().begin(host);
            race(lookup, clock, |mut address| {
                address.set_port(port);
                TcpStream::connect(address)
            })
            .await?
        }
    };
    tuned(stream)
}

fn tuned(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    let keepalive = TcpKeepalive::new()
        .with_time(SILENCE)
        .with_interval(Duration::from_secs(1));
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(SILENCE))?;
    Runtime::watch(socket);
    Ok(stream)
}

/// The kinds of streams that a node is reached over.
pub(crate) enum Stream {
    Tcp(Quiet<TcpStream>),
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<Quiet<TcpStream>>>),
    #[cfg(unix)]
    Unix(Quiet<UnixStream>),
    Simulated(Box<dyn Bytes>),
}

impl Stream {
    /// When the first of the certificates ends that the server has shown, in seconds since 1970.
    pub(crate) fn certificate_expires(&self) -> Option<u64> {
        match self {
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => {
                let shown = stream.get_ref().1.peer_certificates()?.iter();
                let read = shown.filter_map(|der| Certificate::from_der(der).ok());
                let ends = read.map(|one| one.tbs_certificate().validity().not_after);
                ends.map(|end| end.to_unix_duration().as_secs()).min()
            }
            _ => None,
        }
    }

    /// The address that it leads to.
    fn peer(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(stream) => stream.socket().peer_addr().ok(),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.get_ref().0.socket().peer_addr().ok(),
            _ => None,
        }
    }
}

/// Two ends of one stream of this machine, for tests.
#[cfg(all(test, unix))]
pub(super) fn pair() -> (Stream, UnixStream) {
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    (Stream::Unix(Quiet::new(near)), far)
}

/// Two ends of one stream of this machine, for tests.
#[cfg(all(test, not(unix)))]
pub(super) fn pair() -> (Stream, TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("its address");
    let ends = [
        std::net::TcpStream::connect(at).expect("a connection"),
        listener.accept().expect("the same").0,
    ];
    let [near, far] = ends.map(|end| {
        end.set_nonblocking(true)
            .expect("a socket that does not block");
        TcpStream::from_std(end).expect("a socket of tokio's")
    });
    (Stream::Tcp(Quiet::new(near)), far)
}

/// A stream of the simulator's.
pub trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

macro_rules! on_stream {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $call,
            #[cfg(feature = "tls")]
            Stream::Tls($stream) => $call,
            #[cfg(unix)]
            Stream::Unix($stream) => $call,
            Stream::Simulated($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_stream!(self, s => Pin::new(s).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, s => Pin::new(s).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, s => Pin::new(s).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, s => Pin::new(s).poll_shutdown(cx))
    }
}
