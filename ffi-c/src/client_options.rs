//! The builder of a client's options.

use std::ffi::{CStr, c_char};
use std::panic::Location;
use std::{mem, ptr};

use quorlock_core::{ClientBuilder, Error, RestartGuard};

use crate::handle::{self, Handle, invalid};
use crate::lock_options::layout_of;
use crate::options::Options;

/// The guard is on for sets of three nodes and more.
pub const QUORLOCK_RESTART_GUARD_AUTO: i32 = 0;
/// The guard is on, and a wholly new set waits, too.
pub const QUORLOCK_RESTART_GUARD_ON: i32 = 1;
/// There is none: a restart without data may give a lock to a second holder.
pub const QUORLOCK_RESTART_GUARD_OFF: i32 = 2;

/// Options of a client; those that locks have too are the defaults of its
/// locks. For one thread at a time.
///
/// A setter returns #QUORLOCK_INVALID_ARGUMENT for what can be seen to be
/// wrong at once. That may be ignored: quorlock_client_new() reports the first
/// mistake, with a message, unless the option has been set rightly since.
#[derive(Default)]
pub struct quorlock_client_options_t(pub(crate) Options<ClientBuilder>);

impl Handle for quorlock_client_options_t {
    const PLAIN: bool = true;
}

#[track_caller]
fn set<V>(
    options: *mut quorlock_client_options_t, given: impl FnOnce() -> Result<V, Error>,
    option: impl FnOnce(ClientBuilder, V) -> ClientBuilder,
) -> i32 {
    let setter = Location::caller();
    boundary!(ptr::null_mut(), {
        let options = handle::borrow_mut(options, "options")?;
        options.0.set(setter, given, |builder, value| *builder = option(mem::take(builder), value))
    })
}

/// New options, all at their defaults. Free them with
/// quorlock_client_options_free().
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_new() -> *mut quorlock_client_options_t {
    boundary!(or ptr::null_mut(), { Ok(handle::boxed(quorlock_client_options_t::default())) })
}

/// Frees options. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_free(options: *mut quorlock_client_options_t) {
    boundary!({ handle::free(options) });
}

/// The nodes: `count` URLs, each ending with NUL, such as
/// redis://[user:password@]host[:port][/db], rediss://… for TLS,
/// redis+unix:///path?db=1&user=u&password=p,
/// redis+sentinel://host:26379;host;host/master for a master with replicas that
/// sentinels know by that name, redis+cluster://host:6379;host for a Redis Cluster,
/// or memory://name for a node in this process. Not set, they are those of the environment variable
/// QUORLOCK_NODES, split at commas and blanks, and UTF-8; without it
/// redis://127.0.0.1:6379.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_nodes(
    options: *mut quorlock_client_options_t, nodes: *const *const c_char, count: usize,
) -> i32 {
    set(options, || urls(nodes, count), ClientBuilder::nodes)
}

fn urls<'a>(nodes: *const *const c_char, count: usize) -> Result<Vec<&'a str>, Error> {
    if count > 0 && nodes.is_null() {
        return Err(invalid("nodes is NULL"));
    }
    let url = |index| {
        // SAFETY: by the header's contract there are `count` pointers.
        let node = unsafe { *nodes.add(index) };
        if node.is_null() {
            return Err(invalid(format!("nodes[{index}] is NULL")));
        }
        // SAFETY: by the header's contract each ends with NUL.
        let url = unsafe { CStr::from_ptr(node) }.to_str();
        // The value is not shown: it may hold a password.
        url.map_err(|_| invalid(format!("nodes[{index}] is not UTF-8")))
    };
    (0..count).map(url).collect()
}

fn restart_guard_of(number: i32) -> Result<RestartGuard, Error> {
    match number {
        QUORLOCK_RESTART_GUARD_AUTO => Ok(RestartGuard::Auto),
        QUORLOCK_RESTART_GUARD_ON => Ok(RestartGuard::On),
        QUORLOCK_RESTART_GUARD_OFF => Ok(RestartGuard::Off),
        _ => Err(invalid(format!("restart_guard is {number}: give a QUORLOCK_RESTART_GUARD_ constant, 0 to 2"))),
    }
}

// Made from core/options.toml: setters of a client.
/// See quorlock_lock_options_set_ttl(). Default: 10,000 ms.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_ttl(options: *mut quorlock_client_options_t, ttl_ms: i64) -> i32 {
    set(options, || handle::millis(ttl_ms, "ttl"), ClientBuilder::ttl)
}

/// See quorlock_lock_options_set_wait(). Default: 10,000 ms.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_wait(options: *mut quorlock_client_options_t, wait_ms: i64) -> i32 {
    set(options, || handle::limit(wait_ms, "wait"), ClientBuilder::wait)
}

/// See quorlock_lock_options_set_renew(). Default: true.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_renew(options: *mut quorlock_client_options_t, renew: bool) -> i32 {
    set(options, || Ok(renew), ClientBuilder::renew)
}

/// See quorlock_lock_options_set_max_hold(). Default: 3,600,000 ms.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_max_hold(
    options: *mut quorlock_client_options_t, max_hold_ms: i64,
) -> i32 {
    set(options, || handle::limit(max_hold_ms, "max_hold"), ClientBuilder::max_hold)
}

/// See quorlock_lock_options_set_raw(). Default: false.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_raw(options: *mut quorlock_client_options_t, raw: bool) -> i32 {
    set(options, || Ok(raw), ClientBuilder::raw)
}

/// See quorlock_lock_options_set_layout(). Default: "plain".
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_layout(options: *mut quorlock_client_options_t, layout: i32) -> i32 {
    set(options, || layout_of(layout), ClientBuilder::layout)
}

/// See quorlock_lock_options_set_label(). Default: "host:pid".
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_label(
    options: *mut quorlock_client_options_t, text: *const c_char, len: usize,
) -> i32 {
    set(options, || Ok(handle::text(text, len, "label")?.to_owned()), ClientBuilder::label)
}

/// See quorlock_lock_options_set_fencing(). Default: true.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_fencing(options: *mut quorlock_client_options_t, fencing: bool) -> i32 {
    set(options, || Ok(fencing), ClientBuilder::fencing)
}

/// See quorlock_lock_options_set_max_waiters(). Default: 10,000.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_max_waiters(
    options: *mut quorlock_client_options_t, max_waiters: i64,
) -> i32 {
    set(options, || handle::count(max_waiters, 0..=2_147_483_647, "max_waiters"), ClientBuilder::max_waiters)
}

/// See quorlock_lock_options_set_fair(). Default: false.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_fair(options: *mut quorlock_client_options_t, fair: bool) -> i32 {
    set(options, || Ok(fair), ClientBuilder::fair)
}

/// See quorlock_lock_options_set_keep(). Default: 0.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_keep(options: *mut quorlock_client_options_t, keep_ms: i64) -> i32 {
    set(options, || handle::millis(keep_ms, "keep"), ClientBuilder::keep)
}

/// See quorlock_lock_options_set_reentrant(). Default: true.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_reentrant(
    options: *mut quorlock_client_options_t, reentrant: bool,
) -> i32 {
    set(options, || Ok(reentrant), ClientBuilder::reentrant)
}

/// See quorlock_lock_options_set_group(). Default: "".
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_group(
    options: *mut quorlock_client_options_t, text: *const c_char, len: usize,
) -> i32 {
    set(options, || Ok(handle::text(text, len, "group")?.to_owned()), ClientBuilder::group)
}

/// The longest ttl of any lock of the set, and so how long a node that may have lost its memory
/// gives no vote. 10 ms to 86,400,000 ms. Default: 60,000 ms.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_max_ttl(options: *mut quorlock_client_options_t, max_ttl_ms: i64) -> i32 {
    set(options, || handle::millis(max_ttl_ms, "max_ttl"), ClientBuilder::max_ttl)
}

/// Time for one request to one node: connect, queue, write and reply; at most a quarter of a
/// lock's ttl. A hung node costs no latency, for rounds end at the quorum. 1 ms to 60,000 ms.
/// Default: 250 ms.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_node_timeout(
    options: *mut quorlock_client_options_t, node_timeout_ms: i64,
) -> i32 {
    set(options, || handle::millis(node_timeout_ms, "node_timeout"), ClientBuilder::node_timeout)
}

/// Time for a connection to a node to be made: name, TCP, TLS, and what the node is asked
/// before it may vote. Calls that ask once wait for the first connections as long, until a
/// quorum of nodes is connected. 1 ms to 60,000 ms. Default: 2,000 ms.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_connect_timeout(
    options: *mut quorlock_client_options_t, connect_timeout_ms: i64,
) -> i32 {
    set(options, || handle::millis(connect_timeout_ms, "connect_timeout"), ClientBuilder::connect_timeout)
}

/// Bound on the difference of clock rates, as a fraction: validity is the ttl less this part of
/// it and 2 ms. 0.001 to 0.5. Default: 0.01.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_drift(options: *mut quorlock_client_options_t, drift: f64) -> i32 {
    set(options, || Ok(drift), ClientBuilder::drift)
}

/// The fraction of the ttl that must be left when a lease is won. 0 to 0.9. Default: 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_min_validity(
    options: *mut quorlock_client_options_t, min_validity: f64,
) -> i32 {
    set(options, || Ok(min_validity), ClientBuilder::min_validity)
}

/// Prefix of every key. It has at least one byte, and no braces. At most 256 bytes. Default:
/// "lock:".
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_namespace(
    options: *mut quorlock_client_options_t, text: *const c_char, len: usize,
) -> i32 {
    set(options, || Ok(handle::text(text, len, "namespace")?.to_owned()), ClientBuilder::namespace)
}

/// How long a lock's counter of fences lives after its last use; at least twice max_ttl. After
/// that the order of fences rests on the nodes' clocks. By default twice max_ttl, where that is
/// longer than 600,000 ms. Default: 600,000 ms.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_fence_ttl(
    options: *mut quorlock_client_options_t, fence_ttl_ms: i64,
) -> i32 {
    set(options, || handle::millis(fence_ttl_ms, "fence_ttl"), ClientBuilder::fence_ttl)
}

/// The name of the set that the nodes form: 1 to 64 printable ASCII characters without blanks.
/// Nodes of another set are refused. Default: "default".
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_set_name(
    options: *mut quorlock_client_options_t, text: *const c_char, len: usize,
) -> i32 {
    set(options, || Ok(handle::text(text, len, "set_name")?.to_owned()), ClientBuilder::set_name)
}

/// Whether a node that may have lost its memory gives no vote until every vote that it may have
/// given is over, which is after max_ttl. auto is on for three nodes and more, and where a node
/// fails over to another server. With on a wholly new set waits, too; with off a node that
/// restarts without its data may give a lock to a second holder. Default: "auto".
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_restart_guard(
    options: *mut quorlock_client_options_t, restart_guard: i32,
) -> i32 {
    set(options, || restart_guard_of(restart_guard), ClientBuilder::restart_guard)
}

/// Whether servers are accepted that drop keys when they are full: with them a lock may vanish
/// under its holder. Without, such a server is refused with #QUORLOCK_MISCONFIGURED. Default:
/// false.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_accept_eviction(
    options: *mut quorlock_client_options_t, accept_eviction: bool,
) -> i32 {
    set(options, || Ok(accept_eviction), ClientBuilder::accept_eviction)
}

/// How many replicas of a node must have a vote before it counts. With as many as the node has,
/// a master that is cut off from them gives no votes, and a failover loses none. A replica that
/// hangs holds up every request to its master for half of node_timeout, and the votes that it
/// misses do not count. 0 to 16. Default: 0.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_wait_replicas(
    options: *mut quorlock_client_options_t, wait_replicas: i64,
) -> i32 {
    set(options, || handle::count(wait_replicas, 0..=16, "wait_replicas"), ClientBuilder::wait_replicas)
}

/// Certificates that vouch for rediss:// nodes, in place of the system's: the path of a PEM
/// file, or its text.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_ca(
    options: *mut quorlock_client_options_t, text: *const c_char, len: usize,
) -> i32 {
    set(options, || Ok(handle::text(text, len, "ca")?.to_owned()), ClientBuilder::ca)
}

/// The client's certificate: the path of a PEM file, or its text. Goes with key.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_cert(
    options: *mut quorlock_client_options_t, text: *const c_char, len: usize,
) -> i32 {
    set(options, || Ok(handle::text(text, len, "cert")?.to_owned()), ClientBuilder::cert)
}

/// The key of the client's certificate: the path of a PEM file, or its text.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_key(
    options: *mut quorlock_client_options_t, text: *const c_char, len: usize,
) -> i32 {
    set(options, || Ok(handle::text(text, len, "key")?.to_owned()), ClientBuilder::key)
}
// End of what is made.
