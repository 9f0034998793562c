//! Servers of kinds that can be no node, whatever their settings: what each is known by, and
//! the one sentence that says so and names the way out. Pure.

use UnsupportedServer::{ActiveActive, Clustered, Kvrocks, Proxy, Scriptless, Sentinel};

/// A kind of server that can be no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnsupportedServer {
    /// A part of a Redis Cluster: it has a part of the keys, and another server may
    /// have it tomorrow, so its vote would not be its own.
    Clustered,
    /// A sentinel, which says where a server is, and stores nothing.
    Sentinel,
    /// Kvrocks, which speaks Redis's protocol and is none.
    Kvrocks,
    /// One of several masters that take writes and replicate each other: two of them can
    /// give one vote twice.
    ActiveActive,
    /// What leads to one server or another, key by key.
    Proxy,
    /// A server without scripts.
    Scriptless,
}

impl UnsupportedServer {
    const ALL: [UnsupportedServer; 6] = [
        Clustered,
        Sentinel,
        Kvrocks,
        ActiveActive,
        Proxy,
        Scriptless,
    ];

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

    /// Of which kind that sentence tells.
    pub(crate) fn of_sentence(text: &str) -> Option<UnsupportedServer> {
        UnsupportedServer::ALL
            .into_iter()
            .find(|kind| kind.sentence() == text)
    }

    /// What a server is by its `INFO`, of which `get` finds a field.
    pub(crate) fn in_info(get: impl Fn(&str) -> Option<String>) -> Option<UnsupportedServer> {
        let says = |name: &str, word: &str| get(name).is_some_and(|said| said == word);
        if get("kvrocks_version").is_some() {
            Some(Kvrocks)
        // Valkey has the field under a name of its own.
        } else if says("redis_mode", "sentinel") || says("server_mode", "sentinel") {
            Some(Sentinel)
        } else if says("cluster_enabled", "1") {
            Some(Clustered)
        // KeyDB, as soon as it follows another: a lone one says `master`.
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
            // It comes before all that else is asked of keys, and there is no other server
            // that knows the commands above and not this one.
            "get" => Some(Sentinel),
            _ => None,
        }
    }
}

/// The command that a server says it does not know.
fn unknown<'a>(code: &str, detail: &'a str) -> Option<&'a str> {
    let said = match code {
        // Envoy's errors have no code, so their first word is taken for one.
        "unsupported" => detail.strip_prefix("command")?,
        _ => detail.split_once("unknown command")?.1,
    };
    // In quotes of one kind or another, and maybe with its arguments behind it.
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
            ("role:master\ncluster_enabled:1", Some(Clustered)),
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
            // These need not be known; and what a command says is not its name.
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
    fn each_has_one_sentence() {
        for kind in UnsupportedServer::ALL {
            let said = kind.sentence();
            assert!(said.starts_with("it ") && said.contains(": "), "{said}");
            assert_eq!(UnsupportedServer::of_sentence(said), Some(kind));
        }
        assert_eq!(UnsupportedServer::of_sentence("NOAUTH"), None);
    }
}
