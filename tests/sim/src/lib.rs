//! The simulator: Quorlock's own protocol modules over memory nodes, in
//! virtual time, from a seed.
//!
//! What is simulated: delay, loss, broken connections, pauses and crashes of
//! clients and nodes (which keep their data), clocks that run at different
//! rates. What is checked: S1 exclusion, S3 no theft, S4 honest validity, S5
//! loss is final and told, L1 no leak (the design's names).

pub mod random;
pub mod schedule;
pub mod world;
