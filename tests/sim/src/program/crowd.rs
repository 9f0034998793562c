//! A crowd of readers, from whom the lock is taken away: all of them lose it, however many.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Crew;
use super::Place;
use crate::contender::{Client, NAMES, Stage, or_until};
use crate::random::Random;

/// So many votes at most, of all on all nodes.
const VOTES: u64 = 400;
/// And rarely, on a single node.
const THOUSANDS: u64 = 2_000;

impl Client {
    /// Many share the lock, each with a lease of its own. Nobody asks the oracle about them but
    /// what stands on the nodes.
    pub(super) async fn crowd(&self, stage: &Arc<Stage>, place: Place, random: &Random) {
        let (world, plan) = (&stage.world, &stage.plan);
        let nodes = plan.nodes as u64;
        let readers = if nodes == 1 && random.chance(5) {
            random.between(1_000, THOUSANDS)
        } else {
            random.between(20, VOTES) / nodes
        };
        let lock = random.below(plan.locks as u64) as usize;
        let until = world.time() + plan.ttl.as_nanos() as u64 / 2;
        stage.says(|| format!("{readers} readers want the lock {}", NAMES[lock]));
        world.expects(readers);
        let crew = Arc::new(Crew::default());
        for _ in 0..readers {
            let (client, reads) = (self.clone(), stage.clone());
            self.begins(stage, place, Some(&crew), async move {
                client.reads(&reads, lock, until).await;
            });
        }
        self.pauses(plan.ttl.mul_f64(0.1 + random.share() * 0.4))
            .await;
        let operator = stage.anybody(random);
        let (who, forces) = (operator.clone(), stage.clone());
        operator.begins(stage, place, None, async move {
            who.forces(&forces, lock, None, None).await;
        });
        crew.is_done().await;
        stage.counts.readers.fetch_add(readers, Ordering::Relaxed);
    }

    async fn reads(&self, stage: &Stage, lock: usize, until: u64) {
        let (world, clock) = (&stage.world, &*self.set.clock);
        let lock = self.door.lock(NAMES[lock]).shared(true);
        let Ok(Some(lease)) = lock.try_acquire().await else {
            return;
        };
        let left = Duration::from_nanos(until.saturating_sub(world.time()));
        or_until(lease.lost(), clock, clock.now() + left).await;
        drop(lease);
    }
}
