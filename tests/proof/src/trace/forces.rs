//! A lock was taken away when a quorum has banned its holder: "release", with force.

use std::collections::{BTreeMap, BTreeSet};

use quorlock::sim::{AfterRelease, Op, Reply};
use quorlock_sim::trace::Step;

use super::Refused;
use crate::spec::Action;
use crate::spec::claim::quorum;

/// The nodes, by their places, that have answered for each value that is to go.
type Banned = BTreeMap<Vec<u8>, BTreeSet<usize>>;

/// The locks that are taken away.
#[derive(Debug, Default)]
pub struct Forces {
    /// How many nodes each client lists.
    nodes: BTreeMap<usize, usize>,
    /// By client and lock.
    asked: BTreeMap<(usize, Vec<u8>), Banned>,
    /// How many calls are under way, and whether there were several: those are not told apart.
    calls: BTreeMap<(usize, Vec<u8>), (usize, bool)>,
}

impl Forces {
    /// A step.
    pub fn step(&mut self, step: &Step) -> Result<(), Refused> {
        match step {
            Step::Client { client, nodes, .. } => {
                self.nodes.insert(*client, *nodes);
            }
            Step::Asks {
                client, request, ..
            } if request.op == Op::Release
                && matches!(request.leaving, AfterRelease::Forced(_)) =>
            {
                let name = (*client, request.keys.lock.to_vec());
                let banned = self.asked.entry(name).or_default();
                banned.entry(request.value.0.to_vec()).or_default();
            }
            Step::Hears {
                client,
                place,
                request,
                reply: Reply::Released { .. },
                ..
            } if matches!(request.leaving, AfterRelease::Forced(_)) => {
                let name = (*client, request.keys.lock.to_vec());
                let banned = self.asked.get_mut(&name);
                if let Some(nodes) = banned.and_then(|b| b.get_mut(&*request.value.0)) {
                    nodes.insert(*place);
                }
            }
            Step::Forces { client, lock } => {
                let (calls, several) = self.calls.entry((*client, lock.to_vec())).or_default();
                *calls += 1;
                *several |= *calls > 1;
            }
            Step::Forced { client, lock, done } => {
                let name = (*client, lock.to_vec());
                let (calls, several) = self.calls.entry(name.clone()).or_default();
                *calls = calls.saturating_sub(1);
                let alone = !*several;
                *several &= *calls > 0;
                let banned = self.asked.remove(&name).filter(|_| alone);
                let most = banned.and_then(|banned| banned.values().map(BTreeSet::len).max());
                let least = quorum(self.nodes.get(client).copied().unwrap_or(0));
                // guard: a quorum, of one value at least
                if *done && most.is_some_and(|most| most < least) {
                    return Err(Refused::new(Action::ClientForce, || {
                        format!(
                            "client {client} says that a lock was taken away, which {most:?} nodes have done"
                        )
                    }));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
