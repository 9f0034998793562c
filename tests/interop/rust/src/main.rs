//! rslock behind the verbs of `tests/interop/README.md`: `quorlock-interop rslock`, nodes from `QUORLOCK_NODES`.
//!
//! It waits as rslock does by itself. What it could not win, it has refused; every other error is one.

// It waits as a program of rslock's users does, by the clock of this machine.
#![allow(clippy::disallowed_methods)]

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use rslock::{Lock, LockError, LockManager};
use tokio::runtime::{Builder, Runtime};

/// It asks again after a random part of 200 ms: this many times are about 20 s.
const RETRIES: u32 = 200;
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// Long enough for a busy machine: no lock of the counter ends by its time.
const LOOP_TTL: Duration = Duration::from_secs(10);
const STAY: Duration = Duration::from_millis(1);
/// What this was built with.
const LOCKED: &str = include_str!("../Cargo.lock");

type Answer = Result<String, Box<dyn Error>>;

struct Locks {
    runtime: Runtime,
    once: LockManager,
    patient: LockManager,
    held: Option<Lock>,
}

impl Locks {
    fn new(nodes: &str) -> Result<Self, Box<dyn Error>> {
        let manager = |retries| {
            let mut manager = LockManager::new(nodes.split(',').collect());
            manager.set_retry(retries, RETRY_DELAY);
            manager
        };
        Ok(Self {
            runtime: Builder::new_current_thread().enable_all().build()?,
            once: manager(1),
            patient: manager(RETRIES),
            held: None,
        })
    }

    fn acquire(&mut self, name: &str, ttl: Duration, wait: bool) -> Result<bool, LockError> {
        let manager = if wait { &self.patient } else { &self.once };
        match self.runtime.block_on(manager.lock(name.as_bytes(), ttl)) {
            Ok(lock) => self.held = Some(lock),
            Err(LockError::Unavailable) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// It does not tell whether it was held.
    fn release(&self) {
        if let Some(lock) = &self.held {
            self.runtime.block_on(self.once.unlock(lock));
        }
    }

    fn extend(&mut self, ttl: Duration) -> Result<bool, LockError> {
        let Some(lock) = &self.held else {
            return Ok(false);
        };
        match self.runtime.block_on(self.once.extend(lock, ttl)) {
            Ok(lock) => self.held = Some(lock),
            Err(LockError::Unavailable) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// This many times: the last number of the file is read under the lock, and the next one is written behind it.
    fn count(&mut self, name: &str, cycles: u32, path: &str, who: &str, waits: bool) -> Answer {
        for _ in 0..cycles {
            while !self.acquire(name, LOOP_TTL, waits)? {
                pause(1000, 5000);
            }
            let text = std::fs::read_to_string(path)?;
            let last = text.lines().last().unwrap_or("0");
            let number: u32 = last.split(' ').next().unwrap_or("0").parse()?;
            sleep(STAY);
            // One write at the end of the file: two of them at once are two lines.
            let line = format!("{} {who}\n", number + 1);
            let mut file = OpenOptions::new().append(true).open(path)?;
            file.write_all(line.as_bytes())?;
            self.release();
            pause(0, 3000);
        }
        Ok("done".to_owned())
    }

    fn answer(&mut self, line: &str) -> Answer {
        let words: Vec<&str> = line.split(' ').collect();
        let ttl =
            |word: &str| Ok::<_, std::num::ParseIntError>(Duration::from_millis(word.parse()?));
        Ok(match words[..] {
            ["try", name, ms] if self.acquire(name, ttl(ms)?, false)? => "held".to_owned(),
            ["hold", name, ms] => {
                if !self.acquire(name, ttl(ms)?, false)? {
                    println!("waiting");
                    if !self.acquire(name, ttl(ms)?, true)? {
                        return Ok("refused".to_owned());
                    }
                }
                "held".to_owned()
            }
            ["try", ..] => "refused".to_owned(),
            ["release"] => {
                self.release();
                "released".to_owned()
            }
            ["extend", ms] if self.extend(ttl(ms)?)? => "extended".to_owned(),
            ["extend", ..] => "lost".to_owned(),
            ["loop", name, cycles, path, who, how] => {
                return self.count(name, cycles.parse()?, path, who, how == "waits");
            }
            _ => format!("failed: no verb {line}"),
        })
    }
}

/// A random time in that many µs. The clock's nanoseconds are random enough.
fn pause(least: u32, most: u32) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let drawn = now.map_or(0, |now| now.subsec_nanos()) % (most - least);
    sleep(Duration::from_micros(u64::from(least + drawn)));
}

/// The version of rslock in the lock file.
fn version() -> Option<&'static str> {
    let (_, after) = LOCKED.split_once("name = \"rslock\"\nversion = \"")?;
    after.split('"').next()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut locks = Locks::new(&std::env::var("QUORLOCK_NODES")?)?;
    println!("ready {}", version().unwrap_or("none"));
    for line in std::io::stdin().lines() {
        let said = locks
            .answer(&line?)
            .unwrap_or_else(|error| format!("failed: {error}"));
        println!("{said}");
    }
    Ok(())
}
