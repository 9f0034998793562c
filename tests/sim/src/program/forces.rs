//! A lock that another takes away, from whoever has it. FR1: once that is done no quorum holds
//! what one held before.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::acts::perhaps;
use super::{Handle, Place};
use crate::contender::{Client, KEYS, NAMES, Stage};
use crate::neighbour::place_of_hold;
use crate::random::Random;

impl Client {
    /// Somebody takes away the lock of this lease.
    pub(super) fn has_it_forced(
        &self,
        stage: &Arc<Stage>,
        place: Place,
        handle: &Handle,
        cut: Option<u64>,
        random: &Random,
    ) {
        let lock = place_of_hold(handle.lease.hold());
        // Of a semaphore nobody can, and of the locks beside these nobody does.
        if lock >= NAMES.len() {
            return;
        }
        let fence = handle.lease.fence().filter(|_| random.chance(20));
        let cuts = random.chance(25).then(|| Random::new(random.bits()));
        let (who, forces) = (stage.anybody(random), stage.clone());
        let operator = who.clone();
        who.begins(stage, place, None, async move {
            operator.forces(&forces, lock, fence, cut).await;
        });
        if let Some(random) = cuts {
            // In the middle of that, mostly.
            let (cuts, base) = (stage.clone(), stage.plan.network.base.max(1));
            let after = Duration::from_nanos(random.below(8 * base));
            let operator = who.clone();
            who.begins(stage, place, None, async move {
                operator.pauses(after).await;
                operator.is_cut_off(&cuts, &random);
            });
        }
    }

    /// Takes a lock away.
    pub(super) async fn forces(
        &self,
        stage: &Stage,
        lock: usize,
        fence: Option<u64>,
        cut: Option<u64>,
    ) {
        let (world, plan, c) = (&stage.world, &stage.plan, self.number);
        stage.counts.forces.fetch_add(1, Ordering::Relaxed);
        stage.says(|| format!("takes the lock {} away from whoever has it", NAMES[lock]));
        let (before, begun) = (world.held_by_a_quorum(KEYS[lock]), self.now(stage));
        let door = self.door.lock(NAMES[lock]);
        world.traces_forcing(c, KEYS[lock]);
        let outcome = perhaps(door.force_release(fence), cut).await;
        world.traces_forced(c, KEYS[lock], matches!(outcome, Some(Ok(_))));
        match outcome {
            None => stage.says(|| "waits for that no more".into()),
            Some(Err(error)) => {
                stage.says(|| format!("is told: {error}"));
                self.judge_error(stage, &error);
            }
            Some(Ok(forced)) => {
                stage.says(|| format!("is told: {} votes were taken away", forced.freed()));
                if !plan.fails_over() {
                    world.check_forced(c, KEYS[lock], &before);
                }
            }
        }
        let readers = plan.shares || plan.programs.is_some_and(|programs| programs.may_share());
        if !readers {
            // Two requests to each node; where they do not settle it, a third after as long again.
            self.in_time(stage, begun, 5 * plan.node_timeout, "a forced release");
        }
    }
}
