//! Several locks at once: all of them, or none.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;

use quorlock_core::{Error, Leases, Lock, Locks};

use crate::cancel::{quorlock_cancel_t, unless_used};
use crate::client::quorlock_client_t;
use crate::error::quorlock_error_t;
use crate::handle::{self, Handle, Shareable, wait};
use crate::lease::{
    LossCallbacks, QUORLOCK_LEASE_HELD, QUORLOCK_LEASE_NONE, QUORLOCK_LEASE_RELEASED, quorlock_lost_callback_t, tell,
    to_release,
};
use crate::lock_options::quorlock_lock_options_t;
use crate::queue::quorlock_queue_t;
use crate::time::QUORLOCK_DEFAULT;

/// Several names with the same options, to be held together; holds nothing. May be used by
/// all threads at once, as quorlock_lock_t.
pub struct quorlock_locks_t(pub(crate) Vec<Lock>);

impl Handle for quorlock_locks_t {
    fn starts_anew(&self) -> bool {
        self.0.iter().all(Lock::is_ours)
    }
}

impl Shareable for quorlock_locks_t {
    type Share = Vec<Lock>;

    fn share(&self) -> Vec<Lock> {
        self.0.clone()
    }
}

/// Holds on several locks that were acquired together. They are held while each of them
/// is. The loss of one is the loss of all: the work that needs them has to stop. Those that
/// are not lost stay held until they are released, so that no other client comes in while it
/// stops. May be used by all threads at once.
pub struct quorlock_leases_t {
    /// Dropped first: the callbacks are over before the release begins.
    on_loss: LossCallbacks,
    /// Shared with the calls under way, which may outlive the handle.
    pub(crate) leases: Arc<Leases>,
}

impl quorlock_leases_t {
    pub(crate) fn new(leases: Leases) -> quorlock_leases_t {
        quorlock_leases_t { leases: Arc::new(leases), on_loss: LossCallbacks::default() }
    }
}

impl Handle for quorlock_leases_t {}

impl Shareable for quorlock_leases_t {
    type Share = Arc<Leases>;

    fn share(&self) -> Arc<Leases> {
        self.leases.clone()
    }
}

/// A name of a lock, for C: its bytes, and how many they are.
fn lent(name: Option<&[u8]>, len: *mut usize) -> Result<*const c_char, Error> {
    handle::put(len, "len", name.map_or(0, <[u8]>::len))?;
    Ok(name.map_or(ptr::null(), |name| name.as_ptr().cast()))
}

/// Makes several locks, for quorlock_lock_all(): `count` names, each as of
/// quorlock_lock_new(), with `lens[i]` bytes at `names[i]`. In any order: they are taken in
/// an order that is the same in all programs. 1 to 16 that differ; a name that is given twice is
/// held once. `options` may be NULL for the client's, and freed afterwards.
///
/// Fails with #QUORLOCK_INVALID_ARGUMENT, naming the value and what to give.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_locks_new(
    client: *const quorlock_client_t, names: *const *const c_char, lens: *const usize, count: usize,
    options: *const quorlock_lock_options_t, locks: *mut *mut quorlock_locks_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(locks, "locks")?;
        let client = handle::borrow(&client, "client")?;
        let options = handle::maybe(&options, "options")?;
        let (names, lens) = (handle::items(names, count, "names")?, handle::items(lens, count, "lens")?);
        let mut named = Vec::with_capacity(count);
        for (name, len) in names.iter().zip(lens) {
            let lock = client.0.lock(handle::bytes(*name, *len, "name")?);
            named.push(match options {
                Some(options) => options.apply(lock)?,
                None => lock,
            });
        }
        Locks::of(named.clone()).check()?;
        handle::give(locks, "locks", quorlock_locks_t(named))
    })
}

/// Frees locks. NULL is allowed. Their leases stay.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_locks_free(locks: *mut quorlock_locks_t) {
    boundary!({ handle::free(locks) });
}

/// Acquires all of the locks, or none, waiting at most `wait_ms` for all of them together;
/// `wait_ms` and `cancel` as of quorlock_lock(). Calls that ask for the same names in any
/// order, in whatever language, do not wait for each other in a ring. While it waits it
/// holds those that come before the one it waits for, and the others are free to all callers.
///
/// A lock that the owner holds already is entered again. A caller that holds a lock of another
/// call, and waits here, can be in a ring with a caller that does the same the other way round:
/// the ring ends with the wait, and a warning in the log names both.
///
/// Fails as quorlock_lock(), of the first lock that could not be had, which the error
/// names: see quorlock_error_lock_name(). Nothing is held then, and no key stays behind.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_all(
    locks: *const quorlock_locks_t, wait_ms: i64, cancel: *const quorlock_cancel_t,
    leases: *mut *mut quorlock_leases_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(leases, "leases")?;
        let asked = handle::share(locks, "locks")?;
        // Each of them for the same owner, which may hold some already.
        let mut asked = Locks::of(asked.into_iter().map(Lock::of_this_thread).collect());
        if wait_ms != QUORLOCK_DEFAULT {
            asked = asked.wait(handle::limit(wait_ms, "wait")?);
        }
        let won = wait(unless_used(handle::maybe(&cancel, "cancel")?, async move { asked.win().await }))?;
        handle::give(leases, "leases", quorlock_leases_t::new(won.delivered()?))
    })
}

/// Acquires all of the locks if they are free: quorlock_lock_all() with a wait of 0.
/// #QUORLOCK_CONTENDED says that another holds one of them, and nothing else.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_try_lock_all(
    locks: *const quorlock_locks_t, leases: *mut *mut quorlock_leases_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    quorlock_lock_all(locks, 0, ptr::null(), leases, error)
}

/// Releases all of the leases, at the same time; as quorlock_unlock(). `was_held` may be
/// NULL and tells whether every one was still held; a second call says false.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_unlock_all(
    leases: *const quorlock_leases_t, was_held: *mut bool, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let leases = handle::share(leases, "leases")?;
        tell(was_held, wait(async move { leases.release().await })?)
    })
}

/// As quorlock_unlock_with() for all of the leases, at the same time: `was_held` tells whether every
/// one was held. Where one of the locks has keep all stay held.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_unlock_all_with(
    leases: *const quorlock_leases_t, confirm: bool, was_held: *mut bool, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        tell(
            was_held,
            match to_release(leases, "leases", confirm)? {
                Some(leases) if confirm => wait(async move { leases.release_confirmed().await })?,
                Some(leases) => leases.release_unconfirmed()?,
                None => false,
            },
        )
    })
}

/// Frees leases, and releases them in the background if that was not done. NULL is
/// allowed; as quorlock_lease_free().
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leases_free(leases: *mut quorlock_leases_t) {
    boundary!({ handle::free(leases) });
}

/// The state of the leases: #QUORLOCK_LEASE_HELD if all are, why the first of them
/// that was lost was lost, or #QUORLOCK_LEASE_RELEASED, #QUORLOCK_LEASE_NONE.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leases_state(leases: *const quorlock_leases_t) -> i32 {
    boundary!(or QUORLOCK_LEASE_NONE, {
        let leases = &handle::borrow(&leases, "leases")?.leases;
        let lost = || leases.loss().map(|(_, reason)| reason.number());
        Ok(match lost() {
            Some(reason) => reason,
            None if leases.is_held() => QUORLOCK_LEASE_HELD,
            // One may have been lost since.
            None => lost().unwrap_or(QUORLOCK_LEASE_RELEASED),
        })
    })
}

/// The name of the lock whose lease was lost, the first of them in their order: `len`
/// bytes, without a NUL behind them. They live as long as the leases. NULL, and 0 bytes,
/// where none was lost.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leases_lost_name(leases: *const quorlock_leases_t, len: *mut usize) -> *const c_char {
    boundary!(or ptr::null(), { lent(handle::borrow(&leases, "leases")?.leases.loss().map(|(name, _)| name), len) })
}

/// Whether all of the leases are valid now. Exact at every call. False for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leases_is_held(leases: *const quorlock_leases_t) -> bool {
    boundary!(or false, { Ok(handle::borrow(&leases, "leases")?.leases.is_held()) })
}

/// The least validity that any of them has left before the next renewal, rounded down; 0
/// when one of them is over.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leases_remaining_ms(leases: *const quorlock_leases_t) -> i64 {
    boundary!(or 0, {
        let left = handle::borrow(&leases, "leases")?.leases.remaining();
        Ok(i64::try_from(left.as_millis()).unwrap_or(i64::MAX))
    })
}

/// How many they are: one for each name. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leases_count(leases: *const quorlock_leases_t) -> usize {
    boundary!(or 0, { Ok(handle::borrow(&leases, "leases")?.leases.parts().len()) })
}

/// The name of a lock that is held, `index` counting from 0 in the order in which they were
/// taken: `len` bytes, as of quorlock_leases_lost_name(). NULL, and 0 bytes, for an index
/// beyond the last.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leases_name(
    leases: *const quorlock_leases_t, index: usize, len: *mut usize,
) -> *const c_char {
    boundary!(or ptr::null(), {
        let lease = handle::borrow(&leases, "leases")?.leases.parts().get(index);
        lent(lease.map(|lease| lease.name()), len)
    })
}

/// The fencing token of that lease: as quorlock_lease_fence(). Each lock has its own; 0
/// also for an index beyond the last.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leases_fence(leases: *const quorlock_leases_t, index: usize) -> u64 {
    boundary!(or 0, {
        let lease = handle::borrow(&leases, "leases")?.leases.parts().get(index);
        Ok(lease.and_then(|lease| lease.fence()).unwrap_or(0))
    })
}

/// The fencing token of the lease on the lock of that name, as it was given: as
/// quorlock_lease_fence(). 0 also where no such lock is among them.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leases_fence_of(
    leases: *const quorlock_leases_t, name: *const c_char, name_len: usize,
) -> u64 {
    boundary!(or 0, {
        let lease = handle::borrow(&leases, "leases")?.leases.get(handle::bytes(name, name_len, "name")?);
        Ok(lease.and_then(quorlock_core::Lease::fence).unwrap_or(0))
    })
}

/// Lengthens all of the leases, at the same time: as quorlock_lease_extend().
///
/// Fails with what the first lock fails whose lease could not be lengthened; the others may
/// have been.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leases_extend(
    leases: *const quorlock_leases_t, ttl_ms: i64, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let ttl = (ttl_ms != QUORLOCK_DEFAULT).then(|| handle::millis(ttl_ms, "ttl")).transpose()?;
        let leases = handle::share(leases, "leases")?;
        wait(async move { leases.extend(ttl).await })
    })
}

/// Makes sure that each of the leases has at least `min_ms` of validity left: as
/// quorlock_lease_ensure(). Fails as quorlock_leases_extend().
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leases_ensure(
    leases: *const quorlock_leases_t, min_ms: i64, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let leases = handle::share(leases, "leases")?;
        let min = handle::millis(min_ms, "ensure")?;
        wait(async move { leases.ensure(min).await })
    })
}

/// Has `callback` called once, when the first of the leases is lost, or soon if one was
/// lost before: as quorlock_lease_set_lost_callback(). quorlock_leases_lost_name() tells
/// which lock's it is.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leases_set_lost_callback(
    leases: *const quorlock_leases_t, userdata: *mut c_void, callback: quorlock_lost_callback_t,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    quorlock_leases_set_lost_callback_on(leases, ptr::null(), userdata, callback, error)
}

/// As quorlock_leases_set_lost_callback(), but the callback is called by
/// quorlock_queue_dispatch() of `queue`: as quorlock_lease_set_lost_callback_on().
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leases_set_lost_callback_on(
    leases: *const quorlock_leases_t, queue: *const quorlock_queue_t, userdata: *mut c_void,
    callback: quorlock_lost_callback_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let lent = handle::borrow(&leases, "leases")?;
        // Shares of its own: this waits for the callback before, which may free the leases.
        let (leases, user) = (lent.leases.clone(), lent.on_loss.user.clone());
        user.set(queue, userdata, callback, |user| {
            leases.on_lost(move |_, reason| user.clone().arrive(reason.number()));
        })
    })
}

/// Has `callback` called at the first loss as well, beside that of
/// quorlock_leases_set_lost_callback(): as quorlock_lease_set_stop_callback().
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leases_set_stop_callback(
    leases: *const quorlock_leases_t, userdata: *mut c_void, callback: quorlock_lost_callback_t,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let lent = handle::borrow(&leases, "leases")?;
        let (leases, stop) = (lent.leases.clone(), lent.on_loss.stop.clone());
        stop.set(ptr::null(), userdata, callback, |stop| {
            leases.on_lost(move |_, reason| stop.clone().arrive(reason.number()));
        })
    })
}
