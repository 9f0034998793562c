//! Requests to a node that are yet to be written, in order.
//!
//! Requests wait for as long as their sender does. Releases stay until they
//! are written, or given up: what they undo may stand on the node.

use std::collections::VecDeque;

use super::redis::Item;
use super::{Fault, FaultKind, Reply};
use crate::clock::Instant;

/// Releases that wait for a node that is away. Beyond it the oldest are given
/// up: their keys end by themselves.
const CLEAN_UP_BOUND: usize = 10_000;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Backlog(VecDeque<Item>);

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, item: Item) {
        self.0.push_back(item);
    }

    /// The next to be written.
    pub(crate) fn next(&mut self) -> Option<Item> {
        self.0.pop_front()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Item> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Item> {
        self.0.iter_mut()
    }

    /// Everything, to be failed.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Item> {
        self.0.drain(..)
    }

    /// Puts one in front that was written in vain. What was behind it comes
    /// behind it again: replies come in order, and these are written before
    /// anything new.
    pub(crate) fn again(&mut self, item: Item) {
        let again = |i: &&Item| i.with_text || i.readmitted;
        let place = self.0.iter().take_while(again).count();
        self.0.insert(place, item);
    }

    /// Requests fail; releases go on waiting.
    pub(crate) fn fail_requests(&mut self, fault: &Fault) {
        for item in self.0.iter_mut().filter(|item| !item.is_release()) {
            item.tell(Reply::Failed(fault.clone()), None);
        }
        self.0.retain(Item::is_release);
    }

    /// Gives up the oldest releases, if there are too many: how many.
    pub(crate) fn drop_oldest_releases(&mut self) -> u64 {
        let mut over = self.0.len().saturating_sub(CLEAN_UP_BOUND);
        let mut dropped = 0;
        self.0.retain_mut(|item| {
            let drop = over > 0 && item.is_release();
            if drop {
                over -= 1;
                dropped += 1;
                item.fail(FaultKind::Refused, "too many releases wait for it", true);
            }
            !drop
        });
        dropped
    }

    /// Fails what is past its deadline; lowers `due` to what comes next.
    pub(crate) fn expire(&mut self, now: Instant, due: &mut Instant) {
        self.0.retain_mut(|item| {
            if item.due() <= now {
                item.fail(
                    FaultKind::Timeout,
                    "no connection in time",
                    item.is_release(),
                );
            }
            let keep = item.due() > now && (item.sink.is_some() || item.is_release());
            if keep {
                *due = (*due).min(item.due());
            }
            keep
        });
    }
}

impl Extend<Item> for Backlog {
    fn extend<T: IntoIterator<Item = Item>>(&mut self, items: T) {
        self.0.extend(items);
    }
}
