//! Taking a lock away from whoever holds it: whose values have to go, for how long they are
//! banned, and the releases that do it.

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::node::{Fault, Keys, Leaving, Op, Reply, Request, Seen, Value};
use crate::protocol::ask_all::{ask_all, no_answer};
use crate::protocol::inspect::{Finding, Said, finding};
use crate::protocol::set::Set;

/// What became of one value: of each node whether it stood there, or why it did not say.
pub(crate) type Freed = Vec<Result<bool, Fault>>;

/// Whose values have to go, so that the lock is free of whoever may hold it: the holder's,
/// where a quorum has it; else each that was seen, for it may be that of a holder whose other
/// votes are lost, or out of sight; of those that share it each node tells some. What is of another
/// type than a string has none.
pub(crate) fn targets(said: &[Said]) -> Vec<Value> {
    if let Finding::Held(value, _) | Finding::Kept(value, _) = finding(said)
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
pub(crate) fn ban(said: &[Said], value: &Value, max_ttl: Duration, late: Duration) -> Duration {
    let theirs = said.iter().flatten();
    let is_theirs = |seen: &&Seen| {
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

/// By how much the clocks of holders and nodes may differ, whatever this client has set for
/// its own: a ban that is too long hurts nobody.
const DRIFT: f64 = 0.1;

/// Takes these values away on all nodes, side by side, and bans each there for so long. A node that
/// does not answer within `node_timeout` is not asked any more, for a value of another library may be
/// used again.
///
/// # Cancel safety
///
/// What was asked is carried out all the same.
pub(crate) async fn force_out(
    set: &Arc<Set>,
    keys: &Arc<Keys>,
    values: Vec<(Value, Duration)>,
    node_timeout: Duration,
) -> Vec<Freed> {
    let ask = |(value, ban)| {
        let request = Request {
            op: Op::Release,
            native: false,
            keys: keys.clone(),
            value,
            waiter: None,
            leaving: Leaving::Forced(ban),
            not_after: 0,
        };
        ask_all(set, &request, node_timeout)
    };
    let asked: Vec<_> = values.into_iter().map(ask).collect();
    let freed = |reply| match reply {
        Reply::Released { held } => Ok(held),
        other => Err(no_answer(other)),
    };
    let mut done = Vec::new();
    for replies in asked {
        done.push(replies.await.into_iter().map(freed).collect());
    }
    done
}
