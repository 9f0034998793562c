//! A node that fails over: whether its sentinels name another server by now, and what an
//! extension is worth on a server that was promoted.
//!
//! A promoted server has the keys that were replicated to it, and lengthens a lease that has
//! one there. The server before may not have heard that it is none any more, and goes on
//! giving votes to whoever talks to it: once the lease's key there has ended, to another
//! client. So an extension on the promoted server counts only when the one before is known
//! to [give no votes](is_over), or [`GRACE`] has passed. New votes wait for longer: the
//! quarantine of the promoted server sees to that.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::clock::Instant;
use crate::mutants::mutant;
use crate::node::address::Endpoint;
use crate::node::admission::GRACE;
use crate::node::redis::connect::{Target, is_over, moved, shown};
use crate::node::{Fault, FaultKind, Reply};

type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the [module documentation](self). Nothing, for a node that does not fail over.
#[derive(Default)]
pub(super) struct Failover {
    /// The server that the last connection was made to: where it is, and its number.
    here: Option<(Endpoint, u64)>,
    /// Ends when the sentinels name another.
    moved: Option<Waiting>,
    /// Those before it that may give votes yet.
    former: Vec<Former>,
}

struct Former {
    at: Endpoint,
    /// After this it gives none.
    until: Instant,
    /// Ends when that is known before.
    over: Waiting,
}

impl Failover {
    /// There is a new connection, to this server at this address.
    pub(super) fn connected(
        &mut self,
        target: &Arc<Target>,
        (at, server): (&Endpoint, u64),
        now: Instant,
    ) {
        if !target.address.fails_over() {
            return;
        }
        let gate = &target.gate;
        if self.here.is_none() && !gate.expected().guard {
            (gate.warn)(format!(
                "the node {} fails over, and restart_guard is off: a failover may give a lock that \
                 is held to a second holder",
                target.address.shown
            ));
        }
        self.former.retain(|former| former.at != *at);
        if let Some((before, _)) = self.here.take().filter(|(before, _)| before != at)
            && gate.expected().guard
        {
            self.former.push(Former {
                until: now + GRACE.mul_f64(1.0 + gate.drift),
                over: Box::pin(is_over(target.clone(), before.clone())),
                at: before,
            });
        }
        self.here = Some((at.clone(), server));
        let watching = Box::pin(moved(target.clone(), at.clone())) as Waiting;
        self.moved = mutant!("old-master-kept-after-switch", Some(watching), None);
    }

    /// Ready when the sentinels name another server than that of the last connection.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.former
            .retain_mut(|former| former.over.as_mut().poll(cx).is_pending());
        let Some(moved) = &mut self.moved else {
            return Poll::Pending;
        };
        let moved = moved.as_mut().poll(cx);
        if moved.is_ready() {
            self.moved = None;
        }
        moved
    }

    /// What a reply of that server counts for at `now`.
    pub(super) fn worth(&mut self, reply: Reply, server: u64, now: Instant) -> Reply {
        if self.former.is_empty() {
            return reply;
        }
        self.former.retain(|former| now < former.until);
        let is_here = self.here.as_ref().is_some_and(|here| here.1 == server);
        let lengthens = matches!(reply, Reply::Extended { .. } | Reply::Confirmed);
        match self.former.first() {
            Some(former) if mutant!("promoted-extends-at-once", is_here && lengthens, false) => {
                let text = format!(
                    "it was promoted a short while ago, and the server {} before it may give votes \
                     yet",
                    shown(&former.at)
                );
                Reply::Failed(Fault::new(FaultKind::NotReady, text, true))
            }
            _ => reply,
        }
    }
}
