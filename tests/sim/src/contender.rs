//! One user of the lock: takes it, holds it for a while, gives it up; and
//! judges what it is told, and when.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use quorlock::ErrorKind;
use quorlock::sim::names::{Naming, companions};
use quorlock::sim::{
    Acquired, Clock, Extended, Hold, Instant, Keys, Lines, Passed, Set, Terms, Timing, Wait, Waits,
    Watchdog, acquire,
};

use crate::plan::{DRIFT, Plan};
use crate::random::Random;
use crate::scene::Cue;
use crate::world::World;

/// A call may take this much longer than its bound (L5).
const SLACK: Duration = Duration::from_millis(2);
/// The keys of the locks.
pub const KEYS: [&[u8]; 2] = [b"lock:{k}", b"lock:{l}"];

/// What all requests for the lock with that key have in common.
pub fn keys_of(lock: &[u8], waits: Waits, fence_ttl: Option<Duration>) -> Arc<Keys> {
    Arc::new(Keys {
        lock: lock.into(),
        companions: companions("lock:", lock, Naming::Tagged),
        waits,
        fence_ttl,
    })
}

/// What the contenders of a schedule share.
#[derive(Debug)]
pub struct Stage {
    /// Where they are.
    pub world: Arc<World>,
    /// What they draw from.
    pub random: Random,
    /// What is planned.
    pub plan: Plan,
    /// Leases won.
    pub holds: AtomicU64,
    /// Contenders of each client that are done.
    pub done: Vec<AtomicU64>,
    /// Their clients.
    pub sets: Mutex<Vec<Arc<Set>>>,
    /// Nothing goes wrong any more.
    pub calm: AtomicBool,
}

/// What one client has.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its number.
    pub number: usize,
    /// Its nodes.
    pub set: Arc<Set>,
    /// Its watchdog, which runs.
    pub watchdog: Arc<Watchdog>,
    /// Its lines.
    pub lines: Arc<Lines>,
}

impl Stage {
    /// A client contends.
    pub fn enter(&self, client: &Client) {
        self.sets
            .lock()
            .expect("one thread")
            .push(client.set.clone());
    }

    /// It is late: whoever still waits is to look up.
    pub fn call_off(&self) {
        self.calm.store(true, Ordering::Relaxed);
        for set in &*self.sets.lock().expect("one thread") {
            set.post.look_again(None);
        }
    }

    /// What is asked for with a lock of the plan.
    pub fn terms(&self, lock: usize, gone: Option<Arc<AtomicBool>>) -> Terms {
        let plan = &self.plan;
        let share = || *self.random.aside().pick(&[1.0, 1.5]);
        let cap = self.random.chance(20).then(|| plan.ttl.mul_f64(share()));
        Terms {
            keys: keys_of(KEYS[lock], plan.waits, plan.fence_ttl),
            label: "".into(),
            timing: Timing::of(plan.ttl, DRIFT, 0.1, plan.node_timeout),
            drift: DRIFT,
            renew: plan.renew,
            max_hold: cap,
            fair: false,
            gone,
        }
    }
}

impl Client {
    /// How its acquires wait.
    pub fn wait(&self, long: Option<Duration>) -> Wait<'_> {
        Wait {
            long,
            lines: &self.lines,
            most: usize::MAX,
        }
    }

    /// L5: what began at `begun` has taken no longer than `most`; judged
    /// where nothing held the client up.
    fn in_time(&self, stage: &Stage, begun: (u64, Instant), most: Duration, what: &str) {
        let now = self.set.clock.now();
        if now > begun.1 + most + SLACK && stage.world.awake_since(self.number, begun.0) {
            let c = self.number;
            let took = begun.1.until(now);
            stage
                .world
                .violated(format!("L5 c{c}: {what} took {took:?} of {most:?}"));
        }
    }

    fn now(&self, stage: &Stage) -> (u64, Instant) {
        (stage.world.time(), self.set.clock.now())
    }

    /// Contends for the locks of the plan, as one of the client's workers.
    pub async fn contend(self, stage: Arc<Stage>, worker: usize) {
        let plan = &stage.plan;
        for round in 0..plan.rounds {
            if stage.world.time() > plan.troubled {
                break;
            }
            let actor = self.number * plan.workers + worker;
            let cue = plan.scene.map(|scene| scene.cue(actor, round));
            self.once(&stage, cue).await;
            stage.world.done_with_tokens(None);
        }
        if plan.tail > 0 {
            self.tail(&stage, worker).await;
        }
        stage.done[self.number].fetch_add(1, Ordering::Relaxed);
    }

    /// L2: the lock is to be had, and within `most`.
    pub async fn probe(self, stage: Arc<Stage>, most: Duration) {
        for lock in 0..stage.plan.locks {
            let terms = stage.terms(lock, None);
            let attempt = acquire(
                &self.set,
                &terms,
                b"k",
                self.wait(Some(most)),
                || None::<()>,
            );
            match attempt.await {
                Ok(Acquired::Hold(hold)) => hold.release().1.acknowledged().await,
                outcome => {
                    let why = outcome.err().map(|e| e.to_string()).unwrap_or_default();
                    stage
                        .world
                        .violated(format!("L2 the lock is not to be had: {why}"));
                    return;
                }
            };
        }
        stage.done[self.number].fetch_add(1, Ordering::Relaxed);
    }

    async fn once(&self, stage: &Arc<Stage>, cue: Option<Cue>) {
        let (world, random, plan) = (&stage.world, &stage.random, &stage.plan);
        let (ttl, clock) = (plan.ttl, &self.set.clock);
        // Comes on its cue, or when something is due to a rival.
        let aim = || random.chance(60).then(|| world.aim()).flatten();
        if let Some(at) = cue.map(|cue| cue.at).or_else(aim) {
            let wait = Duration::from_nanos(at.saturating_sub(world.time()));
            clock.sleep_until(clock.now() + wait).await;
        }
        let gone = (plan.swarm.gone && random.chance(30)).then(Arc::<AtomicBool>::default);
        let lock = random.below(plan.locks as u64) as usize;
        let terms = stage.terms(lock, gone.clone());
        // Long ttls are passed in few polls.
        let patient = ttl < Duration::from_millis(500) || random.chance(5);
        let wait = match random.below(4) {
            _ if cue.is_some() => cue.map(|cue| cue.wait),
            0 if patient => None,
            1 if patient => Some(ttl.mul_f64(1.5)),
            2 => Some(ttl.mul_f64(random.share() * 0.3)),
            _ => Some(Duration::ZERO),
        };
        let aside = random.aside();
        if aside.chance(3) {
            plan.interrupted(&aside, world, self.number);
        }
        let begun = self.now(stage);
        let over = || (world.time() > plan.troubled).then_some(());
        let attempt = acquire(&self.set, &terms, b"k", self.wait(wait), over);
        // Some callers change their mind.
        let outcome = if random.chance(20) {
            let patience = (ttl.as_nanos() as f64).powf(random.share()) as u64;
            let deadline = clock.now() + Duration::from_nanos(patience);
            or_until(attempt, &**clock, deadline).await
        } else {
            Some(attempt.await)
        };
        if let Some(wait) = wait {
            // One request to each node, and one more: to write a fence back, or
            // to a node whose clock has stepped.
            // With a wait: it, and the answers that are under way at its end.
            let most = if wait.is_zero() {
                2 * terms.timing.node_timeout
            } else {
                wait + terms.timing.node_timeout
            };
            self.in_time(stage, begun, most, "an acquire");
        }
        if let Some(Err(error)) = &outcome
            && error.kind() == ErrorKind::QuorumUnavailable
            && plan.is_healthy()
        {
            let c = self.number;
            world.violated(format!("L3 c{c}: {error}, though all nodes answer"));
        }
        let (hold, given) = match outcome {
            Some(Ok(Acquired::Hold(hold))) => (hold, None),
            Some(Ok(Acquired::Given(hold, watched))) => (hold, Some(watched)),
            _ => return,
        };
        let lease = hold.lease();
        stage.holds.fetch_add(1, Ordering::Relaxed);
        let index = world.won(self.number, &hold);
        world.done_with_tokens(Some(hold.token()));
        let watched = given.unwrap_or_else(|| self.watchdog.watch(hold.clone()));
        if random.chance(15) {
            plan.aimed(random, world, self.number, world.end_of(index));
        }
        if !self.hold_for_a_while(stage, &hold, lease, index, cue).await
            && let Some(gone) = &gone
        {
            self.vanish(stage, &hold, lease, gone).await;
        }
        world.give_up(index);
        let release = match self.lines.pass(&hold, watched) {
            Passed::On => {
                world.passed_on(index);
                None
            }
            Passed::Not(_watched) => Some(hold.release().1),
        };
        world.gave_up(index);
        world.done_with_tokens(None);
        if let Some(release) = release.filter(|_| random.chance(50)) {
            let begun = self.now(stage);
            release.acknowledged().await;
            let most = terms.timing.node_timeout;
            self.in_time(stage, begun, most, "a release");
        }
        if random.chance(40) {
            let pause = Duration::from_nanos(random.below(ttl.as_nanos() as u64 / 4));
            clock.sleep_until(clock.now() + pause).await;
        }
    }

    /// Holds the lease for a random time or until it is lost, and checks that
    /// it is told of the loss in time. True if it was lost.
    async fn hold_for_a_while(
        &self,
        stage: &Stage,
        hold: &Arc<Hold>,
        lease: u32,
        index: usize,
        cue: Option<Cue>,
    ) -> bool {
        let (random, world, clock) = (&stage.random, &stage.world, &*self.set.clock);
        let ttl = stage.plan.ttl.as_nanos() as u64;
        let long = if random.chance(50) { ttl * 2 } else { ttl / 8 };
        let long = Duration::from_nanos(random.below(long));
        let won = clock.now();
        let deadline = won + cue.map_or(long, |cue| cue.hold);
        if let Some(after) = cue.and_then(|cue| cue.extends) {
            or_until(hold.lost(lease), clock, won + after).await;
            self.extend(stage, hold, index).await;
        }
        loop {
            // Looks at moments of its own; else it waits to be told.
            let step = clock.now() + Duration::from_nanos(1 + random.below(ttl / 2));
            let mut since = world.time();
            let told = or_until(hold.lost(lease), clock, step.min(deadline)).await;
            // Without a look whether it is still held.
            if told.is_none() && random.chance(15) {
                self.extend(stage, hold, index).await;
                since = world.time();
            }
            world.check_holds();
            world.check_told(index, hold.is_held(), since, told);
            if told.is_some() {
                if random.chance(20) && !matches!(hold.extend(stage.plan.ttl).await, Extended::Lost)
                {
                    world.violated(format!("S5 c{}: a lost lease was extended", self.number));
                }
                return true;
            }
            if clock.now() >= deadline {
                return false;
            }
        }
    }

    async fn extend(&self, stage: &Stage, hold: &Arc<Hold>, index: usize) {
        let share = *stage.random.pick(&[0.3, 1.0, 1.0, 2.0]);
        let share = f64::min(share, f64::from(stage.plan.longest));
        let ttl = stage.plan.ttl.mul_f64(share);
        // Whole milliseconds, as the front door demands.
        let ttl = Duration::from_millis(ttl.as_millis().max(10) as u64);
        let begun = self.now(stage);
        let outcome = hold.extend(ttl).await;
        let most = hold.terms().timing.node_timeout;
        self.in_time(stage, begun, most, "an extension");
        if let Extended::Done = outcome {
            stage.world.check_extended(index, begun.1, ttl);
        }
    }

    /// L2: an owner that ends without a word costs at most the ttl.
    async fn vanish(&self, stage: &Stage, hold: &Arc<Hold>, lease: u32, gone: &AtomicBool) {
        let clock = &*self.set.clock;
        gone.store(true, Ordering::Relaxed);
        let begun = self.now(stage);
        // A lease may have been extended to twice the ttl.
        let most = stage.plan.ttl * 2;
        or_until(hold.lost(lease), clock, begun.1 + most + SLACK).await;
        if hold.is_held() {
            let c = self.number;
            let what = format!("L2 c{c}'s lease outlives its owner");
            stage.world.violated(what);
        }
    }
}

/// Runs `future` until `deadline`; drops it then. A future that is not woken is
/// not looked at before the deadline.
pub async fn or_until<F: Future>(
    future: F,
    clock: &dyn Clock,
    deadline: Instant,
) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut timer = clock.sleep_until(deadline);
    poll_fn(move |cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        let timer: Pin<&mut _> = timer.as_mut();
        timer.poll(cx).map(|()| None)
    })
    .await
}
