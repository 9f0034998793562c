//! Attempts until one is won, the deadline comes, or the caller gives up.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::clock::Instant;
use crate::error::{Error, ErrorKind, NodeError, shown};
use crate::mutants::mutant;
use crate::round::{Hold, Lost, Said, Terms};
use crate::set::Set;
use crate::waiting::Waiting;

/// Acquires with one token after the other. `wait`: zero tries once, `None`
/// tries for ever. `again` runs before each attempt and may end the wait with
/// a result of its own.
///
/// # Cancel safety
///
/// Dropping the future ends the attempt under way and sends its undo.
pub async fn acquire<T>(
    set: &Arc<Set>,
    terms: &Terms,
    name: &[u8],
    wait: Option<Duration>,
    mut again: impl FnMut() -> Option<T>,
) -> Result<Acquired<T>, Error> {
    let deadline = wait.map_or(Instant::FAR, |wait| set.clock.now() + wait);
    let once = wait == Some(Duration::ZERO);
    let mut waiting = Waiting::default();
    let mut last: Option<Lost> = None;
    loop {
        if let Some(other) = again() {
            return Ok(Acquired::Other(other));
        }
        let attempt = Attempt(Some(Hold::begin(set, terms)));
        let lost = match attempt
            .run(mutant!(
                "attempt-past-deadline",
                if once { Instant::FAR } else { deadline },
                Instant::FAR
            ))
            .await
        {
            Ok(hold) => return Ok(Acquired::Hold(hold)),
            Err(Ended::Lost(lost)) => lost,
            // The deadline cut this attempt short: the one before it tells
            // more.
            Err(Ended::Deadline(so_far)) => {
                return Err(timed_out(set, name, wait, last.as_ref().unwrap_or(&so_far)));
            }
        };
        if lost.misconfigured {
            let message = format!(
                "no quorum for the lock {}: nodes or credentials are set up wrong",
                shown(name)
            );
            return Err(error(set, ErrorKind::Misconfigured, message, &lost));
        }
        if once {
            return Err(refused(set, name, &lost));
        }
        if set.clock.now() >= deadline {
            return Err(timed_out(set, name, wait, &lost));
        }
        waiting.next(set, left(&lost), deadline).await;
        if set.clock.now() >= deadline {
            return Err(timed_out(set, name, wait, &lost));
        }
        last = Some(lost);
    }
}

/// What an acquire ended with.
#[derive(Debug)]
pub enum Acquired<T> {
    /// A lease, won.
    Hold(Arc<Hold>),
    /// What `again` had to offer.
    Other(T),
}

/// An attempt under way. Dropped, it is undone.
struct Attempt(Option<Arc<Hold>>);

enum Ended {
    Lost(Lost),
    Deadline(Lost),
}

impl Attempt {
    async fn run(mut self, deadline: Instant) -> Result<Arc<Hold>, Ended> {
        let hold = self.0.clone().expect("taken below only");
        // A round is over by then, so a later deadline needs no timer.
        let timed = deadline < hold.round_ends();
        let outcome = {
            let mut verdict = pin!(hold.verdict());
            let mut timer = timed.then(|| hold.set.clock.sleep_until(deadline));
            std::future::poll_fn(|cx| {
                if let Poll::Ready(outcome) = verdict.as_mut().poll(cx) {
                    return Poll::Ready(Some(outcome));
                }
                match timer.as_mut().map(|t| t.as_mut().poll(cx)) {
                    Some(Poll::Ready(())) => Poll::Ready(None),
                    _ => Poll::Pending,
                }
            })
            .await
        };
        match outcome {
            Some(Ok(())) => {
                self.0 = None;
                Ok(hold)
            }
            Some(Err(lost)) => Err(Ended::Lost(lost)),
            None => Err(Ended::Deadline(hold.so_far())),
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(hold) = self.0.take()
            && mutant!("dropped-attempt-stays", true, false)
        {
            hold.release();
        }
    }
}

/// How long the votes last that stand in the way: the time until a quorum of
/// nodes may be free.
fn left(lost: &Lost) -> Option<Duration> {
    lost.said
        .iter()
        .filter_map(|said| match said {
            Said::Refused { left, .. } => *left,
            _ => None,
        })
        .max()
}

fn refused(set: &Set, name: &[u8], lost: &Lost) -> Error {
    if lost.contended {
        let message = format!("the lock {} is held by another", shown(name));
        error(set, ErrorKind::Contended, message, lost)
    } else {
        unavailable(set, name, "", lost)
    }
}

fn timed_out(set: &Set, name: &[u8], wait: Option<Duration>, lost: &Lost) -> Error {
    let after = wait.map_or(String::new(), |wait| format!(" within {wait:?}"));
    if lost.answered {
        let message = format!(
            "the lock {} was not free{after}: it is held by another",
            shown(name)
        );
        error(set, ErrorKind::Timeout, message, lost)
    } else {
        unavailable(set, name, &after, lost)
    }
}

fn unavailable(set: &Set, name: &[u8], after: &str, lost: &Lost) -> Error {
    let nodes = set.links.len();
    let message = format!(
        "no quorum for the lock {}{after}: {} of {nodes} nodes must vote for it; look at the nodes",
        shown(name),
        crate::quorum::quorum(nodes),
    );
    error(set, ErrorKind::QuorumUnavailable, message, lost)
}

/// An error with what each node said.
pub(crate) fn error(set: &Set, kind: ErrorKind, message: String, lost: &Lost) -> Error {
    let nodes = set
        .links
        .iter()
        .zip(&lost.said)
        .map(|(link, said)| NodeError::new(link.shown(), said.to_string()))
        .collect();
    Error::with_nodes(kind, message, nodes)
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Said::Nothing => f.write_str("no answer yet"),
            Said::Granted => f.write_str("granted"),
            Said::Refused { left, holder } => {
                f.write_str("held by another")?;
                if let Some(holder) = holder {
                    write!(f, ", {holder}")?;
                }
                match left {
                    Some(left) => write!(f, ", for {left:?} unless renewed"),
                    None => Ok(()),
                }
            }
            Said::Quarantined { left } => write!(
                f,
                "in quarantine for {left:?}: it is new, or may have lost its memory"
            ),
            Said::Late => f.write_str("its clock has stepped"),
            Said::Fault(fault) => f.write_str(&fault.text),
        }
    }
}
