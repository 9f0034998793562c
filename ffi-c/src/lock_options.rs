//! The builder of a lock's options.

use std::ffi::c_char;
use std::panic::Location;
use std::ptr;

use quorlock_core::{Error, Layout, Lock, Owner};

use crate::handle::{self, Handle, invalid};
use crate::options::Options;

/// A lock is stored as Quorlock stores it.
pub const QUORLOCK_LAYOUT_PLAIN: i32 = 0;
/// A lock is stored as Redisson stores its RLock, and is one with that.
pub const QUORLOCK_LAYOUT_REDISSON: i32 = 1;

/// Options of a lock. What is not set is as its client has it. For one thread
/// at a time; mistakes are reported as those of quorlock_client_options_t, by
/// quorlock_lock_new().
#[derive(Default)]
pub struct quorlock_lock_options_t(Options<Steps>);

#[derive(Default)]
struct Steps {
    steps: Vec<Step>,
    own: bool,
}

/// Sets one option of a lock.
type Step = Box<dyn Fn(Lock) -> Lock + Send + Sync>;

impl Handle for quorlock_lock_options_t {
    const PLAIN: bool = true;
}

impl quorlock_lock_options_t {
    /// The lock with these options.
    pub(crate) fn apply(&self, lock: Lock) -> Result<Lock, Error> {
        Ok(self.0.built()?.steps.iter().fold(lock, |lock, step| step(lock)))
    }

    /// Whether they give an owner.
    pub(crate) fn give_owner(&self) -> Result<bool, Error> {
        Ok(self.0.built()?.own)
    }
}

#[track_caller]
fn set<V: Clone + Send + Sync + 'static>(
    options: *mut quorlock_lock_options_t, given: impl FnOnce() -> Result<V, Error>, option: fn(Lock, V) -> Lock,
) -> i32 {
    let setter = Location::caller();
    boundary!(ptr::null_mut(), {
        let options = handle::borrow_mut(options, "options")?;
        options.0.set(setter, given, |made, value| made.steps.push(Box::new(move |lock| option(lock, value.clone()))))
    })
}

/// New options, none of them set. Free them with quorlock_lock_options_free().
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_new() -> *mut quorlock_lock_options_t {
    boundary!(or ptr::null_mut(), { Ok(handle::boxed(quorlock_lock_options_t::default())) })
}

/// Frees options. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_free(options: *mut quorlock_lock_options_t) {
    boundary!({ handle::free(options) });
}

// Made from core/options.toml: setters of a lock.
/// Auto-release time on the nodes: how long the lock outlives a crashed holder. A part of a
/// millisecond is rounded up. Less than 10,000 ms by default where max_ttl or max_hold is less.
/// 10 ms to max_ttl. Default: 10,000 ms.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_ttl(options: *mut quorlock_lock_options_t, ttl_ms: i64) -> i32 {
    set(options, || handle::millis(ttl_ms, "ttl"), Lock::ttl)
}

/// How long an acquire waits: zero tries once, no limit waits forever. At the end answers that
/// are under way are awaited where they decide, at most for another node_timeout. No limit:
/// #QUORLOCK_FOREVER. Default: 10,000 ms.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_wait(options: *mut quorlock_lock_options_t, wait_ms: i64) -> i32 {
    set(options, || handle::limit(wait_ms, "wait"), Lock::wait)
}

/// Whether the lease is renewed until it is released. Without, it ends after the ttl, unless
/// extended. Default: true.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_renew(options: *mut quorlock_lock_options_t, renew: bool) -> i32 {
    set(options, || Ok(renew), Lock::renew)
}

/// The longest life of a lease, renewed or not. By default the ttl, where that is longer than
/// 3,600,000 ms. No limit: #QUORLOCK_FOREVER. At least ttl. Default: 3,600,000 ms.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_max_hold(options: *mut quorlock_lock_options_t, max_hold_ms: i64) -> i32 {
    set(options, || handle::limit(max_hold_ms, "max_hold"), Lock::max_hold)
}

/// Whether the key on the nodes is the name itself, so that other Redlock libraries and
/// Quorlock exclude each other. Not with shared nor slots. Default: false.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_raw(options: *mut quorlock_lock_options_t, raw: bool) -> i32 {
    set(options, || Ok(raw), Lock::raw)
}

/// How the lock is stored on the nodes: as Quorlock's own, or as one lock with Redisson's RLock
/// of that name. In Redisson's layout the key is the name, a named owner is one in all
/// processes and in Java, and waiters are not queued on the nodes. Both wake each other, and
/// their fences are of one order with those of RFencedLock. Such a lease is not exported. Not
/// with shared, slots nor keep. Default: "plain".
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_layout(options: *mut quorlock_lock_options_t, layout: i32) -> i32 {
    set(options, || layout_of(layout), Lock::layout)
}

/// Text that is stored with the token of a lease, which names the holder. Without control
/// characters; empty for none. An acquire that enters a lease again leaves that lease's label
/// as it is. What is raw, or in Redisson's layout, has no label. At most 256 bytes. Default:
/// "host:pid".
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_label(
    options: *mut quorlock_lock_options_t, text: *const c_char, len: usize,
) -> i32 {
    set(options, || Ok(handle::text(text, len, "label")?.to_owned()), Lock::label)
}

/// Whether leases have a fence. Without, one key less is written on each node. Default: true.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_fencing(options: *mut quorlock_lock_options_t, fencing: bool) -> i32 {
    set(options, || Ok(fencing), Lock::fencing)
}

/// How many calls of the client may wait for the lock in a line, behind the one that asks the
/// nodes or holds it; one more gets #QUORLOCK_TOO_MANY_WAITERS at once. With 0 no call waits
/// behind another. Default: 10,000.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_max_waiters(
    options: *mut quorlock_lock_options_t, max_waiters: i64,
) -> i32 {
    set(options, || handle::count(max_waiters, 0..=2_147_483_647, "max_waiters"), Lock::max_waiters)
}

/// Whether every release goes over the nodes, where the waiters of all clients queue in their
/// order. Without, a lease may be passed on to the next in line of this client, up to 16 times
/// in a row. Default: false.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_fair(options: *mut quorlock_lock_options_t, fair: bool) -> i32 {
    set(options, || Ok(fair), Lock::fair)
}

/// For how long the lock stays taken after it was won, also when it is released before: so that
/// a job which every host starts at about the same time runs once. Counted on this client's
/// clock, and kept by the nodes that the release reaches; a lease that is lost, or whose
/// process dies, leaves the lock to its ttl. At most max_ttl. Not with layout, shared nor
/// confirm off. Default: 0.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_keep(options: *mut quorlock_lock_options_t, keep_ms: i64) -> i32 {
    set(options, || handle::millis(keep_ms, "keep"), Lock::keep)
}

/// Whether an acquire by the owner of a lease enters that lease again, at once. Without, an
/// owner by name waits as any other does, for its own lease too; an owner that is the calling
/// thread would wait in vain, and gets #QUORLOCK_WOULD_DEADLOCK at once. Default: true.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_reentrant(options: *mut quorlock_lock_options_t, reentrant: bool) -> i32 {
    set(options, || Ok(reentrant), Lock::reentrant)
}

/// The lock's group in metrics, which never name locks: a word for all of a kind, such as
/// orders. The process keeps 64 groups; those that come later are counted as other. At most 64
/// bytes. Default: "".
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_group(
    options: *mut quorlock_lock_options_t, text: *const c_char, len: usize,
) -> i32 {
    set(options, || Ok(handle::text(text, len, "group")?.to_owned()), Lock::group)
}

/// Whether the lease is one of many that share the lock: readers, which a lease that is not
/// shared keeps out, and which keep that out. A reader that asks while a writer waits is served
/// after that writer. The fence of a shared lease is above that of each lease before it that
/// was not shared, and below that of each such lease after it; among readers it says nothing.
/// An owner that shares the lock and asks for it alone gets #QUORLOCK_WOULD_DEADLOCK at once.
/// Not with raw, layout, keep, slots nor accept_eviction. Default: false.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_shared(options: *mut quorlock_lock_options_t, shared: bool) -> i32 {
    set(options, || Ok(shared), Lock::shared)
}

pub(crate) fn slots_of(slots: i64) -> Result<u32, Error> {
    Ok(handle::count(slots, 1..=128, "slots")? as u32)
}

/// Makes it a semaphore of this many slots: no more of them are held at once. Every client of
/// the semaphore asks for as many slots: the largest number in use is the limit. A lock of that
/// name is another matter. 1 to 128. Not with raw, shared, layout nor once.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_slots(options: *mut quorlock_lock_options_t, slots: i64) -> i32 {
    set(options, || slots_of(slots), Lock::slots)
}

/// Whether a release waits until a quorum of the nodes has carried it out. Without, it returns
/// at once, and says whether the lease was valid here until then; the nodes hear of it all the
/// same. A call of release may say otherwise. Off, not with keep. Default: true.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_confirm(options: *mut quorlock_lock_options_t, confirm: bool) -> i32 {
    set(options, || Ok(confirm), Lock::confirm)
}
// End of what is made.

pub(crate) fn layout_of(number: i32) -> Result<Layout, Error> {
    match number {
        QUORLOCK_LAYOUT_PLAIN => Ok(Layout::Plain),
        QUORLOCK_LAYOUT_REDISSON => Ok(Layout::Redisson),
        _ => Err(invalid(format!("layout is {number}: give a QUORLOCK_LAYOUT_ constant, 0 or 1"))),
    }
}

/// Names the owner: an acquire that gives the same name, in any thread but with the same
/// client, enters the lock again. Not set, a lease has no owner, but for
/// quorlock_lock_options_set_owner_thread().
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_owner(
    options: *mut quorlock_lock_options_t, name: *const c_char, len: usize,
) -> i32 {
    boundary!(ptr::null_mut(), {
        let options = handle::borrow_mut(options, "options")?;
        let given = || Ok(Owner::named(handle::bytes(name, len, "owner")?));
        options.0.set(Location::caller(), given, |made, owner| {
            made.own = true;
            made.steps.push(Box::new(move |lock| lock.owner(owner.clone())));
        })
    })
}

/// Whether each thread that calls quorlock_lock() or quorlock_lock_all() is an owner of its
/// own, as of a mutex: for a lock that the thread which has it gives back. When the thread
/// ends its lease is renewed no more. Counts for nothing where an owner is named, for a
/// semaphore, and for a call that is started. False.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_owner_thread(
    options: *mut quorlock_lock_options_t, owner_thread: bool,
) -> i32 {
    boundary!(ptr::null_mut(), {
        let options = handle::borrow_mut(options, "options")?;
        options.0.set(
            Location::caller(),
            || Ok(owner_thread),
            |made, owned| {
                made.own |= owned;
                made.steps.push(Box::new(move |lock| lock.owned_by_threads(owned)));
            },
        )
    })
}
