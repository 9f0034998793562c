//! The client.

use std::ptr;

use quorlock_core::Client;

use crate::client_options::quorlock_client_options_t;
use crate::error::quorlock_error_t;
use crate::handle::{self, Process};
use crate::wait::wait;

/// A set of nodes, and what runs for it: connections, renewal of leases.
/// Connects when first needed. May be used by all threads at once.
pub struct quorlock_client_t {
    process: Process,
    pub(crate) client: Client,
}

of_process!(quorlock_client_t);

/// Counts of a client since it was made.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct quorlock_stats_t {
    /// Leases won.
    pub acquired: u64,
    /// Acquisitions that were re-entries.
    pub reentered: u64,
    /// Attempts that did not win, each undone.
    pub attempts_lost: u64,
    /// Rounds that a node's timeout decided: no quorum had answered before.
    pub timeouts_awaited: u64,
    /// Leases released while held.
    pub released: u64,
    /// Leases lost.
    pub lost: u64,
    /// Votes renewed.
    pub renewals: u64,
    /// Votes that were missing and have been stored anew.
    pub repairs: u64,
    /// Releases that nodes have not acknowledged yet.
    pub releases_pending: u64,
    /// Connections made to nodes.
    pub connects: u64,
}

/// Makes a client. `options` may be NULL for defaults, and freed afterwards.
/// Nothing is connected yet, so nothing about the nodes is known.
///
/// Fails with #QUORLOCK_INVALID_ARGUMENT, naming the option, its value and what
/// to give.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_new(
    options: *const quorlock_client_options_t, client: *mut *mut quorlock_client_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(client, "client")?;
        let builder = match handle::maybe(options, "options")? {
            Some(options) => options.builder()?,
            None => Client::builder(),
        };
        let made = quorlock_client_t { process: Process::current(), client: builder.build()? };
        handle::give(client, "client", made)
    })
}

/// Releases every lease, then stops what runs for the client. Leases still held
/// are lost with the reason #QUORLOCK_LEASE_CLOSED; waits of other threads end
/// with #QUORLOCK_CLOSED. Returns when the releases are acknowledged, at the
/// latest after the node timeout. A second call does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_close(client: *const quorlock_client_t, error: *mut *mut quorlock_error_t) -> i32 {
    boundary!(error, {
        let client = handle::borrow(client, "client")?;
        wait(client.client.close());
        Ok(())
    })
}

/// Frees a client. NULL is allowed. Its locks and leases stay usable: what runs
/// for the client ends with the last of them, or by quorlock_client_close().
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_free(client: *mut quorlock_client_t) {
    boundary!({ handle::free(client) });
}

/// What has happened so far. `size` is sizeof(quorlock_stats_t): a later version
/// has more counts at the end, and fills in as many as there is room for.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_stats(
    client: *const quorlock_client_t, stats: *mut quorlock_stats_t, size: usize, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let seen = handle::borrow(client, "client")?.client.stats();
        handle::wanted(stats, "stats")?;
        let counts = quorlock_stats_t {
            acquired: seen.acquired,
            reentered: seen.reentered,
            attempts_lost: seen.attempts_lost,
            timeouts_awaited: seen.timeouts_awaited,
            released: seen.released,
            lost: seen.lost,
            renewals: seen.renewals,
            repairs: seen.repairs,
            releases_pending: seen.releases_pending,
            connects: seen.connects,
        };
        let size = size.min(size_of::<quorlock_stats_t>());
        // SAFETY: by the header's contract there is room for `size` bytes, and
        // a struct of integers has no padding.
        unsafe { ptr::copy_nonoverlapping(ptr::from_ref(&counts).cast(), stats.cast::<u8>(), size) };
        Ok(())
    })
}
