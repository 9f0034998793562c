//! A set declared to its nodes: each is admitted as any client admits it, and all
//! of them at once, for the nodes of a new set wait for each other.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::connect::{Target, declare};
use crate::error::Error;
use crate::node::{Fault, FaultKind};
use crate::runtime::task::Io;

/// Time for one node to be declared.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What came of it at the node of that name: how much longer it is in quarantine.
type DeclareResult = (Arc<str>, Result<Duration, Fault>);

/// Declares a set to these nodes of it, on the runtime `io`; with `force` their
/// quarantine is lifted.
pub(crate) async fn to_all(
    targets: Vec<Target>,
    force: bool,
    io: &Io,
) -> Result<Vec<DeclareResult>, Error> {
    let begin = |target: Target| {
        let shown = target.address.shown.clone();
        (shown, io.spawn(in_time(target, force)))
    };
    let work: Vec<_> = targets.into_iter().map(begin).collect();
    let mut declared = Vec::with_capacity(work.len());
    for (shown, outcome) in work {
        declared.push((shown, outcome.await?));
    }
    Ok(declared)
}

/// Declares a set to one of its nodes, in time.
async fn in_time(target: Target, force: bool) -> Result<Duration, Fault> {
    let clock = &target.gate.clock;
    let mut timer = clock.sleep_until(clock.now() + TIMEOUT);
    let mut work = pin!(declare(&target, force));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Pending => timer.as_mut().poll(cx).map(|()| {
            let why = target.gate.survey.waits_for(target.node);
            let why = why.unwrap_or_else(|| "no answer".into());
            Err(Fault::new(FaultKind::Timeout, why, false))
        }),
        done => done,
    })
    .await
}
