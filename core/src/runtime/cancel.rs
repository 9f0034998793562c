//! Keeps POSIX cancellation of a thread out of the library's code. A thread of a C program that is
//! cancelled in a system call of ours would be unwound through frames that cannot be; so it is
//! cancelled when it has left them.

pub(super) type CancelState = libc::c_int;

/// `PTHREAD_CANCEL_DISABLE`, which libc does not name everywhere.
pub(super) const DISABLED: CancelState = if cfg!(target_os = "linux") { 1 } else { 0 };

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
unsafe extern "C" {
    fn pthread_setcancelstate(new: CancelState, old: *mut CancelState) -> libc::c_int;
}

/// While it lives, the calling thread is not cancelled.
#[derive(Debug)]
pub struct CancelShield(CancelState);

impl CancelShield {
    /// From now on.
    #[allow(clippy::new_without_default, reason = "it does something")]
    pub fn new() -> CancelShield {
        CancelShield(set(DISABLED))
    }
}

impl Drop for CancelShield {
    fn drop(&mut self) {
        set(self.0);
    }
}

/// Sets the calling thread's state and returns the previous one.
pub(super) fn set(state: CancelState) -> CancelState {
    #[cfg_attr(
        not(any(target_os = "linux", target_vendor = "apple")),
        allow(unused_mut)
    )]
    let mut before = state;
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    // SAFETY: `before` is an int to write to.
    unsafe {
        pthread_setcancelstate(state, &mut before)
    };
    before
}
