//! A worker of the fault runs, as tests/faults/README.md says.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use quorlock::{Client, Lease, Lock, blocking};
use quorlock_tests::{monotonic, nap};

const SLICE: Duration = Duration::from_millis(20);
const MAX_REST: Duration = Duration::from_millis(4);

type Outcome<T> = Result<T, Box<dyn Error>>;

fn setting(name: &str) -> Outcome<String> {
    let name = format!("FAULTS_{name}");
    std::env::var(&name).map_err(|_| format!("{name} is not set").into())
}

fn millis(name: &str) -> Outcome<Duration> {
    Ok(Duration::from_millis(setting(name)?.parse()?))
}

/// The history, all of whose lines are written as wholes, and what the locks
/// protect.
struct World {
    name: String,
    history: File,
    resource: BufReader<UnixStream>,
    ttl: Duration,
    hold: Duration,
}

impl World {
    fn new() -> Outcome<World> {
        Ok(World {
            name: setting("NAME")?,
            history: OpenOptions::new().append(true).open(setting("HISTORY")?)?,
            resource: BufReader::new(UnixStream::connect(setting("RESOURCE")?)?),
            ttl: millis("TTL")?,
            hold: millis("HOLD")?,
        })
    }

    fn write(&mut self, kind: &str, rest: String) -> Outcome<()> {
        let line = format!("{kind} {} {rest}\n", self.name);
        Ok(self.history.write_all(line.as_bytes())?)
    }

    fn ask(&mut self, question: String) -> Outcome<String> {
        self.resource.get_mut().write_all(question.as_bytes())?;
        let mut answer = String::new();
        self.resource.read_line(&mut answer)?;
        Ok(answer.trim().to_owned())
    }

    /// Short as a rule; now and then long enough to be renewed.
    fn hold_time(&self) -> Duration {
        match random(200) {
            0 => self.ttl + self.ttl * random(1000) / 1000,
            _ => self.hold * random(1000) / 1000,
        }
    }

    fn hold(&mut self, name: &str, lease: &Lease, invoked: u64) -> Outcome<()> {
        // The clock is read before the lease is asked: the end may come out too
        // early, never too late.
        let end = || monotonic() + lease.remaining().as_nanos() as u64;
        let acquired = monotonic();
        let mut until = end();
        let fence = lease.fence().unwrap_or(0);
        let taken = format!("{name} {invoked} {acquired} {until} {fence}");
        let shared = lease.is_shared();
        self.write(if shared { "share" } else { "take" }, taken)?;
        let verb = if shared { "look" } else { "read" };
        let value = self.ask(format!("{verb} {name} {fence}\n"))?;
        let over = monotonic() + self.hold_time().as_nanos() as u64;
        while monotonic() < over {
            nap(SLICE.min(Duration::from_nanos(over.saturating_sub(monotonic()))));
            let seen = monotonic();
            let left = lease.remaining();
            if !left.is_zero() {
                until = until.max(seen + left.as_nanos() as u64);
            }
        }
        // Held or not: a pause may come after any look, so it is the resource
        // that must refuse.
        if value != "stale" && !shared {
            let value: u64 = value.parse()?;
            self.ask(format!("write {name} {fence} {}\n", value + 1))?;
        }
        // Written before: a worker that is killed while nodes have yet to answer has
        // given the lock back.
        self.write("give", format!("{name} {} {until}", monotonic()))?;
        blocking::wait(lease.release())?;
        Ok(())
    }
}

/// A number below `bound`, as evenly spread as the low bits of the clock.
fn random(bound: u32) -> u32 {
    let mixed = monotonic().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed >> 32) % u64::from(bound)) as u32
}

/// The lock of a word, or the semaphore of `NAME*SLOTS`; that of `NAME&` three of four share.
fn lock_of(client: &Client, word: &str) -> Outcome<Lock> {
    if let Some(name) = word.strip_suffix('&') {
        return Ok(client.lock(name).shared(random(4) > 0));
    }
    Ok(match word.split_once('*') {
        Some((name, slots)) => client.semaphore(name, slots.parse()?),
        None => client.lock(word),
    })
}

/// What the history knows it by: each slot is a lock of its own.
fn held_as(word: &str, lease: &Lease) -> String {
    match (word.split_once('*'), lease.slot()) {
        (Some((name, _)), Some(slot)) => format!("{name}.{slot}"),
        _ => word.trim_end_matches('&').to_owned(),
    }
}

fn main() -> Outcome<()> {
    let mut world = World::new()?;
    let end: u64 = setting("END")?.parse()?;
    let wait = millis("WAIT")?;
    let client = Client::builder()
        .nodes(std::env::var("QUORLOCK_NODES")?.split(','))
        .label(&world.name)
        .ttl(world.ttl)
        .wait(wait)
        .max_ttl(millis("MAX_TTL")?)
        .node_timeout(millis("NODE_TIMEOUT")?)
        .wait_replicas(setting("WAIT_REPLICAS")?.parse()?)
        .build()?;
    let names = setting("LOCKS")?;
    let names: Vec<&str> = names.split(',').collect();
    while monotonic() < end {
        let name = names[random(names.len() as u32) as usize];
        let lock = lock_of(&client, name)?;
        let invoked = monotonic();
        match blocking::wait(lock.acquire()) {
            Ok(lease) => world.hold(&held_as(name, &lease), &lease, invoked)?,
            Err(error) => {
                let returned = monotonic();
                let (wait, kind) = (wait.as_millis(), error.kind().name());
                world.write("fail", format!("{name} {invoked} {returned} {wait} {kind}"))?;
            }
        }
        nap(MAX_REST * random(1000) / 1000);
    }
    blocking::wait(client.close());
    Ok(())
}
