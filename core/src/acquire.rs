//! From a call to its lease: once, or through the line of this client and the
//! queue of the others; and what is said where it comes to nothing.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::clock::Instant;
use crate::error::{Error, ErrorKind, shown};
use crate::mutants::mutant;
use crate::post::Post;
use crate::quorum::Kind;
use crate::renewal::Watched;
use crate::round::{Hold, NoQuorum, Terms};
use crate::set::Set;
use crate::waiting::{Ended, Lines, Place, Quest, Turn};

/// How an acquire waits.
#[derive(Debug)]
pub struct Wait<'a> {
    /// Zero tries once, without a place in the line; `None` waits for ever.
    pub long: Option<Duration>,
    /// The lines of the client.
    pub lines: &'a Arc<Lines>,
    /// Where the nodes call its waiters.
    pub post: &'a Arc<Post>,
    /// How many may wait in the line for a lock, behind the one that asks.
    pub most: usize,
}

/// Acquires the lock, once it is the caller's turn in the line of this client.
/// `again` runs at first, and whenever something has changed in this client; it
/// may end the wait with a result of its own.
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
    let Wait {
        long,
        lines,
        post,
        most,
    } = wait;
    let deadline = long.map_or(Instant::FAR, |long| set.clock.now() + long);
    if let Some(other) = again() {
        return Ok(Acquired::Other(other));
    }
    if long == Some(Duration::ZERO) {
        return once(set, post, terms, name, again).await;
    }
    let Some(mut place) = lines.enter(terms, most) else {
        return Err(too_many(name, most));
    };
    match turn(set, &mut place, deadline, &mut again).await {
        Some(Called::Turn(Turn::Ask)) => {}
        Some(Called::Turn(Turn::Given((hold, watched)))) => {
            return Ok(Acquired::Given(hold, watched));
        }
        Some(Called::Other(other)) => return Ok(Acquired::Other(other)),
        None => return Err(timed_out_in_line(set, name, long, &place)),
    }
    let ended = Quest::new(set, post, terms, &place)
        .run(deadline, &mut again)
        .await;
    match ended {
        Ended::Won(hold) => {
            place.won(&hold);
            Ok(Acquired::Hold(hold))
        }
        Ended::Other(other) => Ok(Acquired::Other(other)),
        Ended::Deadline(lost) => Err(lost.timed_out(set, name, long)),
        Ended::Misconfigured(lost) => Err(lost.set_up_wrong(set, name)),
    }
}

/// Tries once, without a place in any line.
async fn once<T>(
    set: &Arc<Set>,
    post: &Arc<Post>,
    terms: &Terms,
    name: &[u8],
    mut again: impl FnMut() -> Option<T>,
) -> Result<Acquired<T>, Error> {
    let letters = post.rent(&terms.keys.lock);
    let mut attempt = Attempt(Some(Hold::begin(set, terms, 1)));
    let ended = poll_fn(|cx| {
        let hold = attempt.0.as_ref().expect("taken below only");
        if let Poll::Ready(verdict) = hold.poll_verdict(cx) {
            return Poll::Ready(Ok(verdict));
        }
        // Nobody can call one that is in no queue: this client alone has news.
        while letters.poll_news(cx).is_ready() {
            if let Some(other) = again() {
                return Poll::Ready(Err(other));
            }
        }
        Poll::Pending
    });
    match ended.await {
        Err(other) => Ok(Acquired::Other(other)),
        Ok(Ok(())) => Ok(Acquired::Hold(attempt.0.take().expect("taken here only"))),
        Ok(Err(lost)) if lost.misconfigured => Err(lost.set_up_wrong(set, name)),
        Ok(Err(lost)) => {
            if lost.kind() == Kind::Held {
                post.note_contention(&terms.keys.lock, set.clock.now());
            }
            Err(lost.refused(set, name))
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
        return Some(Called::Turn(Turn::Ask));
    }
    let mut timer = None;
    poll_fn(|cx| {
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

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(hold) = self.0.take()
            && mutant!("dropped-attempt-stays", true, false)
        {
            hold.release();
        }
    }
}

fn timed_out_in_line(set: &Set, name: &[u8], wait: Option<Duration>, place: &Place) -> Error {
    // Whoever asked for us knows more, unless its nodes have yet to answer.
    let decided = |said: &Arc<NoQuorum>| said.kind() != Kind::Undecided;
    if let Some(said) = place.said().filter(decided) {
        return said.timed_out(set, name, wait);
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
