//! L4 at the calm end of a schedule: a lock that nobody has, and for which no vote stands, is
//! soon won while somebody waits for it. Here no message is lost and nobody gives up, so a hand-off does it each time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::Client;

use super::schedule::{NAMES, Stage, lock};
use super::world::{MS, Time};

/// Each takes the lock so often,
const ROUNDS: u32 = 2;
/// and waits for it for as many times its ttl.
const WAITS: u64 = 10;
/// How long the place lasts of one that has left without anybody hearing of it.
const PLACE: Time = 7_500 * MS;
/// A lock may be idle for so much of a reservation, in percent,
const GAP_SHARE: u64 = 45;
/// or for so long,
const GAP_LEAST: Time = 20 * MS;
/// or for this many times the longest way of a message, whatever is longest.
const GAP_WAYS: u64 = 16;

/// One lock, as its users see it.
#[derive(Default)]
struct Line {
    waiting: u32,
    holding: u32,
    /// When it began to be so that nobody has it and somebody waits.
    since: Time,
}

impl Line {
    fn is_idle(&self) -> bool {
        self.waiting > 0 && self.holding == 0
    }
}

impl Stage {
    /// All clients take the lock in turns, once they have found their connections, and after
    /// all that was left behind has ended.
    pub(super) fn tail<'a>(self: &Arc<Stage>, clients: impl Iterator<Item = &'a Client>) {
        let (world, line) = (&self.world, Arc::new(Mutex::new(Line::default())));
        let clients: Vec<&Client> = clients.collect();
        self.all_take(&clients, 1, &line, &mut || ());
        if world.inner().violation.is_some() {
            return;
        }
        let (quarantine, ttl) = (self.plan.expected().quarantine, self.plan.ttl);
        let most = quarantine.max(ttl).as_nanos() as Time + PLACE;
        let calm = world.inner().time + most;
        world.run(calm, &mut || ());
        let ways = GAP_WAYS * 2 * self.plan.network.base;
        let reservation = ttl.as_nanos() as Time / 3;
        let most = (reservation * GAP_SHARE / 100).max(GAP_LEAST).max(ways);
        let (judged, known) = (world.clone(), line.clone());
        let mut judge = move || {
            let mut line = lock(&known);
            if !line.is_idle() {
                return;
            }
            let inner = judged.inner();
            let now = inner.time;
            if inner.clusters.iter().any(|c| c.has_vote(NAMES[0], now)) {
                // Somebody may have the lock in a moment, or has given it up by then.
                line.since = now;
            }
            drop(inner);
            if now > line.since + most {
                let (idle, most) = ((now - line.since) / MS, most / MS);
                let waiting = line.waiting;
                let what = format!("L4 a lock is idle for {idle} ms of {most}, {waiting} wait");
                judged.violated(what);
            }
        };
        self.all_take(&clients, ROUNDS, &line, &mut judge);
    }

    /// Each client takes the lock so often.
    fn all_take(
        self: &Arc<Stage>,
        clients: &[&Client],
        rounds: u32,
        line: &Arc<Mutex<Line>>,
        judge: &mut dyn FnMut(),
    ) {
        let done = Arc::new(AtomicU64::new(0));
        for client in clients {
            let (stage, client) = (self.clone(), (*client).clone());
            let (line, done) = (line.clone(), done.clone());
            self.world.spawn(Box::pin(async move {
                for _ in 0..rounds {
                    stage.take(&client, &line).await;
                }
                done.fetch_add(1, Ordering::Relaxed);
            }));
        }
        let (users, ttl) = (clients.len() as u64, self.plan.ttl.as_nanos() as Time);
        let end = self.world.inner().time + users * WAITS * ttl + 30_000 * MS;
        self.wait_for(&done, users, end, judge);
    }

    /// A user takes the lock, and gives it back after a while.
    async fn take(&self, client: &Client, line: &Mutex<Line>) {
        let (world, clock) = (&self.world, self.world.clock());
        let tell = |change: &dyn Fn(&mut Line)| {
            let (mut line, now) = (lock(line), world.inner().time);
            let idle = line.is_idle();
            change(&mut line);
            if line.is_idle() && !idle {
                line.since = now;
            }
        };
        let ttl = self.plan.ttl;
        let shared = self.random.chance(20);
        tell(&|line| line.waiting += 1);
        let asked = client.lock(NAMES[0]).shared(shared);
        let lease = match asked.wait(WAITS as u32 * ttl).acquire().await {
            Ok(lease) => lease,
            Err(why) => return world.violated(format!("L4 a lock is not to be had: {why}")),
        };
        tell(&|line| (line.waiting, line.holding) = (line.waiting - 1, line.holding + 1));
        let long = self.random.below(ttl.as_nanos() as u64 / 8);
        let until = clock.now() + Duration::from_nanos(long);
        clock.sleep_until(until).await;
        tell(&|line| line.holding -= 1);
        let _ = lease.release().await;
    }
}
