//! One error type for everything the library reports.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::foreign;
use crate::given;

/// What went wrong, and so what the caller should do about it.
///
/// Number, name and meaning of a kind never change. See [`ErrorKind::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
pub enum ErrorKind {
    // Made from core/vocabulary.toml: kinds.
    /// An argument or option is not valid. Fix the call.
    ///
    /// The text names the option, the value that was given, and what to give. The nodes were not
    /// asked.
    InvalidArgument = 1,
    /// The lock is held by another, and the call was told not to wait.
    ///
    /// A quorum of nodes answered, and too few of them were free. Nothing is left behind. Come back
    /// later, give the call a `wait`, or leave the work to the holder.
    Contended = 2,
    /// The wait is over and the lock is still held by another.
    ///
    /// The call waited for all of its `wait`. Wait for longer, or look who holds the lock
    /// ([`Lock::inspect`](crate::Lock::inspect), `quorlock inspect`): a holder may hang.
    Timeout = 3,
    /// Too few nodes answered for a decision. Look at the nodes.
    ///
    /// Nodes are down, cut off, slower than `node_timeout`, or were restarted and may not vote yet;
    /// [`Error::nodes`](crate::Error::nodes) has what each of them answered. Whether the lock is
    /// held is not known. `quorlock doctor` says what to fix; a later try may succeed.
    QuorumUnavailable = 4,
    /// The lease is held no longer. Stop the protected work.
    ///
    /// Renewals found no quorum in time, the process stood still for longer than the ttl, the lease
    /// reached `max_hold`, or an operator took the lock away by force. Another may hold the lock by
    /// now. Where the work cannot be stopped, let the resource refuse its smaller fence.
    LockLost = 5,
    /// Release or extension by an owner that holds nothing.
    ///
    /// Each release belongs to one acquire of the same owner: look for a release too many, or one
    /// by another thread or task.
    NotOwner = 6,
    /// As many calls of this client wait for the lock as `max_waiters` allows. Shed load.
    ///
    /// Refuse some of what comes in, or raise the option.
    TooManyWaiters = 7,
    /// Nodes or credentials are set up wrong. Never retried: fix the settings.
    ///
    /// For example a wrong password, a permission that is missing, a node of another set, a server
    /// that drops keys when it is full, or a key of another type.
    Misconfigured = 8,
    /// The caller gave up the wait.
    ///
    /// Nothing is left behind: what the nodes gave meanwhile is taken back.
    Cancelled = 9,
    /// The client is closed. Make a new one.
    ///
    /// Its leases were released when it was closed.
    Closed = 10,
    /// The client was used before this process was forked. Make one here.
    ///
    /// Connections and threads do not survive a fork. What the parent holds stays the parent's.
    Forked = 11,
    /// A bug in Quorlock, or a panic caught at its boundary. Report it.
    ///
    /// The program goes on, and what was held is kept or lost as the nodes say.
    Internal = 12,
    /// An owner that shares a lock wants it for itself: two that did would wait for each other
    /// without end. Release the shared lease first, and look again at what it protected.
    WouldDeadlock = 13,
    // End of what is made.
}

impl ErrorKind {
    /// The kind's number, the same in every language and forever.
    pub const fn number(self) -> i32 {
        self as i32
    }
}

// Made from core/vocabulary.toml: lists of kinds.
impl ErrorKind {
    /// Every kind, in the order of their numbers. Bindings map all of them.
    pub const ALL: &'static [ErrorKind] = &[
        ErrorKind::InvalidArgument,
        ErrorKind::Contended,
        ErrorKind::Timeout,
        ErrorKind::QuorumUnavailable,
        ErrorKind::LockLost,
        ErrorKind::NotOwner,
        ErrorKind::TooManyWaiters,
        ErrorKind::Misconfigured,
        ErrorKind::Cancelled,
        ErrorKind::Closed,
        ErrorKind::Forked,
        ErrorKind::Internal,
        ErrorKind::WouldDeadlock,
    ];

    /// The kind's name, as in the documentation: `"QuorumUnavailable"`.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::InvalidArgument => "InvalidArgument",
            ErrorKind::Contended => "Contended",
            ErrorKind::Timeout => "Timeout",
            ErrorKind::QuorumUnavailable => "QuorumUnavailable",
            ErrorKind::LockLost => "LockLost",
            ErrorKind::NotOwner => "NotOwner",
            ErrorKind::TooManyWaiters => "TooManyWaiters",
            ErrorKind::Misconfigured => "Misconfigured",
            ErrorKind::Cancelled => "Cancelled",
            ErrorKind::Closed => "Closed",
            ErrorKind::Forked => "Forked",
            ErrorKind::Internal => "Internal",
            ErrorKind::WouldDeadlock => "WouldDeadlock",
        }
    }

    /// What it means in one sentence, without its full stop: what every message of the kind
    /// begins with, and errors can be grouped by, for the rest names locks and holders.
    pub const fn summary(self) -> &'static str {
        match self {
            ErrorKind::InvalidArgument => "An argument or option is not valid",
            ErrorKind::Contended => "The lock is held by another",
            ErrorKind::Timeout => "The wait is over, and the lock was not won",
            ErrorKind::QuorumUnavailable => "Too few nodes answered",
            ErrorKind::LockLost => "The lock is held no longer",
            ErrorKind::NotOwner => "The owner holds nothing",
            ErrorKind::TooManyWaiters => "Too many calls wait for the lock",
            ErrorKind::Misconfigured => "Nodes or credentials are set up wrong",
            ErrorKind::Cancelled => "The call was given up",
            ErrorKind::Closed => "The client is closed",
            ErrorKind::Forked => "The client is that of the process before the fork",
            ErrorKind::Internal => "Quorlock itself failed",
            ErrorKind::WouldDeadlock => "The call would wait for itself",
        }
    }
}
// End of what is made.

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What one node answered in the operation that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeError {
    node: Arc<str>,
    message: String,
    fault: bool,
}

impl NodeError {
    pub(crate) fn new(node: Arc<str>, message: String) -> NodeError {
        let message = foreign::message(message);
        NodeError {
            node,
            message,
            fault: false,
        }
    }

    /// The same, where `fault` keeps the node itself from voting, for any client.
    pub(crate) fn at_fault(mut self, fault: bool) -> NodeError {
        self.fault = fault;
        self
    }

    /// For the command: whether the node cannot vote for reasons of its own, such as not answering;
    /// not for what it has of the lock, and not in quarantine.
    #[doc(hidden)]
    pub fn is_fault(&self) -> bool {
        self.fault
    }

    /// The node, as `host:port` or the path of its socket; never with
    /// credentials.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// What it answered, or why it could not be asked.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.message)
    }
}

impl std::error::Error for NodeError {}

/// An error: a [kind](Error::kind), a message that says what to do, and what
/// each node answered.
///
/// There is one error type because there is one question to ask of it, "what
/// should I do now?", and its kind answers that. The type is a single pointer
/// wide and cheap to clone.
#[derive(Clone)]
pub struct Error(Arc<ErrorFields>);

struct ErrorFields {
    kind: ErrorKind,
    message: String,
    nodes: Vec<NodeError>,
    /// Of the lock that it is about.
    name: Option<Box<[u8]>>,
    /// The label of the holder.
    holder: Option<Box<str>>,
    /// How long it takes until a quorum may vote, where nodes in quarantine are all that it lacks.
    votes_in: Option<Duration>,
}

impl Error {
    #[cold]
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::with_nodes(kind, message, Vec::new())
    }

    #[cold]
    pub(crate) fn with_nodes(
        kind: ErrorKind,
        message: impl Into<String>,
        nodes: Vec<NodeError>,
    ) -> Error {
        Error(Arc::new(ErrorFields {
            kind,
            message: led(kind, foreign::message(message)),
            nodes,
            name: None,
            holder: None,
            votes_in: None,
        }))
    }

    /// The same, about the lock of that name, which may be held by the client that has that label.
    #[cold]
    pub(crate) fn about(mut self, name: &[u8], holder: Option<&str>) -> Error {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.name = Some(name.into());
            inner.holder = holder.map(Into::into);
        }
        self
    }

    /// The same, where nodes in quarantine would make a quorum after so long.
    #[cold]
    pub(crate) fn with_votes_in(mut self, left: Option<Duration>) -> Error {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.votes_in = left;
        }
        self
    }

    /// The same at the end of a wait, of which what it tells was the last part.
    #[cold]
    pub(crate) fn timed_out(mut self, wait: Duration) -> Error {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            let before = inner.kind;
            if before == ErrorKind::Contended {
                inner.kind = ErrorKind::Timeout;
            }
            let message = format!("{} (at the end of a wait of {wait:?})", inner.message);
            let rest = message.strip_prefix(before.summary()).unwrap_or(&message);
            inner.message = format!("{}{rest}", inner.kind.summary());
        }
        self
    }

    #[cold]
    pub(crate) fn closed() -> Error {
        Error::new(ErrorKind::Closed, "the client is closed: make a new one")
    }

    #[cold]
    pub(crate) fn runtime_has_ended() -> Error {
        Error::new(
            ErrorKind::Closed,
            "the runtime that the client ran on has ended: make a new client",
        )
    }

    #[cold]
    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// For bindings: an error of a kind that only the binding can see, such as
    /// a cancelled call or a panic caught at its boundary.
    #[doc(hidden)]
    #[cold]
    pub fn from_binding(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, message)
    }

    /// The sentence that its message begins with, the same for all errors of its kind.
    pub fn summary(&self) -> &'static str {
        self.0.kind.summary()
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether others hold the lock: `Contended` or `Timeout`.
    pub fn is_busy(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Contended | ErrorKind::Timeout)
    }

    /// What each node answered, in the order of the node list. Empty where
    /// the nodes played no part.
    pub fn nodes(&self) -> &[NodeError] {
        &self.0.nodes
    }

    /// The name of the lock that it is about, as given; `None` where it is about none.
    pub fn name(&self) -> Option<&[u8]> {
        self.0.name.as_deref()
    }

    /// The label of the client that held the lock, where it has one and a node has reported it.
    /// After a wait (`Timeout`) it is nearly always known. A try (`Contended`) is mostly refused by
    /// a bare `SET`, which does not report it: ask [`Lock::holder`](crate::Lock::holder).
    pub fn holder(&self) -> Option<&str> {
        self.0.holder.as_deref()
    }

    /// For the command: how long it takes until a quorum may vote, by what its nodes tell, where
    /// nodes in quarantine are all that it lacks.
    #[doc(hidden)]
    pub fn votes_in(&self) -> Option<Duration> {
        self.0.votes_in
    }

    /// What it is about: the message without its summary, for a message around it.
    #[doc(hidden)]
    pub fn detail(&self) -> &str {
        let rest = self.0.message.strip_prefix(self.summary());
        rest.and_then(|rest| rest.strip_prefix(": "))
            .unwrap_or(&self.0.message)
    }

    /// The message without the nodes' answers: its [summary](Error::summary), and behind a colon
    /// what it is about.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        let mut separator = " (";
        for node in &self.0.nodes {
            write!(f, "{separator}{node}")?;
            separator = "; ";
        }
        if !self.0.nodes.is_empty() {
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.0.kind.name())
    }
}

impl std::error::Error for Error {
    /// What the first of the [nodes](Error::nodes) answered, where they played a part.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let first = self.0.nodes.first()?;
        Some(first)
    }
}

/// A message behind the sentence of its kind, unless it begins with that by itself.
fn led(kind: ErrorKind, message: String) -> String {
    let summary = kind.summary();
    let begins = message
        .get(..summary.len())
        .is_some_and(|begin| begin.eq_ignore_ascii_case(summary));
    match begins {
        true => format!("{summary}{}", &message[summary.len()..]),
        false if message.is_empty() => summary.into(),
        false => format!("{summary}: {message}"),
    }
}

/// A lock's name for a message: [`plain`], and marked as what it is.
pub fn shown(name: &[u8]) -> String {
    format!("`{}`", plain(name))
}

/// A lock's name for a field of its own: escaped, and cut after 64 characters. A name that is
/// refused for the secret that it has is not shown.
pub fn plain(name: &[u8]) -> String {
    if let Some(secret) = given::found(name) {
        return format!("({secret})");
    }
    let mut text = name.escape_ascii().to_string();
    if text.len() > 64 {
        text.truncate(64);
        text.push('…');
    }
    text
}

/// How long was waited, behind what was not won. Of a wait that is the rest of another the digits
/// are left out that no user has chosen.
pub(crate) fn within_wait(wait: Option<Duration>) -> String {
    let Some(wait) = wait else {
        return String::new();
    };
    if wait.subsec_nanos().is_multiple_of(1_000_000) {
        return format!(" within {wait:?}");
    }
    let step = if wait < Duration::from_millis(100) {
        1_000
    } else {
        10_000
    };
    let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX / 2);
    let rounded = Duration::from_micros((micros + step / 2) / step * step);
    format!(" within {rounded:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_as_it_was_chosen() {
        for (wait, told) in [
            (Duration::from_millis(125), " within 125ms"),
            (Duration::from_nanos(298_606_605), " within 300ms"),
            (Duration::from_nanos(9_600_001), " within 10ms"),
            (Duration::from_nanos(2_999_999_999), " within 3s"),
            (Duration::ZERO, " within 0ns"),
        ] {
            assert_eq!(within_wait(Some(wait)), told);
        }
        assert_eq!(within_wait(None), "");
    }

    #[test]
    fn kinds_are_numbered_from_one_without_gaps() {
        for (i, kind) in ErrorKind::ALL.iter().enumerate() {
            assert_eq!(kind.number(), i as i32 + 1, "{}", kind.name());
            assert_eq!(kind.name(), format!("{kind:?}"));
            assert_eq!(format!("{kind:>20}"), format!("{:>20}", kind.name()));
            let same = |other: &&ErrorKind| other.summary() == kind.summary();
            assert_eq!(ErrorKind::ALL.iter().filter(same).count(), 1);
        }
    }

    #[test]
    fn display_lists_the_nodes() {
        let e = Error::with_nodes(
            ErrorKind::QuorumUnavailable,
            "too few",
            vec![
                NodeError::new("a:1".into(), "refused".into()),
                NodeError::new("b:2".into(), "timed out".into()),
            ],
        );
        assert_eq!(
            e.to_string(),
            "Too few nodes answered: too few (a:1: refused; b:2: timed out)"
        );
        let source = std::error::Error::source(&e).unwrap();
        assert_eq!(source.to_string(), "a:1: refused");
        assert_eq!(source.downcast_ref(), e.nodes().first());
        assert!(std::error::Error::source(&Error::closed()).is_none());
    }

    #[test]
    fn a_message_begins_with_the_sentence_of_its_kind_once() {
        for &kind in ErrorKind::ALL {
            let error = Error::new(kind, "a reason");
            assert_eq!(error.message(), format!("{}: a reason", kind.summary()));
            assert_eq!(Error::new(kind, error.message()).message(), error.message());
            assert_eq!(Error::new(kind, "").message(), kind.summary());
        }
        assert_eq!(
            Error::closed().message(),
            "The client is closed: make a new one"
        );
        let waited = Error::new(ErrorKind::Contended, "`a` is").timed_out(Duration::from_secs(1));
        let told =
            "The wait is over, and the lock was not won: `a` is (at the end of a wait of 1s)";
        assert_eq!(waited.message(), told);
    }

    #[test]
    fn names_in_messages_are_escaped_and_cut() {
        assert_eq!(shown(b"a\n\xff"), "`a\\n\\xff`");
        assert!(shown(&[b'x'; 1024]).len() < 80);
        assert_eq!(shown(b"redis://:s3cret@h"), "`(a URL with a password)`");
    }
}
