//! From an address to a connection that is ready for scripts: dial,
//! authenticate, admit the node, load the scripts, try the permissions.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use redis::Value as Resp;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::address::{Address, Endpoint};
use super::admission::{Decision, Gate, Info, Record, beginning, decide};
use super::script::{self, Guard, text};
use super::tls::Tls;
use super::wire::Wire;
use super::{Fault, FaultKind};

/// How long a connection may stay silent, or bytes unacknowledged, before the
/// system gives it up: a host that died leaves no reset behind.
const SILENCE: Duration = Duration::from_secs(3);

/// A connection to a node that may vote.
pub(crate) struct Connected {
    pub(crate) wire: Wire,
    /// What goes with each request that gives a vote, if restarts are guarded.
    pub(crate) guard: Option<Guard>,
    /// The node's `TIME`, in µs.
    pub(crate) time: u64,
}

/// Which node to connect to.
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) tls: Tls,
    /// Its place in the set.
    pub(crate) node: usize,
    pub(crate) gate: Arc<Gate>,
}

/// Connects to a node and admits it.
pub(crate) async fn connect(target: &Target) -> Result<Connected, Fault> {
    let (mut wire, info, stored) = greet(target).await?;
    let record = admit(target, &mut wire, &info, stored).await?;
    let time = prepare(target, &mut wire).await?;
    let gate = &target.gate;
    let guard = gate.expected.guard.then(|| Guard {
        record: record.into(),
        record_key: gate.record_key.clone(),
        quarantine_key: gate.quarantine_key.clone(),
    });
    Ok(Connected { wire, guard, time })
}

/// Writes the record of a new set to a node, or only looks whether that could
/// be done. Refuses if it has one.
pub(crate) async fn init(target: &Target, write: bool) -> Result<(), Fault> {
    let (mut wire, info, stored) = greet(target).await?;
    if let Some(record) = stored {
        return Err(refused(format!(
            "it has a record, `{}`: it is in use, or was",
            record.escape_debug()
        )));
    }
    let gate = &target.gate;
    let run = info.run_id.as_deref().map(beginning);
    let record = Record::new(&gate.expected, &fresh_name(gate), run).to_string();
    if !write {
        return Ok(());
    }
    match write_record(gate, &mut wire, "", &record, Duration::ZERO).await? {
        None => Ok(()),
        Some(_) => Err(refused("another client has just given it a record".into())),
    }
}

fn refused(why: String) -> Fault {
    Fault::new(FaultKind::Misconfigured, why, true)
}

/// Dials and authenticates; returns what the server says of itself, and its
/// record.
async fn greet(target: &Target) -> Result<(Wire, Info, Option<String>), Fault> {
    let address = &target.address;
    let mut wire = Wire::new(dial(&address.endpoint, &target.tls).await?);
    let mut commands = Vec::new();
    if let Some(password) = &address.password {
        let mut auth = redis::cmd("AUTH");
        if let Some(user) = &address.user {
            auth.arg(user);
        }
        commands.push(auth.arg(password).take());
    }
    if address.db != 0 {
        commands.push(redis::cmd("SELECT").arg(address.db).take());
    }
    commands.push(redis::cmd("INFO"));
    commands.push(redis::cmd("GET").arg(&*target.gate.record_key).take());
    let mut replies = exchange(&mut wire, &commands).await?;
    let record = replies.pop();
    let info = replies.pop();
    // The password first: without it nothing else is permitted.
    for reply in replies {
        permitted(&target.gate, "select", reply)?;
    }
    let record = record.map(|reply| permitted(&target.gate, "get", reply));
    let record = record.transpose()?;
    let info = match info {
        Some(Resp::ServerError(error)) if script::forbidden(&error) => {
            (target.gate.warn)(format!(
                "the node {} does not answer INFO: a restart shows by its record alone, a replica \
                 and an eviction policy not at all (add `+info` to its user's ACL)",
                address.shown
            ));
            Info::default()
        }
        Some(reply) => Info::parse(&text(&good(reply)?)),
        None => Info::default(),
    };
    let record = record.filter(|r| *r != Resp::Nil).map(|r| text(&r));
    if let Some(why) = info.unfit(target.gate.accept_eviction) {
        return Err(refused(why));
    }
    let roster = &target.gate.roster;
    roster
        .meet(target.node, &address.shown, info.run_id.as_deref())
        .map_err(refused)?;
    Ok((wire, info, record))
}

/// Admits the node: its record is good, or is written now. Returns the record.
async fn admit(
    target: &Target,
    wire: &mut Wire,
    info: &Info,
    mut stored: Option<String>,
) -> Result<String, Fault> {
    let gate = &target.gate;
    let shown = &target.address.shown;
    let run = info.run_id.as_deref();
    // Another client may write it at the same time; once it has, it is good.
    for _ in 0..3 {
        let epoch = gate.roster.epoch(target.node);
        let fresh = fresh_name(gate);
        let record = match decide(&gate.expected, stored.as_deref(), run, epoch, &fresh) {
            Decision::Refuse(why) => return Err(refused(why)),
            Decision::Admit => stored.unwrap_or_default(),
            Decision::Write { record, quarantine } => {
                let record = record.to_string();
                let length = if quarantine {
                    gate.quarantine
                } else {
                    Duration::ZERO
                };
                let old = stored.as_deref().unwrap_or_default();
                if let Some(other) = write_record(gate, wire, old, &record, length).await? {
                    stored = Some(other).filter(|other| !other.is_empty());
                    continue;
                }
                if quarantine {
                    (gate.warn)(format!(
                        "the node {shown} is new, or may have lost its memory: it gives no vote \
                         for {length:?} (a new set need not wait once it is declared with init_set)"
                    ));
                }
                record
            }
        };
        gate.roster.admit(target.node, &record).map_err(refused)?;
        return Ok(record);
    }
    Err(Fault::new(
        FaultKind::NotReady,
        "its record changes again and again",
        true,
    ))
}

fn fresh_name(gate: &Gate) -> String {
    let mut bytes = [0; 8];
    gate.rng.fill(&mut bytes);
    format!("{:016x}", u64::from_le_bytes(bytes))
}

/// Replaces the record if it is still `old`; otherwise returns what it is.
async fn write_record(
    gate: &Gate,
    wire: &mut Wire,
    old: &str,
    new: &str,
    quarantine: Duration,
) -> Result<Option<String>, Fault> {
    let keys = [&*gate.record_key, &*gate.quarantine_key];
    let command = script::init_command(keys, old, new, quarantine);
    let mut replies = exchange(wire, &[command]).await?;
    match replies.pop() {
        Some(reply) => script::init_outcome(&good(reply)?),
        None => Err(script::unexpected()),
    }
}

/// Loads the scripts and tries what they do, so that a permission that lacks
/// is found now and by name, not in the middle of a script. Returns the node's
/// `TIME`.
async fn prepare(target: &Target, wire: &mut Wire) -> Result<u64, Fault> {
    let gate = &target.gate;
    let mut commands = Vec::new();
    for script in script::ALL {
        commands.push(redis::cmd("SCRIPT").arg("LOAD").arg(script.text).take());
    }
    // A key like those of our own, and one like those of locks, which no name
    // has: it begins with braces that are no tag.
    let like_a_lock = [namespace(gate), b"{}#try"].concat();
    // As a text, so that the first acquire of a client is the first EVALSHA on
    // its nodes; whether that is permitted shows then.
    let attempt = redis::cmd("EVAL")
        .arg(script::TRY.text)
        .arg(2)
        .arg(&*gate.scratch_key)
        .arg(like_a_lock)
        .take();
    commands.push(redis::cmd("TIME"));
    commands.push(attempt);
    let needed = commands.len();
    // These may fail: servers before 7.2 do not know them.
    for (name, value) in [
        ("LIB-NAME", "quorlock"),
        ("LIB-VER", env!("CARGO_PKG_VERSION")),
    ] {
        let mut command = redis::cmd("CLIENT");
        commands.push(command.arg("SETINFO").arg(name).arg(value).take());
    }
    let mut replies = exchange(wire, &commands).await?;
    replies.truncate(needed);
    let (tried, time) = (replies.pop(), replies.pop());
    for reply in replies {
        permitted(gate, "script|load", reply)?;
    }
    let tried = permitted(gate, "eval", tried.ok_or_else(script::unexpected)?)?;
    match text(&tried) {
        lacking if lacking.is_empty() => {}
        key if key.starts_with('~') => return Err(no_keys(gate)),
        command => return Err(no_command(&command)),
    }
    match permitted(gate, "time", time.ok_or_else(script::unexpected)?)? {
        Resp::Array(parts) => script::time(&parts).ok_or_else(script::unexpected),
        _ => Err(script::unexpected()),
    }
}

/// The namespace of the keys.
fn namespace(gate: &Gate) -> &[u8] {
    let key = &*gate.scratch_key;
    key.strip_suffix(b"#try").unwrap_or(key)
}

/// A reply that is no error. If the user lacks the permission for `command`,
/// the fault says which to give.
fn permitted(gate: &Gate, command: &str, reply: Resp) -> Result<Resp, Fault> {
    match &reply {
        Resp::ServerError(error) if error.code() == "NOPERM" => {
            let about_keys = |text: &str| text.contains("access") && text.contains("key");
            match error.details() {
                Some(text) if about_keys(text) => Err(no_keys(gate)),
                _ => Err(no_command(command)),
            }
        }
        _ => good(reply),
    }
}

fn no_command(command: &str) -> Fault {
    refused(script::lacks(command))
}

fn no_keys(gate: &Gate) -> Fault {
    let namespace = namespace(gate).escape_ascii();
    refused(format!(
        "its user lacks the permission to read and write all keys of the namespace: add \
         `~{namespace}*` to its ACL"
    ))
}

/// Sends commands at once and takes their replies.
async fn exchange(wire: &mut Wire, commands: &[redis::Cmd]) -> Result<Vec<Resp>, Fault> {
    for command in commands {
        wire.out.extend_from_slice(&command.get_packed_command());
    }
    poll_fn(|cx| wire.poll_flush(cx))
        .await
        .map_err(|e| broken(&e))?;
    let mut replies = Vec::with_capacity(commands.len());
    for _ in commands {
        let reply = poll_fn(|cx| wire.poll_reply(cx)).await;
        replies.push(reply.map_err(|e| broken(&e))?);
    }
    Ok(replies)
}

/// A reply that is no error.
fn good(reply: Resp) -> Result<Resp, Fault> {
    match reply {
        Resp::ServerError(error) => Err(script::fault_of(error.code(), error.details())),
        reply => Ok(reply),
    }
}

/// What an error on a connection means to us.
pub(crate) fn broken(error: &io::Error) -> Fault {
    // With TLS 1.3 a node refuses the client's certificate only after the
    // handshake, in place of the first reply.
    let tls = error
        .get_ref()
        .and_then(|e| e.downcast_ref::<rustls::Error>());
    if let Some(refused) = tls {
        return Fault::new(FaultKind::Misconfigured, format!("TLS: {refused}"), true);
    }
    let text = match error.kind() {
        io::ErrorKind::UnexpectedEof => "the node closed the connection".to_owned(),
        io::ErrorKind::InvalidData => {
            "no Redis protocol: is this a Redis or Valkey server?".to_owned()
        }
        _ => format!("connection lost: {error}"),
    };
    Fault::new(FaultKind::Unreachable, text, true)
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
pub(crate) enum Stream {
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
