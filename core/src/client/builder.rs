//! The builder that makes a client from its options.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::Client;
use super::environment::Environment;
use super::shared::ClientCore;
use crate::config::{self, LockOptions, RestartGuard, Settings, defaults, lock_option_setters};
use crate::error::Error;
use crate::node::address::{Address, Origin};
use crate::node::redis::tls::Tls;
use crate::runtime::release_at_exit;

/// Options of a [`Client`]; those of locks are the defaults of its locks.
#[derive(Clone)]
#[must_use = "options do nothing until `build` makes a client of them"]
pub struct ClientBuilder {
    /// Their URLs, and where these come from.
    pub(crate) nodes: Option<(Vec<String>, Origin)>,
    pub(super) settings: Settings,
    ca: Option<String>,
    pub(super) cert: Option<String>,
    pub(super) key: Option<String>,
    on_current_runtime: bool,
    /// What the environment is, for what was not given.
    pub(super) environment: Environment,
    /// The options that were given, of those that the environment may give.
    pub(super) given: BTreeSet<&'static str>,
}

impl Default for ClientBuilder {
    fn default() -> ClientBuilder {
        ClientBuilder {
            nodes: None,
            settings: Settings {
                nodes: Vec::new(),
                // Made from core/options.toml: settings.
                max_ttl: None,
                node_timeout: defaults::NODE_TIMEOUT,
                connect_timeout: defaults::CONNECT_TIMEOUT,
                drift: defaults::DRIFT,
                min_validity: defaults::MIN_VALIDITY,
                namespace: defaults::NAMESPACE.into(),
                fence_ttl: None,
                set_name: defaults::SET_NAME.into(),
                restart_guard: RestartGuard::default(),
                accept_eviction: defaults::ACCEPT_EVICTION,
                wait_replicas: defaults::WAIT_REPLICAS,
                // End of what is made.
                lock: LockOptions::default(),
            },
            ca: None,
            cert: None,
            key: None,
            on_current_runtime: false,
            environment: Environment::Own,
            given: BTreeSet::new(),
        }
    }
}

/// Without what was given: URLs and keys are secrets, and nothing has been checked, so any text may
/// be a secret.
impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").finish_non_exhaustive()
    }
}

lock_option_setters!(ClientBuilder);

impl Client {
    /// A client for `nodes`, with default options.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a URL that is not understood or listed twice. Nothing is connected so
    /// far, so nothing about the nodes is known.
    pub fn new<S: Into<String>>(nodes: impl IntoIterator<Item = S>) -> Result<Client, Error> {
        Client::builder().nodes(nodes).build()
    }

    /// A client for the nodes listed in the environment variable
    /// `QUORLOCK_NODES`, split at commas and blanks; without it for
    /// `redis://127.0.0.1:6379`.
    ///
    /// # Errors
    ///
    /// As [`new`](Client::new); `InvalidArgument` also where the variable is not UTF-8.
    pub fn from_env() -> Result<Client, Error> {
        Client::builder().build()
    }

    /// Options, one by one.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }
}

impl ClientBuilder {
    fn change(mut self, change: impl FnOnce(&mut LockOptions)) -> ClientBuilder {
        change(&mut self.settings.lock);
        self
    }

    /// The nodes of the set: `redis://[user:password@]host[:port][/db]`,
    /// `rediss://…` for TLS, `valkey://…` and `valkeys://…` likewise, `redis+unix:///path?db=1&user=u&password=p`,
    /// `redis+sentinel://host:26379;host;host/master` for a master with replicas that sentinels
    /// know by that name (docs/operations/sentinel.md), `redis+cluster://host:6379;host` for a Redis Cluster
    /// (docs/operations/cluster.md), or `memory://name` for a node in this process.
    pub fn nodes<S: Into<String>>(mut self, nodes: impl IntoIterator<Item = S>) -> ClientBuilder {
        let nodes = nodes.into_iter().map(Into::into).collect();
        self.nodes = Some((nodes, Origin::Caller));
        self
    }

    /// For bindings: the variables of a language that has an environment of its own.
    #[doc(hidden)]
    pub fn environment(
        mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> ClientBuilder {
        self.environment = Environment::Given(variables.into_iter().collect());
        self
    }

    /// The program has given this option, so the environment does not.
    fn gives(mut self, option: &'static str) -> ClientBuilder {
        self.given.insert(option);
        self
    }

    /// For the command: the nodes that stand in the file of this path, which its user did not
    /// name: so errors about the nodes do.
    #[doc(hidden)]
    pub fn nodes_of_file(mut self, nodes: Vec<String>, path: &'static str) -> ClientBuilder {
        self.nodes = Some((nodes, Origin::File(path)));
        self
    }

    // Made from core/options.toml: setters of a client.
    /// The longest `ttl` of any lock of the set, and so how long a node that may have lost its memory
    /// gives no vote.
    ///
    /// 10 ms to 24 h. Default: 60 s.
    pub fn max_ttl(mut self, max_ttl: Duration) -> ClientBuilder {
        self.settings.max_ttl = Some(max_ttl);
        self.gives("max_ttl")
    }

    /// Time for one request to one node: connect, queue, write and reply; at most a quarter of a lock's
    /// `ttl`.
    ///
    /// A hung node costs no latency, for rounds end at the quorum. 1 ms to 60 s. Default: 250 ms.
    pub fn node_timeout(mut self, node_timeout: Duration) -> ClientBuilder {
        self.settings.node_timeout = node_timeout;
        self.gives("node_timeout")
    }

    /// Time for a connection to a node to be made: name, TCP, TLS, and what the node is asked before it
    /// may vote.
    ///
    /// Calls that ask once wait for the first connections as long, until a quorum of nodes is
    /// connected. 1 ms to 60 s. Default: 2 s.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> ClientBuilder {
        self.settings.connect_timeout = connect_timeout;
        self.gives("connect_timeout")
    }

    /// Bound on the difference of clock rates, as a fraction: validity is the `ttl` less this part of
    /// it and 2 ms.
    ///
    /// 0.001 to 0.5. Default: 0.01.
    pub fn drift(mut self, drift: f64) -> ClientBuilder {
        self.settings.drift = drift;
        self
    }

    /// The fraction of the `ttl` that must be left when a lease is won.
    ///
    /// 0 to 0.9. Default: 0.1.
    pub fn min_validity(mut self, min_validity: f64) -> ClientBuilder {
        self.settings.min_validity = min_validity;
        self
    }

    /// Prefix of every key.
    ///
    /// It has at least one byte, and no braces. At most 256 bytes. Default: `lock:`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> ClientBuilder {
        self.settings.namespace = namespace.into().into();
        self.gives("namespace")
    }

    /// How long a lock's counter of fences lives after its last use; at least twice `max_ttl`.
    ///
    /// After that the order of fences rests on the nodes' clocks. By default twice `max_ttl`, where
    /// that is longer than 10 min. Default: 10 min.
    pub fn fence_ttl(mut self, fence_ttl: Duration) -> ClientBuilder {
        self.settings.fence_ttl = Some(fence_ttl);
        self
    }

    /// The name of the set that the nodes form: 1 to 64 printable ASCII characters without blanks.
    /// Nodes of another set are refused.
    ///
    /// Default: `default`.
    pub fn set_name(mut self, set_name: impl Into<String>) -> ClientBuilder {
        self.settings.set_name = set_name.into().into();
        self.gives("set_name")
    }

    /// Whether a node that may have lost its memory gives no vote until every vote that it may have
    /// given is over, which is after `max_ttl`.
    ///
    /// `auto` is on for three nodes and more, and where a node fails over to another server. With `on`
    /// a wholly new set waits, too; with `off` a node that restarts without its data may give a lock to
    /// a second holder. Default: `auto`.
    pub fn restart_guard(mut self, restart_guard: RestartGuard) -> ClientBuilder {
        self.settings.restart_guard = restart_guard;
        self.gives("restart_guard")
    }

    /// Whether servers are accepted that drop keys when they are full: with them a lock may vanish
    /// under its holder.
    ///
    /// Without, such a server is refused with `Misconfigured`. Default: `false`.
    pub fn accept_eviction(mut self, accept_eviction: bool) -> ClientBuilder {
        self.settings.accept_eviction = accept_eviction;
        self.gives("accept_eviction")
    }

    /// How many replicas of a node must have a vote before it counts.
    ///
    /// With as many as the node has, a master that is cut off from them gives no votes, and a failover
    /// loses none. A replica that hangs holds up every request to its master for half of
    /// `node_timeout`, and the votes that it misses do not count. 0 to 16. Default: 0.
    pub fn wait_replicas(mut self, wait_replicas: usize) -> ClientBuilder {
        self.settings.wait_replicas = wait_replicas;
        self.gives("wait_replicas")
    }

    /// Certificates that vouch for `rediss://` nodes, in place of the system's: the path of a PEM file,
    /// or its text.
    pub fn ca(mut self, ca: impl Into<String>) -> ClientBuilder {
        self.ca = Some(ca.into());
        self.gives("ca")
    }

    /// The client's certificate: the path of a PEM file, or its text. Goes with `key`.
    pub fn cert(mut self, cert: impl Into<String>) -> ClientBuilder {
        self.cert = Some(cert.into());
        self.gives("cert")
    }

    /// The key of the client's certificate: the path of a PEM file, or its text.
    pub fn key(mut self, key: impl Into<String>) -> ClientBuilder {
        self.key = Some(key.into());
        self.gives("key")
    }
    // End of what is made.

    /// Runs the client on the tokio runtime that [`build`](ClientBuilder::build)
    /// is called in, in place of Quorlock's own I/O thread. Saves the hop
    /// between threads; but renewal then waits for the runtime whenever a task
    /// blocks it. When that runtime ends the client is closed: its leases are lost, and what is
    /// then to be released is written to servers that are connected to, without waiting for an
    /// answer.
    pub fn on_current_runtime(mut self) -> ClientBuilder {
        self.on_current_runtime = true;
        self
    }

    /// Checks all options and makes the client. What was not given comes from the environment, where that has it:
    /// `QUORLOCK_NODES`, and of the options `set_name`, `namespace`, `max_ttl`, `node_timeout`, `connect_timeout`,
    /// `restart_guard`, `accept_eviction`, `wait_replicas`, `ca`, `cert` and `key` each from a variable of its name, as
    /// `QUORLOCK_MAX_TTL=30s`. Starts nothing and connects to
    /// nothing: the first use does, so a process that is forked before may use the
    /// client as its own.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, naming the option, its value and what to give.
    pub fn build(self) -> Result<Client, Error> {
        let this = self.completed()?;
        let mut settings = this.settings;
        let (nodes, origin) = match this.nodes {
            Some(nodes) => nodes,
            None => {
                let listed = this.environment.get(defaults::NODES_VARIABLE)?;
                config::nodes_of_environment(&listed.unwrap_or_default())
            }
        };
        let nodes = nodes.iter().enumerate();
        settings.nodes = nodes
            .map(|(i, url)| Address::parse(i, url, origin))
            .collect::<Result<_, _>>()?;
        settings.check()?;
        let tls = Tls::new(this.ca, this.cert, this.key)?;
        let shared = ClientCore::new(settings, origin, tls);
        release_at_exit();
        if this.on_current_runtime {
            let handle = Handle::try_current().map_err(|_| {
                Error::invalid("on_current_runtime: build() was not called within a tokio runtime")
            })?;
            check_drivers(&handle)?;
            shared.start_on(handle)?;
        }
        Ok(Client {
            shared: Arc::new(shared),
        })
    }
}

/// Refuses a runtime without timers or without I/O, which says so by a panic alone.
fn check_drivers(runtime: &Handle) -> Result<(), Error> {
    let _context = runtime.enter();
    let works = catch_unwind(|| {
        #[allow(clippy::disallowed_methods)]
        drop(tokio::time::sleep(Duration::ZERO));
        let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
        socket.set_nonblocking(true)?;
        tokio::net::UdpSocket::from_std(socket).map(drop)
    });
    match works {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::invalid(
            "on_current_runtime: the runtime has no timers or no I/O: build it with enable_all()",
        )),
    }
}
