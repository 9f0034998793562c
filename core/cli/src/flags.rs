//! The options that are flags of this program. Made from core/options.toml by tests/options/definition.py.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use quorlock::{ClientBuilder, Lock, RestartGuard};

use crate::times;
use crate::values::{number, on, word};

/// Those of a lock.
#[derive(Debug, Args)]
pub struct LockFlags {
    /// How long the lock outlives a machine that dies; it is renewed meanwhile. At least 10ms, at
    /// most --max-ttl. Default: 10s.
    #[arg(long, value_name = "T")]
    #[arg(value_parser = times::parse)]
    pub ttl: Option<Duration>,
    /// How long to wait for the lock; without, forever.
    #[arg(short = 'w', long, value_name = "T")]
    #[arg(value_parser = times::parse)]
    pub wait: Option<Duration>,
    /// The longest time that the lock is held; the command is stopped before that is over. Without,
    /// there is no limit.
    #[arg(long, value_name = "T")]
    #[arg(value_parser = times::parse)]
    pub max_hold: Option<Duration>,
    /// What others see of the holder of the lock: text of at most 256 bytes. Without, host, process
    /// and command.
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// For how long the lock stays taken after it was won, also if the command ends before. At most
    /// --max-ttl. Not with --shared.
    #[arg(long, value_name = "T")]
    #[arg(value_parser = times::parse)]
    #[arg(conflicts_with_all = ["shared"])]
    pub keep: Option<Duration>,
    /// Shares the lock with others that do so too; those that do not are kept out, and keep these
    /// out. Not with --keep nor --slots.
    #[arg(short = 's', long)]
    #[arg(conflicts_with_all = ["keep", "slots"])]
    pub shared: bool,
    /// Holds one slot of a semaphore that has this many: at most that many commands run at once. 1
    /// to 128. Not with --shared nor --keep.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = slots)]
    #[arg(conflicts_with_all = ["shared", "keep"])]
    pub slots: Option<u32>,
}

impl LockFlags {
    /// The lock with what was given.
    pub fn on(&self, lock: Lock) -> Lock {
        on! { self, lock:
            given ttl;
            always wait;
            always max_hold;
            given label;
            given keep;
            always shared;
            always slots;
        }
    }
}

/// How to reach the set: all of its clients agree on what it is.
#[derive(Debug, Args)]
#[command(next_help_heading = "The set of nodes")]
pub struct SetFlags {
    /// A file with the URLs of the nodes, one or more a line; lines that begin with # are notes.
    /// Without: QUORLOCK_NODES, ~/.config/quorlock/nodes, /etc/quorlock/nodes, in this order.
    #[arg(long, value_name = "FILE")]
    pub nodes_file: Option<PathBuf>,
    /// The longest ttl of any lock of the set, and so how long a node that may have lost its memory
    /// gives no vote. 10ms to 24h. Default: 60s.
    #[arg(long, value_name = "T")]
    #[arg(env = "QUORLOCK_MAX_TTL", hide_env_values = true)]
    #[arg(value_parser = times::parse)]
    pub max_ttl: Option<Duration>,
    /// Time for one request to one node: connect, queue, write and reply; at most a quarter of a
    /// lock's ttl. 1ms to 60s. Default: 250ms.
    #[arg(long, value_name = "T")]
    #[arg(env = "QUORLOCK_NODE_TIMEOUT", hide_env_values = true)]
    #[arg(value_parser = times::parse)]
    pub node_timeout: Option<Duration>,
    /// Time for a connection to a node to be made: name, TCP, TLS, and what the node is asked
    /// before it may vote. 1ms to 60s. Default: 2s.
    #[arg(long, value_name = "T")]
    #[arg(env = "QUORLOCK_CONNECT_TIMEOUT", hide_env_values = true)]
    #[arg(value_parser = times::parse)]
    pub connect_timeout: Option<Duration>,
    /// Prefix of every key. At most 256 bytes. Default: "lock:".
    #[arg(long, value_name = "TEXT")]
    #[arg(env = "QUORLOCK_NAMESPACE", hide_env_values = true)]
    pub namespace: Option<String>,
    /// The name of the set that the nodes form: 1 to 64 printable ASCII characters without blanks.
    /// Nodes of another set are refused. Default: "default".
    #[arg(long, value_name = "NAME")]
    #[arg(env = "QUORLOCK_SET_NAME", hide_env_values = true)]
    pub set_name: Option<String>,
    /// Whether a node that may have lost its memory gives no vote until every vote that it may have
    /// given is over, which is after --max-ttl. Give auto, on or off. Default: "auto".
    #[arg(long, value_name = "WHEN")]
    #[arg(env = "QUORLOCK_RESTART_GUARD", hide_env_values = true)]
    #[arg(value_parser = word::<RestartGuard>(&["auto", "on", "off"]))]
    pub restart_guard: Option<RestartGuard>,
    /// Whether servers are accepted that drop keys when they are full: with them a lock may vanish
    /// under its holder.
    #[arg(long)]
    #[arg(env = "QUORLOCK_ACCEPT_EVICTION", hide_env_values = true)]
    pub accept_eviction: bool,
    /// How many replicas of a node must have a vote before it counts. 0 to 16. Default: 0.
    #[arg(long, value_name = "K")]
    #[arg(env = "QUORLOCK_WAIT_REPLICAS", hide_env_values = true)]
    #[arg(value_parser = wait_replicas)]
    pub wait_replicas: Option<usize>,
    /// Certificates that vouch for rediss:// nodes, in place of the system's: the path of a PEM
    /// file, or its text.
    #[arg(long, value_name = "FILE")]
    #[arg(env = "QUORLOCK_CA", hide_env_values = true)]
    // As text it begins with a hyphen.
    #[arg(allow_hyphen_values = true)]
    pub ca: Option<String>,
    /// The client's certificate: the path of a PEM file, or its text. Goes with --key.
    #[arg(long, value_name = "FILE")]
    #[arg(env = "QUORLOCK_CERT", hide_env_values = true)]
    // As text it begins with a hyphen.
    #[arg(allow_hyphen_values = true)]
    pub cert: Option<String>,
    /// The key of the client's certificate: the path of a PEM file, or its text.
    #[arg(long, value_name = "FILE")]
    #[arg(env = "QUORLOCK_KEY", hide_env_values = true)]
    // As text it begins with a hyphen.
    #[arg(allow_hyphen_values = true)]
    pub key: Option<String>,
}

impl SetFlags {
    /// The client with the certificates and keys that were given.
    pub fn credentials_on(&self, client: ClientBuilder) -> ClientBuilder {
        on! { self, client:
            given ca;
            given cert;
            given key;
        }
    }

    /// The client with the rest of what was given, but for the nodes.
    pub fn on(&self, client: ClientBuilder) -> ClientBuilder {
        on! { self, client:
            given max_ttl;
            given node_timeout;
            given connect_timeout;
            given namespace;
            given set_name;
            given restart_guard;
            always accept_eviction;
            given wait_replicas;
        }
    }
}

/// A value of `--slots`.
pub fn slots(text: &str) -> Result<u32, String> {
    number(text, 1, 128)
}

/// A value of `--wait-replicas`.
pub fn wait_replicas(text: &str) -> Result<usize, String> {
    number(text, 0, 16)
}

/// The flags, by the names that the options have elsewhere.
pub const FLAGS: &[(&str, &str)] = &[
    ("ttl", "--ttl"),
    ("wait", "--wait"),
    ("max_hold", "--max-hold"),
    ("label", "--label"),
    ("keep", "--keep"),
    ("shared", "--shared"),
    ("slots", "--slots"),
    ("nodes", "--nodes-file"),
    ("max_ttl", "--max-ttl"),
    ("node_timeout", "--node-timeout"),
    ("connect_timeout", "--connect-timeout"),
    ("namespace", "--namespace"),
    ("set_name", "--set-name"),
    ("restart_guard", "--restart-guard"),
    ("accept_eviction", "--accept-eviction"),
    ("wait_replicas", "--wait-replicas"),
    ("ca", "--ca"),
    ("cert", "--cert"),
    ("key", "--key"),
];

/// Options that are no flags of this program, as they would be written.
pub const NO_FLAGS: &[&str] = &[
    "--renew",
    "--raw",
    "--layout",
    "--fencing",
    "--max-waiters",
    "--fair",
    "--reentrant",
    "--group",
    "--owner",
    "--confirm",
    "--every",
    "--drift",
    "--min-validity",
    "--fence-ttl",
    "--on-current-runtime",
    "--owner-thread",
];
