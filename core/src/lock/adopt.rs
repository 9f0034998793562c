//! A lease that was another client's, and goes on here.

use std::sync::Arc;
use std::time::Duration;

use super::Lock;
use crate::client::shared::ClientCore;
use crate::config::{Layout, MIN_TTL};
use crate::error::{Error, ErrorKind, shown};
use crate::export::LeaseText;
use crate::foreign;
use crate::lease::Lease;
use crate::node::names::Naming;
use crate::node::{Adoption, Keys};
use crate::protocol::adopt;
use crate::protocol::force::ban_for;

impl Lock {
    /// The lock of an exported lease, with its terms.
    pub(crate) fn of_export(client: Arc<ClientCore>, exported: &LeaseText) -> Result<Lock, Error> {
        let settings = &client.settings;
        let set = (&*settings.set_name, settings.nodes.len() as u64);
        if set != (&exported.set_name, exported.nodes) {
            return Err(Error::invalid(format!(
                "the lease was exported by a client of the set `{}` with {} nodes, and this one's \
                 is `{}` with {}",
                foreign::excerpt(&exported.set_name),
                exported.nodes,
                set.0,
                set.1
            )));
        }
        let mut options = settings.lock.clone();
        options.shared = false;
        options.owner = None;
        options.once = None;
        options.slots = exported.slot.map(|slot| slot.saturating_add(1));
        options.raw = exported.naming() == Naming::Raw;
        options.layout = Layout::Plain;
        options.fencing = exported.fence != 0;
        options.renew = exported.renew;
        options.keep = Duration::ZERO;
        // Late requests of the client that exported it do nothing, as those of a lease that is
        // forced out.
        let adopted = Adoption {
            value: exported.value.clone(),
            ban: ban_for(settings.max_ttl(), 2 * settings.node_timeout),
        };
        let lock = Lock::with(client, exported.name.clone(), options);
        let max_hold = exported.max_hold;
        if max_hold.is_some_and(|left| left < MIN_TTL) {
            return Err(lock.held_enough());
        }
        // What is left of it may be less than the ttl.
        let ttl = max_hold.map_or(exported.ttl, |left| exported.ttl.min(left));
        let lock = lock.ttl(ttl).max_hold(max_hold);
        let keys = lock.keys.as_ref().map_err(Error::clone)?;
        let keys = match exported.slot {
            Some(slot) => keys.of_slot(slot),
            None => Keys::clone(keys),
        };
        let queue = keys.aux.queue();
        if queue != exported.queue {
            return Err(Error::invalid(format!(
                "the lease of the lock {} was exported from another namespace: its queue is {}, and \
                 here it would be {}",
                shown(&exported.name),
                shown(&exported.queue),
                shown(queue)
            )));
        }
        let keys = Keys {
            adopts: Some(Box::new(adopted)),
            ..keys
        };
        Ok(Lock {
            keys: Ok(Arc::new(keys)),
            ..lock
        })
    }

    /// Goes on with the lease.
    pub(crate) async fn adopt(&self, exported: &LeaseText) -> Result<Lease, Error> {
        let client = self.client.running()?;
        let _call = client.set.counters.call();
        client.check()?;
        self.options.check(&client.settings)?;
        let terms = self.terms(client)?;
        client.set.met().await;
        let ttl = terms.timing.ttl;
        let wait = self.options.wait.map_or(ttl, |wait| wait.min(ttl));
        let deadline = client.set.clock.now() + wait.max(2 * terms.timing.node_timeout);
        let hold = adopt::adopt(&client.set, &terms, &self.name, deadline).await?;
        let watched = client.watchdog.watch(hold.clone());
        // A client that is being closed releases what is watched over then.
        if let Err(closed) = client.check() {
            hold.release();
            return Err(closed);
        }
        let counted_on = exported.fence == 0 || hold.fence() > exported.fence;
        if !counted_on {
            hold.release();
            return Err(self.counted_anew(exported.fence));
        }
        let (share, _) = client.owners.enter(hold, watched, None);
        let lease = self.lease(client, share);
        // Looked at in the poll that hands it over: the process may have stood still, or the clock of a
        // node has stepped.
        if lease.is_held() {
            Ok(lease.handed_over())
        } else {
            Err(lease.lost_error())
        }
    }

    /// Nothing is left of `max_hold`.
    fn held_enough(&self) -> Error {
        let message = format!(
            "the lease of the lock {} had reached max_hold when it was exported",
            shown(&self.name)
        );
        Error::new(ErrorKind::LockLost, message).about(&self.name, None)
    }

    /// The nodes count fences that are not beyond the lease's own.
    fn counted_anew(&self, fence: u64) -> Error {
        let message = format!(
            "the nodes count fewer fences than {fence}, which the exported lease of the lock {} had: \
             they have lost their counters, so the lock was given back",
            shown(&self.name)
        );
        Error::new(ErrorKind::LockLost, message).about(&self.name, None)
    }
}
