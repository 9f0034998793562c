//! A trial of what a lock does at a node: the client asks for a vote, lengthens it and gives it
//! back, by the scripts of any lock and for a lock that no client has. It shows what keeps a node
//! from voting, in the words of the server.

use std::sync::Arc;
use std::time::Duration;

use super::prepare::namespace;
use super::talk::{not_ready, receive, send};
use super::target::Target;
use crate::node::hash_slot;
use crate::node::names::{Naming, aux};
use crate::node::redis::replies::{self, RequestOutcome};
use crate::node::redis::script::{self, Guard};
use crate::node::redis::wire::Wire;
use crate::node::{AfterRelease, Fault, Keys, Mode, Op, Repair, Reply, Request, Value, Waits};
use crate::token::Token;

/// How long the vote lasts where it is not given back, at most.
const TTL: Duration = Duration::from_secs(1);

/// What the node answered to the vote.
pub(super) enum TrialResult {
    /// The node votes.
    Votes,
    /// The node gives no vote for so long.
    Quarantined(Duration),
}

/// Votes for a lock of a name of its own, which is in this hash slot, if one is given; `guard`: what
/// goes with votes there. The fault is what a lock would meet.
pub(super) async fn trial(
    target: &Target,
    wire: &mut Wire,
    guard: Option<&Guard>,
    slot: Option<u16>,
) -> Result<TrialResult, Fault> {
    let gate = &target.gate;
    let ttl = TTL.min(Duration::from_millis(gate.expected().max_ttl));
    let [name, token] = [(); 2].map(|()| Token::with_jitter(&*gate.rng, 0).0);
    let mut request = Request {
        op: Op::Acquire {
            ttl,
            candidate: 0,
            home: false,
            let_in: false,
            block: 1,
        },
        native: false,
        keys: Arc::new(keys(namespace(gate), name, slot)),
        value: Value([token.as_str(), "."].concat().into_bytes().into()),
        waiter: None,
        leaving: AfterRelease::Free,
        not_after: 0,
    };
    match ask(wire, &request, guard).await? {
        Reply::Granted { .. } => {}
        Reply::Quarantined { left } => return Ok(TrialResult::Quarantined(left)),
        other => return Err(unlike(other, "gives no vote")),
    }
    request.op = Op::Extend {
        ttl,
        repair: Repair::No,
        fence: 0,
        behind: 0,
    };
    let extended = ask(wire, &request, guard).await;
    request.op = Op::Release;
    // The client gives the vote back also where the node has not lengthened it.
    let released = ask(wire, &request, guard).await;
    match extended? {
        Reply::Extended { .. } => {}
        other => return Err(unlike(other, "votes, and lengthens no vote")),
    }
    match released? {
        Reply::Released { held: true } => Ok(TrialResult::Votes),
        other => Err(unlike(other, "votes, and takes no vote back")),
    }
}

/// The keys of a lock whose name no client has.
fn keys(namespace: &[u8], name: Token, slot: Option<u16>) -> Keys {
    let name = [b"quorlock-doctor:", &name.as_str().as_bytes()[..16]].concat();
    let tail = match slot {
        Some(slot) => [&name[..], b":{", hash_slot::tag(slot).as_bytes(), b"}"].concat(),
        None => [b"{", &name[..], b"}"].concat(),
    };
    let lock = [namespace, &tail].concat();
    Keys {
        aux: aux(&String::from_utf8_lossy(namespace), &lock, Naming::Tagged),
        lock: lock.into(),
        waits: Waits {
            reservation: TTL,
            place: TTL,
            most: 1,
        },
        fence_ttl: None,
        mode: Mode::Exclusive,
        adopts: None,
        field: None,
    }
}

async fn ask(wire: &mut Wire, request: &Request, guard: Option<&Guard>) -> Result<Reply, Fault> {
    let own = guard.and_then(|guard| guard.of_shard(&request.keys.lock));
    let guard = own.as_ref().or(guard);
    // The request carries the script's text, as for a server that has forgotten it.
    script::write_command(&mut wire.out, request, guard, true, false);
    send(wire, &[]).await?;
    let reply = receive(wire, 1).await?.pop();
    match replies::outcome(request.op, &reply.ok_or_else(replies::unexpected)?) {
        RequestOutcome::Reply(Reply::Failed(fault), _)
        | RequestOutcome::Demoted(fault)
        | RequestOutcome::Elsewhere(_, fault) => Err(fault),
        RequestOutcome::Reply(reply, _) => Ok(reply),
        RequestOutcome::OtherRecord => Err(not_ready("its record has just changed")),
        RequestOutcome::NoScript | RequestOutcome::AskByScript => Err(replies::unexpected()),
    }
}

/// The fault of an answer that a lock of which no client has anything is never given.
fn unlike(reply: Reply, does: &str) -> Fault {
    match reply {
        Reply::Quarantined { .. } => not_ready("its quarantine has just begun"),
        Reply::NotMine => not_ready(&format!(
            "it {does}: what was written a moment ago is gone, as where keys are evicted or deleted"
        )),
        _ => not_ready(&format!("it {does} for a lock that no client has")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::SystemRng;

    #[test]
    fn the_lock_is_in_the_hash_slot_that_is_tried() {
        let name = Token::with_jitter(&SystemRng, 0).0;
        for slot in [0, 1, 866, 16_383] {
            let keys = keys(b"lock:", name, Some(slot));
            for key in [&*keys.lock, keys.aux.queue()] {
                assert_eq!(hash_slot::of(key), slot);
            }
        }
        let lock = keys(b"lock:", name, None).lock;
        let expected = format!("lock:{{quorlock-doctor:{}}}", &name.as_str()[..16]);
        assert_eq!(&*lock, expected.as_bytes());
    }
}
