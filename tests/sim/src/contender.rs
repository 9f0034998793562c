//! One user of the lock: takes it, holds it for a while, gives it up; and
//! judges what it is told, and when. All of it by the front door.

mod holding;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use quorlock::sim::names::{Naming, aux, semaphore};
use quorlock::sim::{AuxKeys, Clock, Instant, Keys, Mode, Set, Waits};
use quorlock::{Error, ErrorKind, Lease, Lock, Owner};

use crate::history::Happened;
use crate::neighbour::{How, NEIGHBOURS, known};
use crate::plan::Plan;
use crate::program::Counts;
use crate::random::Random;
use crate::scene::Cue;
use crate::without::Part;
use crate::world::World;

/// A call may take this much longer than its bound (L5).
pub const SLACK: Duration = Duration::from_millis(2);
/// The locks.
pub const NAMES: [&str; 3] = ["k", "l", "m"];
/// How many slots a semaphore has at most.
pub const SLOTS: usize = 3;
/// The keys of the locks, and of the slots of a semaphore of the first's name.
pub const KEYS: [&[u8]; NAMES.len() + SLOTS] = [
    b"lock:{k}",
    b"lock:{l}",
    b"lock:{m}",
    b"lock:#p0:{k}",
    b"lock:#p1:{k}",
    b"lock:#p2:{k}",
];

/// The key that stands for all slots of the semaphore.
pub const SEMAPHORE: &[u8] = b"lock:#p:{k}";

/// What all requests for the lock with that key have in common.
pub fn keys_of(lock: &[u8], waits: Waits, fence_ttl: Option<Duration>) -> Arc<Keys> {
    let slot = KEYS[NAMES.len()..].iter().position(|key| *key == lock);
    let (key, aux) = match slot {
        Some(_) => semaphore("lock:", KEYS[0]),
        None => (lock.to_vec(), aux("lock:", lock, Naming::Tagged)),
    };
    let keys = Keys {
        lock: key.into(),
        aux,
        waits,
        fence_ttl,
        mode: Mode::Exclusive,
        adopts: None,
        field: None,
    };
    Arc::new(match slot {
        Some(slot) => keys.of_slot(slot as u32),
        None => keys,
    })
}

/// The keys that go with a lock's own.
pub fn companions_of(lock: &[u8]) -> AuxKeys {
    let none = Waits {
        reservation: Duration::ZERO,
        place: Duration::ZERO,
        most: 0,
    };
    keys_of(lock, none, None).aux.clone()
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
    /// Tasks of each client beside those, which are not.
    pub busy: Vec<AtomicU64>,
    /// What was done in programs.
    pub counts: Counts,
    /// Who runs, in all their parts: a client lives as long as its schedule.
    pub clients: Mutex<Vec<Client>>,
    /// Nothing goes wrong any more.
    pub calm: AtomicBool,
}

/// A worker of a client.
#[derive(Clone, Debug)]
pub struct Client {
    /// The client's number.
    pub number: usize,
    /// Its nodes.
    pub set: Arc<Set>,
    /// What its user has, and shares with other workers where these wait in one
    /// line.
    pub door: quorlock::Client,
    /// The same of the other namespace; that again, where nobody goes there.
    pub beside: quorlock::Client,
}

impl Client {
    /// The client as it is in the other namespace.
    pub fn beside(&self) -> Client {
        Client {
            door: self.beside.clone(),
            beside: self.door.clone(),
            ..self.clone()
        }
    }
}

impl Stage {
    /// A user begins a round, unless that is taken away.
    pub fn begins(&self, user: usize, round: u64) -> bool {
        let script = self.random.script();
        script.is_none_or(|script| script.begins(user, round))
    }

    /// A user does something in its program, unless that is taken away.
    pub fn does(&self, (user, round): (usize, u64), number: u64) -> bool {
        let script = self.random.script();
        script.is_none_or(|script| script.does(Part::Deed(user, round, number)))
    }

    /// Adds to the history what the user does who acts.
    pub fn says(&self, what: impl FnOnce() -> String) {
        self.world.note(|| Happened::User(what()));
    }

    /// Adds to the trace what a user was told of an extension that it asked for, or of so much that is to be left, or so
    /// by a handle that was given back before.
    pub fn extended(
        &self,
        (index, lease): (usize, &Lease),
        asked: Instant,
        terms: (Duration, bool, bool),
        outcome: &Result<(), Error>,
    ) {
        let outcome = match outcome {
            Ok(()) => Ok(()),
            Err(error) => Err(error.kind()),
        };
        self.world
            .traces_extended((index, lease), asked, terms, outcome);
    }

    /// A lock of the plan, as this schedule's users ask for it.
    pub fn lock(&self, client: &Client, place: usize) -> Lock {
        let plan = &self.plan;
        let share = || *self.random.aside().pick(&[1.0, 1.5]);
        let cap = self
            .random
            .chance(plan.capped)
            .then(|| plan.ttl.mul_f64(share()));
        client.door.lock(NAMES[place]).max_hold(cap)
    }

    /// The semaphore of the plan.
    pub fn semaphore(&self, client: &Client, slots: u32) -> Lock {
        client.door.semaphore(NAMES[0], slots)
    }
}

impl Client {
    /// L5: what began at `begun` has taken no longer than `most`; judged
    /// where nothing held the client up.
    pub fn in_time(&self, stage: &Stage, begun: (u64, Instant), most: Duration, what: &str) {
        let now = self.set.clock.now();
        if now > begun.1 + most + SLACK && stage.world.awake_since(self.number, begun.0) {
            let c = self.number;
            let took = begun.1.until(now);
            stage
                .world
                .violated(format!("L5 c{c}: {what} took {took:?} of {most:?}"));
        }
    }

    /// True time, and the client's own.
    pub fn now(&self, stage: &Stage) -> (u64, Instant) {
        (stage.world.time(), self.set.clock.now())
    }

    /// Contends for the locks of the plan, as one of the client's workers.
    pub async fn contend(self, stage: Arc<Stage>, worker: usize) {
        let plan = &stage.plan;
        for round in 0..plan.rounds {
            if stage.world.time() > plan.troubled {
                break;
            }
            let actor = stage.plan.users(self.number).start + worker;
            if !stage.begins(actor, round) {
                continue;
            }
            let cue = plan.scene.map(|scene| scene.cue(actor, round));
            let special = || stage.random.aside().chance(60);
            let program = || plan.programs.is_some() && stage.random.aside().chance(75);
            match plan.several || plan.elects {
                _ if cue.is_none() && program() => self.program(&stage, (actor, round)).await,
                true if plan.several && special() => self.several(&stage, false).await,
                true if plan.elects && special() => self.campaign(&stage).await,
                _ => self.once(&stage, cue).await,
            }
            stage.world.done_with_tokens();
        }
        if plan.tail > 0 {
            self.tail(&stage, worker).await;
        } else if plan.several || plan.slots.is_some() {
            self.calm(&stage).await;
            match plan.slots {
                Some(slots) => self.one_of(&stage, slots).await,
                None => self.several(&stage, true).await,
            }
            stage.world.done_with_tokens();
        }
        stage.done[self.number].fetch_add(1, Ordering::Relaxed);
    }

    /// L2: the lock is to be had, and within `most`.
    pub async fn probe(self, stage: Arc<Stage>, most: Duration) {
        for place in 0..stage.plan.locks {
            let lock = stage.lock(&self, place).wait(most);
            match lock.acquire().await {
                Ok(lease) => drop(lease.release().await),
                Err(why) => {
                    let what = format!("L2 the lock is not to be had: {why}");
                    return stage.world.violated(what);
                }
            };
        }
        if stage
            .plan
            .programs
            .is_some_and(|programs| programs.has_neighbours())
        {
            let layouts = stage.plan.breaks.is_none();
            for neighbour in NEIGHBOURS {
                let away = neighbour.namespace == 1;
                let client = if away { self.beside() } else { self.clone() };
                let lock = neighbour.of(&client).wait(most);
                if neighbour.how == How::Redisson && !layouts {
                    continue;
                }
                match lock.acquire().await {
                    Ok(lease) => drop(lease.release().await),
                    Err(why) => {
                        let what = format!("L2 a lock beside the others is not to be had: {why}");
                        return stage.world.violated(what);
                    }
                }
            }
        }
        // All of them at once.
        let mut leases = Vec::new();
        for _ in 0..stage.plan.slots.unwrap_or(0) {
            let slot = stage.semaphore(&self, stage.plan.slots.unwrap_or(1));
            match slot.wait(most).acquire().await {
                Ok(lease) => leases.push(lease),
                Err(why) => {
                    let what = format!("SE3 a slot is not to be had: {why}");
                    return stage.world.violated(what);
                }
            }
        }
        for lease in leases {
            drop(lease.release().await);
        }
        stage.done[stage.plan.clients].fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for a slot as long as it takes, in the calm at the end, and has it for a moment
    /// (SE4).
    async fn one_of(&self, stage: &Arc<Stage>, slots: u32) {
        let (world, random) = (&stage.world, &stage.random);
        let clock = &*self.set.clock;
        stage.says(|| "waits for a slot as long as it takes, in the calm at the end".into());
        let lock = stage.semaphore(self, slots).wait(None);
        let Ok(lease) = lock.acquire().await else {
            return;
        };
        let lease = Arc::new(lease);
        stage.holds.fetch_add(1, Ordering::Relaxed);
        let index = world.won(self.number, &lease);
        world.done_with_tokens();
        let ttl = stage.plan.ttl.as_nanos() as u64;
        let long = Duration::from_nanos(random.below(ttl / 10));
        clock.sleep_until(clock.now() + long).await;
        self.let_go(stage, lease, index).await;
    }

    async fn once(&self, stage: &Arc<Stage>, cue: Option<Cue>) {
        let (world, random, plan) = (&stage.world, &stage.random, &stage.plan);
        let (ttl, clock) = (plan.ttl, &*self.set.clock);
        // Comes on its cue, or when something is due to a rival.
        let aim = || random.chance(60).then(|| world.aim()).flatten();
        let comes = || plan.comes(&random.aside(), world.time());
        let comes = plan.fails_over().then(comes);
        if let Some(at) = cue.map(|cue| cue.at).or(comes).or_else(aim) {
            let wait = Duration::from_nanos(at.saturating_sub(world.time()));
            clock.sleep_until(clock.now() + wait).await;
        }
        let gone = (plan.swarm.gone && random.chance(30)).then(Arc::<AtomicBool>::default);
        let place = random.below(plan.locks as u64) as usize;
        // Long ttls are passed in few polls.
        let patient = ttl < Duration::from_millis(500) || plan.fails_over() || random.chance(5);
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
        let owner = match &gone {
            Some(gone) => Some(Owner::mortal(gone.clone())),
            None => (plan.owned && aside.chance(70)).then(|| Owner::named("o")),
        };
        let reenters = owner.is_some();
        let lock = stage.lock(self, place);
        // A lock of that name is another matter.
        let lock = match plan.slots {
            Some(slots) if random.aside().chance(85) => stage.semaphore(self, slots),
            _ => lock,
        };
        // So that leases are passed on between labels, too.
        let label = ["", "other"][usize::from(aside.chance(30))];
        let lock = lock.wait(wait).owner(owner).label(label);
        let keeps = Random::new(random.aside().bits());
        let keep = keeps.chance(40);
        let shares = plan.shares && keeps.chance(70);
        let lock = if keep && !shares {
            lock.keep(plan.keep)
        } else {
            lock.shared(shares)
        };
        stage.says(|| {
            let long = match wait {
                None => "wants the lock, and waits as long as it takes".into(),
                Some(Duration::ZERO) => "wants the lock, now or not at all".into(),
                Some(wait) => format!("wants the lock, and waits for {wait:?}"),
            };
            let which = if plan.locks > 1 { NAMES[place] } else { "" };
            let again = if reenters { " (may re-enter it)" } else { "" };
            let how = if shares { " to share" } else { "" };
            format!("{long}{how}{again} {which}").trim_end().into()
        });
        let begun = self.now(stage);
        // Nobody goes on to wait once nothing is to go wrong any more; and some
        // callers change their mind.
        let left = Duration::from_nanos(plan.troubled.saturating_sub(world.time()));
        let patience = if random.chance(20) {
            Duration::from_nanos((ttl.as_nanos() as f64).powf(random.share()) as u64)
        } else {
            Duration::MAX
        };
        let deadline = begun.1 + patience.min(left);
        let outcome = or_until(self.try_or_wait(world, &lock, wait), clock, deadline).await;
        let Some(lease) = self.judge_outcome(stage, begun, wait, outcome) else {
            return;
        };
        let lease = Arc::new(lease);
        stage.holds.fetch_add(1, Ordering::Relaxed);
        let index = world.won(self.number, &lease);
        world.done_with_tokens();
        if random.chance(15) {
            plan.aimed(random, world, self.number, world.end_of(index));
        }
        let lost = self
            .hold_for_a_while(stage, reenters.then_some(&lock), &lease, index, cue)
            .await;
        if let Some(gone) = gone.filter(|_| !lost) {
            self.vanish(stage, &lease, &gone).await;
        }
        // Where layers are compared nobody does: over bytes a node is given the script of an adoption
        // when it is asked for one first, which is a round trip more.
        if !lost && random.aside().chance(8) && !plan.network.even {
            self.hand_on(stage, lease, index).await
        } else {
            self.let_go(stage, lease, index).await
        }
        if random.chance(40) {
            let pause = Duration::from_nanos(random.below(ttl.as_nanos() as u64 / 4));
            clock.sleep_until(clock.now() + pause).await;
        }
    }

    /// L3, L5: what a user is told who has asked for a lock. Returns the lease, if it has one.
    pub fn judge_outcome(
        &self,
        stage: &Stage,
        begun: (u64, Instant),
        wait: Option<Duration>,
        outcome: Option<Result<Option<Lease>, Error>>,
    ) -> Option<Lease> {
        let world = &stage.world;
        if let Some(wait) = wait {
            // One request to each node, and one more: to write a fence back, or
            // to a node whose clock has stepped.
            // With a wait: it, and the answers that are under way at its end.
            let most = if wait.is_zero() {
                2 * self.node_timeout(stage)
            } else {
                wait + self.node_timeout(stage)
            };
            self.in_time(stage, begun, most, "an acquire");
        }
        if let Some(Err(error)) = &outcome {
            self.judge_error(stage, error);
        }
        match &outcome {
            None => stage.says(|| "changes its mind, and wants the lock no more".into()),
            Some(Ok(None)) => stage.says(|| "is told: held by another".into()),
            Some(Err(error)) => stage.says(|| format!("is told: {error}")),
            Some(Ok(Some(_))) => {}
        }
        world.saw(|| format!("c{} asked: {}", self.number, outcome_in_a_word(&outcome)));
        match outcome {
            Some(Ok(lease)) => lease,
            Some(Err(error)) if error.kind() == ErrorKind::InvalidArgument => {
                world.violated(format!("L5 a plan asks for what may not be: {error}"));
                None
            }
            _ => None,
        }
    }

    /// L3: nodes that answer are not said to be away, nor to be set up wrong.
    pub fn judge_error(&self, stage: &Stage, error: &Error) {
        let (c, plan) = (self.number, &stage.plan);
        // Nodes that found a lock in another layout under the key have no say about it for a while:
        // whether a call whose time is up tells of a wrong setting then, or of too few nodes, is open.
        if plan
            .programs
            .is_some_and(|programs| programs.has_neighbours())
        {
            return;
        }
        let mended = plan.breaks.is_none_or(|breaks| breaks.errors == 0);
        let why = match error.kind() {
            ErrorKind::QuorumUnavailable if plan.is_healthy() => "though all nodes answer",
            ErrorKind::Misconfigured if plan.fails_over() && mended => {
                "though nobody has to mend it"
            }
            _ => return,
        };
        stage.world.violated(format!("L3 c{c}: {error}, {why}"));
    }

    /// A wait of zero is asked for in either of two ways.
    pub async fn try_or_wait(
        &self,
        world: &Arc<World>,
        lock: &Lock,
        wait: Option<Duration>,
    ) -> Result<Option<Lease>, Error> {
        if wait == Some(Duration::ZERO) {
            return lock.try_acquire().await;
        }
        let id = lock.place().ok().map(|(_, id)| id);
        let place = known()[..NAMES.len()]
            .iter()
            .position(|known| id.as_deref() == Some(known.id().bytes()));
        let _waits = place.map(|place| world.waits_for(self.number, place));
        lock.acquire().await.map(Some)
    }

    /// Time for one request of this client to one node.
    pub fn node_timeout(&self, stage: &Stage) -> Duration {
        let ttl = stage.plan.habit(self.number).ttl;
        stage.plan.node_timeout.min(ttl / 4)
    }
}

/// What a user is told of what it asked for.
fn told(done: &str, outcome: &Result<(), Error>) -> String {
    match outcome {
        Ok(()) => format!("is told: {done}"),
        Err(error) => format!("is told: not {done}, {error}"),
    }
}

/// What a caller was told, in a word; `None`: it went away.
fn outcome_in_a_word(outcome: &Option<Result<Option<Lease>, Error>>) -> String {
    match outcome {
        None => "went away".into(),
        Some(Ok(lease)) => format!("won: {}", lease.is_some()),
        Some(Err(error)) => format!("{:?}", error.kind()),
    }
}

/// Whether it was refused because the lease is held no longer.
fn is_loss(outcome: &Result<(), Error>) -> bool {
    matches!(outcome, Err(error) if error.kind() == ErrorKind::LockLost)
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

/// Polls `future` this many times; drops it in place of the next one.
pub async fn polled<F: Future>(future: F, times: u64) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(move |cx| {
        let Some(less) = left.checked_sub(1) else {
            return Poll::Ready(None);
        };
        left = less;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}
