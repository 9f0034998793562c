//! The nodes, in memory, and the links to them. A request waits until all tasks do; then the node answers it, in
//! the thread of the tasks. Neither the way there nor what the node does is counted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use quorlock::sim::native::{Outcome, key_end, outcome};
use quorlock::sim::{
    Clock, Hint, Instant, Link, MemoryNode, Op, Reply, Request, RequestContext, Sink, Subscriber,
    TimeReading, Wakers,
};

use crate::meter::uncounted;
use crate::seams::SteppedClock;

/// The nodes, and what is on its way to them.
pub struct Nodes {
    pub clock: Arc<SteppedClock>,
    state: Mutex<State>,
}

struct State {
    nodes: Vec<MemoryNode>,
    subscribers: Vec<Subscription>,
    sent: VecDeque<Sent>,
}

struct Subscription {
    node: usize,
    inbox: Arc<[u8]>,
    subscriber: Arc<dyn Subscriber>,
}

struct Sent {
    request: Request,
    ticket: RequestContext,
    sink: Arc<dyn Sink>,
}

/// What a node has answered, and what it publishes besides.
struct Answer {
    to: Sent,
    reply: Reply,
    time: u64,
    messages: Vec<(Arc<dyn Subscriber>, Hint)>,
}

impl Nodes {
    pub fn new(count: usize) -> Arc<Nodes> {
        Arc::new(Nodes {
            clock: Arc::default(),
            state: Mutex::new(State {
                nodes: vec![MemoryNode::default(); count],
                subscribers: Vec::new(),
                sent: VecDeque::new(),
            }),
        })
    }

    /// The links of one client, which listens on `inbox`.
    pub fn links(self: &Arc<Self>, inbox: &Arc<[u8]>) -> Vec<Arc<dyn Link>> {
        let count = self.state.lock().expect("one thread").nodes.len();
        let link = |node| NodeLink {
            nodes: self.clone(),
            node,
            inbox: inbox.clone(),
            shown: format!("node-{node}").into(),
        };
        (0..count)
            .map(|node| Arc::new(link(node)) as Arc<dyn Link>)
            .collect()
    }

    /// Answers all that has been sent; false if nothing was.
    pub fn answer(&self) -> bool {
        let answers = uncounted(|| {
            let mut state = self.state.lock().expect("one thread");
            let sent = std::mem::take(&mut state.sent);
            let now = self.clock.now();
            let answers = sent.into_iter().map(|sent| state.answer(sent, now));
            answers.collect::<Vec<_>>()
        });
        let some = !answers.is_empty();
        for answer in answers {
            let Sent { ticket, sink, .. } = answer.to;
            let time = TimeReading {
                time: answer.time,
                at: self.clock.now(),
            };
            sink.on_reply(ticket, answer.reply, Some(time));
            for (subscriber, hint) in answer.messages {
                subscriber.on_message(ticket.node, hint);
            }
        }
        some
    }
}

impl State {
    fn answer(&mut self, sent: Sent, now: Instant) -> Answer {
        let at = sent.ticket.node;
        let node = &mut self.nodes[at];
        let mut request = sent.request.clone();
        request.leaving = request.leaving.at(now);
        let (reply, messages) = match natively(node, &mut request, now) {
            Some(reply) => (reply, Vec::new()),
            None => {
                let (answer, messages) = node.execute(&request, None, now);
                (answer.expect("no record is asked for"), messages)
            }
        };
        let heard = |(inbox, hint): (Arc<[u8]>, Hint)| {
            let of = |s: &&Subscription| s.node == at && s.inbox == inbox;
            let subscription = self.subscribers.iter().find(of)?;
            Some((subscription.subscriber.clone(), hint))
        };
        Answer {
            to: sent,
            reply,
            time: MemoryNode::time(now),
            messages: messages.into_iter().filter_map(heard).collect(),
        }
    }
}

/// Carries a native request out; `None`: the script has to be asked.
fn natively(node: &mut MemoryNode, request: &mut Request, now: Instant) -> Option<Reply> {
    if !request.native {
        return None;
    }
    let Op::Acquire { ttl, .. } = request.op else {
        let deleted = node.delete(request, now);
        return deleted.then_some(Reply::Released { held: true });
    };
    if request.not_after == 0 {
        request.not_after = key_end(MemoryNode::time(now), ttl);
    }
    let voted = node.vote(request, now);
    match outcome(request, voted, Some(node.trailer(None, now))) {
        Outcome::Reply(reply) => Some(reply),
        Outcome::OtherRecord | Outcome::Quarantined => None,
    }
}

struct NodeLink {
    nodes: Arc<Nodes>,
    node: usize,
    inbox: Arc<[u8]>,
    shown: Arc<str>,
}

impl Link for NodeLink {
    fn send(
        &self,
        request: Request,
        ticket: RequestContext,
        sink: Arc<dyn Sink>,
        _give_up: Instant,
    ) -> Option<Wakers> {
        assert!(sink.wanted(), "no scene gives anything up");
        uncounted(|| {
            let sent = Sent {
                request,
                ticket,
                sink,
            };
            let mut state = self.nodes.state.lock().expect("one thread");
            state.sent.push_back(sent);
        });
        None
    }

    fn shown(&self) -> Arc<str> {
        self.shown.clone()
    }

    // As of a node that is connected to: not made from its name each time.
    fn id(&self) -> u64 {
        self.node as u64
    }

    fn subscribe(&self, subscriber: Arc<dyn Subscriber>) {
        let mut state = self.nodes.state.lock().expect("one thread");
        state.nodes[self.node].subscribe(&self.inbox);
        state.subscribers.push(Subscription {
            node: self.node,
            inbox: self.inbox.clone(),
            subscriber: subscriber.clone(),
        });
        drop(state);
        subscriber.on_subscribed(self.node);
    }

    fn close(&self) {}
}
