//! One schedule: everything that happens in it follows from its seed.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use quorlock::sim::{
    Acquired, Clock, Counters, Hold, Instant, Set, Terms, Timing, Watchdog, acquire,
};

use crate::random::Random;
use crate::world::{FaultEvent, MS, Network, RECONNECT, Rate, Time, World};

/// Clock rates differ by less than this: the drift that leases allow for.
const DRIFT: f64 = 0.01;
/// Loss must be told within this time after the end of validity (S5).
const TOLD_WITHIN: Duration = Duration::from_millis(10);
const KEY: &[u8] = b"lock:{k}";

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

/// What a seed stands for.
struct Plan {
    nodes: usize,
    clients: usize,
    workers: usize,
    rounds: u64,
    ttl: Duration,
    node_timeout: Duration,
    renew: bool,
    network: Network,
    /// Ends of the time in which things go wrong.
    troubled: Time,
    faulty: bool,
}

impl Plan {
    fn draw(random: &Random) -> Plan {
        let nodes = *random.pick(&[1, 2, 3, 3, 3, 4, 5, 5]);
        let ttl = *random.pick(&[20u64, 20, 50, 50, 100, 100, 100, 400]);
        let node_timeout = (ttl / 4).clamp(1, 250);
        let base = *random.pick(&[20_000u64, 100_000, 100_000, 500_000]);
        let faulty = random.chance(80);
        let network = Network {
            base,
            slow: if faulty {
                *random.pick(&[0, 2, 10, 30])
            } else {
                0
            },
            // Edge timing: a slow message may take as long as a ttl.
            tail: (ttl as f64 * *random.pick(&[0.3, 1.0, 1.2])) as u64 * MS,
            cut: if faulty {
                *random.pick(&[0, 0, 1, 5])
            } else {
                0
            },
        };
        Plan {
            nodes,
            clients: *random.pick(&[2, 2, 3]),
            workers: *random.pick(&[1, 1, 2]),
            rounds: random.between(2, 4),
            ttl: Duration::from_millis(ttl),
            node_timeout: Duration::from_millis(node_timeout),
            renew: random.chance(60),
            network,
            troubled: ttl * MS * random.between(2, 4),
            faulty,
        }
    }

    /// Episodes of faults, often begun near the end of a ttl.
    fn faults(&self, random: &Random, world: &World) {
        if !self.faulty {
            return;
        }
        let ttl = self.ttl.as_nanos() as u64;
        for _ in 0..random.below(4) {
            let at = random.below(self.troubled);
            // Lengths over the decades, and often just about a ttl.
            let long = if random.chance(40) {
                (ttl as f64 * (0.97 + 0.08 * random.share())) as u64
            } else {
                (ttl as f64 * 1.5).powf(random.share()) as u64
            };
            let node = random.below(self.nodes as u64) as usize;
            let client = random.below(self.clients as u64) as usize;
            let fault = match random.below(10) {
                0 | 1 => FaultEvent::PauseNode(node, long),
                2 => FaultEvent::CrashNode(node, long),
                3 | 4 => FaultEvent::Cut(client, node, long),
                5..=8 => FaultEvent::PauseClient(client, long),
                _ => FaultEvent::CrashClient(client),
            };
            world.plan(at, fault);
        }
    }
}

/// A clock whose rate is off by less than half the drift bound, so that two of
/// them differ by less than the bound.
fn rate(random: &Random, wild: bool) -> Rate {
    let share = if wild {
        random.share() * 2.0 - 1.0
    } else {
        0.0
    };
    Rate {
        offset: random.between(1_000 * MS, 10_000_000 * MS),
        rate: 1.0 + share * 0.49 * DRIFT,
    }
}

/// What the tasks of a schedule share.
struct Stage {
    world: Arc<World>,
    random: Random,
    plan: Plan,
    holds: AtomicU64,
}

/// Runs the schedule of `seed`.
pub fn run(seed: u64, history: bool) -> Outcome {
    let random = Random::new(seed);
    let plan = Plan::draw(&random);
    let wild = random.chance(70);
    let node_clocks: Vec<Rate> = (0..plan.nodes).map(|_| rate(&random, wild)).collect();
    let client_clocks: Vec<Rate> = (0..plan.clients).map(|_| rate(&random, wild)).collect();
    let world = World::new(
        Random::new(random.bits()),
        plan.network,
        &node_clocks,
        &client_clocks,
        history,
    );
    plan.faults(&random, &world);
    let stage = Arc::new(Stage {
        world: world.clone(),
        random: Random::new(random.bits()),
        plan,
        holds: AtomicU64::new(0),
    });
    for client in 0..stage.plan.clients {
        let set = Arc::new(Set {
            links: world.links(client),
            clock: world.clock(client),
            rng: Arc::new(Random::new(random.bits())),
            max_ttl: stage.plan.ttl * 6,
            counters: Counters::default(),
            warn: |_| (),
        });
        let watchdog = Watchdog::new(set.clock.clone());
        world.spawn(client, watchdog.clone().run());
        for _ in 0..stage.plan.workers {
            let (stage, set, watchdog) = (stage.clone(), set.clone(), watchdog.clone());
            world.spawn(client, worker(stage, client, set, watchdog));
        }
    }
    // The end is calm: workers stop, the network mends, and the last release
    // gets through.
    let ttl = stage.plan.ttl.as_nanos() as u64;
    let step = ttl / 8;
    let mut until = stage.plan.troubled;
    while until < stage.plan.troubled + 8 * ttl + 500 * MS && world.violation().is_none() {
        world.run(until);
        check_leaks(&stage);
        until += step;
    }
    let outcome = Outcome {
        violation: world.violation(),
        events: world.counts().0,
        faults: world.counts().1,
        holds: stage.holds.load(Ordering::Relaxed),
        history: world.history(),
    };
    world.end();
    outcome
}

/// One contender: takes the lock, holds it for a while, gives it up.
async fn worker(stage: Arc<Stage>, client: usize, set: Arc<Set>, watchdog: Arc<Watchdog>) {
    let (random, plan) = (&stage.random, &stage.plan);
    let timing = Timing::of(plan.ttl, DRIFT, 0.1, plan.node_timeout);
    let terms = Terms {
        key: KEY.into(),
        label: "".into(),
        timing,
        drift: DRIFT,
        renew: plan.renew,
        max_hold: random.chance(20).then(|| plan.ttl.mul_f64(1.5)),
        gone: None,
    };
    let ttl = plan.ttl.as_nanos() as u64;
    let clock = set.clock.clone();
    for _ in 0..plan.rounds {
        stage.world.done_with_tokens(None);
        let wait = *random.pick(&[
            None,
            None,
            Some(Duration::ZERO),
            Some(plan.ttl.mul_f64(1.5)),
        ]);
        let attempt = acquire(&set, &terms, b"k", wait, || {
            (stage.world.time() > stage.plan.troubled).then_some(())
        });
        // Some callers change their mind.
        let hold = if random.chance(20) {
            let patience = Duration::from_nanos((ttl as f64).powf(random.share()) as u64);
            let (deadline, clock) = (clock.now() + patience, clock.clone());
            match or_until(attempt, &*clock, deadline).await {
                Some(Ok(Acquired::Hold(hold))) => hold,
                Some(Ok(Acquired::Other(()))) => return stage.world.done_with_tokens(None),
                _ => continue,
            }
        } else {
            match attempt.await {
                Ok(Acquired::Hold(hold)) => hold,
                Ok(Acquired::Other(())) => return stage.world.done_with_tokens(None),
                Err(_) => continue,
            }
        };
        stage.world.done_with_tokens(Some(hold.token().as_str()));
        stage.holds.fetch_add(1, Ordering::Relaxed);
        let index = stage.world.watch(client, hold.clone());
        check_exclusion(&stage, index, client, &hold);
        let watched = watchdog.watch(hold.clone());
        hold_for_a_while(&stage, client, &hold, &*clock, ttl).await;
        stage.world.unwatch(index);
        let (_, release) = hold.release();
        stage.world.done_with_tokens(None);
        drop(watched);
        stage
            .world
            .note(|| format!("c{client} released {}", &hold.token().as_str()[..6]));
        if random.chance(50) {
            release.acknowledged().await;
        }
        if random.chance(40) {
            let pause = Duration::from_nanos(random.below(ttl / 4));
            clock.sleep_until(clock.now() + pause).await;
        }
    }
    stage.world.done_with_tokens(None);
}

/// Holds the lease for a random time or until it is lost, and checks that it
/// is told of the loss in time.
async fn hold_for_a_while(
    stage: &Stage,
    client: usize,
    hold: &Arc<Hold>,
    clock: &dyn Clock,
    ttl: u64,
) {
    let random = &stage.random;
    let long = if random.chance(50) { ttl * 2 } else { ttl / 8 };
    let deadline = clock.now() + Duration::from_nanos(random.below(long));
    loop {
        // Looks at moments of its own, and once at the very end of validity.
        let step = clock.now() + Duration::from_nanos(1 + random.below(ttl / 3));
        let end = hold.end();
        let next = step.min(deadline);
        let told = or_until(hold.lost(), clock, next).await;
        check_holds(stage);
        if let Some(reason) = told {
            stage.world.note(|| format!("c{client} lost {reason:?}"));
            if hold.is_held() {
                stage
                    .world
                    .violated(format!("S5 c{client} holds a lease after its loss"));
            }
            // A loss is final, whatever still arrives.
            clock
                .sleep_until(clock.now() + Duration::from_nanos(ttl / 4))
                .await;
            if hold.is_held() {
                stage
                    .world
                    .violated(format!("S5 c{client}: a lost lease became valid again"));
            }
            return;
        }
        // Not told: then it may not have been over for long.
        let late = clock.now() > end + TOLD_WITHIN && hold.end() == end;
        if late && end > Instant::NEVER && !stage.world.was_paused(client) {
            stage
                .world
                .violated(format!("S5 c{client} was not told of its loss"));
        }
        if clock.now() >= deadline {
            return;
        }
        if random.chance(20) {
            or_until(hold.extend(stage.plan.ttl), clock, deadline).await;
        }
    }
}

/// S1: nobody else holds a valid lease at the moment one is won.
fn check_exclusion(stage: &Stage, index: usize, client: usize, hold: &Arc<Hold>) {
    let promised = hold.terms().timing.min_validity;
    // The winner runs in the moment of the verdict.
    if hold.remaining() < promised {
        stage
            .world
            .violated(format!("S4 c{client} won a lease with too little validity"));
    }
    if !hold.is_held() {
        return;
    }
    stage
        .world
        .note(|| format!("c{client} won {}", &hold.token().as_str()[..6]));
    check_holds(stage);
    for watch in stage.world.watched() {
        if watch.index != index && !watch.released && !watch.crashed && watch.hold.is_held() {
            stage.world.violated(format!(
                "S1 c{client} won the lock while c{} holds it",
                watch.client
            ));
        }
    }
}

/// S1, S4 and S5 over all leases, at this moment.
fn check_holds(stage: &Stage) {
    let quorum = stage.plan.nodes / 2 + 1;
    let mut valid = 0;
    for watch in stage.world.watched() {
        if watch.hold.is_held() && !watch.released && !watch.crashed {
            valid += 1;
            let votes = stage.world.votes(KEY, watch.hold.token().as_str());
            if votes < quorum {
                stage.world.violated(format!(
                    "S4 c{} believes in a lease that {votes} of {} nodes hold",
                    watch.client, stage.plan.nodes
                ));
            }
            if watch.was_over {
                stage.world.violated(format!(
                    "S5 a lease of c{} became valid again",
                    watch.client
                ));
            }
        } else if watch.released && watch.hold.is_held() {
            stage
                .world
                .violated(format!("S5 a released lease of c{} is valid", watch.client));
        } else {
            stage.world.mark_over(watch.index);
        }
    }
    if valid > 1 {
        stage
            .world
            .violated(format!("S1 {valid} leases are valid at once"));
    }
}

/// L1: a dead token leaves no key behind, once its release got through.
fn check_leaks(stage: &Stage) {
    let network = stage.plan.network;
    let slow = if network.slow > 0 { network.tail } else { 0 };
    let through = 4 * (2 * network.base + slow);
    // A broken connection is found at the next deadline.
    let found = 2 * stage.plan.node_timeout.as_nanos() as u64;
    let retries = match (stage.plan.faulty, network.cut) {
        (false, _) => 0,
        (true, 0) => found + 4 * RECONNECT,
        // Reconnects break too.
        (true, _) => found + 40 * RECONNECT,
    };
    if let Some(leak) = stage.world.leak(through + retries) {
        stage.world.violated(leak);
    }
}

/// Runs `future` until `deadline`; drops it then.
async fn or_until<F: Future>(future: F, clock: &dyn Clock, deadline: Instant) -> Option<F::Output> {
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
