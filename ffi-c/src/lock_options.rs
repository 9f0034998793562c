//! The builder of a lock's options.

use std::ffi::c_char;
use std::ptr;

use quorlock_core::{Error, Lock, Owner};

use crate::handle::{self, Handle};

/// Options of a lock. What is not set is as its client has it. For one thread
/// at a time; mistakes are reported as those of quorlock_client_options_t, by
/// quorlock_lock_new().
#[derive(Default)]
pub struct quorlock_lock_options_t {
    set: Vec<Box<dyn Fn(Lock) -> Lock + Send + Sync>>,
    has_owner: bool,
    mistake: Option<Error>,
}

impl Handle for quorlock_lock_options_t {}

impl quorlock_lock_options_t {
    /// The lock with these options.
    pub(crate) fn apply(&self, lock: Lock) -> Result<Lock, Error> {
        match &self.mistake {
            Some(mistake) => Err(mistake.clone()),
            None => Ok(self.set.iter().fold(lock, |lock, set| set(lock))),
        }
    }

    pub(crate) fn has_owner(&self) -> bool {
        self.has_owner
    }

    fn keep(&mut self, option: impl Fn(Lock) -> Lock + Send + Sync + 'static) -> Result<(), Error> {
        self.set.push(Box::new(option));
        Ok(())
    }
}

fn set(
    options: *mut quorlock_lock_options_t, change: impl FnOnce(&mut quorlock_lock_options_t) -> Result<(), Error>,
) -> i32 {
    boundary!(ptr::null_mut(), {
        let options = handle::borrow_mut(options, "options")?;
        change(options).inspect_err(|mistake| {
            options.mistake.get_or_insert(mistake.clone());
        })
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

/// Auto-release time on the nodes: how long the lock outlives a crashed holder.
/// 10 to the client's max_ttl.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_ttl(options: *mut quorlock_lock_options_t, ttl_ms: i64) -> i32 {
    set(options, |o| {
        let ttl = handle::millis(ttl_ms, "ttl")?;
        o.keep(move |lock| lock.ttl(ttl))
    })
}

/// How long quorlock_lock() waits with #QUORLOCK_DEFAULT: 0 tries once,
/// #QUORLOCK_FOREVER waits without end.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_wait(options: *mut quorlock_lock_options_t, wait_ms: i64) -> i32 {
    set(options, |o| {
        let wait = handle::limit(wait_ms, "wait")?;
        o.keep(move |lock| lock.wait(wait))
    })
}

/// Whether a lease is renewed until it is released. Without, it ends after the
/// ttl, unless extended.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_renew(options: *mut quorlock_lock_options_t, renew: bool) -> i32 {
    set(options, |o| o.keep(move |lock| lock.renew(renew)))
}

/// The longest life of a lease, renewed or not; #QUORLOCK_FOREVER for no cap.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_max_hold(options: *mut quorlock_lock_options_t, max_hold_ms: i64) -> i32 {
    set(options, |o| {
        let max_hold = handle::limit(max_hold_ms, "max_hold")?;
        o.keep(move |lock| lock.max_hold(max_hold))
    })
}

/// Whether the key on the nodes is the name itself and its value the bare
/// token, so that other Redlock libraries and Quorlock exclude each other.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_raw(options: *mut quorlock_lock_options_t, raw: bool) -> i32 {
    set(options, |o| o.keep(move |lock| lock.raw(raw)))
}

/// Names the owner: whoever gives the same name, in any thread but with the
/// same client, re-enters. Not set, the owner is the thread that calls.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_set_owner(
    options: *mut quorlock_lock_options_t, name: *const c_char, len: usize,
) -> i32 {
    set(options, |o| {
        let owner = Owner::named(handle::bytes(name, len, "owner")?);
        o.has_owner = true;
        o.keep(move |lock| lock.owner(owner.clone()))
    })
}
