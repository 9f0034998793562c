//! Waiting for the lock: the user sees what it waits for, and a signal ends the wait.

use std::future::poll_fn;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorlock::{Client, Error, Inspection, Lease, Lock, NodeError};
use serde_json::{Value, json};

use super::child;
use crate::clock::{now, wall_clock};
use crate::events::{Event, Events, stop_here};
use crate::output::{plain, seconds};
use crate::times;
use crate::voice::Voice;

/// The user first hears of the wait after so long.
const FIRST: Duration = Duration::from_secs(1);
/// How often then, on a terminal and elsewhere.
const EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// How often releases are looked at that are under way.
const LOOK: Duration = Duration::from_millis(10);
/// Many that find the same nodes in quarantine ask again within so long of its end, each at another
/// moment: of those that ask in the same one each may get some votes, and none a quorum.
const APART: Duration = Duration::from_millis(500);

/// A look at the holder of the lock.
type Look<'a> = Pin<Box<dyn Future<Output = Result<Inspection, Error>> + 'a>>;
/// An attempt to win it.
type Attempt<'a> = Pin<Box<dyn Future<Output = Result<Lease, Error>> + 'a>>;

/// How a lock is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long, while others hold it; without an end if there is none.
    pub wait: Option<Duration>,
    /// How long, where that is zero, for votes of nodes in quarantine.
    pub votes: Duration,
    /// How long for the nodes' clocks.
    pub hear: Duration,
    /// Whether hosts that try in the same moment settle it between them.
    pub settles: bool,
}

/// Why there is no lease.
#[derive(Debug)]
pub enum NoLease {
    Failed(Error),
    /// This signal came.
    Signal(i32),
}

/// What it is about.
enum Stage<'a> {
    Asks(Attempt<'a>),
    /// Nodes in quarantine would make a quorum by then.
    AwaitsVotes(Duration),
    /// It stops as soon as what was under way is undone, and by then at the latest.
    Stops(Duration),
}

/// Acquires the lock, as long as `patience` lasts. `label`: what others see of this client. A
/// signal that ends the wait undoes what is under way when the client is closed; a signal that
/// stops this process, before that.
///
/// A client that has heard of the nodes' clocks says in its votes since when it has the lock. So
/// the nodes are asked for them first: for `hear` at most, and for half of the wait, which it
/// counts in. What comes next reports nodes that do not answer.
pub fn acquire(
    (client, label): (&Client, &str),
    lock: &Lock,
    patience: Patience,
    events: &mut Events,
    voice: &mut Voice,
) -> Result<Lease, NoLease> {
    let Patience { wait, hear, .. } = patience;
    let name = &String::from_utf8_lossy(lock.name());
    let begun = now();
    let half = wait.filter(|wait| !wait.is_zero()).map(|wait| wait / 2);
    let heard_by = begun + half.map_or(hear, |half| half.min(hear));
    let left = || wait.map(|wait| wait.saturating_sub(now() - begun));
    let first: Attempt<'_> = Box::pin(async {
        hear_clocks(lock, heard_by).await;
        lock.clone().wait(left()).acquire().await
    });
    let again = || -> Stage<'_> {
        let lock = lock.clone().wait(left());
        Stage::Asks(Box::pin(async move { lock.acquire().await }))
    };
    // What the nodes said where it awaits votes.
    let mut said = Vec::new();
    let mut stage = Stage::Asks(first);
    let mut look: Option<Look<'_>> = None;
    let every = EVERY[usize::from(!voice.is_live())];
    let mut next = now() + FIRST;
    let outcome = loop {
        match &mut stage {
            Stage::Asks(attempt) => match events.poll(attempt) {
                Poll::Ready(Ok(lease)) => break Ok(lease),
                Poll::Ready(Err(error)) => {
                    let Some(at) = patience.votes_at(begun, &error) else {
                        break Err(NoLease::Failed(error));
                    };
                    stage = Stage::AwaitsVotes(at);
                    said = error.nodes().to_vec();
                    // The next look is now: the wait may be over before another.
                    next = now();
                }
                Poll::Pending => {}
            },
            Stage::AwaitsVotes(at) if now() >= *at => {
                stage = again();
                continue;
            }
            Stage::Stops(by) if client.stats().releases_pending == 0 || now() >= *by => {
                stop_here();
                (stage, next) = (again(), now() + FIRST);
                continue;
            }
            Stage::AwaitsVotes(_) | Stage::Stops(_) => {}
        }
        if let Some(future) = &mut look
            && let Poll::Ready(found) = events.poll(future)
        {
            let said = match stage {
                Stage::AwaitsVotes(_) => said.clone(),
                _ => lock.answers(),
            };
            tell((name, label), &found, &said, client.stats().ahead, voice);
            look = None;
        }
        if now() >= next {
            next = now() + every;
            if look.is_none() {
                look = Some(Box::pin(lock.inspect()));
                continue;
            }
        }
        let at = match (&stage, now() < heard_by) {
            (Stage::AwaitsVotes(at), _) => next.min(*at),
            (Stage::Stops(_), _) => now() + LOOK,
            (_, true) => next.min(heard_by),
            (_, false) => next,
        };
        match events.next(at.saturating_sub(now())) {
            Event::Signal { number, .. } if ENDS.contains(&number) => {
                break Err(NoLease::Signal(number));
            }
            Event::Signal { number, .. } if number == libc::SIGTSTP => {
                // Others are not to wait for a process that stands still.
                (stage, look) = (Stage::Stops(now() + hear), None);
                next = Duration::MAX;
                voice.clear();
            }
            // It is to go on before it has stopped.
            Event::Signal { number, .. }
                if number == libc::SIGCONT && matches!(stage, Stage::Stops(_)) =>
            {
                (stage, next) = (again(), now() + FIRST);
            }
            Event::Signal { number, .. } if number == libc::SIGCHLD => child::reap(),
            Event::Signal { .. } | Event::Look => {}
        }
    };
    voice.clear();
    outcome
}

/// What ends the wait.
const ENDS: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

impl Patience {
    /// When it is worth asking again after this error, where a quorum of the nodes will vote soon
    /// enough.
    fn votes_at(&self, begun: Duration, error: &Error) -> Option<Duration> {
        if self.wait != Some(Duration::ZERO) {
            return None;
        }
        let votes_at = now().checked_add(error.votes_in()?)?;
        if votes_at > begun.saturating_add(self.votes) {
            return None;
        }
        let apart = if self.settles {
            Duration::ZERO
        } else {
            drawn(APART)
        };
        Some(votes_at + apart + Duration::from_millis(1))
    }
}

/// A time of up to `most`, another for each process. Process ids would not do: all containers may have the same.
fn drawn(most: Duration) -> Duration {
    let drawn = RandomState::new().build_hasher().finish();
    most.mul_f64((drawn >> 32) as f64 / f64::from(u32::MAX))
}

/// Asks the nodes for their clocks, until then at most.
async fn hear_clocks(lock: &Lock, until: Duration) {
    let mut heard = pin!(lock.inspect());
    let is_over = |heard: Poll<_>| heard.is_ready() || now() >= until;
    poll_fn(|cx| {
        if is_over(heard.as_mut().poll(cx).map(drop)) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// What nodes lack for a lock that is not held.
struct MissingVotes {
    /// How many would vote, of how many.
    votes: (usize, usize),
    /// The others, and why not.
    nodes: Vec<(String, String)>,
}

impl MissingVotes {
    /// `label`: of this client, whose attempt may have votes. `said`: what the nodes said to the last
    /// one, which tells more of those that only look as if they voted.
    fn of(found: &Inspection, label: &str, said: &[NodeError]) -> MissingVotes {
        let views = found.nodes();
        let mut nodes = Vec::new();
        for (i, view) in views.iter().enumerate() {
            let fault = said.get(i).filter(|said| said.is_fault());
            let why = match (view.error(), view.state()) {
                _ if !view.quarantine().is_zero() => {
                    format!("in quarantine for {}", times::shown(view.quarantine()))
                }
                (Some(error), _) => error.to_owned(),
                (None, "free") => match fault {
                    Some(fault) => fault.message().to_owned(),
                    None => continue,
                },
                (None, _) if view.label() == Some(label) => continue,
                (None, state) => match view.label() {
                    Some(label) => format!("{state} by {label}"),
                    None => state.to_owned(),
                },
            };
            nodes.push((view.node().to_owned(), plain(&why)));
        }
        MissingVotes {
            votes: (views.len() - nodes.len(), views.len()),
            nodes,
        }
    }

    fn told(&self) -> String {
        let (votes, of) = self.votes;
        let mut text = format!("{votes} of {of} votes");
        for (node, why) in &self.nodes {
            text += &format!("; {} {why}", plain(node));
        }
        text
    }

    fn as_values(&self) -> Value {
        let nodes = self.nodes.iter();
        nodes
            .map(|(node, why)| json!({"node": node, "said": why}))
            .collect()
    }
}

/// `said`: what the nodes said to the last attempt. `ahead`: how many wait before this client, as
/// far as the nodes said.
fn tell(
    (name, label): (&str, &str),
    found: &Result<Inspection, Error>,
    said: &[NodeError],
    ahead: u64,
    voice: &mut Voice,
) {
    let found = found.as_ref();
    let holder = found.ok().and_then(Inspection::holder);
    let holders = holder.and_then(|holder| holder.label());
    let since = holder.and_then(|holder| holder.since());
    let lacking = found.ok().filter(|_| holder.is_none());
    let lacking = lacking.map(|found| MissingVotes::of(found, label, said));
    let mut parts = Vec::new();
    if ahead > 0 {
        parts.push(format!("{ahead} before us"));
    }
    parts.push(match (holder, &lacking, found) {
        (Some(_), ..) => {
            let who = holders.map_or("somebody without a label".to_owned(), plain);
            let since = since.map(|since| format!(", since {}", shown_since(since)));
            format!("held by {who}{}", since.unwrap_or_default())
        }
        (None, Some(lacking), _) if !lacking.nodes.is_empty() => lacking.told(),
        (None, _, Ok(found)) => found.verdict().as_str().to_owned(),
        // Of a semaphore there is what the nodes said to the attempt.
        (None, _, Err(_)) if !said.is_empty() => {
            let said: Vec<_> = said.iter().map(|node| plain(&node.to_string())).collect();
            said.join("; ")
        }
        (None, _, Err(error)) => plain(error.message()),
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
        "holder": holders,
        "since": since.map(seconds),
        "ahead": ahead,
        "votes": lacking.as_ref().map(|lacking| lacking.votes.0),
        "nodes": lacking.map_or(json!([]), |lacking| lacking.as_values()),
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
