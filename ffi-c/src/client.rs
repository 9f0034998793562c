//! The client.

use std::ffi::c_char;
use std::ptr;

use quorlock_core::Client;

use crate::client_options::quorlock_client_options_t;
use crate::error::quorlock_error_t;
use crate::handle::{self, Handle, Shareable, wait};
use crate::lease::quorlock_lease_t;

/// A set of nodes, and what runs for it: connections, renewal of leases.
/// Connects when first needed. May be used by all threads at once.
pub struct quorlock_client_t(pub(crate) Client);

impl Handle for quorlock_client_t {
    fn starts_anew(&self) -> bool {
        self.0.is_ours()
    }
}

impl Shareable for quorlock_client_t {
    type Share = Client;

    fn share(&self) -> Client {
        self.0.clone()
    }
}

/// Counts of a client since it was made.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct quorlock_stats_t {
    // Made from core/vocabulary.toml: counts.
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
    /// Releases that nodes have not acknowledged yet. Falls too.
    pub releases_pending: u64,
    /// Steps seen of nodes' clocks.
    pub clock_steps: u64,
    /// Fences written back to a node because the votes disagreed.
    pub write_backs: u64,
    /// Releases given up because too many waited for a node; their keys end by themselves.
    pub releases_dropped: u64,
    /// Connections made to nodes.
    pub connects: u64,
    /// Calls that wait in a line now, behind the one that asks the nodes or holds the lock.
    /// Falls too.
    pub waiting: u64,
    /// Leases that were released and went to the next in line of this client without a
    /// request.
    pub passed_on: u64,
    /// Calls that stand in the queue of a node now, among those of all clients: at most one
    /// for each lock. Falls too.
    pub queued: u64,
    /// Waiters of other clients before the last of those, as far as the node has said.
    /// Falls too.
    pub ahead: u64,
    /// Messages that named no waiter, or that no node sends: late, or forged.
    pub stray_messages: u64,
    // End of what is made.
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
        let builder = handle::maybe(&options, "options")?.map(|options| options.0.built()).transpose()?;
        handle::give(client, "client", quorlock_client_t(builder.cloned().unwrap_or_default().build()?))
    })
}

/// Declares the set: founds it, where no node has a record, by writing its record
/// to all nodes. A wholly new set (servers that have run for longer than max_ttl
/// and never stored anything) votes at once. Where the servers are only too young,
/// the call waits until they have run for max_ttl, and the set votes when it
/// returns. Servers that may have lost something give no vote for max_ttl first:
/// the call does not wait for that. The log says for how long either is. Where all
/// nodes have this set's record already nothing is changed and no quarantine is
/// lifted; so it is safe to run at every deploy. memory:// nodes need none of it.
///
/// Fails with #QUORLOCK_MISCONFIGURED, naming the nodes, if one has a record of
/// another set or cannot be a node; #QUORLOCK_QUORUM_UNAVAILABLE, naming which do
/// not answer: nothing is written then. #QUORLOCK_CLOSED, #QUORLOCK_FORKED.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_init_set(client: *const quorlock_client_t, error: *mut *mut quorlock_error_t) -> i32 {
    boundary!(error, {
        let client = handle::share(client, "client")?;
        wait(async move { client.init_set().await }).map(drop)
    })
}

/// As quorlock_client_init_set(), but lifts the quarantine of the set's nodes, or
/// founds the set without one: two may then hold a lock that was held within the
/// last max_ttl. Only where you know that no lock is held.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_init_set_forced(
    client: *const quorlock_client_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let client = handle::share(client, "client")?;
        wait(async move { client.init_set_forced().await }).map(drop)
    })
}

/// Goes on with a lease that another client has exported, see quorlock_lease_export(), as
/// long as that has not ended: with what was left of its max_hold, the same ttl, or that if it
/// is less, and a larger fence. Of two that adopt one lease one wins at most. Its lock does not acquire it
/// once more. Nodes that do not answer are waited for as long as the client's wait,
/// at most for the ttl. The lease is to be freed with quorlock_lease_free().
///
/// Fails with #QUORLOCK_LOCK_LOST if the lease has ended or another has adopted it;
/// #QUORLOCK_QUORUM_UNAVAILABLE if too few nodes answered; #QUORLOCK_INVALID_ARGUMENT for a
/// text that is damaged, or of another set, namespace or version.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_adopt(
    client: *const quorlock_client_t, text: *const c_char, text_len: usize, lease: *mut *mut quorlock_lease_t,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(lease, "lease")?;
        let client = handle::share(client, "client")?;
        let text = handle::text(text, text_len, "text")?;
        let adopted = wait(async move { client.adopt(text).await })?;
        handle::give(lease, "lease", quorlock_lease_t::new(adopted.delivered()?))
    })
}

/// Releases every lease, then stops what runs for the client. Leases still held
/// are lost with the reason #QUORLOCK_LEASE_CLOSED; waits of other threads end
/// with #QUORLOCK_CLOSED. Returns when the releases are acknowledged, at the
/// latest after the node timeout. A second call does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_close(client: *const quorlock_client_t, error: *mut *mut quorlock_error_t) -> i32 {
    boundary!(error, {
        let client = handle::share(client, "client")?;
        wait(async move { client.close().await });
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
        let counts = handle::borrow(&client, "client")?.0.stats().named().map(|(_, count)| count);
        handle::wanted(stats, "stats")?;
        let size = size.min(size_of_val(&counts));
        // SAFETY: by the header's contract there is room for `size` bytes; the
        // struct is these counts in this order, as the tests in C look.
        unsafe { ptr::copy_nonoverlapping(counts.as_ptr().cast(), stats.cast::<u8>(), size) };
        Ok(())
    })
}
