//! The lock: making one, acquiring, releasing by lock.

use std::ffi::c_char;
use std::ptr;

use quorlock_core::{Error, Lock};

use crate::cancel::{quorlock_cancel_t, unless_used};
use crate::client::quorlock_client_t;
use crate::error::quorlock_error_t;
use crate::handle::{self, Handle, Shareable, wait};
use crate::lease::{quorlock_lease_t, tell};
use crate::lock_options::{quorlock_lock_options_t, slots_of};
use crate::time::QUORLOCK_DEFAULT;

/// A name with options; holds nothing. May be used by all threads at once.
pub struct quorlock_lock_t(pub(crate) Lock);

impl Handle for quorlock_lock_t {
    fn starts_anew(&self) -> bool {
        self.0.is_ours()
    }
}

impl Shareable for quorlock_lock_t {
    type Share = Lock;

    fn share(&self) -> Lock {
        self.0.clone()
    }
}

/// The lock of that name with these options, not yet checked.
fn named(
    client: *const quorlock_client_t, name: *const c_char, name_len: usize, options: *const quorlock_lock_options_t,
) -> Result<Lock, Error> {
    let client = handle::borrow(&client, "client")?;
    let lock = client.0.lock(handle::bytes(name, name_len, "name")?);
    match handle::maybe(&options, "options")? {
        Some(options) => options.apply(lock),
        None => Ok(lock),
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
        let named = named(client, name, name_len, options)?;
        named.check()?;
        handle::give(lock, "lock", quorlock_lock_t(named))
    })
}

/// Makes a semaphore: at most `slots` of it are held at once, 1 to 128. It is a lock
/// whose options say quorlock_lock_options_set_slots(), and is acquired, released and freed
/// as such; quorlock_lease_slot() tells which slot a lease has. Fails as
/// quorlock_lock_new().
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_semaphore_new(
    client: *const quorlock_client_t, name: *const c_char, name_len: usize, slots: i64,
    options: *const quorlock_lock_options_t, lock: *mut *mut quorlock_lock_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(lock, "lock")?;
        let named = named(client, name, name_len, options)?;
        let named = named.slots(slots_of(slots)?);
        named.check()?;
        handle::give(lock, "lock", quorlock_lock_t(named))
    })
}

/// Frees a lock. NULL is allowed. Its leases stay.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_free(lock: *mut quorlock_lock_t) {
    boundary!({ handle::free(lock) });
}

/// Acquires the lock, waiting at most `wait_ms`: 0 tries once, #QUORLOCK_DEFAULT
/// waits as the options say, #QUORLOCK_FOREVER without end. `cancel` may be NULL.
///
/// The lease has no owner, unless the options of the lock give one. It is bound to no
/// thread: any thread may use, release and free it, and a second call waits for it as for
/// a stranger's, the thread that has it too. Where the thread that acquired it has ended
/// and the lease is still held, the log warns once.
///
/// A lock that the owner holds already is entered again, without any request, but
/// for quorlock_lock_options_set_reentrant(): another lease on the same hold, and the last one to go frees the lock.
///
/// Those of one client that wait for a lock get it in the order in which they
/// came; a wait of 0 asks the nodes past that line.
///
/// Fails with #QUORLOCK_TIMEOUT if it was held by others all the time,
/// #QUORLOCK_CONTENDED likewise with a wait of 0; #QUORLOCK_QUORUM_UNAVAILABLE if
/// too few nodes answered; #QUORLOCK_MISCONFIGURED at once if credentials or
/// addresses leave no quorum; #QUORLOCK_TOO_MANY_WAITERS at once if as many of
/// the client wait already as its options allow; #QUORLOCK_WOULD_DEADLOCK at once if
/// the owner is the calling thread, has the lock, and may not enter it again;
/// #QUORLOCK_LOCK_LOST when entering again what was lost, or if the lease is lost by the time the thread
/// goes on; #QUORLOCK_CANCELLED, #QUORLOCK_CLOSED, #QUORLOCK_FORKED,
/// #QUORLOCK_INVALID_ARGUMENT. No key stays behind.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock(
    lock: *const quorlock_lock_t, wait_ms: i64, cancel: *const quorlock_cancel_t, lease: *mut *mut quorlock_lease_t,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(lease, "lease")?;
        let mut asked = handle::share(lock, "lock")?.of_this_thread();
        if wait_ms != QUORLOCK_DEFAULT {
            asked = asked.wait(handle::limit(wait_ms, "wait")?);
        }
        let won =
            wait(unless_used(handle::maybe(&cancel, "cancel")?, async move { asked.win().await }))?.delivered()?;
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
    quorlock_lock(lock, 0, ptr::null(), lease, error)
}

/// Releases by lock: gives back the newest lease of the owner that the lock's options
/// give. That lease is to be freed all the same. `was_held` may be NULL; see quorlock_unlock().
///
/// Fails with #QUORLOCK_NOT_OWNER if the owner holds nothing, or there is none: release
/// the lease then, by quorlock_unlock().
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_release(
    lock: *const quorlock_lock_t, was_held: *mut bool, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let lock = handle::share(lock, "lock")?.of_this_thread();
        tell(was_held, wait(async move { lock.release().await })?)
    })
}
