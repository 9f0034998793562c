//! The keys of a lock on the nodes, which follow from its name and its options.

use crate::client::shared::ClientCore;
use crate::config::{Layout, LockOptions};
use crate::error::Error;
use crate::given;
use crate::node::names::{self, Naming};
use crate::node::{Keys, Mode};
use std::sync::Arc;

/// The keys of the lock of that name.
pub(super) fn keys(
    client: &ClientCore,
    name: &[u8],
    options: &LockOptions,
) -> Result<Arc<Keys>, Error> {
    let namespace = &client.settings.namespace;
    let naming = options.naming();
    let key = names::lock_key(namespace, name, naming)?;
    if naming == Naming::Raw && client.settings.has_cluster() && !names::shares_hash_slot(&key) {
        return Err(Error::invalid(format!(
            "the lock name is {}, a key as it stands, and has braces that form no hash tag, so in a \
             cluster what goes with it would be on several servers: leave the braces out, or write \
             `{{tag}}`",
            given::shown("name", &String::from_utf8_lossy(name))
        )));
    }
    let (lock, aux) = match options.mode() {
        _ if options.layout == Layout::Redisson => {
            let aux = names::redisson(namespace, &key);
            (key, aux)
        }
        Mode::AnySlot(_) if naming == Naming::Tagged => names::semaphore(namespace, &key),
        _ => {
            let aux = names::aux(namespace, &key, naming);
            (key, aux)
        }
    };
    Ok(Arc::new(Keys {
        aux,
        lock: lock.into(),
        waits: client.waits,
        fence_ttl: options.fencing.then_some(client.fence_ttl),
        mode: options.mode(),
        adopts: None,
        field: None,
    }))
}
