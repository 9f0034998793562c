//! Options as Python gives them: only those that were given, by name.

use std::str::FromStr;
use std::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use quorlock::binding;
use quorlock::{ClientBuilder, Error, ErrorKind, Lock, Owner};

use crate::error::{checked, entry, raised, refused};
use crate::kept::name;

pub(crate) type Options<'py> = Bound<'py, PyDict>;

/// The bounds of a time that has none of its own, for a message.
pub(crate) const ANY: &str = "0 or more";

/// A time in seconds, or a `datetime.timedelta`. Which there may be the core says; `bounds` are for what is no time at all.
pub(crate) fn seconds(name: &str, value: &Bound<'_, PyAny>, bounds: &str) -> PyResult<Duration> {
    let given = number_of_seconds(name, value)?;
    Duration::try_from_secs_f64(given).map_err(|_| {
        let given = if value.is_exact_instance_of::<PyInt>() {
            shown(name, value)
        } else {
            format!("{given:?}")
        };
        let text = format!("{name} is {given}: give a time in seconds, {bounds}");
        refused(value.py(), ErrorKind::InvalidArgument, text)
    })
}

fn number_of_seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    // True would be a second.
    if value.is_exact_instance_of::<PyBool>() {
        let text = format!("{name} is {}: give a time in seconds", shown(name, value));
        return Err(PyTypeError::new_err(text));
    }
    match number(name, value, "a time in seconds") {
        Err(_) if is_timedelta(value)? => value
            .call_method0(name!(value.py(), "total_seconds"))?
            .extract(),
        read => read,
    }
}

/// Whether it is a `datetime.timedelta`. A program that has one has imported that module.
fn is_timedelta(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    let modules = py.import(name!(py, "sys"))?.getattr(name!(py, "modules"))?;
    match modules.get_item(name!(py, "datetime")) {
        Ok(datetime) => value.is_instance(&datetime.getattr(name!(py, "timedelta"))?),
        Err(_) => Ok(false),
    }
}

/// A time as a number of seconds, or `None` for no limit: for what waits in Python.
#[pyfunction]
pub(crate) fn seconds_of(
    py: Python<'_>,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<Option<f64>> {
    entry(py, || {
        Ok(limit(name, value, ANY)?.map(|time| time.as_secs_f64()))
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

/// A number. A number that is too large is infinite.
fn number(name: &str, value: &Bound<'_, PyAny>, give: &str) -> PyResult<f64> {
    match value.extract::<f64>() {
        Err(e) if e.is_instance_of::<PyOverflowError>(value.py()) => {
            if value.lt(0).unwrap_or(false) {
                Ok(f64::NEG_INFINITY)
            } else {
                Ok(f64::INFINITY)
            }
        }
        _ => typed(name, value, give),
    }
}

fn fraction(name: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    number(name, value, "a fraction, such as 0.01")
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

pub(crate) fn flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
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
pub(crate) fn limit(
    name: &str,
    value: &Bound<'_, PyAny>,
    bounds: &str,
) -> PyResult<Option<Duration>> {
    if value
        .extract()
        .is_ok_and(|given: f64| given == f64::INFINITY)
    {
        let text = format!("{name} is inf: give None for no limit");
        return Err(refused(value.py(), ErrorKind::InvalidArgument, text));
    }
    (!value.is_none())
        .then(|| seconds(name, value, bounds))
        .transpose()
}

/// A number of things. Which there may be the core says; what it cannot be given is refused here, in the same words.
fn count(name: &str, value: &Bound<'_, PyAny>, least: i32, most: i32) -> PyResult<usize> {
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
    // More than that no language takes.
    let count = given.ok().and_then(|given| i32::try_from(given).ok());
    count
        .and_then(|count| usize::try_from(count).ok())
        .ok_or_else(|| {
            let any = if most == i32::MAX { "an integer, " } else { "" };
            let text = format!(
                "{name} is {}: give {any}{least} to {most}",
                shown(name, value)
            );
            refused(value.py(), ErrorKind::InvalidArgument, text)
        })
}

/// A number of slots.
fn slots(name: &str, value: &Bound<'_, PyAny>, least: i32, most: i32) -> PyResult<u32> {
    Ok(u32::try_from(count(name, value, least, most)?).unwrap_or(u32::MAX))
}

/// One of some words.
fn word<T: FromStr<Err = Error>>(
    name: &str,
    value: &Bound<'_, PyAny>,
    words: &[&str],
) -> PyResult<T> {
    checked(value.py(), said(name, value, words)?.parse())
}

/// What was said for one of some words. What is on or off may be said by a flag, too.
fn said(name: &str, value: &Bound<'_, PyAny>, words: &[&str]) -> PyResult<String> {
    match value.cast_exact::<PyBool>() {
        Ok(flag) if words.contains(&"on") => Ok(if flag.is_true() { "on" } else { "off" }.into()),
        _ => {
            let give = format!("\"{}\"", words.join("\", \""));
            let (others, last) = give.rsplit_once(", ").unwrap_or(("", &give));
            typed(name, value, &format!("{others} or {last}"))
        }
    }
}

/// An owner by its name, in bytes.
fn owner(_name: &str, value: &Bound<'_, PyAny>) -> PyResult<Owner> {
    Ok(Owner::named(value.extract::<Vec<u8>>()?))
}

/// A client and a lock name the options of a lock alike.
macro_rules! lock_option {
    ($to:ident, $name:ident, $value:ident) => {
        match $name {
            // Made from core/options.toml: those of a client and a lock.
            "ttl" => $to.ttl(seconds($name, &$value, "0.01 to max_ttl")?),
            "wait" => $to.wait(limit($name, &$value, "0 or more")?),
            "renew" => $to.renew(flag($name, &$value)?),
            "max_hold" => $to.max_hold(limit($name, &$value, "ttl or more")?),
            "raw" => $to.raw(flag($name, &$value)?),
            "layout" => $to.layout(word($name, &$value, &["plain", "redisson"])?),
            "label" => $to.label(text($name, &$value)?),
            "fencing" => $to.fencing(flag($name, &$value)?),
            "max_waiters" => $to.max_waiters(count($name, &$value, 0, 2_147_483_647)?),
            "fair" => $to.fair(flag($name, &$value)?),
            "keep" => $to.keep(seconds($name, &$value, "0 to max_ttl")?),
            "group" => $to.group(text($name, &$value)?),
            // End of what is made.
            _ => return Err(PyTypeError::new_err("there is no option of that name")),
        }
    };
}

/// A client's options. Its locks' defaults are among them.
pub(crate) fn of_client(mut to: ClientBuilder, options: &Options<'_>) -> PyResult<ClientBuilder> {
    for (name, value) in options {
        let name: &str = name.extract()?;
        to = match name {
            "environment" => to.environment(value.extract::<Vec<(String, String)>>()?),
            // Made from core/options.toml: those of a client.
            "nodes" => to.nodes(urls(name, &value)?),
            "max_ttl" => to.max_ttl(seconds(name, &value, "0.01 to 86400")?),
            "node_timeout" => to.node_timeout(seconds(name, &value, "0.001 to 60")?),
            "connect_timeout" => to.connect_timeout(seconds(name, &value, "0.001 to 60")?),
            "drift" => to.drift(fraction(name, &value)?),
            "min_validity" => to.min_validity(fraction(name, &value)?),
            "namespace" => to.namespace(text(name, &value)?),
            "fence_ttl" => to.fence_ttl(seconds(name, &value, "0 or more")?),
            "set_name" => to.set_name(text(name, &value)?),
            "restart_guard" => to.restart_guard(word(name, &value, &["auto", "on", "off"])?),
            "accept_eviction" => to.accept_eviction(flag(name, &value)?),
            "wait_replicas" => to.wait_replicas(count(name, &value, 0, 16)?),
            "ca" => to.ca(pem(name, &value)?),
            "cert" => to.cert(pem(name, &value)?),
            "key" | "cert_key" => to.key(pem(name, &value)?),
            // End of what is made.
            _ => lock_option!(to, name, value),
        };
    }
    Ok(to)
}

/// Options that Python writes otherwise in some place, and as the core does.
const SPELLED: &[(&str, &str)] = &[
    // Made from core/options.toml: what is spelled otherwise.
    ("cert_key", "key"),
    // End of what is made.
];

/// What the core says of the options of a client, in the spelling in which they were given.
pub(crate) fn respelled(py: Python<'_>, options: &Options<'_>, error: &Error) -> PyErr {
    let is_given = |name: &str| options.contains(name).unwrap_or(false);
    for (own, name) in SPELLED.iter().filter(|(own, _)| is_given(own)) {
        if let Some(said) = error.detail().strip_prefix(&format!("{name}: ")) {
            return refused(py, error.kind(), format!("{own}: {said}"));
        }
    }
    raised(py, error)
}

/// A lock's options.
pub(crate) fn of_lock(mut to: Lock, options: &Options<'_>) -> PyResult<Lock> {
    for (name, value) in options {
        let name: &str = name.extract()?;
        to = match name {
            // Made from core/options.toml: those of a lock.
            "reentrant" => to.reentrant(flag(name, &value)?),
            "shared" => to.shared(flag(name, &value)?),
            "slots" => to.slots(slots(name, &value, 1, 128)?),
            "owner" => to.owner(owner(name, &value)?),
            "confirm" => to.confirm(flag(name, &value)?),
            "every" => to.once(seconds(name, &value, "0.02 or more")?),
            // End of what is made.
            _ => lock_option!(to, name, value),
        };
    }
    Ok(to)
}
