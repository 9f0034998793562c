//! Options as Python gives them: only those that were given, by name.

use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use quorlock::binding;
use quorlock::{ClientBuilder, ErrorKind, Lock, Owner};

use crate::error::{checked, refused};

pub(crate) type Options<'py> = Bound<'py, PyDict>;

/// A time in seconds.
pub(crate) fn seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    // True would be a second.
    if value.is_exact_instance_of::<PyBool>() {
        let text = format!("{name} is {}: give a time in seconds", shown(name, value));
        return Err(PyTypeError::new_err(text));
    }
    let given = number(name, value, "a time in seconds")?;
    Duration::try_from_secs_f64(given).map_err(|_| {
        let text = format!("{name} is {given:?}: give a time in seconds, 0 or more");
        refused(value.py(), ErrorKind::InvalidArgument, text)
    })
}

/// A value that was given for an option, for a message. What may hold the URL of a node, and with
/// it a password, is named by its type alone: that is whatever is no text, number or flag. Of a text
/// the core says what is shown.
pub(crate) fn shown(option: &str, value: &Bound<'_, PyAny>) -> String {
    if let Ok(text) = value.cast::<PyString>() {
        return binding::given(option, &text.to_string_lossy());
    }
    let plain = value.is_none()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>();
    // Nor what has more digits than any number that is meant.
    let most = if binding::is_secret(option) { 5 } else { 24 };
    let repr = || value.repr().ok().map(|repr| repr.to_string());
    if plain && let Some(repr) = repr().filter(|repr| repr.len() <= most) {
        return repr;
    }
    let name = value.get_type().name().map(|name| name.to_string());
    let name = name.ok().filter(|name| name.len() <= 40);
    format!("a {}", name.unwrap_or_else(|| "?".into()))
}

/// What is refused for its type, by the name of the option.
fn typed<'py, T>(name: &str, value: &Bound<'py, PyAny>, give: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    value
        .extract()
        .map_err(|_| PyTypeError::new_err(format!("{name} is {}: give {give}", shown(name, value))))
}

fn number(name: &str, value: &Bound<'_, PyAny>, give: &str) -> PyResult<f64> {
    typed(name, value, give)
}

/// A fence. The core says which there may be; what it cannot be given is refused here.
pub(crate) fn fence(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    let whole: Bound<'_, PyInt> = typed("fence", value, "an integer")?;
    whole.extract().map_err(|_| {
        refused(
            value.py(),
            ErrorKind::InvalidArgument,
            format!(
                "fence is {}: give one that a lease had, 1 to 2^53 - 1",
                shown("fence", &whole)
            ),
        )
    })
}

/// The number of a slot, as a fence.
pub(crate) fn slot(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    let whole: Bound<'_, PyInt> = typed("slot", value, "an integer")?;
    whole.extract().map_err(|_| {
        refused(
            value.py(),
            ErrorKind::InvalidArgument,
            format!(
                "slot is {}: give the number of one, from 0 on",
                shown("slot", &whole)
            ),
        )
    })
}

fn flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    typed(name, value, "True or False")
}

pub(crate) fn text(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    typed(name, value, "text")
}

/// A certificate or key, which is not shown: whatever it is, it may hold a key.
fn pem(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let refused = |_| {
        PyTypeError::new_err(format!(
            "{name}: give the path of a PEM file, or its text, as text that has a form in UTF-8"
        ))
    };
    value.extract().map_err(refused)
}

/// Not shown: what is among them may hold a password.
fn urls(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let refused = |_| PyTypeError::new_err(format!("{name}: give URLs, each of them text"));
    value.extract().map_err(refused)
}

/// A time in seconds, or `None` for no limit.
pub(crate) fn limit(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    if value
        .extract()
        .is_ok_and(|given: f64| given == f64::INFINITY)
    {
        let text = format!("{name} is inf: give None for no limit");
        return Err(refused(value.py(), ErrorKind::InvalidArgument, text));
    }
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
            format!(
                "{name} is {}: give an integer, 0 to {}",
                shown(name, value),
                i32::MAX
            ),
        )),
    }
}

/// A number of slots. The core says which there may be.
fn slots(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    Ok(u32::try_from(count("slots", value)?).unwrap_or(u32::MAX))
}

/// A client and a lock name the options of a lock alike.
macro_rules! lock_option {
    ($to:ident, $name:ident, $value:ident) => {
        match $name {
            "ttl" => $to.ttl(seconds($name, &$value)?),
            "wait" => $to.wait(limit($name, &$value)?),
            "renew" => $to.renew(flag($name, &$value)?),
            "max_hold" => $to.max_hold(limit($name, &$value)?),
            "raw" => $to.raw(flag($name, &$value)?),
            "fencing" => $to.fencing(flag($name, &$value)?),
            "max_waiters" => $to.max_waiters(count($name, &$value)?),
            "fair" => $to.fair(flag($name, &$value)?),
            "keep" => $to.keep(seconds($name, &$value)?),
            "layout" => $to.layout(checked($value.py(), text($name, &$value)?.parse())?),
            "group" => $to.group(text($name, &$value)?),
            "label" => $to.label(text($name, &$value)?),
            _ => return Err(PyTypeError::new_err("there is no option of that name")),
        }
    };
}

/// A client's options. Its locks' defaults are among them.
pub(crate) fn of_client(mut to: ClientBuilder, options: &Options<'_>) -> PyResult<ClientBuilder> {
    for (name, value) in options {
        let name: &str = name.extract()?;
        to = match name {
            "nodes" => to.nodes(urls(name, &value)?),
            "environment" => to.environment(value.extract::<Vec<(String, String)>>()?),
            "max_ttl" => to.max_ttl(seconds(name, &value)?),
            "node_timeout" => to.node_timeout(seconds(name, &value)?),
            "connect_timeout" => to.connect_timeout(seconds(name, &value)?),
            "drift" => to.drift(number(name, &value, "a fraction, such as 0.01")?),
            "min_validity" => to.min_validity(number(name, &value, "a fraction, such as 0.01")?),
            "namespace" => to.namespace(text(name, &value)?),
            "fence_ttl" => to.fence_ttl(seconds(name, &value)?),
            "set_name" => to.set_name(text(name, &value)?),
            "restart_guard" => to.restart_guard(checked(value.py(), text(name, &value)?.parse())?),
            "accept_eviction" => to.accept_eviction(flag(name, &value)?),
            "wait_replicas" => to.wait_replicas(count(name, &value)?),
            "ca" => to.ca(pem(name, &value)?),
            "cert" => to.cert(pem(name, &value)?),
            "key" => to.key(pem(name, &value)?),
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
            "every" => to.once(seconds(name, &value)?),
            "shared" => to.shared(flag("shared", &value)?),
            "slots" => to.slots(slots(&value)?),
            "owner" => to.owner(Owner::named(value.extract::<Vec<u8>>()?)),
            _ => lock_option!(to, name, value),
        };
    }
    Ok(to)
}
