//! The seam to a cluster: it knows which of its servers serves which hash slot. The connection to a
//! server gives a request back through this seam when that server cannot carry it out.

use std::collections::VecDeque;

use super::outbox::Item;
use super::server_error::Redirect;
use crate::node::address::Endpoint;

/// See the [module documentation](self).
pub(crate) trait Router: Send + Sync {
    /// The server at `from` does not serve the item. `calm`: no quarantine lasts there, so an
    /// extension may be asked by its one key where the others are on their way.
    fn redirected(&self, item: Box<Item>, redirect: Redirect, from: &Endpoint, calm: bool);

    /// Takes those items that another than the server at `here` serves by now; returns the
    /// others.
    fn take_strays(&self, here: &Endpoint, items: VecDeque<Box<Item>>) -> VecDeque<Box<Item>>;

    /// The map may be wrong: a server of it does not answer as it should.
    fn doubt(&self);

    /// Where a hash slot is served, if that is known.
    fn served_at(&self, slot: u16) -> Option<Endpoint>;

    /// The node was admitted by this id.
    fn admitted(&self, id: u64);
}
