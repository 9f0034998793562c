//! Options as TypeScript gives them: only those that were given. What they mean
//! stands in `options.ts`.

use std::time::Duration;

use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;
use quorlock::{ClientBuilder, Error, Lock, Owner};

use crate::failure::invalid;

/// Options of a lock; a client's are the defaults of its locks. Times are in
/// milliseconds, infinity is no limit.
#[napi(object, object_to_js = false)]
pub struct LockOptions {
    /// Of a job that is to run once in each such time. Before the others, which win.
    pub every: Option<f64>,
    /// Of an election. Before the others, too.
    pub election: Option<bool>,
    // Made from core/options.toml: fields of the options of a lock.
    pub ttl: Option<f64>,
    pub wait: Option<f64>,
    pub renew: Option<bool>,
    pub max_hold: Option<f64>,
    pub raw: Option<bool>,
    pub layout: Option<String>,
    pub label: Option<String>,
    pub fencing: Option<bool>,
    pub max_waiters: Option<u32>,
    pub fair: Option<bool>,
    pub keep: Option<f64>,
    pub group: Option<String>,
    pub shared: Option<bool>,
    pub slots: Option<u32>,
    pub owner: Option<Uint8Array>,
    pub confirm: Option<bool>,
    // End of what is made.
}

/// Options that only a client has.
#[napi(object, object_to_js = false)]
pub struct ClientOptions {
    /// What `QUORLOCK_NODES` says, where no nodes were given.
    pub environment: Option<Vec<Vec<String>>>,
    // Made from core/options.toml: fields of the options of a client.
    pub nodes: Option<Vec<String>>,
    pub max_ttl: Option<f64>,
    pub node_timeout: Option<f64>,
    pub connect_timeout: Option<f64>,
    pub drift: Option<f64>,
    pub min_validity: Option<f64>,
    pub namespace: Option<String>,
    pub fence_ttl: Option<f64>,
    pub set_name: Option<String>,
    pub restart_guard: Option<String>,
    pub accept_eviction: Option<bool>,
    pub wait_replicas: Option<u32>,
    pub ca: Option<String>,
    pub cert: Option<String>,
    pub key: Option<String>,
    // End of what is made.
}

/// A time in milliseconds.
pub(crate) fn time(name: &str, milliseconds: f64) -> Result<Duration, Error> {
    bounded(name, milliseconds, "give a time in milliseconds, 0 or more")
}

/// A time in milliseconds, or infinity for no limit.
pub(crate) fn limit(name: &str, milliseconds: f64) -> Result<Option<Duration>, Error> {
    let remedy = "give a time in milliseconds, 0 or more, or null for no limit";
    if milliseconds == f64::INFINITY {
        Ok(None)
    } else {
        bounded(name, milliseconds, remedy).map(Some)
    }
}

fn bounded(name: &str, milliseconds: f64, remedy: &str) -> Result<Duration, Error> {
    Duration::try_from_secs_f64(milliseconds / 1000.0)
        .map_err(|_| invalid(format!("{name} is {}: {remedy}", spelled(milliseconds))))
}

/// A number as JavaScript writes it.
fn spelled(number: f64) -> String {
    match number {
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        _ if number.abs() >= 1e21 => format!("{number:e}").replace('e', "e+"),
        _ => number.to_string(),
    }
}

/// A variable and what it says.
fn pair(both: Vec<String>) -> Option<(String, String)> {
    <[String; 2]>::try_from(both)
        .ok()
        .map(|[name, said]| (name, said))
}

/// Sets what was given.
macro_rules! set {
    ($options:ident, $to:ident: $($option:ident = |$given:ident| $value:expr,)*) => {
        $(if let Some($given) = &$options.$option {
            $to = $to.$option($value);
        })*
    };
}

/// A client and a lock name the options of a lock alike.
macro_rules! set_lock {
    ($options:ident, $to:ident) => {
        set! { $options, $to:
            // Made from core/options.toml: what sets the options of a client and a lock.
            ttl = |given| time("ttl", *given)?,
            wait = |given| limit("wait", *given)?,
            renew = |given| *given,
            max_hold = |given| limit("maxHold", *given)?,
            raw = |given| *given,
            layout = |given| given.parse()?,
            label = |given| given.clone(),
            fencing = |given| *given,
            max_waiters = |given| *given as usize,
            fair = |given| *given,
            keep = |given| time("keep", *given)?,
            group = |given| given.clone(),
            // End of what is made.
        }
    };
}

impl ClientOptions {
    pub(crate) fn apply(self, mut to: ClientBuilder) -> Result<ClientBuilder, Error> {
        set! { self, to:
            environment = |given| given.iter().cloned().filter_map(pair),
            // Made from core/options.toml: what sets the options of a client alone.
            nodes = |given| given.clone(),
            max_ttl = |given| time("maxTtl", *given)?,
            node_timeout = |given| time("nodeTimeout", *given)?,
            connect_timeout = |given| time("connectTimeout", *given)?,
            drift = |given| *given,
            min_validity = |given| *given,
            namespace = |given| given.clone(),
            fence_ttl = |given| time("fenceTtl", *given)?,
            set_name = |given| given.clone(),
            restart_guard = |given| given.parse()?,
            accept_eviction = |given| *given,
            wait_replicas = |given| *given as usize,
            ca = |given| given.clone(),
            cert = |given| given.clone(),
            key = |given| given.clone(),
            // End of what is made.
        }
        Ok(to)
    }
}

impl LockOptions {
    pub(crate) fn apply_to_client(self, mut to: ClientBuilder) -> Result<ClientBuilder, Error> {
        set_lock! { self, to }
        Ok(to)
    }

    pub(crate) fn apply(&self, mut to: Lock) -> Result<Lock, Error> {
        if let Some(every) = self.every {
            to = to.once(time("every", every)?);
        }
        if self.election == Some(true) {
            to = to.for_election();
        }
        set_lock! { self, to }
        set! { self, to:
            // Made from core/options.toml: what sets the options of one lock.
            shared = |given| *given,
            slots = |given| *given,
            owner = |given| Owner::named(given.to_vec()),
            confirm = |given| *given,
            // End of what is made.
        }
        Ok(to)
    }
}
