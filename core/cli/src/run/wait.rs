//! Waiting for the lock: who holds it is told, and a signal ends the wait.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorlock::{Client, Error, Inspection, Lease, Lock};
use serde_json::json;

use crate::clock::{now, wall_clock};
use crate::events::{Event, Events};
use crate::output::{plain, seconds};
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

/// Acquires the lock within `wait`, without an end if there is none. What is under way at a signal is undone when the
/// client is closed.
///
/// A client that has heard of the nodes' clocks says in its votes since when it has the lock. So the nodes are asked for
/// them first: for `hear` at most, and for half of the wait, which it counts in. Nodes that do not answer are told by what
/// comes next.
pub fn acquire(
    client: &Client,
    lock: &Lock,
    wait: Option<Duration>,
    hear: Duration,
    events: &mut Events,
    voice: &mut Voice,
) -> Result<Lease, Without> {
    let name = &String::from_utf8_lossy(lock.name());
    let begun = now();
    let half = wait.filter(|wait| !wait.is_zero()).map(|wait| wait / 2);
    let heard_by = begun + half.map_or(hear, |half| half.min(hear));
    let mut won = pin!(async {
        {
            let mut heard = pin!(lock.inspect());
            let is_over = |heard: Poll<_>| heard.is_ready() || now() >= heard_by;
            poll_fn(|cx| match is_over(heard.as_mut().poll(cx).map(drop)) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        }
        let left = wait.map(|wait| wait.saturating_sub(now() - begun));
        lock.clone().wait(left).acquire().await
    });
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
            tell(name, &found, client.stats().ahead, voice);
            look = None;
        }
        if now() >= next {
            next = now() + every;
            if look.is_none() {
                look = Some(Box::pin(lock.inspect()));
                continue;
            }
        }
        let at = match now() < heard_by {
            true => next.min(heard_by),
            false => next,
        };
        if let Event::Signal { number, .. } = events.next(at.saturating_sub(now()))
            && [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM].contains(&number)
        {
            break Err(Without::Signal(number));
        }
    };
    voice.clear();
    outcome
}

/// `ahead`: how many wait before us, as far as the nodes told.
fn tell(name: &str, found: &Result<Inspection, Error>, ahead: u64, voice: &mut Voice) {
    let holder = found.as_ref().ok().and_then(Inspection::holder);
    let label = holder.and_then(|holder| holder.label());
    let since = holder.and_then(|holder| holder.since());
    let mut parts = Vec::new();
    if ahead > 0 {
        parts.push(format!("{ahead} before us"));
    }
    parts.push(match (holder, found) {
        (Some(_), _) => {
            let who = label.map_or("somebody without a label".to_owned(), plain);
            let since = since.map(|since| format!(", since {}", shown_since(since)));
            format!("held by {who}{}", since.unwrap_or_default())
        }
        (None, Ok(found)) => found.verdict().as_str().to_owned(),
        (None, Err(error)) => plain(error.message()),
    });
    voice.update(&format!(
        "waiting for {}: {}",
        plain(name),
        parts.join(" · ")
    ));
    let since = since.and_then(|since| since.duration_since(UNIX_EPOCH).ok());
    voice.tell(&json!({
        "event": "waiting",
        "lock": name,
        "holder": label,
        "since": since.map(seconds),
        "ahead": ahead,
    }));
}

/// The time of day, and how long ago that was.
fn shown_since(since: SystemTime) -> String {
    let at = since.duration_since(UNIX_EPOCH).unwrap_or_default();
    let clock = wall_clock(at.as_secs());
    match since.elapsed() {
        Ok(long) => format!("{clock} ({})", times::shown(long)),
        // By the nodes' clocks, which may be before ours.
        Err(_) => clock,
    }
}
