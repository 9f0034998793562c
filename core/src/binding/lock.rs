//! What bindings need of a lock.

use crate::error::{Error, NodeError};
use crate::lease::Lease;
use crate::lock::{Lock, unless_others};
use crate::node::Mode;
use crate::owner::{Owner, ThreadBinding};
use std::sync::Arc;

impl Lock {
    /// For bindings: what the lock of an [election](crate::Election) is asked for with:
    /// without end, in the line on the nodes, for as long as it lasts. Options that are given
    /// behind it win, but [`check`](Lock::check) and every acquire refuse those by which
    /// several would lead.
    #[doc(hidden)]
    pub fn for_election(self) -> Lock {
        let lock = self.change(|options| options.election = true);
        lock.wait(None).max_hold(None).fair(true).renew(true)
    }

    /// For bindings: gives the lock an owner, unless it has one.
    #[doc(hidden)]
    pub fn owner_or(mut self, owner: impl FnOnce() -> Owner) -> Lock {
        self.options.owner.get_or_insert_with(owner);
        self
    }

    /// For bindings: that each thread which acquires it is an owner of its own: see
    /// [`of_this_thread`](Lock::of_this_thread).
    #[doc(hidden)]
    pub fn owned_by_threads(mut self, owned: bool) -> Lock {
        self.options.owned_by_threads = owned;
        self
    }

    /// For bindings: the lock as the calling thread acquires it. Where threads own it the owner
    /// is this one, but of a semaphore, whose slots anybody may give back. Without an owner the
    /// log tells of a lease that is still kept when this thread has ended.
    #[doc(hidden)]
    pub fn of_this_thread(mut self) -> Lock {
        if self.options.owner.is_some() {
            return self;
        }
        if self.options.owned_by_threads && !self.has_slots() {
            self.owner(Owner::current_thread())
        } else {
            self.options.acquirer = ThreadBinding::told_at_the_end_of_this_thread();
            self
        }
    }

    /// For bindings: what is one and the same for all objects of this client that mean
    /// this lock, as long as the client lives. Fails as [`check`](Lock::check).
    #[doc(hidden)]
    pub fn place(&self) -> Result<(usize, Vec<u8>), Error> {
        let keys = self.keys.clone()?;
        Ok((
            Arc::as_ptr(&self.client) as usize,
            keys.id().bytes().to_vec(),
        ))
    }

    /// For bindings: the name of its [group](Lock::group), empty for none.
    #[doc(hidden)]
    pub fn group_name(&self) -> &'static str {
        let group = self.options.group.as_ref();
        group.copied().unwrap_or_default().name()
    }

    /// For bindings: whether this process may use it, as its client.
    #[doc(hidden)]
    pub fn is_ours(&self) -> bool {
        self.client.is_ours()
    }

    /// For bindings: whether the lease that the lock's owner has is held; `None`
    /// where that owner has none.
    #[doc(hidden)]
    pub fn is_held_by_owner(&self) -> Option<bool> {
        // First, for a forked child must not touch locks of its parent.
        let client = self.client.started()?;
        client.check().ok()?;
        let keys = self.keys.as_ref().ok()?;
        let owner = self.options.owner.as_ref()?;
        let share = client.owners.newest(keys.id(), owner)?;
        Some(!share.held.hold.remaining().is_zero())
    }

    /// For bindings: whether it is a semaphore.
    #[doc(hidden)]
    pub fn has_slots(&self) -> bool {
        self.options.slots.is_some()
    }

    /// For bindings: whether it is asked for so that it is [shared](Lock::shared).
    #[doc(hidden)]
    pub fn is_shared(&self) -> bool {
        self.options.shared
    }

    /// For bindings: whether the lock's owner has a lease that is shared.
    #[doc(hidden)]
    pub fn is_shared_by_owner(&self) -> bool {
        let mode = || {
            let client = self.client.started()?;
            client.check().ok()?;
            let owner = self.options.owner.as_ref()?;
            client.owners.mode_of(self.keys.as_ref().ok()?.id(), owner)
        };
        mode() == Some(Mode::Shared)
    }

    /// For bindings: as [`acquire`](Lock::acquire), but the lease has no user before it is
    /// [delivered](Lease::delivered).
    #[doc(hidden)]
    pub async fn win(&self) -> Result<Lease, Error> {
        let timed = self.timed()?;
        let outcome = self.win_untimed().await;
        timed.end(outcome.as_ref().map(|win| win.reentered));
        Ok(outcome?.lease)
    }

    /// For bindings: as [`try_acquire_for`](Lock::try_acquire_for) the lock's own
    /// [`wait`](Lock::wait), but the lease has no user before it is [delivered](Lease::delivered).
    #[doc(hidden)]
    pub async fn try_win(&self) -> Result<Option<Lease>, Error> {
        self.win().await.map(Some).or_else(unless_others)
    }

    /// For the command: what each node said to the last attempt of this client at the lock that
    /// did not win, in the order of the node list. Nothing where none was made, or the client
    /// has held the lock since.
    #[doc(hidden)]
    pub fn answers(&self) -> Vec<NodeError> {
        let (Some(client), Ok(keys)) = (self.client.started(), &self.keys) else {
            return Vec::new();
        };
        let said = client.lines.said(keys.id());
        said.map_or_else(Vec::new, |said| said.nodes(&client.set))
    }
}
