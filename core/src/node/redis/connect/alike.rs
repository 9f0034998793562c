//! Whether one server stands behind all addresses of a node's name.
//!
//! A name may lead to several servers: that of a service with many replicas, or one whose IPv4
//! and IPv6 addresses are different machines. Each connection then meets another of them, so two
//! clients could have one lock. Where a name has several addresses, the others are asked for
//! their run while the first is greeted.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::talk::{exchange, login, refused};
use super::target::Target;
use crate::clock::{Clock, Instant};
use crate::node::Fault;
use crate::node::address::Endpoint;
use crate::node::admission::Info;
use crate::node::redis::dial::Stream;
use crate::node::redis::replies::text;
use crate::node::redis::wire::Wire;

/// How many other addresses are asked.
const MOST: usize = 15;
/// How much longer the other addresses may take than the first address did for its answers, which
/// had its stream already: this many times as long, and this. The connection does not wait for a
/// slower address, for an address that swallows all would hold up each connection.
const STEPS: u32 = 4;
const MORE: Duration = Duration::from_millis(50);

/// The `run` of a master; `None` where that was not to be had.
type RunQuery<'a> = Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>>;

/// The other addresses of a name.
pub(super) struct SiblingAddresses<'a> {
    clock: &'a Arc<dyn Clock>,
    begun: Instant,
    asked: Vec<(SocketAddr, RunQuery<'a>)>,
    told: Vec<(SocketAddr, String)>,
}

impl<'a> SiblingAddresses<'a> {
    /// The other addresses of the name at `endpoint`: all but the address that `stream` leads to.
    pub(super) fn of(
        target: &'a Target,
        endpoint: &'a Endpoint,
        stream: &Stream,
    ) -> SiblingAddresses<'a> {
        let others = match &target.routes {
            None => target.dial.others(endpoint, stream),
            // In a cluster the map says which server has a hash slot, and each server says where it
            // is.
            Some(_) => Vec::new(),
        };
        let others = others.into_iter().take(MOST);
        SiblingAddresses {
            clock: &target.gate.clock,
            begun: target.gate.clock.now(),
            asked: others
                .map(|at| (at, Box::pin(run_at(target, endpoint, at)) as RunQuery<'a>))
                .collect(),
            told: Vec::new(),
        }
    }

    /// What `work` comes to. The others are asked meanwhile.
    pub(super) async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            let _: Poll<()> = self.poll(cx);
            work.as_mut().poll(cx)
        })
        .await
    }

    /// Checks that none of the other addresses leads to a server of another run than `run`, which
    /// the first address has just shown. Without a run there is nothing to compare.
    pub(super) async fn are(mut self, run: Option<&str>) -> Result<(), Fault> {
        let Some(run) = run else { return Ok(()) };
        if self.asked.is_empty() && self.told.is_empty() {
            return Ok(());
        }
        let now = self.clock.now();
        let more = self.begun.until(now) * STEPS + MORE;
        let mut over = self.clock.sleep_until(now + more);
        poll_fn(|cx| match self.poll(cx) {
            Poll::Pending => over.as_mut().poll(cx),
            ready => ready,
        })
        .await;
        let is_other = |told: &&(SocketAddr, String)| told.1 != run;
        match self.told.iter().find(is_other) {
            None => Ok(()),
            Some((at, _)) => Err(refused(format!(
                "its name leads to several servers: another one is at {at}. A node is one server, so its name has to lead \
                 to that one alone"
            ))),
        }
    }

    /// Ready once all have been asked.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let told = &mut self.told;
        self.asked
            .retain_mut(|(at, asked)| match asked.as_mut().poll(cx) {
                Poll::Pending => true,
                Poll::Ready(run) => {
                    told.extend(run.map(|run| (*at, run)));
                    false
                }
            });
        if self.asked.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

async fn run_at(target: &Target, endpoint: &Endpoint, at: SocketAddr) -> Option<String> {
    run_of(target, target.dial.dial_at(endpoint, at).await.ok()?).await
}

/// The run of the master that the stream leads to.
pub(super) async fn run_of(target: &Target, stream: Stream) -> Option<String> {
    let mut wire = Wire::new(stream, target.gate.inbox.clone(), target.gate.clock.clone());
    let mut commands = login(&target.address);
    let sections = ["server", "replication"].map(|what| redis::cmd("INFO").arg(what).take());
    commands.extend(sections);
    let replies = exchange(&mut wire, &commands).await.ok()?;
    let said: Vec<String> = replies.iter().map(text).collect();
    let info = Info::parse(&said.join("\r\n"));
    // A replica gives no votes, so its run does not matter.
    info.run.clone().filter(|_| !info.is_replica())
}
