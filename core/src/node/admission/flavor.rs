//! Kinds of servers: what each is known by, and all that depends on it. A new kind is a change of
//! this file, and a row of docs/operations/servers.md. Pure.
//!
//! A name and a version promise little: forks call themselves an old Redis, and services hide
//! commands. So what can be asked of the server itself is asked there: whether it deletes by value
//! ([`DeleteByValue`]), and whether it speaks RESP3. By its kind is decided what no question shows.

use crate::foreign;
use UnsupportedServer::{ActiveActive, Clustered, Kvrocks, Proxy, Scriptless, Sentinel};

/// What a server is, by its own account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// The server does not tell: the user may not ask, or the answer has no version.
    #[default]
    Unknown,
    /// Redis, or a fork that calls itself so, of this version.
    Redis(String),
    /// Valkey of this version.
    Valkey(String),
    /// The server can be no node, whatever its settings.
    Unsupported(UnsupportedServer),
}

impl Flavor {
    /// What a server is by its `INFO`, of which `get` finds a field.
    pub(crate) fn in_info(get: impl Fn(&str) -> Option<String>) -> Flavor {
        if let Some(kind) = UnsupportedServer::in_info(&get) {
            return Flavor::Unsupported(kind);
        }
        // Valkey also claims to be Redis 7.2.4, for old clients; so its own version is asked for
        // first.
        let version = |field| get(field).filter(|version| !version.is_empty());
        match (version("valkey_version"), version("redis_version")) {
            (Some(version), _) => Flavor::Valkey(foreign::excerpt(&version)),
            (None, Some(version)) => Flavor::Redis(foreign::excerpt(&version)),
            (None, None) => Flavor::Unknown,
        }
    }

    /// The name in reports.
    pub(crate) fn name(&self) -> Option<&'static str> {
        match self {
            Flavor::Redis(_) => Some("redis"),
            Flavor::Valkey(_) => Some("valkey"),
            Flavor::Unknown | Flavor::Unsupported(_) => None,
        }
    }

    /// The server's version, in its own count.
    pub(crate) fn version(&self) -> Option<&str> {
        match self {
            Flavor::Redis(version) | Flavor::Valkey(version) => Some(version),
            Flavor::Unknown | Flavor::Unsupported(_) => None,
        }
    }

    /// The kind of the server, if that can be no node.
    pub(crate) fn unsupported(&self) -> Option<UnsupportedServer> {
        match self {
            Flavor::Unsupported(kind) => Some(*kind),
            Flavor::Unknown | Flavor::Redis(_) | Flavor::Valkey(_) => None,
        }
    }

    /// Why its version will not do: the scripts need commands of Redis 6.2, which is older than
    /// the first Valkey.
    pub(crate) fn too_old(&self) -> Option<String> {
        let Flavor::Redis(version) = self else {
            return None;
        };
        let mut numbers = version.split('.').map_while(|n| n.parse::<u32>().ok());
        let (major, minor) = (numbers.next()?, numbers.next().unwrap_or(0));
        ((major, minor) < (6, 2)).then(|| format!("it is Redis {version}; 6.2 or later is needed"))
    }
}

/// How a server deletes a key that holds a value, and nothing else. A user's permissions decide on
/// the commands as the version does, so a connection tries both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DeleteByValue {
    /// `DELIFEQ key value` (Valkey 9.0).
    DelIfEq,
    /// `DELEX key IFEQ value` (Redis 8.4).
    DelEx,
    /// The script `compare_and_delete`.
    #[default]
    ByScript,
}

impl DeleteByValue {
    /// The commands that a connection tries on a key, in the order in which they are preferred.
    pub(crate) fn commands(key: &[u8]) -> [Vec<&[u8]>; 2] {
        [
            vec![b"DELIFEQ", key, b""],
            vec![b"DELEX", key, b"IFEQ", b""],
        ]
    }

    /// What to use where the server knows these of the [commands](Self::commands).
    pub(crate) fn of_known(known: [bool; 2]) -> DeleteByValue {
        match known {
            [true, _] => DeleteByValue::DelIfEq,
            [false, true] => DeleteByValue::DelEx,
            [false, false] => DeleteByValue::ByScript,
        }
    }

    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DeleteByValue::DelIfEq => "delifeq",
            DeleteByValue::DelEx => "delex",
            DeleteByValue::ByScript => "script",
        }
    }
}

/// A kind of server that can be no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnsupportedServer {
    /// A part of a Redis Cluster: it has a part of the keys, and another server may
    /// have it tomorrow, so its vote would not be its own.
    Clustered,
    /// A sentinel, which says where a server is, and stores nothing.
    Sentinel,
    /// Kvrocks, which speaks Redis's protocol and is none.
    Kvrocks,
    /// The server is one of several masters that take writes and replicate each other: two of them
    /// can give one vote twice.
    /// give one vote twice.
    ActiveActive,
    /// What leads to one server or another, key by key.
    Proxy,
    /// A server without scripts.
    Scriptless,
}

impl UnsupportedServer {
    /// What to tell of it. docs/operations/servers.md has these sentences, too.
    pub(crate) const fn sentence(self) -> &'static str {
        match self {
            Clustered => {
                "it runs in cluster mode: write redis+cluster://HOST:PORT in place of \
                 redis://HOST:PORT, or list servers that stand alone (`cluster-enabled no`)"
            }
            Sentinel => {
                "it is a sentinel, which keeps no locks: write \
                 redis+sentinel://HOST:PORT/MASTER in place of redis://HOST:PORT"
            }
            Kvrocks => {
                "it is Kvrocks, which is not supported: list servers of Redis 6.2 or later, or of \
                 Valkey"
            }
            ActiveActive => {
                "it replicates with another master that takes writes too (active-replica), so two \
                 could hold one lock: list masters that do not replicate each other"
            }
            Proxy => {
                "it does not know INFO, PUBLISH or SUBSCRIBE, as a proxy in front of several \
                 servers does not (Envoy, twemproxy): list the servers themselves, with these \
                 commands under their own names"
            }
            Scriptless => {
                "it runs no Lua scripts (EVAL, EVALSHA, SCRIPT LOAD), by which votes are given: \
                 turn them on (Garnet: --lua), or list servers of Redis 6.2 or later, or of Valkey"
            }
        }
    }

    /// The finding of `quorlock doctor`, and what to do.
    pub(crate) fn finding(self) -> (&'static str, &'static str) {
        match self {
            Clustered => (
                "QD05",
                "write redis+cluster://, or list servers that stand alone",
            ),
            Sentinel => (
                "QD17",
                "write redis+sentinel://, and the name by which the sentinels know the master \
                 (`quorlock explain sentinel`)",
            ),
            Kvrocks => ("QD18", "install Redis 6.2 or later, or Valkey"),
            ActiveActive => (
                "QD19",
                "give the locks servers of their own that do not replicate each other",
            ),
            Proxy => (
                "QD20",
                "list the servers behind it, each by its own address",
            ),
            Scriptless => ("QD21", "turn scripts on, or install Redis or Valkey"),
        }
    }

    fn in_info(get: impl Fn(&str) -> Option<String>) -> Option<UnsupportedServer> {
        let says = |name: &str, word: &str| get(name).is_some_and(|said| said == word);
        if get("kvrocks_version").is_some() {
            Some(Kvrocks)
        // Valkey has a field of its own for the mode.
        } else if says("redis_mode", "sentinel") || says("server_mode", "sentinel") {
            Some(Sentinel)
        // KeyDB shows itself once it follows another server: a lone one says `master`.
        } else if says("role", "active-replica") {
            Some(ActiveActive)
        } else {
            None
        }
    }

    /// What a server is by the error that it answers, without where in a script that came up.
    pub(crate) fn in_error(code: &str, detail: &str) -> Option<UnsupportedServer> {
        if matches!(code, "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN")
            || code == "ERR" && detail.contains("in cluster mode")
        {
            return Some(Clustered);
        }
        if detail.contains("scripting support disabled") {
            return Some(Scriptless);
        }
        match &*unknown(code, detail)?.to_ascii_lowercase() {
            "eval" | "evalsha" | "script" => Some(Scriptless),
            "info" | "publish" | "subscribe" => Some(Proxy),
            // The command comes before every other that asks about keys, and no other server knows
            // the commands above and not this one.
            // that knows the commands above and not this one.
            "get" => Some(Sentinel),
            _ => None,
        }
    }
}

/// The command that a server says it does not know.
fn unknown<'a>(code: &str, detail: &'a str) -> Option<&'a str> {
    let said = match code {
        // Envoy's errors have no code, so the parser takes their first word for the code.
        "unsupported" => detail.strip_prefix("command")?,
        _ => detail.split_once("unknown command")?.1,
    };
    // The name stands in quotes of one kind or another, and arguments may follow it.
    let name = said.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let end = name.find(|c: char| !c.is_ascii_alphanumeric());
    Some(&name[..end.unwrap_or(name.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_what_they_say_of_themselves() {
        let of = |text: &str| {
            UnsupportedServer::in_info(|name| {
                let line = text.lines().find(|line| line.starts_with(name));
                line?.split_once(':').map(|(_, said)| said.to_owned())
            })
        };
        for (text, kind) in [
            ("redis_version:7.0.15\nredis_mode:sentinel", Some(Sentinel)),
            ("valkey_version:9.1.0\nserver_mode:sentinel", Some(Sentinel)),
            ("kvrocks_version:2.9.0\nredis_version:4.0.0", Some(Kvrocks)),
            ("role:active-replica\nmaster_host:h", Some(ActiveActive)),
            (
                "redis_mode:standalone\nrole:master\ncluster_enabled:0",
                None,
            ),
            ("role:slave", None),
            ("", None),
        ] {
            assert_eq!(of(text), kind, "{text}");
        }
    }

    #[test]
    fn kinds_are_known_by_their_errors() {
        for (code, detail, kind) in [
            (
                "ERR",
                "unknown command 'EVAL', with args beginning with: 'return 1' '0' ",
                Some(Scriptless),
            ),
            (
                "ERR",
                "unknown command `SCRIPT`, with args beginning with: `LOAD`, ",
                Some(Scriptless),
            ),
            ("ERR", "unknown command evalsha", Some(Scriptless)),
            (
                "ERR",
                "This instance has Lua scripting support disabled",
                Some(Scriptless),
            ),
            (
                "ERR",
                "unknown command 'INFO', with args beginning with: ",
                Some(Proxy),
            ),
            ("unsupported", "command 'publish'", Some(Proxy)),
            ("ERR", "unknown command 'SUBSCRIBE'", Some(Proxy)),
            (
                "ERR",
                "unknown command 'GET', with args beginning with: 'lock:#node' ",
                Some(Sentinel),
            ),
            ("MOVED", "866 10.0.0.2:6379", Some(Clustered)),
            ("CROSSSLOT", "Keys in request", Some(Clustered)),
            ("CLUSTERDOWN", "Hash slot not served", Some(Clustered)),
            (
                "ERR",
                "SELECT is not allowed in cluster mode",
                Some(Clustered),
            ),
            // The first need not be known; and what a command answers is not its name.
            ("ERR", "unknown command 'DELEX', with args: 'eval'", None),
            ("ERR", "unknown command 'HELLO'", None),
            ("ERR", "unknown command", None),
            ("unsupported", "", None),
            ("ERR", "unknown subcommand 'INFO'. Try CLIENT HELP.", None),
            ("NOPERM", "no permissions to run the 'eval' command", None),
        ] {
            assert_eq!(
                UnsupportedServer::in_error(code, detail),
                kind,
                "{code} {detail}"
            );
        }
    }

    #[test]
    fn a_server_is_what_its_version_is_of() {
        let of = |text: &str| {
            Flavor::in_info(|name| {
                let line = text.lines().find(|line| line.starts_with(name));
                line?.split_once(':').map(|(_, said)| said.to_owned())
            })
        };
        let valkey = of("redis_version:7.2.4\nvalkey_version:9.1.0");
        assert_eq!(
            (valkey.name(), valkey.version()),
            (Some("valkey"), Some("9.1.0"))
        );
        for (version, is_old) in [
            ("6.2.0", false),
            ("6.0.9", true),
            ("7", false),
            ("x", false),
        ] {
            let redis = of(&format!("redis_version:{version}"));
            assert_eq!(
                (redis.name(), redis.version()),
                (Some("redis"), Some(version))
            );
            assert_eq!(redis.too_old().is_some(), is_old, "{version}");
        }
        assert_eq!(of("role:master"), Flavor::Unknown);
        assert_eq!(of("redis_mode:sentinel").unsupported(), Some(Sentinel));
        for kind in [
            Clustered,
            Sentinel,
            Kvrocks,
            ActiveActive,
            Proxy,
            Scriptless,
        ] {
            let said = kind.sentence();
            assert!(said.starts_with("it ") && said.contains(": "), "{said}");
        }
    }
}
