//! The specification as a program, and the checker of traces: see README.md beside.

pub mod graph;
pub mod spec;
pub mod trace;
