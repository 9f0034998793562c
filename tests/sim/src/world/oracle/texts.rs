//! Leases that go on in another client.
//!
//! - AD1: of all who adopt one text one is told so at most, ever.
//! - AD2: where a vote was taken over, an extension of who had it before stores nothing.
//!
//! Both are excused where a node may have voted twice; AD2 where bans were lost, or have ended
//! early by a clock.

use std::time::Duration;

use quorlock::Lease;
use quorlock::sim::{Instant, Op, Reply, Request};

use super::{Inner, MOST_NODES, name_of};

impl Inner {
    /// The lease of this place goes on elsewhere: its client leaves the votes that it knows of.
    pub(super) fn note_exported(&mut self, index: usize) {
        let (name, client, left) = {
            let watch = &self.oracle.watches[index];
            let (c, hold) = (watch.client, &watch.hold);
            let now = self.clients[c].now(self.time);
            let cap = hold.terms().asked.max_hold;
            let left = cap.map(|cap| now.until(hold.begun() + cap).min(cap));
            (watch.name, c, left)
        };
        let nodes = self.nodes.len();
        let own = &self.pairs[client * nodes..][..nodes];
        let Some(life) = self.oracle.tokens.get_mut(&name) else {
            return;
        };
        let mut on = [false; MOST_NODES];
        for (pair, end) in own.iter().zip(&life.ends) {
            on[pair.node] |= *end != Instant::NEVER;
        }
        (life.exported, life.left) = (Some(on), left);
    }

    /// AD1: a user has this lease from now on, perhaps as it was exported.
    pub(super) fn check_adopted(&mut self, client: usize, lease: &Lease) {
        let terms = lease.hold().terms();
        let Some(adopted) = &terms.keys.adopts else {
            return;
        };
        let own = terms.asked.max_hold.unwrap_or(Duration::MAX);
        if lease.number() > 0 {
            return;
        }
        let excused = self.nodes.iter().any(|node| node.excused);
        let name = name_of(&adopted.value.0);
        let Some(life) = self.oracle.tokens.get_mut(&name) else {
            return;
        };
        life.adopters += 1;
        let left = life.left.unwrap_or(Duration::MAX);
        if own > left.saturating_add(Duration::from_millis(1)) {
            let what = format!("S4 c{client} goes on with a lease beyond its max_hold");
            return self.violated(what);
        }
        let Some(life) = self.oracle.tokens.get(&name) else {
            return;
        };
        if life.adopters > 1 && !excused {
            self.violated(format!(
                "AD1 c{client} goes on with a lease that another has adopted"
            ));
        }
    }

    /// AD2, by what a node has done.
    pub(super) fn note_taken_over(
        &mut self,
        node: usize,
        request: &Request,
        reply: Option<&Reply>,
    ) {
        let granted = matches!(reply, Some(Reply::Granted { .. }));
        if let Some(adopted) = request.keys.adopts.as_ref().filter(|_| granted) {
            let name = name_of(&adopted.value.0);
            if let Some(life) = self.oracle.tokens.get_mut(&name) {
                life.taken_over[node] = true;
            }
        }
        let extended = matches!(reply, Some(Reply::Extended { .. }));
        if !extended || !matches!(request.op, Op::Extend { .. }) {
            return;
        }
        let life = self.oracle.tokens.get(&name_of(&request.value.0));
        let taken_over = life.is_some_and(|life| life.taken_over[node]);
        let lost = self.nodes[node].excused || self.nodes[node].forgot || self.fails_over(node);
        if taken_over && !lost && !self.oracle.steps_seen {
            let what = format!("AD2 n{node} stores a lease anew that goes on elsewhere");
            self.violated(what);
        }
    }
}
