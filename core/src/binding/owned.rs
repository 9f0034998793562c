//! What must not be dropped in a forked child.

use std::fmt;
use std::mem;
use std::ops::Deref;

use crate::process;

/// A part of the core, owned by the process that made it.
///
/// In a forked child it is forgotten in place of dropped: its locks may be
/// taken by threads that do not exist there, and its leases are the parent's.
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
            process: process::id(),
        }
    }

    /// Whether this process made it.
    pub fn is_ours(&self) -> bool {
        self.process == process::id()
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_forked_child_forgets_what_it_inherited() {
        let part = Arc::new(());
        let owned = Owned::new(part.clone());
        assert!(owned.is_ours());
        // SAFETY: the child calls nothing but what may be called there.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let theirs = !owned.is_ours();
                drop(owned);
                let kept = Arc::strong_count(&part) == 2;
                libc::_exit(i32::from(!(theirs && kept)));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
        }
        drop(owned);
        assert_eq!(Arc::strong_count(&part), 1);
    }
}
