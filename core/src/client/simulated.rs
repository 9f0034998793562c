//! A client whose nodes, time and turns are the simulator's.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use once_cell::sync::OnceCell;

use super::inner::Inner;
use super::shared::ClientCore;
use super::{Client, ClientBuilder};
use crate::node::Waits;
use crate::node::redis::tls::Tls;
use crate::protocol::acquire::inbox::Inbox;
use crate::protocol::heartbeat::Heartbeat;
use crate::protocol::order::Order;
use crate::protocol::reentry::Owners;
use crate::protocol::renewal::Watchdog;
use crate::protocol::set::Set;
use crate::runtime::Runtime;
use crate::runtime::task::Io;

/// Never entered: a simulated client has a handle of it and starts nothing there.
static NOBODYS: OnceCell<tokio::runtime::Runtime> = OnceCell::new();

impl ClientBuilder {
    /// For the simulator: a client of `set`, whose waiters hear of their turn over `inbox`, and
    /// whose leases `watchdog` renews while the simulator runs it. Nodes keep queues as `waits`
    /// says. Options are not checked here, but those of a lock are when it is used.
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
        let heartbeat = Heartbeat::new(set.clone(), self.settings.node_timeout);
        let inner = Inner {
            set,
            settings: self.settings,
            owners: Owners::default(),
            order: Order::default(),
            lines: Arc::default(),
            inbox,
            watchdog,
            heartbeat,
            runtime: Runtime::get(),
            io: Io {
                handle: NOBODYS.get_or_init(never_entered).handle().clone(),
                driver: None,
            },
            process_label: Arc::default(),
            tls: Tls::default(),
            closed: AtomicBool::new(false),
            gone: Arc::default(),
            process: crate::process::id(),
            ours: false,
            registered: None,
        };
        Client {
            shared: Arc::new(ClientCore::started_as(inner, waits)),
        }
    }
}
