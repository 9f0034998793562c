//! The core for Node.js. Conversion only; what users see is written in
//! TypeScript, in `src`.
//!
//! Nothing here throws: a call that fails returns a [`failure::Failure`], from
//! which TypeScript makes an error with the caller's stack. Loading it starts no
//! thread.

#![allow(
    missing_debug_implementations,
    reason = "an addon has no users in Rust"
)]

pub mod client;
mod desk;
mod election;
mod events;
mod failure;
mod inspection;
mod lease;
mod lock;
mod log;
mod options;
mod port;
mod probe;
mod queue;
mod several;
mod sink;
mod sockets;

use napi::Either;
use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;
use quorlock::ErrorKind;

use crate::failure::{Failure, entry};
use crate::port::Port;

/// Name of every error kind of the core, in the order of their numbers from 1
/// on, for the test that each has its class.
#[napi(catch_unwind)]
pub fn kinds() -> Vec<String> {
    let kinds = ErrorKind::ALL.iter();
    kinds.map(|kind| kind.name().to_owned()).collect()
}

/// A call that panics, for the test that it arrives as an error.
#[napi(catch_unwind)]
pub fn panic_at_once() -> Either<bool, Failure> {
    entry(|| panic!("a test"))
}

/// The same, where the operation `number` is carried out.
#[napi(catch_unwind)]
pub fn panic_later(port: &Port, number: i64) -> Option<Failure> {
    port.start(number, true, async { panic!("a test") })
}

/// A text that was given for an option, as messages show it.
#[napi(catch_unwind)]
pub fn given(option: String, text: String) -> String {
    quorlock::binding::given(&option, &text)
}

/// Whether nothing is shown of what was given for the option.
#[napi(catch_unwind)]
pub fn is_secret(option: String) -> bool {
    quorlock::binding::is_secret(&option)
}

/// See [`quorlock::metrics_text`].
#[napi(catch_unwind)]
pub fn metrics_text() -> Either<String, Failure> {
    entry(|| Ok(quorlock::metrics_text()))
}

/// See [`quorlock::testing::nodes`].
#[napi(catch_unwind)]
pub fn testing_nodes(count: u32) -> Vec<String> {
    quorlock::testing::nodes(count as usize)
}

/// See [`quorlock::testing::lose`].
#[napi(catch_unwind)]
pub fn testing_lose(name: Uint8Array, reason: String) -> Either<u32, Failure> {
    entry(|| {
        let lost = quorlock::testing::lose(&*name, reason.parse()?);
        Ok(lost as u32)
    })
}

/// Closes every client of the process, for its exit. Blocks for at most the
/// longest `node_timeout`.
#[napi(catch_unwind)]
pub fn close_all() -> Either<bool, Failure> {
    entry(|| {
        quorlock::binding::close_all();
        Ok(true)
    })
}
