//! Who holds a lock, as the nodes have it; and taking it away from them.

use std::ffi::{CString, c_char};
use std::ptr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorlock_core::binding::LazyValue;
use quorlock_core::{Error, Forced, Holder, Inspection, NodeView, Verdict};

use crate::error::{Names, c_text, name_in, quorlock_error_t};
use crate::handle::{self, Handle, wait};
use crate::lock::quorlock_lock_t;

/// A quorum has the vote of one holder.
pub const QUORLOCK_VERDICT_HELD: i32 = 1;
/// A quorum keeps it taken for a lease that was released: see
/// quorlock_lock_options_set_keep().
pub const QUORLOCK_VERDICT_KEPT: i32 = 2;
/// A quorum has no vote for any holder.
pub const QUORLOCK_VERDICT_FREE: i32 = 3;
/// A quorum has answered and does not agree: a client is about to win it, or to give
/// it up, or has lost nodes.
pub const QUORLOCK_VERDICT_SPLIT: i32 = 4;
/// Fewer than a quorum have answered, but for nodes that may have lost what they had.
pub const QUORLOCK_VERDICT_UNKNOWN: i32 = 5;

/// As the fence of quorlock_lock_force_release(): that of any holder.
pub const QUORLOCK_ANY_FENCE: u64 = u64::MAX;

/// What the nodes have of a lock, and what follows from that. It tells how it was:
/// a program that wants to act on a lock has to acquire it. Free it with
/// quorlock_inspection_free(). Its texts are UTF-8, end with NUL, and live as long
/// as it does.
pub struct quorlock_inspection_t {
    verdict: i32,
    holder: HolderTexts,
    fence: u64,
    queued: u32,
    nodes: Vec<NodeTexts>,
    slots_held: u32,
    slots: Vec<Inspection>,
}

impl Handle for quorlock_inspection_t {
    const PLAIN: bool = true;
}

/// Who holds a lock, or keeps it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct quorlock_holder_t {
    /// The label of its client. NULL where it has none, or is a client of another
    /// library.
    pub label: *const c_char,
    /// How many nodes have its vote; 0: it has no holder.
    pub votes: u64,
    /// For how many more milliseconds a quorum of these votes lasts, unless they are
    /// renewed; -1: they have no end.
    pub left_ms: i64,
    /// When it asked for the lock, by the nodes' clocks, in milliseconds since the
    /// epoch; 0 where that is not known.
    pub since_ms: i64,
    /// The fence of its hold, also where others have asked for the lock in vain since; 0 for
    /// none. Of a lease that was passed on within its client, or won where nodes had counted
    /// differently far, from its next renewal on. Of readers, and of a holder that is known to
    /// no node by its fence, the largest that a node has counted, which is never less than the
    /// holder's.
    pub fence: u64,
}

/// What one node has of a lock.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct quorlock_node_view_t {
    /// The node, as in errors.
    pub node: *const c_char,
    /// What stands there, as a word: "held", "shared" (by readers), "kept", "free",
    /// "reserved" (free, and kept for a waiter that was called), "foreign" (of another
    /// library, or of none), "unknown".
    pub state: *const c_char,
    /// The label of the holder that has the vote. NULL for none.
    pub label: *const c_char,
    /// Why it did not say. NULL where it did.
    pub error: *const c_char,
    /// For how many more milliseconds that lasts; -1: without an end, or not known.
    pub left_ms: i64,
    /// The last fence that the node has counted, for the client that asked last; 0 for none.
    pub fence: u64,
    /// How many wait in its queue.
    pub queued: u64,
    /// For how many more milliseconds it gives no vote, for it may have lost its memory.
    pub quarantine_ms: i64,
}

/// The text of a holder, and its numbers.
pub(crate) struct HolderTexts {
    label: Option<CString>,
    votes: u64,
    left_ms: i64,
    since_ms: i64,
    fence: u64,
}

/// The texts of a node, and its numbers.
struct NodeTexts {
    node: CString,
    state: CString,
    label: Option<CString>,
    error: Option<CString>,
    left_ms: i64,
    fence: u64,
    queued: u64,
    quarantine_ms: i64,
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn epoch(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, millis)
}

fn text(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(ptr::null(), |text| text.as_ptr())
}

impl NodeTexts {
    fn of(view: &NodeView) -> NodeTexts {
        NodeTexts {
            node: c_text(view.node()),
            state: c_text(view.state()),
            label: view.label().map(c_text),
            error: view.error().map(c_text),
            left_ms: view.left().map_or(-1, millis),
            fence: view.fence().unwrap_or(0),
            queued: view.queued().into(),
            quarantine_ms: millis(view.quarantine()),
        }
    }
}

impl HolderTexts {
    pub(crate) fn of(holder: Option<&Holder>) -> HolderTexts {
        HolderTexts {
            label: holder.and_then(Holder::label).map(c_text),
            votes: holder.map_or(0, |holder| holder.votes() as u64),
            left_ms: holder.map_or(0, |holder| holder.left().map_or(-1, millis)),
            since_ms: holder.and_then(Holder::since).map_or(0, epoch),
            fence: holder.and_then(Holder::fence).unwrap_or(0),
        }
    }

    /// Tells C, as far as it has room. The label lives as long as this does.
    pub(crate) fn tell(&self, holder: *mut quorlock_holder_t, size: usize) -> Result<(), Error> {
        let known = quorlock_holder_t {
            label: text(&self.label),
            votes: self.votes,
            left_ms: self.left_ms,
            since_ms: self.since_ms,
            fence: self.fence,
        };
        handle::fill(holder, "holder", size, &known)
    }
}

impl quorlock_inspection_t {
    fn of(found: &Inspection) -> quorlock_inspection_t {
        quorlock_inspection_t {
            verdict: found.verdict().number(),
            holder: HolderTexts::of(found.holder()),
            fence: found.fence().unwrap_or(0),
            queued: found.queued(),
            nodes: found.nodes().iter().map(NodeTexts::of).collect(),
            slots_held: found.slots_held(),
            slots: found.slots().to_vec(),
        }
    }
}

/// Reports who holds a lock, without acquiring it: one request to each node, at most
/// the node timeout, which waits for the first connections as the connect timeout says.
/// That nodes do not answer is no error, but part of the result.
///
/// Fails with #QUORLOCK_CLOSED, #QUORLOCK_FORKED, #QUORLOCK_INVALID_ARGUMENT.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_inspect(
    lock: *const quorlock_lock_t, inspection: *mut *mut quorlock_inspection_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(inspection, "inspection")?;
        let lock = handle::share(lock, "lock")?;
        let found = wait(async move { lock.inspect().await })?;
        handle::give(inspection, "inspection", quorlock_inspection_t::of(&found))
    })
}

/// Whether any client holds the lock, or keeps it, or is about to; not whether this
/// process does.
///
/// Fails as quorlock_lock_inspect(), and with #QUORLOCK_QUORUM_UNAVAILABLE where too
/// few nodes answered.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_is_locked(
    lock: *const quorlock_lock_t, locked: *mut bool, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(locked, "locked")?;
        let lock = handle::share(lock, "lock")?;
        let held = wait(async move { lock.is_locked().await })?;
        handle::put(locked, "locked", held)
    })
}

/// Takes the lock away from its holder, or from what keeps it, for an operator: deletes the
/// vote on all nodes, whatever client or library put it there, and calls the next waiter.
/// Two requests to each node, each at most the node timeout; where so many nodes do not
/// answer, or had no vote, that a request of the holder's which is under way might restore
/// a quorum, a third after twice that. A lock without a holder is no error. `freed`, if not
/// NULL, receives how many votes were taken away, 0 where nothing was there any more;
/// `found`, if not NULL, how the lock stood before, to be freed with
/// quorlock_inspection_free().
///
/// The holder learns it at its next renewal, at most about a third of its ttl later, or
/// when it extends: its lease is lost, #QUORLOCK_LEASE_FORCED, or
/// #QUORLOCK_LEASE_REFUSED where another has taken the lock meanwhile. A lease that is not
/// renewed learns nothing before its end. Until then two may work, and their fences tell
/// them apart.
///
/// `fence` is #QUORLOCK_ANY_FENCE for any holder, else that of the lease that is to go, or
/// what quorlock_inspection_holder() tells: then only from the hold that has it, so that
/// a holder that has got the lock since is never hit. 0, which a lease without fences has, is
/// refused. Of a semaphore all slots are taken away, and `fence` has to be
/// #QUORLOCK_ANY_FENCE.
///
/// Fails with #QUORLOCK_CONTENDED if the lock is held, and not by `fence` for certain, and
/// nothing is changed; #QUORLOCK_QUORUM_UNAVAILABLE if too few nodes answer: some may have
/// done it then, and calling again completes it; #QUORLOCK_MISCONFIGURED where the lock's
/// key is no string; #QUORLOCK_CLOSED, #QUORLOCK_FORKED, #QUORLOCK_INVALID_ARGUMENT.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_force_release(
    lock: *const quorlock_lock_t, fence: u64, freed: *mut u64, found: *mut *mut quorlock_inspection_t,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let fence = (fence != QUORLOCK_ANY_FENCE).then_some(fence);
        let lock = handle::share(lock, "lock")?;
        let forced = wait(async move { lock.force_release(fence).await })?;
        tell(&forced, freed, found)
    })
}

/// Takes one slot of a semaphore, counted from 0, away from its holder, as
/// quorlock_lock_force_release() does a lock.
///
/// Fails as that, and with #QUORLOCK_INVALID_ARGUMENT where it is no semaphore, or has no
/// such slot.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_force_release_slot(
    lock: *const quorlock_lock_t, slot: u32, fence: u64, freed: *mut u64, found: *mut *mut quorlock_inspection_t,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let fence = (fence != QUORLOCK_ANY_FENCE).then_some(fence);
        let lock = handle::share(lock, "lock")?;
        let forced = wait(async move { lock.force_release_slot(slot, fence).await })?;
        tell(&forced, freed, found)
    })
}

fn tell(forced: &Forced, freed: *mut u64, found: *mut *mut quorlock_inspection_t) -> Result<(), Error> {
    if !freed.is_null() {
        handle::put(freed, "freed", forced.freed() as u64)?;
    }
    if found.is_null() { Ok(()) } else { handle::give(found, "found", quorlock_inspection_t::of(forced.found())) }
}

/// Waits until the lock is free, or a slot of a semaphore is, and takes nothing: `free`
/// receives whether it was so before so many milliseconds were over, or #QUORLOCK_FOREVER.
/// Another may have it a moment later: to have it, acquire it. It is looked at again
/// and again, every 50 to 500 ms.
///
/// Fails as quorlock_lock_is_locked().
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_wait_until_free(
    lock: *const quorlock_lock_t, wait_ms: i64, free: *mut bool, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(free, "free")?;
        let at_most = handle::limit(wait_ms, "wait")?;
        let lock = handle::share(lock, "lock")?;
        let found = wait(async move { lock.wait_until_free(at_most).await })?;
        handle::put(free, "free", found)
    })
}

/// What follows from the answers: #QUORLOCK_VERDICT_HELD and so on. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_inspection_verdict(inspection: *const quorlock_inspection_t) -> i32 {
    boundary!(or 0, { Ok(handle::borrow(&inspection, "inspection")?.verdict) })
}

/// A verdict as a word, such as "held". NULL for any other number. The text lives as
/// long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_verdict_name(verdict: i32) -> *const c_char {
    static NAMES: LazyValue<Names> =
        LazyValue::new(|| Verdict::ALL.iter().map(|v| (v.number(), c_text(v.as_str()))).collect());
    boundary!(or ptr::null(), { Ok(name_in(&NAMES, verdict)) })
}

/// Who holds the lock, or keeps it. `size` is sizeof(quorlock_holder_t): a later
/// version has more at the end, and fills in as much as there is room for.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_inspection_holder(
    inspection: *const quorlock_inspection_t, holder: *mut quorlock_holder_t, size: usize,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, { handle::borrow(&inspection, "inspection")?.holder.tell(holder, size) })
}

/// The largest fence that a node has counted, for the holder, or for a client that asked in
/// vain since: the holder's own is its `fence`. 0 for none.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_inspection_fence(inspection: *const quorlock_inspection_t) -> u64 {
    boundary!(or 0, { Ok(handle::borrow(&inspection, "inspection")?.fence) })
}

/// How many wait in the queue of the lock: one for each client that waits.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_inspection_queued(inspection: *const quorlock_inspection_t) -> u32 {
    boundary!(or 0, { Ok(handle::borrow(&inspection, "inspection")?.queued) })
}

/// How many nodes the client has.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_inspection_node_count(inspection: *const quorlock_inspection_t) -> usize {
    boundary!(or 0, { Ok(handle::borrow(&inspection, "inspection")?.nodes.len()) })
}

/// What one node has, `index` counting from 0 in the order of the node list. `size` is
/// sizeof(quorlock_node_view_t), as above.
///
/// Fails with #QUORLOCK_INVALID_ARGUMENT for an index beyond the last.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_inspection_node(
    inspection: *const quorlock_inspection_t, index: usize, view: *mut quorlock_node_view_t, size: usize,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let nodes = &handle::borrow(&inspection, "inspection")?.nodes;
        let Some(found) = nodes.get(index) else {
            return Err(handle::invalid(format!("index is {index}: there are {} nodes", nodes.len())));
        };
        let known = quorlock_node_view_t {
            node: found.node.as_ptr(),
            state: found.state.as_ptr(),
            label: text(&found.label),
            error: text(&found.error),
            left_ms: found.left_ms,
            fence: found.fence,
            queued: found.queued,
            quarantine_ms: found.quarantine_ms,
        };
        handle::fill(view, "view", size, &known)
    })
}

/// How many slots are held, of the semaphore that was looked at. Of a lock that is free: of a
/// semaphore that has its name, which is another matter, and may be what was meant.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_inspection_slots_held(inspection: *const quorlock_inspection_t) -> u32 {
    boundary!(or 0, { Ok(handle::borrow(&inspection, "inspection")?.slots_held) })
}

/// How many slots the semaphore has that was looked at; 0 of a lock. A semaphore is free
/// where a slot of it is, and has no holder of its own.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_inspection_slot_count(inspection: *const quorlock_inspection_t) -> usize {
    boundary!(or 0, { Ok(handle::borrow(&inspection, "inspection")?.slots.len()) })
}

/// The slot of that number, counted from 0, as an inspection of its own, to be freed with
/// quorlock_inspection_free().
///
/// Fails with #QUORLOCK_INVALID_ARGUMENT for a number beyond the last.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_inspection_slot(
    inspection: *const quorlock_inspection_t, slot: usize, found: *mut *mut quorlock_inspection_t,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(found, "found")?;
        let slots = &handle::borrow(&inspection, "inspection")?.slots;
        let Some(one) = slots.get(slot) else {
            return Err(handle::invalid(format!("slot is {slot}: there are {} slots", slots.len())));
        };
        handle::give(found, "found", quorlock_inspection_t::of(one))
    })
}

/// Frees an inspection. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_inspection_free(inspection: *mut quorlock_inspection_t) {
    boundary!({ handle::free(inspection) });
}
