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
    hand: u32,
}

/// One hold as the history knows it.
struct Held<'a> {
    name: String,
    lease: &'a Lease,
    acquired: u64,
    until: u64,
    fence: u64,
}

impl World {
    fn new() -> Outcome<World> {
        Ok(World {
            name: setting("NAME")?,
            history: OpenOptions::new().append(true).open(setting("HISTORY")?)?,
            resource: BufReader::new(UnixStream::connect(setting("RESOURCE")?)?),
            ttl: millis("TTL")?,
            hold: millis("HOLD")?,
            hand: setting("HAND")?.parse()?,
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

    fn take<'a>(&mut self, name: String, lease: &'a Lease, invoked: u64) -> Outcome<Held<'a>> {
        // The clock is read before the lease is asked: the end may come out too
        // early, never too late.
        let acquired = monotonic();
        let until = acquired + lease.remaining().as_nanos() as u64;
        let fence = lease.fence().unwrap_or(0);
        let taken = format!("{name} {invoked} {acquired} {until} {fence}");
        self.write(if lease.is_shared() { "share" } else { "take" }, taken)?;
        Ok(Held {
            name,
            lease,
            acquired,
            until,
            fence,
        })
    }

    /// Up to where they are given back.
    fn hold(&mut self, holds: &mut [Held]) -> Outcome<()> {
        let mut values = Vec::new();
        for held in holds.iter() {
            let verb = if held.lease.is_shared() {
                "look"
            } else {
                "read"
            };
            values.push(self.ask(format!("{verb} {} {}\n", held.name, held.fence))?);
        }
        let over = monotonic() + self.hold_time().as_nanos() as u64;
        while monotonic() < over {
            nap(SLICE.min(Duration::from_nanos(over.saturating_sub(monotonic()))));
            for held in holds.iter_mut() {
                let seen = monotonic();
                let left = held.lease.remaining();
                if !left.is_zero() {
                    held.until = held.until.max(seen + left.as_nanos() as u64);
                }
            }
        }
        // Held or not: a pause may come after any look, so it is the resource
        // that must refuse.
        for (held, value) in holds.iter().zip(values) {
            if value != "stale" && !held.lease.is_shared() {
                let value: u64 = value.parse()?;
                self.ask(format!(
                    "write {} {} {}\n",
                    held.name,
                    held.fence,
                    value + 1
                ))?;
            }
        }
        // Written before: a worker that is killed while nodes have yet to answer has
        // given the lock back.
        for held in holds.iter() {
            self.write(
                "give",
                format!("{} {} {}", held.name, monotonic(), held.until),
            )?;
        }
        Ok(())
    }

    fn failed(&mut self, word: &str, invoked: u64, wait: Duration, kind: &str) -> Outcome<()> {
        let (returned, wait) = (monotonic(), wait.as_millis());
        self.write("fail", format!("{word} {invoked} {returned} {wait} {kind}"))
    }

    /// Goes on with a lease that a worker has exported, if one has.
    fn go_on(&mut self, client: &Client) -> Outcome<()> {
        let told = self.ask("next - 0\n".into())?;
        let [number, name, text] = told.split(' ').collect::<Vec<_>>()[..] else {
            return Ok(());
        };
        let invoked = monotonic();
        match blocking::wait(client.adopt(text)) {
            Ok(lease) => {
                let held = self.take(name.to_owned(), &lease, invoked)?;
                self.write("adopted", format!("{name} {number}"))?;
                self.hold(&mut [held])?;
                blocking::wait(lease.release())?;
                Ok(())
            }
            Err(error) => {
                let kind = format!("adopt:{}", error.kind().name());
                self.failed(name, invoked, Duration::ZERO, &kind)
            }
        }
    }

    /// Whether the lease is another's to go on with; else it is held as before, or lost.
    fn is_handed(&mut self, held: &Held) -> Outcome<bool> {
        self.write("hand", format!("{} {}", held.name, monotonic()))?;
        let Ok(text) = blocking::wait(held.lease.export()) else {
            return Ok(false);
        };
        self.ask(format!("hand {} {} {text}\n", held.name, held.fence))?;
        Ok(true)
    }

    /// One lock, or the semaphore of `NAME*SLOTS`; that of `NAME&` three of four share, that of
    /// `NAME%KEEP` is kept for so many ms.
    fn one(&mut self, client: &Client, word: &str, wait: Duration) -> Outcome<()> {
        let keep = match word.split_once('%') {
            Some((_, keep)) => Duration::from_millis(keep.parse()?),
            None => Duration::ZERO,
        };
        let wait = if keep.is_zero() { wait } else { Duration::ZERO };
        let lock = lock_of(client, word)?.wait(wait).keep(keep);
        let invoked = monotonic();
        let lease = match blocking::wait(lock.acquire()) {
            Ok(lease) => lease,
            Err(error) => return self.failed(word, invoked, wait, error.kind().name()),
        };
        let mut held = [self.take(held_as(word, &lease), &lease, invoked)?];
        self.hold(&mut held)?;
        let [held] = held;
        let may_go = self.hand > 0 && keep.is_zero() && !word.ends_with('&');
        if may_go && random(self.hand) == 0 && self.is_handed(&held)? {
            return Ok(());
        }
        if blocking::wait(lease.release())? && !keep.is_zero() {
            let until = invoked + keep.as_nanos() as u64;
            self.write("keep", format!("{} {} {until}", held.name, held.acquired))?;
        }
        Ok(())
    }

    /// All of `NAME+NAME` by one call.
    fn several(&mut self, client: &Client, word: &str, wait: Duration) -> Outcome<()> {
        let invoked = monotonic();
        self.write("want", format!("{} {invoked}", word.replace('+', ",")))?;
        let locks = client.lock_all(word.split('+')).wait(wait);
        let leases = match blocking::wait(locks.acquire()) {
            Ok(leases) => leases,
            Err(error) => return self.failed(word, invoked, wait, error.kind().name()),
        };
        let mut holds = Vec::new();
        for lease in leases.iter() {
            let name = String::from_utf8_lossy(lease.name()).into_owned();
            holds.push(self.take(name, lease, invoked)?);
        }
        self.hold(&mut holds)?;
        blocking::wait(leases.release())?;
        Ok(())
    }
}

/// A number below `bound`, as evenly spread as the low bits of the clock.
fn random(bound: u32) -> u32 {
    let mixed = monotonic().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed >> 32) % u64::from(bound)) as u32
}

fn lock_of(client: &Client, word: &str) -> Outcome<Lock> {
    let (word, _) = word.split_once('%').unwrap_or((word, ""));
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
        _ => word.split(['&', '%']).next().unwrap_or(word).to_owned(),
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
        if world.hand > 0 {
            world.go_on(&client)?;
        }
        let word = names[random(names.len() as u32) as usize];
        if word.contains('+') {
            world.several(&client, word, wait)?
        } else {
            world.one(&client, word, wait)?
        }
        nap(MAX_REST * random(1000) / 1000);
    }
    blocking::wait(client.close());
    Ok(())
}
