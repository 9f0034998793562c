//! Who waits for the lock `k`, and what the nodes of a stage know of it.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use quorlock::{Client, Lease, blocking};

use crate::{Stage, monotonic, nap};

/// How long anything is waited for that comes by itself: more than the slowest
/// machine takes, and all timers of a waiter.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Looks until it is so.
///
/// # Panics
///
/// After [`PATIENCE`].
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = monotonic() + PATIENCE.as_nanos() as u64;
    while !is_so() {
        assert!(monotonic() < end, "not in time: {what}");
        nap(Duration::from_millis(2));
    }
}

/// How long ago that was, by [`monotonic`].
pub fn since(begun: u64) -> Duration {
    Duration::from_nanos(monotonic() - begun)
}

/// A client that doubts no connection because the machine is slow.
///
/// # Panics
///
/// If the URLs are wrong.
pub fn patient(nodes: &[String]) -> Client {
    let long = Duration::from_millis(2_500);
    let builder = Client::builder().nodes(nodes).node_timeout(long);
    builder.build().expect("URLs")
}

/// A [patient] client that is connected, and knows nothing of `k`.
pub fn connected(nodes: &[String]) -> Client {
    let client = patient(nodes);
    connect(&client);
    client
}

/// Has a client ask all its nodes for a lock that no other client wants.
///
/// # Panics
///
/// If it does not get that.
pub fn connect(client: &Client) {
    blocking::wait(async {
        let lease = client.lock("other").wait(PATIENCE).acquire().await;
        lease.expect("free").release().await.expect("released");
    });
    until("released", || client.stats().releases_pending == 0);
}

/// Has a client hold `k`, for longer than any of this takes without renewal.
pub fn hold(client: &Client) -> Lease {
    let lock = client.lock("k").ttl(Duration::from_secs(60));
    blocking::wait(lock.acquire()).expect("free")
}

/// Has a client wait for `k` and release it at once. Returns when it is queued.
pub fn queue(client: &Client) -> std::thread::JoinHandle<()> {
    let lock = client.lock("k").wait(PATIENCE);
    let thread = std::thread::spawn(move || release(blocking::wait(lock.acquire()).expect("k")));
    until("queued", || client.stats().queued == 1);
    thread
}

/// Releases a lease that is held.
pub fn release(lease: Lease) {
    assert!(blocking::wait(lease.release()).expect("released"), "held");
}

impl Stage {
    /// How often the running nodes together ran a command since
    /// `reset-counters`, inside scripts too.
    pub fn calls(&self, command: &str) -> u64 {
        let word = format!("{command}=");
        let counters = self.tell("counters");
        let counts = counters.split_whitespace();
        let counts = counts.filter_map(|count| count.strip_prefix(&word));
        counts.map(|n| n.parse::<u64>().expect("a number")).sum()
    }

    /// How many wait for `k` in the queue of each node.
    pub fn queued(&self) -> Vec<u64> {
        let sizes = self.tell("redis all ZCARD lock:#q:{k}");
        // A waiter is there twice.
        let queued = |size: &str| size.parse::<u64>().expect("a number") / 2;
        sizes.lines().map(queued).collect()
    }

    /// The node on which most of them do, from 1.
    pub fn home(&self) -> usize {
        let queued = self.queued();
        let most = queued.iter().max().expect("nodes");
        queued.iter().position(|n| n == most).expect("found above") + 1
    }

    /// How many clients listen on a node.
    pub fn listening(&self, node: usize) -> usize {
        let inboxes = self.tell(&format!("redis {node} PUBSUB CHANNELS lock:#in:%2A"));
        inboxes.split_whitespace().count()
    }

    /// What nodes keep when all is over: records and counters, and for a while what was passed on to
    /// other clients.
    ///
    /// # Panics
    ///
    /// If there is anything else for long.
    pub fn await_nothing_left(&self) {
        let known = |key: &str| {
            let counts = key.starts_with("lock:#f:") || key.starts_with("lock:#pf");
            let banned = key.starts_with("lock:#x:") || key.starts_with("lock:#px");
            counts || banned || key == "lock:#node" || key.starts_with("lock:#shard:")
        };
        until("records and counters alone", || {
            let keys = self.tell("redis all KEYS %2A");
            keys.split_whitespace().all(known)
        });
    }
}

/// Another process that waits for `k`. Ends with this.
#[derive(Debug)]
pub struct Process {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts the program `waiter`. Returns when it is queued behind all that
    /// are.
    pub fn queue(waiter: &str, stage: &Stage) -> Process {
        let before: u64 = stage.queued().iter().sum();
        let mut child = Command::new(waiter)
            .arg("k")
            .env("QUORLOCK_NODES", stage.nodes.join(","))
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let said = BufReader::new(child.stdout.take().expect("piped")).lines();
        let process = Process { child, said };
        until("queued", || stage.queued().iter().sum::<u64>() > before);
        process
    }

    /// It is gone at once.
    pub fn kill(&mut self) {
        self.child.kill().expect("ours");
        self.child.wait().expect("ours");
    }

    /// It hangs, its connections stay.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let mut status = 0;
        // SAFETY: waits for a child of ours, which is not reaped by that.
        let stopped = unsafe { libc::waitpid(self.id(), &mut status, libc::WUNTRACED) };
        assert!(stopped == self.id() && libc::WIFSTOPPED(status));
    }

    /// It goes on.
    pub fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    /// Waits until it has held the lock and ended.
    pub fn held(mut self) {
        let said = self.said.next().expect("it says so").expect("UTF-8");
        assert_eq!(said, "holds");
        assert!(self.child.wait().expect("ours").success());
    }

    fn id(&self) -> libc::pid_t {
        self.child.id() as libc::pid_t
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a child of ours that is not reaped.
        assert_eq!(unsafe { libc::kill(self.id(), signal) }, 0);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
