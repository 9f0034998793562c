//! What bindings need of several leases.

use crate::error::Error;
use crate::lease::{Lease, Lost};
use crate::leases::{Leases, Places};
use crate::runtime::drive::sending_in_loop;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

impl Leases {
    /// For bindings: which of them is that of which name, also when they are over.
    #[doc(hidden)]
    pub fn places(&self) -> Places {
        Places(self.iter().map(Lease::naming).collect())
    }

    /// For bindings, and the simulator: each of them, to be kept by itself as well.
    #[doc(hidden)]
    pub fn parts(&self) -> &[Arc<Lease>] {
        &self.0
    }

    /// For bindings: the leases as they reach their caller, if all are still held then:
    /// see [`Lease::delivered`].
    #[doc(hidden)]
    pub fn delivered(self) -> Result<Leases, Error> {
        let lost = self.iter().find(|lease| !lease.is_held());
        match lost.map(Lease::lost_error) {
            None => Ok(self.handed_over()),
            Some(error) => Err(error),
        }
    }

    /// For bindings: calls `ring` at each loss, where that is found out, as long as the
    /// result lives; now, if one has come.
    #[doc(hidden)]
    pub fn bell(&self, ring: impl Fn() + Send + Sync + 'static) -> Vec<Lost> {
        let ring = Arc::new(ring);
        let bell = |lease: &Lease| {
            let ring = ring.clone();
            lease.bell(move || ring())
        };
        self.iter().map(bell).collect()
    }

    /// For bindings: releases in the background.
    #[doc(hidden)]
    pub fn let_go(&self) {
        // Once polled, a release is on its way.
        let _ = pin!(self.release()).poll(&mut Context::from_waker(Waker::noop()));
    }

    /// For bindings: whether a release of all waits for the nodes, where the call says `confirm`, or
    /// nothing. Fails where it has to wait, and is not to.
    #[doc(hidden)]
    pub fn waits(&self, confirm: Option<bool>) -> Result<bool, Error> {
        let mut waits = false;
        for lease in self.iter() {
            waits |= lease.waits(confirm)?;
        }
        Ok(waits)
    }

    /// For event loops: see [`Lease::release_in_loop`].
    #[doc(hidden)]
    pub fn release_in_loop(&self, drives: bool) -> bool {
        sending_in_loop(drives, || self.give_back())
    }

    /// For bindings: gives leases back in the background that reached no caller after all. They
    /// keep nothing.
    #[doc(hidden)]
    pub fn take_back(&self) {
        self.iter().for_each(Lease::take_back);
    }

    /// For bindings: what a scoped form raises when its body ends after a loss; `None`
    /// where there was none.
    #[doc(hidden)]
    pub fn lost_error(&self) -> Option<Error> {
        let lost = self.iter().find(|lease| lease.loss().is_some())?;
        Some(lost.lost_error())
    }
}
