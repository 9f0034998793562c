//! The holder of a lock, as the nodes have it: for operators and monitors.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{Error, ErrorKind, NodeError, shown};
use crate::foreign;
use crate::node::{LockState, Standing, Value};
use crate::protocol::inspect::{InspectReply, LockFinding, finding};
use crate::protocol::quorum::quorum;
use crate::protocol::set::Set;

/// What the nodes have of a lock, and what follows from it: see
/// [`Client::inspect`](crate::Client::inspect).
///
/// It says how it was. A program that wants to act on a lock has to acquire it: between the look
/// and the act it may have been released and won again.
#[derive(Clone, Debug)]
pub struct Inspection {
    name: Vec<u8>,
    verdict: Verdict,
    holder: Option<Holder>,
    fence: Option<u64>,
    queued: u32,
    nodes: Vec<NodeView>,
    /// Which slot of the semaphore it is.
    slot: Option<u32>,
    /// Those of a semaphore.
    slots: Option<Vec<Inspection>>,
    slots_held: u32,
    /// The holder's vote: the token, which is not to be shown.
    vote: Option<Value>,
    /// Each fence by which a node knows the holder. Until the first renewal they may differ, where
    /// nodes had counted differently far; no other hold has any of them.
    owns: Vec<u64>,
}

/// What follows from the answers of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// A quorum has the vote of one holder.
    Held,
    /// A quorum keeps it taken for a client that has released it: see [`keep`](crate::Lock::keep).
    Kept,
    /// A quorum has no vote for anybody.
    Free,
    /// A quorum has answered and does not agree: a client is about to win it, or to give it up, or
    /// has lost nodes.
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

/// The client that holds a lock, or keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    label: Option<String>,
    votes: usize,
    left: Option<Duration>,
    since: Option<SystemTime>,
    fence: Option<u64>,
}

impl Holder {
    /// The label of its client; `None` where it has none, or is a client of another library. Any
    /// client may have put it there: of a longer label the first 200 characters, and what is not
    /// visible escaped.
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

    /// The fence of its hold, also where others have asked for the lock in vain since. A lease that was passed on within
    /// its client, or won where nodes had counted differently far, is known by its own from its next renewal on. Of
    /// readers, and of a holder that is known to no node by its fence, the largest that a node has counted, which is never
    /// less than the holder's.
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

    /// What stands there, as a word: `held`, `shared` (by readers), `kept`, `free`, `reserved`
    /// (free, and kept for a waiter that was called), `foreign` (of another library, or of no known
    /// origin), `unknown`.
    pub fn state(&self) -> &'static str {
        self.state
    }

    /// The label of the client that has the vote.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// How much longer that lasts; `None` where it has no end, or nothing is known.
    pub fn left(&self) -> Option<Duration> {
        self.left
    }

    /// The last fence that the node has counted, for the client that asked last.
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
    pub(crate) fn of(set: &Set, name: &[u8], said: &[InspectReply]) -> Inspection {
        let found = finding(said);
        let (verdict, holder) = match &found {
            LockFinding::Held(value, votes) => (Verdict::Held, Some((value, *votes))),
            LockFinding::Kept(value, votes) => (Verdict::Kept, Some((value, *votes))),
            LockFinding::Free => (Verdict::Free, None),
            LockFinding::Split => (Verdict::Split, None),
            LockFinding::Unknown => (Verdict::Unknown, None),
        };
        let seen = || said.iter().flatten();
        let fence = seen().map(|seen| seen.fence).max();
        let fence = fence.filter(|fence| *fence != 0);
        let owns = holder.map_or_else(Vec::new, |(value, _)| own_fences(said, value));
        let own = most_told(&owns);
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
                fence: own.or(fence),
            }),
            fence,
            queued: seen().map(|seen| seen.queued).max().unwrap_or(0),
            nodes: set
                .links
                .iter()
                .zip(said)
                .map(|(link, said)| view(&link.shown(), said))
                .collect(),
            slot: None,
            slots: None,
            slots_held: 0,
            vote: holder.map(|(value, _)| value.clone()),
            owns,
        }
    }

    /// The same of that slot of the semaphore of this name.
    pub(crate) fn of_slot(set: &Set, name: &[u8], slot: u32, said: &[InspectReply]) -> Inspection {
        Inspection {
            slot: Some(slot),
            ..Inspection::of(set, name, said)
        }
    }

    /// A semaphore of these slots: free where one of them is.
    pub(crate) fn of_slots(name: &[u8], slots: Vec<Inspection>) -> Inspection {
        let any = |verdict| slots.iter().any(|slot| slot.verdict == verdict);
        let verdict = match () {
            () if any(Verdict::Free) => Verdict::Free,
            () if any(Verdict::Unknown) => Verdict::Unknown,
            () if any(Verdict::Split) => Verdict::Split,
            () => Verdict::Held,
        };
        let node = |node: usize| {
            let mut views = slots.iter().map(|slot| &slot.nodes[node]);
            let free = views
                .clone()
                .find(|view| matches!(view.state, "free" | "reserved"));
            let failed = views.clone().find(|view| view.error.is_some());
            let shown = failed.or(free).or(views.next());
            shown.map(|view| NodeView {
                label: None,
                left: None,
                fence: None,
                ..view.clone()
            })
        };
        let nodes = slots.first().map_or(0, |slot| slot.nodes.len());
        let held = slots.iter().filter(|slot| slot.is_locked()).count();
        Inspection {
            name: name.to_vec(),
            verdict,
            holder: None,
            fence: None,
            queued: slots.iter().map(|slot| slot.queued).max().unwrap_or(0),
            nodes: (0..nodes).filter_map(node).collect(),
            slot: None,
            slots_held: u32::try_from(held).unwrap_or(u32::MAX),
            slots: Some(slots),
            vote: None,
            owns: Vec::new(),
        }
    }

    /// A lock, and what the nodes have said of the slots of a semaphore of its name.
    pub(crate) fn beside(mut self, slots: &[InspectReply]) -> Inspection {
        let held = slots.iter().flatten().map(|seen| seen.slots).max();
        self.slots_held = held.unwrap_or(0);
        self
    }

    /// Whether the same holder has it, in the same hold, or neither has a holder.
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

    /// Whether a node knows the holder by this fence.
    pub(crate) fn is_held_by(&self, fence: u64) -> bool {
        self.owns.contains(&fence)
    }

    /// Whether a node may have a vote for some client.
    pub(crate) fn may_be_held(&self) -> bool {
        let free = |view: &NodeView| matches!(view.state, "free" | "reserved");
        self.verdict != Verdict::Free || !self.nodes.iter().all(free)
    }

    /// Whether no other client could have it now, as far as the nodes say: `held` or `kept`.
    pub fn is_locked(&self) -> bool {
        matches!(self.verdict, Verdict::Held | Verdict::Kept)
    }

    /// The client that holds it, or keeps it.
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// The largest fence that a node has counted, for the holder of the lock, or for a client that
    /// asked in vain since: see [`Holder::fence`].
    pub fn fence(&self) -> Option<u64> {
        self.fence
    }

    /// How many wait in the queue of the lock, of all clients: one for each client that waits.
    pub fn queued(&self) -> u32 {
        self.queued
    }

    /// Each slot of a [semaphore](crate::Client::semaphore), in the order of their numbers; none of a lock.
    pub fn slots(&self) -> &[Inspection] {
        self.slots.as_deref().unwrap_or_default()
    }

    /// How many slots are held, of the semaphore that was looked at. Of a lock that is free: of a semaphore that has
    /// its name, which is another matter, and may be what was meant.
    pub fn slots_held(&self) -> u32 {
        self.slots_held
    }

    /// Which slot of a semaphore that is, if it is one.
    pub fn slot(&self) -> Option<u32> {
        self.slot
    }

    /// What each node has, in the order of the node list.
    pub fn nodes(&self) -> &[NodeView] {
        &self.nodes
    }
}

impl Inspection {
    /// The error of a caller that wanted to know more than the nodes have said.
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
        let name = shown(&self.name);
        if let Some(slots) = &self.slots {
            let (held, of) = (self.slots_held, slots.len());
            write!(f, "the semaphore {name} has {held} of {of} slots held")?;
            return match self.queued {
                0 => Ok(()),
                queued => write!(f, ", and {queued} wait for one"),
            };
        }
        match self.slot {
            Some(slot) => write!(f, "slot {slot} of the semaphore {name} is ")?,
            None => write!(f, "the lock {name} is ")?,
        }
        f.write_str(self.verdict.as_str())?;
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
            0 => {}
            queued => write!(f, ", and {queued} wait for it")?,
        }
        match self.slots_held {
            0 => Ok(()),
            held => write!(
                f,
                "; a semaphore of that name is in use, {held} of its slots are held: look at it by its number of slots"
            ),
        }
    }
}

fn label(value: &Value) -> Option<String> {
    let label = value.label().filter(|label| !label.is_empty())?;
    Some(foreign::excerpt_of_bytes(label))
}

/// How much longer a quorum has this value.
fn left(said: &[InspectReply], value: &Value) -> Option<Duration> {
    let has = |seen: &&LockState| {
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

/// The fences by which the nodes that have this value know its hold: by what its client has sent
/// them or was given by a script, else by the time in its token, which is what was proposed where
/// it was won by plain commands.
fn own_fences(said: &[InspectReply], value: &Value) -> Vec<u64> {
    let has = |seen: &&LockState| {
        let theirs = seen.value.as_ref();
        seen.sharers.is_empty() && theirs.is_some_and(|v| v.is_of_one_lease_with(value))
    };
    let known = said.iter().flatten().filter(has);
    let known = known.filter_map(|seen| match seen.own {
        0 => value.proposed(seen.fence),
        own => Some(own),
    });
    known.collect()
}

/// The fence that most nodes report.
fn most_told(fences: &[u64]) -> Option<u64> {
    let told = |fence: &u64| fences.iter().filter(|other| *other == fence).count();
    let most = fences.iter().max_by_key(|fence| (told(fence), **fence));
    most.copied()
}

fn view(node: &str, said: &InspectReply) -> NodeView {
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

#[cfg(test)]
mod tests {
    use super::most_told;

    #[test]
    fn a_holder_is_known_by_the_fence_that_most_nodes_tell() {
        for (told, most) in [
            (&[][..], None),
            (&[7], Some(7)),
            (&[7, 7, 9], Some(7)),
            (&[7, 9, 9], Some(9)),
            // Each of them may be the holder's, and `force_release` takes either.
            (&[7, 9], Some(9)),
        ] {
            assert_eq!(most_told(told), most);
        }
    }
}
