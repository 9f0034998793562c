//! A candidate of the runs with leaders, as tests/leaders/README.md says.

// It does its steps in real time; the seams of the core are not for it.
#![allow(clippy::disallowed_methods)]

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorlock::{Client, Lease};
use quorlock_tests::monotonic;
use tokio::time::sleep;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn setting(name: &str) -> Outcome<String> {
    let name = format!("LEADERS_{name}");
    std::env::var(&name).map_err(|_| format!("{name} is not set").into())
}

fn millis(name: &str) -> Outcome<Duration> {
    Ok(Duration::from_millis(setting(name)?.parse()?))
}

struct Worker {
    name: String,
    history: File,
    step: Duration,
    /// How long the work goes on without a look at its term; zero: it looks.
    careless: Duration,
    /// The fence of the term that the work is of.
    fence: AtomicU64,
}

impl Worker {
    fn write(&self, kind: &str, rest: &str) {
        let (name, fence) = (&self.name, self.fence.load(Ordering::SeqCst));
        let line = format!("{kind} {name} {fence}{rest} {}\n", monotonic());
        (&self.history)
            .write_all(line.as_bytes())
            .expect("the history is a file of ours");
    }

    /// Looks at the term and writes how it is. Returns whether to go on.
    fn look(&self, kind: &str, term: &Lease, end: Option<u64>) -> bool {
        // The clock is read before the term is asked: what it says is true of then, too.
        let now = monotonic();
        let held = end.is_some() || term.is_held();
        let (name, fence) = (&self.name, term.fence().unwrap_or(0));
        let until = now + term.remaining().as_nanos() as u64;
        let line = format!("{kind} {name} {fence} {} {now} {until}\n", u8::from(held));
        (&self.history)
            .write_all(line.as_bytes())
            .expect("the history is a file of ours");
        end.map_or(held, |end| now < end)
    }

    async fn work(self: Arc<Self>, term: Arc<Lease>) {
        let end = monotonic() + self.careless.as_nanos() as u64;
        let end = (!self.careless.is_zero()).then_some(end);
        // Declared first, so that it is dropped when nothing else of the work is left.
        let _ended = Ended(&self);
        self.fence
            .store(term.fence().unwrap_or(0), Ordering::SeqCst);
        self.look("begin", &term, end);
        while self.look("step", &term, end) {
            sleep(self.step).await;
        }
    }
}

/// Writes that the work has ended, also when it was dropped.
struct Ended<'a>(&'a Worker);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.write("ended", "");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let history = OpenOptions::new().append(true).open(setting("HISTORY")?)?;
    let worker = Arc::new(Worker {
        name: setting("NAME")?,
        history,
        step: millis("STEP")?,
        careless: millis("CARELESS")?,
        fence: AtomicU64::new(0),
    });
    let client = Client::builder()
        .nodes(std::env::var("QUORLOCK_NODES")?.split(','))
        .label(&worker.name)
        .ttl(millis("TTL")?)
        .build()?;
    let (tells, stops) = (worker.clone(), worker.clone());
    let election = client
        .election(setting("ELECTION")?)
        .again(true)
        .on_lost(move |reason| tells.write("lost", &format!(" {}", reason.as_str())))
        .on_stopped(move || stops.write("stopped", ""));
    let careless = !worker.careless.is_zero();
    let never: () = election
        .run(|term| {
            let work = worker.clone().work(term);
            async move {
                if careless {
                    // A task that nobody ends is how to be careless in Rust.
                    tokio::spawn(work).await
                } else {
                    work.await;
                    Ok(())
                }
            }
        })
        .await?;
    Ok(never)
}
