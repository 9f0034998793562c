//! Users who want several locks at once: all of them, or none (ML1), held while each is
//! (ML3). In the calm at the end each wants some once more, in an order of its own, and
//! waits for as long as it takes: so a ring of those who wait for each other never ends
//! (ML2, which is L5 here: a call never returns).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use quorlock::{Error, ErrorKind, Leases, Locks};

use crate::contender::{Client, NAMES, Stage, or_until};
use crate::random::Random;

impl Client {
    /// Wants two or three of the locks, and holds them for a while. `calm`: nothing goes
    /// wrong any more, and it waits until it has them.
    pub async fn several(&self, stage: &Arc<Stage>, calm: bool) {
        let (world, random, plan) = (&stage.world, &stage.random, &stage.plan);
        let (ttl, clock) = (plan.ttl, &*self.set.clock);
        let patient = ttl < Duration::from_millis(500) || random.chance(5);
        let wait = match random.below(4) {
            _ if calm => None,
            0 if patient => None,
            1 if patient => Some(ttl.mul_f64(1.5)),
            2 => Some(ttl.mul_f64(random.share() * 0.3)),
            _ => Some(Duration::ZERO),
        };
        let names = some(random);
        let keep = if random.chance(40) {
            plan.keep
        } else {
            Duration::ZERO
        };
        let locks = self.door.lock_all(&names).wait(wait).keep(keep);
        stage.says(|| match wait {
            None => format!("wants {names:?} at once, and waits as long as it takes"),
            Some(wait) => format!("wants {names:?} at once, and waits for {wait:?}"),
        });
        let begun = self.now(stage);
        let left = Duration::from_nanos(plan.troubled.saturating_sub(world.time()));
        let patience = if random.chance(20) {
            Duration::from_nanos((ttl.as_nanos() as f64).powf(random.share()) as u64)
        } else {
            Duration::MAX
        };
        let outcome = if calm {
            Some(locks.acquire().await.map(Some))
        } else {
            let deadline = begun.1 + patience.min(left);
            or_until(try_or_wait(&locks, wait), clock, deadline).await
        };
        if let Some(wait) = wait {
            // Tries that began in time, what is to be lengthened behind them, and the
            // answers that are under way at the end of a wait.
            let more = if wait.is_zero() { 2 } else { 4 };
            let most = wait + more * self.node_timeout(stage);
            self.in_time(stage, begun, most, "an acquire of several");
        }
        if let Some(Err(error)) = &outcome
            && error.kind() == ErrorKind::QuorumUnavailable
            && plan.is_healthy()
        {
            let c = self.number;
            world.violated(format!("L3 c{c}: {error}, though all nodes answer"));
        }
        match &outcome {
            None => stage.says(|| "changes its mind, and wants them no more".into()),
            Some(Ok(None)) => stage.says(|| "is told: held by another".into()),
            Some(Err(error)) => stage.says(|| format!("is told: {error}")),
            Some(Ok(Some(_))) => stage.says(|| "has them all".into()),
        }
        let leases = match outcome {
            Some(Ok(Some(leases))) => leases,
            Some(Err(error)) if error.kind() == ErrorKind::InvalidArgument => {
                return world.violated(format!("L5 a plan asks for what may not be: {error}"));
            }
            _ => return,
        };
        stage.holds.fetch_add(1, Ordering::Relaxed);
        let won = |lease| world.won_with_others(self.number, lease);
        let indices: Vec<usize> = leases.parts().iter().map(won).collect();
        world.done_with_tokens();
        let have = |name: &&str| leases.get(name).is_some();
        if leases.iter().len() != names.len() || !names.iter().all(have) || !leases.is_held() {
            let c = self.number;
            world.violated(format!("ML1 c{c} is given some of {names:?}: {leases:?}"));
        }
        self.hold_several(stage, &leases, calm).await;
        self.release_several(stage, leases, &indices).await;
    }

    async fn hold_several(&self, stage: &Stage, leases: &Leases, calm: bool) {
        let (random, world, clock) = (&stage.random, &stage.world, &*self.set.clock);
        let ttl = stage.plan.ttl.as_nanos() as u64;
        let long = if calm || random.chance(50) {
            ttl / 8
        } else {
            ttl * 2
        };
        let deadline = clock.now() + Duration::from_nanos(random.below(long));
        loop {
            let step = clock.now() + Duration::from_nanos(1 + random.below(ttl / 2));
            let lost = or_until(leases.lost(), clock, step.min(deadline)).await;
            let lost = lost.map(|(name, reason)| (name.to_vec(), reason));
            if lost.is_none() && random.chance(15) {
                let _ = leases.extend(stage.plan.ttl).await;
            }
            world.check_holds();
            let parts = leases.parts();
            let all = parts.iter().all(|lease| clock.now() < lease.says_until());
            if leases.is_held() != all || lost.is_some() && (all || leases.loss().is_none()) {
                let c = self.number;
                let what = format!("ML3 c{c} is told {lost:?} of its leases, which say {all}");
                return world.violated(what);
            }
            if lost.is_some() || clock.now() >= deadline {
                return;
            }
        }
    }

    async fn release_several(&self, stage: &Stage, leases: Leases, indices: &[usize]) {
        let (world, random) = (&stage.world, &stage.random);
        let parts = leases.parts().iter();
        let gave_up = || indices.iter().for_each(|index| world.gave_up(*index));
        parts
            .zip(indices)
            .for_each(|(lease, index)| world.give_up(*index, lease));
        if random.chance(25) {
            drop(leases);
            gave_up();
            return world.done_with_tokens();
        }
        let begun = self.now(stage);
        let mut release = pin!(leases.release());
        // Once polled they are on their way.
        let done = poll_fn(|cx| Poll::Ready(release.as_mut().poll(cx))).await;
        gave_up();
        world.done_with_tokens();
        if leases.is_held() || !leases.remaining().is_zero() {
            let c = self.number;
            world.violated(format!(
                "S5 released handles of c{c} say that they are held"
            ));
        }
        if done.is_pending() && random.chance(50) {
            let _ = release.await;
            self.in_time(
                stage,
                begun,
                self.node_timeout(stage),
                "a release of several",
            );
        }
    }
}

/// Two or three of the locks, in any order.
fn some(random: &Random) -> Vec<&'static str> {
    let mut names = NAMES.to_vec();
    for place in (1..names.len()).rev() {
        names.swap(place, random.below(place as u64 + 1) as usize);
    }
    names.truncate(random.between(2, 3) as usize);
    names
}

async fn try_or_wait(locks: &Locks, wait: Option<Duration>) -> Result<Option<Leases>, Error> {
    match wait {
        Some(Duration::ZERO) => locks.try_acquire().await,
        _ => locks.acquire().await.map(Some),
    }
}
