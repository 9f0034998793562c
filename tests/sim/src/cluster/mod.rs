//! Clusters: the whole of Quorlock over the real link to a cluster, in virtual time.
//!
//! | module | one idea |
//! |---|---|
//! | `world` | virtual time, tasks, and streams between clients and servers |
//! | `servers` | the servers of a cluster: who serves which hash slot, and what stands there |
//! | `commands` | one command at one server: sent elsewhere, or carried out |
//! | [`schedule`] | what a seed stands for, the users, and the verdict |
//! | `tail` | the calm end: hand-offs in time |
//!
//! This is a world of its own, smaller than [`crate::world`]: there a node is one server, and
//! every judge knows it by that. Here a node is several, of which one serves the hash slot of a
//! lock at a time; primaries restart without their data, or die and are followed by a replica that
//! lacks the last writes; hash slots move, key by key as Redis does it; connections break,
//! servers stand still, and clusters take themselves for down.
//!
//! What is checked: S1 exclusion, S2 fences, S3 that nobody is asked who never served the hash
//! slot, L1 no leak, L2 that every lock is to be had in the end, L3 that nobody is said to have set
//! something up wrong, L4 hand-offs in time, L5 bounded.
//! Without the guard S1 is broken by restarts and failovers; the tests see to that, for it shows
//! what the guard is worth.

mod commands;
pub mod schedule;
mod servers;
mod tail;
mod world;
