//! A callback that C gave, kept in a [`Slot`]: over when it has been taken back.

use std::ffi::c_void;

pub(crate) use quorlock_core::binding::Slot;

/// A function of C's, and what it wants back with every call.
#[derive(Clone, Copy)]
pub(crate) struct Callback<F> {
    pub(crate) function: F,
    pub(crate) userdata: *mut c_void,
}

// SAFETY: the pointer is never looked at here; that another thread gets it back
// is what the header says.
unsafe impl<F: Send> Send for Callback<F> {}
