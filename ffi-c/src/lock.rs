//! The lock: making one, acquiring, releasing by lock.

use std::ffi::c_char;
use std::future::pending;
use std::pin::pin;

use futures_util::future::{Either, select};
use quorlock_core::{Error, ErrorKind, Lock, Owner};

use crate::cancel::quorlock_cancel_t;
use crate::client::quorlock_client_t;
use crate::error::quorlock_error_t;
use crate::handle::{self, Process};
use crate::lease::quorlock_lease_t;
use crate::lock_options::quorlock_lock_options_t;
use crate::wait::wait;

/// A time without end, or no limit.
pub const QUORLOCK_FOREVER: i64 = -1;
/// A time as the options say.
pub const QUORLOCK_DEFAULT: i64 = -2;

/// A name with options; holds nothing. May be used by all threads at once: each
/// is an owner of its own, unless the options name one.
pub struct quorlock_lock_t {
    process: Process,
    lock: Lock,
    owned_by_thread: bool,
}

of_process!(quorlock_lock_t);

impl quorlock_lock_t {
    fn here(&self) -> Lock {
        let lock = self.lock.clone();
        match self.owned_by_thread {
            true => lock.owner(Owner::current_thread()),
            false => lock,
        }
    }
}

/// Makes a lock. `name` is any 1 to 1,024 bytes; a name with a hash tag of its
/// own ("buy_{7}") is used as it is, any other braces are refused. `options` may
/// be NULL for the client's, and freed afterwards.
///
/// Fails with #QUORLOCK_INVALID_ARGUMENT, naming the value and what to give.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_new(
    client: *const quorlock_client_t, name: *const c_char, name_len: usize, options: *const quorlock_lock_options_t,
    lock: *mut *mut quorlock_lock_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(lock, "lock")?;
        let client = handle::borrow(client, "client")?;
        let mut named = client.client.lock(handle::bytes(name, name_len, "name")?);
        let options = handle::maybe(options, "options")?;
        if let Some(options) = options {
            named = options.apply(named)?;
        }
        named.check()?;
        let made = quorlock_lock_t {
            process: Process::current(),
            lock: named,
            owned_by_thread: !options.is_some_and(quorlock_lock_options_t::has_owner),
        };
        handle::give(lock, "lock", made)
    })
}

/// Frees a lock. NULL is allowed. Its leases stay.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_free(lock: *mut quorlock_lock_t) {
    boundary!({ handle::free(lock) });
}

/// Acquires the lock, waiting at most `wait_ms`: 0 tries once, #QUORLOCK_DEFAULT
/// waits as the options say, #QUORLOCK_FOREVER without end. `cancel` may be NULL.
/// A lock that the owner holds already is entered again, without any request:
/// another lease on the same hold, and the last one to go frees the lock.
///
/// Fails with #QUORLOCK_TIMEOUT if it was held by others all the time,
/// #QUORLOCK_CONTENDED likewise with a wait of 0; #QUORLOCK_QUORUM_UNAVAILABLE if
/// too few nodes answered; #QUORLOCK_MISCONFIGURED at once if credentials or
/// addresses leave no quorum; #QUORLOCK_LOCK_LOST when entering again what was
/// lost; #QUORLOCK_CANCELLED, #QUORLOCK_CLOSED, #QUORLOCK_FORKED,
/// #QUORLOCK_INVALID_ARGUMENT. No key stays behind.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock(
    lock: *const quorlock_lock_t, wait_ms: i64, cancel: *const quorlock_cancel_t, lease: *mut *mut quorlock_lease_t,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(lease, "lease")?;
        let mut asked = handle::borrow(lock, "lock")?.here();
        if wait_ms != QUORLOCK_DEFAULT {
            asked = asked.wait(handle::limit(wait_ms, "wait")?);
        }
        let cancel = handle::maybe(cancel, "cancel")?.map(|cancel| cancel.used());
        let won = wait(async {
            let cancelled = async {
                match cancel {
                    Some(used) => used.await,
                    None => pending().await,
                }
            };
            match select(pin!(cancelled), pin!(asked.acquire())).await {
                // What was begun is undone by dropping it.
                Either::Left(_) => {
                    Err(Error::from_binding(ErrorKind::Cancelled, "the wait for the lock was cancelled"))
                }
                Either::Right((result, _)) => result,
            }
        })?;
        handle::give(lease, "lease", quorlock_lease_t::new(won))
    })
}

/// Acquires the lock if it is free: quorlock_lock() with a wait of 0.
/// #QUORLOCK_CONTENDED says that another holds it, and nothing else.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_try_lock(
    lock: *const quorlock_lock_t, lease: *mut *mut quorlock_lease_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    quorlock_lock(lock, 0, std::ptr::null(), lease, error)
}

/// Releases by lock: gives back the newest lease of its owner, the calling
/// thread unless the options name one. That lease is to be freed all the same.
/// `was_held` may be NULL; see quorlock_unlock().
///
/// Fails with #QUORLOCK_NOT_OWNER if the owner holds nothing.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_release(
    lock: *const quorlock_lock_t, was_held: *mut bool, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let lock = handle::borrow(lock, "lock")?.here();
        let held = wait(lock.release())?;
        crate::lease::tell(was_held, held)
    })
}
