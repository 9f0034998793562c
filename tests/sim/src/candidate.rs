//! Candidates of an election. EL1: the work of a leader begins while its term is valid, goes
//! no step further once that is over, and is not begun again before it has ended. That two
//! never lead at once is S1, for a term is a lease.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use quorlock::{Election, Error, ErrorKind, Lease};

use crate::contender::{Client, NAMES, Stage, or_until};

/// What the candidate's work has come to.
#[derive(Debug, Default)]
struct Office {
    /// The work of a term is under way.
    busy: AtomicBool,
    /// The term that began last, and its place with the oracle.
    term: Mutex<Option<(usize, Arc<Lease>)>>,
}

/// The work of a term has ended, whoever ended it.
struct Ending<'a>(&'a Office);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Relaxed);
    }
}

impl Client {
    /// Runs for a while, and does the work of a leader whenever it leads.
    pub async fn campaign(&self, stage: &Arc<Stage>) {
        let (world, random, plan) = (&stage.world, &stage.random, &stage.plan);
        let (ttl, clock) = (plan.ttl, &*self.set.clock);
        let name = NAMES[random.below(plan.locks as u64) as usize];
        let election = self.door.election(name).again(random.chance(70));
        stage.says(|| format!("runs for the election {name}"));
        let left = Duration::from_nanos(plan.troubled.saturating_sub(world.time()));
        let patience = ttl.mul_f64(random.share() * 4.0);
        let deadline = clock.now() + patience.min(left);
        let office = Office::default();
        let ended = {
            let work = |term| self.work(stage, &office, term);
            let mut run = pin!(election.run(work));
            let mut resigns = pin!(self.resign_at_times(stage, &election));
            let watched = poll_fn(|cx| {
                let ended = run.as_mut().poll(cx);
                self.look_at_the_end(stage, &office);
                // What it brings about is seen by `run`, when that is polled next.
                let _ = resigns.as_mut().poll(cx);
                ended
            });
            or_until(watched, clock, deadline).await
        };
        self.look_at_the_end(stage, &office);
        match ended {
            None => stage.says(|| "runs no more".into()),
            Some(Ok(())) => stage.says(|| "has done its work".into()),
            Some(Err(error)) => {
                stage.says(|| format!("is told: {error}"));
                if error.kind() == ErrorKind::InvalidArgument {
                    world.violated(format!("L5 a plan asks for what may not be: {error}"));
                }
            }
        }
        if election.is_leader() {
            let c = self.number;
            world.violated(format!("EL1 c{c} leads, and runs no more"));
        }
    }

    async fn work(
        &self,
        stage: &Arc<Stage>,
        office: &Office,
        term: Arc<Lease>,
    ) -> Result<(), &'static str> {
        let (world, random, clock) = (&stage.world, &stage.random, &*self.set.clock);
        let c = self.number;
        if office.busy.swap(true, Ordering::Relaxed) {
            world.violated(format!("EL1 c{c} begins before its last work has ended"));
        }
        let _ending = Ending(office);
        if clock.now() >= term.says_until() {
            world.violated(format!("EL1 c{c} begins in a term that is over"));
        }
        stage.holds.fetch_add(1, Ordering::Relaxed);
        let index = world.won(c, &term);
        world.done_with_tokens();
        *quorlock::binding::lock(&office.term) = Some((index, term.clone()));
        let ttl = stage.plan.ttl.as_nanos() as u64;
        let long = if random.chance(50) { ttl * 2 } else { ttl / 8 };
        let deadline = clock.now() + Duration::from_nanos(random.below(long));
        while clock.now() < deadline {
            let step = clock.now() + Duration::from_nanos(1 + random.below(ttl / 4));
            clock.sleep_until(step.min(deadline)).await;
            if clock.now() >= term.says_until() {
                world.violated(format!("EL1 c{c} goes on with a term that is over"));
            }
            world.check_holds();
        }
        if random.chance(70) {
            Ok(())
        } else {
            Err("it was not to be")
        }
    }

    /// Whoever has done its work holds nothing any more.
    fn look_at_the_end(&self, stage: &Stage, office: &Office) {
        if office.busy.load(Ordering::Relaxed) {
            return;
        }
        let Some((index, term)) = quorlock::binding::lock(&office.term).take() else {
            return;
        };
        stage.world.give_up(index, &term);
        stage.world.gave_up(index);
    }

    /// Now and then somebody wants the term to be given up.
    async fn resign_at_times(&self, stage: &Stage, election: &Election) -> Result<(), Error> {
        let (random, clock) = (&stage.random, &*self.set.clock);
        while random.chance(30) {
            let pause = stage.plan.ttl.mul_f64(random.share() * 2.0);
            clock.sleep_until(clock.now() + pause).await;
            let held = election.resign().await?;
            stage.says(|| format!("has resigned: {held}"));
        }
        poll_fn(|_| Poll::Pending).await
    }
}
