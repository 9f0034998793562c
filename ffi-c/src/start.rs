//! Calls that are started and return at once, whose end a callback tells.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use quorlock_core::binding::{Mask, call, dispatch, start};
use quorlock_core::{Error, ErrorKind, Lease, Leases, Locks};

use crate::callback::Callback;
use crate::cancel::{quorlock_cancel_t, unless_used};
use crate::error::quorlock_error_t;
use crate::handle::{self, Handle};
use crate::lease::quorlock_lease_t;
use crate::lock::quorlock_lock_t;
use crate::queue::{Call, News, quorlock_queue_t, shared};
use crate::several::{quorlock_leases_t, quorlock_locks_t};
use crate::time::QUORLOCK_DEFAULT;

/// Called once with what has come of quorlock_lock_start(): either `lease`, or `error` for
/// why there is none; the other is NULL. Both are the caller's, to free. It must not throw.
pub type quorlock_locked_callback_t =
    Option<unsafe extern "C" fn(userdata: *mut c_void, lease: *mut quorlock_lease_t, error: *mut quorlock_error_t)>;

/// Called once with what has come of quorlock_lock_all_start(): as
/// #quorlock_locked_callback_t.
pub type quorlock_all_locked_callback_t =
    Option<unsafe extern "C" fn(userdata: *mut c_void, leases: *mut quorlock_leases_t, error: *mut quorlock_error_t)>;

/// Called once with what has come of quorlock_unlock_start(), or of
/// quorlock_unlock_all_start(): whether the lock was still held, or every one of them; and
/// NULL, or an error, which is the caller's to free. It must not throw.
pub type quorlock_unlocked_callback_t =
    Option<unsafe extern "C" fn(userdata: *mut c_void, was_held: bool, error: *mut quorlock_error_t)>;

type Locked = unsafe extern "C" fn(*mut c_void, *mut quorlock_lease_t, *mut quorlock_error_t);
type AllLocked = unsafe extern "C" fn(*mut c_void, *mut quorlock_leases_t, *mut quorlock_error_t);
type Unlocked = unsafe extern "C" fn(*mut c_void, bool, *mut quorlock_error_t);

/// A callback that is called once with what has come of a call. A result that never comes to it is dropped, and so gives
/// back what the call has won.
trait Completion: Copy + Send + 'static {
    type Value: Send + 'static;

    /// Calls the callback, on the thread that it is meant for.
    fn complete(self, result: Result<Self::Value, Error>);

    /// Calls it where the queue of the call was freed.
    fn give_up(self) {
        self.complete(Err(Error::from_binding(ErrorKind::Cancelled, "the queue of the call was freed")));
    }
}

impl Completion for Callback<Locked> {
    type Value = Lease;

    fn complete(self, won: Result<Lease, Error>) {
        // Now it is the caller's, unless it has been lost meanwhile.
        let (lease, error) = parts(won.and_then(Lease::delivered).map(quorlock_lease_t::new));
        // SAFETY: by the header's contract the callback can be called once with its userdata.
        unsafe { (self.function)(self.userdata, lease, error) };
    }
}

impl Completion for Callback<AllLocked> {
    type Value = Leases;

    fn complete(self, won: Result<Leases, Error>) {
        let (leases, error) = parts(won.and_then(Leases::delivered).map(quorlock_leases_t::new));
        // SAFETY: as above.
        unsafe { (self.function)(self.userdata, leases, error) };
    }
}

impl Completion for Callback<Unlocked> {
    type Value = bool;

    fn complete(self, held: Result<bool, Error>) {
        let error = held.as_ref().err().map_or(ptr::null_mut(), object);
        // SAFETY: as above.
        unsafe { (self.function)(self.userdata, held.unwrap_or(false), error) };
    }
}

/// A result as C takes it: the handle or the error, and NULL for the other.
fn parts<T: Handle>(result: Result<T, Error>) -> (*mut T, *mut quorlock_error_t) {
    match result {
        Ok(handle) => (handle::boxed(handle), ptr::null_mut()),
        Err(error) => (ptr::null_mut(), object(&error)),
    }
}

fn object(error: &Error) -> *mut quorlock_error_t {
    handle::boxed(quorlock_error_t::new(error))
}

/// Starts a call. Its callback is called on the queue's thread, or on the library's own.
fn begin<C: Completion>(
    queue: *const quorlock_queue_t, callback: C, revocable: bool,
    work: impl Future<Output = Result<C::Value, Error>> + Send + 'static,
) -> Result<(), Error> {
    let Some(queue) = shared(queue)? else {
        let mask = Mask::here();
        let report = move |result| dispatch(move || mask.over(|| callback.complete(result)));
        let (work, _) = call(work, false, report);
        return start(vec![work]);
    };
    let (number, news) = (queue.number(), queue.news.clone());
    let report = move |result| news.push(News::Done(number, Box::new(move || callback.complete(result))));
    let (work, revocation) = call(work, revocable, report);
    queue.expect(number, Call { give_up: Box::new(move || callback.give_up()), revocation })?;
    start(vec![work]).inspect_err(|_| queue.forget(number))
}

/// A release that is on its way: its lease is over now, and what is left is to wait for the
/// nodes.
fn on_its_way(
    release: impl Future<Output = Result<bool, Error>> + Send + 'static,
) -> impl Future<Output = Result<bool, Error>> + Send + 'static {
    let mut release = Box::pin(release);
    let first = release.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    async move {
        match first {
            Poll::Ready(done) => done,
            Poll::Pending => release.await,
        }
    }
}

/// Starts to acquire the lock and returns at once; `wait_ms` and `cancel` as of
/// quorlock_lock(). No thread waits meanwhile, however many calls are under way.
///
/// When #QUORLOCK_OK was returned, `callback` is called exactly once: by
/// quorlock_queue_dispatch() or quorlock_queue_free() of `queue`; with NULL for `queue` on
/// a thread for loss callbacks, where it may block as a quorlock_lost_callback_t may,
/// and run at the same time as other callbacks. On another code it is never called. Its error is of one of
/// the kinds of quorlock_lock(); closing the client ends it with #QUORLOCK_CLOSED, a token
/// that is used before the lock was won with #QUORLOCK_CANCELLED. A lease that was lost
/// before its callback came is #QUORLOCK_LOCK_LOST, and not given.
///
/// The lease has no owner, unless the options of the lock name one: the lock is not entered
/// again, and quorlock_lock_release() does not find the lease. Release it by
/// quorlock_unlock_start(), quorlock_unlock() or quorlock_lease_free(), on any thread. Lock,
/// client and token may be freed at once. quorlock_shutdown() is for when no such call is
/// under way.
///
/// Fails with #QUORLOCK_INVALID_ARGUMENT, #QUORLOCK_FORKED.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_start(
    lock: *const quorlock_lock_t, wait_ms: i64, cancel: *const quorlock_cancel_t, queue: *const quorlock_queue_t,
    userdata: *mut c_void, callback: quorlock_locked_callback_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let callback = Callback::of(callback, userdata)?;
        let mut asked = handle::borrow(&lock, "lock")?.0.clone();
        if wait_ms != QUORLOCK_DEFAULT {
            asked = asked.wait(handle::limit(wait_ms, "wait")?);
        }
        let win = async move { asked.win().await };
        let work = unless_used(handle::maybe(&cancel, "cancel")?, win);
        begin(queue, callback, true, work)
    })
}

/// Starts to release a lease and returns at once. The lease ends before that, as by
/// quorlock_unlock(). Frees no memory; the lease may be freed at once. `callback` and `queue` as of
/// quorlock_lock_start(): the callback comes when a quorum of nodes has carried the release
/// out, at the latest after the node timeout. It cannot be cancelled, and never fails for a
/// loss.
///
/// Fails with #QUORLOCK_INVALID_ARGUMENT, #QUORLOCK_FORKED.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_unlock_start(
    lease: *const quorlock_lease_t, queue: *const quorlock_queue_t, userdata: *mut c_void,
    callback: quorlock_unlocked_callback_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let callback = Callback::of(callback, userdata)?;
        let lease = Arc::clone(&handle::borrow(&lease, "lease")?.lease);
        // First, so that nothing is released by a call that fails.
        shared(queue)?;
        let work = on_its_way(async move { lease.release().await });
        begin(queue, callback, false, work)
    })
}

/// Starts to acquire all of the locks, or none, and returns at once: quorlock_lock_all(), as
/// quorlock_lock_start(). The leases have no owner either, unless the options of the locks
/// name one. Locks, client and token may be freed at once.
///
/// Fails with #QUORLOCK_INVALID_ARGUMENT, #QUORLOCK_FORKED.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_all_start(
    locks: *const quorlock_locks_t, wait_ms: i64, cancel: *const quorlock_cancel_t, queue: *const quorlock_queue_t,
    userdata: *mut c_void, callback: quorlock_all_locked_callback_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let callback = Callback::of(callback, userdata)?;
        let mut asked = Locks::of(handle::borrow(&locks, "locks")?.0.clone());
        if wait_ms != QUORLOCK_DEFAULT {
            asked = asked.wait(handle::limit(wait_ms, "wait")?);
        }
        let win = async move { asked.win().await };
        let work = unless_used(handle::maybe(&cancel, "cancel")?, win);
        begin(queue, callback, true, work)
    })
}

/// Starts to release all of the leases and returns at once: quorlock_unlock_all(), as
/// quorlock_unlock_start().
///
/// Fails with #QUORLOCK_INVALID_ARGUMENT, #QUORLOCK_FORKED.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_unlock_all_start(
    leases: *const quorlock_leases_t, queue: *const quorlock_queue_t, userdata: *mut c_void,
    callback: quorlock_unlocked_callback_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let callback = Callback::of(callback, userdata)?;
        let leases = Arc::clone(&handle::borrow(&leases, "leases")?.leases);
        shared(queue)?;
        let work = on_its_way(async move { leases.release().await });
        begin(queue, callback, false, work)
    })
}
