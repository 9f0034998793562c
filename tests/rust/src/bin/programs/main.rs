//! Programs that are drawn: tasks that take leases by hand and by name, alone and shared, one at
//! a time and several at once, hand them on, downgrade, export, lose, cancel and drop them, over
//! few names. Whatever is entered is counted in and out by hand, and judged:
//!
//! - never are more inside than may be, but for those whose lease was told lost;
//! - a lease whose scope is open is held, or was told lost, whatever else is left meanwhile;
//! - each refusal is one that the state of the program explains;
//! - at the end nothing is held.
//!
//! `programs [--programs N] [--from SEED]` runs them on nodes within the process, or on the node
//! of `QUORLOCK_NODES`, and ends with `N passed, M failed`. A program is played again by its seed.

// Its waits are real, and short.
#![allow(clippy::disallowed_methods)]

mod judge;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use judge::{Held, Inside, Judge, Party, lock};
use quorlock::{Client, Error, ErrorKind, Lease, LossReason, Owner};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

const NAMES: usize = 2;
const SLOTS: u32 = 2;
const CLIENTS: usize = 2;
const DEEPEST: u32 = 4;
/// Most of a program's time is waiting.
const AT_A_TIME: usize = 16;

/// Splitmix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// A scope that is open. Counted out before its lease goes.
struct Scope {
    inside: Vec<Inside>,
    held: Held,
}

struct Program {
    judge: Arc<Judge>,
    clients: [Client; CLIENTS],
    rival: Client,
    names: [String; NAMES + 1],
    closed: [AtomicBool; CLIENTS],
    /// Which locks were exported by a task that did not come to adopt them: they stay taken.
    adrift: [AtomicBool; NAMES],
    /// Which locks a task has made lost.
    struck: [AtomicBool; NAMES + 1],
    /// Which parties ask for which lock now; those that did so by two tasks at once.
    asking: Mutex<Vec<(usize, Party)>>,
    beside: Mutex<Vec<(usize, Party)>>,
    /// What is on its way from one task to another.
    parcels: Mutex<Vec<Scope>>,
    /// How many tasks run; also those whose parent was ended.
    running: AtomicUsize,
    all_ended: Notify,
}

/// A party asks for a lock, until this is dropped.
struct Asking<'a>(&'a Program, (usize, Party));

impl<'a> Asking<'a> {
    fn begin(program: &'a Program, place: usize, party: Party) -> Asking<'a> {
        let asks = (place, party);
        let mut asking = lock(&program.asking);
        if asking.contains(&asks) {
            lock(&program.beside).push(asks);
        }
        asking.push(asks);
        Asking(program, asks)
    }

    /// Whether two tasks of the party have asked at once: both may win, one after the other was
    /// lost, and the party then has a lease that is held beside one that is lost.
    fn were_two(&self) -> bool {
        lock(&self.0.beside).contains(&self.1)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut asking = lock(&self.0.asking);
        let at = asking.iter().position(|asks| *asks == self.1);
        at.map(|at| asking.swap_remove(at));
    }
}

/// Counts a task, until it ends.
struct Running(Arc<Program>);

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.all_ended.notify_one();
        }
    }
}

type Going = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A machine that stands still for a while is no fault of what is looked at.
fn client(node: &str) -> Result<Client, Error> {
    Client::builder()
        .nodes([node])
        .node_timeout(Duration::from_secs(10))
        .ttl(Duration::from_secs(60))
        .build()
}

impl Program {
    fn new(node: &str, seed: u64) -> Result<Program, Error> {
        Ok(Program {
            judge: Arc::default(),
            clients: [client(node)?, client(node)?],
            rival: client(node)?,
            names: std::array::from_fn(|at| format!("p{seed}-{at}")),
            closed: Default::default(),
            adrift: Default::default(),
            struck: Default::default(),
            asking: Mutex::default(),
            beside: Mutex::default(),
            parcels: Mutex::default(),
            running: AtomicUsize::new(0),
            all_ended: Notify::new(),
        })
    }

    async fn run(self, seed: u64) -> Option<String> {
        let mut random = Chance(seed);
        let program = Arc::new(self);
        let tasks = 1 + random.below(3);
        let tasks: Vec<_> = (0..tasks)
            .map(|_| program.spawn(program.clone().statements(random.next(), 0)))
            .collect();
        for task in tasks {
            program.judge.check(task.await.is_ok(), "a task panicked");
        }
        // Of tasks that were ended some have begun others.
        while program.running.load(Ordering::SeqCst) > 0 {
            program.all_ended.notified().await;
        }
        let left = std::mem::take(&mut *lock(&program.parcels));
        drop(left);
        if !program.judge.has_failed() {
            program.nothing_is_left().await;
        }
        lock(&program.judge.wrong).take()
    }

    fn spawn(
        self: &Arc<Program>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(self.clone());
        tokio::spawn(async move {
            work.await;
            drop(running);
        })
    }

    async fn nothing_is_left(&self) {
        let wait = Duration::from_secs(5);
        let mut held = Vec::new();
        for (name, adrift) in self.names.iter().zip(&self.adrift) {
            if adrift.load(Ordering::SeqCst) {
                continue;
            }
            held.push(self.rival.lock(name.as_str()).wait(wait).acquire().await);
        }
        for _ in 0..SLOTS {
            let slots = self.rival.semaphore(self.names[NAMES].as_str(), SLOTS);
            held.push(slots.wait(wait).acquire().await);
        }
        self.judge
            .check(held.iter().all(Result::is_ok), "a key is left");
    }

    fn statements(self: Arc<Program>, seed: u64, depth: u32) -> Going {
        Box::pin(async move {
            let mut random = Chance(seed);
            for _ in 0..1 + random.below(3) {
                if self.judge.has_failed() || depth == DEEPEST {
                    return;
                }
                let (seed, client) = (random.next(), random.below(CLIENTS));
                match random.below(12) {
                    0..=5 => self.clone().one(seed, depth, client).await,
                    6 => self.clone().slot(seed, depth, client).await,
                    7 => self.clone().all(seed, depth, client).await,
                    8 => drop(lock(&self.parcels).pop()),
                    9 => self.clone().task(seed, depth).await,
                    10 => {
                        let place = random.below(NAMES + 1);
                        self.struck[place].store(true, Ordering::SeqCst);
                        let name = self.names[place].as_str();
                        quorlock::testing::lose(name, LossReason::Refused);
                    }
                    _ if random.once_in(8) => {
                        self.closed[client].store(true, Ordering::SeqCst);
                        let _ = self.clients[client].close().await;
                    }
                    _ => tokio::task::yield_now().await,
                }
            }
        })
    }

    /// Another task, which may be ended in its middle.
    async fn task(self: Arc<Program>, seed: u64, depth: u32) {
        let mut random = Chance(seed);
        let task = self.spawn(self.clone().statements(random.next(), depth));
        if random.once_in(2) {
            tokio::time::sleep(Duration::from_micros(random.below(300) as u64)).await;
            task.abort();
        }
        let panicked = task.await.is_err_and(|ended| ended.is_panic());
        self.judge.check(!panicked, "a task panicked");
    }

    /// The outcome of a call that is given up after a moment, or not.
    async fn perhaps<T>(
        random: &mut Chance,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Option<Result<T, Error>> {
        if random.once_in(4) {
            let moment = Duration::from_micros(random.below(200) as u64);
            timeout(moment, call).await.ok()
        } else {
            Some(call.await)
        }
    }

    fn has_closed(&self, client: usize) -> bool {
        self.closed[client].load(Ordering::SeqCst)
    }

    /// Whether the state of the program explains why there is no lease.
    fn explain(&self, client: usize, why: &Error, deadlock: bool, lost: bool) {
        let closed = self.has_closed(client);
        let struck = self
            .struck
            .iter()
            .any(|struck| struck.load(Ordering::SeqCst));
        let explained = match why.kind() {
            ErrorKind::Contended | ErrorKind::Timeout => true,
            ErrorKind::WouldDeadlock => deadlock,
            // Won, and lost before its task went on.
            ErrorKind::LockLost => lost || closed || struck,
            ErrorKind::Closed => closed,
            _ => false,
        };
        self.judge.check(explained, &format!("refused by {why}"));
    }

    async fn one(self: Arc<Program>, seed: u64, depth: u32, client: usize) {
        let mut random = Chance(seed);
        let place = random.below(NAMES);
        let name = [None, None, Some("x"), Some("y")][random.below(4)];
        let shared = random.once_in(3);
        let asked = self.clients[client]
            .lock(self.names[place].as_str())
            .owner(name.map(Owner::named))
            .shared(shared)
            .wait(Duration::from_millis(random.below(3) as u64));
        let party = match name {
            Some(name) => Party::Named { client, name },
            None => Party::Nobody(self.judge.number()),
        };
        // What the party has now, and may have given back when the call is over.
        let reads = || {
            self.judge.which(place, party, |here| match &here.held {
                Held::One(lease) => lease.is_shared() && lease.is_held(),
                Held::All(_) => false,
            })
        };
        let has_lost = || self.judge.which(place, party, |here| !here.held.is_held());
        let before = (reads(), has_lost());
        let asking = Asking::begin(&self, place, party);
        let Some(outcome) = Program::perhaps(&mut random, asked.acquire()).await else {
            return;
        };
        let stays = |was: &[u64], is: &[u64]| was.iter().any(|id| is.contains(id));
        let read = stays(&before.0, &reads()) && !shared;
        let lost = stays(&before.1, &has_lost());
        let lease = match outcome {
            Ok(lease) => Arc::new(lease),
            Err(why) => {
                let waited = matches!(why.kind(), ErrorKind::Contended | ErrorKind::Timeout);
                // Of two leases that were asked for at once the one that is lost may be forgotten.
                let known_lost = lost && !asking.were_two();
                let in_vain = waited && (read || known_lost) && !self.has_closed(client);
                self.judge
                    .check(!in_vain, "waited for itself, or for what is lost");
                // Another task of the party may have come in meanwhile.
                return self.explain(client, &why, name.is_some() && !shared, name.is_some());
            }
        };
        self.judge.check(
            !lost || asking.were_two(),
            "let in where it had lost the lease",
        );
        self.judge.check(!read, "a reader was let in alone");
        // Within what its party has alone it is one more handle on that.
        let shared = lease.is_shared();
        let held = Held::One(lease.clone());
        let inside = self.judge.enter(place, party, shared, &held);
        drop(asking);
        let scope = Scope {
            inside: vec![inside],
            held,
        };
        if !shared && name.is_none() && random.once_in(6) {
            return self.handed_on(scope, &lease, place, client).await;
        }
        self.body(&mut random, depth, scope).await;
    }

    /// Exports the lease, and goes on with it by the other client.
    async fn handed_on(
        self: Arc<Program>,
        scope: Scope,
        lease: &Lease,
        place: usize,
        client: usize,
    ) {
        let before = self.adrift[place].swap(true, Ordering::SeqCst);
        let home = || self.adrift[place].store(before, Ordering::SeqCst);
        let text = match lease.export().await {
            Ok(text) => text,
            Err(_) => {
                home();
                return self.end(scope).await;
            }
        };
        drop(scope);
        let other = 1 - client;
        match self.clients[other].adopt(&text).await {
            Ok(adopted) => {
                home();
                let held = Held::One(Arc::new(adopted));
                let party = Party::Nobody(self.judge.number());
                let inside = vec![self.judge.enter(place, party, false, &held)];
                self.end(Scope { inside, held }).await;
            }
            Err(why) => self.explain(other, &why, false, true),
        }
    }

    async fn slot(self: Arc<Program>, seed: u64, depth: u32, client: usize) {
        let mut random = Chance(seed);
        let slots = self.clients[client].semaphore(self.names[NAMES].as_str(), SLOTS);
        let asked = slots.wait(Duration::from_millis(random.below(3) as u64));
        match Program::perhaps(&mut random, asked.acquire()).await {
            None => {}
            Some(Err(why)) => self.explain(client, &why, false, false),
            Some(Ok(lease)) => {
                let held = Held::One(Arc::new(lease));
                let party = Party::Nobody(self.judge.number());
                let inside = vec![self.judge.enter(NAMES, party, false, &held)];
                self.body(&mut random, depth, Scope { inside, held }).await;
            }
        }
    }

    async fn all(self: Arc<Program>, seed: u64, depth: u32, client: usize) {
        let mut random = Chance(seed);
        let asked = self.clients[client]
            .lock_all(&self.names[..NAMES])
            .wait(Duration::from_millis(random.below(3) as u64));
        match Program::perhaps(&mut random, asked.acquire()).await {
            None => {}
            Some(Err(why)) => self.explain(client, &why, false, false),
            Some(Ok(leases)) => {
                let held = Held::All(Arc::new(leases));
                let party = Party::Nobody(self.judge.number());
                let enter = |place| self.judge.enter(place, party, false, &held);
                let inside = (0..NAMES).map(enter).collect();
                self.body(&mut random, depth, Scope { inside, held }).await;
            }
        }
    }

    /// What is done in a scope, and how that is left.
    async fn body(self: Arc<Program>, random: &mut Chance, depth: u32, scope: Scope) {
        self.look(&scope);
        self.clone().statements(random.next(), depth + 1).await;
        self.look(&scope);
        match random.below(5) {
            0 => lock(&self.parcels).push(scope),
            1 => {
                let program = self.clone();
                let ended = self.spawn(async move { program.end(scope).await }).await;
                self.judge.check(ended.is_ok(), "a task panicked");
            }
            2 => {
                // Readers come in before the call is over.
                if let Held::One(lease) = &scope.held
                    && scope.inside[0].place < NAMES
                {
                    self.share(lease);
                    let _ = lease.downgrade().await;
                }
                self.look(&scope);
                self.end(scope).await;
            }
            3 => drop(scope),
            _ => self.end(scope).await,
        }
    }

    /// All that stand on that lease share it from now on.
    fn share(&self, lease: &Lease) {
        for here in lock(&self.judge.places).iter_mut().flatten() {
            if let Held::One(other) = &here.held
                && other.token() == lease.token()
            {
                here.shared = true;
            }
        }
    }

    fn look(&self, scope: &Scope) {
        let held = &scope.held;
        let told = held.is_held() || held.is_told_lost();
        self.judge
            .check(told, "inside of what is not held, and nothing was told");
    }

    async fn end(&self, scope: Scope) {
        let Scope { inside, held } = scope;
        drop(inside);
        let was_lost = held.is_told_lost();
        let released = held.release().await;
        let explained = was_lost || held.is_told_lost() || released.is_ok_and(|was_held| was_held);
        self.judge.check(explained, "released by somebody else");
    }
}

fn number(word: Option<String>) -> Result<u64, String> {
    let word = word.ok_or("a number is missing")?;
    word.parse().map_err(|_| format!("{word} is no number"))
}

/// Prints a program that failed. Returns how many did: one or none.
fn report((seed, wrong): (u64, Option<String>)) -> u64 {
    let Some(wrong) = wrong else { return 0 };
    println!("FAIL seed {seed}: {wrong}");
    1
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut programs, mut from) = (1_000, 0);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--programs" => programs = number(words.next())?,
            "--from" => from = number(words.next())?,
            _ => return Err("programs [--programs N] [--from SEED]".into()),
        }
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // A seeded bug, on all threads that call.
    #[cfg(mutants)]
    runtime.on_thread_start(|| {
        quorlock::sim::choose(&std::env::var("QUORLOCK_MUTANT").unwrap_or_default());
    });
    let runtime = runtime.worker_threads(2).enable_all().build()?;
    let node = std::env::var("QUORLOCK_NODES").ok();
    let failed = runtime.block_on(async {
        let (mut running, mut failed) = (JoinSet::new(), 0);
        for seed in from..from + programs {
            while running.len() == AT_A_TIME
                && let Some(ended) = running.join_next().await
            {
                failed += report(ended?);
            }
            if failed == 10 {
                break;
            }
            let within = format!("memory://programs-{seed}");
            let program = Program::new(node.as_deref().unwrap_or(&within), seed)?;
            running.spawn(async move { (seed, program.run(seed).await) });
        }
        while let Some(ended) = running.join_next().await {
            failed += report(ended?);
        }
        Ok::<_, Box<dyn std::error::Error>>(failed)
    })?;
    println!("{} passed, {failed} failed", programs - failed);
    if failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}
