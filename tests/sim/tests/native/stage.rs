//! The clients and nodes with which schedules are played by hand.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorlock::sim::{
    AcquireResult, ClaimCell, Inbox, LeaseOptions, LocalQueues, LockParams, Set, Timing, Wait,
    Waits, Watchdog, acquire,
};
use quorlock::{Client, ClientBuilder};
use quorlock_sim::contender::{KEYS, NAMES, keys_of};
use quorlock_sim::mutants::choose;
use quorlock_sim::random::Random;
use quorlock_sim::world::{Admission, FaultEvent, MS, Network, Rate, Time, Ways, World};

pub const TTL: Duration = Duration::from_secs(2);

/// Of a max ttl that is the ttl, and then some.
pub const QUARANTINE: Time = 2_100 * MS;

pub const CLIENTS: usize = 3;

pub const WAITS: Waits = Waits {
    reservation: Duration::from_millis(200),
    place: Duration::from_secs(60),
    most: 10_000,
};

pub fn terms() -> LockParams {
    LockParams {
        keys: keys_of(KEYS[0], WAITS, Some(Duration::from_secs(600))),
        label: Arc::default(),
        timing: Timing::of(TTL, 0.01, 0.1, Duration::from_millis(500)),
        drift: 0.01,
        asked: LeaseOptions::default(),
        bound: None,
        group: Default::default(),
    }
}

/// Nodes that guard restarts, and clients that know them.
pub struct Stage {
    pub world: Arc<World>,
    pub sets: Vec<Arc<Set>>,
}

impl Stage {
    pub fn new(nodes: usize) -> Stage {
        let network = Network {
            base: MS / 10,
            reach: TTL.as_nanos() as Time,
            patience: 500 * MS,
            even: true,
            ..Network::default()
        };
        let clock = Rate {
            offset: 1_000 * MS,
            rate: 1.0,
        };
        let world = World::new(
            Random::new(7),
            network,
            Admission::new(nodes, TTL, true, true),
            &vec![clock; nodes],
            &[clock; CLIENTS],
            false,
        );
        let set = |client| {
            let random = Arc::new(Random::new(client as u64));
            let (links, clock) = (world.links(client), world.clock(client));
            let set = Arc::new(Set::new(links, clock, random, TTL, 0.01, |_| ()));
            // It ends the waits for homes; leases are not given to it.
            let watchdog = Watchdog::new(set.clock.clone());
            watchdog.serve(&set);
            world.spawn(client, watchdog.run());
            set
        };
        let sets = (0..CLIENTS).map(set).collect();
        let stage = Stage { world, sets };
        for client in 0..CLIENTS {
            // From here on it is connected, and knows what time it is.
            let first = stage.tries(client);
            stage.pass(20 * MS);
            first.take().expect("free").release();
            stage.pass(20 * MS);
        }
        stage
    }

    pub fn pass(&self, time: Time) {
        self.world.run(self.world.time() + time);
    }

    /// A client tries to have the lock, once.
    pub fn tries(&self, client: usize) -> Attempt {
        self.waits(client, Duration::ZERO)
    }

    /// A client waits for the lock, for so long.
    pub fn waits(&self, client: usize, long: Duration) -> Attempt {
        self.wants(client, long, terms())
    }

    pub fn wants(&self, client: usize, long: Duration, terms: LockParams) -> Attempt {
        let won = Arc::new(Mutex::new(None));
        let (set, result) = (self.sets[client].clone(), won.clone());
        let inbox = Inbox::new(self.world.inbox(client), &set.links);
        self.world.spawn(client, async move {
            let lines: Arc<LocalQueues> = Arc::default();
            let wait = Wait {
                limit: Some(long),
                lines: &lines,
                inbox: &inbox,
                max_waiters: 1,
            };
            let ended = acquire(&set, &terms, b"k", wait, || None::<()>).await;
            if let Ok(AcquireResult::Won(hold)) = ended {
                *result.lock().unwrap() = Some(hold);
            }
        });
        Attempt(won)
    }

    /// A client as its users have it. Nothing renews its leases.
    pub fn door(&self, client: usize) -> Client {
        self.door_of(client, Client::builder())
    }

    /// The same, built so.
    pub fn door_of(&self, client: usize, builder: ClientBuilder) -> Client {
        let set = self.sets[client].clone();
        let inbox = Inbox::new(self.world.inbox(client), &set.links);
        let watchdog = Watchdog::new(set.clock.clone());
        let door = builder.max_ttl(TTL);
        door.simulated(set, inbox, watchdog, WAITS)
    }

    /// A client does this; what came of it, once it has.
    pub fn does<T: Send + 'static>(
        &self,
        client: usize,
        what: impl Future<Output = T> + Send + 'static,
    ) -> Arc<Mutex<Option<T>>> {
        let done = Arc::new(Mutex::new(None));
        let result = done.clone();
        self.world.spawn(client, async move {
            let what = what.await;
            *result.lock().unwrap() = Some(what);
        });
        done
    }

    /// An operator takes the lock away, from this client; of how many nodes a vote went.
    pub fn forces(&self, client: usize) -> Arc<Mutex<Option<usize>>> {
        let door = self.door(client);
        self.does(client, async move {
            let forced = door.force_release(NAMES[0], None).await;
            forced.expect("all answer").freed()
        })
    }

    /// A client goes on with an exported lease, and releases it; whether both was done.
    pub fn goes_on(&self, client: usize, text: &str) -> bool {
        let (door, text) = (self.door(client), text.to_owned());
        let done = self.does(client, async move {
            let Ok(lease) = door.adopt(&text).await else {
                return false;
            };
            lease.release().await.expect("no fork")
        });
        self.pass(20 * MS);
        let done = done.lock().unwrap().take();
        done.expect("all answer at once")
    }

    /// What a client asks of a node arrives so much later; or is lost.
    pub fn cut(&self, client: usize, node: usize, long: Time, lossy: bool) {
        let cut = FaultEvent::Cut {
            client,
            node,
            long,
            ways: Ways::Requests,
            lossy,
        };
        self.world.plan(self.world.time(), cut);
        self.pass(MS);
    }

    /// Whether a client cannot have the lock now; it gives back what it gets.
    pub fn tries_in_vain(&self, client: usize) -> bool {
        let tried = self.tries(client);
        self.pass(20 * MS);
        let got = tried.take();
        let in_vain = got.is_none();
        got.iter().for_each(|hold| drop(hold.release()));
        self.pass(20 * MS);
        in_vain
    }

    /// What was violated, if anything was.
    pub fn end(self) -> Option<String> {
        let violation = self.world.violation();
        self.world.end();
        violation
    }
}

pub struct Attempt(Arc<Mutex<Option<Arc<ClaimCell>>>>);

impl Attempt {
    pub fn take(&self) -> Option<Arc<ClaimCell>> {
        self.0.lock().unwrap().take()
    }
}

/// Plays as it is, and with a seeded bug where the build has it: that has to show.
pub fn with_and_without(bug: &str, play: impl Fn() -> Result<(), String>) {
    assert!(choose(""));
    assert_eq!(play(), Ok(()));
    if choose(bug) {
        let wrong = play();
        choose("");
        assert!(wrong.is_err(), "{bug} does not show");
    }
}

/// A lease of which each node has a vote is exported; the text.
pub fn exported(stage: &Stage) -> String {
    let door = stage.door(0);
    let exports = stage.does(0, async move {
        let lease = door.lock(NAMES[0]).acquire().await.expect("free");
        lease.export().await.expect("held")
    });
    stage.pass(20 * MS);
    let text = exports.lock().unwrap().take();
    text.expect("all answer at once")
}

/// How long a client takes for this, if it ends within five seconds; to a fifth of a millisecond.
pub fn time_of<T>(stage: &Stage, done: &Mutex<Option<T>>) -> Option<(Time, T)> {
    let began = stage.world.time();
    while stage.world.time() < began + 5_000 * MS {
        if let Some(done) = done.lock().unwrap().take() {
            return Some((stage.world.time() - began, done));
        }
        stage.pass(MS / 5);
    }
    None
}
