//! The client.

use std::collections::BTreeMap;

use napi::Either;
use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;
use quorlock::Client as Core;

use crate::failure::{Failure, entry};
use crate::lock::Lock;
use crate::options::{ClientOptions, LockOptions};
use crate::port::Port;
use crate::queue::Value;

/// A client of the core.
#[napi]
pub struct Client {
    core: Core,
}

/// Makes a client.
#[napi(catch_unwind)]
pub fn client(options: ClientOptions, locks: LockOptions) -> Either<Client, Failure> {
    entry(|| {
        let builder = locks.apply_to_client(options.apply(Core::builder())?)?;
        builder.build().map(|core| Client { core })
    })
}

#[napi]
impl Client {
    /// Makes a lock, checked.
    #[napi(catch_unwind)]
    pub fn lock(&self, name: Uint8Array, options: LockOptions) -> Either<Lock, Failure> {
        entry(|| Lock::new(self.core.lock(name.to_vec()), options))
    }

    /// What has happened so far: counts by name.
    #[napi(catch_unwind)]
    pub fn stats(&self) -> Either<BTreeMap<&'static str, i64>, Failure> {
        entry(|| {
            let stats = self.core.stats();
            let counts = [
                ("acquired", stats.acquired),
                ("reentered", stats.reentered),
                ("attemptsLost", stats.attempts_lost),
                ("timeoutsAwaited", stats.timeouts_awaited),
                ("released", stats.released),
                ("lost", stats.lost),
                ("renewals", stats.renewals),
                ("repairs", stats.repairs),
                ("releasesPending", stats.releases_pending),
                ("connects", stats.connects),
            ];
            Ok(counts.map(|(name, count)| (name, count as i64)).into())
        })
    }

    /// Closes it.
    #[napi(catch_unwind)]
    pub fn close(&self, port: &Port, number: i64) -> Option<Failure> {
        let core = self.core.clone();
        port.start(number, false, async move {
            core.close().await;
            Ok(Value::Nothing)
        })
    }

    /// Its nodes, without credentials.
    #[napi(catch_unwind)]
    pub fn describe(&self) -> String {
        format!("{:?}", self.core)
    }
}
