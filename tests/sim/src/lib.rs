//! The simulator: Quorlock from its front door down, over memory nodes, in
//! virtual time, from a seed.
//!
//! | module | one idea |
//! |---|---|
//! | [`plan`] | what a seed stands for: sizes, times, which faults, when |
//! | [`scene`] | several faults in one order, for bugs that need it |
//! | [`schedule`] | one schedule from its seed to its verdict |
//! | [`contender`] | what one user of the lock does, and what it must be told |
//! | `candidate` | what a candidate of an election does, and the work of a leader |
//! | [`death`] | tasks of ours that end where they wait |
//! | `several` | what a user does who wants several locks at once |
//! | [`program`] | what several handles and tasks of a user do at once with one lease |
//! | [`neighbour`] | locks of another namespace or layout, beside those of all schedules |
//! | [`history`] | what happened, in words and raw |
//! | [`without`] | the parts of a schedule, which can be taken away |
//! | [`script`] | who drew what, so that all others go on to draw it |
//! | [`shrink`] | the search for a shorter schedule that breaks the same promise |
//! | [`world`] | virtual time, nodes, the network, faults; the oracle over them |
//! | [`server`] | a server as its clients see it: commands and replies as bytes |
//!
//! There are two [layers](schedule::Layer). Over *links* requests and replies are whole:
//! fast, and an imitation of the real link. Over *bytes* (`--bytes`) clients have the
//! real link, from its outbox down to RESP, and the world makes its streams and the
//! servers behind them (`world::bytes`). The same seed stands for the same plan on both.
//!
//! Faults come as a swarm: each schedule draws which kinds it has, and they
//! come in episodes that often begin or end where something else is due.
//! Messages and contenders aim at such moments too, for faults that are spread
//! evenly miss bugs (`edges`).
//!
//! What is checked, by the design's names: S1 exclusion, S2 fences, S3 no
//! theft, S4 honest validity, S5 loss is told and final, L1 no leak, L2 no
//! deadlock, L3 honest errors, L5 bounded; L6 what a link promises
//! (`world::bytes::judge`). The oracle judges what the faults of a schedule leave
//! promised: see `world::oracle`. L4, no lost wake-up, has a judge of its own,
//! [`world::line`], for schedules whose contenders wait on the nodes; L7, that no
//! newcomer passes a live queue, is judged at each vote and win (`world::oracle::order`).
//! K1, of locks that are kept; HL1, that each loss is told; AD1, AD2, AD3, of leases that
//! are exported; FR1, of locks that are taken away; LN1, LN2, of locks beside each other: in `world::oracle`, each in a file of its own.

mod candidate;
pub mod cluster;
pub mod contender;
pub mod death;
pub mod history;
pub mod mutants;
pub mod neighbour;
pub mod plan;
pub mod program;
pub mod random;
pub mod scene;
pub mod schedule;
pub mod script;
pub mod server;
mod several;
pub mod shrink;
mod tail;
pub mod trace;
pub mod who;
pub mod without;
pub mod world;
