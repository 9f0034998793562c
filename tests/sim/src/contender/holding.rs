//! What a user does with a lease while it holds it, and how it lets go.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use quorlock::{ErrorKind, Lease, Lock};

use super::{Client, SLACK, Stage, is_loss, or_until, told};
use crate::scene::Cue;

impl Client {
    /// Gives a handle back, in one of the ways there are. What it says of itself
    /// is looked at as long as it is there.
    pub async fn let_go(&self, stage: &Stage, lease: Arc<Lease>, index: usize) {
        let (world, random) = (&stage.world, &stage.random);
        world.give_up(index, &lease);
        if random.aside().chance(25) {
            drop(lease);
            world.gave_up(index);
            return world.done_with_tokens();
        }
        let begun = self.now(stage);
        let mut release = pin!(lease.release());
        // Once polled it is on its way.
        let done = poll_fn(|cx| Poll::Ready(release.as_mut().poll(cx))).await;
        world.gave_up(index);
        world.done_with_tokens();
        if lease.is_held() || !lease.remaining().is_zero() {
            let c = self.number;
            world.violated(format!("S5 a released handle of c{c} says that it is held"));
        }
        let done = match done {
            Poll::Pending if random.chance(50) => {
                world.traces_awaited(index, false);
                let done = release.await;
                world.traces_awaited(index, true);
                self.in_time(stage, begun, self.node_timeout(stage), "a release");
                Poll::Ready(done)
            }
            done => done,
        };
        if matches!(done, Poll::Ready(Ok(true))) {
            world.released(&lease);
        }
    }

    /// Exports the lease, which two then try to go on with, if its ttl has not ended by then.
    /// One that may not be exported is given back.
    pub(super) async fn hand_on(&self, stage: &Stage, lease: Arc<Lease>, index: usize) {
        let (world, random, clock) = (&stage.world, stage.random.aside(), &*self.set.clock);
        let Ok(text) = lease.export().await else {
            return self.let_go(stage, lease, index).await;
        };
        world.exported(index, &lease);
        world.done_with_tokens();
        if lease.is_held() {
            world.violated(format!("S5 c{} holds what it exported", self.number));
        }
        stage.says(|| "exports the lease".into());
        let most = stage.plan.ttl.as_nanos() as u64 * 5 / 4;
        let pause = Duration::from_nanos(random.below(most));
        clock.sleep_until(clock.now() + pause).await;
        let adopted = async || {
            let lease = Arc::new(self.door.adopt(&text).await.ok()?);
            Some((world.won_with_others(self.number, &lease), lease))
        };
        let (first, second) = futures_util::future::join(adopted(), adopted()).await;
        world.done_with_tokens();
        let leases: Vec<_> = [first, second].into_iter().flatten().collect();
        let both = leases.len() > 1 && leases.iter().all(|(_, lease)| lease.is_held());
        if both && !world.has_excused() {
            world.violated("S1 two have adopted one lease".into());
        }
        for (index, lease) in leases {
            stage.says(|| "goes on with the lease".into());
            self.hold_for_a_while(stage, None, &lease, index, None)
                .await;
            self.let_go(stage, lease, index).await;
        }
    }

    /// Holds the lease for a random time or until it is lost, and checks that
    /// it is told of the loss in time. True if it was lost.
    pub(super) async fn hold_for_a_while(
        &self,
        stage: &Stage,
        reenters: Option<&Lock>,
        lease: &Arc<Lease>,
        index: usize,
        cue: Option<Cue>,
    ) -> bool {
        let (random, world, clock) = (&stage.random, &stage.world, &*self.set.clock);
        let ttl = stage.plan.ttl.as_nanos() as u64;
        if stage.plan.shares && random.aside().chance(30) {
            self.downgrade(stage, lease).await;
        }
        let long = if random.chance(50) { ttl * 2 } else { ttl / 8 };
        let long = Duration::from_nanos(random.below(long));
        let won = clock.now();
        let deadline = won + cue.map_or(long, |cue| cue.hold);
        if let Some(after) = cue.and_then(|cue| cue.extends) {
            or_until(lease.lost(), clock, won + after).await;
            self.extend(stage, lease, index).await;
        }
        loop {
            // Looks at moments of its own; else it waits to be told.
            let step = clock.now() + Duration::from_nanos(1 + random.below(ttl / 2));
            let mut since = world.time();
            let told = or_until(lease.lost(), clock, step.min(deadline)).await;
            // Without a look whether it is still held.
            if told.is_none() && random.chance(15) {
                match random.aside().below(3) {
                    0 => self.ensure(stage, lease, index).await,
                    _ => self.extend(stage, lease, index).await,
                }
                since = world.time();
            }
            world.check_holds();
            world.check_told(index, lease.is_held(), since, told);
            if told.is_some() {
                let refused = |outcome| is_loss(&outcome) || self.door.is_closed();
                if random.chance(20) && !refused(lease.extend(stage.plan.ttl).await) {
                    world.violated(format!("S5 c{}: a lost lease was extended", self.number));
                }
                if let Some(lock) = reenters {
                    self.reenter(stage, lock, lease).await;
                }
                return true;
            }
            if let Some(lock) = reenters.filter(|_| random.aside().chance(60)) {
                self.reenter(stage, lock, lease).await;
            }
            if clock.now() >= deadline {
                return false;
            }
        }
    }

    /// Takes the lock that is held once more, where its owner may: at once, by
    /// another handle on the lease; never on one that is lost.
    async fn reenter(&self, stage: &Stage, lock: &Lock, lease: &Arc<Lease>) {
        let (random, world, clock) = (&stage.random, &stage.world, &*self.set.clock);
        // Alone within what it shares: refused at once.
        if lease.is_shared() && random.aside().chance(50) {
            let alone = lock.clone().shared(false);
            let outcome = or_until(alone.acquire(), clock, clock.now()).await;
            let refused =
                matches!(&outcome, Some(Err(error)) if error.kind() == ErrorKind::WouldDeadlock);
            world.traces_upgrade(lease, refused);
            if !refused && clock.now() < lease.says_until() {
                let c = self.number;
                world.violated(format!(
                    "RW2 c{c} is not refused what would wait for itself"
                ));
            }
            return;
        }
        let lock = if lease.is_shared() {
            lock.clone().keep(Duration::ZERO).shared(true)
        } else {
            lock.clone()
        };
        let Some(Ok(again)) = or_until(lock.acquire(), clock, clock.now()).await else {
            if clock.now() < lease.says_until() {
                let c = self.number;
                world.violated(format!("L2 c{c} does not re-enter what it holds"));
            }
            return;
        };
        let again = Arc::new(again);
        let index = world.won(self.number, &again);
        if Arc::ptr_eq(again.hold(), lease.hold()) && again.fence() != lease.fence() {
            let c = self.number;
            world.violated(format!("S2 c{c} re-entered with another fence"));
        }
        if random.chance(50) {
            let step = Duration::from_nanos(random.below(stage.plan.ttl.as_nanos() as u64 / 4));
            clock.sleep_until(clock.now() + step).await;
        }
        self.let_go(stage, again, index).await;
    }

    /// Shares the lease from here on.
    async fn downgrade(&self, stage: &Stage, lease: &Lease) {
        let begun = self.now(stage);
        stage.says(|| "shares its lease from here on".into());
        stage.world.downgraded(lease);
        let outcome = lease.downgrade().await;
        stage.says(|| told("shared", &outcome));
        self.in_time(stage, begun, self.node_timeout(stage), "a downgrade");
    }

    async fn extend(&self, stage: &Stage, lease: &Lease, index: usize) {
        let share = *stage.random.pick(&[0.3, 1.0, 1.0, 2.0]);
        let share = f64::min(share, f64::from(stage.plan.longest));
        let ttl = stage.plan.ttl.mul_f64(share);
        // Whole milliseconds, as the front door demands.
        let ttl = Duration::from_millis(ttl.as_millis().max(10) as u64);
        let begun = self.now(stage);
        stage.says(|| format!("extends its lease: for {ttl:?} from now"));
        let outcome = lease.extend(ttl).await;
        stage.extended((index, lease), begun.1, (ttl, false, false), &outcome);
        stage.says(|| told("extended", &outcome));
        self.in_time(stage, begun, self.node_timeout(stage), "an extension");
        if outcome.is_ok() {
            stage.world.check_extended(index, begun.1, ttl);
        }
    }

    /// S4: what is ensured is there.
    async fn ensure(&self, stage: &Stage, lease: &Lease, index: usize) {
        let ttl = stage.plan.habit(self.number).ttl;
        let min = ttl.mul_f64(stage.random.aside().share());
        let begun = self.now(stage);
        stage.says(|| format!("wants {min:?} of its lease ensured"));
        let outcome = lease.ensure(min).await;
        stage.extended((index, lease), begun.1, (min, true, false), &outcome);
        stage.says(|| told("ensured", &outcome));
        self.in_time(stage, begun, self.node_timeout(stage), "an ensure");
        let left = self.set.clock.now().until(lease.says_until());
        if outcome.is_ok() && left < min {
            let c = self.number;
            let what = format!("S4 c{c} was ensured {min:?} and has {left:?}");
            stage.world.violated(what);
        }
    }

    /// L2: an owner that ends without a word costs at most the ttl.
    pub(super) async fn vanish(&self, stage: &Stage, lease: &Lease, gone: &AtomicBool) {
        let clock = &*self.set.clock;
        gone.store(true, Ordering::Relaxed);
        let begun = self.now(stage);
        // A lease may have been extended to twice the ttl.
        let most = stage.plan.ttl * 2;
        or_until(lease.lost(), clock, begun.1 + most + SLACK).await;
        if lease.is_held() {
            let c = self.number;
            let what = format!("L2 c{c}'s lease outlives its owner");
            stage.world.violated(what);
        }
    }
}
