//! The cancel token.

use std::future::pending;
use std::ptr;

use tokio::sync::watch;

use crate::handle::{self, Process};

/// A token that ends waits from another thread. One token may be given to many
/// calls; once used it stays so.
pub struct quorlock_cancel_t {
    process: Process,
    used: watch::Sender<bool>,
}

of_process!(quorlock_cancel_t);

impl quorlock_cancel_t {
    /// Ends when the token is used; never, if it is freed before.
    pub(crate) fn used(&self) -> impl Future<Output = ()> + use<> {
        let mut used = self.used.subscribe();
        async move {
            if used.wait_for(|used| *used).await.is_err() {
                pending().await
            }
        }
    }
}

/// A new token. Free it with quorlock_cancel_free().
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_cancel_new() -> *mut quorlock_cancel_t {
    boundary!(or ptr::null_mut(), {
        Ok(handle::boxed(quorlock_cancel_t {
            process: Process::current(),
            used: watch::Sender::new(false),
        }))
    })
}

/// Ends every wait that was given the token, and those that will be: they return
/// #QUORLOCK_CANCELLED, and no key stays behind. For any thread, but not for a
/// signal handler. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_cancel(cancel: *const quorlock_cancel_t) {
    boundary!({
        handle::borrow(cancel, "cancel")?.used.send_replace(true);
        Ok(())
    });
}

/// Frees a token. NULL is allowed. Calls under way that were given it go on, and
/// cannot be cancelled any more.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_cancel_free(cancel: *mut quorlock_cancel_t) {
    boundary!({ handle::free(cancel) });
}
