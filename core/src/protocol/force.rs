//! Taking a lock away from its holder: whose values have to go, for how long they are banned, and
//! the releases that do it.

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::node::{AfterRelease, Fault, Keys, LockState, Op, Reply, Request, Value};
use crate::protocol::ask_all::{ask_all, no_answer};
use crate::protocol::inspect::{InspectReply, LockFinding, finding};
use crate::protocol::quorum::quorum;
use crate::protocol::set::Set;

/// A value that has to go.
pub(crate) struct BannedValue {
    pub(crate) value: Value,
    /// For how long it is banned.
    pub(crate) ban: Duration,
    /// Plain commands may store it: it is a value of this library's, and no reader's.
    pub(crate) is_plain: bool,
}

/// What became of one value: of each node whether it stood there, or why it did not say.
pub(crate) type ForceReplies = Vec<Result<bool, Fault>>;

/// The values that have to go, so that the lock is free of any holder: the holder's, where a quorum
/// has it; else each that was seen, for it may be that of a holder whose other votes are lost, or
/// out of sight; of holders that share it each node names some. What is of another type than a
/// string has none.
pub(crate) fn targets(said: &[InspectReply]) -> Vec<Value> {
    if let LockFinding::Held(value, _) | LockFinding::Kept(value, _) = finding(said)
        && !said
            .iter()
            .flatten()
            .any(|seen| seen.sharers.contains(&value))
    {
        return vec![value];
    }
    let mut values: Vec<Value> = Vec::new();
    let seen = said.iter().flatten();
    let seen = seen.flat_map(|seen| seen.value.iter().chain(&seen.sharers).cloned());
    for value in seen.filter(|value| !value.0.is_empty()) {
        if !values
            .iter()
            .any(|known| known.is_of_one_lease_with(&value))
        {
            values.push(value);
        }
    }
    values
}

/// For how long a value is banned: as long as its holder may count on a vote, on whatever
/// node, which it got before or gets by a request that is on its way.
pub(crate) fn ban(
    said: &[InspectReply],
    value: &Value,
    max_ttl: Duration,
    late: Duration,
) -> Duration {
    let theirs = said.iter().flatten();
    let is_theirs = |seen: &&LockState| {
        let seen = seen.value.as_ref();
        seen.is_some_and(|seen| seen.is_of_one_lease_with(value))
    };
    let theirs = theirs.filter(is_theirs);
    let left = theirs.filter_map(|seen| seen.left).max();
    ban_for(left.unwrap_or_default().max(max_ttl), late)
}

/// For how long a value is banned of which no vote lasts longer than that.
pub(crate) fn ban_for(longest: Duration, late: Duration) -> Duration {
    longest + clock::drift_allowance(longest, DRIFT) + late
}

/// By how much the clocks of holders and nodes may differ, whatever this client has set for its
/// own: a ban that is too long does no harm.
const DRIFT: f64 = 0.1;

/// Takes these values away on all nodes, side by side, and bans each there for so long. A node that
/// does not answer within `node_timeout` is not asked any more, for a value of another library may be
/// used again.
///
/// A node that had the vote has carried out the plain command that stored it, and no script stores
/// it anew. Where it had none such a command may still come. So where votes that were taken away do
/// not settle it by themselves, all nodes are asked once more when nothing counts any more that is
/// under way now.
///
/// # Cancel safety
///
/// What was asked is carried out all the same.
pub(crate) async fn force_out(
    set: &Arc<Set>,
    keys: &Arc<Keys>,
    targets: &[BannedValue],
    node_timeout: Duration,
) -> Vec<ForceReplies> {
    let ask = |target: &BannedValue| {
        let request = Request {
            op: Op::Release,
            native: false,
            keys: keys.clone(),
            value: target.value.clone(),
            waiter: None,
            leaving: AfterRelease::Forced(target.ban),
            not_after: 0,
        };
        ask_all(set, &request, node_timeout)
    };
    let freed = |reply| match reply {
        Reply::Released { held } => Ok(held),
        other => Err(no_answer(other)),
    };
    let asked: Vec<_> = targets.iter().map(ask).collect();
    let mut done: Vec<ForceReplies> = Vec::new();
    for replies in asked {
        done.push(replies.await.into_iter().map(freed).collect());
    }
    let open = |of: &usize| targets[*of].is_plain && may_come_back(&done[*of]);
    let open: Vec<_> = (0..done.len()).filter(open).collect();
    if open.is_empty() {
        return done;
    }
    set.clock
        .sleep_until(set.clock.now() + late(node_timeout))
        .await;
    let asked: Vec<_> = open.iter().map(|of| (*of, ask(&targets[*of]))).collect();
    for (of, replies) in asked {
        let again = replies.await.into_iter().map(freed);
        for (before, now) in done[of].iter_mut().zip(again) {
            if !matches!(before, Ok(true)) {
                *before = now;
            }
        }
    }
    done
}

/// Within which a request is carried out, if it counts at all.
pub(crate) fn late(node_timeout: Duration) -> Duration {
    2 * node_timeout
}

/// Whether a quorum may still have the vote, or have it again, where too few have answered that it
/// stood there.
fn may_come_back(freed: &ForceReplies) -> bool {
    let answered = freed.iter().flatten().count();
    let gone = freed.iter().flatten().filter(|held| **held).count();
    let quorum = quorum(freed.len());
    answered >= quorum && freed.len() - gone >= quorum
}
