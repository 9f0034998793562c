//! Who holds a lock, as the nodes have it: for people and monitors who look.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{Error, ErrorKind, NodeError, shown};
use crate::foreign;
use crate::node::{Seen, Standing, Value};
use crate::protocol::inspect::{Finding, Said, finding};
use crate::protocol::quorum::quorum;
use crate::protocol::set::Set;

/// What the nodes have of a lock, and what follows from it: see
/// [`Client::inspect`](crate::Client::inspect).
///
/// It tells how it was. Whoever wants to act on a lock has to acquire it: between the look
/// and the act it may have been released and won again.
#[derive(Clone, Debug)]
pub struct Inspection {
    name: Vec<u8>,
    verdict: Verdict,
    holder: Option<Holder>,
    fence: Option<u64>,
    queued: u32,
    nodes: Vec<NodeView>,
    /// The holder's vote: the token, which is not to be shown.
    vote: Option<Value>,
}

/// What follows from the answers of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// A quorum has the vote of one holder.
    Held,
    /// A quorum keeps it taken for one that has released it: see [`keep`](crate::Lock::keep).
    Kept,
    /// A quorum has no vote for anybody.
    Free,
    /// A quorum has answered and does not agree: somebody is about to win it, or to give it
    /// up, or has lost nodes.
    Split,
    /// Fewer than a quorum have answered, but for nodes that may have lost what they had.
    Unknown,
}

impl Verdict {
    /// Every verdict, in the order of their numbers.
    pub const ALL: &'static [Verdict] = &[
        Verdict::Held,
        Verdict::Kept,
        Verdict::Free,
        Verdict::Split,
        Verdict::Unknown,
    ];

    /// The verdict's number, the same forever.
    pub const fn number(self) -> i32 {
        match self {
            Verdict::Held => 1,
            Verdict::Kept => 2,
            Verdict::Free => 3,
            Verdict::Split => 4,
            Verdict::Unknown => 5,
        }
    }

    /// The verdict as a word: `held`, `kept`, `free`, `split`, `unknown`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Held => "held",
            Verdict::Kept => "kept",
            Verdict::Free => "free",
            Verdict::Split => "split",
            Verdict::Unknown => "unknown",
        }
    }
}

/// Who holds a lock, or keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    label: Option<String>,
    votes: usize,
    left: Option<Duration>,
    since: Option<SystemTime>,
    fence: Option<u64>,
}

impl Holder {
    /// The label of its client; `None` where it has none, or is a client of another library. Anybody
    /// may have put it there: of one that is longer the first 200 characters, and what is not visible
    /// escaped.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// How many nodes have its vote.
    pub fn votes(&self) -> usize {
        self.votes
    }

    /// How much longer a quorum of these votes lasts, unless they are renewed; `None` for votes
    /// without an end, which another library has put there.
    pub fn left(&self) -> Option<Duration> {
        self.left
    }

    /// When it asked for the lock, by the nodes' clocks; `None` where that is not known.
    pub fn since(&self) -> Option<SystemTime> {
        self.since
    }

    /// The largest fence that a node has counted for the lock: the holder's, unless somebody
    /// has asked for the lock since. Never less than the holder's.
    pub fn fence(&self) -> Option<u64> {
        self.fence
    }
}

/// What one node has of a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    node: String,
    state: &'static str,
    label: Option<String>,
    left: Option<Duration>,
    fence: Option<u64>,
    queued: u32,
    quarantine: Duration,
    error: Option<String>,
}

impl NodeView {
    /// The node, as in errors; never with credentials.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// What stands there, as a word: `held`, `kept`, `free`, `reserved` (free, and kept for a
    /// waiter that was called), `foreign` (of another library, or nobody), `unknown`.
    pub fn state(&self) -> &'static str {
        self.state
    }

    /// The label of who has the vote.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// How much longer that lasts; `None` where it has no end, or nothing is known.
    pub fn left(&self) -> Option<Duration> {
        self.left
    }

    /// The last fence that the node has counted, for whoever asked last.
    pub fn fence(&self) -> Option<u64> {
        self.fence
    }

    /// How many wait in the node's queue.
    pub fn queued(&self) -> u32 {
        self.queued
    }

    /// How much longer the node gives no vote, for it may have lost its memory.
    pub fn quarantine(&self) -> Duration {
        self.quarantine
    }

    /// Why it did not say.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}

impl Inspection {
    pub(crate) fn of(set: &Set, name: &[u8], said: &[Said]) -> Inspection {
        let found = finding(said);
        let (verdict, holder) = match &found {
            Finding::Held(value, votes) => (Verdict::Held, Some((value, *votes))),
            Finding::Kept(value, votes) => (Verdict::Kept, Some((value, *votes))),
            Finding::Free => (Verdict::Free, None),
            Finding::Split => (Verdict::Split, None),
            Finding::Unknown => (Verdict::Unknown, None),
        };
        let seen = || said.iter().flatten();
        let fence = seen().map(|seen| seen.fence).max();
        let fence = fence.filter(|fence| *fence != 0);
        Inspection {
            name: name.to_vec(),
            verdict,
            holder: holder.map(|(value, votes)| Holder {
                label: label(value),
                votes,
                left: left(said, value),
                since: value
                    .since()
                    .map(|micros| UNIX_EPOCH + Duration::from_micros(micros)),
                fence,
            }),
            fence,
            queued: seen().map(|seen| seen.queued).max().unwrap_or(0),
            nodes: set
                .links
                .iter()
                .zip(said)
                .map(|(link, said)| view(&link.shown(), said))
                .collect(),
            vote: holder.map(|(value, _)| value.clone()),
        }
    }

    /// Whether the same holder has it, in the same hold, or nobody in both.
    pub(crate) fn is_like(&self, other: &Inspection) -> bool {
        self.verdict == other.verdict && self.vote == other.vote
    }

    /// The lock's name, as given.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// What follows from the answers.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Whether nobody else could have it now, as far as the nodes say: `held` or `kept`.
    pub fn is_locked(&self) -> bool {
        matches!(self.verdict, Verdict::Held | Verdict::Kept)
    }

    /// Who holds it, or keeps it.
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// The largest fence that a node has counted: the holder's, unless somebody has asked
    /// for the lock since.
    pub fn fence(&self) -> Option<u64> {
        self.fence
    }

    /// How many wait in the queue of the lock, of all clients: one for each client that
    /// waits.
    pub fn queued(&self) -> u32 {
        self.queued
    }

    /// What each node has, in the order of the node list.
    pub fn nodes(&self) -> &[NodeView] {
        &self.nodes
    }
}

impl Inspection {
    /// The error of who wanted to know more than the nodes have told.
    pub(crate) fn unknown(&self) -> Error {
        let nodes = self.nodes.iter().map(|view| {
            let said = match &view.error {
                Some(error) => error.clone(),
                None if view.quarantine.is_zero() => view.state.to_owned(),
                None => format!("in quarantine for another {:?}", view.quarantine),
            };
            NodeError::new(view.node.as_str().into(), said)
        });
        let message = format!(
            "too few nodes answered to say who holds the lock {}: look at the nodes",
            shown(&self.name)
        );
        Error::with_nodes(ErrorKind::QuorumUnavailable, message, nodes.collect())
            .about(&self.name, None)
    }
}

/// One line for a person.
impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the lock {} is {}",
            shown(&self.name),
            self.verdict.as_str()
        )?;
        if let Some(holder) = &self.holder {
            write!(
                f,
                " by {}",
                holder
                    .label
                    .as_deref()
                    .unwrap_or("somebody without a label")
            )?;
            write!(f, " with {} of {} votes", holder.votes, self.nodes.len())?;
        }
        match self.queued {
            0 => Ok(()),
            queued => write!(f, ", and {queued} wait for it"),
        }
    }
}

fn label(value: &Value) -> Option<String> {
    let label = value.label().filter(|label| !label.is_empty())?;
    Some(foreign::told_bytes(label))
}

/// How much longer a quorum has this value.
fn left(said: &[Said], value: &Value) -> Option<Duration> {
    let has = |seen: &&Seen| {
        let theirs = seen.value.as_ref();
        theirs.is_some_and(|theirs| theirs.is_of_one_lease_with(value))
    };
    let votes = said.iter().flatten().filter(has);
    let mut left: Vec<Duration> = votes
        .map(|seen| seen.left.unwrap_or(Duration::MAX))
        .collect();
    left.sort_unstable_by(|a, b| b.cmp(a));
    let left = left.get(quorum(said.len()) - 1).copied();
    left.filter(|left| *left != Duration::MAX)
}

fn view(node: &str, said: &Said) -> NodeView {
    let unknown = NodeView {
        node: node.to_owned(),
        state: "unknown",
        label: None,
        left: None,
        fence: None,
        queued: 0,
        quarantine: Duration::ZERO,
        error: None,
    };
    match said {
        Err(fault) => NodeView {
            error: Some(fault.text.to_string()),
            ..unknown
        },
        Ok(seen) => NodeView {
            state: match seen.standing {
                Standing::Free => "free",
                Standing::Held => "held",
                Standing::Shared => "shared",
                Standing::Kept => "kept",
                Standing::Reserved => "reserved",
                Standing::Foreign => "foreign",
            },
            label: seen.value.as_ref().and_then(label),
            left: seen.left,
            fence: Some(seen.fence).filter(|fence| *fence != 0),
            queued: seen.queued,
            quarantine: seen.quarantine,
            ..unknown
        },
    }
}
