//! What has happened and JavaScript does not know yet. One per environment.

use napi::Status;
use napi::threadsafe_function::ThreadsafeFunction;
use quorlock::Error;
use quorlock::binding::Mailbox;

use crate::several::Leases;

/// Calls JavaScript from any thread; does not keep its event loop alive.
pub(crate) type Bell = ThreadsafeFunction<(), (), (), Status, false, true>;

/// What an operation comes to.
pub(crate) enum Value {
    Nothing,
    Flag(bool),
    /// In milliseconds.
    Time(f64),
    Lease(Option<quorlock::Lease>),
    Leases(Option<Won>),
    /// The same, when they are kept for JavaScript: and the place of each among the names
    /// of the call.
    Kept(Leases, Vec<u32>),
    Inspection(Box<quorlock::Inspection>),
    Forced(Box<quorlock::Forced>),
    Probe(Box<quorlock::Probe>),
    Holder(Option<quorlock::Holder>),
    Leadership(quorlock::Leadership),
}

/// Leases that were won together, and the names of the call that asked for them.
pub(crate) struct Won {
    pub(crate) leases: quorlock::Leases,
    pub(crate) names: Vec<Vec<u8>>,
}

pub(crate) enum Event {
    /// An operation is over.
    Done(i64, Result<Value, Error>),
    /// A lease may be lost, named by the number of the operation that won it; and
    /// whether JavaScript has put this off before.
    Lost(i64, bool),
    /// A log line, and whether it is a warning.
    Log(bool, String),
}

/// One for each environment.
pub(crate) type Queue = Mailbox<Event>;
