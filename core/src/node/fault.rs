//! Why a node gave no vote: in words for people, and as a [`Cause`] for the code that decides.
//!
//! The words may be improved at any time, and stand behind others where a fault passes through
//! several hands. So no decision reads them: the place that meets an error, and knows what it
//! is, gives the fault its cause there.

use std::fmt;
use std::sync::Arc;

use super::admission::UnsupportedServer;
use crate::foreign;

/// Why a node gave no vote.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Fault {
    /// What the protocol does about it.
    pub kind: FaultKind,
    /// What else can be decided by it.
    pub cause: Cause,
    /// The cause in words, without secrets.
    pub text: Arc<str>,
    /// Whether the request may have reached the node: it may have been carried
    /// out, or may yet be.
    pub sent: bool,
    /// The cause is the lock's own: the node may vote for others.
    pub of_lock: bool,
}

impl fmt::Debug for Fault {
    /// Without the cause, which the text says in words: the simulator's histories have this form,
    /// and are compared from one version to the next.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault")
            .field("kind", &self.kind)
            .field("text", &self.text)
            .field("sent", &self.sent)
            .field("of_lock", &self.of_lock)
            .finish()
    }
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, text: impl Into<String>, sent: bool) -> Fault {
        Fault {
            kind,
            cause: Cause::Other,
            text: foreign::message(text).into(),
            sent,
            of_lock: false,
        }
    }

    /// This fault with another text.
    pub(crate) fn with_text(self, text: impl Into<String>) -> Fault {
        Fault {
            text: foreign::message(text).into(),
            ..self
        }
    }

    /// This fault with this cause.
    pub(crate) fn because(self, cause: Cause) -> Fault {
        Fault { cause, ..self }
    }

    /// This fault, caused by the lock (true) or by the node (false).
    pub(crate) fn of_lock(self, of_lock: bool) -> Fault {
        Fault { of_lock, ..self }
    }

    /// A request that its sender wanted no more before it was written.
    pub fn unwanted() -> Fault {
        Fault::new(FaultKind::Refused, "given up before it was sent", false)
    }
}

/// Causes for the lack of a vote, as far as the core treats them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// No reply before the deadline.
    Timeout,
    /// No connection, or it broke.
    Unreachable,
    /// The node answered that it cannot vote now: loading, out of memory,
    /// read-only, busy.
    NotReady,
    /// Credentials, permissions, certificates, or the database are wrong: it
    /// will not recover by itself.
    Misconfigured,
    /// The node's record is of another set, or of this set on other terms.
    Foreign,
    /// The node has no record, and cannot be given one before other nodes of the list serve.
    Unfounded,
    /// Our own queue to the node is full, or its client is closed.
    Refused,
}

/// Causes that something is decided by besides the kind of a fault: how a connection is made, and
/// what a look at the nodes finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Nothing is decided by it.
    #[default]
    Other,
    /// The server is of a kind that can be no node.
    Unsupported(UnsupportedServer),
    /// A certificate, a key or a name is not good.
    Tls,
    /// The server wants a password, and was given none.
    NoPassword,
    /// The other side has closed the connection.
    Closed,
    /// A reply is longer than any that a node gives.
    LongReply,
    /// The server's clock is beyond the last moment at which it may vote.
    LateClock,
    /// The server is in this state, in which it gives no vote to any lock.
    State(ServerState),
}

/// States of a server, as its errors name them, in which it gives no vote to any lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerState {
    /// The server's memory is full.
    OutOfMemory,
    /// The server cannot write its snapshots, and so takes no writes.
    CannotPersist,
    /// The server has fewer replicas than its configuration demands for writes.
    FewReplicas,
    /// A script runs on it, and does not end.
    RunsScript,
    /// The server has as many clients as it takes.
    ManyClients,
    /// The server takes clients of its own machine alone.
    Protected,
    /// The server is reading its data.
    Loading,
    /// The server is a replica without a link to its master.
    NoMaster,
    /// The server is a replica.
    ReadOnly,
    /// The server is of a cluster that serves no more.
    ClusterDown,
}
