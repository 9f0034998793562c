//! Whether an attempt is won: all conditions of it.
//!
//! An attempt is won when all of these hold:
//!
//! 1. A quorum of nodes has voted for the token, and each of these votes lasts longer than the
//!    `min_validity` that a lease must have when it is won.
//! 2. The lease would not be over by `max_hold` before that.
//! 3. The [home](super::home), where the waiters of the lock queue, does not refuse.
//! 4. A quorum of the voters stores one and the same [fence](crate::protocol::fence), if the lock
//!    counts fences.
//! 5. The home has answered, or was waited for long enough.

use super::effects::{Effects, Wake};
use super::env::Env;
use super::home::HomeVote;
use super::{Claim, Path, Phase};
use crate::clock::Instant;
use crate::protocol::fence::{self, Fence};
use crate::protocol::quorum::RoundVerdict;

/// What the votes have come to.
enum Decision {
    /// Answers that are to come decide.
    Open,
    /// The round cannot be won any more.
    Lost,
    /// The home's answer is waited for.
    AwaitHome,
    /// The voters are to store this fence first.
    WriteBack(u64),
    /// The token has the lock, with this as the last fence of its block.
    Won(u64),
}

impl Claim {
    /// See the [module documentation](self). A condition that fails ends the look at the votes, for
    /// a fence that is drawn too early would be drawn for nothing.
    fn decide(&mut self, needed: Instant, now: Instant, env: &impl Env) -> Decision {
        self.round.awaits_home = false;
        match self.votes.verdict(needed) {
            RoundVerdict::Open => return Decision::Open,
            RoundVerdict::Lost => return Decision::Lost,
            RoundVerdict::Won => {}
        }
        let home = self.vote_of_home(now, env);
        // The home refused: another waiter may be the first in its queue.
        if home == HomeVote::Refuses {
            return Decision::Lost;
        }
        // Votes of a request that was sent late outlast what `max_hold` leaves.
        if needed > self.last_end(env) {
            return Decision::Lost;
        }
        let mut fence = 0;
        if env.terms().keys.fence_ttl.is_some() {
            let median = self.propose(Path::Script, now, env);
            let nodes = self.votes.0.iter().map(|node| (node.vote, node.mark));
            fence = match fence::verdict(nodes, needed, self.block, median) {
                Fence::Agreed(fence) => fence,
                // A node that stores a larger one has it written back again; the end of the
                // attempt bounds how often.
                Fence::WriteBack(fence) if now < self.attempt_ends(env) => {
                    return Decision::WriteBack(fence);
                }
                Fence::WriteBack(_) | Fence::Lost => return Decision::Lost,
            };
        }
        match home {
            HomeVote::Pending(_) => Decision::AwaitHome,
            HomeVote::Agrees | HomeVote::Refuses => Decision::Won(fence),
        }
    }

    /// Decides, after one more reply or when the home was waited for long enough, and does what
    /// follows. `tells`: a waiter is to know, if the round is not won.
    pub(super) fn conclude(&mut self, tells: bool, now: Instant, env: &impl Env, fx: &mut Effects) {
        let needed = now + env.terms().timing.min_validity;
        match self.decide(needed, now, env) {
            Decision::Won(fence) => {
                self.win(fence, now, env);
                fx.counts.acquired = true;
                fx.release = self.leave_queues(now, env);
                fx.wake = Some(Wake::AfterSending);
            }
            Decision::WriteBack(fence) => self.write_back(fence, needed, now, env, fx),
            Decision::AwaitHome => {
                self.round.awaits_home = true;
                fx.home_due = self.round.home_due;
                fx.wake = tells.then_some(Wake::AfterSending);
            }
            // The waiter decides how the attempt goes on.
            Decision::Open | Decision::Lost if self.is_patient(env) => {
                fx.wake = tells.then_some(Wake::AfterSending)
            }
            Decision::Open => {}
            Decision::Lost => {
                self.phase = Phase::Dead;
                fx.counts.attempt_lost = true;
                fx.release = self.plan_release(self.votes.residues(None), now, env);
                fx.wake = Some(Wake::AfterSending);
            }
        }
    }

    /// A quorum has voted for the token, and stores its fence.
    fn win(&mut self, fence: u64, now: Instant, env: &impl Env) {
        self.phase = Phase::Held;
        let first = fence.saturating_sub(u64::from(self.block - 1));
        let end = self.end_by_votes(env);
        let lease = &mut self.lease;
        lease.since = now;
        lease.last_fence = fence;
        lease.fence = first;
        lease.end = end;
    }
}
