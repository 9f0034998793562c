//! Compares the options of a request with those of the lease that it enters again. Pure.

use std::time::Duration;

use super::{LockOptions, Times};
use crate::protocol::asked::LeaseOptions;

impl LockOptions {
    /// What of the options is compared with other requests. `times` are theirs.
    pub(crate) fn asked(&self, times: Times) -> LeaseOptions {
        LeaseOptions {
            // Made from core/options.toml: what a lock asks for.
            ttl: times.ttl,
            renew: self.renew,
            max_hold: times.max_hold,
            fencing: self.fencing,
            fair: self.fair,
            keep: self.keep,
            // End of what is made.
        }
    }

    /// What these options ask for that a lease which `has` something else does not have: each with
    /// both values. An option that is as the client has it was not given, and asks for nothing.
    pub(crate) fn overruled(
        &self,
        times: Times,
        has: &LeaseOptions,
        client: &LockOptions,
    ) -> Vec<String> {
        let asks = self.asked(times);
        let mut differ = Vec::new();
        // Made from core/options.toml: how it differs.
        if self.ttl != client.ttl && asks.ttl != has.ttl {
            let (has, asks) = (has.ttl, asks.ttl);
            differ.push(format!("ttl ({has:?}, not {asks:?})"));
        }
        if self.renew != client.renew && asks.renew != has.renew {
            let (has, asks) = (has.renew, asks.renew);
            differ.push(format!("renew ({has:?}, not {asks:?})"));
        }
        if self.max_hold != client.max_hold && asks.max_hold != has.max_hold {
            let (has, asks) = (limit(has.max_hold), limit(asks.max_hold));
            differ.push(format!("max_hold ({has}, not {asks})"));
        }
        if self.fencing != client.fencing && asks.fencing != has.fencing {
            let (has, asks) = (has.fencing, asks.fencing);
            differ.push(format!("fencing ({has:?}, not {asks:?})"));
        }
        if self.fair != client.fair && asks.fair != has.fair {
            let (has, asks) = (has.fair, asks.fair);
            differ.push(format!("fair ({has:?}, not {asks:?})"));
        }
        if self.keep != client.keep && asks.keep != has.keep {
            let (has, asks) = (has.keep, asks.keep);
            differ.push(format!("keep ({has:?}, not {asks:?})"));
        }
        // End of what is made.
        differ
    }
}

fn limit(time: Option<Duration>) -> String {
    time.map_or_else(|| "none".into(), |time| format!("{time:?}"))
}
