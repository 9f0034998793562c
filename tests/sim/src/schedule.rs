//! One schedule: everything that happens in it follows from its seed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::defaults;
use quorlock::sim::{Inbox, Set, Watchdog, lasting};

use crate::cluster;
use crate::contender::{Client, Stage};
use crate::death;
use crate::history::{Happened, History};
use crate::neighbour::{NAMESPACES, NEIGHBOURS};
use crate::plan::{LONGEST, Plan};
use crate::program::{Counted, Counts};
use crate::random::Random;
use crate::scene::Scene;
use crate::script::{Planned, Script, Tapes};
use crate::trace::Trace;
use crate::who::{Who, turn_to};
use crate::without::{Part, Without};
use crate::world::{Breaks, MS, Natives, Time, World};

/// A seed from here on stands for what is left of it without this, but that its users run no
/// programs: so it goes on to stand for what it stood for before there were any.
pub const PLAIN: u64 = 1_000_000_000_000;

/// What a client's requests go over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// Links of the simulator's, in which requests and replies are whole: fast.
    #[default]
    Links,
    /// The real links, over streams of bytes.
    Bytes,
    /// The real links to clusters: see [`cluster`].
    Clusters,
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
    /// Native requests for a vote.
    pub natives: Natives,
    /// What was done in programs.
    pub counted: Counted,
    /// What happened, for a replay.
    pub history: Option<History>,
    /// What it was played from, where there is a history.
    pub plan: Option<Plan>,
    /// What was planned to go wrong, where that was recorded.
    pub planned: Vec<Planned>,
    /// The rounds that users began, where that was recorded.
    pub begun: Vec<Part>,
}

impl From<cluster::schedule::Outcome> for Outcome {
    fn from(outcome: cluster::schedule::Outcome) -> Outcome {
        Outcome {
            violation: outcome.violation,
            events: outcome.events,
            faults: outcome.faults,
            holds: outcome.holds,
            natives: Natives::default(),
            counted: outcome.counted,
            history: None,
            plan: None,
            planned: Vec::new(),
            begun: Vec::new(),
        }
    }
}

impl Outcome {
    /// The history, a line for each event; none if it was not recorded.
    pub fn lines(&self) -> Vec<String> {
        match (&self.history, &self.plan) {
            (Some(history), Some(plan)) => history.lines(plan, &self.planned),
            _ => Vec::new(),
        }
    }
}

/// Runs the schedule of `seed` over links.
pub fn run(seed: u64, history: bool) -> Outcome {
    run_on(Layer::Links, seed, history)
}

/// Runs the schedule of `seed` over a layer. The same seed stands for the same plan
/// on each; what is drawn while it is played differs.
pub fn run_on(layer: Layer, seed: u64, history: bool) -> Outcome {
    match layer {
        Layer::Clusters => cluster::schedule::run(seed, true, false).into(),
        _ => perform(layer, seed, history, None),
    }
}

/// Runs the schedule of `seed` over links. Returns its trace, too.
pub fn traced(seed: u64) -> (Outcome, Trace) {
    let (outcome, _, trace) = perform_with(Layer::Links, seed, Keeps::Trace, None);
    (outcome, trace.unwrap_or_default())
}

/// Runs the schedule of `seed` as it is. Returns what is needed to run it without
/// some of its parts, too.
pub fn record(layer: Layer, seed: u64) -> (Outcome, Tapes) {
    let script = Arc::default();
    let outcome = perform(layer, seed, true, Some(&script));
    (outcome, script.recorded())
}

/// Runs the schedule of `seed` without some of its parts.
pub fn rerun(layer: Layer, seed: u64, tapes: &Tapes, without: Without) -> Outcome {
    perform(layer, seed, true, Some(&Arc::new(tapes.script(without))))
}

/// What users saw in the schedule of `seed` over a layer, without any fault: what
/// each was told and when, the tokens and the fences.
pub fn seen(layer: Layer, seed: u64) -> (Vec<String>, Outcome) {
    let random = Random::new(seed);
    let plan = Plan::draw(&random).undisturbed();
    let breaks = (layer == Layer::Bytes).then(Breaks::default);
    let plan = Plan { breaks, ..plan };
    let (outcome, seen, _) = play_out(plan, random, Keeps::History, None, Some(seed));
    (seen, outcome)
}

/// Runs the schedule of `seed` without a guard, and judges it as if there were one; `None`
/// if its nodes do not fail over.
pub fn unguarded(seed: u64) -> Option<Outcome> {
    let random = Random::new(seed);
    let drawn = || Some(Plan::draw(&random)).filter(Plan::fails_over);
    let plan = Scene::plan(seed).map_or_else(drawn, |_| None)?;
    let plan = Plan {
        guard: false,
        unexcused: true,
        ..plan
    };
    Some(play_out(plan, random, Keeps::Nothing, None, None).0)
}

/// What a schedule came to, what its users saw, and its trace, where those are kept.
type Played = (Outcome, Vec<String>, Option<Trace>);

/// What is kept of a schedule.
#[derive(Clone, Copy, PartialEq)]
enum Keeps {
    Nothing,
    History,
    Trace,
}

fn perform(layer: Layer, seed: u64, history: bool, script: Option<&Arc<Script>>) -> Outcome {
    let keeps = [Keeps::Nothing, Keeps::History][usize::from(history)];
    perform_with(layer, seed, keeps, script).0
}

fn perform_with(layer: Layer, seed: u64, keeps: Keeps, script: Option<&Arc<Script>>) -> Played {
    let (seed, plain) = (seed % PLAIN, seed >= PLAIN);
    let random = Random::new(seed);
    let draw = || {
        if plain {
            Plan::draw_plain(&random)
        } else {
            Plan::draw(&random)
        }
    };
    let mut plan = Scene::plan(seed).unwrap_or_else(draw);
    if layer == Layer::Bytes {
        plan = plan.over_bytes(seed);
    }
    play_out(plan, random, keeps, script, None)
}

/// `seed`: keeps what users see, and draws their aims from there.
fn play_out(
    drawn: Plan,
    random: Random,
    keeps: Keeps,
    script: Option<&Arc<Script>>,
    seed: Option<u64>,
) -> Played {
    let history = keeps == Keeps::History;
    turn_to(Who::World);
    death::begin(random.aside());
    let without = script.map(|script| script.without().clone());
    let without = without.unwrap_or_default();
    let (mut node_clocks, mut client_clocks) = drawn.clocks(&random);
    let plan = without.left_of(&drawn);
    node_clocks.truncate(plan.nodes);
    if !plan.swarm.rates {
        let clocks = node_clocks.iter_mut().chain(&mut client_clocks);
        clocks.for_each(|clock| clock.rate = 1.0);
    }
    let world = World::new(
        Random::scripted(random.bits(), 0, script),
        plan.network,
        plan.admission(&random),
        &node_clocks,
        &client_clocks,
        history,
    );
    // Of links nothing is said of streams.
    world.note(|| {
        let text = format!("{plan:?}").replace(", breaks: None", "");
        let text = text.replace(", failovers: [], wait_replicas: 0, unexcused: false", "");
        let text = text.replace(", even: false", "");
        // And of programs only where users run any.
        Happened::Begins(text.replace(", programs: None", ""))
    });
    if let Some(seed) = seed {
        world.keep_seen(seed);
    }
    if plan.fails_over() {
        world.replicate(&random.aside());
    }
    drawn.faults(&random, &world);
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
    if keeps == Keeps::Trace {
        let crowds = plan.programs.is_some_and(|programs| programs.has_crowds());
        world.keep_trace(plan.several || crowds);
    }
    let stage = Arc::new(Stage {
        world: world.clone(),
        random: Random::scripted(random.bits(), 1, script),
        plan,
        holds: AtomicU64::new(0),
        done: client_clocks.iter().map(|_| AtomicU64::new(0)).collect(),
        busy: client_clocks.iter().map(|_| AtomicU64::new(0)).collect(),
        counts: Counts::default(),
        clients: Mutex::default(),
        calm: AtomicBool::new(false),
    });
    let healthy = stage.plan.is_untroubled();
    if stage.plan.tail > 0 || healthy {
        world.judge_lines(stage.plan.bounds(), stage.plan.fence_ttl.is_some());
    }
    if healthy {
        world.judge_still();
    }
    if stage
        .plan
        .programs
        .is_some_and(|programs| programs.has_neighbours())
    {
        world.minds_neighbours();
    }
    if stage.plan.several && stage.plan.workers > 1 {
        world.passes_unseen();
    }
    let mut veterans = Vec::new();
    for number in 0..stage.plan.clients {
        let (client, inbox, watchdog) = client(&stage, &random, number);
        if number < stage.plan.mute {
            world.mute(number);
        }
        veterans.push(client.clone());
        // In one line workers meet no more on the nodes, where most bugs are.
        let in_line = random.chance(50);
        for place in 0..stage.plan.workers {
            let mut worker = client.clone();
            if !in_line && place > 0 {
                worker = part(&stage, number, &client.set, &inbox, &watchdog);
            }
            let user = stage.plan.users(number).start + place;
            if without.has(&Part::User(user)) {
                stage.done[number].fetch_add(1, Ordering::Relaxed);
                continue;
            }
            world.spawn_as(
                Who::User(user),
                number,
                worker.contend(stage.clone(), place),
            );
        }
    }
    let finish = play(&stage);
    if let Some(finish) = finish
        && world.violation().is_none()
    {
        epilogue(&stage, &random, finish, veterans);
    }
    let outcome = Outcome {
        violation: world.violation().or_else(death::judge),
        events: world.counts().0,
        faults: world.counts().1 + death::count(),
        holds: stage.holds.load(Ordering::Relaxed),
        natives: world.natives(),
        counted: stage.counts.counted(),
        history: world.history(),
        plan: history.then(|| stage.plan.clone()),
        planned: script.map(|script| script.planned()).unwrap_or_default(),
        begun: script.map(|script| script.begun()).unwrap_or_default(),
    };
    let (seen, trace) = (world.seen(), world.trace());
    world.end();
    (outcome, seen, trace)
}

fn client(stage: &Stage, random: &Random, number: usize) -> (Client, Arc<Inbox>, Arc<Watchdog>) {
    let world = &stage.world;
    let drift = stage.plan.habit(number).drift;
    world.allow_for(number, drift);
    let links = world.links(number);
    let inbox = Inbox::new(world.inbox(number), &links);
    let mut set = Set::new(
        links,
        world.clock(number),
        Arc::new(Random::scripted(
            random.bits(),
            2 + number as u32,
            stage.random.script(),
        )),
        stage.plan.max_ttl(),
        drift,
        |_| (),
    );
    set.connect_timeout = defaults::CONNECT_TIMEOUT;
    let set = Arc::new(set);
    let watchdog = Watchdog::new(set.clock.clone());
    watchdog.serve(&set);
    let (watches, clock) = (watchdog.clone(), world.clock(number));
    if death::are_wanted() {
        world.spawn_own(number, async move {
            lasting(|| watches.clone().run(), clock, death::told, "").await;
        })
    } else {
        world.spawn_own(number, watches.run())
    }
    let client = part(stage, number, &set, &inbox, &watchdog);
    (client, inbox, watchdog)
}

/// What the user of a client has, or a part of its users.
fn part(
    stage: &Stage,
    number: usize,
    set: &Arc<Set>,
    inbox: &Arc<Inbox>,
    watchdog: &Arc<Watchdog>,
) -> Client {
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
    let opens = |namespace: &str| {
        let builder = builder.clone().namespace(namespace);
        builder.simulated(set.clone(), inbox.clone(), watchdog.clone(), plan.waits)
    };
    let door = opens(NAMESPACES[0]);
    let neighbours = plan
        .programs
        .is_some_and(|programs| programs.has_neighbours());
    let client = Client {
        number,
        set: set.clone(),
        beside: if neighbours {
            opens(NAMESPACES[1])
        } else {
            door.clone()
        },
        door,
    };
    let mut doors = stage.clients.lock().expect("one thread");
    doors.push(client.clone());
    client
}

/// Lets the contenders contend until all are done and everything is right
/// again. Returns when that was; `None` where they never are, and may be so.
fn play(stage: &Stage) -> Option<Time> {
    let (world, plan) = (&stage.world, &stage.plan);
    let ttl = plan.ttl.as_nanos() as Time;
    let mut until = 0;
    let mut calm = false;
    loop {
        until += ttl / 8;
        world.run(until);
        world.check_leaks(false);
        world.check_heard();
        if plan.tail > 0 || plan.is_untroubled() {
            world.check_lines();
        }
        if world.violation().is_some() {
            return Some(until);
        }
        let right = plan.troubled.max(world.mended_at());
        if until >= right {
            world.calm();
            death::calm();
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
            let busy = stage.busy[c].load(Ordering::Relaxed) > 0;
            done == plan.workers && !busy || world.is_crashed(c)
        };
        if calm && (0..plan.clients).all(done) {
            world.all_done();
            return Some(until);
        }
        // No contender begins anything new; the longest holds the lock for
        // two ttls, and is lost for two more.
        if until > right + 6 * ttl + 2_000 * MS + plan.pauses() + plan.tail_ends() {
            if plan.guard || plan.nodes % 2 == 1 || !homes_differ(stage) {
                world.violated("L5 a call never returns".into());
            }
            return None;
        }
    }
}

/// Whether clients know a node by different names, as where all of it was deleted, without a guard, and
/// one of them is connected to it since before: then they wait at different homes. With an even number of
/// nodes none of these may decide between them, and they may keep each other out (docs/reference/protocol.md).
fn homes_differ(stage: &Stage) -> bool {
    let clients = stage.clients.lock().expect("one thread");
    let mut known = clients.iter().map(|client| {
        let mut ids: Vec<u64> = client.set.links.iter().map(|link| link.id()).collect();
        ids.sort_unstable();
        ids
    });
    let first = known.next();
    known.any(|ids| Some(ids) != first)
}

/// The end: what is left on the nodes goes by itself, and the lock is to be
/// had again.
fn epilogue(stage: &Arc<Stage>, random: &Random, finish: Time, veterans: Vec<Client>) {
    let (world, plan) = (&stage.world, &stage.plan);
    let ttl = plan.ttl.as_nanos() as Time;
    let life = Time::from(LONGEST) * (ttl + ttl / 50) + 10 * MS + world.stepped_back();
    let late = plan.network.tail + 10 * plan.network.base + 2 * plan.network.reach;
    let undone = finish + undone_within(stage);
    world.run(undone);
    world.check_leaks(true);
    world.run((finish + life + late).max(undone));
    world.check_leaks_of_all();
    if world.has_strayed() {
        return;
    }
    // Whoever was there when a node failed over has to find its way.
    let gone = |client: &Client| world.is_crashed(client.number) || client.door.is_closed();
    let alive = |client: &Client| plan.fails_over() && !gone(client);
    let veteran = veterans.into_iter().find(alive);
    let prober = veteran.unwrap_or_else(|| client(stage, random, plan.clients).0);
    // A node that nobody has seen since its restart is in quarantine first.
    let quarantine = if plan.guard {
        plan.max_ttl().mul_f64(1.1)
    } else {
        Duration::ZERO
    };
    let most = plan.ttl + quarantine + plan.grace() + Duration::from_millis(500);
    let most = most + Duration::from_nanos(plan.pauses());
    // Whoever came back with an old snapshot is called in its turn, in vain.
    let most = most + plan.waits.reservation * world.ghosts();
    world.traces_probing(prober.number);
    world.spawn(prober.number, prober.probe(stage.clone(), most));
    let mut until = world.time();
    // Each of its calls waits so long, and has to be given back.
    let calls = plan.locks + plan.slots.unwrap_or(0) as usize + NEIGHBOURS.len();
    let end = until + (calls as Time + 2) * most.as_nanos() as Time;
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
