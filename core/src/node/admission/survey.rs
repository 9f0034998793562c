//! What all connections of one client know of the nodes of its set: what each node has
//! [shown](super::founding), and which connections wait for what other nodes have yet to show.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use super::founding::{Admission, Observation, SetView};
use super::{Expectation, QuarantineCause};
use crate::mutex::lock;
use crate::wakers::Watchers;

/// What the nodes of a set have shown. Shared by a client's connections.
#[derive(Debug)]
pub struct Survey {
    expected: Expectation,
    state: Mutex<SurveyState>,
}

#[derive(Debug)]
struct SurveyState {
    known: SetView,
    /// Counts what has changed.
    changes: u64,
    watchers: Watchers,
    /// Why the nodes wait that do.
    waits: Vec<Option<String>>,
    /// Why the nodes are in quarantine that are.
    causes: BTreeMap<usize, Option<QuarantineCause>>,
}

impl Survey {
    /// Nothing is known. `names`: of the nodes, as messages have them, and
    /// whether each lives in this process.
    pub fn new(expected: Expectation, names: Vec<(Arc<str>, bool)>) -> Survey {
        Survey {
            state: Mutex::new(SurveyState {
                changes: 0,
                watchers: Watchers::default(),
                waits: vec![None; names.len()],
                causes: BTreeMap::new(),
                known: SetView::new(expected.clone(), names),
            }),
            expected,
        }
    }

    /// What the client expects of every node.
    pub fn expected(&self) -> &Expectation {
        &self.expected
    }

    /// Notes what a node shows, and says what follows. `fresh` names the node if
    /// it has no name yet.
    pub fn look(&self, node: usize, look: &Observation, fresh: &str) -> Admission {
        let mut state = lock(&self.state);
        let (changed, next) = state.known.look(node, look, fresh);
        let wait = (next == Admission::Wait).then(|| state.known.missing());
        state.waits[node] = wait;
        state.changes += u64::from(changed);
        let watchers = if changed {
            state.watchers.take()
        } else {
            Default::default()
        };
        drop(state);
        watchers.wake();
        next
    }

    /// A node could not be reached, or does not serve. What it has shown of a
    /// record stays known.
    pub fn absent(&self, node: usize) {
        let mut state = lock(&self.state);
        let changed = state.known.absent(node);
        state.changes += u64::from(changed);
        let watchers = state.watchers.take();
        drop(state);
        watchers.wake();
    }

    /// How often something has changed.
    pub fn changes(&self) -> u64 {
        lock(&self.state).changes
    }

    /// Ready when more has changed than `seen` counts.
    pub(crate) fn poll_change(
        &self,
        seen: u64,
        place: &mut Option<u64>,
        cx: &Context<'_>,
    ) -> Poll<()> {
        let mut state = lock(&self.state);
        if state.changes != seen {
            return Poll::Ready(());
        }
        state.watchers.park(place, cx)
    }

    /// The node's connection waits no longer; gives back its place of
    /// [`poll_change`](Survey::poll_change).
    pub(crate) fn leave(&self, node: usize, place: Option<u64>) {
        let mut state = lock(&self.state);
        state.waits[node] = None;
        state.watchers.leave(place);
    }

    /// Why the connection to a node [waits](Next::Wait) that is being made.
    pub(crate) fn waits_for(&self, node: usize) -> Option<String> {
        lock(&self.state).waits[node].clone()
    }

    /// Whether the node has shown this set's record.
    pub fn is_ours(&self, node: usize) -> bool {
        lock(&self.state).known.is_ours(node)
    }

    /// The node was in quarantine for this when it was connected to, or was in none.
    pub(crate) fn quarantined(&self, node: usize, cause: Option<QuarantineCause>) {
        lock(&self.state).causes.insert(node, cause);
    }

    /// Why the node is in quarantine, if it is, as far as this client knows.
    pub(crate) fn cause(&self, node: usize) -> Option<QuarantineCause> {
        lock(&self.state).causes.get(&node).copied().flatten()
    }

    /// Whether the set was founded by this client, and wholly new but for servers
    /// that were too young.
    pub(crate) fn is_young(&self) -> bool {
        lock(&self.state).known.is_young()
    }
}

#[cfg(test)]
mod tests;
