//! Errors of the core and panics, as plain objects.

use napi::Either;
use napi_derive::napi;
use quorlock::binding::caught;
use quorlock::{Error, ErrorKind};

/// What one node answered.
#[napi(object)]
pub struct NodeAnswer {
    pub node: String,
    pub message: String,
}

/// An error, for TypeScript to throw. Which class it is stands in `errors.ts`,
/// by the number of the kind.
#[napi(object, object_from_js = false)]
pub struct Failure {
    pub number: i32,
    pub message: String,
    pub nodes: Vec<NodeAnswer>,
    /// The lock that it is about.
    pub lock: Option<String>,
    /// The label of the lock's holder.
    pub holder: Option<String>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let answer = |node: &quorlock::NodeError| NodeAnswer {
            node: node.node().to_owned(),
            message: spelled(node.message()),
        };
        Failure {
            number: error.kind().number(),
            message: spelled(&error.to_string()),
            nodes: error.nodes().iter().map(answer).collect(),
            lock: error
                .name()
                .map(|name| String::from_utf8_lossy(name).into_owned()),
            holder: error.holder().map(Into::into),
        }
    }
}

/// Options whose names JavaScript writes in another way than the core does.
// Made from core/options.toml: names that JavaScript writes otherwise.
const OPTIONS: [(&str, &str); 11] = [
    ("max_hold", "maxHold"),
    ("max_waiters", "maxWaiters"),
    ("max_ttl", "maxTtl"),
    ("node_timeout", "nodeTimeout"),
    ("connect_timeout", "connectTimeout"),
    ("min_validity", "minValidity"),
    ("fence_ttl", "fenceTtl"),
    ("set_name", "setName"),
    ("restart_guard", "restartGuard"),
    ("accept_eviction", "acceptEviction"),
    ("wait_replicas", "waitReplicas"),
];
// End of what is made.

/// A text of the core with the names of options as JavaScript writes them. What stands between
/// backticks is a name of the user's, and the reason of a loss, in brackets or behind a colon,
/// is the same word in all languages.
pub(crate) fn spelled(text: &str) -> String {
    let mut parts: Vec<_> = text.split('`').map(String::from).collect();
    for part in parts.iter_mut().step_by(2) {
        for (core, ours) in OPTIONS {
            let mut from = 0;
            while let Some(at) = part[from..].find(core).map(|at| from + at) {
                let end = at + core.len();
                let (before, after) = (&part[..at], &part[end..]);
                let of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let is_word = !before.ends_with(of_word) && !after.starts_with(of_word);
                let alone = before.ends_with(": ") && after.is_empty();
                let is_reason = core == "max_hold" && (before.ends_with('(') || alone);
                from = end;
                if is_word && !is_reason {
                    part.replace_range(at..end, ours);
                    from = at + ours.len();
                }
            }
        }
    }
    parts.join("`")
}

/// Every entry from JavaScript that calls the core goes through here: an error
/// or a panic is returned.
pub(crate) fn entry<T>(work: impl FnOnce() -> Result<T, Error>) -> Either<T, Failure> {
    match caught(work) {
        Ok(Ok(value)) => Either::A(value),
        Ok(Err(error)) | Err(error) => Either::B(error.into()),
    }
}

/// As [`entry`], for a call that returns nothing.
pub(crate) fn checked(work: impl FnOnce() -> Result<(), Error>) -> Option<Failure> {
    match entry(work) {
        Either::A(()) => None,
        Either::B(failure) => Some(failure),
    }
}

/// An error that only the binding can see.
pub(crate) fn invalid(message: String) -> Error {
    Error::from_binding(ErrorKind::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_the_names_of_javascript_and_nothing_else_is_changed() {
        for (text, expected) in [
            (
                "ttl is 90s, above max_ttl (60s)",
                "ttl is 90s, above maxTtl (60s)",
            ),
            (
                "max_hold, node_timeout and wait_replicas",
                "maxHold, nodeTimeout and waitReplicas",
            ),
            ("the lock `max_ttl` max_ttl", "the lock `max_ttl` maxTtl"),
            ("the lease is lost: max_hold", "the lease is lost: max_hold"),
            (
                "is not valid: max_hold is 9s",
                "is not valid: maxHold is 9s",
            ),
            ("my_max_ttl max_ttls", "my_max_ttl max_ttls"),
        ] {
            assert_eq!(spelled(text), expected);
        }
    }
}
