//! From a call to its lease: once, or through the queue of this client and the queue that the
//! clients share.
//!
//! | file | one idea |
//! |---|---|
//! | [`local_queue`] | the callers of this client wait in their order; the first of them asks the nodes |
//! | [`driver`] | the first caller asks, queues at the lock's home, is called, and asks again |
//! | [`inbox`] | the messages by which nodes call the waiters of this client |
//! | [`failure_log`] | what the nodes said to the attempts of one call |
//! | [`failed`] | the error that says why the lock was not acquired |

mod driver;
pub(crate) mod failed;
mod failure_log;
pub mod inbox;
pub mod local_queue;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::clock::Instant;
use crate::error::{Error, ErrorKind, shown, within_wait};
use crate::node::Mode;
use crate::protocol::claim::LockParams;
use crate::protocol::claim::failure::NoQuorum;
use crate::protocol::claim_cell::{ClaimCell, look_for_slot};
use crate::protocol::quorum::Kind;
use crate::protocol::renewal::WatchHandle;
use crate::protocol::set::Set;
use driver::{AcquireLoop, LoopEnd};
use failed::WaitKind;
use inbox::Inbox;
use local_queue::{Grant, LocalPlace, LocalQueues};

/// How many slots of a semaphore a call tries that does not wait: each that the home names
/// may be another's a moment later.
const SLOTS_TRIED: u32 = 4;

/// How an acquire waits.
#[derive(Debug)]
pub struct Wait<'a> {
    /// Zero tries once, without a place in the line; `None` waits forever.
    pub limit: Option<Duration>,
    /// The lines of the client.
    pub lines: &'a Arc<LocalQueues>,
    /// Where the nodes call its waiters.
    pub inbox: &'a Arc<Inbox>,
    /// How many calls may wait in the queue for a lock, behind the call that asks.
    pub max_waiters: usize,
}

/// Acquires the lock, once it is the caller's turn in the line of this client.
/// `reenter` runs at first, and whenever something has changed in this client; it
/// may end the wait with a result of its own.
///
/// # Cancel safety
///
/// Dropping the future ends the attempt under way and sends its undo; a place
/// in the line is left.
pub async fn acquire<T>(
    set: &Arc<Set>,
    terms: &LockParams,
    name: &[u8],
    wait: Wait<'_>,
    mut reenter: impl FnMut() -> Option<T>,
) -> Result<AcquireResult<T>, Error> {
    let Wait {
        limit,
        lines,
        inbox,
        max_waiters,
    } = wait;
    let deadline = limit.map_or(Instant::FAR, |limit| set.clock.now() + limit);
    if let Some(entered) = reenter() {
        return Ok(AcquireResult::Reentered(entered));
    }
    if limit == Some(Duration::ZERO) {
        // In a box, for a call that waits would have its size, too.
        return Box::pin(once(set, inbox, terms, name, reenter)).await;
    }
    let Some(mut place) = lines.enter(terms, max_waiters) else {
        return Err(too_many(name, max_waiters));
    };
    match turn(set, &mut place, deadline, &mut reenter).await {
        Some(TurnEnd::Grant(Grant::Ask)) => {}
        Some(TurnEnd::Grant(Grant::Given((hold, watched)))) => {
            return Ok(AcquireResult::Given(hold, watched));
        }
        Some(TurnEnd::Reentered(entered)) => return Ok(AcquireResult::Reentered(entered)),
        None => return Err(timed_out_in_line(set, name, limit, &place)),
    }
    let mut attempts = AcquireLoop::new(set, inbox, terms, &place);
    let ended = attempts.run(deadline, &mut reenter).await;
    // What was not won is taken back before the caller hears of it.
    drop(attempts);
    match ended {
        LoopEnd::Won(hold) => {
            place.won(&hold);
            Ok(AcquireResult::Won(hold))
        }
        LoopEnd::Reentered(entered) => Ok(AcquireResult::Reentered(entered)),
        LoopEnd::Failed(lost) => Err(lost.to_error(set, name, WaitKind::For(limit))),
    }
}

/// Tries once, without a place in any line.
async fn once<T>(
    set: &Arc<Set>,
    inbox: &Arc<Inbox>,
    terms: &LockParams,
    name: &[u8],
    mut reenter: impl FnMut() -> Option<T>,
) -> Result<AcquireResult<T>, Error> {
    let before = set.met().await;
    // Of a semaphore another slot may be free, as long as one attempt may take.
    let long = 2 * terms.timing.node_timeout;
    let mut ends = set.clock.now() + long;
    let mut first = try_once(set, inbox, terms, None, &mut reenter).await;
    if let Err(lost) = &first
        && lost.kind() == Kind::Unanswered
        && set.meets_again(&before).await
    {
        ends = set.clock.now() + long;
        first = try_once(set, inbox, terms, None, &mut reenter).await;
    }
    let mut lost = match first {
        Ok(acquired) => return Ok(acquired),
        Err(lost) => lost,
    };
    let slots = matches!(terms.keys.mode, Mode::AnySlot(_));
    for _ in 1..if slots { SLOTS_TRIED } else { 1 } {
        if lost.kind() != Kind::Held {
            break;
        }
        let slot = within(set, ends, look_for_slot(set, terms)).await.flatten();
        if slot.is_none() {
            break;
        }
        match within(set, ends, try_once(set, inbox, terms, slot, &mut reenter)).await {
            Some(Ok(acquired)) => return Ok(acquired),
            Some(Err(again)) => lost = again,
            None => break,
        }
    }
    Err(lost.to_error(set, name, WaitKind::Not))
}

/// What `what` brings before then. Else it is dropped.
async fn within<T>(set: &Set, ends: Instant, what: impl Future<Output = T>) -> Option<T> {
    let (mut what, mut timer) = (pin!(what), set.clock.sleep_until(ends));
    poll_fn(|cx| match what.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// One attempt, at the `slot` if there is one.
async fn try_once<T>(
    set: &Arc<Set>,
    inbox: &Arc<Inbox>,
    terms: &LockParams,
    slot: Option<u32>,
    reenter: &mut impl FnMut() -> Option<T>,
) -> Result<AcquireResult<T>, NoQuorum> {
    let registration = inbox.register(terms.keys.id());
    let mut attempt = Attempt(Some(ClaimCell::begin(set, terms, 1, slot)));
    let ended = poll_fn(|cx| {
        let hold = attempt.0.as_ref().expect("taken below only");
        if let Poll::Ready(verdict) = hold.poll_verdict(cx) {
            return Poll::Ready(Ok(verdict));
        }
        // A call that does not wait is queued nowhere, so only events of this client reach it.
        while registration.poll_notice(cx).is_ready() {
            if let Some(entered) = reenter() {
                return Poll::Ready(Err(entered));
            }
        }
        Poll::Pending
    });
    match ended.await {
        Err(entered) => Ok(AcquireResult::Reentered(entered)),
        Ok(Ok(())) => Ok(AcquireResult::Won(
            attempt.0.take().expect("taken here only"),
        )),
        Ok(Err(lost)) => Err(lost),
    }
}

/// What an acquire ended with.
#[derive(Debug)]
pub enum AcquireResult<T> {
    /// A lease, won.
    Won(Arc<ClaimCell>),
    /// A lease that another of this client has passed on, and its watch.
    Given(Arc<ClaimCell>, WatchHandle),
    /// What `reenter` had to offer.
    Reentered(T),
}

/// What the wait in a line ended with.
enum TurnEnd<T> {
    Grant(Grant),
    /// What `reenter` had to offer.
    Reentered(T),
}

/// Waits in the line until we are called; `None` at the deadline.
async fn turn<T>(
    set: &Set,
    place: &mut LocalPlace,
    deadline: Instant,
    reenter: &mut impl FnMut() -> Option<T>,
) -> Option<TurnEnd<T>> {
    if place.is_turn() {
        return Some(TurnEnd::Grant(Grant::Ask));
    }
    let mut timer = None;
    poll_fn(|cx| {
        // First, for a lease that this call enters again leaves what it may be given to the next.
        if let Some(entered) = reenter() {
            return Poll::Ready(Some(TurnEnd::Reentered(entered)));
        }
        if let Poll::Ready(turn) = place.poll_turn(cx) {
            return Poll::Ready(Some(TurnEnd::Grant(turn)));
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
pub(super) struct Attempt(pub(super) Option<Arc<ClaimCell>>);

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(hold) = self.0.take() {
            hold.release();
        }
    }
}

fn timed_out_in_line(set: &Set, name: &[u8], wait: Option<Duration>, place: &LocalPlace) -> Error {
    // The call that asked the nodes knows more, unless they have yet to answer it.
    let decided = |said: &Arc<NoQuorum>| said.kind() != Kind::Undecided;
    if let Some(said) = place.said().filter(decided) {
        return said.to_error(set, name, WaitKind::For(wait));
    }
    let after = within_wait(wait);
    let message = format!(
        "the lock {} was not free{after}: it is held, or asked for, by another owner of this client",
        shown(name)
    );
    Error::new(ErrorKind::Timeout, message).about(name, None)
}

fn too_many(name: &[u8], max_waiters: usize) -> Error {
    let message = format!(
        "{max_waiters} others of this client wait for the lock {} already, as many as max_waiters \
         allows: shed load, or raise it",
        shown(name)
    );
    Error::new(ErrorKind::TooManyWaiters, message).about(name, None)
}
