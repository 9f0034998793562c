//! The owner of a lease, which may enter its lock again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An owner that may re-enter: a thread, a task, or a name.
///
/// Two acquisitions of one lock by one owner, within one client, share one
/// lease; the last release frees the lock.
#[derive(Clone)]
pub struct Owner(OwnerKind);

#[derive(Clone)]
enum OwnerKind {
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
struct ThreadEnd(Arc<Thread>);

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        self.0.gone.store(true, Ordering::Relaxed);
    }
}

thread_local! {
    static THREAD: ThreadEnd = ThreadEnd(Arc::new(Thread {
        id: NUMBERS.fetch_add(1, Ordering::Relaxed),
        gone: Arc::new(AtomicBool::new(false)),
    }));
}

impl Owner {
    /// An owner with a name, for a lease that is passed between threads or
    /// tasks. Valid within one client: in another client or process the same
    /// name is another owner, but of a lock in [Redisson's layout](crate::Layout).
    pub fn named(name: impl Into<Vec<u8>>) -> Owner {
        Owner(OwnerKind::Named(name.into().into()))
    }

    /// The calling thread. When it ends, its leases are renewed no more.
    ///
    /// While thread-local storage is being torn down there is no number to be
    /// had; such a thread is an owner of its own at each call.
    pub fn current_thread() -> Owner {
        THREAD
            .try_with(|thread| Owner(OwnerKind::Thread(thread.0.clone())))
            .unwrap_or_else(|_| Owner::task())
    }

    /// The number of the calling thread, which no other thread of the process ever has: the
    /// system's are used again. 0 while thread-local storage is being torn down.
    #[doc(hidden)]
    pub fn thread_number() -> u64 {
        THREAD.try_with(|thread| thread.0.id).unwrap_or(0)
    }

    /// A new owner, different from every other: for the tasks of a language's
    /// own scheduler.
    #[doc(hidden)]
    pub fn task() -> Owner {
        Owner(OwnerKind::Task(NUMBERS.fetch_add(1, Ordering::Relaxed)))
    }

    /// For the simulator: an owner that ends when `gone` is set, as a thread does.
    #[doc(hidden)]
    pub fn mortal(gone: Arc<AtomicBool>) -> Owner {
        let id = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Owner(OwnerKind::Thread(Arc::new(Thread { id, gone })))
    }

    /// The owner in words, for a message.
    pub(crate) fn words(&self) -> String {
        match &self.0 {
            OwnerKind::Named(name) => format!("the owner {}", crate::error::shown(name)),
            OwnerKind::Thread(_) => "the calling thread".into(),
            OwnerKind::Task(_) => "the calling task".into(),
        }
    }

    /// Set when the owner has ended.
    fn gone(&self) -> Option<Arc<AtomicBool>> {
        match &self.0 {
            OwnerKind::Thread(thread) => Some(thread.gone.clone()),
            _ => None,
        }
    }

    /// What the end of its thread means for a lease that it has.
    pub(crate) fn bound(&self) -> Option<Arc<ThreadBinding>> {
        let gone = self.gone()?;
        Some(Arc::new(ThreadBinding { gone, ends: true }))
    }

    /// Whether it is the calling thread itself, which can do nothing else while it waits.
    pub(crate) fn is_thread(&self) -> bool {
        matches!(self.0, OwnerKind::Thread(_))
    }

    /// Its name, if it has one.
    pub(crate) fn name(&self) -> Option<&[u8]> {
        match &self.0 {
            OwnerKind::Named(name) => Some(name),
            OwnerKind::Thread(_) | OwnerKind::Task(_) => None,
        }
    }

    /// Whether a lease of the owner may wait while another is given the lock.
    pub(crate) fn may_be_shared(&self) -> bool {
        matches!(self.0, OwnerKind::Named(_))
    }

    /// What tells it from every other owner, as a key of tables.
    pub(crate) fn id(&self) -> OwnerId {
        match &self.0 {
            OwnerKind::Named(name) => OwnerId::Named(name.clone()),
            OwnerKind::Thread(thread) => OwnerId::Numbered(thread.id),
            OwnerKind::Task(number) => OwnerId::Numbered(*number),
        }
    }
}

/// To which thread a lease is bound, and how.
#[derive(Clone, Debug)]
pub struct ThreadBinding {
    /// Set when the thread has ended.
    gone: Arc<AtomicBool>,
    /// The lease is renewed no more then. Else the log warns of it, and that is all.
    ends: bool,
}

impl ThreadBinding {
    /// For a lease without an owner that the calling thread acquires: where that thread ends, the
    /// lease lives on, and the log tells of it. Nothing while thread-local storage is torn down.
    pub(crate) fn told_at_the_end_of_this_thread() -> Option<Arc<ThreadBinding>> {
        let gone = Owner::current_thread().gone()?;
        Some(Arc::new(ThreadBinding { gone, ends: false }))
    }

    /// Whether the lease is to be renewed no more.
    pub(crate) fn ends_lease(&self) -> bool {
        self.ends && self.gone.load(Ordering::Relaxed)
    }

    /// Whether the log is to warn that the thread has ended.
    pub(crate) fn is_to_tell(&self) -> bool {
        !self.ends && self.gone.load(Ordering::Relaxed)
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
            OwnerKind::Named(name) => write!(f, "Owner({})", crate::error::shown(name)),
            OwnerKind::Thread(thread) => write!(f, "Owner(thread {})", thread.id),
            OwnerKind::Task(number) => write!(f, "Owner(task {number})"),
        }
    }
}

/// See [`Owner::id`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum OwnerId {
    Named(Arc<[u8]>),
    Numbered(u64),
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
