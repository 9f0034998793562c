//! What the nodes have of a lock, as plain objects. What they mean stands in
//! `inspection.ts`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use napi_derive::napi;

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn epoch(time: SystemTime) -> Option<f64> {
    time.duration_since(UNIX_EPOCH).ok().map(millis)
}

/// Who holds a lock. Times in milliseconds, `since` those since the epoch.
#[napi(object, object_from_js = false, use_nullable = true)]
pub struct Holder {
    pub label: Option<String>,
    pub votes: u32,
    pub left: Option<f64>,
    pub since: Option<f64>,
    pub fence: Option<i64>,
}

/// What one node has of it.
#[napi(object, object_from_js = false, use_nullable = true)]
pub struct NodeView {
    pub node: String,
    pub state: &'static str,
    pub label: Option<String>,
    pub left: Option<f64>,
    pub fence: Option<i64>,
    pub queued: u32,
    pub quarantine: f64,
    pub error: Option<String>,
}

/// What all of them have.
#[napi(object, object_from_js = false, use_nullable = true)]
pub struct Inspection {
    pub verdict: &'static str,
    pub holder: Option<Holder>,
    pub fence: Option<i64>,
    pub queued: u32,
    pub nodes: Vec<NodeView>,
    pub slots_held: u32,
    pub slot: Option<u32>,
    pub slots: Vec<Inspection>,
}

/// What a forced release has met and done.
#[napi(object, object_from_js = false)]
pub struct Forced {
    pub found: Inspection,
    pub freed: u32,
}

impl From<&quorlock::Forced> for Forced {
    fn from(forced: &quorlock::Forced) -> Forced {
        Forced {
            found: Inspection::from(forced.found()),
            freed: forced.freed() as u32,
        }
    }
}

impl From<&quorlock::Holder> for Holder {
    fn from(holder: &quorlock::Holder) -> Holder {
        Holder {
            label: holder.label().map(Into::into),
            votes: holder.votes() as u32,
            left: holder.left().map(millis),
            since: holder.since().and_then(epoch),
            fence: holder.fence().map(|fence| fence as i64),
        }
    }
}

impl From<&quorlock::NodeView> for NodeView {
    fn from(view: &quorlock::NodeView) -> NodeView {
        NodeView {
            node: view.node().into(),
            state: view.state(),
            label: view.label().map(Into::into),
            left: view.left().map(millis),
            fence: view.fence().map(|fence| fence as i64),
            queued: view.queued(),
            quarantine: millis(view.quarantine()),
            error: view.error().map(Into::into),
        }
    }
}

impl From<&quorlock::Inspection> for Inspection {
    fn from(found: &quorlock::Inspection) -> Inspection {
        Inspection {
            verdict: found.verdict().as_str(),
            holder: found.holder().map(Holder::from),
            fence: found.fence().map(|fence| fence as i64),
            queued: found.queued(),
            nodes: found.nodes().iter().map(NodeView::from).collect(),
            slots_held: found.slots_held(),
            slot: found.slot(),
            slots: found.slots().iter().map(Inspection::from).collect(),
        }
    }
}
