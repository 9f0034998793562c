//! The error object.

use std::ffi::{CString, c_char};
use std::ptr;

use quorlock_core::Error;

use crate::handle::{self, Handle};

/// What went wrong in a call: a kind, a message that says what to do, and what
/// each node answered. Made by calls that fail; free it with
/// quorlock_error_free(). Its texts are UTF-8, end with NUL, hold no passwords
/// and no tokens, and live as long as it does.
pub struct quorlock_error_t {
    kind: i32,
    message: CString,
    text: CString,
    nodes: Vec<(CString, CString)>,
    name: Option<Vec<u8>>,
    holder: Option<CString>,
}

impl Handle for quorlock_error_t {
    const PLAIN: bool = true;
}

/// Text for C, which cannot hold a NUL.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\\0")).unwrap_or_default()
}

/// Names of numbers. They live as long as the library.
pub(crate) type Names = Vec<(i32, CString)>;

pub(crate) fn name_in(names: &'static Names, number: i32) -> *const c_char {
    let found = names.iter().find(|(named, _)| *named == number);
    found.map_or(ptr::null(), |(_, name)| name.as_ptr())
}

impl quorlock_error_t {
    pub(crate) fn new(error: &Error) -> quorlock_error_t {
        let node = |node: &quorlock_core::NodeError| (c_text(node.node()), c_text(node.message()));
        quorlock_error_t {
            kind: error.kind().number(),
            message: c_text(error.message()),
            text: c_text(&error.to_string()),
            nodes: error.nodes().iter().map(node).collect(),
            name: error.name().map(<[u8]>::to_vec),
            holder: error.holder().map(c_text),
        }
    }
}

/// Its kind: the code that the call has returned. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_error_kind(error: *const quorlock_error_t) -> i32 {
    boundary!(or 0, { Ok(handle::borrow(&error, "error")?.kind) })
}

/// Its message, without the nodes' answers: quorlock_kind_summary() of its kind, and what it is about.
/// NULL for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_error_message(error: *const quorlock_error_t) -> *const c_char {
    boundary!(or ptr::null(), { Ok(handle::borrow(&error, "error")?.message.as_ptr()) })
}

/// All of it in one line, for a log: message and every node's answer. NULL for
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_error_text(error: *const quorlock_error_t) -> *const c_char {
    boundary!(or ptr::null(), { Ok(handle::borrow(&error, "error")?.text.as_ptr()) })
}

/// How many nodes it tells of: all of the client, or none where the nodes
/// played no part.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_error_node_count(error: *const quorlock_error_t) -> usize {
    boundary!(or 0, { Ok(handle::borrow(&error, "error")?.nodes.len()) })
}

/// Address of a node, `index` counting from 0 in the order of the node list:
/// host:port or the path of a socket. NULL for an index beyond the last.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_error_node_address(error: *const quorlock_error_t, index: usize) -> *const c_char {
    boundary!(or ptr::null(), {
        Ok(handle::borrow(&error, "error")?.nodes.get(index).map_or(ptr::null(), |(address, _)| address.as_ptr()))
    })
}

/// What that node answered, or why it could not be asked. NULL for an index
/// beyond the last.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_error_node_message(error: *const quorlock_error_t, index: usize) -> *const c_char {
    boundary!(or ptr::null(), {
        Ok(handle::borrow(&error, "error")?.nodes.get(index).map_or(ptr::null(), |(_, message)| message.as_ptr()))
    })
}

/// The name of the lock that it is about: `len` bytes, without a NUL behind them. NULL,
/// and 0 bytes, where it is about none.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_error_lock_name(error: *const quorlock_error_t, len: *mut usize) -> *const c_char {
    boundary!(or ptr::null(), {
        let name = handle::borrow(&error, "error")?.name.as_deref();
        handle::put(len, "len", name.map_or(0, <[u8]>::len))?;
        Ok(name.map_or(ptr::null(), |name| name.as_ptr().cast()))
    })
}

/// The label of the lock's holder, where a node has given it; NULL else. A wait that ends
/// (#QUORLOCK_TIMEOUT) nearly always has it; a try (#QUORLOCK_CONTENDED) is mostly refused by
/// a command that does not give it: ask quorlock_lock_inspect().
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_error_holder(error: *const quorlock_error_t) -> *const c_char {
    boundary!(or ptr::null(), {
        Ok(handle::borrow(&error, "error")?.holder.as_ref().map_or(ptr::null(), |holder| holder.as_ptr()))
    })
}

/// Frees an error. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_error_free(error: *mut quorlock_error_t) {
    boundary!({ handle::free(error) });
}
