//! One request that all nodes are asked, for what no lease depends on.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use crate::mutex::lock;
use crate::node::{Fault, FaultKind, Reply, Request, RequestContext, Sink, TimeReading};
use crate::protocol::set::{Outgoing, Set};
use crate::wakers::Wakers;

/// The answers on their way.
struct AskAllReplies {
    set: Arc<Set>,
    state: Mutex<AskAllState>,
}

struct AskAllState {
    said: Vec<Option<Reply>>,
    wakers: Wakers,
}

impl Sink for AskAllReplies {
    fn on_reply(&self, ticket: RequestContext, reply: Reply, time: Option<TimeReading>) {
        if let Some(time) = time {
            self.set.observe(ticket, time);
        }
        let mut state = lock(&self.state);
        state.said[ticket.node] = Some(reply);
        let wakers = if state.said.iter().all(Option::is_some) {
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

/// Asks all nodes the same, now; then waits until each has answered or `node_timeout` is over. What
/// they said, in the order of the node list. After that time nothing is sent any more.
///
/// # Cancel safety
///
/// What was asked is carried out all the same.
pub(crate) fn ask_all(
    set: &Arc<Set>,
    request: &Request,
    node_timeout: Duration,
) -> impl Future<Output = Vec<Reply>> + use<> {
    let now = set.clock.now();
    let deadline = now + node_timeout;
    let state = AskAllState {
        said: set.links.iter().map(|_| None).collect(),
        wakers: Wakers::default(),
    };
    let answers = Arc::new(AskAllReplies {
        set: set.clone(),
        state: Mutex::new(state),
    });
    let sink: Arc<dyn Sink> = answers.clone();
    let ask = |node| Outgoing {
        request: request.clone(),
        ticket: RequestContext {
            node,
            sent: now,
            deadline,
            op: request.op,
            server: 0,
        },
        give_up: deadline,
    };
    set.send((0..set.links.len()).map(ask), &sink);
    poll_fn(move |cx| {
        let mut state = lock(&answers.state);
        if state.said.iter().all(Option::is_some) {
            Poll::Ready(state.said.drain(..).flatten().collect())
        } else {
            state.wakers.park(cx)
        }
    })
}

/// Why a reply is none of those that the request can have.
pub(crate) fn no_answer(reply: Reply) -> Fault {
    match reply {
        Reply::Failed(fault) => fault,
        _ => Fault::new(
            FaultKind::Misconfigured,
            "an answer that makes no sense",
            true,
        ),
    }
}
