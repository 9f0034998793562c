//! A lease that goes on in another client, as [exported](crate::Lease::export): its votes are
//! taken over with a token of our own, each in one step on its node, so exclusion is that of
//! votes. Of two that adopt one lease each may have some of them, and one a quorum at most.
//!
//! Nodes that do not answer are asked again, with the same token, for what one attempt has
//! taken over the next one would not find.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::clock::Instant;
use crate::error::{Error, ErrorKind, shown};
use crate::node::Nodes;
use crate::protocol::acquire::Attempt;
use crate::protocol::acquire::failed::WaitKind;
use crate::protocol::claim::failure::NoQuorum;
use crate::protocol::claim::home::NodeState;
use crate::protocol::claim::{LockParams, Path};
use crate::protocol::claim_cell::ClaimCell;
use crate::protocol::quorum::quorum;
use crate::protocol::set::Set;

/// From one round to the next.
const PAUSE: Duration = Duration::from_millis(50);

/// Goes on with the lease whose value the terms name, if that is to be had before the
/// `deadline`.
///
/// # Errors
///
/// `LockLost` if too many nodes have its votes no more; `QuorumUnavailable` if too few
/// answered; `Misconfigured`.
///
/// # Cancel safety
///
/// Dropping the future gives back what was taken over.
pub(crate) async fn adopt(
    set: &Arc<Set>,
    terms: &LockParams,
    name: &[u8],
    deadline: Instant,
) -> Result<Arc<ClaimCell>, Error> {
    let now = set.clock.now();
    let mut attempt = Attempt(Some(ClaimCell::new(set, terms, 1, None, None, now)));
    let hold = attempt.0.clone().expect("it is there");
    let all = Nodes::all(set.links.len());
    hold.open(all, Nodes::NONE, Path::Script, now);
    let (mut seen, mut again) = (0, deadline);
    loop {
        let told = progress(set, &hold, &mut seen, again).await;
        if hold.is_won() {
            attempt.0 = None;
            return Ok(hold);
        }
        let (states, said, now) = (hold.node_states(), hold.so_far(), set.clock.now());
        if now >= deadline {
            return Err(unanswered(set, name, &said));
        }
        if !told {
            let missing = |i: &usize| states[*i] != NodeState::Granted;
            let missing = (0..states.len()).filter(missing).collect();
            hold.open(missing, Nodes::NONE, Path::Script, now);
            again = deadline;
            continue;
        }
        let gone = states
            .iter()
            .filter(|state| matches!(state, NodeState::Refused { .. }));
        if gone.count() > states.len() - quorum(states.len()) {
            return Err(ended(name));
        }
        if said.misconfigured {
            return Err(said.to_error(set, name, WaitKind::Not));
        }
        if hold.is_answered() {
            again = again.min(now + PAUSE);
        }
    }
}

/// Waits for more to know; false at that time.
async fn progress(set: &Set, hold: &ClaimCell, seen: &mut u64, deadline: Instant) -> bool {
    let mut timer = set.clock.sleep_until(deadline);
    poll_fn(|cx| match hold.poll_progress(seen, cx) {
        Poll::Ready(()) => Poll::Ready(true),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| false),
    })
    .await
}

fn ended(name: &[u8]) -> Error {
    let message = format!(
        "the lease of the lock {} that was exported is held no longer: it has ended, or another \
         has adopted it; a text is to be adopted once, within the ttl from its export",
        shown(name)
    );
    Error::new(ErrorKind::LockLost, message).about(name, None)
}

fn unanswered(set: &Set, name: &[u8], said: &NoQuorum) -> Error {
    let message = format!(
        "too few nodes answered to go on with the lease of the lock {}: its text may be adopted \
         yet, while its ttl lasts",
        shown(name)
    );
    said.error(set, ErrorKind::QuorumUnavailable, name, message)
}
