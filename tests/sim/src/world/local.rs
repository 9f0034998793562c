//! What one thread alone has, although the core's traits take it for shared.
//!
//! A schedule runs on one thread, and asks for its world some ten thousand
//! times: locks were a sixth of its time.

use std::cell::{RefCell, RefMut};

thread_local!(static HERE: u8 = const { 0 });

/// A `RefCell` that panics on any thread but its own.
pub(super) struct Local<T> {
    /// Where its thread keeps its `HERE`.
    owner: usize,
    cell: RefCell<T>,
}

// SAFETY: `get` is the only way to the cell's borrow count and to its value by
// reference, and lets the thread in that made it. A thread that has its address
// of `HERE` after it has ended finds it as if it had been sent there, as the
// last owner does who drops it: T is Send.
unsafe impl<T: Send> Sync for Local<T> {}

impl<T> Local<T> {
    pub(super) fn new(value: T) -> Local<T> {
        Local {
            owner: here(),
            cell: RefCell::new(value),
        }
    }

    pub(super) fn get(&self) -> RefMut<'_, T> {
        assert_eq!(self.owner, here(), "a world on another thread than its own");
        self.cell.borrow_mut()
    }
}

fn here() -> usize {
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_is_not_let_in() {
        let local = Local::new(1);
        *local.get() += 1;
        let other = |local: &Local<i32>| *local.get();
        assert_eq!(other(&local), 2);
        std::thread::scope(|scope| {
            let entered = scope.spawn(|| other(&local)).join();
            assert!(entered.is_err());
        });
    }
}
