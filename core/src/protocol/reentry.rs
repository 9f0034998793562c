//! The leases that owners hold, and how many handles there are on each.
//!
//! Counts live here, in the client; nodes know tokens only. So re-entry costs
//! no request and cannot diverge between nodes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::hash::HashMap;
use crate::lean::push_exact;
use crate::mutex::lock;
use crate::node::{LockId, Mode};
use crate::owner::{Owner, OwnerId};
use crate::protocol::claim_cell::ClaimCell;
use crate::protocol::renewal::WatchHandle;

/// A lock, and an owner of it.
type OwnedLock = (LockId, OwnerId);

/// The leases of a client that have an owner.
#[derive(Default)]
pub(crate) struct Owners {
    held: Mutex<HashMap<OwnedLock, Arc<SharedLease>>>,
}

/// A lease as its handles share it.
pub(crate) struct SharedLease {
    pub(crate) hold: Arc<ClaimCell>,
    /// Which of the token's leases it is.
    pub(crate) lease: u32,
    pub(crate) fence: u64,
    place: Option<OwnedLock>,
    /// One mark for each handle that has not been released, newest last.
    /// Changed under the lock of [`Owners`] where there is an owner.
    handles: Mutex<Vec<Arc<AtomicBool>>>,
    watched: Mutex<Option<WatchHandle>>,
    /// Whether the user was warned that a call entered it with options of its own.
    pub(crate) overruled: AtomicBool,
}

/// One handle's share in a lease.
pub(crate) struct LeaseHandle {
    pub(crate) held: Arc<SharedLease>,
    released: Arc<AtomicBool>,
    /// The lease was won for it.
    first: bool,
}

impl SharedLease {
    fn share(self: &Arc<SharedLease>, first: bool) -> LeaseHandle {
        let released = Arc::new(AtomicBool::new(false));
        push_exact(&mut lock(&self.handles), released.clone());
        LeaseHandle {
            held: self.clone(),
            released,
            first,
        }
    }
}

impl Owners {
    /// A lease that was just won; and what is to be given back of it. Of one owner's leases
    /// that share a lock, or have slots of a semaphore, and were asked for side by side, the
    /// first one counts.
    pub(crate) fn enter(
        &self,
        hold: Arc<ClaimCell>,
        watched: WatchHandle,
        owner: Option<&Owner>,
    ) -> (LeaseHandle, Option<(Arc<ClaimCell>, WatchHandle)>) {
        let place = owner.map(|owner| (hold.terms.keys.id().clone(), owner.id()));
        let held = Arc::new(SharedLease {
            lease: hold.lease(),
            fence: hold.fence(),
            hold,
            place: place.clone(),
            handles: Mutex::default(),
            watched: Mutex::new(Some(watched)),
            overruled: AtomicBool::new(false),
        });
        let Some(place) = place else {
            return (held.share(true), None);
        };
        let mut table = lock(&self.held);
        let beside = |hold: &ClaimCell| hold.mode() != Mode::Exclusive;
        let first = table
            .get(&place)
            .filter(|first| beside(&held.hold) && beside(&first.hold) && is_valid(&first.hold));
        if let Some(first) = first {
            let share = first.share(false);
            let spare = lock(&held.watched)
                .take()
                .map(|watched| (held.hold.clone(), watched));
            return (share, spare);
        }
        let share = held.share(true);
        table.insert(place, held);
        (share, None)
    }

    /// The keys of the locks that an owner holds, for a call that waits for one more: looks at all
    /// leases that have owners.
    pub(crate) fn held_by(&self, owner: &Owner) -> Vec<Arc<[u8]>> {
        let (table, id) = (lock(&self.held), owner.id());
        let held = table.iter().filter(|((_, owner), _)| *owner == id);
        held.map(|(_, held)| held.hold.terms.keys.lock.clone())
            .collect()
    }

    /// In which mode `owner` holds the lock; of a lease that is lost it says nothing of readers.
    pub(crate) fn mode_of(&self, lock_id: &LockId, owner: &Owner) -> Option<Mode> {
        let table = lock(&self.held);
        let hold = &table.get(&(lock_id.clone(), owner.id()))?.hold;
        Some(if is_valid(hold) {
            hold.mode()
        } else {
            Mode::Exclusive
        })
    }

    /// Another handle on the lease that `owner` holds, valid or lost.
    pub(crate) fn reenter(&self, lock_id: &LockId, owner: &Owner) -> Option<LeaseHandle> {
        let table = lock(&self.held);
        Some(table.get(&(lock_id.clone(), owner.id()))?.share(false))
    }

    /// The newest handle of the lease that `owner` holds: for a release by
    /// lock.
    pub(crate) fn newest(&self, lock_id: &LockId, owner: &Owner) -> Option<LeaseHandle> {
        let table = lock(&self.held);
        let held = table.get(&(lock_id.clone(), owner.id()))?.clone();
        let released = lock(&held.handles).last()?.clone();
        Some(LeaseHandle {
            held,
            released,
            first: false,
        })
    }

    /// How many handles there are on the lease.
    pub(crate) fn handles(&self, share: &LeaseHandle) -> usize {
        let _table = share.held.place.as_ref().map(|_| lock(&self.held));
        lock(&share.held.handles).len()
    }

    /// Gives a handle back.
    pub(crate) fn leave(&self, share: &LeaseHandle) -> HandleRelease {
        self.leave_if(share, |_| true)
    }

    /// Gives a handle back that is the only one; where there are others nothing changes.
    pub(crate) fn leave_alone(&self, share: &LeaseHandle) -> HandleRelease {
        let may = |handles| handles == 1;
        self.leave_if(share, may)
    }

    /// The same, where that may be with so many handles: looked at in the step that does it.
    fn leave_if(&self, share: &LeaseHandle, may: impl FnOnce(usize) -> bool) -> HandleRelease {
        let mut table = share.held.place.as_ref().map(|_| lock(&self.held));
        let mut handles = lock(&share.held.handles);
        if share.is_released() {
            return HandleRelease::Before;
        }
        if !may(handles.len()) {
            return HandleRelease::Others;
        }
        share.released.store(true, Ordering::Release);
        handles.retain(|h| !Arc::ptr_eq(h, &share.released));
        let last = handles.is_empty();
        if !last {
            return HandleRelease::Others;
        }
        if let (Some(table), Some(place)) = (&mut table, &share.held.place) {
            // Another lease of the same owner may stand there by now.
            if table
                .get(place)
                .is_some_and(|held| Arc::ptr_eq(held, &share.held))
            {
                table.remove(place);
            }
        }
        drop((handles, table));
        match lock(&share.held.watched).take() {
            Some(watched) => HandleRelease::Last(watched),
            None => HandleRelease::Before,
        }
    }
}

/// Whether the lease is valid now. Looking reports no loss to the user, so it may be done under the
/// lock of the table.
fn is_valid(hold: &ClaimCell) -> bool {
    hold.set.clock.now() < hold.end()
}

/// What it means that a handle was given back.
pub(crate) enum HandleRelease {
    /// It had been given back before.
    Before,
    /// There are others.
    Others,
    /// It was the last one: the lease is to be released.
    Last(WatchHandle),
}

impl LeaseHandle {
    /// Whether the lease was won for it, and not entered once more.
    pub(crate) fn is_first(&self) -> bool {
        self.first
    }

    pub(crate) fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }
}
