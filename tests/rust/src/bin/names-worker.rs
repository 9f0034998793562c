//! A worker of the proof of several locks at once, as tests/names/README.md says:
//! `names-worker NODES HISTORY WORKER NAMES END WAIT together|unsorted`.

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::hash::BuildHasher;
use std::io::Write;
use std::time::Duration;

use quorlock::{Client, Lease, blocking};
use quorlock_tests::{monotonic, nap};

const HOLD_US: u64 = 8_000;
const REST_US: u64 = 4_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The history, all of whose lines are written as wholes.
struct History {
    worker: String,
    file: File,
}

impl History {
    fn write(&mut self, kind: &str, rest: &str) -> Outcome<()> {
        let line = format!("{kind} {} {rest}\n", self.worker);
        Ok(self.file.write_all(line.as_bytes())?)
    }

    /// Returns until when the lease was valid as it was taken.
    fn take(&mut self, lease: &Lease, invoked: u64, acquired: u64) -> Outcome<u64> {
        // The clock was read before the lease is asked: the end may come out too early,
        // never too late.
        let until = acquired + lease.remaining().as_nanos() as u64;
        let name = std::str::from_utf8(lease.name())?;
        let fence = lease.fence().unwrap_or(0);
        self.write(
            "take",
            &format!("{name} {invoked} {acquired} {until} {fence}"),
        )?;
        Ok(until)
    }

    fn give<'a>(&mut self, held: impl Iterator<Item = (&'a Lease, u64)>) -> Outcome<()> {
        let at = monotonic();
        for (lease, until) in held {
            let name = std::str::from_utf8(lease.name())?;
            self.write("give", &format!("{name} {at} {until}"))?;
        }
        Ok(())
    }
}

/// What was wanted together, from when on, and for how long that may be waited for.
struct Want {
    names: Vec<String>,
    invoked: u64,
    wait: Duration,
}

impl Want {
    fn failed(&self, history: &mut History, error: &quorlock::Error) -> Outcome<()> {
        let (names, invoked, returned) = (self.names.join(","), self.invoked, monotonic());
        let (wait, kind) = (self.wait.as_millis(), error.kind().name());
        history.write(
            "fail",
            &format!("{names} {invoked} {returned} {wait} {kind}"),
        )
    }

    /// All by one call.
    fn together(&self, history: &mut History, client: &Client) -> Outcome<()> {
        let locks = client.lock_all(&self.names).wait(self.wait);
        let leases = match blocking::wait(locks.acquire()) {
            Ok(leases) => leases,
            Err(error) => return self.failed(history, &error),
        };
        let acquired = monotonic();
        let mut ends = Vec::new();
        for lease in leases.iter() {
            ends.push(history.take(lease, self.invoked, acquired)?);
        }
        nap(up_to(HOLD_US));
        history.give(leases.iter().zip(ends))?;
        if !blocking::wait(leases.release())? {
            return Err("a lease was lost before its release".into());
        }
        Ok(())
    }

    /// One after the other, in the order in which they are wanted: what goes wrong.
    fn unsorted(&self, history: &mut History, client: &Client) -> Outcome<()> {
        let mut held = Vec::new();
        for name in &self.names {
            let lock = client.lock(name.as_str()).wait(self.wait);
            match blocking::wait(lock.acquire()) {
                Ok(lease) => {
                    let end = history.take(&lease, self.invoked, monotonic())?;
                    held.push((lease, end));
                }
                Err(error) => {
                    self.failed(history, &error)?;
                    break;
                }
            }
        }
        if held.len() == self.names.len() {
            nap(up_to(HOLD_US));
        }
        history.give(held.iter().map(|(lease, end)| (lease, *end)))?;
        for (lease, _) in &held {
            blocking::wait(lease.release())?;
        }
        Ok(())
    }
}

/// A number below `bound`.
fn random(bound: u64) -> u64 {
    // Each state has keys of its own.
    RandomState::new().hash_one(monotonic()) % bound
}

fn up_to(micros: u64) -> Duration {
    Duration::from_micros(random(micros))
}

/// Two to four of them, in any order.
fn some_of(names: &str) -> Vec<String> {
    let mut left: Vec<String> = names.split(',').map(str::to_owned).collect();
    let drawn = (0..2 + random(3)).map(|_| left.swap_remove(random(left.len() as u64) as usize));
    drawn.collect()
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [nodes, history, worker, names, end, wait, how] = &words[..] else {
        return Err(
            "usage: names-worker NODES HISTORY WORKER NAMES END WAIT together|unsorted".into(),
        );
    };
    let mut history = History {
        worker: worker.clone(),
        file: OpenOptions::new().append(true).open(history)?,
    };
    let end: u64 = end.parse()?;
    let wait = Duration::from_millis(wait.parse()?);
    let client = Client::builder()
        .nodes(nodes.split(','))
        .label(worker)
        .build()?;
    while monotonic() < end {
        let want = Want {
            names: some_of(names),
            invoked: monotonic(),
            wait,
        };
        let line = format!("{} {}", want.names.join(","), want.invoked);
        history.write("want", &line)?;
        if how == "together" {
            want.together(&mut history, &client)?
        } else {
            want.unsorted(&mut history, &client)?
        }
        nap(up_to(REST_US));
    }
    blocking::wait(client.close());
    Ok(())
}
