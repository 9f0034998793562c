//! Quorlock for C: conversion only, no policy. What users see is
//! `include/quorlock.h`, made from the comments here by cbindgen; the
//! conventions are in its head, and in README.md.
//!
//! The modules stand in the order of the header: first what every export is
//! made of, then one file for each thing that C knows.

// Exports are not `unsafe fn`, for nothing in Rust calls them: what a caller in
// C must keep to is the header's contract.
#![allow(clippy::not_unsafe_ptr_arg_deref)]
// Nor is anything here printed by Rust: an opaque type is one.
#![allow(missing_debug_implementations)]
// Names as C sees them.
#![allow(non_camel_case_types)]

#[macro_use]
mod boundary;
mod callback;
mod handle;
mod options;

pub mod version;

pub mod kind;

pub mod error;

pub mod client_options;

pub mod client;

pub mod lock_options;

pub mod cancel;

pub mod time;

pub mod lock;

pub mod lease;

pub mod queue;

pub mod start;

pub mod several;

pub mod inspection;

pub mod election;

pub mod probe;

pub mod metrics;

pub mod process;
