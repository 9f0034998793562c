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
    pub ttl: Option<f64>,
    pub wait: Option<f64>,
    pub renew: Option<bool>,
    pub max_hold: Option<f64>,
    pub raw: Option<bool>,
    pub fencing: Option<bool>,
    pub max_waiters: Option<u32>,
    pub fair: Option<bool>,
    pub keep: Option<f64>,
    pub layout: Option<String>,
    pub group: Option<String>,
    pub label: Option<String>,
    pub shared: Option<bool>,
    pub slots: Option<u32>,
    pub owner: Option<Uint8Array>,
}

/// Options that only a client has.
#[napi(object, object_to_js = false)]
pub struct ClientOptions {
    pub nodes: Option<Vec<String>>,
    /// What `QUORLOCK_NODES` says, where no nodes were given.
    pub environment: Option<Vec<Vec<String>>>,
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
}

/// A time in milliseconds.
pub(crate) fn time(name: &str, milliseconds: f64) -> Result<Duration, Error> {
    bounded(name, milliseconds, "give a time in milliseconds, 0 or more")
}

/// A time in milliseconds, or infinity for no limit.
pub(crate) fn limit(name: &str, milliseconds: f64) -> Result<Option<Duration>, Error> {
    let remedy = "give a time in milliseconds, 0 or more, or null for no limit";
    match milliseconds == f64::INFINITY {
        true => Ok(None),
        false => bounded(name, milliseconds, remedy).map(Some),
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
        $(if let Some($given) = $options.$option.clone() {
            $to = $to.$option($value);
        })*
    };
}

/// A client and a lock name the options of a lock alike.
macro_rules! set_lock {
    ($options:ident, $to:ident) => {
        set! { $options, $to:
            ttl = |given| time("ttl", given)?,
            wait = |given| limit("wait", given)?,
            renew = |given| given,
            max_hold = |given| limit("maxHold", given)?,
            raw = |given| given,
            fencing = |given| given,
            max_waiters = |given| given as usize,
            fair = |given| given,
            keep = |given| time("keep", given)?,
            layout = |given| given.parse()?,
            group = |given| given,
            label = |given| given,
        }
    };
}

impl ClientOptions {
    pub(crate) fn apply(self, mut to: ClientBuilder) -> Result<ClientBuilder, Error> {
        set! { self, to:
            nodes = |given| given,
            environment = |given| given.into_iter().filter_map(pair),
            max_ttl = |given| time("maxTtl", given)?,
            node_timeout = |given| time("nodeTimeout", given)?,
            connect_timeout = |given| time("connectTimeout", given)?,
            drift = |given| given,
            min_validity = |given| given,
            namespace = |given| given,
            fence_ttl = |given| time("fenceTtl", given)?,
            set_name = |given| given,
            restart_guard = |given| given.parse()?,
            accept_eviction = |given| given,
            wait_replicas = |given| given as usize,
            ca = |given| given,
            cert = |given| given,
            key = |given| given,
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
        set! { self, to: shared = |given| given, slots = |given| given, }
        if let Some(name) = &self.owner {
            to = to.owner(Owner::named(name.to_vec()));
        }
        Ok(to)
    }
}
