//! A client whose nodes, time and turns are the simulator's.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use once_cell::sync::OnceCell;

use super::inner::Inner;
use super::{Client, ClientBuilder};
use crate::inbox::Inbox;
use crate::node::Waits;
use crate::node::tls::Tls;
use crate::reentry::Owners;
use crate::renewal::Watchdog;
use crate::runtime::Runtime;
use crate::set::Set;

/// Never entered: a simulated client has a handle of it and starts nothing there.
static NOBODYS: OnceCell<tokio::runtime::Runtime> = OnceCell::new();

impl ClientBuilder {
    /// For the simulator: a client of `set`, whose waiters hear of their turn over
    /// `inbox`, and whose leases `watchdog` renews while somebody runs it. Nodes keep
    /// lines as `waits` says. Options are not checked here, but those of a lock are
    /// when it is used.
    pub fn simulated(
        self,
        set: Arc<Set>,
        inbox: Arc<Inbox>,
        watchdog: Arc<Watchdog>,
        waits: Waits,
    ) -> Client {
        let never_entered = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.build().expect("a runtime without drivers")
        };
        Client {
            inner: Arc::new(Inner {
                set,
                settings: self.settings,
                waits,
                owners: Owners::default(),
                lines: Arc::default(),
                inbox,
                watchdog,
                runtime: Runtime::get(),
                io: NOBODYS.get_or_init(never_entered).handle().clone(),
                tls: Tls::default(),
                closed: AtomicBool::new(false),
                process: crate::process::id(),
            }),
        }
    }
}
