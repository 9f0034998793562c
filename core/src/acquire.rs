//! Attempts until one is won, the deadline comes, or the caller gives up.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::clock::Instant;
use crate::error::{Error, ErrorKind, NodeError, shown};
use crate::mutants::mutant;
use crate::renewal::Watched;
use crate::round::{Hold, Lost, Said, Terms};
use crate::set::Set;
use crate::waiting::{Lines, Place, Turn, Waiting};

/// How an acquire waits.
#[derive(Debug)]
pub struct Wait<'a> {
    /// Zero tries once, without a place in the line; `None` waits for ever.
    pub long: Option<Duration>,
    /// The lines of the client.
    pub lines: &'a Arc<Lines>,
    /// How many may wait in the line for a lock, behind the one that asks.
    pub most: usize,
}

/// Acquires with one token after the other, once it is the caller's turn in
/// the line of this client. `again` runs before each attempt, and whenever the
/// wait in the line is woken, and may end it with a result of its own.
///
/// # Cancel safety
///
/// Dropping the future ends the attempt under way and sends its undo; a place
/// in the line is left.
pub async fn acquire<T>(
    set: &Arc<Set>,
    terms: &Terms,
    name: &[u8],
    wait: Wait<'_>,
    mut again: impl FnMut() -> Option<T>,
) -> Result<Acquired<T>, Error> {
    let Wait { long, lines, most } = wait;
    let deadline = long.map_or(Instant::FAR, |long| set.clock.now() + long);
    let once = long == Some(Duration::ZERO);
    if let Some(other) = again() {
        return Ok(Acquired::Other(other));
    }
    let mut place = None;
    if !once {
        let Some(entered) = lines.enter(terms, most) else {
            return Err(too_many(name, most));
        };
        match turn(set, place.insert(entered), deadline, &mut again).await {
            Some(Called::Turn(Turn::Ask(rest))) if rest.is_zero() => {}
            Some(Called::Turn(Turn::Ask(rest))) => {
                // Others of our client had it: now those of other clients may.
                let until = set.clock.now() + set.rng.between(rest / 2, rest);
                set.clock.sleep_until(until.min(deadline)).await;
                if set.clock.now() >= deadline {
                    return Err(timed_out_in_line(set, name, long, place.as_ref()));
                }
            }
            Some(Called::Turn(Turn::Given((hold, watched)))) => {
                return Ok(Acquired::Given(hold, watched));
            }
            Some(Called::Other(other)) => return Ok(Acquired::Other(other)),
            None => return Err(timed_out_in_line(set, name, long, place.as_ref())),
        }
    }
    let mut waiting = Waiting::default();
    let mut last: Option<Arc<Lost>> = None;
    loop {
        let block = place.as_ref().map_or(1, Place::block);
        let attempt = Attempt(Some(Hold::begin(set, terms, block)));
        let lost = match attempt
            .run(mutant!(
                "attempt-past-deadline",
                if once { Instant::FAR } else { deadline },
                Instant::FAR
            ))
            .await
        {
            Ok(hold) => {
                if let Some(place) = place {
                    place.won(&hold);
                }
                return Ok(Acquired::Hold(hold));
            }
            Err(Ended::Lost(lost)) => Arc::new(lost),
            // The deadline cut this attempt short: the one before it tells
            // more.
            Err(Ended::Deadline(so_far)) => {
                return Err(timed_out(
                    set,
                    name,
                    long,
                    last.as_deref().unwrap_or(&so_far),
                ));
            }
        };
        if let Some(place) = &place {
            place.tell(lost.clone());
        }
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
            return Err(timed_out(set, name, long, &lost));
        }
        waiting.next(set, left(&lost), deadline).await;
        if set.clock.now() >= deadline {
            return Err(timed_out(set, name, long, &lost));
        }
        last = Some(lost);
        if let Some(other) = again() {
            return Ok(Acquired::Other(other));
        }
    }
}

/// What an acquire ended with.
#[derive(Debug)]
pub enum Acquired<T> {
    /// A lease, won.
    Hold(Arc<Hold>),
    /// A lease that another of this client has passed on, and its watch.
    Given(Arc<Hold>, Watched),
    /// What `again` had to offer.
    Other(T),
}

/// What the wait in a line ended with.
enum Called<T> {
    Turn(Turn),
    /// What `again` had to offer.
    Other(T),
}

/// Waits in the line until we are called; `None` at the deadline.
async fn turn<T>(
    set: &Set,
    place: &mut Place,
    deadline: Instant,
    again: &mut impl FnMut() -> Option<T>,
) -> Option<Called<T>> {
    if place.is_turn() {
        return Some(Called::Turn(Turn::Ask(Duration::ZERO)));
    }
    let mut timer = None;
    std::future::poll_fn(|cx| {
        // First, for it leaves what we may be given to the next.
        if let Some(other) = again() {
            return Poll::Ready(Some(Called::Other(other)));
        }
        if let Poll::Ready(turn) = place.poll_turn(cx) {
            return Poll::Ready(Some(Called::Turn(turn)));
        }
        if deadline == Instant::FAR {
            return Poll::Pending;
        }
        let timer = timer.get_or_insert_with(|| set.clock.sleep_until(deadline));
        timer.as_mut().poll(cx).map(|()| None)
    })
    .await
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

fn timed_out_in_line(
    set: &Set,
    name: &[u8],
    wait: Option<Duration>,
    place: Option<&Place>,
) -> Error {
    // Whoever asked for us knows more.
    if let Some(said) = place.and_then(Place::said) {
        return timed_out(set, name, wait, &said);
    }
    let after = wait.map_or(String::new(), |wait| format!(" within {wait:?}"));
    let message = format!(
        "the lock {} was not free{after}: it is held, or asked for, by another owner of this client",
        shown(name)
    );
    Error::new(ErrorKind::Timeout, message)
}

fn too_many(name: &[u8], most: usize) -> Error {
    let message = format!(
        "{most} others of this client wait for the lock {} already, as many as max_waiters allows: \
         shed load, or raise it",
        shown(name)
    );
    Error::new(ErrorKind::TooManyWaiters, message)
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
