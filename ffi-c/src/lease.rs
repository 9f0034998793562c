//! The lease: what acquiring gives.

use std::ffi::{CString, c_char, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use quorlock_core::binding::{LazyValue, Mask, lock};
use quorlock_core::{Error, ErrorKind, Lease, LossReason};

use crate::callback::{Callback, LossSlot, tell_loss};
use crate::error::{Names, c_text, name_in, quorlock_error_t};
use crate::handle::{self, Handle, Shareable, wait};
use crate::queue::{News, Queue, quorlock_queue_t, shared};
use crate::time::QUORLOCK_DEFAULT;

/// It is valid.
pub const QUORLOCK_LEASE_HELD: i32 = 0;
// Made from core/vocabulary.toml: reasons.
/// Lost: its validity ended before it was renewed: not renewed at all, or too few nodes
/// could be reached.
pub const QUORLOCK_LEASE_EXPIRED: i32 = 1;
/// Lost: nodes answered that the lock is another's: deleted, or lost in a restart, and
/// taken since.
pub const QUORLOCK_LEASE_REFUSED: i32 = 2;
/// Lost: it reached max_hold.
pub const QUORLOCK_LEASE_MAX_HOLD: i32 = 3;
/// Lost: the thread that owned it ended without releasing it.
pub const QUORLOCK_LEASE_OWNER_GONE: i32 = 4;
/// Lost: its client was closed.
pub const QUORLOCK_LEASE_CLOSED: i32 = 5;
/// Lost: an operator took the lock away by force.
pub const QUORLOCK_LEASE_FORCED: i32 = 6;
// End of what is made.
/// It was released.
pub const QUORLOCK_LEASE_RELEASED: i32 = -1;
/// There is none: NULL, or a lease of the process that this one was forked from.
pub const QUORLOCK_LEASE_NONE: i32 = -2;

/// Called once when a lease is lost, on a thread of Quorlock's own for such
/// calls, where it may block: that holds up no renewal and no callback of another
/// lease, unless 64 of them block at one time. Callbacks may run at the same time,
/// on different threads: what they share needs a lock of yours. `state` is one of
/// #QUORLOCK_LEASE_EXPIRED to #QUORLOCK_LEASE_FORCED. It must not throw. It may
/// free the lease. It runs under the signal mask of the thread that set it, and so do
/// programs that it starts. To free another lease waits for a callback of that which runs:
/// so hold no lock then that the other callback takes.
pub type quorlock_lost_callback_t = Option<unsafe extern "C" fn(userdata: *mut c_void, state: i32)>;

/// A hold on a lock. Valid until released or lost; renewed in the background,
/// unless its lock says otherwise. May be used by all threads at once.
pub struct quorlock_lease_t {
    /// Dropped first: the callbacks are over before the release begins.
    on_loss: LossCallbacks,
    /// Shared with the calls under way, which may outlive the handle.
    pub(crate) lease: Arc<Lease>,
}

impl quorlock_lease_t {
    pub(crate) fn new(lease: Lease) -> quorlock_lease_t {
        quorlock_lease_t::shared(Arc::new(lease))
    }

    pub(crate) fn shared(lease: Arc<Lease>) -> quorlock_lease_t {
        quorlock_lease_t { lease, on_loss: LossCallbacks::default() }
    }
}

/// The two callbacks that a lease may have, or several leases together: both are called.
#[derive(Default)]
pub(crate) struct LossCallbacks {
    /// For what uses the lease.
    pub(crate) user: Arc<LossCallback>,
    /// For what stops the work itself, on a thread of the library's.
    pub(crate) stop: Arc<LossCallback>,
}

impl Drop for LossCallbacks {
    fn drop(&mut self) {
        self.user.close();
        self.stop.close();
    }
}

/// Where the loss of one lease arrives, or the first of several.
pub(crate) struct LossCallback {
    /// None once the lease is freed.
    target: Mutex<Option<LossTarget>>,
    /// Whether the core will call [`LossCallback::arrive`].
    is_expected: AtomicBool,
}

/// One callback and where it is called, so that a loss that is on its way there finds that callback or none.
#[derive(Clone, Default)]
struct LossTarget {
    slot: Arc<LossSlot>,
    /// None where no callback was ever given.
    route: Option<Route>,
}

/// How a loss comes to the callback.
#[derive(Clone)]
enum Route {
    /// On a thread of the library's, under the mask of the thread that gave the callback.
    Thread(Mask),
    /// A lease keeps no queue alive.
    Queue(Weak<Queue>),
}

impl Default for LossCallback {
    fn default() -> LossCallback {
        LossCallback { target: Mutex::new(Some(LossTarget::default())), is_expected: AtomicBool::new(false) }
    }
}

impl LossCallback {
    fn target(&self) -> Option<LossTarget> {
        lock(&self.target).clone()
    }

    /// Calls the callback on this thread, if there is one still. Returns whether it was called.
    pub(crate) fn tell(&self, state: i32) -> bool {
        self.target().is_some_and(|target| tell_loss(&target.slot, state))
    }

    /// Takes a callback, or NULL for none, and the queue by which it is called. `await_loss`
    /// has the core call [`LossCallback::arrive`] at the loss.
    pub(crate) fn set(
        self: &Arc<LossCallback>, queue: *const quorlock_queue_t, userdata: *mut c_void,
        callback: quorlock_lost_callback_t, await_loss: impl FnOnce(Arc<LossCallback>),
    ) -> Result<(), Error> {
        let route = match shared(queue)? {
            Some(queue) => Route::Queue(Arc::downgrade(&queue)),
            None => Route::Thread(Mask::here()),
        };
        let target = LossTarget { slot: Arc::default(), route: Some(route) };
        target.slot.set(callback.map(|function| Callback { function, userdata }));
        // The callback before is over first, so that the two never run at one time.
        self.forget();
        let before = match &mut *lock(&self.target) {
            Some(current) => mem::replace(current, target),
            None => return Ok(()),
        };
        // Another thread may have set it meanwhile.
        before.slot.set(None);
        if callback.is_some() && !self.is_expected.swap(true, Ordering::AcqRel) {
            await_loss(self.clone());
        }
        Ok(())
    }

    /// Takes the callback back: when this returns, it is over.
    pub(crate) fn forget(&self) {
        if let Some(target) = self.target() {
            target.slot.set(None);
        }
    }

    /// The same for good, where the lease is freed: a call that is about to set another callback
    /// may go on after that.
    fn close(&self) {
        let last = lock(&self.target).take();
        if let Some(target) = last {
            target.slot.set(None);
        }
    }

    /// Where the core has found the loss out: on a thread of the library's.
    pub(crate) fn arrive(self: Arc<LossCallback>, state: i32) {
        // First, so that a callback set from here on asks again.
        self.is_expected.store(false, Ordering::Release);
        let Some(LossTarget { slot, route: Some(route) }) = self.target() else { return };
        match route {
            // A queue that was freed calls nothing any more.
            Route::Queue(queue) => {
                if let Some(queue) = queue.upgrade() {
                    queue.news.push(News::Lost(slot, state));
                }
            }
            Route::Thread(mask) => drop(mask.over(|| tell_loss(&slot, state))),
        }
    }
}

impl Handle for quorlock_lease_t {}

impl Shareable for quorlock_lease_t {
    type Share = Arc<Lease>;

    fn share(&self) -> Arc<Lease> {
        self.lease.clone()
    }
}

/// What is to be released; nothing of a forked child's, which a release that waits for no answer leaves
/// alone.
pub(crate) fn to_release<H: Shareable>(handle: *const H, name: &str, confirm: bool) -> Result<Option<H::Share>, Error> {
    match handle::share(handle, name) {
        Err(error) if !confirm && error.kind() == ErrorKind::Forked => Ok(None),
        shared => shared.map(Some),
    }
}

/// Tells C whether the lock was held, if it wants to know.
pub(crate) fn tell(was_held: *mut bool, held: bool) -> Result<(), Error> {
    if was_held.is_null() { Ok(()) } else { handle::put(was_held, "was_held", held) }
}

/// Releases a lease; the last one of its owner frees the lock. Frees no memory.
/// `was_held` may be NULL and tells whether the lock was still held; a second
/// call says false. Of a lock with keep true means that a quorum of nodes keeps it
/// taken. False with a warning in the log: too few do, or nodes refuse the release
/// for a missing permission. The lease ends at once, before the first byte is sent; the
/// call returns when a quorum of nodes has carried the release out, at most
/// after the node timeout. Never fails for a loss.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_unlock(
    lease: *const quorlock_lease_t, was_held: *mut bool, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let lease = handle::share(lease, "lease")?;
        tell(was_held, wait(async move { lease.release().await })?)
    })
}

/// As quorlock_unlock(), whatever the options of the lock say of quorlock_lock_options_set_confirm().
/// Without `confirm` it waits for no answer of the nodes, and `was_held` tells whether the lease
/// was valid here until now: for a lock of which nothing is decided by the answer. What is sent is
/// waited for by quorlock_client_close() and the end of the process, as of any release. Nothing
/// reports that nodes refuse it.
///
/// Without `confirm` it fails with #QUORLOCK_INVALID_ARGUMENT of a lock with keep, whose lease
/// stays held, and for nothing else: in a forked child it says false.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_unlock_with(
    lease: *const quorlock_lease_t, confirm: bool, was_held: *mut bool, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        tell(
            was_held,
            match to_release(lease, "lease", confirm)? {
                Some(lease) if confirm => wait(async move { lease.release_confirmed().await })?,
                Some(lease) => lease.release_unconfirmed()?,
                None => false,
            },
        )
    })
}

/// Frees a lease, and releases it in the background if that was not done. NULL
/// is allowed. When it returns, the loss callback is over and will not be called
/// any more; called by that callback itself, this does not wait for it. A call on the
/// lease that another thread has under way goes on, and the lease is released after it.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_free(lease: *mut quorlock_lease_t) {
    boundary!({ handle::free(lease) });
}

/// The state of a lease: #QUORLOCK_LEASE_HELD, why it was lost (a number
/// above 0), or #QUORLOCK_LEASE_RELEASED, #QUORLOCK_LEASE_NONE.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_state(lease: *const quorlock_lease_t) -> i32 {
    boundary!(or QUORLOCK_LEASE_NONE, {
        let lease = &handle::borrow(&lease, "lease")?.lease;
        Ok(match lease.loss() {
            Some(reason) => reason.number(),
            None if lease.is_held() => QUORLOCK_LEASE_HELD,
            // It may have been lost since.
            None => lease.loss().map_or(QUORLOCK_LEASE_RELEASED, LossReason::number),
        })
    })
}

/// The name of a state: "held", "released", "none", or why a lease was lost, such
/// as "owner_gone"; NULL for a number that is no state. The text lives as long as
/// the library.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_state_name(state: i32) -> *const c_char {
    static NAMES: LazyValue<Names> = LazyValue::new(|| {
        let named = |reason: LossReason| (reason.number(), c_text(reason.as_str()));
        let others =
            [(QUORLOCK_LEASE_HELD, "held"), (QUORLOCK_LEASE_RELEASED, "released"), (QUORLOCK_LEASE_NONE, "none")];
        let others = others.map(|(state, name)| (state, c_text(name)));
        LossReason::ALL.iter().copied().map(named).chain(others).collect()
    });
    boundary!(or ptr::null(), { Ok(name_in(&NAMES, state)) })
}

/// Whether the lease is valid now. Exact at every call. False for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_is_held(lease: *const quorlock_lease_t) -> bool {
    boundary!(or false, { Ok(handle::borrow(&lease, "lease")?.lease.is_held()) })
}

/// Validity left before the next renewal, rounded down; 0 when the lease is over.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_remaining_ms(lease: *const quorlock_lease_t) -> i64 {
    boundary!(or 0, {
        let left = handle::borrow(&lease, "lease")?.lease.remaining();
        Ok(i64::try_from(left.as_millis()).unwrap_or(i64::MAX))
    })
}

/// The fencing token: grows with every hold of the same lock, is above 0 and below
/// 2^53, and the same in every re-entry, also after the lease has ended. 0 if the
/// lock has none; for NULL, too, and in a forked child. Give it to the resource
/// that the lock protects, which then refuses what comes with a smaller one: so
/// work that outlives its lease does no harm.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_fence(lease: *const quorlock_lease_t) -> u64 {
    boundary!(or 0, { Ok(handle::borrow(&lease, "lease")?.lease.fence().unwrap_or(0)) })
}

/// Lengthens the lease to `ttl_ms` from now, to its own ttl with
/// #QUORLOCK_DEFAULT; never shortens it.
///
/// Fails with #QUORLOCK_LOCK_LOST; #QUORLOCK_QUORUM_UNAVAILABLE if too few nodes
/// answered: it is then valid as long as it was; #QUORLOCK_NOT_OWNER after a
/// release; #QUORLOCK_INVALID_ARGUMENT above max_ttl.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_extend(
    lease: *const quorlock_lease_t, ttl_ms: i64, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let ttl = (ttl_ms != QUORLOCK_DEFAULT).then(|| handle::millis(ttl_ms, "ttl")).transpose()?;
        let lease = handle::share(lease, "lease")?;
        wait(async move { lease.extend(ttl).await })
    })
}

/// Which slot of a semaphore the lease has, counted from 0; -1 of a lock. No two leases that
/// are held at one time have the same. The fence grows with every hold of one slot; between
/// slots it says nothing.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_slot(lease: *const quorlock_lease_t) -> i32 {
    boundary!(or - 1, { Ok(handle::borrow(&lease, "lease")?.lease.slot().map_or(-1, |slot| slot as i32)) })
}

/// Whether others may share the lock with the lease: it was asked for so, see
/// quorlock_lock_options_set_shared(), or has been downgraded.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_is_shared(lease: *const quorlock_lease_t) -> bool {
    boundary!(or false, { Ok(handle::borrow(&lease, "lease")?.lease.is_shared()) })
}

/// Shares the lease from now on with others that ask to share the lock, and calls those
/// that wait for that. It keeps its fence. Waits until a quorum of the nodes lets them in.
///
/// Fails with #QUORLOCK_LOCK_LOST; #QUORLOCK_NOT_OWNER after a release;
/// #QUORLOCK_QUORUM_UNAVAILABLE if too few nodes answered: it is shared and held all the
/// same; #QUORLOCK_INVALID_ARGUMENT of a raw lock, which stays as it is.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_downgrade(lease: *const quorlock_lease_t, error: *mut *mut quorlock_error_t) -> i32 {
    boundary!(error, {
        let lease = handle::share(lease, "lease")?;
        wait(async move { lease.downgrade().await })
    })
}

/// Ends the lease here without releasing the lock, and makes a text with which one other
/// client of the same nodes goes on: by quorlock_client_adopt() or its like, in another
/// process, in another language, on another host. Free the text with quorlock_text_free().
///
/// The lease is lengthened to its full ttl first. Then it is over here, and is not renewed:
/// adopt it within the ttl, or for as long as it was extended beyond that, else the lock is
/// free. Until then a loss could not be noticed, so leave alone what the lock protects. The text
/// is a secret: a program that has it can take the lock.
///
/// Fails with #QUORLOCK_LOCK_LOST; #QUORLOCK_NOT_OWNER after a release;
/// #QUORLOCK_QUORUM_UNAVAILABLE if too few nodes answered to lengthen it: then it is held here
/// as before, as it is after #QUORLOCK_INVALID_ARGUMENT, where it was acquired more than once by
/// its owner, is shared, or its lock is kept.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_export(
    lease: *const quorlock_lease_t, text: *mut *mut c_char, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(text, "text")?;
        let lease = handle::share(lease, "lease")?;
        let exported = wait(async move { lease.export().await })?;
        handle::put(text, "text", CString::new(exported).unwrap_or_default().into_raw())
    })
}

/// Makes sure that at least `min_ms` of validity is left, extending the lease if
/// it is not. Call it right before a step that takes so long. Fails as
/// quorlock_lease_extend().
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_ensure(
    lease: *const quorlock_lease_t, min_ms: i64, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let lease = handle::share(lease, "lease")?;
        let min = handle::millis(min_ms, "ensure")?;
        wait(async move { lease.ensure(min).await })
    })
}

/// Has `callback` called when the lease is lost, or soon if it was lost before;
/// NULL for no callback. When it returns, a callback set before is over and will
/// not be called any more; called by that callback itself, this does not wait
/// for it.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_set_lost_callback(
    lease: *const quorlock_lease_t, userdata: *mut c_void, callback: quorlock_lost_callback_t,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    quorlock_lease_set_lost_callback_on(lease, ptr::null(), userdata, callback, error)
}

/// As quorlock_lease_set_lost_callback(), but the callback is called by
/// quorlock_queue_dispatch() of `queue`; NULL for a thread of the library's. It is over, and
/// comes no more, when the queue or the lease is freed, also where the loss is in the queue
/// already.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_set_lost_callback_on(
    lease: *const quorlock_lease_t, queue: *const quorlock_queue_t, userdata: *mut c_void,
    callback: quorlock_lost_callback_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let lent = handle::borrow(&lease, "lease")?;
        // Shares of its own: this waits for the callback before, which may free the lease.
        let (lease, user) = (lent.lease.clone(), lent.on_loss.user.clone());
        user.set(queue, userdata, callback, |user| {
            lease.on_lost(move |reason| user.clone().arrive(reason.number()));
        })
    })
}

/// Has `callback` called at the loss as well, beside that of
/// quorlock_lease_set_lost_callback(): both are called. For what stops the work itself, as
/// std::stop_token does, while the other is left to the code that uses the lease. Always on a thread
/// of the library's for callbacks; neither waits for the other. In all else as that.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_set_stop_callback(
    lease: *const quorlock_lease_t, userdata: *mut c_void, callback: quorlock_lost_callback_t,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let lent = handle::borrow(&lease, "lease")?;
        let (lease, stop) = (lent.lease.clone(), lent.on_loss.stop.clone());
        stop.set(ptr::null(), userdata, callback, |stop| {
            lease.on_lost(move |reason| stop.clone().arrive(reason.number()));
        })
    })
}
