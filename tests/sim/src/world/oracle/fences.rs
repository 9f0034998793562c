//! The verdicts on fences, and on the counters that they come from.

use quorlock::sim::{MemoryNode, Mode, Op, Reply, Request, StoredValue};

use super::{Seen, Watch};
use crate::neighbour::place_of_hold;
use crate::plan::DRIFT;
use crate::world::{Inner, MS, Time};

impl Inner {
    /// S2: the fence is larger than that of every lease which was won before
    /// a node first voted for this one, and like none; as long as any two
    /// quorums shared a node that kept its counter since the first vote for
    /// either, or the median of the clocks went on.
    pub(in crate::world) fn check_fence(&mut self, index: usize) {
        let watches = &self.oracle.watches;
        let watch = &watches[index];
        let Some(fence) = watch.fence else { return };
        let key = watch.hold.lock_key();
        let spare = 2 * self.quorum() - self.nodes.len();
        let lock = place_of_hold(&watch.hold);
        let first_vote = |w: &Watch| self.oracle.tokens.get(&w.name).map(|l| l.first_vote);
        let wrong = watches[..index].iter().any(|other| {
            let since = first_vote(other).min(first_vote(watch)).unwrap_or(0);
            let lost = self.nodes.iter().filter(|n| n.lost_at[lock] > since);
            let after = first_vote(watch).is_some_and(|first| other.won_at < first);
            let same_token = other.name == watch.name;
            // Holds of one owner in Redisson's layout have one fence, where they overlap.
            let owner = |w: &Watch| {
                w.hold
                    .terms()
                    .keys
                    .field
                    .as_ref()
                    .map(|field| field.name.clone())
            };
            if owner(watch).is_some() && owner(watch) == owner(other) {
                return false;
            }
            // Between readers a fence says nothing.
            if (other.mode, watch.mode) == (Mode::Shared, Mode::Shared) {
                return false;
            }
            other.hold.lock_key() == key
                && other.hold.terms().keys.id() == watch.hold.terms().keys.id()
                && (lost.count() < spare || same_token || self.median_went_on(other, watch))
                && other
                    .fence
                    .is_some_and(|f| f == fence || ((after || same_token) && f > fence))
        });
        if wrong || fence == 0 {
            let c = watch.client;
            self.violated(format!(
                "S2 c{c} won with the fence {fence}, which is not larger"
            ));
        }
    }

    /// S2, where counters are gone: whether the lower median of any quorum of the
    /// nodes' clocks or more, as a client estimates it that first asks for a lease,
    /// is beyond all that such medians were when the `other` was won.
    fn median_went_on(&self, other: &Watch, watch: &Watch) -> bool {
        // Whoever stands still learns the time late; one server that is two clocks
        // to a client, or two that are one, are none to go by.
        let uncertain = self.oracle.steps_seen
            || self.oracle.led_astray
            || self.listed_twice
            || self.clients.iter().any(|client| client.awake_since > 0);
        let asked = self.clients[watch.client].clock.time(watch.hold.begun());
        if uncertain || asked <= other.won_at {
            return false;
        }
        // Of a node's servers, the later one before, and the earlier one after.
        let known = |time: Time, of: fn((u64, u64)) -> u64| {
            let clocks = self.nodes.iter().map(|node| of(node.clocks(time)));
            let mut clocks: Vec<u64> = clocks.collect();
            clocks.sort_unstable();
            clocks
        };
        let (before, after) = (known(other.won_at, |c| c.1), known(asked, |c| c.0));
        let (nodes, quorum) = (self.nodes.len(), self.quorum());
        // Of the smallest and of the largest, an answer may be late by the timeout,
        // and what was known drifts. Each hold may count some more.
        let most = (quorum..=nodes).map(|k| before[nodes - k + (k - 1) / 2]);
        let least = after[(quorum - 1) / 2];
        let drifted = (asked as f64 * DRIFT) as u64;
        let off = self.network.patience + drifted + MS;
        least > most.max().unwrap_or(u64::MAX) + 2 * off
    }

    /// S2, on one node: its counter never goes back, a vote is counted by what is proposed
    /// alone, a fence is written back beyond all that is stored, and what it says of a
    /// fence is so.
    pub(super) fn check_counter(
        &mut self,
        node: usize,
        request: &Request,
        seen: &Seen,
        reply: Option<&Reply>,
    ) {
        let Some((counter, _)) = request.keys.counter() else {
            return;
        };
        if request.keys.field.is_some() {
            return self.check_hashed_counter(node, request, seen, counter);
        }
        let (before, local) = (seen.counted, seen.local);
        let after = self.nodes[node].state.fence(counter, local);
        let after = after.unwrap_or(0);
        // The clock alone counts nothing: it bounds what is proposed.
        let bound = MemoryNode::time(local) + 10_000_000;
        let shares = request.keys.mode == Mode::Shared;
        // Beyond all that was counted for one alone, readers' fences are.
        let base = match &seen.form {
            Some((StoredValue::Shared { base, .. }, _)) => *base,
            _ => before,
        };
        let wrong = match (request.op, reply) {
            (
                Op::Acquire {
                    candidate, block, ..
                },
                Some(Reply::Granted { fence, .. }),
            ) => {
                let counted = |base| match candidate {
                    0 => before,
                    _ => candidate.min(bound).max(base + u64::from(block)),
                };
                match request.keys.mode {
                    // Where the readers before have ended it may begin anew.
                    Mode::Shared => {
                        let fits = |base| *fence == counted(base);
                        after != before.max(*fence) || !fits(base) && !fits(before)
                    }
                    _ => {
                        let counted = counted(before);
                        after != counted || *fence != counted
                    }
                }
            }
            (Op::Confirm { fence, .. }, Some(Reply::Confirmed)) if shares => {
                after != before.max(fence) || base >= fence
            }
            (Op::Confirm { fence, block, .. }, Some(Reply::Confirmed)) => {
                after != fence || before > fence.saturating_sub(block.into())
            }
            (Op::Extend { fence, .. }, Some(Reply::Extended { .. })) => after < fence,
            _ => false,
        };
        if wrong || after < before {
            let op = request.op;
            self.violated(format!(
                "S2 n{node}'s counter went from {before} to {after}: {op:?}"
            ));
        }
    }
}
