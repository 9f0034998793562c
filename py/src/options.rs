//! Options as Python gives them: only those that were given, by name.

use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use quorlock::{ClientBuilder, ErrorKind, Lock, Owner};

use crate::error::{checked, refused};

pub(crate) type Options<'py> = Bound<'py, PyDict>;

/// A time in seconds.
pub(crate) fn seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let given: f64 = value
        .extract()
        .map_err(|_| PyTypeError::new_err(format!("{name} is a time in seconds")))?;
    Duration::try_from_secs_f64(given).map_err(|_| {
        refused(
            value.py(),
            ErrorKind::InvalidArgument,
            format!("{name} is {given}: give a time in seconds, 0 or more"),
        )
    })
}

/// A time in seconds, or `None` for no limit.
pub(crate) fn limit(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    (!value.is_none()).then(|| seconds(name, value)).transpose()
}

/// A number of things. The bound is that of every language.
fn count(name: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    let given = value.extract::<i64>();
    if given
        .as_ref()
        .is_err_and(|e| e.is_instance_of::<PyTypeError>(value.py()))
    {
        let given = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "{name} is a {given}: give an integer"
        )));
    }
    let count = given.ok().and_then(|given| i32::try_from(given).ok());
    match count.and_then(|count| usize::try_from(count).ok()) {
        Some(count) => Ok(count),
        None => Err(refused(
            value.py(),
            ErrorKind::InvalidArgument,
            format!("{name} is {value}: give an integer, 0 to {}", i32::MAX),
        )),
    }
}

/// A client and a lock name the options of a lock alike.
macro_rules! lock_option {
    ($to:ident, $name:ident, $value:ident) => {
        match $name {
            "ttl" => $to.ttl(seconds($name, &$value)?),
            "wait" => $to.wait(limit($name, &$value)?),
            "renew" => $to.renew($value.extract()?),
            "max_hold" => $to.max_hold(limit($name, &$value)?),
            "raw" => $to.raw($value.extract()?),
            "fencing" => $to.fencing($value.extract()?),
            "max_waiters" => $to.max_waiters(count($name, &$value)?),
            "fair" => $to.fair($value.extract()?),
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "there is no option {}",
                    $name
                )))
            }
        }
    };
}

/// A client's options. Its locks' defaults are among them.
pub(crate) fn of_client(mut to: ClientBuilder, options: &Options<'_>) -> PyResult<ClientBuilder> {
    for (name, value) in options {
        let name: &str = name.extract()?;
        to = match name {
            "nodes" => to.nodes(value.extract::<Vec<String>>()?),
            "max_ttl" => to.max_ttl(seconds(name, &value)?),
            "node_timeout" => to.node_timeout(seconds(name, &value)?),
            "drift" => to.drift(value.extract()?),
            "min_validity" => to.min_validity(value.extract()?),
            "namespace" => to.namespace(value.extract::<String>()?),
            "label" => to.label(value.extract::<String>()?),
            "fence_ttl" => to.fence_ttl(seconds(name, &value)?),
            "set_name" => to.set_name(value.extract::<String>()?),
            "restart_guard" => {
                to.restart_guard(checked(value.py(), value.extract::<&str>()?.parse())?)
            }
            "accept_eviction" => to.accept_eviction(value.extract()?),
            "ca" => to.ca(value.extract::<String>()?),
            "cert" => to.cert(value.extract::<String>()?),
            "key" => to.key(value.extract::<String>()?),
            _ => lock_option!(to, name, value),
        };
    }
    Ok(to)
}

/// A lock's options.
pub(crate) fn of_lock(mut to: Lock, options: &Options<'_>) -> PyResult<Lock> {
    for (name, value) in options {
        let name: &str = name.extract()?;
        to = match name {
            "owner" => to.owner(Owner::named(value.extract::<Vec<u8>>()?)),
            _ => lock_option!(to, name, value),
        };
    }
    Ok(to)
}
