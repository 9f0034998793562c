//! `quorlock inspect`: the holders of locks, as each node has them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::UNIX_EPOCH;

use quorlock::{Client, Holder, Inspection, Lock, NodeView, Verdict, blocking};
use serde_json::{Value, json};

use crate::args::Inspect;
use crate::connect;
use crate::exit::{self, Failure};
use crate::output::{line, object, plain, seconds};
use crate::times;

/// Shows each lock; the gravest exit code of them.
pub fn inspect(options: &Inspect) -> Result<i32, Failure> {
    let client = connect::client(&options.connection, None)?;
    let mut worst = 0;
    for name in &options.names {
        let found = blocking::wait(lock(&client, name, options.slots).inspect())?;
        if options.json {
            object(&as_object(&found))
        } else {
            show(&found)
        }
        worst = worst.max(code(found.verdict()));
    }
    Ok(worst)
}

/// The lock of that name, or the semaphore of so many slots.
pub fn lock(client: &Client, name: &OsStr, slots: Option<u32>) -> Lock {
    match slots {
        Some(slots) => client.semaphore(name.as_bytes(), slots),
        None => client.lock(name.as_bytes()),
    }
}

/// A split lock has no certain holder: a script that asks whether it is held gets no yes.
fn code(verdict: Verdict) -> i32 {
    match verdict {
        Verdict::Held | Verdict::Kept => 0,
        Verdict::Unknown => exit::NO_QUORUM,
        _ => exit::FREE,
    }
}

/// Prints a lock and its nodes for a person.
pub fn show(found: &Inspection) {
    line(&plain(&found.to_string()));
    if found.slots().is_empty() && found.slots_held() > 0 {
        let name = String::from_utf8_lossy(found.name());
        line(&format!(
            "  its slots: quorlock inspect --slots N {}",
            plain(&name)
        ));
    }
    for slot in found.slots() {
        show_slot(slot);
    }
    if !found.slots().is_empty() {
        for view in found.nodes() {
            if let Some(error) = view.error() {
                line(&format!("  {}  {}", view.node(), plain(error)));
            }
        }
        return;
    }
    if let Some(holder) = found.holder() {
        let mut parts = Vec::new();
        if let Some(long) = holder.since().and_then(|since| since.elapsed().ok()) {
            parts.push(format!("since {}", times::shown(long)));
        }
        match holder.left() {
            Some(left) => parts.push(format!("{} left unless renewed", times::shown(left))),
            None => parts.push("without an end".into()),
        }
        if let Some(fence) = holder.fence() {
            parts.push(format!("fence {fence}"));
        }
        line(&format!("  {}", parts.join(", ")));
    }
    let widest = found.nodes().iter().map(|view| view.node().len()).max();
    for view in found.nodes() {
        let width = widest.unwrap_or(0);
        line(&format!("  {:width$}  {}", view.node(), of_node(view)));
    }
}

/// One line for a slot.
fn show_slot(slot: &Inspection) {
    let mut parts = vec![slot.verdict().as_str().to_owned()];
    if let Some(holder) = slot.holder() {
        match holder.label() {
            Some(label) => parts.push(format!("by {}", plain(label))),
            None => parts.push("by somebody without a label".into()),
        }
        if let Some(long) = holder.since().and_then(|since| since.elapsed().ok()) {
            parts.push(format!("since {}", times::shown(long)));
        }
        if let Some(left) = holder.left() {
            parts.push(format!("{} left unless renewed", times::shown(left)));
        }
        if let Some(fence) = holder.fence() {
            parts.push(format!("fence {fence}"));
        }
        parts.push(format!(
            "{} of {} votes",
            holder.votes(),
            slot.nodes().len()
        ));
    }
    let number = slot.slot().unwrap_or_default();
    line(&format!("  slot {number}  {}", parts.join(", ")));
}

fn of_node(view: &NodeView) -> String {
    let mut parts = vec![view.state().to_owned()];
    if let Some(label) = view.label() {
        parts.push(format!("by {}", plain(label)));
    }
    if let Some(left) = view.left() {
        parts.push(format!("{} left", times::shown(left)));
    }
    if let Some(fence) = view.fence() {
        parts.push(format!("fence {fence}"));
    }
    if view.queued() > 0 {
        parts.push(format!("{} in the queue", view.queued()));
    }
    if !view.quarantine().is_zero() {
        parts.push(format!(
            "in quarantine for another {}",
            times::shown(view.quarantine())
        ));
    }
    if let Some(error) = view.error() {
        parts.push(plain(error));
    }
    parts.join(", ")
}

/// The same for programs, with the keys that Python's `Inspection` has.
pub fn as_object(found: &Inspection) -> Value {
    json!({
        "name": String::from_utf8_lossy(found.name()),
        "verdict": found.verdict().as_str(),
        "holder": found.holder().map(of_holder),
        "fence": found.fence(),
        "queued": found.queued(),
        "slot": found.slot(),
        "slots": found.slots().iter().map(as_object).collect::<Vec<_>>(),
        "slots_held": found.slots_held(),
        "nodes": found.nodes().iter().map(|view| json!({
            "node": view.node(),
            "state": view.state(),
            "label": view.label(),
            "left": view.left().map(seconds),
            "fence": view.fence(),
            "queued": view.queued(),
            "quarantine": seconds(view.quarantine()),
            "error": view.error(),
        })).collect::<Vec<_>>(),
    })
}

fn of_holder(holder: &Holder) -> Value {
    let since = holder
        .since()
        .and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    json!({
        "label": holder.label(),
        "votes": holder.votes(),
        "left": holder.left().map(seconds),
        "since": since.map(seconds),
        "fence": holder.fence(),
    })
}
