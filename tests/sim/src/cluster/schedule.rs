//! What a seed stands for: the clusters, what goes wrong, the users; and the verdict.

mod plan;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::sim::probe::link::Door;
use quorlock::sim::{Inbox, Link, Set, Waits, Watchdog, lasting};
use quorlock::{Client, ErrorKind, Lease};

use super::commands::{NAMESPACE, SLOTS, slot_of};
use super::servers::Cluster;
use super::world::{Event, MS, Time, World};
use crate::death;
use crate::program::{Counted, Counts};
use crate::random::Random;
use plan::{Plan, hash_slots};

/// How far clock rates may differ, as clients take it. Here they do not.
const DRIFT: f64 = 0.01;
/// The locks' names.
pub(super) const NAMES: [&str; 2] = ["k", "l"];
/// The lowest hash slots, and the highest.
const FIRST: u16 = 1;
const LAST: u16 = SLOTS - 1;
/// A call may take this much longer than its bound.
const SLACK: Time = 5 * MS;

/// What a schedule came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was wrong first.
    pub violation: Option<String>,
    /// How many leases were won,
    pub holds: u64,
    /// things went wrong,
    pub faults: u64,
    /// events there were.
    pub events: u64,
    /// What was done with newer primitives.
    pub counted: Counted,
    /// What happened, if that was asked for.
    pub lines: Vec<String>,
}

/// A hold, as its user has it.
struct Held {
    name: usize,
    shared: bool,
    lease: Lease,
}

/// A lock that is to stay taken after a release that its user was told of.
struct Kept {
    name: usize,
    until: Time,
    fence: u64,
}

/// What the users of a schedule share.
pub(super) struct Stage {
    pub(super) world: Arc<World>,
    pub(super) random: Random,
    pub(super) plan: Plan,
    held: Mutex<Vec<Arc<Held>>>,
    kept: Mutex<Vec<Kept>>,
    /// How many are taking each lock away.
    forces: [AtomicU64; NAMES.len()],
    /// How often each was taken away.
    taken: [AtomicU64; NAMES.len()],
    /// The tokens that were to be taken away: their holders, and those in their clients to whom
    /// they are passed on, have yet to learn of that.
    forced: Mutex<BTreeSet<String>>,
    /// The largest fences of the locks so far, of a hold for one alone and of any.
    fences: Mutex<[(u64, u64); NAMES.len()]>,
    /// Who may go on with what another has exported.
    clients: Mutex<Vec<Client>>,
    holds: AtomicU64,
    counts: Counts,
    done: AtomicU64,
}

/// Plays the schedule of a seed. Without the guard S1 and S2 are not promised.
/// `tells`: what happens is written down.
pub fn run(seed: u64, guard: bool, tells: bool) -> Outcome {
    let random = Random::new(seed ^ 0xc1_057e5);
    death::begin(random.aside());
    let plan = Plan::draw(&random, guard);
    let slots = hash_slots(&plan, &random);
    let clusters = (0..plan.clusters).map(|n| Cluster::new(n, plan.primaries, &slots, plan.skew));
    let world = World::new(clusters.collect(), Random::new(random.bits()), plan.network);
    world.inner().lines = tells.then(Vec::new);
    world.inner().says(|| format!("{plan:?}"));
    let stage = Arc::new(Stage {
        world: world.clone(),
        random,
        plan,
        held: Mutex::default(),
        kept: Mutex::default(),
        forces: Default::default(),
        taken: Default::default(),
        forced: Mutex::default(),
        fences: Mutex::default(),
        clients: Mutex::default(),
        holds: AtomicU64::new(0),
        counts: Counts::default(),
        done: AtomicU64::new(0),
    });
    stage.prepare();
    let clients: Vec<_> = (0..stage.plan.clients).map(|n| stage.client(n)).collect();
    let all = clients.iter().map(|(client, ..)| client.clone());
    *lock(&stage.clients) = all.collect();
    for (number, (client, ..)) in clients.iter().enumerate() {
        for _ in 0..stage.plan.workers {
            let (stage, client) = (stage.clone(), client.clone());
            world.spawn(Box::pin(async move { stage.work(number, client).await }));
        }
    }
    stage.play();
    stage.end();
    if stage.plan.tail && world.inner().violation.is_none() {
        let open = clients.iter().map(|(client, ..)| client);
        stage.tail(open.filter(|client| !client.is_closed()));
    }
    let outcome = {
        let mut inner = world.inner();
        Outcome {
            lines: inner.lines.take().unwrap_or_default(),
            violation: inner.violation.clone().or_else(death::judge),
            holds: stage.holds.load(Ordering::Relaxed),
            faults: stage.plan.faults.len() as u64 + death::count(),
            events: inner.events,
            counted: stage.counts.counted(),
        }
    };
    drop(clients);
    lock(&stage.held).clear();
    lock(&stage.clients).clear();
    world.end();
    outcome
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("one thread")
}

impl Stage {
    /// Nodes are declared, and what is to happen is planned.
    fn prepare(&self) {
        let mut inner = self.world.inner();
        let plan = &self.plan;
        inner.keeps = plan.keeps();
        if plan.declared {
            let (ttl, on) = (plan.ttl.as_millis(), if plan.guard { "on" } else { "off" });
            for (number, cluster) in inner.clusters.iter_mut().enumerate() {
                let node = format!("node{number}");
                let record = format!("1 s 1 {} {ttl} {node} - {on}", plan.clusters);
                let slot = slot_of(b"lock:#node");
                let at = cluster.slots.get_mut(&slot).expect("served");
                at.data.texts.insert(b"lock:#node".to_vec(), record);
                if plan.guard {
                    cluster.stamp(&node);
                }
            }
        }
        for (at, cluster, fault) in &plan.faults {
            inner.push(*at, Event::Fault(*cluster, *fault));
        }
    }

    /// A client of all nodes.
    fn client(&self, number: usize) -> (Client, Arc<Inbox>, Arc<Watchdog>) {
        let (world, plan) = (&self.world, &self.plan);
        let names = (0..plan.clusters).map(|n| format!("n{n}").into()).collect();
        let inbox: Arc<[u8]> = format!("lock:#in:{number:032}").into_bytes().into();
        let rng = || Arc::new(Random::new(self.random.bits()));
        let waits = (plan.node_timeout, 0);
        let door = Door::new(
            plan.expected(),
            names,
            NAMESPACE,
            inbox.clone(),
            DRIFT,
            waits,
            (world.clock(), rng()),
        );
        let door = if death::are_wanted() {
            door.lasting(death::told)
        } else {
            door
        };
        let link = |node: usize| -> Arc<dyn Link> {
            let seeds = world.inner().clusters[node].living();
            let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
            let (dials, spawns) = (world.clone(), world.clone());
            let dial = move |address: &str| dials.dial(node, address);
            let (link, task) = door.cluster(node, &seeds, dial, move |task| spawns.spawn_own(task));
            world.spawn_own(task);
            link
        };
        let links: Vec<_> = (0..plan.clusters).map(link).collect();
        let inbox = Inbox::new(inbox, &links);
        let set = Set::new(links, world.clock(), rng(), plan.ttl, DRIFT, |_| ());
        let set = Arc::new(set);
        let watchdog = Watchdog::new(set.clock.clone());
        watchdog.serve(&set);
        let watches = watchdog.clone();
        if death::are_wanted() {
            let clock = world.clock();
            world.spawn_own(Box::pin(async move {
                lasting(|| watches.clone().run(), clock, death::told, "").await;
            }));
        } else {
            world.spawn_own(Box::pin(watches.run()))
        }
        let builder = Client::builder()
            .label("")
            .ttl(plan.ttl)
            .max_ttl(plan.ttl)
            .node_timeout(plan.node_timeout)
            .drift(DRIFT)
            .renew(plan.renew)
            .max_waiters(usize::MAX);
        let waits = Waits {
            reservation: plan.ttl / 3,
            place: Duration::from_millis(7_200).max(plan.ttl),
            most: 10_000,
        };
        let client = builder.simulated(set, inbox.clone(), watchdog.clone(), waits);
        (client, inbox, watchdog)
    }

    /// A user: takes a lock, has it for a while, gives it back.
    async fn work(self: Arc<Stage>, number: usize, client: Client) {
        let (plan, random) = (&self.plan, &self.random);
        let (clock, ttl) = (self.world.clock(), plan.ttl.as_nanos() as u64);
        for _ in 0..plan.rounds {
            let pause = Duration::from_nanos(random.below(ttl));
            clock.sleep_until(clock.now() + pause).await;
            let name = if random.chance(75) { 0 } else { 1 };
            let shared = random.chance(20);
            let wait = if random.chance(25) {
                Duration::ZERO
            } else {
                Duration::from_nanos(random.below(2 * ttl))
            };
            let begun = self.world.inner().time;
            let taken = self.taken[name].load(Ordering::Relaxed);
            let asked = client.lock(NAMES[name]).shared(shared).wait(wait);
            let aside = random.aside();
            let keep = if aside.chance(12) && !shared {
                plan.ttl.mul_f64(aside.share())
            } else {
                Duration::ZERO
            };
            let asked = if shared { asked } else { asked.keep(keep) };
            let outcome = asked.acquire().await;
            let took = self.world.inner().time - begun;
            let most = wait.as_nanos() as Time + 3 * plan.node_timeout.as_nanos() as Time;
            if took > most + SLACK {
                let (took, most) = (took / MS, most / MS);
                let what = format!("L5 c{number}: an acquire took {took} ms of {most}");
                self.world.violated(what);
            }
            if let Err(why) = &outcome
                && why.kind() == ErrorKind::Misconfigured
            {
                let what = format!("L3 c{number}: {why}, though nobody has to mend it");
                self.world.violated(what);
            }
            let Ok(lease) = outcome else { continue };
            self.hold(name, (shared, keep), taken, lease).await;
            if random.aside().chance(2) && number > 0 {
                self.counts.closes.fetch_add(1, Ordering::Relaxed);
                self.world
                    .inner()
                    .says(|| format!("a user closes c{number}"));
                client.close().await;
            }
        }
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// `taken`: how often the lock had been taken away when it was asked for.
    async fn hold(&self, name: usize, (shared, keep): (bool, Duration), taken: u64, lease: Lease) {
        let (random, clock) = (&self.random, self.world.clock());
        let ttl = self.plan.ttl.as_nanos() as u64;
        self.holds.fetch_add(1, Ordering::Relaxed);
        let fence = lease.fence().unwrap_or(0);
        // It may have been won before it was taken away, and told behind that.
        if self.forces[name].load(Ordering::Relaxed) > 0
            || self.taken[name].load(Ordering::Relaxed) != taken
        {
            lock(&self.forced).insert(lease.token().into());
        }
        {
            let mut fences = lock(&self.fences);
            let (alone, any) = &mut fences[name];
            if fence <= if shared { *alone } else { *any }
                && lease.is_held()
                && !self.is_forced(&lease)
                && self.plan.guard
                && !self.is_excused()
            {
                let what = format!("S2 the fence {fence} of {} is not new", NAMES[name]);
                self.world.violated(what);
            }
            *any = fence.max(*any);
            if !shared {
                *alone = fence.max(*alone);
            }
        }
        let says = || format!("a user has {} with the fence {fence}", NAMES[name]);
        self.world.inner().says(says);
        let won = self.world.inner().time;
        // A client that was forced out passes the lock on until it learns of it.
        if !self.is_forced(&lease) {
            self.judge_kept(name, fence, won);
        }
        let held = Arc::new(Held {
            name,
            shared,
            lease,
        });
        lock(&self.held).push(held.clone());
        if random.aside().chance(7) {
            self.forces(name).await;
        }
        let long = if random.chance(40) { 2 * ttl } else { ttl / 4 };
        let until = clock.now() + Duration::from_nanos(random.below(long));
        clock.sleep_until(until).await;
        if random.chance(20) {
            let _ = held.lease.extend(None).await;
        }
        if !held.lease.is_held() && held.lease.loss().is_none() {
            let what = format!("HL1 {} is over, and its user is not told", NAMES[name]);
            self.world.violated(what);
        }
        if random.aside().chance(15)
            && let Ok(text) = held.lease.export().await
        {
            self.counts.exports.fetch_add(1, Ordering::Relaxed);
            lock(&self.held).retain(|other| !Arc::ptr_eq(other, &held));
            if held.lease.is_held() {
                self.world.violated("S5 an exported lease is held".into());
            }
            drop(held);
            return self.hand_on(name, &text).await;
        }
        let says = || format!("a user gives {} with the fence {fence} back", NAMES[name]);
        self.world.inner().says(says);
        let release = held.lease.release();
        lock(&self.held).retain(|other| !Arc::ptr_eq(other, &held));
        if random.chance(20) {
            return drop(release);
        }
        let forced = self.is_forced(&held.lease);
        if let Ok(true) = release.await
            && !keep.is_zero()
            && !forced
        {
            let until = won + keep.as_nanos() as Time;
            let kept = Kept { name, until, fence };
            lock(&self.kept).push(kept);
        }
    }

    fn is_forced(&self, lease: &Lease) -> bool {
        lock(&self.forced).contains(lease.token())
    }

    /// K1: nobody has a lock that is kept, as its user was told.
    fn judge_kept(&self, name: usize, fence: u64, now: Time) {
        // A lock that is moved ends by another clock.
        let excused = self.is_excused() || self.plan.skew > 0 && self.plan.moves();
        let kept = lock(&self.kept);
        let broken = |kept: &Kept| kept.name == name && kept.fence != fence && now < kept.until;
        if kept.iter().any(broken) && !excused {
            let what = format!("K1 {} is kept, and another has it", NAMES[name]);
            self.world.violated(what);
        }
    }

    /// Somebody takes the lock away from whoever has it.
    async fn forces(&self, name: usize) {
        let clients = lock(&self.clients).clone();
        let who = self.random.aside().pick(&clients).clone();
        self.forces[name].fetch_add(1, Ordering::Relaxed);
        for held in lock(&self.held).iter().filter(|held| held.name == name) {
            lock(&self.forced).insert(held.lease.token().into());
        }
        lock(&self.kept).retain(|kept| kept.name != name);
        let done = who.force_release(NAMES[name], None).await;
        lock(&self.kept).retain(|kept| kept.name != name);
        // One that was not answered may be carried out yet.
        if done.is_ok() {
            self.forces[name].fetch_sub(1, Ordering::Relaxed);
        }
        self.taken[name].fetch_add(1, Ordering::Relaxed);
        self.counts.forces.fetch_add(1, Ordering::Relaxed);
        let says = || format!("somebody takes {} away: {:?}", NAMES[name], done.is_ok());
        self.world.inner().says(says);
    }

    /// Somebody goes on with an exported lease, if its ttl has not ended by then; and nobody
    /// else does.
    async fn hand_on(&self, name: usize, text: &str) {
        let (random, clock) = (self.random.aside(), self.world.clock());
        let most = self.plan.ttl.as_nanos() as u64 * 5 / 4;
        let pause = Duration::from_nanos(random.below(most));
        clock.sleep_until(clock.now() + pause).await;
        let taken = self.taken[name].load(Ordering::Relaxed);
        let clients = lock(&self.clients).clone();
        let (one, other) = (random.pick(&clients), random.pick(&clients));
        let both = futures_util::future::join(one.adopt(text), other.adopt(text));
        let (first, second) = both.await;
        let leases: Vec<_> = [first, second].into_iter().flatten().collect();
        if leases.len() > 1 && !self.is_excused() {
            self.world.violated("AD1 two have adopted one lease".into());
        }
        let adopted = !leases.is_empty();
        for lease in leases {
            self.counts.adoptions.fetch_add(1, Ordering::Relaxed);
            Box::pin(self.hold(name, (false, Duration::ZERO), taken, lease)).await;
        }
        // Once more, late.
        let again = one.adopt(text).await.is_ok();
        if again && adopted && !self.is_excused() {
            let what = "AD1 a lease is adopted again after its adopter has ended it";
            self.world.violated(what.into());
        }
    }

    /// Whether votes were lost and nobody could know of it.
    fn is_excused(&self) -> bool {
        let inner = self.world.inner();
        inner.clusters.iter().any(|cluster| cluster.excused)
    }

    /// S1, as the users' leases say.
    fn judge(&self) {
        if self.is_excused() {
            return;
        }
        let held = lock(&self.held);
        // Who was forced out learns it with its next renewal.
        let judged = |h: &&Arc<Held>| !self.is_forced(&h.lease) && h.lease.is_held();
        let valid: Vec<_> = held.iter().filter(judged).collect();
        for (place, one) in valid.iter().enumerate() {
            let beside =
                |other: &&&Arc<Held>| other.name == one.name && !(other.shared && one.shared);
            if valid[place + 1..].iter().any(|other| beside(&other)) {
                let what = format!("S1 {} is held twice", NAMES[one.name]);
                self.world.violated(what);
            }
        }
    }

    /// Lets the users come to their end.
    fn play(self: &Arc<Stage>) {
        let users = (self.plan.clients * self.plan.workers) as u64;
        let ttl = self.plan.ttl.as_nanos() as Time;
        let mut until = self.plan.calm;
        let (world, stage) = (self.world.clone(), self.clone());
        let mut judge = || stage.judge();
        world.run(until, &mut judge);
        // What broke by itself breaks no more.
        death::calm();
        {
            let mut inner = world.inner();
            (inner.network.cut, inner.network.slow) = (0, 0);
        }
        let most = until + 8 * self.plan.rounds * ttl + 60_000 * MS;
        while self.done.load(Ordering::Relaxed) < users {
            if until > most {
                return world.violated("L5 a user comes to no end".into());
            }
            until += ttl;
            world.run(until, &mut judge);
            if world.inner().violation.is_some() {
                return;
            }
        }
        self.look_for_leaks();
    }

    /// L1: what was given up leaves no vote behind, where no old data has come back.
    fn look_for_leaks(self: &Arc<Stage>) {
        let world = &self.world;
        let settled =
            world.inner().time + 4_000 * MS + self.plan.skew + self.plan.ttl.as_nanos() as Time;
        world.run(settled, &mut || ());
        let mut inner = world.inner();
        if self.plan.lags || inner.violation.is_some() {
            return;
        }
        // Where every answer comes in time, a request is over before its release is sent.
        let mut slots = inner.clusters.iter().flat_map(|c| c.slots.values());
        if self.plan.is_swift() && slots.any(|slot| slot.data.too_late) {
            let what = "L1 a token is given a vote behind its release";
            inner.violation = Some(what.into());
            return;
        }
        let clusters = &inner.clusters;
        let stands = |name: &&str| clusters.iter().any(|c| c.has_vote(name, inner.time));
        let left = NAMES.iter().find(|name| stands(name));
        if let Some(name) = left {
            let what = format!("L1 a vote for {name} still stands");
            inner.violation = Some(what);
        }
    }

    /// L2: every lock is to be had, once quarantines are over.
    fn end(self: &Arc<Stage>) {
        let (world, plan) = (&self.world, &self.plan);
        if world.inner().violation.is_some() {
            return;
        }
        let (client, _inbox, _watchdog) = self.client(plan.clients);
        let most = plan.expected().quarantine + 2 * plan.ttl + Duration::from_secs(8);
        let stage = self.clone();
        let done = Arc::new(AtomicU64::new(0));
        let count = done.clone();
        world.spawn(Box::pin(async move {
            for name in NAMES {
                match client.lock(name).wait(most).acquire().await {
                    Ok(lease) => drop(lease.release().await),
                    Err(why) => stage
                        .world
                        .violated(format!("L2 {name} is not to be had: {why}")),
                }
            }
            count.fetch_add(1, Ordering::Relaxed);
        }));
        let end = world.inner().time + 4 * most.as_nanos() as Time;
        self.wait_for(&done, 1, end, &mut || ());
    }

    /// Lets time go on until this many have ended, or something is wrong. L5: nobody waits for
    /// longer than to a time.
    pub(super) fn wait_for(
        &self,
        done: &AtomicU64,
        count: u64,
        end: Time,
        judge: &mut dyn FnMut(),
    ) {
        let world = &self.world;
        while done.load(Ordering::Relaxed) < count && world.inner().violation.is_none() {
            let at = world.inner().time + 500 * MS;
            world.run(at, judge);
            if at > end {
                world.violated("L5 an acquire never returns".into());
            }
        }
    }
}
