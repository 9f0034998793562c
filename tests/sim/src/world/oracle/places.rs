//! Places in the queues of nodes: who left one, and who stands there although
//! nobody waits any more.

use quorlock::sim::{Request, Waiter};

use crate::neighbour::known;
use crate::world::Inner;
use crate::world::messages::inbox_of;

/// What excuses a place that nobody has a use for.
#[derive(Default)]
pub(super) struct Places {
    /// Who left the queue of a node, which has yet to say that it knows.
    leaving: Vec<(usize, Waiter)>,
    /// Of whom a node carried a request out late, as in [`Life::late`](super::Life).
    late: Vec<(usize, Waiter)>,
}

impl Inner {
    /// A release is sent to a node, or was acknowledged.
    pub(in crate::world) fn leaves_line(&mut self, node: usize, request: &Request, sent: bool) {
        let Some(waiter) = &request.waiter else {
            return;
        };
        let leaving = &mut self.oracle.places.leaving;
        let place = leaving
            .iter()
            .position(|(at, w)| *at == node && w == waiter);
        match place {
            Some(place) if !sent => drop(leaving.swap_remove(place)),
            None if sent => leaving.push((node, waiter.clone())),
            _ => {}
        }
    }

    /// Whether a waiter may stand in the queue of a node, although it left that or
    /// has no use for it: the node has yet to hear of it, or never will, for a
    /// release is given up when no key can stand any more, and places do; or a
    /// request that came late brought it back.
    pub(in crate::world) fn is_excused_in_line(
        &self,
        node: usize,
        number: u64,
        inbox: &[u8],
    ) -> bool {
        let Places { leaving, late } = &self.oracle.places;
        let its =
            |(at, w): &(usize, Waiter)| *at == node && w.number == number && *w.inbox == *inbox;
        leaving.iter().chain(late).any(its)
    }

    /// A node carried out a request whose client has ceased to wait for it: it may
    /// have queued the waiter behind the client's back.
    pub(in crate::world) fn queued_late(&mut self, node: usize, request: &Request) {
        if let Some(waiter) = &request.waiter {
            self.oracle.places.late.push((node, waiter.clone()));
        }
    }

    /// L1: who stands in a queue of a node although nobody waits any more.
    pub(super) fn left_in_line(&self) -> Option<String> {
        for (i, node) in self.nodes.iter().enumerate() {
            let now = node.clock.local_ms(self.time);
            let lines = known().iter();
            let lines = lines.filter_map(|lock| node.state.line(lock.aux.queue(), now));
            for Waiter { number, inbox } in lines.flat_map(|l| &l.queue).map(|p| &p.waiter) {
                let excused = self.is_excused_in_line(i, *number, inbox);
                let client = (0..self.clients.len()).find(|c| inbox_of(*c) == *inbox)?;
                // An old snapshot brings places back too.
                if !(excused || node.forgot || self.clients[client].crashed) {
                    return Some(format!("L1 n{i} still queues waiter {number} of c{client}"));
                }
            }
        }
        None
    }
}
