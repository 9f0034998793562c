//! From an address to a connection that is ready for scripts.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError};
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::AbortHandle;

use super::address::{Address, Endpoint};
use super::tls::Tls;
use super::{Fault, FaultKind, script};

/// How long a connection may stay silent, or bytes unacknowledged, before the
/// system gives it up: a host that died leaves no reset behind.
const SILENCE: Duration = Duration::from_secs(3);

/// A connection, and the task that moves its bytes.
pub(crate) struct Wire {
    pub(crate) connection: MultiplexedConnection,
    driver: AbortHandle,
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Without this the driver would wait for the replies of a node that
        // may never answer. Bytes already written still go out.
        self.driver.abort();
    }
}

/// Connects, authenticates, chooses the database and loads the scripts. Calls
/// `broken` when the connection ends later.
pub(crate) async fn connect(
    address: &Address,
    tls: &Tls,
    broken: impl FnOnce() + Send + 'static,
) -> Result<Wire, Fault> {
    let stream = dial(&address.endpoint, tls).await?;
    let mut info = RedisConnectionInfo::default()
        .set_db(address.db)
        .set_lib_name("quorlock", env!("CARGO_PKG_VERSION"));
    if let Some(user) = &address.user {
        info = info.set_username(user);
    }
    if let Some(password) = &address.password {
        info = info.set_password(password);
    }
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
        .await
        .map_err(|e| fault(&e))?;
    let driver = tokio::spawn(async move {
        driver.await;
        broken();
    });
    let mut wire = Wire {
        connection,
        driver: driver.abort_handle(),
    };
    let mut load = redis::pipe();
    for script in script::ALL {
        load.cmd("SCRIPT").arg("LOAD").arg(script.text);
    }
    let loaded = wire
        .connection
        .send_packed_commands(&load, 0, script::ALL.len())
        .await
        .map_err(|e| fault(&e))?;
    for reply in loaded {
        if let redis::Value::ServerError(error) = reply {
            return Err(script::fault_of(error.code(), error.details()));
        }
    }
    Ok(wire)
}

/// What an error of the driver library means to us.
pub(crate) fn fault(error: &RedisError) -> Fault {
    if error.kind() == redis::ErrorKind::AuthenticationFailed {
        let detail = error.detail().unwrap_or("wrong user or password");
        return Fault::new(
            FaultKind::Misconfigured,
            format!("authentication failed: {detail}"),
            true,
        );
    }
    if let Some(code) = error.code() {
        return script::fault_of(code, error.detail());
    }
    // With TLS 1.3 a node refuses the client's certificate only after the
    // handshake, in place of the first reply. The driver library keeps the
    // I/O error in an `Arc`, and that the error of rustls.
    let refused = std::error::Error::source(error)
        .and_then(|e| e.downcast_ref::<Arc<dyn std::error::Error + Send + Sync>>())
        .and_then(|e| e.downcast_ref::<io::Error>())
        .and_then(|e| e.get_ref()?.downcast_ref::<rustls::Error>());
    if let Some(refused) = refused {
        return Fault::new(FaultKind::Misconfigured, format!("TLS: {refused}"), true);
    }
    Fault::new(
        FaultKind::Unreachable,
        format!("connection lost: {error}"),
        true,
    )
}

fn unreachable(error: &io::Error) -> Fault {
    Fault::new(FaultKind::Unreachable, error.to_string(), false)
}

async fn dial(endpoint: &Endpoint, tls: &Tls) -> Result<Stream, Fault> {
    match endpoint {
        Endpoint::Tcp {
            host,
            port,
            tls: false,
        } => Ok(Stream::Tcp(
            tcp(host, *port).await.map_err(|e| unreachable(&e))?,
        )),
        Endpoint::Tcp {
            host,
            port,
            tls: true,
        } => {
            let wrong =
                |e: String| Fault::new(FaultKind::Misconfigured, format!("TLS: {e}"), false);
            // Reading the system's certificates blocks.
            let tls = tls.clone();
            let config = tokio::task::spawn_blocking(move || tls.config())
                .await
                .map_err(|e| wrong(e.to_string()))?
                .map_err(wrong)?;
            let name = ServerName::try_from(host.clone()).map_err(|e| wrong(e.to_string()))?;
            let stream = tcp(host, *port).await.map_err(|e| unreachable(&e))?;
            let stream = tokio_rustls::TlsConnector::from(config)
                .connect(name, stream)
                .await
                .map_err(|e| match e.kind() {
                    // rustls reports what the peer's certificate or its own
                    // verdict was as invalid data; the rest is the network.
                    io::ErrorKind::InvalidData => wrong(e.to_string()),
                    _ => unreachable(&e),
                })?;
            Ok(Stream::Tls(Box::new(stream)))
        }
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path)
                .await
                .map_err(|e| unreachable(&e))?;
            Ok(Stream::Unix(stream))
        }
        Endpoint::Memory(_) => unreachable!("memory nodes have a link of their own"),
    }
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    // Names are resolved on a thread for blocking calls, not on this one.
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                tune(&stream)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new()
        .with_time(SILENCE)
        .with_interval(Duration::from_secs(1));
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(SILENCE))?;
    Ok(())
}

/// The kinds of streams that a node is reached over.
enum Stream {
    Tcp(TcpStream),
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
    Unix(UnixStream),
}

macro_rules! on_stream {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $call,
            Stream::Tls($stream) => $call,
            Stream::Unix($stream) => $call,
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
