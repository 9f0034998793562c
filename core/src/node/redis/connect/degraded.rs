//! What a server may lack that locks can do without: the log reports it when the server is met,
//! once.

use std::sync::atomic::{AtomicBool, Ordering};

use super::target::Target;
use crate::event::event;
use crate::node::admission::Info;

/// The warning about a server that reports no `run_id`.
pub(crate) const RUNLESS: &str = "tells no run_id, so only its record tells a restart: one after which the record is \
     there and the last votes are not goes unseen";
/// The warning about a server that does not report its own address.
pub(crate) const PLACELESS: &str = "does not tell its own address (CLIENT INFO, laddr), so a lease gets no vote back from it \
     while it is in quarantine";

/// Whether a server has answered `INFO`, and tells no run.
pub(super) fn is_runless(info: &Info) -> bool {
    info.run.is_none() && *info != Info::default()
}

/// Warns of what a server lacks, by its `INFO` and the address that it reports of itself; 0 where
/// it reports none. A client without a guard asks for neither.
pub(super) fn tell(target: &Target, info: &Info, own_address: u64) {
    let gate = &target.gate;
    let once = |lacks: bool, told: &AtomicBool, what: &str| {
        if lacks && !told.swap(true, Ordering::Relaxed) {
            (gate.warn)(event!(
                "node_degraded",
                "the node {node} {reason}",
                node = target.address.shown,
                reason = what,
            ));
        }
    };
    if gate.expected().guard {
        once(is_runless(info), &gate.told_runless, RUNLESS);
        once(own_address == 0, &gate.told_placeless, PLACELESS);
    }
}
