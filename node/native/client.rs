//! The client.

use std::collections::BTreeMap;
use std::sync::Arc;

use napi::Either;
use napi_derive::napi;
use quorlock::Client as Core;

use crate::failure::{Failure, entry};
use crate::options::{ClientOptions, LockOptions, time};
use crate::port::Port;
use crate::queue::Value;

/// A client of the core.
#[napi]
pub struct Client {
    pub(crate) core: Arc<Core>,
}

/// Makes a client.
#[napi(catch_unwind)]
pub fn client(port: &Port, options: ClientOptions, locks: LockOptions) -> Either<Client, Failure> {
    entry(|| {
        let builder = locks.apply_to_client(options.apply(Core::builder())?)?;
        let core = Arc::new(builder.build()?);
        port.know(&core);
        Ok(Client { core })
    })
}

#[napi]
impl Client {
    /// What has happened so far: counts by name.
    #[napi(catch_unwind)]
    pub fn stats(&self) -> Either<BTreeMap<&'static str, i64>, Failure> {
        let counts = self.core.stats().named();
        entry(|| Ok(counts.map(|(name, n)| (name, n as i64)).into()))
    }

    /// Goes on with an exported lease.
    #[napi(catch_unwind)]
    pub fn adopt(&self, port: &Port, number: i64, text: String) -> Option<Failure> {
        let core = self.core.clone();
        port.start(number, true, async move {
            Ok(Value::Lease(Some(core.adopt(&text).await?)))
        })
    }

    /// Looks how it stands with its set.
    #[napi(catch_unwind)]
    pub fn probe(&self, port: &Port, number: i64) -> Option<Failure> {
        let core = self.core.clone();
        port.start(number, false, async move {
            let found = core.probe().await?;
            Ok(Value::Probe(Box::new(found)))
        })
    }

    /// Declares its set; for how much longer that gives no vote.
    #[napi(catch_unwind)]
    pub fn init_set(&self, port: &Port, number: i64, force: bool) -> Option<Failure> {
        let core = self.core.clone();
        port.start(number, false, async move {
            let left = if force {
                core.init_set_forced().await
            } else {
                core.init_set().await
            };
            left.map(|left| Value::Time(left.as_secs_f64() * 1000.0))
        })
    }

    /// Waits for this many milliseconds, or until the client is closed.
    #[napi(catch_unwind)]
    pub fn pause(&self, port: &Port, number: i64, length: f64) -> Option<Failure> {
        let core = self.core.clone();
        port.begin(number, true, time("pause", length), |length| async move {
            // Of whatever name: it is asked for nothing.
            let paused = core.election("pause").pause(length).await;
            paused.map(|()| Value::Nothing)
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
