//! What is said of the nodes against each other: their clocks, their number, and clients with another
//! list of them.

use std::time::Duration;

use super::found;
use crate::clock::Instant;
use crate::node::redis::connect::Diagnosis;
use crate::report::{ClockOffset, Finding, NodeReport, Severity};

/// A clock that is off by more than this is worth a note, for fences are made of it.
const CLOCK_NOTE: u64 = 1_000_000;
/// One that is off by more than this costs what fences promise where counters are lost.
const CLOCK_ERROR: u64 = 10_000_000;

/// Notes how the clocks of the nodes stand against the one in the middle.
pub(crate) fn clocks(
    reports: &mut [NodeReport],
    looked: &[Option<Diagnosis>],
    now: Instant,
    drift: f64,
) {
    let bounds: Vec<_> = looked
        .iter()
        .map(|looked| looked.as_ref()?.time.bounds(now, drift))
        .collect();
    let middle_of = |(low, high): (u64, u64)| low.midpoint(high);
    let mut known: Vec<u64> = bounds.iter().flatten().map(|b| middle_of(*b)).collect();
    known.sort_unstable();
    if known.is_empty() {
        return;
    }
    let middle = known[(known.len() - 1) / 2];
    for (report, bounds) in reports.iter_mut().zip(bounds) {
        let Some((low, high)) = bounds else { continue };
        let at = middle_of((low, high));
        let micros = (at as i64).saturating_sub(middle as i64);
        let error_micros = (high - low) / 2;
        report.clock = Some(ClockOffset {
            micros,
            error_micros,
        });
        let sure = micros.unsigned_abs().saturating_sub(error_micros);
        if sure <= CLOCK_NOTE {
            continue;
        }
        let grave = sure > CLOCK_ERROR;
        let off = Duration::from_micros(micros.unsigned_abs());
        let way = if micros > 0 { "ahead" } else { "behind" };
        report.findings.push(found(
            if grave {
                Severity::Error
            } else {
                Severity::Note
            },
            "QD11",
            format!("its clock is {off:.1?} {way} of the one in the middle of the set"),
            "let all nodes keep their time by NTP, and let that slew the clock, not step it",
        ));
    }
}

/// What is to be said of the set as a whole.
pub(crate) fn of_set(nodes: usize) -> Vec<Finding> {
    if nodes < 2 || nodes % 2 == 1 {
        return Vec::new();
    }
    vec![found(
        Severity::Note,
        "QD15",
        format!(
            "the set has {nodes} nodes: it bears the loss of {}, as one of {} does",
            (nodes - 1) / 2,
            nodes - 1
        ),
        "take an odd number: 3 or 5 are usual",
    )]
}

/// Clients that have some of the nodes in their lists, and others not.
pub(crate) fn other_list(clients: usize, listens: &str, not: &str) -> Finding {
    let (clients, listens_at) = match clients {
        1 => ("one client".to_owned(), "listens at"),
        more => (format!("{more} clients"), "listen at"),
    };
    found(
        Severity::Warning,
        "QD43",
        format!(
            "{clients} {listens_at} {listens} and not at {not}: with another list of nodes, so that \
             clients of this list are not kept out by its locks, or cut off from these nodes"
        ),
        "CLIENT LIST TYPE pubsub there says by name and address whose they are; give every client of a \
         set the same list (`quorlock explain sets`)",
    )
}
