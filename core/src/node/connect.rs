//! From an address to a connection that is ready for scripts: dial,
//! authenticate, admit the node, load the scripts, try the permissions,
//! subscribe the inbox.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::Value as Resp;

use super::address::Address;
use super::admission::{Decision, Gate, Info, Record, beginning, decide};
use super::dial::dial;
use super::pushes::Push;
use super::script::{self, Guard, text};
use super::tls::Tls;
use super::wire::{Incoming, Wire};
use super::{Fault, FaultKind, number};

/// A connection to a node that may vote.
pub(crate) struct Connected {
    pub(crate) wire: Wire,
    /// What goes with each request that gives a vote, if restarts are guarded.
    pub(crate) guard: Option<Guard>,
    /// The number of the node's id.
    pub(crate) id: u64,
    /// See [`Ticket::server`](super::Ticket::server).
    pub(crate) server: u64,
    /// The node's `TIME`, in µs.
    pub(crate) time: u64,
    /// The inbox is subscribed.
    pub(crate) listening: bool,
}

/// Which node to connect to.
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) tls: Tls,
    /// Its place in the set.
    pub(crate) node: usize,
    pub(crate) gate: Arc<Gate>,
}

/// Connects to a node and admits it; subscribes the inbox if `listen` asks for
/// that and the node permits it.
pub(crate) async fn connect(target: &Target, listen: bool) -> Result<Connected, Fault> {
    let Greeted {
        mut wire,
        info,
        server,
        stored,
        resp3,
    } = greet(target, listen).await?;
    let record = admit(target, &mut wire, &info, stored).await?;
    let (time, listening) = prepare(target, &mut wire, listen, resp3).await?;
    let gate = &target.gate;
    let id = Record::node_of(&record).map_or(0, |node| number(node.as_bytes()));
    let guard = gate.expected.guard.then(|| Guard {
        record: record.into(),
        record_key: gate.record_key.clone(),
        quarantine_key: gate.quarantine_key.clone(),
    });
    Ok(Connected {
        wire,
        guard,
        id,
        server,
        time,
        listening,
    })
}

/// Writes the record of a new set to a node, or only looks whether that could
/// be done. Refuses if it has one.
pub(crate) async fn init(target: &Target, write: bool) -> Result<(), Fault> {
    let Greeted {
        mut wire,
        info,
        stored,
        ..
    } = greet(target, false).await?;
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

/// A connection to a server that may or may not be a node.
struct Greeted {
    wire: Wire,
    /// What it says of itself.
    info: Info,
    /// Which one it is: see [`Ticket::server`](super::Ticket::server).
    server: u64,
    /// Its record.
    stored: Option<String>,
    /// It sends pushes.
    resp3: bool,
}

/// Dials, authenticates, and asks for pushes if somebody is to `listen`.
async fn greet(target: &Target, listen: bool) -> Result<Greeted, Fault> {
    let address = &target.address;
    let stream = dial(&address.endpoint, &target.tls).await?;
    let mut wire = Wire::new(stream, target.gate.inbox.clone());
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
    commands.push(redis::cmd("CLIENT").arg("INFO").take());
    if listen {
        // Last, for servers that do not know it, and so that the replies before
        // it look the same with it and without.
        commands.push(redis::cmd("HELLO").arg(3).take());
    }
    let mut replies = exchange(&mut wire, &commands).await?;
    let resp3 = listen && matches!(replies.pop(), Some(Resp::Map(_)));
    let server = replies.pop().map_or(0, |reply| own_address(&text(&reply)));
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
    let (roster, run) = (&target.gate.roster, info.run_id.as_deref());
    roster
        .meet(target.node, &address.shown, run, target.gate.clock.now())
        .map_err(refused)?;
    Ok(Greeted {
        wire,
        info,
        server,
        stored: record,
        resp3,
    })
}

/// The number of the address in `CLIENT INFO` at which the server itself has
/// this connection; 0 if it does not tell.
fn own_address(client_info: &str) -> u64 {
    let mut words = client_info.split_ascii_whitespace();
    let address = words.find_map(|word| word.strip_prefix("laddr="));
    address.map_or(0, |address| number(address.as_bytes()))
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
        gate.roster
            .admit(target.node, &record, gate.clock.now())
            .map_err(refused)?;
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
/// `TIME`, and whether the inbox is subscribed.
async fn prepare(
    target: &Target,
    wire: &mut Wire,
    listen: bool,
    resp3: bool,
) -> Result<(u64, bool), Fault> {
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
    if listen {
        // What the scripts do for others that wait, here for nobody.
        let nobody = [namespace(gate), b"#in:try"].concat();
        commands.push(redis::cmd("PUBLISH").arg(nobody).arg("").take());
    }
    let answered = commands.len();
    if listen && resp3 {
        // Last, for once it is done anything may come between the replies.
        commands.push(redis::cmd("SUBSCRIBE").arg(&*gate.inbox).take());
    }
    send(wire, &commands).await?;
    let mut replies = receive(wire, answered).await?;
    let published = if listen { replies.pop() } else { None };
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
    let time = match permitted(gate, "time", time.ok_or_else(script::unexpected)?)? {
        Resp::Array(parts) => script::time(&parts),
        _ => None,
    };
    let listening = match published {
        Some(published) => subscribed(target, wire, published, resp3).await?,
        None => false,
    };
    Ok((time.ok_or_else(script::unexpected)?, listening))
}

/// Whether the inbox is subscribed. Where messages do not get through, waiting
/// is by timers alone: no reason to do without the node, but for one warning.
async fn subscribed(
    target: &Target,
    wire: &mut Wire,
    published: Resp,
    resp3: bool,
) -> Result<bool, Fault> {
    let gate = &target.gate;
    let mut lacking = Vec::new();
    if let Err(fault) = permitted(gate, "publish", published) {
        lacking.push(fault.text);
    }
    let listening = if resp3 {
        let refusal = confirmation(wire).await?;
        let fault = refusal.map(|reply| permitted(gate, "subscribe", reply));
        let fault = fault.map(|f| f.err().unwrap_or_else(script::unexpected));
        lacking.extend(fault.iter().map(|f| f.text.clone()));
        fault.is_none()
    } else {
        lacking.push("it does not speak RESP3 (HELLO 3)".into());
        false
    };
    lacking.dedup();
    if !lacking.is_empty() && !gate.told_deaf.swap(true, Ordering::Relaxed) {
        (gate.warn)(format!(
            "the node {} cannot tell those who wait for a lock that it is their turn, so they ask \
             again and again: {}",
            target.address.shown,
            lacking.join("; ")
        ));
    }
    Ok(listening)
}

/// What answers a subscription: nothing if it stands, for then a push tells
/// so; else the reply that came in its place.
async fn confirmation(wire: &mut Wire) -> Result<Option<Resp>, Fault> {
    loop {
        match next(wire).await? {
            Incoming::Push(Push::Subscribed) => return Ok(None),
            Incoming::Reply(reply) => return Ok(Some(reply)),
            Incoming::Push(_) => {}
        }
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
            let about = |text: &str, what| text.contains("access") && text.contains(what);
            let on_channel = matches!(command, "publish" | "subscribe");
            match error.details() {
                Some(text) if on_channel && about(text, "channel") => Err(no_channels(gate)),
                Some(text) if about(text, "key") => Err(no_keys(gate)),
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

fn no_channels(gate: &Gate) -> Fault {
    let namespace = namespace(gate).escape_ascii();
    refused(format!(
        "its user lacks the permission for the channels of the namespace: add `&{namespace}*` to \
         its ACL"
    ))
}

/// Sends commands at once and takes their replies.
async fn exchange(wire: &mut Wire, commands: &[redis::Cmd]) -> Result<Vec<Resp>, Fault> {
    send(wire, commands).await?;
    receive(wire, commands.len()).await
}

async fn send(wire: &mut Wire, commands: &[redis::Cmd]) -> Result<(), Fault> {
    for command in commands {
        wire.out.extend_from_slice(&command.get_packed_command());
    }
    poll_fn(|cx| wire.poll_flush(cx))
        .await
        .map_err(|e| broken(&e))
}

/// So many replies. Nothing is subscribed yet, so a push is nothing to us.
async fn receive(wire: &mut Wire, replies: usize) -> Result<Vec<Resp>, Fault> {
    let mut received = Vec::with_capacity(replies);
    while received.len() < replies {
        if let Incoming::Reply(reply) = next(wire).await? {
            received.push(reply);
        }
    }
    Ok(received)
}

async fn next(wire: &mut Wire) -> Result<Incoming, Fault> {
    poll_fn(|cx| wire.poll_next(cx))
        .await
        .map_err(|e| broken(&e))
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
