//! How a client that does not wait finds a free slot of a semaphore.

use std::future::poll_fn;
use std::sync::Arc;

use super::ClaimCell;
use crate::node::Nodes;
use crate::protocol::claim::{LockParams, Path, home};
use crate::protocol::set::Set;

/// Which slot is free, as the home says, for a call that does not wait.
pub(crate) async fn look_for_slot(set: &Arc<Set>, terms: &LockParams) -> Option<u32> {
    let now = set.clock.now();
    let ids = set.links.iter().map(|link| link.id());
    let order = home::order(&terms.keys.lock, ids);
    let home = order
        .into_iter()
        .find(|node| !set.is_out(*node, &terms.keys.lock))?;
    let looks = SlotProbe(ClaimCell::new(set, terms, 1, None, None, now));
    looks
        .0
        .open(Nodes::one(home), Nodes::NONE, Path::Script, now);
    let mut seen = 0;
    poll_fn(|cx| looks.0.poll_progress(&mut seen, cx)).await;
    looks.0.chosen()
}

/// The look at a semaphore. Dropped, it leaves nothing behind.
struct SlotProbe(Arc<ClaimCell>);

impl Drop for SlotProbe {
    fn drop(&mut self) {
        self.0.release();
    }
}
