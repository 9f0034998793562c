//! One user of the lock: takes it, holds it for a while, gives it up; and
//! judges what it is told, and when. All of it by the front door.

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
                let done = release.await;
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
    async fn hand_on(&self, stage: &Stage, lease: Arc<Lease>, index: usize) {
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
    async fn hold_for_a_while(
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
                    0 => self.ensure(stage, lease).await,
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
        stage.says(|| told("extended", &outcome));
        self.in_time(stage, begun, self.node_timeout(stage), "an extension");
        if outcome.is_ok() {
            stage.world.check_extended(index, begun.1, ttl);
        }
    }

    /// S4: what is ensured is there.
    async fn ensure(&self, stage: &Stage, lease: &Lease) {
        let ttl = stage.plan.habit(self.number).ttl;
        let min = ttl.mul_f64(stage.random.aside().share());
        let begun = self.now(stage);
        stage.says(|| format!("wants {min:?} of its lease ensured"));
        let outcome = lease.ensure(min).await;
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
    async fn vanish(&self, stage: &Stage, lease: &Lease, gone: &AtomicBool) {
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
