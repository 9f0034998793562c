//! One extension on request: a round of its own over the votes of a hold.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use super::{Act, ClaimCell};
use crate::clock::{self, Instant};
use crate::mutex::lock;
use crate::node::{Reply, RequestContext, Sink, TimeReading};
use crate::protocol::claim::Event;
use crate::protocol::claim::failure::NoQuorum;
use crate::protocol::quorum::{self, RoundVerdict, Vote};
use crate::wakers::Wakers;

impl ClaimCell {
    /// Asks all nodes to lengthen this [lease](ClaimCell::lease) of the token to `ttl`, and waits for a
    /// quorum. A lease that was passed on is lost for this caller.
    ///
    /// What is asked in the last moment of the lease may be too late on the nodes, which do nothing
    /// behind its end as it was known then. Where another request has lengthened it meanwhile, this
    /// asks once more, in what is left of the node timeout.
    pub async fn extend(self: &Arc<Self>, lease: u32, ttl: Duration) -> ExtendResult {
        let (clock, end) = (&self.set.clock, self.end());
        let until = clock.now() + self.terms.timing.node_timeout;
        let extended = self.extend_once(lease, ttl).await;
        let goes_on = self.end() > end;
        if !matches!(&extended, ExtendResult::Unanswered(lost) if goes_on && lost.is_late()) {
            return extended;
        }
        let mut again = Box::pin(self.extend_once(lease, ttl));
        let mut over = clock.sleep_until(until);
        let again = poll_fn(|cx| match again.as_mut().poll(cx) {
            Poll::Ready(again) => Poll::Ready(Some(again)),
            Poll::Pending => over.as_mut().poll(cx).map(|()| None),
        });
        again.await.unwrap_or(extended)
    }

    async fn extend_once(self: &Arc<Self>, lease: u32, ttl: Duration) -> ExtendResult {
        let now = self.set.clock.now();
        let round = Arc::new(Extension {
            hold: self.clone(),
            state: Mutex::new((vec![Vote::Awaited; self.set.links.len()], Wakers::default())),
        });
        let sink: Arc<dyn Sink> = round.clone();
        let act = Act {
            sink: Some(&sink),
            ..Event::Extends { lease, ttl }.into()
        };
        if !self.act(act, now).done {
            return ExtendResult::Lost;
        }
        // A vote may have been confirmed and be worth less than that by now: its
        // node's clock has stepped, or a late reply to an earlier request denied
        // it. Then the others have to make up for it.
        let less = clock::drift_allowance(ttl, self.terms.drift);
        let least = (now + ttl.saturating_sub(less)).min(self.last_end());
        poll_fn(|cx| {
            let mut state = lock(&round.state);
            let awaited = state.0.contains(&Vote::Awaited);
            match quorum::verdict(state.0.iter().copied(), now) {
                RoundVerdict::Open => state.1.park(cx),
                RoundVerdict::Won if self.end() >= least => Poll::Ready(true),
                RoundVerdict::Won if awaited => state.1.park(cx),
                RoundVerdict::Won => Poll::Ready(false),
                RoundVerdict::Lost => Poll::Ready(false),
            }
        })
        .await
        .then_some(ExtendResult::Done)
        .filter(|_| self.holds(lease))
        .unwrap_or_else(|| {
            if self.holds(lease) {
                ExtendResult::Unanswered(self.so_far())
            } else {
                ExtendResult::Lost
            }
        })
    }
}

/// How an extension ended.
#[derive(Debug)]
pub enum ExtendResult {
    /// A quorum confirmed it.
    Done,
    /// Too few nodes answered; the lease is valid as long as it was.
    Unanswered(NoQuorum),
    /// The lease is held no longer.
    Lost,
}

/// One extension on request: its own votes, over those of the hold.
struct Extension {
    hold: Arc<ClaimCell>,
    state: Mutex<(Vec<Vote>, Wakers)>,
}

impl Sink for Extension {
    fn on_reply(&self, ticket: RequestContext, reply: Reply, time: Option<TimeReading>) {
        self.hold.take(ticket, &reply, time);
        let mut state = lock(&self.state);
        state.0[ticket.node] = match reply {
            Reply::Extended { .. } => Vote::Granted(Instant::FAR),
            Reply::NotMine | Reply::Banned => Vote::Refused,
            _ => Vote::Failed,
        };
        let wakers = state.1.take();
        drop(state);
        wakers.wake();
    }

    fn wanted(&self) -> bool {
        self.hold.wanted()
    }
}
