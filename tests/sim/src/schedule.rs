//! One schedule: everything that happens in it follows from its seed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::sim::{Inbox, Set, Watchdog};

use crate::contender::{Client, Stage};
use crate::plan::{LONGEST, Plan};
use crate::random::Random;
use crate::scene::Scene;
use crate::world::{Breaks, MS, Time, World};

/// What a client's requests go over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// Links of the simulator's, in which requests and replies are whole: fast.
    #[default]
    Links,
    /// The real links, over streams of bytes.
    Bytes,
}

/// What came of a schedule.
#[derive(Debug)]
pub struct Outcome {
    /// The broken invariant.
    pub violation: Option<String>,
    /// Events.
    pub events: u64,
    /// Faults among them.
    pub faults: u64,
    /// Leases won.
    pub holds: u64,
    /// What happened, for a replay.
    pub history: Option<String>,
}

/// Runs the schedule of `seed` over links.
pub fn run(seed: u64, history: bool) -> Outcome {
    run_on(Layer::Links, seed, history)
}

/// Runs the schedule of `seed` over a layer. The same seed stands for the same plan
/// on each; what is drawn while it is played differs.
pub fn run_on(layer: Layer, seed: u64, history: bool) -> Outcome {
    let random = Random::new(seed);
    let mut plan = Scene::plan(seed).unwrap_or_else(|| Plan::draw(&random));
    if layer == Layer::Bytes {
        plan = plan.over_bytes(seed);
    }
    play_out(plan, random, history)
}

/// What users saw in the schedule of `seed` over a layer, without any fault: what
/// each was told and when, the tokens and the fences.
pub fn seen(layer: Layer, seed: u64) -> (Vec<String>, Outcome) {
    let random = Random::new(seed);
    let plan = Plan::draw(&random).undisturbed();
    let breaks = (layer == Layer::Bytes).then(Breaks::default);
    let (outcome, seen) = play_and_keep(Plan { breaks, ..plan }, random, true, Some(seed));
    (seen, outcome)
}

fn play_out(plan: Plan, random: Random, history: bool) -> Outcome {
    play_and_keep(plan, random, history, None).0
}

/// `seed`: keeps what users see, and draws their aims from there.
fn play_and_keep(
    plan: Plan,
    random: Random,
    history: bool,
    seed: Option<u64>,
) -> (Outcome, Vec<String>) {
    let (node_clocks, client_clocks) = plan.clocks(&random);
    let world = World::new(
        Random::new(random.bits()),
        plan.network,
        plan.admission(&random),
        &node_clocks,
        &client_clocks,
        history,
    );
    // Of links nothing is said of streams.
    world.note(|| {
        format!("{plan:?}")
            .replace(", breaks: None", "")
            .replace(", even: false", "")
    });
    if let Some(seed) = seed {
        world.keep_seen(seed);
    }
    plan.faults(&random, &world);
    for client in 0..plan.clients {
        if let Some(order) = plan.habit(client).order {
            world.shuffle(client, &Random::new(order));
        }
    }
    if let Some(scene) = &plan.scene {
        scene.lists(&world);
    }
    if let Some((place, other)) = plan.listed_twice {
        world.list_twice(0, place, other);
    }
    let stage = Arc::new(Stage {
        world: world.clone(),
        random: Random::new(random.bits()),
        plan,
        holds: AtomicU64::new(0),
        done: client_clocks.iter().map(|_| AtomicU64::new(0)).collect(),
        clients: Mutex::default(),
        calm: AtomicBool::new(false),
    });
    if stage.plan.tail > 0 {
        world.judge_lines(stage.plan.bounds());
    }
    for number in 0..stage.plan.clients {
        let (client, inbox, watchdog) = client(&stage, &random, number);
        if number < stage.plan.mute {
            world.mute(number);
        }
        // In one line workers meet no more on the nodes, where most bugs are.
        let in_line = random.chance(50);
        for place in 0..stage.plan.workers {
            let mut worker = client.clone();
            if !in_line && place > 0 {
                worker.door = door(&stage, number, &client.set, &inbox, &watchdog);
            }
            world.spawn(number, worker.contend(stage.clone(), place));
        }
    }
    let finish = play(&stage);
    if world.violation().is_none() {
        epilogue(&stage, &random, finish);
    }
    let outcome = Outcome {
        violation: world.violation(),
        events: world.counts().0,
        faults: world.counts().1,
        holds: stage.holds.load(Ordering::Relaxed),
        history: world.history(),
    };
    let seen = world.seen();
    world.end();
    (outcome, seen)
}

fn client(stage: &Stage, random: &Random, number: usize) -> (Client, Arc<Inbox>, Arc<Watchdog>) {
    let world = &stage.world;
    let drift = stage.plan.habit(number).drift;
    world.allow_for(number, drift);
    let links = world.links(number);
    let inbox = Inbox::new(world.inbox(number), &links);
    let set = Arc::new(Set::new(
        links,
        world.clock(number),
        Arc::new(Random::new(random.bits())),
        stage.plan.max_ttl(),
        drift,
        |_| (),
    ));
    let watchdog = Watchdog::new(set.clock.clone());
    watchdog.follow_steps(&set);
    world.spawn(number, watchdog.clone().run());
    let door = door(stage, number, &set, &inbox, &watchdog);
    let client = Client { number, set, door };
    (client, inbox, watchdog)
}

/// What the user of a client has, or a part of its users.
fn door(
    stage: &Stage,
    number: usize,
    set: &Arc<Set>,
    inbox: &Arc<Inbox>,
    watchdog: &Arc<Watchdog>,
) -> quorlock::Client {
    let plan = &stage.plan;
    let habit = plan.habit(number);
    let builder = quorlock::Client::builder()
        .label("")
        .ttl(habit.ttl)
        .max_ttl(plan.max_ttl())
        .node_timeout(plan.node_timeout)
        .drift(habit.drift)
        .renew(habit.renew)
        .max_waiters(usize::MAX)
        .fencing(habit.fences)
        .fence_ttl(plan.fence_ttl.unwrap_or(Duration::from_secs(600)));
    let door = builder.simulated(set.clone(), inbox.clone(), watchdog.clone(), plan.waits);
    let mut doors = stage.clients.lock().expect("one thread");
    doors.push(door.clone());
    door
}

/// Lets the contenders contend until all are done and everything is right
/// again. Returns when that was.
fn play(stage: &Stage) -> Time {
    let (world, plan) = (&stage.world, &stage.plan);
    let ttl = plan.ttl.as_nanos() as Time;
    let mut until = 0;
    let mut calm = false;
    loop {
        until += ttl / 8;
        world.run(until);
        world.check_leaks(false);
        if plan.tail > 0 {
            world.check_lines();
        }
        if world.violation().is_some() {
            return until;
        }
        let right = plan.troubled.max(world.mended_at());
        if until >= right {
            world.calm();
        }
        // Connections that were lost before are given up and made anew.
        let settles = if plan.tail > 0 {
            plan.network.settles() + plan.pauses()
        } else {
            0
        };
        if !calm && until >= right + settles {
            calm = true;
            stage.calm.store(true, Ordering::Relaxed);
            if plan.tail > 0 {
                world.judge_calm();
                plan.tail_faults(&stage.random, world);
            }
        }
        let done = |c: usize| {
            let done = stage.done[c].load(Ordering::Relaxed) as usize;
            done == plan.workers || world.is_crashed(c)
        };
        if calm && (0..plan.clients).all(done) {
            return until;
        }
        // No contender begins anything new; the longest holds the lock for
        // two ttls, and is lost for two more.
        if until > right + 6 * ttl + 2_000 * MS + plan.pauses() + plan.tail_ends() {
            world.violated("L5 a call never returns".into());
            return until;
        }
    }
}

/// The end: what is left on the nodes goes by itself, and the lock is to be
/// had again.
fn epilogue(stage: &Arc<Stage>, random: &Random, finish: Time) {
    let (world, plan) = (&stage.world, &stage.plan);
    let ttl = plan.ttl.as_nanos() as Time;
    let life = Time::from(LONGEST) * (ttl + ttl / 50) + 10 * MS + world.stepped_back();
    let late = plan.network.tail + 10 * plan.network.base + 2 * plan.network.reach;
    let undone = finish + undone_within(stage);
    world.run(undone);
    world.check_leaks(true);
    world.run((finish + life + late).max(undone));
    if world.has_strayed() {
        return;
    }
    let (prober, ..) = client(stage, random, plan.clients);
    // A node that nobody has seen since its restart is in quarantine first.
    let quarantine = if plan.guard {
        plan.max_ttl().mul_f64(1.1)
    } else {
        Duration::ZERO
    };
    let most = plan.ttl + quarantine + Duration::from_millis(500);
    let most = most + Duration::from_nanos(plan.pauses());
    world.spawn(plan.clients, prober.probe(stage.clone(), most));
    let mut until = world.time();
    let end = until + 3 * (most.as_nanos() as Time);
    while until < end && world.violation().is_none() {
        if stage.done[plan.clients].load(Ordering::Relaxed) > 0 {
            return;
        }
        until += ttl / 8 + MS;
        world.run(until);
    }
    world.violated("L5 an acquire never returns".into());
}

/// How long it may take until every release has got through, once everything
/// is right again.
fn undone_within(stage: &Stage) -> Time {
    let (network, swarm) = (stage.plan.network, stage.plan.swarm);
    let slow = if swarm.slow || swarm.lag {
        network.tail
    } else {
        0
    };
    let edge = if swarm.edge { network.reach * 5 / 4 } else { 0 };
    // A broken connection is found at the next deadline.
    let found = 2 * stage.plan.node_timeout.as_nanos() as u64;
    // Twice or three times there and back make a connection, once the release.
    let trips = 6 * (2 * network.base + slow.max(edge));
    trips + found + 4 * network.reconnect() + stage.plan.pauses()
}
