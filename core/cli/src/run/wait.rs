//! Waiting for the lock: who holds it is told, and a signal ends the wait.

use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use quorlock::{Error, Inspection, Lease, Lock};
use serde_json::json;

use crate::clock::now;
use crate::events::{Event, Events};
use crate::times;
use crate::voice::Voice;

/// After so long the wait is told for the first time.
const FIRST: Duration = Duration::from_secs(1);
/// How often then, on a terminal and elsewhere.
const EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// A look at who holds the lock.
type Look<'a> = Pin<Box<dyn Future<Output = Result<Inspection, Error>> + 'a>>;

/// Why there is no lease.
#[derive(Debug)]
pub enum Without {
    Failed(Error),
    /// This signal came.
    Signal(i32),
}

/// Acquires the lock. What is under way at a signal is undone when the client is closed.
pub fn acquire(
    lock: &Lock,
    name: &str,
    events: &mut Events,
    voice: &mut Voice,
) -> Result<Lease, Without> {
    let mut won = pin!(lock.acquire());
    let mut look: Option<Look<'_>> = None;
    let every = EVERY[usize::from(!voice.is_live())];
    let mut next = now() + FIRST;
    let outcome = loop {
        if let Poll::Ready(outcome) = events.poll(&mut won) {
            break outcome.map_err(Without::Failed);
        }
        if let Some(future) = &mut look
            && let Poll::Ready(found) = events.poll(future)
        {
            tell(name, &found, voice);
            look = None;
        }
        if now() >= next {
            next = now() + every;
            if look.is_none() {
                look = Some(Box::pin(lock.inspect()));
                continue;
            }
        }
        if let Event::Signal { number, .. } = events.next(next.saturating_sub(now()))
            && [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM].contains(&number)
        {
            break Err(Without::Signal(number));
        }
    };
    voice.clear();
    outcome
}

fn tell(name: &str, found: &Result<Inspection, Error>, voice: &mut Voice) {
    let holder = found.as_ref().ok().and_then(Inspection::holder);
    let label = holder.and_then(|holder| holder.label());
    let mut line = format!("waiting for {name}");
    match (holder, found) {
        (Some(holder), _) => {
            line += &format!(": held by {}", label.unwrap_or("somebody without a label"));
            let since = holder.since().and_then(|since| since.elapsed().ok());
            if let Some(long) = since {
                line += &format!(" for {}", times::shown(long));
            }
        }
        (None, Ok(found)) => line += &format!(": {}", found.verdict().as_str()),
        (None, Err(error)) => line += &format!(": {}", error.message()),
    }
    if let Ok(found) = found
        && found.queued() > 0
    {
        line += &format!(", {} in the queue", found.queued());
    }
    voice.update(&line);
    voice.tell(&json!({"event": "waiting", "lock": name, "holder": label}));
}
