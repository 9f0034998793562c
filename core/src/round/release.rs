//! The releases of one token on their way.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use crate::mutants::mutant;
use crate::node::{Reply, Sink, Ticket};
use crate::quorum;
use crate::set::Set;
use crate::sync::{Wakers, lock};

/// The releases of one token on their way.
pub struct Release {
    set: Arc<Set>,
    state: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    open: usize,
    done: usize,
    not_held: usize,
    wakers: Wakers,
}

impl Release {
    pub(super) fn new(set: &Arc<Set>, open: usize) -> Arc<Release> {
        set.counters
            .releases_pending
            .fetch_add(open, Ordering::AcqRel);
        let state = Mutex::new(Answers {
            open,
            ..Answers::default()
        });
        Arc::new(Release {
            set: set.clone(),
            state,
        })
    }

    /// Waits until a quorum has carried the release out, or all have answered
    /// or failed to. Returns false if a quorum did not hold the token.
    pub async fn acknowledged(&self) -> bool {
        let quorum = quorum::quorum(self.set.links.len());
        poll_fn(|cx| {
            let mut state = lock(&self.state);
            let all = mutant!("release-waits-for-ever", state.open == 0, false);
            if all || state.done >= quorum {
                Poll::Ready(state.not_held < quorum)
            } else {
                state.wakers.park(cx)
            }
        })
        .await
    }
}

impl Sink for Release {
    fn on_reply(&self, _: Ticket, reply: Reply, _: Option<u64>) {
        self.set.counters.release_done();
        let mut state = lock(&self.state);
        state.open -= 1;
        if let Reply::Released { held } = reply {
            state.done += 1;
            state.not_held += usize::from(!held);
        }
        // Whoever waits is woken once, at the answer that decides.
        let quorum = quorum::quorum(self.set.links.len());
        let wakers = match state.open == 0 || state.done >= quorum {
            true => state.wakers.take(),
            false => Wakers::default(),
        };
        drop(state);
        if mutant!("release-wakes-nobody", true, false) {
            wakers.wake();
        }
    }

    fn wanted(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Release")
    }
}
