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
use super::admission::{Gate, Info, Look, Newness, Next, Record, Refusal, beginning};
use super::dial::dial;
use super::pushes::Push;
use super::script::{self, Guard, text};
use super::tls::Tls;
use super::wire::{Incoming, Wire};
use super::{Fault, FaultKind, number};
use crate::clock::Instant;

/// A connection to a node that may vote.
pub(crate) struct Connected {
    pub(crate) wire: Wire,
    /// What goes with each request that gives a vote, if restarts are guarded.
    pub(crate) guard: Option<Guard>,
    /// The number of the node's id.
    pub(crate) id: u64,
    /// See [`Ticket::server`](super::Ticket::server).
    pub(crate) server: u64,
    /// What the node's clock was.
    pub(crate) time: Told,
    /// As it was [asked](How::stepped): the quarantine has begun again.
    pub(crate) stepped: bool,
    /// The inbox is subscribed.
    pub(crate) subscribed: bool,
}

/// What a node's clock was, by its own word: before anything was written there,
/// so that a step which ends a quarantine too early comes after it.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    /// The node's `TIME`, in µs.
    pub(crate) time: u64,
    /// Moments before it was asked, and after it had answered.
    pub(crate) asked: Instant,
    pub(crate) at: Instant,
}

/// Which node to connect to.
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) tls: Tls,
    /// Its place in the set.
    pub(crate) node: usize,
    pub(crate) gate: Arc<Gate>,
}

/// How a connection is to be made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    /// Subscribe the inbox, where the node permits it.
    pub(crate) subscribe: bool,
    /// See [`Look::stepped`].
    pub(crate) stepped: bool,
}

/// Connects to a node and admits it.
pub(crate) async fn connect(target: &Target, how: How) -> Result<Connected, Fault> {
    let mut greeted = greet(target, how).await?;
    let record = admit(target, &mut greeted).await?;
    let Greeted {
        mut wire,
        server,
        time,
        resp3,
        ..
    } = greeted;
    let gate = &target.gate;
    let subscribed = prepare(target, &mut wire, how.subscribe, resp3).await?;
    let id = Record::parse(&record).map_or(0, |record| number(record.node().as_bytes()));
    let guard = gate.expected().guard.then(|| Guard {
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
        stepped: how.stepped,
        subscribed,
    })
}

/// Admits a node as any client does, which founds a new set together with the
/// other nodes. Returns how long it is in quarantine yet; with `force` the
/// quarantine is lifted.
pub(crate) async fn declare(target: &Target, force: bool) -> Result<Duration, Fault> {
    let mut greeted = greet(target, How::default()).await?;
    admit(target, &mut greeted).await?;
    let (gate, wire) = (&target.gate, &mut greeted.wire);
    if force {
        let lift = redis::cmd("DEL").arg(&*gate.quarantine_key).take();
        exchange(wire, &[lift])
            .await?
            .into_iter()
            .try_for_each(|reply| good(reply).map(drop))?;
    }
    quarantine_left(gate, wire).await
}

/// How long the node is in quarantine yet.
async fn quarantine_left(gate: &Gate, wire: &mut Wire) -> Result<Duration, Fault> {
    let left = redis::cmd("PTTL").arg(&*gate.quarantine_key).take();
    match exchange(wire, &[left]).await?.pop().map(good).transpose()? {
        Some(Resp::Int(left)) => Ok(Duration::from_millis(u64::try_from(left).unwrap_or(0))),
        _ => Err(script::unexpected()),
    }
}

fn refused(why: String) -> Fault {
    Fault::new(FaultKind::Misconfigured, why, true)
}

/// A connection to a server that may or may not be a node.
struct Greeted {
    wire: Wire,
    look: Look,
    /// Which one it is: see [`Ticket::server`](super::Ticket::server).
    server: u64,
    time: Told,
    /// It sends pushes.
    resp3: bool,
}

/// Dials, authenticates, asks for pushes, and looks at the node. One that does
/// not come so far is absent, to the others.
async fn greet(target: &Target, how: How) -> Result<Greeted, Fault> {
    let greeted = say_hello(target, how).await;
    if greeted.is_err() {
        target.gate.survey.absent(target.node);
    }
    greeted
}

async fn say_hello(target: &Target, how: How) -> Result<Greeted, Fault> {
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
    commands.push(redis::cmd("TIME"));
    commands.push(redis::cmd("CLIENT").arg("INFO").take());
    if how.subscribe {
        // Last, for servers that do not know it, and so that the replies before
        // it look the same with it and without.
        commands.push(redis::cmd("HELLO").arg(3).take());
    }
    let clock = &target.gate.clock;
    let asked = clock.now();
    let mut replies = exchange(&mut wire, &commands).await?;
    let at = clock.now();
    let resp3 = how.subscribe && matches!(replies.pop(), Some(Resp::Map(_)));
    let server = replies.pop().map_or(0, |reply| own_address(&text(&reply)));
    let time = replies.pop();
    let record = replies.pop();
    let info = replies.pop();
    // The password first: without it nothing else is permitted.
    for reply in replies {
        permitted(&target.gate, "select", reply)?;
    }
    let record = record.map(|reply| permitted(&target.gate, "get", reply));
    let record = record.transpose()?;
    let time = time.map(|reply| permitted(&target.gate, "time", reply));
    let time = match time.transpose()? {
        Some(Resp::Array(parts)) => script::time(&parts),
        _ => None,
    };
    let time = Told {
        time: time.ok_or_else(script::unexpected)?,
        asked,
        at,
    };
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
    let newness = match record.as_deref() {
        Some(text) if Record::parse(text).is_none_or(|record| !record.is_pledge()) => Newness::Used,
        // Who founds the set has looked at it before, and given it what it needs.
        Some(_) if quarantine_left(&target.gate, &mut wire).await?.is_zero() => Newness::New,
        Some(_) => Newness::Used,
        None => {
            let ask = redis::cmd("INFO").arg("commandstats").take();
            let stats = exchange(&mut wire, &[ask]).await?.pop();
            let stats = stats.map(|reply| text(&reply)).unwrap_or_default();
            info.newness(&stats, target.gate.expected().quarantine)
        }
    };
    Ok(Greeted {
        wire,
        look: Look {
            stored: record,
            run: run.map(|run| beginning(run).to_owned()),
            newness,
            stepped: how.stepped,
        },
        server,
        time,
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

/// How often a record may be written, or found changed, on the way to a
/// connection. Founding a set takes two; each may meet another client.
const WRITES: u32 = 6;

/// Admits the node: its record is good, or is written now. Returns the record.
/// Waits for the other nodes of a set that is being founded; the wait is bounded
/// by whoever wants the connection.
async fn admit(target: &Target, greeted: &mut Greeted) -> Result<String, Fault> {
    let gate = &target.gate;
    let Greeted { wire, look, .. } = greeted;
    let fresh = fresh_name(gate);
    let mut writes = 0;
    loop {
        let seen = gate.survey.changes();
        match gate.survey.look(target.node, look, &fresh) {
            Next::Refuse(Refusal::Foreign(why)) => {
                return Err(Fault::new(FaultKind::Foreign, why, true));
            }
            Next::Refuse(Refusal::Unfounded(why)) => {
                return Err(Fault::new(FaultKind::NotReady, why, true));
            }
            Next::Wait => change(target, seen).await,
            Next::Admit => break,
            Next::Write(..) if writes == WRITES => {
                let why = "its record changes again and again";
                return Err(Fault::new(FaultKind::NotReady, why, true));
            }
            Next::Write(record, quarantine) => {
                writes += 1;
                let (old, new) = (look.stored.take().unwrap_or_default(), record.to_string());
                // Another client may write it at the same time; once it has, that
                // is what counts.
                look.stored = match write_record(gate, wire, &old, &new, quarantine).await? {
                    None => {
                        look.stepped = false;
                        tell_quarantine(target, quarantine);
                        Some(new)
                    }
                    Some(other) => Some(other).filter(|other| !other.is_empty()),
                };
            }
        }
    }
    let record = look.stored.clone().unwrap_or_default();
    gate.roster
        .admit(target.node, &record, gate.clock.now())
        .map_err(refused)?;
    Ok(record)
}

/// Waits until a node shows something new, if none has since `seen` was counted.
async fn change(target: &Target, seen: u64) {
    /// Gives the place back also where the wait is given up.
    struct Parked<'a>(&'a Target, Option<u64>);
    impl Drop for Parked<'_> {
        fn drop(&mut self) {
            self.0.gate.survey.leave(self.0.node, self.1);
        }
    }
    let mut parked = Parked(target, None);
    poll_fn(|cx| target.gate.survey.poll_change(seen, &mut parked.1, cx)).await;
}

fn tell_quarantine(target: &Target, quarantine: Duration) {
    if quarantine.is_zero() {
        return;
    }
    let shown = &target.address.shown;
    (target.gate.warn)(format!(
        "the node {shown} is new, has restarted, or its clock has stepped, so it may have lost \
         votes: it gives none for {quarantine:?} (a wholly new set need not wait once its servers \
         have run for max_ttl)"
    ));
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
/// is found now and by name, not in the middle of a script. Returns whether the
/// inbox is subscribed.
async fn prepare(
    target: &Target,
    wire: &mut Wire,
    subscribe: bool,
    resp3: bool,
) -> Result<bool, Fault> {
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
    if subscribe {
        // What the scripts do for others that wait, here for nobody.
        let nobody = [namespace(gate), b"#in:try"].concat();
        commands.push(redis::cmd("PUBLISH").arg(nobody).arg("").take());
    }
    let answered = commands.len();
    if subscribe && resp3 {
        // Last, for once it is done anything may come between the replies.
        commands.push(redis::cmd("SUBSCRIBE").arg(&*gate.inbox).take());
    }
    send(wire, &commands).await?;
    let mut replies = receive(wire, answered).await?;
    let published = if subscribe { replies.pop() } else { None };
    replies.truncate(needed);
    let tried = replies.pop();
    for reply in replies {
        permitted(gate, "script|load", reply)?;
    }
    let tried = permitted(gate, "eval", tried.ok_or_else(script::unexpected)?)?;
    match text(&tried) {
        lacking if lacking.is_empty() => {}
        key if key.starts_with('~') => return Err(no_keys(gate)),
        command => return Err(no_command(&command)),
    }
    match published {
        Some(published) => subscribed(target, wire, published, resp3).await,
        None => Ok(false),
    }
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
    let subscribed = if resp3 {
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
    Ok(subscribed)
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
