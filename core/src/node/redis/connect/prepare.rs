//! Preparing a connection to an admitted node: its scripts are loaded, what its
//! user may do is tried, and the inbox is subscribed.

use std::sync::atomic::Ordering;

use redis::Value as Resp;

use super::talk::{good, next, receive, refused, send, unmoved};
use super::target::Target;
use crate::event::event;
use crate::node::admission::{DeleteByValue, Gate, QuarantineCause};
use crate::node::redis::pushes::Push;
use crate::node::redis::replies::{self, text};
use crate::node::redis::server_error::Denial;
use crate::node::redis::wire::{ServerMessage, Wire};
use crate::node::redis::{script, server_error};
use crate::node::{Cause, Fault};

/// What came of it.
pub(super) struct Preparation {
    /// The inbox is subscribed.
    pub(super) subscribed: bool,
    /// Messages get through, both ways.
    pub(super) heard: bool,
    /// How votes are deleted by their value.
    pub(super) delete: DeleteByValue,
}

/// Loads the scripts and tries what they do, on keys of the shard if it is one, so that a permission that lacks
/// is found now and by name, not in the middle of a script.
pub(super) async fn prepare(
    target: &Target,
    wire: &mut Wire,
    shard: Option<Vec<Vec<u8>>>,
    subscribe: bool,
    resp3: bool,
) -> Result<Preparation, Fault> {
    let gate = &target.gate;
    let mut commands = Vec::new();
    for script in script::ALL {
        commands.push(
            redis::cmd("SCRIPT")
                .arg("LOAD")
                .arg(script.text.as_str())
                .take(),
        );
    }
    // The permissions are tried on a key like the client's own, and on a key like a lock's that no
    // name has: it begins with braces that are no tag.
    let like_a_lock = || [namespace(gate), b"{}#try"].concat();
    let keys = shard.unwrap_or_else(|| vec![gate.scratch_key.to_vec(), like_a_lock()]);
    // The script goes as a text, so that the first acquire of a client is the first EVALSHA on its
    // nodes; whether that is permitted shows then.
    let attempt = redis::cmd("EVAL")
        .arg(script::TRY.text.as_str())
        .arg(keys.len())
        .arg(&keys)
        .take();
    commands.push(attempt);
    let needed = commands.len();
    // The quarantine's cause stands in its key. In a shard each hash slot has a key of its own.
    let asks_why = target.routes.is_none();
    if asks_why {
        commands.push(redis::cmd("GET").arg(&*gate.quarantine_key).take());
    }
    // These commands may fail: servers before 7.2 do not know them.
    for (name, value) in [
        ("LIB-NAME", "quorlock"),
        ("LIB-VER", env!("CARGO_PKG_VERSION")),
    ] {
        let mut command = redis::cmd("CLIENT");
        commands.push(command.arg("SETINFO").arg(name).arg(value).take());
    }
    // The name shows in `CLIENT LIST`, in which people look for the owners of connections. The user
    // need not be permitted to set it.
    let mut named = redis::cmd("CLIENT");
    commands.push(named.arg("SETNAME").arg(&*gate.connection_name).take());
    // A server has at most one of these commands, and the user need not be permitted it.
    for words in DeleteByValue::commands(&gate.scratch_key) {
        commands.push(words.iter().fold(redis::Cmd::new(), |mut command, word| {
            command.arg(*word).take()
        }));
    }
    if subscribe {
        // The scripts publish to waiters; this message goes to an inbox without a subscriber.
        let nobody = [namespace(gate), b"#in:try"].concat();
        commands.push(redis::cmd("PUBLISH").arg(nobody).arg("").take());
    }
    let answered = commands.len();
    if subscribe && resp3 {
        // The subscription comes last, for behind it pushes may come between the replies.
        commands.push(redis::cmd("SUBSCRIBE").arg(&*gate.inbox).take());
    }
    send(wire, &commands).await?;
    let mut replies = receive(wire, answered).await?;
    let published = if subscribe { replies.pop() } else { None };
    let mut known = || matches!(replies.pop(), Some(Resp::Int(_)));
    let (second, first) = (known(), known());
    let delete = DeleteByValue::of_known([first, second]);
    if asks_why {
        let why = replies.get(needed).map(text).unwrap_or_default();
        gate.survey
            .quarantined(target.node, QuarantineCause::read(&why));
    }
    replies.truncate(needed);
    let tried = replies.pop();
    for reply in replies {
        permitted(gate, "script|load", reply)?;
    }
    let tried = unmoved(target, tried.ok_or_else(replies::unexpected)?)?;
    let tried = permitted(gate, "eval", tried)?;
    match text(&tried) {
        lacking if lacking.is_empty() => {}
        key if key.starts_with('~') => return Err(no_keys(gate)),
        command if is_a_command(&command) => return Err(no_command(&command)),
        // The script answers no other text, so this one may be anything.
        _ => return Err(replies::unexpected()),
    }
    let (subscribed, heard) = match published {
        Some(published) => subscribed(target, wire, published, resp3).await?,
        None => (false, false),
    };
    Ok(Preparation {
        subscribed,
        heard,
        delete,
    })
}

/// Whether the inbox is subscribed, and whether messages get through both ways. Where they do
/// not, waiting is by timers alone: no reason to do without the node, but for one warning.
async fn subscribed(
    target: &Target,
    wire: &mut Wire,
    published: Resp,
    resp3: bool,
) -> Result<(bool, bool), Fault> {
    let gate = &target.gate;
    let mut lacking = Vec::new();
    lacking.extend(permitted(gate, "publish", published).err());
    let subscribed = if resp3 {
        let refusal = confirmation(wire).await?;
        let fault = refusal.map(|reply| permitted(gate, "subscribe", reply));
        let fault = fault.map(|f| f.err().unwrap_or_else(replies::unexpected));
        let subscribed = fault.is_none();
        lacking.extend(fault);
        subscribed
    } else {
        lacking.push(refused("it does not speak RESP3 (HELLO 3)".into()));
        false
    };
    let unsupported = |fault: &&Fault| matches!(fault.cause, Cause::Unsupported(_));
    if let Some(fault) = lacking.iter().find(unsupported) {
        return Err(fault.clone());
    }
    let mut reasons: Vec<&str> = lacking.iter().map(|fault| &*fault.text).collect();
    reasons.dedup();
    if !reasons.is_empty() && !gate.told_deaf.swap(true, Ordering::Relaxed) {
        (gate.warn)(event!(
            "node_cannot_wake",
            "the node {node} cannot tell those who wait for a lock that it is their turn, so they \
             ask again and again: {reason}",
            node = target.address.shown,
            reason = reasons.join("; "),
        ));
    }
    Ok((subscribed, lacking.is_empty()))
}

/// What answers a subscription: nothing if it stands, for then a push tells
/// so; else the reply that came in its place.
async fn confirmation(wire: &mut Wire) -> Result<Option<Resp>, Fault> {
    loop {
        match next(wire).await? {
            ServerMessage::Push(Push::Subscribed) => return Ok(None),
            ServerMessage::Reply(reply) => return Ok(Some(reply)),
            ServerMessage::Push(_) => {}
        }
    }
}

/// The namespace of the keys.
pub(super) fn namespace(gate: &Gate) -> &[u8] {
    let key = &*gate.scratch_key;
    key.strip_suffix(b"#try").unwrap_or(key)
}

/// A reply that is no error. If the user lacks the permission for `command`,
/// the fault says which to give.
pub(super) fn permitted(gate: &Gate, command: &str, reply: Resp) -> Result<Resp, Fault> {
    let denied = match &reply {
        Resp::ServerError(error) => server_error::denied(error),
        _ => None,
    };
    match denied {
        None => good(reply),
        Some(Denial::Channel) if matches!(command, "publish" | "subscribe") => {
            Err(no_channels(gate))
        }
        Some(Denial::Key) => Err(no_keys(gate)),
        Some(Denial::Channel | Denial::Command) => Err(no_command(command)),
    }
}

/// Whether that may be the name of a command, as the script tells it.
fn is_a_command(text: &str) -> bool {
    text.len() <= 24 && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'|')
}

fn no_command(command: &str) -> Fault {
    refused(server_error::lacks(command))
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

#[cfg(test)]
mod tests {
    use super::is_a_command;

    #[test]
    fn what_a_server_says_in_place_of_a_command_is_not_told_as_one() {
        for command in ["zadd", "pubsub|numsub", "zrangebyscore"] {
            assert!(is_a_command(command), "{command}");
        }
        let token = "206f62ee156a262aa7ddfea03a9b0ab50fd4feed";
        for text in [token, "hunter2", "a text", "PEXPIRE", &"a".repeat(25)] {
            assert!(!is_a_command(text), "{text}");
        }
    }
}
