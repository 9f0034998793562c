//! The whole state graph of the specification over the smallest domain, to be compared with TLC's, edge by edge.
//!
//! Clients and messages are those of docs/proof/tla/Votes.tla. What a node makes of a message, and a client of an answer, is what
//! the checker of traces says ([`served`]): so both specifications are one where they meet.

pub mod served;
pub mod state;
pub mod value;

use std::collections::BTreeSet;

use quorlock::sim::Reply;

use crate::spec::Action;
use state::{Message, Model, State};
use value::Graph;

/// A step: by which action to which state.
pub type Steps = Vec<(Action, State)>;

/// The whole graph.
pub fn graph(model: &Model) -> Graph {
    let mut graph = Graph::default();
    let mut open = vec![State::first(model)];
    let mut seen: BTreeSet<State> = open.iter().cloned().collect();
    while let Some(state) = open.pop() {
        let from = state.value();
        graph.states.insert(from.clone());
        for (action, next) in steps(model, &state) {
            graph
                .edges
                .insert((from.clone(), format!("{action:?}"), next.value()));
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    graph
}

/// All steps of a state.
pub fn steps(model: &Model, state: &State) -> Steps {
    let mut steps = Vec::new();
    for t in 1..=model.tokens as u64 {
        clients(model, state, t, &mut steps);
    }
    for message in &state.net {
        nodes(model, state, message, &mut steps);
    }
    for n in 1..=model.nodes as u64 {
        let node = &state.node[n as usize - 1];
        for t in 1..=model.tokens as u64 {
            let undone = state.token[t as usize - 1].undo.contains(&n);
            // Where connections break a release may come at any time, and once more.
            if undone && node.key.0 == t && node.key.1 > 0 {
                let release = Message {
                    k: "release",
                    t,
                    n,
                    c: 0,
                    a: 1,
                    r: 0,
                    f: 0,
                    m: 0,
                };
                let mut next = state.clone();
                next.node[n as usize - 1] = served::script(model, node, &release).node;
                steps.push((Action::NodeRelease, next));
            }
        }
        if node.rec == 0 {
            let mut next = state.clone();
            let node = &mut next.node[n as usize - 1];
            (node.rec, node.quar) = (1 + state.forgets, model.quarantine);
            steps.push((Action::NodeInit, next));
        }
        if state.forgets < model.max_forgets {
            let mut next = state.clone();
            next.forgets += 1;
            let node = &mut next.node[n as usize - 1];
            (node.key, node.quar, node.rec) = ((0, 0), 0, 0);
            steps.push((Action::Forget, next));
        }
    }
    steps.push((Action::Tick, tick(state)));
    steps
}

/// Time goes on by one unit on every clock.
fn tick(state: &State) -> State {
    let mut next = state.clone();
    for node in &mut next.node {
        node.key = if node.key.1 > 1 {
            (node.key.0, node.key.1 - 1)
        } else {
            (0, 0)
        };
        node.quar = node.quar.saturating_sub(1);
    }
    for token in &mut next.token {
        for vote in &mut token.vote {
            *vote = vote.saturating_sub(1);
        }
    }
    let net = std::mem::take(&mut next.net);
    let lasts = net.into_iter().filter(|message| message.c > 1);
    next.net = lasts
        .map(|message| Message {
            c: message.c - 1,
            a: message.a.saturating_sub(1),
            ..message
        })
        .collect();
    next
}

/// More than half.
fn is_quorum(model: &Model, nodes: usize) -> bool {
    2 * nodes > model.nodes
}

/// The steps of the client of a token.
fn clients(model: &Model, state: &State, t: u64, steps: &mut Steps) {
    let token = &state.token[t as usize - 1];
    let lasting = token.vote.iter().filter(|vote| **vote > 0).count();
    let valid = token.phase == "held" && is_quorum(model, lasting);
    let message = |k, n: u64, a, f, m| Message {
        k,
        t,
        n,
        c: model.ttl,
        a,
        r: state.node[n as usize - 1].rec,
        f,
        m,
    };
    let all = || 1..=model.nodes as u64;
    let at = |n: u64| n as usize - 1;
    // All nodes are asked at once: Together.
    let open: Vec<u64> = all()
        .filter(|n| token.vote[at(*n)] == 0 && state.node[at(*n)].rec != 0)
        .collect();
    let asks = all().all(|n| token.asks[at(n)] < model.max_asks);
    if matches!(token.phase, "new" | "asking") && asks && !open.is_empty() {
        let mut next = state.clone();
        for n in open {
            let native = model.natives && token.asks[at(n)] == 0;
            let f = u64::from(model.fencing);
            next.net.insert(if native {
                message("native", n, model.ttl, f, 0)
            } else {
                message("acquire", n, model.late, f, 0)
            });
        }
        let own = &mut next.token[at(t)];
        own.phase = "asking";
        own.asks.iter_mut().for_each(|asks| *asks += 1);
        steps.push((Action::ClientAsk, next));
    }
    if model.fencing && token.phase == "asking" && is_quorum(model, lasting) {
        let voters = || all().filter(|n| token.vote[at(*n)] > 0);
        let largest = voters().map(|n| token.mark[at(n)]).max().unwrap_or(0);
        let beyond = model.natives.then_some(largest + 1);
        for n in voters() {
            for f in std::iter::once(largest).chain(beyond) {
                let mut next = state.clone();
                let good = f > 0 && f <= model.max_fence && f != token.mark[at(n)];
                if good && next.net.insert(message("confirm", n, model.late, f, 3)) {
                    steps.push((Action::ClientWriteBack, next));
                }
            }
        }
    }
    if token.phase == "asking" {
        let fences: BTreeSet<u64> = if model.fencing {
            (1..=model.max_fence).collect()
        } else {
            BTreeSet::from([0])
        };
        for f in fences {
            let bears =
                |n: &u64| token.vote[at(*n)] > 0 && (!model.fencing || token.mark[at(*n)] == f);
            if is_quorum(model, all().filter(bears).count()) {
                let mut next = state.clone();
                let own = &mut next.token[at(t)];
                (own.phase, own.last, own.fence) = ("held", f, f);
                next.top = next.top.max(f);
                steps.push((Action::ClientWin, next));
            }
        }
        steps.push((Action::ClientGiveUp, dead(state, t)));
    }
    if valid {
        steps.push((Action::ClientRelease, dead(state, t)));
        for n in all() {
            if token.renews < model.max_renews && state.node[at(n)].rec != 0 {
                let vote = token.vote[at(n)];
                let ends = if vote > 0 { vote } else { model.late };
                let mode = if vote > 0 { 2 } else { 1 };
                let mut next = state.clone();
                let a = model.late.min(ends);
                next.net.insert(message("extend", n, a, token.last, mode));
                next.token[at(t)].renews += 1;
                steps.push((Action::ClientRenew, next));
            }
        }
    } else if token.phase == "held" {
        steps.push((Action::ClientLose, dead(state, t)));
    }
}

/// Dead first, then the release, to every node that was asked.
fn dead(state: &State, t: u64) -> State {
    let mut next = state.clone();
    let token = &mut next.token[t as usize - 1];
    let all = 1..=token.vote.len() as u64;
    let asked = |n: &u64| token.renews > 0 || token.asks[*n as usize - 1] > 0;
    token.undo = all.filter(asked).collect();
    token.phase = "dead";
    for numbers in [&mut token.vote, &mut token.mark, &mut token.asks] {
        numbers.iter_mut().for_each(|number| *number = 0);
    }
    (token.renews, token.cast) = (0, false);
    let answer = |message: &Message| matches!(message.k, "vote" | "mark" | "no");
    next.net
        .retain(|message| message.t != t || !answer(message));
    next
}

/// What comes of a message that arrives.
fn nodes(model: &Model, state: &State, message: &Message, steps: &mut Steps) {
    let (t, n) = (message.t as usize - 1, message.n as usize - 1);
    let mut next = state.clone();
    next.net.remove(message);
    let token = &state.token[t];
    let heard = matches!(token.phase, "asking" | "held");
    let lasting = token.vote.iter().filter(|vote| **vote > 0).count();
    let answer = |k, c, f, m| Message {
        k,
        c,
        a: 0,
        r: 0,
        f,
        m,
        ..message.clone()
    };
    let action = match message.k {
        "vote" | "mark" | "no" => {
            // guard: a lease that is over stays over
            if token.phase != "asking" && !(token.phase == "held" && is_quorum(model, lasting)) {
                return;
            }
            let own = &mut next.token[t];
            (own.vote[n], own.mark[n]) =
                served::heard(model, token.vote[n], token.mark[n], message);
            match message.k {
                "vote" => Action::ClientTakeVote,
                "mark" => Action::ClientTakeMark,
                _ => Action::ClientTakeRefusal,
            }
        }
        "trailer" => {
            if let Some((c, f)) = served::trailer(model, &state.node[n], message)
                && heard
            {
                next.net.insert(answer("vote", c, f, 1));
            }
            Action::NodeTrailer
        }
        kind => {
            let done = served::script(model, &state.node[n], message);
            next.node[n] = done.node;
            let casts = model.fencing && token.phase == "asking" && !token.cast;
            let mut cast = || {
                if casts {
                    (next.token[t].cast, next.token[t].floor) = (true, state.top);
                }
            };
            let reply = match (kind, done.reply) {
                ("native", Some(Reply::Granted { fence, .. })) => {
                    cast();
                    next.net.insert(Message {
                        k: "trailer",
                        f: if fence > 0 { message.f } else { 0 },
                        ..message.clone()
                    });
                    None
                }
                ("acquire", Some(Reply::Granted { fence, .. })) => {
                    cast();
                    Some(answer("vote", message.c, fence, 1))
                }
                (_, Some(Reply::Extended { .. })) => Some(answer("vote", message.c, 0, 0)),
                (_, Some(Reply::Confirmed)) => Some(answer("mark", message.c, message.f, 0)),
                ("extend", Some(Reply::NotMine)) => Some(answer("no", message.c, 0, 0)),
                _ => None,
            };
            next.net.extend(reply.filter(|_| heard));
            match kind {
                "native" => Action::NodeNativeAcquire,
                "acquire" => Action::NodeAcquire,
                "extend" => Action::NodeExtend,
                _ => Action::NodeConfirm,
            }
        }
    };
    steps.push((action, next));
}
