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
    /// The label of who holds that.
    pub holder: Option<String>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let answer = |node: &quorlock::NodeError| NodeAnswer {
            node: node.node().to_owned(),
            message: node.message().to_owned(),
        };
        Failure {
            number: error.kind().number(),
            message: error.to_string(),
            nodes: error.nodes().iter().map(answer).collect(),
            lock: error
                .name()
                .map(|name| String::from_utf8_lossy(name).into_owned()),
            holder: error.holder().map(Into::into),
        }
    }
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
