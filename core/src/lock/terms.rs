//! What a lock asks the nodes for with one token.

use super::Lock;
use crate::client::inner::Inner;
use crate::config::Layout;
use crate::error::Error;
use crate::node::names::Naming;
use crate::node::{Field, Keys};
use crate::owner::Owner;
use crate::protocol::claim::LockParams;
use crate::protocol::group::Group;
use std::sync::Arc;

impl Lock {
    /// By which metrics tell it from others.
    pub(super) fn measured_group(&self) -> Result<Group, Error> {
        Ok(self.options.group.clone()?.of_mode(self.options.mode()))
    }

    /// What is asked of the nodes.
    pub(super) fn terms(&self, client: &Inner) -> Result<LockParams, Error> {
        let times = self.times();
        Ok(LockParams {
            keys: self.asked_for(client)?,
            label: match self.options.naming() {
                Naming::Tagged => {
                    let label = self.options.label.as_ref();
                    label.unwrap_or(&client.process_label).clone()
                }
                Naming::Raw => Arc::default(),
            },
            timing: client.settings.timing(times.ttl),
            drift: client.settings.drift,
            asked: self.options.asked(times),
            bound: match &self.options.owner {
                Some(owner) => owner.bound(),
                None => self.options.acquirer.clone(),
            },
            group: self.measured_group()?,
        })
    }

    /// The keys, and in Redisson's layout by which owner they are asked for.
    fn asked_for(&self, client: &Inner) -> Result<Arc<Keys>, Error> {
        let keys = self.keys.clone()?;
        Ok(match self.options.layout {
            Layout::Plain => keys,
            Layout::Redisson => Arc::new(Keys {
                field: Some(match self.options.owner.as_ref().and_then(Owner::name) {
                    Some(name) => Field {
                        name: name.into(),
                        shared: true,
                    },
                    None => Field {
                        name: client.inbox.owner().into(),
                        shared: false,
                    },
                }),
                ..Keys::clone(&keys)
            }),
        })
    }
}
