//! Turns what a probe saw of the nodes into findings, which say what is wrong and what to do. Pure.
//! Each finding has its row in docs/operations/doctor.md.

mod crowded;
mod node;
mod set;
mod stopped;
#[cfg(test)]
mod tests;

use crate::foreign;
use crate::report::{Finding, Severity};

pub(super) use node::{Terms, report, seated_twice};
pub(super) use set::{clocks, of_set, other_list};

fn found(severity: Severity, id: &'static str, what: String, remedy: &str) -> Finding {
    Finding {
        id,
        severity,
        what: foreign::message(what),
        remedy: remedy.to_owned(),
    }
}
