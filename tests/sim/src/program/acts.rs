//! The deeds of a program by handles of its own client: each begins at its moment, in a task of
//! its own, and is judged by what its caller is told.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use quorlock::sim::Instant;
use quorlock::{Error, ErrorKind, Lock};

use super::{Before, Crew, Handle, Place};
use crate::contender::{Client, Stage, or_until, polled};
use crate::plan::Swarm;
use crate::random::Random;
use crate::world::{FaultEvent, Ways};

/// What is done to a lease.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    Release,
    Export,
    Extend,
    Ensure,
    Downgrade,
    /// Another client takes the lock away.
    Force,
    /// Another task of the client wants the lock.
    Beside,
    /// Its owner enters it once more.
    Enter,
    /// Some nodes are out of reach for a while.
    Cut,
    /// The client is closed.
    Close,
}

const DEEDS: [Deed; 22] = [
    Deed::Enter,
    Deed::Enter,
    Deed::Cut,
    Deed::Cut,
    Deed::Release,
    Deed::Release,
    Deed::Release,
    Deed::Export,
    Deed::Export,
    Deed::Export,
    Deed::Export,
    Deed::Export,
    Deed::Export,
    Deed::Extend,
    Deed::Extend,
    Deed::Extend,
    Deed::Ensure,
    Deed::Downgrade,
    Deed::Force,
    Deed::Beside,
    Deed::Beside,
    Deed::Beside,
];

/// A deed, and when it begins.
struct Act {
    deed: Deed,
    at: Duration,
    /// It is given up in place of so manieth a poll.
    cut: Option<u64>,
    /// By which handle.
    handle: usize,
    random: Random,
}

/// Runs it to its end, or gives it up after some polls.
pub(super) async fn perhaps<F: Future>(work: F, cut: Option<u64>) -> Option<F::Output> {
    match cut {
        Some(polls) => polled(work, polls).await,
        None => Some(work.await),
    }
}

impl Stage {
    /// What a program does to a lease, and when.
    fn draw_acts(&self, place: Place, random: &Random, handles: usize) -> Vec<Act> {
        let (plan, base) = (&self.plan, self.plan.network.base.max(1));
        let ttl = plan.ttl.as_nanos() as u64;
        // Together, about when something is due: at once, at a renewal, at the end.
        let due = match random.below(6) {
            0 | 1 => random.below(8 * base),
            2 => ttl / 3,
            3 => ttl / 3 * 2,
            4 => ttl,
            _ => random.below(ttl),
        };
        let closes = plan
            .programs
            .is_some_and(|programs| random.chance(programs.closes));
        let most = if place.depth() == 0 { 5 } else { 3 };
        let mut acts = Vec::new();
        for number in 0..random.between(1, most) {
            let off = match random.below(4) {
                0 => 0,
                1 => random.below(2 * base),
                2 => random.below(12 * base),
                _ => random.below(ttl),
            };
            let early = random.chance(30).then(|| random.below(4 * base));
            let at = (due + off)
                .saturating_sub(early.unwrap_or(0))
                .min(ttl * 5 / 4);
            let deed = if closes && number == 0 {
                Deed::Close
            } else {
                *random.pick(&DEEDS)
            };
            acts.push(Act {
                deed,
                at: Duration::from_nanos(at),
                cut: random.chance(20).then(|| random.below(6)),
                handle: random.below(handles as u64) as usize,
                random: Random::new(random.bits()),
            });
        }
        acts
    }
}

impl Handle {
    /// Adds to the trace what came of an extension, or of what was to be left; not where the handle was given back meanwhile.
    fn extended(
        &self,
        stage: &Stage,
        before: Before,
        begun: (u64, Instant),
        (ttl, ensures): (Duration, bool),
        outcome: &Option<Result<(), Error>>,
    ) {
        if let Some(outcome) = outcome
            && (before.ended || !self.has_ended())
        {
            let terms = (ttl, ensures, before.ended);
            stage.extended((self.index, &self.lease), begun.1, terms, outcome);
        }
    }
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Client {
    /// Does what its program says with the handles of a lease, all at once, and gives back then
    /// what is left of them.
    pub(super) fn goes_on(
        &self,
        stage: &Arc<Stage>,
        place: Place,
        handles: Vec<Arc<Handle>>,
        lock: Option<Lock>,
        random: Random,
    ) -> Work {
        let (client, stage) = (self.clone(), stage.clone());
        Box::pin(async move {
            let (crew, mut number) = (Arc::new(Crew::default()), 0);
            for act in stage.draw_acts(place, &random, handles.len()) {
                let place = place.after(number);
                number += 1;
                if !place.is_done(&stage) {
                    continue;
                }
                let handle = handles[act.handle].clone();
                let work = client
                    .clone()
                    .does(stage.clone(), place, handle, lock.clone(), act);
                client.begins(&stage, place, Some(&crew), work);
            }
            let long = stage.plan.ttl.mul_f64(random.share() * 0.3);
            crew.is_done().await;
            if random.chance(50) {
                client.pauses(long).await;
            }
            for handle in handles {
                if handle.has_ended() {
                    continue;
                }
                let cut = random.chance(20).then(|| random.below(3));
                client.gives_back(&stage, &handle, cut).await;
            }
            stage.world.done_with_tokens();
        })
    }

    async fn does(
        self,
        stage: Arc<Stage>,
        place: Place,
        handle: Arc<Handle>,
        lock: Option<Lock>,
        act: Act,
    ) {
        self.pauses(act.at).await;
        let Act {
            deed, cut, random, ..
        } = act;
        match deed {
            Deed::Release => self.gives_back(&stage, &handle, cut).await,
            Deed::Export => self.exports(&stage, place, &handle, cut, random).await,
            Deed::Extend => self.lengthens(&stage, &handle, cut, &random).await,
            Deed::Ensure => self.ensures(&stage, &handle, cut, &random).await,
            Deed::Downgrade => self.lets_others_in(&stage, &handle, cut).await,
            Deed::Force => self.has_it_forced(&stage, place, &handle, cut, &random),
            Deed::Beside => {
                if let Some(lock) = lock {
                    self.wants_beside(&stage, place, lock, &random).await;
                }
            }
            Deed::Enter => {
                if let Some(lock) = lock.filter(|_| !handle.has_ended()) {
                    self.enters_for_a_while(&stage, place, &lock, &handle, &random)
                        .await;
                }
            }
            Deed::Cut => self.is_cut_off(&stage, &random),
            Deed::Close => self.closes(&stage, cut).await,
        }
    }

    /// Gives a handle back, perhaps once more; `cut`: waits for it through so many polls.
    pub(super) async fn gives_back(&self, stage: &Stage, handle: &Handle, cut: Option<u64>) {
        let (world, lease, c) = (&stage.world, &handle.lease, self.number);
        if handle.ends() {
            let again = perhaps(lease.release(), cut).await;
            if let Some(Ok(true)) = again {
                world.traces_told(lease);
                world.violated(format!(
                    "K1 c{c} is told twice that it has released its lease"
                ));
            }
            return;
        }
        let begun = self.now(stage);
        world.give_up(handle.index, lease);
        let mut release = pin!(lease.release());
        // Once polled it is on its way.
        let done = std::future::poll_fn(|cx| Poll::Ready(release.as_mut().poll(cx))).await;
        world.gave_up(handle.index);
        world.done_with_tokens();
        if lease.is_held() || !lease.remaining().is_zero() {
            world.violated(format!("S5 a released handle of c{c} says that it is held"));
        }
        let done = match done {
            Poll::Ready(done) => Some(done),
            Poll::Pending => {
                let done = perhaps(release, cut).await;
                if done.is_some() {
                    self.in_time(stage, begun, handle.node_timeout(), "a release");
                }
                done
            }
        };
        if let Some(Ok(true)) = done {
            world.released(lease);
        }
    }

    async fn lengthens(&self, stage: &Stage, handle: &Handle, cut: Option<u64>, random: &Random) {
        let most = f64::from(stage.plan.longest);
        let ttl = stage
            .plan
            .ttl
            .mul_f64(f64::min(*random.pick(&[0.3, 1.0, 1.0, 2.0]), most));
        // Whole milliseconds, as the front door demands.
        let ttl = Duration::from_millis(ttl.as_millis().max(10) as u64);
        let (before, begun) = (handle.stands(), self.now(stage));
        stage.says(|| format!("extends its lease: for {ttl:?} from now"));
        let outcome = perhaps(handle.lease.extend(ttl), cut).await;
        handle.extended(stage, before, begun, (ttl, false), &outcome);
        self.judge_call(stage, handle, before, begun, &outcome, "an extension");
        if let Some(Ok(())) = outcome
            && !handle.has_ended()
        {
            stage.world.check_extended(handle.index, begun.1, ttl);
        }
    }

    async fn ensures(&self, stage: &Stage, handle: &Handle, cut: Option<u64>, random: &Random) {
        let ttl = stage.plan.habit(self.number).ttl;
        let min = ttl.mul_f64(random.share() * 0.9);
        let (before, begun) = (handle.stands(), self.now(stage));
        stage.says(|| format!("wants {min:?} of its lease ensured"));
        let outcome = perhaps(handle.lease.ensure(min), cut).await;
        handle.extended(stage, before, begun, (min, true), &outcome);
        self.judge_call(stage, handle, before, begun, &outcome, "an ensure");
        let left = self.set.clock.now().until(handle.lease.says_until());
        if let Some(Ok(())) = outcome
            && !handle.has_ended()
            && left < min
        {
            let c = self.number;
            let what = format!("S4 c{c} was ensured {min:?} and has {left:?}");
            stage.world.violated(what);
        }
    }

    async fn lets_others_in(&self, stage: &Stage, handle: &Handle, cut: Option<u64>) {
        let (before, begun) = (handle.stands(), self.now(stage));
        stage.says(|| "shares its lease from here on".into());
        // Those that know no readers refuse it.
        let plain = handle.lease.hold().terms().keys.field.is_none() && !handle.is_raw();
        if !before.ended && handle.lease.slot().is_none() && plain {
            stage.world.downgraded(&handle.lease);
        }
        let outcome = perhaps(handle.lease.downgrade(), cut).await;
        self.judge_call(stage, handle, before, begun, &outcome, "a downgrade");
    }

    /// HL1: a call that has come to nothing has ended no lease, unless that is told.
    pub(super) fn judge_untouched(&self, stage: &Stage, handle: &Handle) {
        let lease = &handle.lease;
        if !handle.has_ended() && !lease.is_held() && lease.loss().is_none() {
            let what = format!("HL1 c{}'s handle is over, and it was not told", self.number);
            stage.world.violated(what);
        }
    }

    /// L3 of a call by a handle. Nodes refuse what reaches them when its lease is over, as it was
    /// when they were asked.
    pub(super) fn judge_error_of(
        &self,
        stage: &Stage,
        before: Before,
        begun: (u64, Instant),
        error: &Error,
    ) {
        if begun.1 + stage.plan.ttl / 8 < before.end {
            self.judge_error(stage, error);
        }
    }

    /// What a call by a handle has come to. Nothing is done by one that was given back before.
    fn judge_call(
        &self,
        stage: &Stage,
        handle: &Handle,
        before: Before,
        begun: (u64, Instant),
        outcome: &Option<Result<(), Error>>,
        what: &str,
    ) {
        let c = self.number;
        match outcome {
            None => return stage.says(|| format!("waits for {what} no more")),
            Some(Ok(())) => {
                stage.says(|| format!("is told: {what} is done"));
                if before.ended {
                    let what = format!("S5 {what} of c{c} is done by a handle that was given back");
                    stage.world.violated(what);
                }
            }
            Some(Err(error)) => {
                stage.says(|| format!("is told of {what}: {error}"));
                self.judge_error_of(stage, before, begun, error);
                let lost = error.kind() == ErrorKind::LockLost;
                if lost && !handle.has_ended() && handle.lease.is_held() && what != "an ensure" {
                    let what = format!("S5 c{c} is told that a lease is lost which it has");
                    stage.world.violated(what);
                }
            }
        }
        self.in_time(stage, begun, handle.node_timeout(), what);
    }

    /// Another task of the client wants the lock, and may be given the lease that ends.
    async fn wants_beside(&self, stage: &Arc<Stage>, place: Place, lock: Lock, random: &Random) {
        let (plan, clock) = (&stage.plan, &*self.set.clock);
        let wait = plan.ttl.mul_f64(random.share());
        let lock = lock.owner(None::<quorlock::Owner>).wait(wait);
        let begun = self.now(stage);
        let left = Duration::from_nanos(plan.troubled.saturating_sub(stage.world.time()));
        stage.says(|| format!("wants the lock beside that, and waits for {wait:?}"));
        let asked = self.try_or_wait(&stage.world, &lock, Some(wait));
        let asked = or_until(asked, clock, begun.1 + left);
        let asked = self.judge_outcome(stage, begun, Some(wait), asked.await);
        let Some(lease) = asked else { return };
        stage
            .world
            .check_asked_for(self.number, &lock, lease.hold());
        stage.holds.fetch_add(1, Ordering::Relaxed);
        let handle = self.has(stage, place, lease, true);
        stage.world.done_with_tokens();
        let long = [0.02, 0.3][usize::from(random.chance(40))];
        self.pauses(plan.ttl.mul_f64(random.share() * long)).await;
        self.gives_back(stage, &handle, None).await;
    }

    /// Enters the lease once more, if it has an owner, and gives that handle back.
    async fn enters_for_a_while(
        &self,
        stage: &Arc<Stage>,
        place: Place,
        lock: &Lock,
        first: &Handle,
        random: &Random,
    ) {
        if !first.lease.is_held() || lock.is_held_by_owner() != Some(true) {
            return;
        }
        let again = self.enters_again(stage, place, lock, first).await;
        if let Some(again) = again {
            let long = stage.plan.network.base * random.below(20);
            self.pauses(Duration::from_nanos(long)).await;
            self.gives_back(stage, &again, None).await;
        }
    }

    /// Some nodes are out of reach, of this client or of all: answers are lost, in any pattern.
    pub(super) fn is_cut_off(&self, stage: &Stage, random: &Random) {
        let plan = &stage.plan;
        let (calm, ttl) = (plan.swarm == Swarm::default(), plan.ttl.as_nanos() as u64);
        let late = stage.world.time() + ttl > plan.troubled;
        if calm || plan.network.even || plan.scene.is_some() || late {
            return;
        }
        let mask = random.between(1, (1 << plan.nodes) - 1);
        let (ways, lossy) = (
            *random.pick(&[Ways::Both, Ways::Requests, Ways::Replies]),
            random.chance(50),
        );
        let long = (ttl as f64 * random.over_decades(1e-3, 1.0)) as u64 + 1;
        let all = random.chance(20);
        for node in (0..plan.nodes).filter(|node| mask >> node & 1 == 1) {
            for client in (0..plan.clients).filter(|client| all || *client == self.number) {
                let cut = FaultEvent::Cut {
                    client,
                    node,
                    long,
                    ways,
                    lossy,
                };
                stage.world.plan(stage.world.time(), cut);
            }
        }
    }

    /// The client is closed, with all its parts.
    async fn closes(&self, stage: &Stage, cut: Option<u64>) {
        stage.counts.closes.fetch_add(1, Ordering::Relaxed);
        stage.says(|| "closes its client".into());
        stage.world.is_closed(self.number);
        let clients = quorlock::binding::lock(&stage.clients).clone();
        let ours = clients.iter().filter(|other| other.number == self.number);
        let begun = self.now(stage);
        // Once polled it is closed.
        let cut = cut.map(|polls| polls + 1);
        let closed = perhaps(
            join_all(ours.flat_map(|client| [client.door.close(), client.beside.close()])),
            cut,
        )
        .await;
        if closed.is_some() {
            self.in_time(stage, begun, stage.plan.node_timeout, "a close");
        }
    }
}
