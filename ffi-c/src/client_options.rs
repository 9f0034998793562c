//! The builder of a client's options.

use std::ffi::{CStr, c_char};
use std::ptr;

use quorlock_core::{ClientBuilder, Error};

use crate::handle::{self, Handle, invalid};

/// Options of a client; those that locks have too are the defaults of its
/// locks. For one thread at a time.
///
/// A setter returns #QUORLOCK_INVALID_ARGUMENT for what can be seen to be
/// wrong at once. That may be ignored: quorlock_client_new() reports the first
/// mistake, with a message.
pub struct quorlock_client_options_t {
    builder: ClientBuilder,
    mistake: Option<Error>,
}

impl Handle for quorlock_client_options_t {}

impl quorlock_client_options_t {
    pub(crate) fn builder(&self) -> Result<ClientBuilder, Error> {
        self.mistake.clone().map_or(Ok(self.builder.clone()), Err)
    }
}

fn set(
    options: *mut quorlock_client_options_t, change: impl FnOnce(ClientBuilder) -> Result<ClientBuilder, Error>,
) -> i32 {
    boundary!(ptr::null_mut(), {
        let options = handle::borrow_mut(options, "options")?;
        let changed = change(options.builder.clone());
        match changed {
            Ok(builder) => options.builder = builder,
            Err(mistake) => {
                options.mistake.get_or_insert(mistake.clone());
                return Err(mistake);
            }
        }
        Ok(())
    })
}

/// New options, all at their defaults. Free them with
/// quorlock_client_options_free().
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_new() -> *mut quorlock_client_options_t {
    boundary!(or ptr::null_mut(), {
        Ok(handle::boxed(quorlock_client_options_t {
            builder: ClientBuilder::default(),
            mistake: None,
        }))
    })
}

/// Frees options. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_free(options: *mut quorlock_client_options_t) {
    boundary!({ handle::free(options) });
}

/// The nodes: `count` URLs, each ending with NUL, such as
/// redis://[user:password@]host[:port][/db], rediss://… for TLS,
/// redis+unix:///path?db=1&user=u&password=p, or memory://name for a node in
/// this process. Not set, they are those of the environment variable
/// QUORLOCK_NODES, split at commas and blanks; without it
/// redis://127.0.0.1:6379.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_nodes(
    options: *mut quorlock_client_options_t, nodes: *const *const c_char, count: usize,
) -> i32 {
    set(options, |builder| {
        if count > 0 && nodes.is_null() {
            return Err(invalid("nodes is NULL"));
        }
        let mut urls = Vec::new();
        for index in 0..count {
            // SAFETY: by the header's contract there are `count` pointers.
            let node = unsafe { *nodes.add(index) };
            if node.is_null() {
                return Err(invalid(format!("nodes[{index}] is NULL")));
            }
            // SAFETY: by the header's contract each ends with NUL.
            let url = unsafe { CStr::from_ptr(node) }.to_str();
            // The value is not shown: it may hold a password.
            urls.push(url.map_err(|_| invalid(format!("nodes[{index}] is not UTF-8")))?);
        }
        Ok(builder.nodes(urls))
    })
}

/// See quorlock_lock_options_set_ttl(). 10,000.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_ttl(options: *mut quorlock_client_options_t, ttl_ms: i64) -> i32 {
    set(options, |b| Ok(b.ttl(handle::millis(ttl_ms, "ttl")?)))
}

/// See quorlock_lock_options_set_wait(). 10,000.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_wait(options: *mut quorlock_client_options_t, wait_ms: i64) -> i32 {
    set(options, |b| Ok(b.wait(handle::limit(wait_ms, "wait")?)))
}

/// See quorlock_lock_options_set_renew(). True.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_renew(options: *mut quorlock_client_options_t, renew: bool) -> i32 {
    set(options, |b| Ok(b.renew(renew)))
}

/// See quorlock_lock_options_set_max_hold(). One hour.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_max_hold(
    options: *mut quorlock_client_options_t, max_hold_ms: i64,
) -> i32 {
    set(options, |b| Ok(b.max_hold(handle::limit(max_hold_ms, "max_hold")?)))
}

/// See quorlock_lock_options_set_raw(). False.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_raw(options: *mut quorlock_client_options_t, raw: bool) -> i32 {
    set(options, |b| Ok(b.raw(raw)))
}

/// The longest ttl of any lock of the set of nodes. 60,000.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_max_ttl(options: *mut quorlock_client_options_t, max_ttl_ms: i64) -> i32 {
    set(options, |b| Ok(b.max_ttl(handle::millis(max_ttl_ms, "max_ttl")?)))
}

/// Time for one request to one node: connect, queue, write and reply; at most a
/// quarter of a lock's ttl. 250. A hung node costs no latency, for rounds end
/// at the quorum.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_node_timeout(
    options: *mut quorlock_client_options_t, node_timeout_ms: i64,
) -> i32 {
    set(options, |b| Ok(b.node_timeout(handle::millis(node_timeout_ms, "node_timeout")?)))
}

/// Bound on the difference of clock rates, as a fraction: validity is the ttl
/// less `drift` of it and 2 ms. 0.01; at least 0.001.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_drift(options: *mut quorlock_client_options_t, drift: f64) -> i32 {
    set(options, |b| Ok(b.drift(drift)))
}

/// The fraction of the ttl that must be left when a lease is won. 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_min_validity(
    options: *mut quorlock_client_options_t, min_validity: f64,
) -> i32 {
    set(options, |b| Ok(b.min_validity(min_validity)))
}

/// Prefix of every key. "lock:".
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_namespace(
    options: *mut quorlock_client_options_t, text: *const c_char, len: usize,
) -> i32 {
    set(options, |b| Ok(b.namespace(handle::text(text, len, "namespace")?)))
}

/// Text stored with the token, to tell who holds a lock; empty for none.
/// "host:pid".
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_label(
    options: *mut quorlock_client_options_t, text: *const c_char, len: usize,
) -> i32 {
    set(options, |b| Ok(b.label(handle::text(text, len, "label")?)))
}

/// Certificates that vouch for rediss:// nodes, in place of the system's: the
/// path of a PEM file, or its text.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_ca(
    options: *mut quorlock_client_options_t, text: *const c_char, len: usize,
) -> i32 {
    set(options, |b| Ok(b.ca(handle::text(text, len, "ca")?)))
}

/// The client's certificate: the path of a PEM file, or its text. Goes with
/// quorlock_client_options_set_key().
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_cert(
    options: *mut quorlock_client_options_t, text: *const c_char, len: usize,
) -> i32 {
    set(options, |b| Ok(b.cert(handle::text(text, len, "cert")?)))
}

/// The key of the client's certificate: the path of a PEM file, or its text.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_set_key(
    options: *mut quorlock_client_options_t, text: *const c_char, len: usize,
) -> i32 {
    set(options, |b| Ok(b.key(handle::text(text, len, "key")?)))
}
