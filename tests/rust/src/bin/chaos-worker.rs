//! A worker of the chaos runs, as tests/chaos/README.md says.

// It does its steps in real time; the seams of the core are not for it.
#![allow(clippy::disallowed_methods)]

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::hash::BuildHasher;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorlock::{Client, Lease, Lock, blocking};
use quorlock_tests::{monotonic, nap};

const SLICE: Duration = Duration::from_millis(20);
const MAX_REST: Duration = Duration::from_millis(4);
/// The end of what needs no lock is later than that of any run.
const UNLOCKED: Duration = Duration::from_secs(3600);

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn setting(name: &str) -> Outcome<String> {
    let name = format!("CHAOS_{name}");
    std::env::var(&name).map_err(|_| format!("{name} is not set").into())
}

fn number(name: &str) -> Outcome<u64> {
    Ok(setting(name)?.parse()?)
}

fn millis(name: &str) -> Outcome<Duration> {
    Ok(Duration::from_millis(number(name)?))
}

fn nanos(long: Duration) -> u64 {
    long.as_nanos() as u64
}

/// A number below `bound`; each state has keys of its own.
fn random(bound: u64) -> u64 {
    RandomState::new().hash_one(monotonic()) % bound
}

fn up_to(most: Duration) -> Duration {
    Duration::from_nanos(random(nanos(most) + 1))
}

/// The words of a line, with blanks between them.
fn line(words: &[&dyn Display]) -> String {
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    words.join(" ") + "\n"
}

/// The history, all of whose lines are written as wholes.
struct History {
    worker: String,
    file: File,
}

impl History {
    fn write(&self, kind: &str, words: &[&dyn Display]) {
        let line = line(&[&[&kind as &dyn Display, &self.worker], words].concat());
        let written = (&self.file).write_all(line.as_bytes());
        written.expect("the history is a file of ours");
    }

    /// What a call gives; nothing if it fails, which the history then says.
    fn won<T>(&self, call: &Call<'_>, result: Result<T, quorlock::Error>) -> Option<T> {
        let failed = |error: &quorlock::Error| {
            let kind = format!("{}{}", call.prefix, error.kind().name());
            let wait = call.wait.as_millis();
            self.write(
                "fail",
                &[&call.names, &call.invoked, &monotonic(), &wait, &kind],
            );
        };
        result.inspect_err(failed).ok()
    }

    /// Of one lease, or of what needs none.
    fn take<'a>(&self, name: &str, lease: Option<&'a Lease>, at: [u64; 2]) -> Hold<'a> {
        let [invoked, acquired] = at;
        let mut hold = Hold {
            name: name.to_owned(),
            lease,
            until: acquired,
            fence: lease.and_then(Lease::fence).unwrap_or(0),
            shared: lease.is_some_and(Lease::is_shared),
        };
        hold.look(acquired);
        let kind = if hold.shared { "share" } else { "take" };
        self.write(
            kind,
            &[&name, &invoked, &acquired, &hold.until, &hold.fence],
        );
        hold
    }

    // Written before the release: a worker that is killed while nodes have yet to answer has
    // given the lock back.
    fn give(&self, holds: &[Hold<'_>]) {
        let at = monotonic();
        for hold in holds {
            self.write("give", &[&hold.name, &at, &hold.until]);
        }
    }
}

/// What is asked for, since when, and how long that waits.
struct Call<'a> {
    names: &'a str,
    invoked: u64,
    wait: Duration,
    prefix: &'a str,
}

impl<'a> Call<'a> {
    fn new(names: &'a str, invoked: u64, wait: Duration) -> Call<'a> {
        Call {
            names,
            invoked,
            wait,
            prefix: "",
        }
    }
}

/// What the history knows of one lease.
struct Hold<'a> {
    name: String,
    lease: Option<&'a Lease>,
    until: u64,
    fence: u64,
    shared: bool,
}

impl Hold<'_> {
    fn look(&mut self, now: u64) {
        // The clock was read before the lease is asked: the end may come out too early, never
        // too late.
        let left = self.lease.map_or(UNLOCKED, Lease::remaining);
        if !left.is_zero() {
            self.until = self.until.max(now + nanos(left));
        }
    }
}

struct Worker {
    history: Arc<History>,
    resource: BufReader<UnixStream>,
    client: Client,
    ttl: Duration,
    wait: Duration,
    hold: Duration,
    hand: u64,
    long: u64,
    steady: bool,
}

impl Worker {
    fn new() -> Outcome<Worker> {
        let worker = setting("NAME")?;
        let (ttl, wait) = (millis("TTL")?, millis("WAIT")?);
        Ok(Worker {
            client: Client::builder()
                .label(&worker)
                .ttl(ttl)
                .wait(wait)
                .build()?,
            history: Arc::new(History {
                worker,
                file: OpenOptions::new().append(true).open(setting("HISTORY")?)?,
            }),
            resource: BufReader::new(UnixStream::connect(setting("RESOURCE")?)?),
            ttl,
            wait,
            hold: millis("HOLD")?,
            hand: number("HAND")?,
            long: number("LONG")?,
            steady: number("STEADY")? != 0,
        })
    }

    fn ask(&mut self, question: &[&dyn Display]) -> Outcome<String> {
        self.resource
            .get_mut()
            .write_all(line(question).as_bytes())?;
        let mut answer = String::new();
        self.resource.read_line(&mut answer)?;
        Ok(answer.trim().to_owned())
    }

    /// Reads what the locks protect, holds them for a while, and writes it.
    fn inside(&mut self, holds: &mut [Hold<'_>]) -> Outcome<()> {
        let mut values = Vec::new();
        for hold in holds.iter() {
            let verb = if hold.shared { "look" } else { "read" };
            values.push(self.ask(&[&verb, &hold.name, &hold.fence])?);
        }
        let is_long = self.long > 0 && random(self.long) == 0;
        let long = self.ttl + up_to(self.ttl);
        let over = monotonic() + nanos(if is_long { long } else { up_to(self.hold) });
        while monotonic() < over {
            nap(SLICE.min(Duration::from_nanos(over.saturating_sub(monotonic()))));
            for hold in holds.iter_mut() {
                hold.look(monotonic());
            }
        }
        // Held or not: a pause may come after any look, so it is the resource that must refuse.
        for (hold, value) in holds.iter().zip(values) {
            if value != "stale" && !hold.shared {
                let value = value.parse::<u64>()? + 1;
                self.ask(&[&"write", &hold.name, &hold.fence, &value])?;
            }
        }
        Ok(())
    }

    fn released(&self, held: Result<bool, quorlock::Error>) -> Outcome<bool> {
        let held = held?;
        if self.steady && !held {
            return Err("a lease was lost before its release".into());
        }
        Ok(held)
    }

    /// One lease of a lock. Returns when it was asked for and won, if the release says that it
    /// was held until then.
    fn one(
        &mut self,
        name: &str,
        lock: &Lock,
        wait: Duration,
        hand: u64,
    ) -> Outcome<Option<[u64; 2]>> {
        let call = Call::new(name, monotonic(), wait);
        let Some(lease) = self.history.won(&call, blocking::wait(lock.acquire())) else {
            return Ok(None);
        };
        let at = [call.invoked, monotonic()];
        let slot = lease
            .slot()
            .map_or(String::new(), |slot| format!(".{slot}"));
        let mut holds = [self
            .history
            .take(&(name.to_owned() + &slot), Some(&lease), at)];
        self.inside(&mut holds)?;
        self.history.give(&holds);
        if hand > 0 && random(hand) == 0 && self.is_handed(&holds[0], &lease)? {
            return Ok(None);
        }
        let held = self.released(blocking::wait(lease.release()))?;
        Ok(held.then_some(at))
    }

    /// Whether the lease is another worker's to go on with; else it is held as before, or lost.
    fn is_handed(&mut self, hold: &Hold<'_>, lease: &Lease) -> Outcome<bool> {
        self.history.write("hand", &[&hold.name, &monotonic()]);
        let Ok(text) = blocking::wait(lease.export()) else {
            return Ok(false);
        };
        self.ask(&[&"hand", &hold.name, &hold.fence, &text])?;
        Ok(true)
    }

    /// Goes on with a lease that a worker has exported, if one has.
    fn adopt(&mut self) -> Outcome<()> {
        let told = self.ask(&[&"next - 0"])?;
        let [number, name, text] = told.split(' ').collect::<Vec<_>>()[..] else {
            return Ok(());
        };
        let mut call = Call::new(name, monotonic(), Duration::ZERO);
        call.prefix = "adopt:";
        let adopted = blocking::wait(self.client.adopt(text));
        if let Some(lease) = self.history.won(&call, adopted) {
            let at = [call.invoked, monotonic()];
            let mut holds = [self.history.take(name, Some(&lease), at)];
            self.history.write("adopted", &[&name, &number]);
            self.inside(&mut holds)?;
            self.history.give(&holds);
            blocking::wait(lease.release())?;
        }
        Ok(())
    }

    /// Two to four of them, in any order, and since when they are wanted.
    fn wanted<'a>(&self, names: &[&'a str]) -> (Vec<&'a str>, String, u64) {
        let (mut left, most) = (names.to_vec(), names.len().min(4) as u64);
        let mut draw = |_| left.swap_remove(random(left.len() as u64) as usize);
        let some: Vec<&str> = (0..2 + random(most - 1)).map(&mut draw).collect();
        let (list, invoked) = (some.join(","), monotonic());
        self.history.write("want", &[&list, &invoked]);
        (some, list, invoked)
    }

    // ---- the workloads, each by its name ----

    fn lock(&mut self, name: &str) -> Outcome<()> {
        self.one(name, &self.client.lock(name), self.wait, self.hand)?;
        Ok(())
    }

    fn shared(&mut self, name: &str) -> Outcome<()> {
        self.one(
            name,
            &self.client.lock(name).shared(random(4) > 0),
            self.wait,
            0,
        )?;
        Ok(())
    }

    fn slots(&mut self, name: &str, count: &str) -> Outcome<()> {
        let lock = self.client.semaphore(name, count.parse()?);
        self.one(name, &lock, self.wait, self.hand)?;
        Ok(())
    }

    fn keep(&mut self, name: &str, ms: &str) -> Outcome<()> {
        let keep = Duration::from_millis(ms.parse()?);
        let lock = self.client.lock(name).wait(Duration::ZERO).keep(keep);
        if let Some([invoked, acquired]) = self.one(name, &lock, Duration::ZERO, 0)? {
            let until = invoked + nanos(keep);
            self.history.write("keep", &[&name, &acquired, &until]);
        }
        Ok(())
    }

    fn several(&mut self, names: &[&str]) -> Outcome<()> {
        let (some, list, invoked) = self.wanted(names);
        let call = Call::new(&list, invoked, self.wait);
        let result = blocking::wait(self.client.lock_all(&some).acquire());
        let Some(leases) = self.history.won(&call, result) else {
            return Ok(());
        };
        let at = [invoked, monotonic()];
        let mut holds = Vec::new();
        for lease in leases.iter() {
            let name = std::str::from_utf8(lease.name())?;
            holds.push(self.history.take(name, Some(lease), at));
        }
        self.inside(&mut holds)?;
        self.history.give(&holds);
        self.released(blocking::wait(leases.release()))?;
        Ok(())
    }

    /// One by one, in the order in which they are wanted, which goes wrong.
    fn unsorted(&mut self, names: &[&str]) -> Outcome<()> {
        let (some, list, invoked) = self.wanted(names);
        let call = Call::new(&list, invoked, self.wait);
        let each = some.iter().map_while(|name| {
            let result = blocking::wait(self.client.lock(*name).acquire());
            Some((*name, self.history.won(&call, result)?, monotonic()))
        });
        let leases: Vec<(&str, Lease, u64)> = each.collect();
        let takes = leases.iter().map(|(name, lease, acquired)| {
            self.history.take(name, Some(lease), [invoked, *acquired])
        });
        let mut holds: Vec<Hold<'_>> = takes.collect();
        if holds.len() == some.len() {
            self.inside(&mut holds)?;
        }
        self.history.give(&holds);
        for (_, lease, _) in &leases {
            blocking::wait(lease.release())?;
        }
        Ok(())
    }

    /// Without the lock, which goes wrong.
    fn unlocked(&mut self, name: &str) -> Outcome<()> {
        let mut holds = [self.history.take(name, None, [monotonic(); 2])];
        self.inside(&mut holds)?;
        self.history.give(&holds);
        Ok(())
    }

    /// Runs for it until the process is killed.
    fn election(&self, name: &str) -> Outcome<()> {
        let terms = Arc::new(Terms {
            history: self.history.clone(),
            step: millis("STEP")?,
            careless: millis("CARELESS")?,
            fence: AtomicU64::new(0),
        });
        let (lost, stopped) = (terms.clone(), terms.clone());
        let election = self.client.election(name).again(true);
        let election = election.on_lost(move |reason| lost.tell("lost", &[&reason.as_str()]));
        let election = election.on_stopped(move || stopped.tell("stopped", &[]));
        let running = election.run(|term| {
            let (work, careless) = (terms.clone().work(term), !terms.careless.is_zero());
            async move {
                if careless {
                    // A task that nothing ends is how to be careless in Rust.
                    return tokio::spawn(work).await;
                }
                work.await;
                Ok(())
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let never: () = runtime.block_on(running)?;
        Ok(never)
    }
}

/// What goes into the history of the terms of one process.
struct Terms {
    history: Arc<History>,
    step: Duration,
    /// How long the work goes on without a look at its term; zero: it looks.
    careless: Duration,
    /// The fence of the term that the work is of.
    fence: AtomicU64,
}

impl Terms {
    /// Of the term that the work is of, with the time behind the words.
    fn tell(&self, kind: &str, words: &[&dyn Display]) {
        let (fence, now) = (self.fence.load(Ordering::SeqCst), monotonic());
        let line = [&[&fence as &dyn Display], words, &[&now]].concat();
        self.history.write(kind, &line);
    }

    /// Looks at the term and writes how it is. Returns whether to go on.
    fn look(&self, kind: &str, term: &Lease, end: Option<u64>) -> bool {
        // The clock is read before the term is asked: what it says is true of then, too.
        let now = monotonic();
        let held = end.is_some() || term.is_held();
        let (fence, until) = (term.fence().unwrap_or(0), now + nanos(term.remaining()));
        self.history
            .write(kind, &[&fence, &u8::from(held), &now, &until]);
        end.map_or(held, |end| now < end)
    }

    async fn work(self: Arc<Self>, term: Arc<Lease>) {
        let end = (!self.careless.is_zero()).then_some(monotonic() + nanos(self.careless));
        // Declared first, so that it is dropped when nothing else of the work is left.
        let _ended = Ended(&self);
        self.fence
            .store(term.fence().unwrap_or(0), Ordering::SeqCst);
        self.look("leads", &term, end);
        while self.look("acts", &term, end) {
            tokio::time::sleep(self.step).await;
        }
    }
}

/// Writes that the work has ended, also when it was dropped.
struct Ended<'a>(&'a Terms);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.tell("ended", &[]);
    }
}

fn main() -> Outcome<()> {
    let mut worker = Worker::new()?;
    let (end, works) = (number("END")?, setting("WORK")?);
    let works: Vec<Vec<&str>> = works
        .split(' ')
        .map(|work| work.split(':').collect())
        .collect();
    while monotonic() < end {
        if worker.hand > 0 {
            worker.adopt()?;
        }
        match works[random(works.len() as u64) as usize][..] {
            ["lock", name] => worker.lock(name)?,
            ["shared", name] => worker.shared(name)?,
            ["slots", name, count] => worker.slots(name, count)?,
            ["keep", name, ms] => worker.keep(name, ms)?,
            ["several", ref names @ ..] => worker.several(names)?,
            ["unsorted", ref names @ ..] => worker.unsorted(names)?,
            ["unlocked", name] => worker.unlocked(name)?,
            ["election", name] => worker.election(name)?,
            ref other => return Err(format!("no workload {other:?}").into()),
        }
        nap(up_to(MAX_REST));
    }
    blocking::wait(worker.client.close());
    Ok(())
}
