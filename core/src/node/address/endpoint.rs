//! What a URL can name, and the parts that URLs of every form have.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Where to connect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Endpoint {
    Tcp {
        host: String,
        port: u16,
        tls: bool,
    },
    Unix(PathBuf),
    Memory(String),
    /// Wherever these sentinels say that the master is.
    Sentinel(Arc<Sentinels>),
    /// Whichever server of that cluster serves a key's hash slot.
    Cluster(Arc<Seeds>),
}

/// Servers of a cluster, any of which knows the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seeds {
    /// TCP all of them, with TLS or all without.
    pub(crate) hosts: Vec<Endpoint>,
}

/// The sentinels that know where the master is, and the master's name there.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Sentinels {
    /// The master's name.
    pub(crate) master: String,
    /// TCP all of them, with TLS where the servers have it too.
    pub(crate) hosts: Vec<Endpoint>,
    pub(crate) tls: bool,
    /// What the sentinels themselves want: they never get what the servers do.
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sentinels({})", self.master)
    }
}

/// An address as messages have it.
pub(crate) fn shown(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
        Endpoint::Tcp { host, port, .. } => format!("{host}:{port}"),
        other => format!("{other:?}"),
    }
}

/// The number of a database.
pub(super) fn number_of(db: &str) -> Result<i64, &'static str> {
    db.parse::<i64>()
        .ok()
        .filter(|db| (0..=i64::from(i32::MAX)).contains(db))
        // The text is not shown: behind a `/` in a password it is the rest of the password.
        .ok_or("the database is not a number (write `/` in a password as %2F)")
}

/// A different database is a different set of keys, so it is shown.
pub(super) fn with_database(shown: String, db: i64) -> String {
    match db {
        0 => shown,
        db => format!("{shown}/{db}"),
    }
}

pub(super) fn percent_decoded(text: &str) -> Option<String> {
    let decoded = percent_encoding::percent_decode_str(text)
        .decode_utf8()
        .ok()?;
    Some(decoded.into_owned())
}
