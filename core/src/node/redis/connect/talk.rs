//! Commands and replies in turn, on a connection that is being made.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redis::Value as Resp;

use super::target::Target;
use crate::clock::Clock;
#[cfg(feature = "tls")]
use crate::foreign;
use crate::node::address::Address;
use crate::node::redis::resp::{ReplyBound, TooLong};
use crate::node::redis::wire::{ServerMessage, Wire};
#[cfg(feature = "tls")]
use crate::node::redis::words;
use crate::node::redis::{replies, server_error};
use crate::node::{Cause, Fault, FaultKind};

/// The fault of a connection that the other side has ended.
pub(super) const CLOSED: &str = "the node closed the connection";

/// The commands that log the client in, where the URL has a password.
pub(super) fn login(address: &Address) -> Vec<redis::Cmd> {
    let Some(password) = &address.password else {
        return Vec::new();
    };
    let mut auth = redis::cmd("AUTH");
    if let Some(user) = &address.user {
        auth.arg(user);
    }
    vec![auth.arg(password).take()]
}

/// Sends commands at once and takes their replies.
pub(super) async fn exchange(wire: &mut Wire, commands: &[redis::Cmd]) -> Result<Vec<Resp>, Fault> {
    let sent = send(wire, commands).await;
    // A server that takes no client says why, and closes the connection before it has read a word.
    match receive(wire, commands.len()).await {
        Err(said) if said.kind != FaultKind::Unreachable => Err(said),
        received => sent.and(received),
    }
}

/// Exchanges commands whose replies may be so long.
pub(super) async fn exchange_long(
    wire: &mut Wire,
    commands: &[redis::Cmd],
    bound: ReplyBound,
) -> Result<Vec<Resp>, Fault> {
    let usual = std::mem::replace(&mut wire.input.bound, bound);
    let replies = exchange(wire, commands).await;
    wire.input.bound = usual;
    replies
}

/// Sends commands at once.
pub(super) async fn send(wire: &mut Wire, commands: &[redis::Cmd]) -> Result<(), Fault> {
    for command in commands {
        wire.out.extend_from_slice(&command.get_packed_command());
    }
    poll_fn(|cx| wire.poll_flush(cx))
        .await
        .map_err(|e| broken(&e))
}

/// Takes this many replies. Nothing is subscribed yet, so a push is nothing to us. Of a connection
/// that ends before the last of them, the fault is the error with which the server began.
pub(super) async fn receive(wire: &mut Wire, replies: usize) -> Result<Vec<Resp>, Fault> {
    let mut received = Vec::with_capacity(replies);
    while received.len() < replies {
        match (next(wire).await, received.first()) {
            (Ok(ServerMessage::Reply(reply)), _) => received.push(reply),
            (Ok(ServerMessage::Push(_)), _) => {}
            (Err(_), Some(Resp::ServerError(error))) => return Err(replies::fault(error)),
            (Err(fault), _) => return Err(fault),
        }
    }
    Ok(received)
}

/// What comes next.
pub(super) async fn next(wire: &mut Wire) -> Result<ServerMessage, Fault> {
    poll_fn(|cx| wire.poll_next(cx))
        .await
        .map_err(|e| broken(&e))
}

/// What `work` comes to, for so long at most.
pub(super) async fn within<T>(
    clock: &Arc<dyn Clock>,
    most: Duration,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let mut timer = clock.sleep_until(clock.now() + most);
    let mut work = pin!(work);
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Pending => timer.as_mut().poll(cx).map(|()| {
            let why = format!("no answer within {most:?}");
            Err(Fault::new(FaultKind::Timeout, why, true))
        }),
        done => done,
    })
    .await
}

/// A reply that is no error.
pub(super) fn good(reply: Resp) -> Result<Resp, Fault> {
    match reply {
        // These commands are the connection's own, so their errors are the node's and no lock's.
        Resp::ServerError(error) => {
            Err(server_error::fault_of(error.code(), error.details()).of_lock(false))
        }
        reply => Ok(reply),
    }
}

/// What an error on a connection means to us.
pub(crate) fn broken(error: &io::Error) -> Fault {
    // With TLS 1.3 a node refuses the client's certificate only after the handshake, in place of
    // the first reply.
    #[cfg(feature = "tls")]
    if let Some(refused) = error
        .get_ref()
        .and_then(|e| e.downcast_ref::<rustls::Error>())
    {
        let text = refused.to_string();
        let text = format!("TLS: {}{}", foreign::excerpt(&text), words::remedy(&text));
        return Fault::new(FaultKind::Misconfigured, text, true).because(Cause::Tls);
    }
    let (cause, text) = match error.kind() {
        io::ErrorKind::UnexpectedEof => (Cause::Closed, CLOSED.to_owned()),
        // A reset that the system reports comes from the server, or from a proxy before it.
        io::ErrorKind::ConnectionReset if error.raw_os_error().is_some() => {
            (Cause::Closed, format!("connection lost: {error}"))
        }
        io::ErrorKind::InvalidData => {
            match error.get_ref().and_then(|e| e.downcast_ref::<TooLong>()) {
                Some(long) => (Cause::LongReply, long.to_string()),
                None => (
                    Cause::Other,
                    "no Redis protocol: is this a Redis or Valkey server?".to_owned(),
                ),
            }
        }
        _ => (Cause::Other, format!("connection lost: {error}")),
    };
    Fault::new(FaultKind::Unreachable, text, true).because(cause)
}

/// The fault of a node that cannot serve until a person fixes it.
pub(super) fn refused(why: String) -> Fault {
    Fault::new(FaultKind::Misconfigured, why, true)
}

/// A reply that does not send us elsewhere.
pub(super) fn elsewhere(reply: Option<Resp>) -> Result<Resp, Fault> {
    match reply.ok_or_else(replies::unexpected)? {
        Resp::ServerError(error) if server_error::redirect(&error).is_some() => {
            Err(not_ready("its hash slots are being moved"))
        }
        reply => Ok(reply),
    }
}

/// A reply of a server that stands alone as it is; one of a cluster's does not send us
/// [elsewhere]. Of the former a redirection says that it is of the wrong kind.
pub(super) fn unmoved(target: &Target, reply: Resp) -> Result<Resp, Fault> {
    let of_cluster = target.routes.is_some();
    if of_cluster {
        elsewhere(Some(reply))
    } else {
        Ok(reply)
    }
}

/// The server can do nothing for now, and says why.
pub(super) fn not_ready(why: &str) -> Fault {
    Fault::new(FaultKind::NotReady, why.to_owned(), true)
}
