//! The calm tail of a schedule: nothing goes wrong any more but that clients
//! vanish and connections break, and everybody waits for the lock, again and
//! again. So it is never idle for long, and nobody waits forever (L4).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::contender::{Client, NAMES, Stage, or_until, polled};
use crate::plan::Plan;
use crate::random::Random;
use crate::world::{FaultEvent, MS, Time, World};

impl Plan {
    /// How long the tail may last.
    pub fn tail_ends(&self) -> Time {
        // Whoever wants several waits for each of them.
        let several = if self.several {
            NAMES.len() as u64
        } else {
            2 * u64::from(self.slots.is_some())
        };
        (self.tail + several) * self.bounds().longest
    }

    /// What goes wrong in the tail that begins now.
    pub fn tail_faults(&self, random: &Random, world: &World) {
        if self.network.even {
            return;
        }
        let (now, ttl) = (world.time(), self.ttl.as_nanos() as Time);
        let at = || now + random.below(ttl.min(500 * MS));
        for _ in 0..random.below(4) {
            self.reset_one(random, world, at());
        }
        if self.clients > 2 && random.chance(25) {
            let client = random.below(self.clients as u64) as usize;
            world.plan(at(), FaultEvent::CrashClient(client));
        }
    }

    /// The connection of some client to some node breaks.
    fn reset_one(&self, random: &Random, world: &World, at: Time) {
        let client = random.below(self.clients as u64) as usize;
        let node = random.below(self.nodes as u64) as usize;
        if self.network.even {
            return;
        }
        world.plan(at, FaultEvent::Reset(client, node));
    }
}

impl Client {
    /// Waits until all is calm.
    pub async fn calm(&self, stage: &Stage) {
        let (plan, clock) = (&stage.plan, &*self.set.clock);
        while !stage.calm.load(Ordering::Relaxed) {
            let pause = plan.ttl / 16 + Duration::from_nanos(plan.pauses() / 64);
            clock.sleep_until(clock.now() + pause).await;
        }
    }

    /// Waits until all is calm, and for the lock as often as the plan says.
    pub async fn tail(&self, stage: &Arc<Stage>, worker: usize) {
        let plan = &stage.plan;
        self.calm(stage).await;
        let user = plan.users(self.number).start + worker;
        for turn in plan.rounds..plan.rounds + plan.tail {
            if !stage.begins(user, turn) {
                continue;
            }
            self.wait_and_hold(stage, worker).await;
            stage.world.done_with_tokens();
        }
    }

    async fn wait_and_hold(&self, stage: &Arc<Stage>, worker: usize) {
        let (world, random, plan) = (&stage.world, &stage.random, &stage.plan);
        let (clock, who) = (&*self.set.clock, (self.number, worker));
        let ttl = plan.ttl.as_nanos() as u64;
        // Over bytes these two are not judged here yet: the judge of links does not tell apart
        // what leaves a line without saying its token.
        let judged = plan.breaks.is_none();
        // A semaphore of one slot is a lock: what is promised of that is judged of its slot.
        let (place, lock) = match plan.slots {
            Some(_) if judged => (NAMES.len(), stage.semaphore(self, 1)),
            _ => (0, stage.lock(self, 0)),
        };
        let shares = plan.shares && judged && random.aside().chance(50);
        // Some come while another who was called is on the way in.
        let soon = Random::new(random.aside().bits());
        if plan.shares && judged && soon.chance(40) {
            let trips = soon.below(4 * plan.network.calm().base.max(1));
            clock
                .sleep_until(clock.now() + Duration::from_nanos(trips))
                .await;
        }
        let lock = lock.shared(shares).wait(None);
        world.waits(who, place);
        stage.says(|| "waits for the lock as long as it takes, in the calm at the end".into());
        // Some give up: after a while, or in the moment in which they are called.
        let aside = random.aside();
        let outcome = if aside.chance(5) {
            polled(lock.acquire(), aside.between(1, 3)).await
        } else if random.chance(15) {
            let patience = Duration::from_nanos(random.below(ttl / 2));
            or_until(lock.acquire(), clock, clock.now() + patience).await
        } else {
            Some(lock.acquire().await)
        };
        let Some(Ok(lease)) = outcome else {
            stage.says(|| "wants the lock no more".into());
            return world.leaves(who, place);
        };
        let lease = Arc::new(lease);
        world.wins(who, place);
        stage.holds.fetch_add(1, Ordering::Relaxed);
        let index = world.won(self.number, &lease);
        world.done_with_tokens();
        let long = Duration::from_nanos(random.below(ttl / 10));
        clock.sleep_until(clock.now() + long).await;
        if random.chance(20) {
            // Just as the next one is called.
            let trip = random.below(2 * plan.network.calm().base);
            plan.reset_one(random, world, world.time() + trip);
        }
        world.ends(who, place);
        self.let_go(stage, lease, index).await;
    }
}
