//! A node that fails over: whether its sentinels name another server by now, and what leases are
//! worth on a server that was promoted.
//!
//! The former master may not have heard of its demotion, and may go on giving votes to any client
//! that talks to it: once a lease's key there has ended, to another client. So nothing that the
//! promoted server lengthens, or keeps taken for a while, counts before the former master is known
//! to [give no votes](is_over), or [`GRACE`] has passed.
//!
//! From then on the promoted server *succeeds* the former master, as if that had restarted: it
//! gives no new vote while it is in quarantine, and takes back the votes of leases that had a vote
//! of the former master and are valid yet (rule R11). As long as such a lease is valid its key
//! stood on the former master, so no other client had a vote there.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::clock::{Clock, Instant};
use crate::event::event;
use crate::node::address::{Endpoint, shown};
use crate::node::admission::{GRACE, PromotionHistory};
use crate::node::redis::connect::{Target, is_over, moved};
use crate::node::{Fault, FaultKind, Op, Repair, Reply, Request};

/// How many servers that are over the task remembers.
const REMEMBERED: usize = 8;

type SentinelWait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the [module documentation](self). Nothing, for a node that does not fail over.
#[derive(Default)]
pub(super) struct Failover {
    /// The server that the last connection was made to.
    here: Option<CurrentMaster>,
    /// Ends when the sentinels name another.
    moved: Option<SentinelWait>,
    /// Whether the sentinels have named another server, and no connection was made since.
    unmet: bool,
    /// The former masters that may still give votes.
    former: Vec<FormerMaster>,
    /// The numbers of the former masters that give none.
    succeeded: Vec<u64>,
}

/// A server that is a master.
pub(super) struct CurrentMaster {
    pub(super) at: Endpoint,
    /// The server's number.
    pub(super) server: u64,
    /// The server's place in the order of masters.
    pub(super) promotions: PromotionHistory,
}

struct FormerMaster {
    /// Where the server was; `None`: this client never met it.
    at: Option<Endpoint>,
    server: u64,
    /// The moment after which the server gives no votes.
    until: Instant,
    /// Ends when the server is known earlier to give no votes.
    over: SentinelWait,
}

impl Failover {
    /// This state without what it waits for: former masters count until their time is over.
    pub(super) fn asleep(&mut self) -> Failover {
        let asleep = |former: &FormerMaster| FormerMaster {
            at: former.at.clone(),
            over: Box::pin(std::future::pending()),
            ..*former
        };
        Failover {
            here: self.here.take(),
            moved: None,
            unmet: self.unmet,
            former: self.former.iter().map(asleep).collect(),
            succeeded: std::mem::take(&mut self.succeeded),
        }
    }

    /// What it waits for.
    pub(super) fn leave(&mut self) -> impl Sized + use<> {
        (self.moved.take(), std::mem::take(&mut self.former))
    }

    /// Where the last connection led, of a node that fails over.
    pub(super) fn here(&self) -> Option<Endpoint> {
        self.here.as_ref().map(|here| here.at.clone())
    }

    /// There is a new connection, to this server at this address. `succeeds`: the one
    /// before is over.
    pub(super) fn connected(
        &mut self,
        target: &Arc<Target>,
        here: CurrentMaster,
        succeeds: bool,
        now: Instant,
    ) {
        if !target.address.fails_over() {
            return;
        }
        let gate = &target.gate;
        if self.here.is_none() && !gate.expected().guard {
            (gate.warn)(event!(
                "failover_unguarded",
                "the node {node} fails over, and restart_guard is off: a failover may give a lock \
                 that is held to a second holder",
                node = target.address.shown,
            ));
        }
        self.former
            .retain(|former| former.at.as_ref() != Some(&here.at));
        self.succeeded.retain(|before| *before != here.server);
        let before = self.here.take();
        let before = before.filter(|before| before.server != here.server);
        if let Some(before) = before.filter(|_| gate.expected().guard) {
            let follows = here.promotions.follows(before.promotions);
            let until = now + GRACE.mul_f64(1.0 + gate.drift);
            match before.at != here.at {
                // A third server was master in between, and may not have heard of its demotion;
                // this client does not know where it is.
                _ if !follows => self.former.push(FormerMaster {
                    at: None,
                    server: before.server,
                    until,
                    over: Box::pin(std::future::pending()),
                }),
                true if succeeds => self.succeed(before.server),
                true => self.former.push(FormerMaster {
                    server: before.server,
                    until,
                    over: Box::pin(is_over(target.clone(), before.at.clone())),
                    at: Some(before.at),
                }),
                false => {}
            }
        }
        let at = here.at.clone();
        self.here = Some(here);
        self.unmet = false;
        let watching = Box::pin(moved(target.clone(), at)) as SentinelWait;
        self.moved = Some(watching);
    }

    /// Records that the server gives no more votes.
    fn succeed(&mut self, server: u64) {
        if self.succeeded.len() == REMEMBERED {
            self.succeeded.remove(0);
        }
        self.succeeded.push(server);
    }

    /// Ready when the sentinels name another server than that of the last connection.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.end_former(|former| former.over.as_mut().poll(cx).is_ready());
        let Some(moved) = &mut self.moved else {
            return Poll::Pending;
        };
        let moved = moved.as_mut().poll(cx);
        if moved.is_ready() {
            self.moved = None;
            self.unmet = true;
        }
        moved
    }

    /// Whether sentinels have named a server that was not met yet. It is, though nothing is asked
    /// of it: the sooner a client comes, the sooner is its quarantine over.
    pub(super) fn is_unmet(&self) -> bool {
        self.unmet
    }

    /// Removes the former masters that are over by this condition.
    fn end_former(&mut self, mut is_over: impl FnMut(&mut FormerMaster) -> bool) {
        let mut place = 0;
        while place < self.former.len() {
            if is_over(&mut self.former[place]) {
                let over = self.former.remove(place);
                self.succeed(over.server);
            } else {
                place += 1
            }
        }
    }

    /// The request that goes to the server of the last connection in place of `op`: that server
    /// takes back the vote of a master that it succeeds, as its own.
    pub(super) fn on(&self, op: Op) -> Op {
        match (op, &self.here) {
            (
                Op::Extend {
                    ttl,
                    repair: Repair::InQuarantine { server },
                    fence,
                    behind,
                },
                Some(CurrentMaster { server: here, .. }),
            ) if self.succeeded.contains(&server) => Op::Extend {
                ttl,
                repair: Repair::InQuarantine { server: *here },
                fence,
                behind,
            },
            (op, _) => op,
        }
    }

    /// What a reply of that server to this request counts for now. The clock is read only where there
    /// was another master: most replies need no reading.
    pub(super) fn worth(
        &mut self,
        reply: Reply,
        request: &Request,
        server: u64,
        clock: &dyn Clock,
    ) -> Reply {
        if self.former.is_empty() && self.succeeded.is_empty() {
            return reply;
        }
        let now = clock.now();
        self.end_former(|former| former.until <= now);
        let is_here = self.here.as_ref().is_some_and(|here| here.server == server);
        let lengthens = match reply {
            Reply::Extended { .. } | Reply::Confirmed => true,
            Reply::Released { .. } | Reply::Kept => request.leaving.keeps(),
            _ => false,
        };
        // The server lengthens this lease once the former master is over, which may have been after
        // this request was sent; so it may be with many requests at once. A failure has the lease
        // extended again soon, and not when that would be due.
        let early =
            matches!(reply, Reply::Quarantined { .. }) && matches!(request.op, Op::Extend { .. });
        let why = "it was promoted a short while ago";
        let not_ready = |text| Reply::Failed(Fault::new(FaultKind::NotReady, text, true));
        match self.former.first() {
            _ if !is_here => reply,
            Some(former) if early || lengthens => {
                let before = former.at.as_ref().map(|at| format!(" {}", shown(at)));
                let before = before.unwrap_or_default();
                not_ready(format!(
                    "{why}, and the server{before} before it may give votes yet"
                ))
            }
            None if early => not_ready(why.into()),
            _ => reply,
        }
    }
}
