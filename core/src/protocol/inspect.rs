//! The holder of a lock: what each node has of it, and what follows from that. Nothing is changed,
//! and nothing is promised: it may be otherwise by the time that it is read.

use std::sync::Arc;
use std::time::Duration;

use crate::node::{AfterRelease, Fault, Keys, LockState, Op, Reply, Request, Standing, Value};
use crate::protocol::ask_all::{ask_all, no_answer};
use crate::protocol::quorum::quorum;
use crate::protocol::set::Set;

/// What a node said: what it has, or why it did not say.
pub(crate) type InspectReply = Result<LockState, Fault>;

/// What follows from all that the nodes have said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LockFinding {
    /// A quorum has this vote, of this many nodes; or this many have readers, of which this is one.
    Held(Value, usize),
    /// A quorum keeps the lock for this token, which was released.
    Kept(Value, usize),
    /// A quorum has none.
    Free,
    /// A quorum has answered, and does not agree.
    Split,
    /// Fewer than a quorum have answered, or those that did may have lost something.
    Unknown,
}

/// What these nodes have come to. A node that is in quarantine and has nothing may have had
/// something.
pub(crate) fn finding(said: &[InspectReply]) -> LockFinding {
    let quorum = quorum(said.len());
    let seen = || said.iter().flatten();
    let votes = |standing: Standing, value: &Value| {
        let same = |seen: &&LockState| {
            let theirs = seen.value.as_ref();
            seen.standing == standing && theirs.is_some_and(|v| v.is_of_one_lease_with(value))
        };
        seen().filter(same).count()
    };
    for seen in seen() {
        let Some(value) = &seen.value else { continue };
        let votes = votes(seen.standing, value);
        if votes >= quorum {
            return match seen.standing {
                Standing::Kept => LockFinding::Kept(value.clone(), votes),
                _ => LockFinding::Held(value.clone(), votes),
            };
        }
    }
    // Of readers each node tells one: that which most of them tell stands for all.
    let shared = || seen().filter(|seen| seen.standing == Standing::Shared);
    let readers = shared().filter_map(|seen| seen.value.as_ref());
    let reader = readers.max_by_key(|value| votes(Standing::Shared, value));
    if let Some(reader) = reader.filter(|_| shared().count() >= quorum) {
        return LockFinding::Held(reader.clone(), shared().count());
    }
    let is_free = |seen: &&LockState| matches!(seen.standing, Standing::Free | Standing::Reserved);
    let sure = |seen: &&LockState| seen.quarantine.is_zero();
    let unsure = |seen: &&LockState| is_free(seen) && !sure(seen);
    if seen().filter(is_free).filter(sure).count() >= quorum {
        return LockFinding::Free;
    }
    if seen().count() - seen().filter(unsure).count() >= quorum {
        LockFinding::Split
    } else {
        LockFinding::Unknown
    }
}

/// Asks all nodes what they have of a lock: at most `node_timeout`, and until all have
/// answered.
///
/// # Cancel safety
///
/// Nothing is changed by it, so nothing is left behind.
pub(crate) async fn inspect(
    set: &Arc<Set>,
    keys: &Arc<Keys>,
    node_timeout: Duration,
) -> Vec<InspectReply> {
    let before = set.met().await;
    let said = ask_all(set, &request(keys), node_timeout).await;
    if too_few(&said) && set.meets_again(&before).await {
        return told(ask_all(set, &request(keys), node_timeout).await);
    }
    told(said)
}

/// The same of several, which are asked for side by side.
pub(crate) async fn inspect_each(
    set: &Arc<Set>,
    keys: &[Arc<Keys>],
    node_timeout: Duration,
) -> Vec<Vec<InspectReply>> {
    let before = set.met().await;
    let mut found = Vec::with_capacity(keys.len());
    let asked: Vec<_> = keys
        .iter()
        .map(|keys| ask_all(set, &request(keys), node_timeout))
        .collect();
    for (keys, replies) in keys.iter().zip(asked) {
        let mut replies = replies.await;
        if too_few(&replies) && set.meets_again(&before).await {
            replies = ask_all(set, &request(keys), node_timeout).await;
        }
        found.push(told(replies));
    }
    found
}

fn too_few(replies: &[Reply]) -> bool {
    let answered = replies.iter().filter(|r| !matches!(r, Reply::Failed(_)));
    answered.count() < quorum(replies.len())
}

fn told(replies: Vec<Reply>) -> Vec<InspectReply> {
    let said = |reply| match reply {
        Reply::Seen(seen) => Ok(*seen),
        other => Err(no_answer(other)),
    };
    replies.into_iter().map(said).collect()
}

fn request(keys: &Arc<Keys>) -> Request {
    Request {
        op: Op::Inspect,
        native: false,
        keys: keys.clone(),
        value: Value(Arc::default()),
        waiter: None,
        leaving: AfterRelease::Free,
        not_after: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::node::FaultKind;
    use crate::protocol::force::ban;

    #[test]
    fn a_ban_outlasts_a_vote_that_is_lengthened_meanwhile() {
        let (value, none) = (Value(b"A"[..].into()), Duration::ZERO);
        let second = Duration::from_secs(1);
        // What stands for a second may be asked for anew before it is banned.
        for nodes in ["AAA", "A--", "BBB", "???"] {
            assert!(ban(&said(nodes), &value, 60 * second, second) > 61 * second);
        }
        // A foreign one may be longer than any of ours.
        assert!(ban(&said("A--"), &value, second / 2, none) > second);
        assert!(ban(&said("BBB"), &value, second / 2, none) < second);
    }

    /// Of nodes that have A's or B's vote, keep the lock for A (`a`), have nothing (`-`), have
    /// nothing and are in quarantine (`q`), reserve it (`@`), or did not answer (`?`).
    fn said(nodes: &str) -> Vec<InspectReply> {
        let seen = |standing, value: Option<&str>, quarantine| {
            Ok(LockState {
                standing,
                left: Some(Duration::from_secs(1)),
                value: value.map(|value| Value(value.as_bytes().into())),
                fence: 0,
                own: 0,
                queued: 0,
                slots: 0,
                readers: 0,
                sharers: Vec::new(),
                quarantine: Duration::from_secs(quarantine),
            })
        };
        let one = |node| match node {
            'A' => seen(Standing::Held, Some("A"), 0),
            'B' => seen(Standing::Held, Some("B"), 0),
            'a' => seen(Standing::Kept, Some("A"), 0),
            'r' => seen(Standing::Shared, Some("A"), 0),
            's' => seen(Standing::Shared, Some("B"), 0),
            'f' => seen(Standing::Foreign, Some("other"), 0),
            '-' => seen(Standing::Free, None, 0),
            'q' => seen(Standing::Free, None, 9),
            '@' => seen(Standing::Reserved, None, 0),
            _ => Err(Fault::new(FaultKind::Timeout, "no answer in time", true)),
        };
        nodes.chars().map(one).collect()
    }

    #[test]
    fn what_a_quorum_says_is_so() {
        let value = |name: &str| Value(name.as_bytes().into());
        for (nodes, expected) in [
            ("A", LockFinding::Held(value("A"), 1)),
            ("AAA", LockFinding::Held(value("A"), 3)),
            ("A?A", LockFinding::Held(value("A"), 2)),
            ("BAB", LockFinding::Held(value("B"), 2)),
            ("ffA", LockFinding::Held(value("other"), 2)),
            ("aaA", LockFinding::Kept(value("A"), 2)),
            ("rrs", LockFinding::Held(value("A"), 2)),
            ("rs-", LockFinding::Held(value("B"), 2)),
            ("r-?", LockFinding::Split),
            ("--A", LockFinding::Free),
            ("-@?", LockFinding::Free),
            ("AB-", LockFinding::Split),
            ("A-?", LockFinding::Split),
            ("aA-", LockFinding::Split),
            ("ABq", LockFinding::Split),
            ("A??", LockFinding::Unknown),
            ("qq-", LockFinding::Unknown),
            ("q-?", LockFinding::Unknown),
            ("Aq?", LockFinding::Unknown),
            ("???", LockFinding::Unknown),
        ] {
            assert_eq!(finding(&said(nodes)), expected, "{nodes}");
        }
    }
}
