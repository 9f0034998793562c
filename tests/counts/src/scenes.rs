//! The scenes: what is counted.

use std::sync::Arc;
use std::time::Duration;

use quorlock::Client;
use quorlock::sim::{Inbox, Set, Waits, Watchdog};

use crate::meter::counted;
use crate::nodes::Nodes;
use crate::seams::Seeded;
use crate::tasks::{Idle, Tasks};

/// What is counted once, by name.
pub struct Scene {
    pub name: &'static str,
    nodes: usize,
    /// How many tasks there are, each with a lock of its own, or all with one.
    tasks: usize,
    one_lock: bool,
    /// How often each task has its lock.
    rounds: usize,
}

pub const SCENES: &[Scene] = &[
    Scene {
        name: "cycle-1-node",
        nodes: 1,
        tasks: 1,
        one_lock: false,
        rounds: 200,
    },
    Scene {
        name: "cycle-5-nodes",
        nodes: 5,
        tasks: 1,
        one_lock: false,
        rounds: 200,
    },
    // One client, as a service has.
    Scene {
        name: "in-flight-64",
        nodes: 5,
        tasks: 64,
        one_lock: false,
        rounds: 10,
    },
    // Two clients: the one that has released waits for the other one's release.
    Scene {
        name: "hand-off",
        nodes: 5,
        tasks: 2,
        one_lock: true,
        rounds: 100,
    },
];

/// As the defaults have it.
const WAITS: Waits = Waits {
    reservation: Duration::from_millis(200),
    place: Duration::from_secs(60),
    most: 10_000,
};
const MAX_TTL: Duration = Duration::from_secs(60);
const DRIFT: f64 = 0.01;

impl Scene {
    /// Plays the scene once for what comes up at first alone, and once more, which is counted; returns how many
    /// rounds were.
    pub fn play(&self) -> usize {
        let nodes = Nodes::new(self.nodes);
        let mut tasks = Tasks::default();
        let clients = if self.one_lock { self.tasks } else { 1 };
        let clients: Vec<_> = (0..clients)
            .map(|number| client(number, &nodes, &mut tasks))
            .collect();
        self.spawn(&clients, &mut tasks);
        tasks.run(&nodes);
        self.spawn(&clients, &mut tasks);
        counted(|| tasks.run(&nodes));
        // Watchdogs go on.
        assert_eq!(tasks.ended(), 2 * self.tasks, "a call has not returned");
        self.tasks * self.rounds
    }

    fn spawn(&self, clients: &[Client], tasks: &mut Tasks) {
        for task in 0..self.tasks {
            let name = format!("orders:{}", if self.one_lock { 0 } else { task });
            let client = clients[task % clients.len()].clone();
            // The holder keeps the lock until the other client waits in the queue.
            let idle = self.one_lock.then(|| tasks.idle());
            tasks.spawn(has(client, name, self.rounds, idle));
        }
    }
}

/// Has the lock again and again, as users do.
async fn has(client: Client, name: String, rounds: usize, idle: Option<Idle>) {
    for _ in 0..rounds {
        let lease = client
            .lock(name.as_str())
            .acquire()
            .await
            .expect("it is free");
        if let Some(idle) = &idle {
            idle.wait().await;
        }
        assert!(lease.release().await.expect("no fork"), "it was held");
    }
}

fn client(number: usize, nodes: &Arc<Nodes>, tasks: &mut Tasks) -> Client {
    let inbox: Arc<[u8]> = format!("lock#in:{number}").into_bytes().into();
    let links = nodes.links(&inbox);
    let inbox = Inbox::new(inbox, &links);
    let rng = Arc::new(Seeded::new(number as u64));
    let set = Set::new(links, nodes.clock.clone(), rng, MAX_TTL, DRIFT, drop);
    let set = Arc::new(set);
    let watchdog = Watchdog::new(set.clock.clone());
    watchdog.serve(&set);
    tasks.spawn(watchdog.clone().run());
    Client::builder().simulated(set, inbox, watchdog, WAITS)
}
