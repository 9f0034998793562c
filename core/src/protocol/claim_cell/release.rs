//! The releases of a token on their way, and what the nodes answer.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use super::ClaimCell;
use crate::clock::Instant;
use crate::mutex::lock;
use crate::node::{FaultKind, Op, Reply, Request, RequestContext, Sink, TimeReading, Value};
use crate::protocol::claim::effects::ReleasePlan;
use crate::protocol::quorum;
use crate::protocol::set::{Outgoing, Set};
use crate::wakers::Wakers;

/// The releases of one token on their way.
pub struct Release {
    set: Arc<Set>,
    /// The lock is to stay taken: only a node that has stored so has done it.
    keeps: bool,
    state: Mutex<ReleaseReplies>,
}

#[derive(Default)]
struct ReleaseReplies {
    open: usize,
    done: usize,
    not_held: usize,
    kept: usize,
    /// Of so many nodes, and why the last of them: it will not do it by itself.
    refused: (usize, Option<Arc<str>>),
    wakers: Wakers,
}

impl Release {
    pub(super) fn new(set: &Arc<Set>, keeps: bool, open: usize) -> Arc<Release> {
        set.counters
            .releases_pending
            .fetch_add(open, Ordering::AcqRel);
        let state = Mutex::new(ReleaseReplies {
            open,
            ..ReleaseReplies::default()
        });
        Arc::new(Release {
            set: set.clone(),
            keeps,
            state,
        })
    }

    /// Waits until a quorum has carried the release out, or all have answered
    /// or failed to. Returns false if a quorum did not hold the token, or may not carry it out;
    /// where the lock is to stay taken, also unless a quorum keeps it so.
    pub async fn acknowledged(&self) -> bool {
        let quorum = quorum::quorum(self.set.links.len());
        poll_fn(|cx| {
            let mut state = lock(&self.state);
            if self.is_decided(&state) {
                Poll::Ready(if self.keeps {
                    state.not_held < quorum && state.kept >= quorum
                } else {
                    state.not_held + state.refused.0 < quorum
                })
            } else {
                state.wakers.park(cx)
            }
        })
        .await
    }

    /// Why a node may not carry it out, if one has said so: its user lacks a permission.
    pub(crate) fn refused(&self) -> Option<Arc<str>> {
        lock(&self.state).refused.1.clone()
    }

    /// Whether the lock was to stay taken, and too few nodes have said that it does.
    pub(crate) fn keeps_too_little(&self) -> bool {
        self.keeps && lock(&self.state).kept < quorum::quorum(self.set.links.len())
    }

    /// Whether no answer that is to come changes anything.
    fn is_decided(&self, state: &ReleaseReplies) -> bool {
        let all = state.open == 0;
        let done = if self.keeps { state.kept } else { state.done };
        all || done >= quorum::quorum(self.set.links.len())
    }
}

impl Sink for Release {
    fn on_reply(&self, ticket: RequestContext, reply: Reply, _: Option<TimeReading>) {
        if matches!(reply, Reply::Released { .. } | Reply::Kept) {
            self.set.answered(ticket.node, None, false);
        }
        self.set.counters.release_done();
        let mut state = lock(&self.state);
        state.open -= 1;
        match reply {
            Reply::Released { held } => {
                state.done += 1;
                state.not_held += usize::from(!held);
                state.kept += usize::from(held);
            }
            Reply::Kept => {
                state.done += 1;
                state.not_held += 1;
                state.kept += 1;
            }
            Reply::Failed(fault) if fault.kind == FaultKind::Misconfigured && fault.sent => {
                state.refused = (state.refused.0 + 1, Some(fault.text));
            }
            _ => {}
        }
        // A waiting caller is woken once, at the answer that decides.
        let wakers = if self.is_decided(&state) {
            state.wakers.take()
        } else {
            Wakers::default()
        };
        drop(state);
        wakers.wake();
    }

    fn wanted(&self) -> bool {
        true
    }
}

impl ClaimCell {
    /// Sends what the plan says. Returns the nodes' answers to come.
    pub(super) fn send_release(&self, plan: &ReleasePlan, now: Instant) -> Arc<Release> {
        let keeps = plan.keeps;
        let release = Release::new(&self.set, keeps, plan.nodes.len());
        let sink: Arc<dyn Sink> = release.clone();
        let op = Op::Release;
        let outgoing = plan.nodes.iter().map(|of| Outgoing {
            request: Request {
                op,
                native: of.native,
                keys: plan.keys.clone(),
                value: if of.token {
                    plan.value.clone()
                } else {
                    Value(Arc::default())
                },
                waiter: self.waiter.clone().filter(|_| of.waiter),
                leaving: plan.after,
                not_after: 0,
            },
            ticket: RequestContext {
                node: of.node.into(),
                sent: now,
                deadline: plan.deadline,
                op,
                server: 0,
            },
            give_up: plan.give_up,
        });
        self.set.send(outgoing, &sink);
        release
    }
}

impl std::fmt::Debug for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Release")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Fault, Op};
    use crate::protocol::set::tests::of_silent;
    use std::pin::pin;
    use std::task::{Context, Waker};

    /// What is said of a release that so many nodes have answered so; `None` while it is waited
    /// for more.
    fn said(keeps: bool, replies: &[Reply]) -> Option<bool> {
        let release = Release::new(&of_silent(3), keeps, 3);
        for (node, reply) in replies.iter().enumerate() {
            let ticket = RequestContext {
                node,
                sent: Instant(1),
                deadline: Instant::FAR,
                op: Op::Release,
                server: 0,
            };
            release.on_reply(ticket, reply.clone(), None);
        }
        match pin!(release.acknowledged()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(said) => Some(said),
            Poll::Pending => None,
        }
    }

    fn held(held: bool) -> Reply {
        Reply::Released { held }
    }

    fn silent() -> Reply {
        Reply::Failed(Fault::new(FaultKind::Timeout, "it is silent", false))
    }

    #[test]
    fn a_lock_is_kept_by_a_quorum_that_has_stored_so() {
        for (replies, expected) in [
            (&[held(true), held(true)][..], Some(true)),
            (&[held(true), held(false)], None),
            (&[held(true), Reply::Kept], Some(true)),
            (&[Reply::Kept, Reply::Kept], Some(false)),
            (&[held(true), held(false), held(true)], Some(true)),
            (&[held(true), held(false), silent()], Some(false)),
            (&[held(true), silent(), silent()], Some(false)),
        ] {
            assert_eq!(said(true, replies), expected, "{replies:?}");
        }
    }

    #[test]
    fn what_nodes_refuse_to_carry_out_is_not_done() {
        let fault = |kind, sent| Reply::Failed(Fault::new(kind, "NOPERM no", sent));
        let refused = || fault(FaultKind::Misconfigured, true);
        for (replies, expected) in [
            (&[refused(), refused(), refused()][..], Some(false)),
            (&[refused(), held(true), refused()], Some(false)),
            (&[refused(), held(true), held(true)], Some(true)),
            (&[refused(), held(true), silent()], Some(true)),
            (&[refused(), held(false), silent()], Some(false)),
        ] {
            assert_eq!(said(false, replies), expected, "{replies:?}");
        }
        // What never got there is sent again.
        let away = || fault(FaultKind::Misconfigured, false);
        assert_eq!(said(false, &[away(), away(), away()]), Some(true));
    }

    #[test]
    fn a_lock_that_is_not_kept_is_free_by_any_answer() {
        for (replies, expected) in [
            (&[held(true), held(false)][..], Some(true)),
            (&[held(false), held(false)], Some(false)),
            (&[held(true), silent()], None),
            (&[held(true), silent(), silent()], Some(true)),
        ] {
            assert_eq!(said(false, replies), expected, "{replies:?}");
        }
    }
}
