//! A lease that goes on in another client.

use super::Lease;
use crate::error::{Error, shown};
use crate::export::LeaseText;
use crate::node::names::Naming;
use crate::protocol::reentry::HandleRelease;

impl Lease {
    /// Ends the lease here without releasing the lock, and returns a text with which one other
    /// client of the same nodes [goes on with it](crate::Client::adopt): in another process, in
    /// another language, on another host.
    ///
    /// The lease is lengthened to its full ttl first. Then it is over for this client, which renews
    /// it no more: another client has to adopt it within the ttl, or for as long as it was extended
    /// beyond that, else the lock is free then. Until then no client holds the lock that could know
    /// of a loss, so do not touch what it protects.
    ///
    /// **The text is a secret**: a client that has it can take the lock. Hand it on as you would a
    /// password.
    ///
    /// # Errors
    ///
    /// `LockLost` if it is lost; `NotOwner` after release, and where another call released it meanwhile; `QuorumUnavailable` if too few
    /// nodes answered to lengthen it: then it is held here as before, as it is where
    /// `InvalidArgument` says that others hold this lease too (re-entry: release the inner
    /// handles first), that it is [shared](crate::Lock::shared), or [kept](crate::Lock::keep).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the lease held here.
    pub async fn export(&self) -> Result<String, Error> {
        self.prepare_export().await?;
        self.export_now()
    }

    /// For bindings: what of an [`export`](Lease::export) has to be waited for. The lease is held
    /// as before, and may be exported.
    #[doc(hidden)]
    pub async fn prepare_export(&self) -> Result<(), Error> {
        self.may_export()?;
        match self.client.owners.handles(&self.share) {
            0 => return Err(self.not_owner()),
            1 => {}
            _ => return Err(self.entered_again()),
        }
        let (hold, lease) = (&self.share.held.hold, self.share.held.lease);
        let ttl = hold.terms.timing.ttl;
        self.extended(hold.extend(lease, ttl).await, "export")?;
        Ok(())
    }

    /// Whether the lease may be exported.
    fn may_export(&self) -> Result<(), Error> {
        self.client.check()?;
        if self.share.is_released() {
            return Err(self.not_owner());
        }
        let terms = &self.share.held.hold.terms;
        Err(self.not_exported(if self.is_shared() {
            "it is shared, and others hold the lock beside it"
        } else if terms.keys.field.is_some() {
            "in Redisson's layout it is its owner's"
        } else if !terms.asked.keep.is_zero() {
            "its lock is kept beyond the release, by the client that won it"
        } else {
            return Ok(());
        }))
    }

    fn entered_again(&self) -> Error {
        self.not_exported("it was entered more than once: release the inner handles first")
    }

    fn not_exported(&self, why: &str) -> Error {
        Error::invalid(format!(
            "the lease of the lock {} cannot be exported: {why}",
            shown(&self.name)
        ))
    }

    /// For bindings: ends the lease here, and returns the text with which another client goes on.
    /// It waits for nothing, and a binding calls it where its caller goes on with the text: so a
    /// call that is given up ends no lease.
    #[doc(hidden)]
    pub fn export_now(&self) -> Result<String, Error> {
        // It may have been released, or downgraded, meanwhile.
        self.may_export()?;
        let (hold, lease) = (&self.share.held.hold, self.share.held.lease);
        // From here on no call enters the lease, gives it back, or passes it on.
        let _watched = match self.client.owners.leave_alone(&self.share) {
            HandleRelease::Last(watched) => watched,
            HandleRelease::Before => return Err(self.not_owner()),
            HandleRelease::Others => return Err(self.entered_again()),
        };
        let Some(max_hold) = hold.export(lease) else {
            return Err(self.lost_error());
        };
        let settings = &self.client.settings;
        let exported = LeaseText {
            set_name: settings.set_name.to_string(),
            nodes: settings.nodes.len() as u64,
            queue: hold.keys().aux.queue().to_vec(),
            name: self.name.to_vec(),
            raw: self.naming == Naming::Raw,
            slot: self.slot(),
            value: hold.value(),
            ttl: hold.terms.timing.ttl,
            renew: hold.terms.asked.renew,
            fence: hold.last_fence(),
            max_hold,
        };
        Ok(exported.to_text())
    }
}
