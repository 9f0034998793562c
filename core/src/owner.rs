//! Who may re-enter a lock, and the leases they hold.
//!
//! Counts live here, in the client; nodes know tokens only. So re-entry costs
//! no request and cannot diverge between nodes.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::lean::push_lean;
use crate::mutants::mutant;
use crate::mutex::lock;
use crate::renewal::Watched;
use crate::round::Hold;

/// Who may re-enter: a thread, a task, or a named owner.
///
/// Two acquisitions of one lock by one owner, within one client, share one
/// lease; the last release frees the lock.
#[derive(Clone)]
pub struct Owner(Who);

#[derive(Clone)]
enum Who {
    Named(Arc<[u8]>),
    Thread(Arc<Thread>),
    Task(u64),
}

/// A thread, by a number of our own: the system's ids are used again.
struct Thread {
    id: u64,
    gone: Arc<AtomicBool>,
}

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Set when its thread ends.
struct OfThread(Arc<Thread>);

impl Drop for OfThread {
    fn drop(&mut self) {
        self.0.gone.store(true, Ordering::Relaxed);
    }
}

thread_local! {
    static THREAD: OfThread = OfThread(Arc::new(Thread {
        id: NUMBERS.fetch_add(1, Ordering::Relaxed),
        gone: Arc::new(AtomicBool::new(false)),
    }));
}

impl Owner {
    /// An owner with a name, for a lease that is passed between threads or
    /// tasks. Valid within one client: in another client or process the same
    /// name is another owner.
    pub fn named(name: impl Into<Vec<u8>>) -> Owner {
        Owner(Who::Named(name.into().into()))
    }

    /// The calling thread. When it ends, its leases are renewed no more.
    ///
    /// While thread-local storage is being torn down there is no number to be
    /// had; such a thread is an owner of its own at each call.
    pub fn current_thread() -> Owner {
        THREAD
            .try_with(|thread| Owner(Who::Thread(thread.0.clone())))
            .unwrap_or_else(|_| Owner::task())
    }

    /// A new owner, different from every other: for the tasks of a language's
    /// own scheduler.
    #[doc(hidden)]
    pub fn task() -> Owner {
        Owner(Who::Task(NUMBERS.fetch_add(1, Ordering::Relaxed)))
    }

    /// For the simulator: an owner that ends when `gone` is set, as a thread does.
    #[cfg(feature = "sim")]
    #[doc(hidden)]
    pub fn mortal(gone: Arc<AtomicBool>) -> Owner {
        let id = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Owner(Who::Thread(Arc::new(Thread { id, gone })))
    }

    /// Set when the owner has ended.
    pub(crate) fn gone(&self) -> Option<Arc<AtomicBool>> {
        match &self.0 {
            Who::Thread(thread) => Some(thread.gone.clone()),
            _ => None,
        }
    }

    /// Whether one of them may wait while another is given the lock.
    pub(crate) fn may_be_shared(&self) -> bool {
        matches!(self.0, Who::Named(_))
    }

    fn id(&self) -> OwnerId {
        match &self.0 {
            Who::Named(name) => OwnerId::Named(name.clone()),
            Who::Thread(thread) => OwnerId::Numbered(thread.id),
            Who::Task(number) => OwnerId::Numbered(*number),
        }
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Owner) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Owner {}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Who::Named(name) => write!(f, "Owner({})", crate::error::shown(name)),
            Who::Thread(thread) => write!(f, "Owner(thread {})", thread.id),
            Who::Task(number) => write!(f, "Owner(task {number})"),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum OwnerId {
    Named(Arc<[u8]>),
    Numbered(u64),
}

type Place = (Arc<[u8]>, OwnerId);

/// The leases of a client that have an owner.
#[derive(Default)]
pub(crate) struct Owners {
    held: Mutex<HashMap<Place, Arc<Held>>>,
}

/// A lease as its handles share it.
pub(crate) struct Held {
    pub(crate) hold: Arc<Hold>,
    /// Which of the token's leases it is.
    pub(crate) lease: u32,
    pub(crate) fence: u64,
    place: Option<Place>,
    /// One mark for each handle that has not been released, newest last.
    /// Changed under the lock of [`Owners`] where there is an owner.
    handles: Mutex<Vec<Arc<AtomicBool>>>,
    watched: Mutex<Option<Watched>>,
}

/// One handle's share in a lease.
pub(crate) struct Share {
    pub(crate) held: Arc<Held>,
    released: Arc<AtomicBool>,
}

impl Held {
    fn share(self: &Arc<Held>) -> Share {
        let released = Arc::new(AtomicBool::new(false));
        push_lean(&mut lock(&self.handles), released.clone());
        Share {
            held: self.clone(),
            released,
        }
    }
}

impl Owners {
    /// A lease that was just won.
    pub(crate) fn enter(&self, hold: Arc<Hold>, watched: Watched, owner: Option<&Owner>) -> Share {
        let place = owner.map(|owner| (hold.terms.keys.lock.clone(), owner.id()));
        let held = Arc::new(Held {
            lease: hold.lease(),
            fence: hold.fence(),
            hold,
            place: place.clone(),
            handles: Mutex::default(),
            watched: Mutex::new(Some(watched)),
        });
        let Some(place) = place else {
            return held.share();
        };
        let mut table = lock(&self.held);
        let share = held.share();
        table.insert(place, held);
        share
    }

    /// Another handle on the lease that `owner` holds, valid or lost.
    pub(crate) fn reenter(&self, key: &Arc<[u8]>, owner: &Owner) -> Option<Share> {
        let table = lock(&self.held);
        Some(table.get(&(key.clone(), owner.id()))?.share())
    }

    /// The newest handle of the lease that `owner` holds: for a release by
    /// lock.
    pub(crate) fn newest(&self, key: &Arc<[u8]>, owner: &Owner) -> Option<Share> {
        let table = lock(&self.held);
        let held = table.get(&(key.clone(), owner.id()))?.clone();
        let released = lock(&held.handles).last()?.clone();
        Some(Share { held, released })
    }

    /// Gives a handle back.
    pub(crate) fn leave(&self, share: &Share) -> Left {
        if share.released.swap(true, Ordering::AcqRel) {
            return Left::Before;
        }
        let mut table = share.held.place.as_ref().map(|_| lock(&self.held));
        let mut handles = lock(&share.held.handles);
        handles.retain(|h| !Arc::ptr_eq(h, &share.released));
        let last = mutant!("last-release-frees-nothing", handles.is_empty(), false);
        if !mutant!("first-release-frees", last, true) {
            return Left::Others;
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
            Some(watched) => Left::Last(watched),
            None => Left::Before,
        }
    }
}

/// What it means that a handle was given back.
pub(crate) enum Left {
    /// It had been given back before.
    Before,
    /// There are others.
    Others,
    /// It was the last one: the lease is to be released.
    Last(Watched),
}

impl Share {
    pub(crate) fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_one_owner_and_ends() {
        let here = Owner::current_thread();
        assert_eq!(here, Owner::current_thread());
        let there = std::thread::spawn(Owner::current_thread).join().unwrap();
        assert_ne!(here, there);
        assert!(there.gone().unwrap().load(Ordering::Relaxed));
        assert!(!here.gone().unwrap().load(Ordering::Relaxed));
    }

    #[test]
    fn names_are_owners_and_tasks_are_not() {
        assert_eq!(Owner::named("a"), Owner::named("a"));
        assert_ne!(Owner::named("a"), Owner::named("b"));
        assert_ne!(Owner::task(), Owner::task());
    }
}
