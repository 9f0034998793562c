//! A callback that C gave, kept in a [`Slot`]: over when it has been taken back.

use std::ffi::c_void;

use quorlock_core::Error;

pub(crate) use quorlock_core::binding::CallbackSlot;

use crate::handle;

/// A function of C's, and what it wants back with every call.
#[derive(Clone, Copy)]
pub(crate) struct Callback<F> {
    pub(crate) function: F,
    pub(crate) userdata: *mut c_void,
}

// SAFETY: the pointer is never looked at here; that another thread gets it back
// is what the header says.
unsafe impl<F: Send> Send for Callback<F> {}

impl<F> Callback<F> {
    /// What a call was given as its callback, which it cannot do without.
    pub(crate) fn of(function: Option<F>, userdata: *mut c_void) -> Result<Callback<F>, Error> {
        let function = function.ok_or_else(|| handle::invalid("callback is NULL"))?;
        Ok(Callback { function, userdata })
    }
}

/// The function of a loss callback.
pub(crate) type OnLoss = unsafe extern "C" fn(*mut c_void, i32);

/// A loss callback that can be taken back while the loss is on its way to it.
pub(crate) type LossSlot = CallbackSlot<Callback<OnLoss>>;

/// Calls the callback, unless it was taken back. Returns whether it was called.
pub(crate) fn tell_loss(slot: &LossSlot, state: i32) -> bool {
    let mut called = false;
    slot.run(true, |callback| {
        called = true;
        // SAFETY: by the header's contract the callback can be called with its userdata until it
        // is taken back.
        unsafe { (callback.function)(callback.userdata, state) };
    });
    called
}
