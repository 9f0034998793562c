//! Programs of users: several handles and tasks of one client that act at once on one lease,
//! beside its renewals and each other, and of other clients that adopt it, or take it away.
//!
//! A program is wholly given by one draw. Each of its deeds begins at a moment of its own, mostly
//! close to that of others or to a renewal, and some are given up in their middle. A deed is a
//! [part](crate::without::Part::Deed) of its schedule, which can be taken away.

mod acts;
mod adopts;
mod counts;
mod crowd;
mod forces;

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use quorlock::sim::Instant;
use quorlock::{Lease, Lock, Owner};

use crate::contender::{Client, NAMES, Stage, or_until};
use crate::neighbour::{How, NAMESPACES, Neighbour};
use crate::plan::Plan;
use crate::random::Random;
use crate::who::Who;
pub use counts::{Counted, Counts};

/// Percent of schedules in which users run programs.
const PROGRAMS: u64 = 33;

/// What programs are like in a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Programs {
    /// For how much of the longest ttl some locks are kept.
    keep: f64,
    /// How many slots the semaphore has that programs use; 0: they use none.
    slots: u32,
    /// Percent of programs that share their lock.
    shares: u64,
    /// Percent of programs that close their client.
    closes: u64,
    /// Percent of programs that are a crowd of readers.
    crowds: u64,
    /// Percent of programs with a [lock](crate::neighbour) of another namespace or layout.
    neighbours: u64,
    /// How often another program stores what is its own under a lock's key.
    pub foreign: u64,
}

impl Programs {
    /// Draws them, if there are any.
    pub fn draw(random: &Random) -> Option<Programs> {
        random.chance(PROGRAMS).then(|| Programs {
            keep: if random.chance(30) {
                random.share()
            } else {
                0.0
            },
            slots: *random.pick(&[0, 0, 2, 3]),
            shares: *random.pick(&[0, 0, 20, 50]),
            closes: *random.pick(&[0, 0, 0, 15]),
            crowds: *random.pick(&[0, 0, 0, 4]),
            neighbours: *random.pick(&[0, 0, 0, 35, 70]),
            foreign: *random.pick(&[0, 0, 0, 1, 3]),
        })
    }

    /// Whether locks are shared.
    fn may_share(&self) -> bool {
        self.shares > 0 || self.crowds > 0
    }

    /// Whether locks are in the way of which no waiter is told as they end.
    pub fn has_strangers(&self) -> bool {
        self.foreign > 0 || self.neighbours > 0
    }

    /// The same without locks of other namespaces and layouts, where these may not be told of a
    /// wrong setting: that the lock is another's in another layout is one.
    pub fn without_neighbours(self) -> Programs {
        Programs {
            neighbours: 0,
            ..self
        }
    }

    /// Whether there are locks of other namespaces and layouts.
    pub fn has_neighbours(&self) -> bool {
        self.neighbours > 0
    }

    /// Whether crowds come, whose leases are not in the trace.
    pub fn has_crowds(&self) -> bool {
        self.crowds > 0
    }

    /// A plan whose users run them.
    pub fn of(self, plan: Plan) -> Plan {
        let keep = if plan.keep.is_zero() {
            plan.max_ttl().mul_f64(self.keep)
        } else {
            plan.keep
        };
        // All ask for the same number of slots.
        let slots = plan.slots.unwrap_or(self.slots);
        let alone = plan.several;
        let programs = Programs {
            slots: if alone { 0 } else { slots },
            shares: if alone { 0 } else { self.shares },
            crowds: if alone { 0 } else { self.crowds },
            neighbours: if alone { 0 } else { self.neighbours },
            ..self
        };
        Plan {
            keep,
            programs: Some(programs),
            ..plan
        }
    }
}

/// A handle on a lease, as tasks of its client share it.
struct Handle {
    lease: Arc<Lease>,
    /// Its place with the oracle.
    index: usize,
    /// It was given back, or its lease was exported by it.
    ended: AtomicBool,
}

/// How a handle stands before a call.
#[derive(Clone, Copy)]
struct Before {
    ended: bool,
    /// The lease's end.
    end: Instant,
}

impl Handle {
    fn stands(&self) -> Before {
        Before {
            ended: self.has_ended(),
            end: self.lease.hold().end(),
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Whether its lock's key is its name.
    fn is_raw(&self) -> bool {
        let keys = &self.lease.hold().terms().keys;
        keys.aux.queue().windows(4).any(|part| part == b"#q:#")
    }

    /// How long one request to one node may take.
    fn node_timeout(&self) -> Duration {
        self.lease.hold().terms().timing.node_timeout
    }

    /// It has; whether it had before.
    fn ends(&self) -> bool {
        self.ended.swap(true, Ordering::Relaxed)
    }
}

/// Which program, and which deed of it: those that follow from a deed have its number before
/// their own.
#[derive(Clone, Copy)]
struct Place {
    user: usize,
    round: u64,
    deed: u64,
}

impl Place {
    fn after(self, next: u64) -> Place {
        let deed = self.deed * 10 + next + 1;
        Place { deed, ..self }
    }

    /// How many deeds it follows from.
    fn depth(self) -> u32 {
        self.deed.checked_ilog10().map_or(0, |digits| digits + 1)
    }

    /// Whether the deed is done, and not taken away.
    fn is_done(self, stage: &Stage) -> bool {
        stage.does((self.user, self.round), self.deed)
    }
}

/// Tasks that somebody waits for.
#[derive(Default)]
struct Crew(Mutex<(usize, Option<Waker>)>);

impl Crew {
    /// All of them are done.
    async fn is_done(&self) {
        poll_fn(|cx| {
            let mut crew = quorlock::binding::lock(&self.0);
            crew.1 = Some(cx.waker().clone());
            match crew.0 {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })
        .await;
    }
}

/// One of a client's tasks beside its users' own, while it is there: the schedule waits for it.
struct Busy {
    stage: Arc<Stage>,
    client: usize,
    crew: Option<Arc<Crew>>,
}

impl Busy {
    fn new(stage: &Arc<Stage>, client: usize, crew: Option<&Arc<Crew>>) -> Busy {
        stage.busy[client].fetch_add(1, Ordering::Relaxed);
        if let Some(crew) = crew {
            quorlock::binding::lock(&crew.0).0 += 1;
        }
        Busy {
            stage: stage.clone(),
            client,
            crew: crew.cloned(),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stage.busy[self.client].fetch_sub(1, Ordering::Relaxed);
        let Some(crew) = &self.crew else { return };
        let waker = {
            let mut crew = quorlock::binding::lock(&crew.0);
            crew.0 -= 1;
            crew.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Stage {
    /// Any part of any client's users, in the namespace of that lease.
    fn somebody(&self, random: &Random, lease: &Lease) -> Client {
        let one = self.anybody(random);
        let queue = lease.hold().terms().keys.aux.queue();
        if queue.starts_with(NAMESPACES[1].as_bytes()) {
            one.beside()
        } else {
            one
        }
    }

    /// The same, whatever it is for.
    fn anybody(&self, random: &Random) -> Client {
        let clients = quorlock::binding::lock(&self.clients);
        random.pick(&clients).clone()
    }
}

impl Client {
    /// Another task of this client begins, for a user's program.
    fn begins(
        &self,
        stage: &Arc<Stage>,
        place: Place,
        crew: Option<&Arc<Crew>>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let busy = Busy::new(stage, self.number, crew);
        let world = stage.world.clone();
        stage
            .world
            .spawn_as(Who::User(place.user), self.number, async move {
                work.await;
                world.done_with_tokens();
                drop(busy);
            });
    }

    /// Lets so much time go by.
    async fn pauses(&self, long: Duration) {
        let clock = &*self.set.clock;
        clock.sleep_until(clock.now() + long).await;
    }

    /// A user of this client has a lease, or another handle on one. From here on a task of its
    /// own listens whether it is lost (HL1). `asked`: it was won by asking the nodes for a vote.
    fn has(&self, stage: &Arc<Stage>, place: Place, lease: Lease, asked: bool) -> Arc<Handle> {
        let (world, lease) = (&stage.world, Arc::new(lease));
        let index = if asked {
            world.won(self.number, &lease)
        } else {
            world.won_with_others(self.number, &lease)
        };
        world.listens(index);
        let (lost, listening) = (lease.lost(), world.clone());
        world.spawn_as(Who::User(place.user), self.number, async move {
            let reason = lost.await;
            listening.told_of_loss(index, reason);
        });
        Arc::new(Handle {
            lease,
            index,
            ended: AtomicBool::new(false),
        })
    }

    /// A lock as a program asks for it, how long it waits, and whether it has an owner.
    fn wants(
        &self,
        stage: &Stage,
        user: usize,
        neighbour: Option<Neighbour>,
        random: &Random,
    ) -> (Lock, Option<Duration>, bool) {
        let (plan, ttl) = (&stage.plan, stage.plan.ttl);
        let programs = plan.programs.expect("users run programs");
        let how = neighbour.map_or(How::Plain, |neighbour| neighbour.how);
        let name = NAMES[random.below(plan.locks as u64) as usize];
        let slots = programs.slots > 0 && random.chance(25) && neighbour.is_none();
        let shares = !slots && random.chance(programs.shares) && how == How::Plain;
        let lock = match neighbour {
            Some(neighbour) => neighbour.of(self).shared(shares),
            None if slots => self.door.semaphore(NAMES[0], programs.slots),
            None => self.door.lock(name).shared(shares),
        };
        let keep = !shares && !plan.keep.is_zero() && random.chance(40);
        let keep = keep && how != How::Redisson;
        let lock = if keep { lock.keep(plan.keep) } else { lock };
        let cap = random.chance(15).then(|| ttl.mul_f64(1.0 + random.share()));
        let owned = random.chance(25);
        // Its own: nobody else enters its leases.
        let owner = owned.then(|| Owner::named(format!("p{user}")));
        let label = ["", "other"][usize::from(random.chance(20))];
        let wait = match random.below(3) {
            0 => Duration::ZERO,
            1 => ttl.mul_f64(random.share() * 0.3),
            _ => ttl.mul_f64(random.share()),
        };
        let lock = lock.max_hold(cap).owner(owner).label(label);
        (lock.wait(wait), Some(wait), owned)
    }

    /// Runs a program in a round.
    pub async fn program(&self, stage: &Arc<Stage>, (user, round): (usize, u64)) {
        let (world, plan) = (&stage.world, &stage.plan);
        let random = Random::new(stage.random.bits());
        let place = Place {
            user,
            round,
            deed: 0,
        };
        let programs = plan.programs.expect("users run programs");
        if random.chance(programs.crowds) {
            return self.crowd(stage, place, &random).await;
        }
        if random.chance(50)
            && let Some(at) = world.aim()
        {
            self.pauses(Duration::from_nanos(at.saturating_sub(world.time())))
                .await;
        }
        let neighbour = random.chance(programs.neighbours).then(|| {
            // Readers of one key are known in their own namespace alone; and who waits at the end
            // is called by its own queue alone.
            let one_key = plan.tail == 0 && !plan.shares && !programs.may_share();
            Neighbour::draw(&random, one_key, plan.breaks.is_none())
        });
        let away = neighbour.is_some_and(|neighbour| neighbour.namespace == 1);
        let client = if away { self.beside() } else { self.clone() };
        let (lock, wait, owned) = client.wants(stage, user, neighbour, &random);
        stage.says(|| match neighbour {
            None => "begins a program with the lock".into(),
            Some(one) => format!("begins a program with {}", one.in_words()),
        });
        client.runs(stage, place, (lock, wait, owned), random).await;
    }

    /// Asks for a lock, and does with it what its program says.
    async fn runs(
        &self,
        stage: &Arc<Stage>,
        place: Place,
        (lock, wait, owned): (Lock, Option<Duration>, bool),
        random: Random,
    ) {
        let (world, clock, plan) = (&stage.world, &*self.set.clock, &stage.plan);
        let begun = self.now(stage);
        let left = Duration::from_nanos(plan.troubled.saturating_sub(world.time()));
        let asked = or_until(self.try_or_wait(world, &lock, wait), clock, begun.1 + left);
        let asked = self.judge_outcome(stage, begun, wait, asked.await);
        let Some(lease) = asked else { return };
        stage.holds.fetch_add(1, Ordering::Relaxed);
        stage.counts.programs.fetch_add(1, Ordering::Relaxed);
        world.check_asked_for(self.number, &lock, lease.hold());
        let first = self.has(stage, place, lease, true);
        world.done_with_tokens();
        let mut handles = vec![first];
        if owned && random.chance(60) {
            handles.extend(self.enters_again(stage, place, &lock, &handles[0]).await);
        }
        self.goes_on(stage, place, handles, Some(lock), random)
            .await;
    }

    /// Another handle on the lease, at once.
    async fn enters_again(
        &self,
        stage: &Arc<Stage>,
        place: Place,
        lock: &Lock,
        first: &Handle,
    ) -> Option<Arc<Handle>> {
        let clock = &*self.set.clock;
        let again = or_until(lock.acquire(), clock, clock.now()).await;
        match again {
            Some(Ok(again)) => {
                stage.world.check_asked_for(self.number, lock, again.hold());
                Some(self.has(stage, place, again, true))
            }
            _ => {
                // Alone within what it shares is refused (RW2).
                if clock.now() < first.lease.says_until() && !first.lease.is_shared() {
                    let c = self.number;
                    let what = format!("L2 c{c} does not re-enter what it holds");
                    stage.world.violated(what);
                }
                None
            }
        }
    }
}
