//! What must not be dropped in a forked child.

use std::fmt;
use std::mem;
use std::ops::Deref;

/// For bindings: a part of the core, owned by the process that made it.
///
/// In a forked child it is forgotten in place of dropped: its locks may be
/// taken by threads that do not exist there, and its leases are the parent's.
#[doc(hidden)]
pub struct Owned<T> {
    /// Empty only while it is dropped.
    value: Option<T>,
    process: u32,
}

impl<T> Owned<T> {
    /// Owned by this process.
    pub fn new(value: T) -> Owned<T> {
        Owned {
            value: Some(value),
            process: std::process::id(),
        }
    }

    /// Whether this process made it.
    pub fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("emptied by drop only")
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.is_ours() {
            mem::forget(self.value.take());
        }
    }
}

impl<T> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owned")
    }
}
