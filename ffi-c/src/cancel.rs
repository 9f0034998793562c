//! The cancel token.

use std::pin::pin;
use std::ptr;
use std::sync::Arc;

use futures_util::future::{Either, select};
use quorlock_core::{Error, ErrorKind};
use tokio::sync::watch;

use crate::handle::{self, Handle, Shareable};

/// A token that ends waits from another thread. One token may be given to many
/// calls; once used it stays so.
pub struct quorlock_cancel_t(Arc<watch::Sender<bool>>);

impl Handle for quorlock_cancel_t {
    const ANEW: &str = "token";
}

impl Shareable for quorlock_cancel_t {
    type Share = Arc<watch::Sender<bool>>;

    fn share(&self) -> Arc<watch::Sender<bool>> {
        self.0.clone()
    }
}

/// The signal of a token, or of none, for a call under way. The token may be freed meanwhile, and is then not used any more.
#[derive(Clone)]
pub(crate) struct CancelSignal(Option<watch::Receiver<bool>>);

impl CancelSignal {
    pub(crate) fn of(token: Option<&quorlock_cancel_t>) -> CancelSignal {
        CancelSignal(token.map(|token| token.0.subscribe()))
    }

    /// Does `work` unless the token is used. What was begun is undone by dropping it.
    pub(crate) async fn unless_used<T>(self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let Some(mut used) = self.0 else { return work.await };
        let used = pin!(async { used.wait_for(|used| *used).await.is_ok() });
        match select(used, pin!(work)).await {
            Either::Left((true, _)) => Err(Error::from_binding(ErrorKind::Cancelled, "the wait was cancelled")),
            Either::Left((false, work)) => work.await,
            Either::Right((result, _)) => result,
        }
    }
}

/// As [`CancelSignal::unless_used`], for a call that waits once.
pub(crate) fn unless_used<T, F: Future<Output = Result<T, Error>>>(
    token: Option<&quorlock_cancel_t>, work: F,
) -> impl Future<Output = Result<T, Error>> + use<T, F> {
    CancelSignal::of(token).unless_used(work)
}

/// A new token. Free it with quorlock_cancel_free().
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_cancel_new() -> *mut quorlock_cancel_t {
    boundary!(or ptr::null_mut(), { Ok(handle::boxed(quorlock_cancel_t(Arc::new(watch::Sender::new(false))))) })
}

/// Ends every wait that was given the token, and those that will be: they return
/// #QUORLOCK_CANCELLED, and no key stays behind. For any thread, but not for a
/// signal handler. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_cancel(cancel: *const quorlock_cancel_t) {
    boundary!({
        // A share of its own: a wait that it ends may free the token before this returns.
        handle::share(cancel, "cancel")?.send_replace(true);
        Ok(())
    });
}

/// Frees a token. NULL is allowed. Calls under way that were given it go on, and
/// cannot be cancelled any more.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_cancel_free(cancel: *mut quorlock_cancel_t) {
    boundary!({ handle::free(cancel) });
}
