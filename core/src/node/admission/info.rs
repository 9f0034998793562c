//! What a server says of itself: whether it may be a node, and whether it may
//! have lost anything. Pure.

use std::time::Duration;

use super::flavor::{Flavor, UnsupportedServer};
use crate::foreign;
use crate::hash::fnv1a;
use crate::node::Memory;

/// What a server without a record may have lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Newness {
    /// Nothing: it has run for longer than any vote lives, and stored nothing.
    New,
    /// The server stored nothing in this run, but an earlier run may have ended so recently that it
    /// has lost votes which count for this long yet.
    Young(Duration),
    /// Anything.
    Used,
}

/// Why a server cannot be a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The server is of a kind that can be no node.
    Unsupported(UnsupportedServer),
    /// The server's version is below the first that will do.
    Old,
    /// The server is a replica.
    Replica,
    /// The server drops keys when its memory is full.
    Evicts,
}

/// What is added to the life of a vote before a server counts as old enough:
/// its uptime is the difference of two moments cut to seconds, by a clock that
/// is read ten times a second.
const UPTIME_MARGIN: Duration = Duration::from_secs(2);

/// Whether a command of this name, as `INFO commandstats` has it, stores
/// nothing and deletes nothing. A closed list: what is not known is not
/// harmless. `CONFIG RESETSTAT` is not, for it hides what was before it.
fn is_harmless(name: &str) -> bool {
    let (command, sub) = name.split_once('|').unwrap_or((name, ""));
    match command {
        "info" | "hello" | "auth" | "ping" | "select" | "get" | "time" | "client" | "command" => {
            true
        }
        // Redis 6.2 counts all kinds of SCRIPT as one, so the bare name is harmless, too.
        "script" => matches!(sub, "" | "load"),
        // Valkey 9.1 sends itself CONFIG GET when it starts; Redis 6.2 counts all kinds of CONFIG
        // as one, so the bare name is not harmless.
        "config" => sub == "get",
        "del" | "unlink" | "flushall" | "flushdb" => false,
        _ => false,
    }
}

/// How many strings a server stores for one pledge: the record, and maybe a quarantine.
const STORED_BY_PLEDGE: u64 = 2;

/// Whether a server that holds a pledge may have voted in this run before that was written.
/// `commandstats` is asked for after the pledge was seen.
///
/// A client that has found the server new may write its pledge late: another has founded the
/// set meanwhile, and the server has voted and lost all data, so that it is without a record
/// once more. What it stored shows that: a record that was raised has been stored twice, and
/// the pledge makes three. A server that counts nothing may have voted.
pub fn may_have_voted(commandstats: &str) -> bool {
    let counts = || {
        let lines = commandstats.lines();
        lines.filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'))
    };
    let hidden = counts().any(|(name, _)| name.starts_with("config") && !is_harmless(name));
    let stored = counts().find(|(name, _)| *name == "set");
    let stored = stored.and_then(|(_, count)| {
        let calls = count.strip_prefix("calls=")?;
        calls.split(',').next()?.trim_end().parse::<u64>().ok()
    });
    let by_pledge = stored.is_some_and(|n| (1..=STORED_BY_PLEDGE).contains(&n));
    hidden || !by_pledge
}

/// Where a server stands in the order of masters, as its histories of replication tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PromotionHistory {
    /// The history that the server is at.
    own: u64,
    /// The history that the server went on from when it was promoted; `None`: it never was
    /// promoted.
    from: Option<u64>,
}

impl PromotionHistory {
    /// Whether no other server was master between `before` and this one.
    pub(crate) fn follows(self, before: PromotionHistory) -> bool {
        self.from.is_none_or(|from| from == before.own)
    }
}

/// What a server's `INFO` says, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Names this run of the server, from its start on or from when it was promoted last:
    /// see [`run_of`].
    pub run: Option<String>,
    /// Where it stands in the order of masters.
    pub(crate) promotions: PromotionHistory,
    flavor: Flavor,
    /// The server runs in cluster mode, and is not taken for a [shard](Info::of_shard).
    in_cluster: bool,
    /// `host:port` of its master, for a replica.
    master: Option<String>,
    /// What it drops when it is full; `None` if it has no bound or drops
    /// nothing.
    eviction: Option<String>,
    /// How much memory it uses, and may; `None` if it has no bound, or drops keys there.
    pub(crate) memory: Option<Memory>,
    /// How long it has run, in whole seconds by its own clock.
    uptime: Option<u64>,
    /// The server never was a replica, and dropped nothing, in this run.
    untouched: bool,
}

impl Info {
    /// Reads the text of `INFO`.
    pub fn parse(text: &str) -> Info {
        let get = |name: &str| {
            text.lines()
                .filter_map(|line| line.trim_end().split_once(':'))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.to_owned())
        };
        let replica = get("role").is_some_and(|role| role != "master");
        let bytes = |name: &str| get(name).and_then(|bytes| bytes.parse::<u64>().ok());
        let bounded = get("maxmemory").is_some_and(|bytes| bytes != "0");
        let eviction = get("maxmemory_policy").filter(|p| bounded && p != "noeviction");
        let memory = bytes("used_memory").zip(bytes("maxmemory"));
        let history = get("master_replid2");
        Info {
            // A run id of another form would not fit into a record.
            run: get("run_id")
                .filter(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric()))
                .map(|id| run_of(id, history.as_deref())),
            promotions: PromotionHistory {
                own: fnv1a(get("master_replid").unwrap_or_default().as_bytes()),
                from: history
                    .as_deref()
                    .filter(|history| !history.is_empty() && !zeros(history))
                    .map(|history| fnv1a(history.as_bytes())),
            },
            flavor: Flavor::in_info(get),
            in_cluster: get("cluster_enabled").is_some_and(|enabled| enabled == "1"),
            master: replica.then(|| {
                let host = get("master_host").unwrap_or_else(|| "?".into());
                foreign::excerpt(&format!(
                    "{host}:{}",
                    get("master_port").unwrap_or_default()
                ))
            }),
            memory: memory
                .filter(|(_, limit)| *limit > 0 && eviction.is_none())
                .map(|(used, limit)| Memory { used, limit }),
            eviction: eviction.map(|policy| foreign::excerpt(&policy)),
            uptime: get("uptime_in_seconds").and_then(|seconds| seconds.parse().ok()),
            untouched: {
                let never_replica = history.as_deref().is_some_and(zeros);
                never_replica && get("evicted_keys").is_some_and(|keys| keys == "0")
            },
        }
    }

    /// What a server without a record may have lost, if no vote outlives
    /// `votes_last`. `commandstats` is that section of `INFO`, of the same
    /// connection, asked for after the record was.
    ///
    /// A server that has run for longer than any vote lives, and that never
    /// stored anything in this run, has lost nothing that counts: what it may
    /// have voted for in an earlier run is over.
    pub fn newness(&self, commandstats: &str, votes_last: Duration) -> Newness {
        let counts = commandstats.lines();
        let mut names = counts.filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next());
        // The server has just answered INFO: statistics without that command count nothing.
        let counts_all = names.clone().any(|name| name == "info");
        let (true, true, Some(uptime)) = (
            counts_all && names.all(is_harmless),
            self.untouched,
            self.uptime,
        ) else {
            return Newness::Used;
        };
        let needed = votes_last + UPTIME_MARGIN;
        let uptime = Duration::from_secs(uptime);
        match needed.saturating_sub(uptime) {
            Duration::ZERO => Newness::New,
            left => Newness::Young(left.min(votes_last)),
        }
    }

    /// The kind of the server, if that can be no node.
    pub(crate) fn unsupported(&self) -> Option<UnsupportedServer> {
        let clustered = self.in_cluster.then_some(UnsupportedServer::Clustered);
        self.flavor.unsupported().or(clustered)
    }

    /// Whether it drops keys when it is full.
    pub(crate) fn evicts(&self) -> bool {
        self.eviction.is_some()
    }

    /// Whether it is a replica.
    pub(crate) fn is_replica(&self) -> bool {
        self.master.is_some()
    }

    /// Why a server like this cannot be a node.
    pub fn unfit(&self, accept_eviction: bool) -> Option<String> {
        self.unfit_as(accept_eviction).map(|(_, why)| why)
    }

    /// What a shard of a cluster says of itself, as of any server; or why it is none.
    pub(crate) fn of_shard(self) -> Result<Info, String> {
        match self.flavor {
            _ if self.in_cluster => Ok(Info {
                in_cluster: false,
                ..self
            }),
            Flavor::Redis(_) | Flavor::Valkey(_) => {
                Err("it is not in cluster mode: write redis:// in place of redis+cluster://".into())
            }
            // The server's own account may be forbidden to the user, so it need not show a version.
            Flavor::Unknown => Ok(self),
            // The caller refuses the server for its kind.
            Flavor::Unsupported(_) => Ok(self),
        }
    }

    /// Why the server will not do, and the kind of that reason.
    pub(crate) fn unfit_as(&self, accept_eviction: bool) -> Option<(Rejection, String)> {
        // The kind comes first, for such a server's version, role and memory are not what they look
        // like.
        if let Some(kind) = self.unsupported() {
            return Some((Rejection::Unsupported(kind), kind.sentence().into()));
        }
        if let Some(why) = self.flavor.too_old() {
            return Some((Rejection::Old, why));
        }
        if let Some(master) = &self.master {
            let why = format!("it is a replica of {master}: only masters may vote");
            return Some((Rejection::Replica, why));
        }
        match &self.eviction {
            Some(policy) if !accept_eviction => {
                let why = format!(
                    "its maxmemory_policy is {policy}, which may drop locks: set it to noeviction, \
                     or accept it with accept_eviction"
                );
                Some((Rejection::Evicts, why))
            }
            _ => None,
        }
    }
}

/// A history of replication that there is none of.
fn zeros(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|b| b == b'0')
}

/// The run of a server of this `run_id`, which stays the same when a replica is promoted
/// although that may lack the last votes of its master. What changes then is the `history`
/// that it went on from, `master_replid2`: zeros for a server that never was a replica in
/// this run. (`master_replid` changes as well when the first replica is attached, and a
/// backup would look like a restart.)
fn run_of(run_id: String, history: Option<&str>) -> String {
    match history.filter(|history| !zeros(history) && !history.is_empty()) {
        Some(history) => sha1_smol::Sha1::from(format!("{run_id}{history}"))
            .digest()
            .to_string(),
        None => run_id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "redis_version:7.0.15\nrun_id:ab\nrole:master\nmaxmemory:0\n\
        maxmemory_policy:allkeys-lru\nuptime_in_seconds:100\nevicted_keys:0\n\
        master_replid2:0000000000000000000000000000000000000000\n";

    fn info(text: &str) -> Info {
        Info::parse(&text.replace('\n', "\r\n"))
    }

    #[test]
    fn unfit_servers_are_told_apart() {
        assert_eq!(info(GOOD).unfit(false), None);
        assert_eq!(info(GOOD).run.as_deref(), Some("ab"));
        for strange in ["run_id:", "run_id:a b", "run_id:ééééééééé"] {
            assert_eq!(info(&GOOD.replace("run_id:ab", strange)).run, None);
        }
        for (old, new, word) in [
            ("7.0.15", "6.0.9", "6.2 or later"),
            (
                "role:master",
                "role:slave\nmaster_host:h\nmaster_port:1",
                "replica of h:1",
            ),
            ("maxmemory:0", "maxmemory:100", "allkeys-lru"),
            ("maxmemory:0", "cluster_enabled:1", "cluster mode"),
            // The version and the role would be refused for other reasons, too.
            ("7.0.15", "4.0.0\nkvrocks_version:2.9.0", "Kvrocks"),
            ("role:master", "role:active-replica", "active-replica"),
        ] {
            let why = info(&GOOD.replace(old, new)).unfit(false).unwrap();
            assert!(why.contains(word), "{why}");
        }
        assert_eq!(
            info(&GOOD.replace("maxmemory:0", "maxmemory:9")).unfit(true),
            None
        );
    }

    #[test]
    fn a_promotion_is_a_run_of_its_own() {
        let run = |text: &str| info(text).run.unwrap();
        let promoted = |history: &str| GOOD.replace(&"0".repeat(40), history);
        let (first, second) = (run(&promoted("c1")), run(&promoted("c2")));
        assert_ne!(run(GOOD), first);
        assert_ne!(first, second);
        assert_eq!(first, run(&promoted("c1")));
        assert_eq!(first.len(), 40);
        // A server that does not tell its history, or cannot, counts as never promoted.
        for silent in ["", "0"] {
            assert_eq!(run(&promoted(silent)), run(GOOD));
        }
        assert_eq!(run(&GOOD.replace("master_replid2", "other")), run(GOOD));
    }

    #[test]
    fn a_master_follows_the_one_whose_history_it_went_on_from() {
        let promotions = |own: &str, from: &str| {
            let text = GOOD.replace(&"0".repeat(40), from);
            info(&format!("{text}master_replid:{own}\n")).promotions
        };
        let (first, zeros) = (promotions("a", &"0".repeat(40)), "0".repeat(40));
        let (second, third) = (promotions("b", "a"), promotions("c", "b"));
        assert!(second.follows(first) && third.follows(second));
        assert!(!third.follows(first));
        // A server that never was promoted took the place of no other: it has restarted.
        assert!(promotions("d", &zeros).follows(third) && promotions("d", "").follows(third));
    }

    #[test]
    fn a_server_is_new_that_is_old_enough_and_never_stored_anything() {
        const LAST: Duration = Duration::from_secs(60);
        let stats = |names: &[&str]| -> String {
            let line = |name: &&str| format!("cmdstat_{name}:calls=1,usec=2\r\n");
            let names = ["info", "get"].iter().chain(names).map(line);
            std::iter::once("# Commandstats\r\n".to_owned())
                .chain(names)
                .collect()
        };
        let quiet = stats(&[
            "hello",
            "auth",
            "ping",
            "select",
            "time",
            "client|info",
            "client",
            "command|docs",
            "config|get",
            "script|load",
            "script",
        ]);
        let up = |seconds: u64| GOOD.replace("seconds:100", &format!("seconds:{seconds}"));
        let newness = |text: &str, stats: &str| info(text).newness(stats, LAST);
        for (uptime, expected) in [
            (62, Newness::New),
            (61, Newness::Young(Duration::from_secs(1))),
            (3, Newness::Young(Duration::from_secs(59))),
            (0, Newness::Young(LAST)),
        ] {
            assert_eq!(newness(&up(uptime), &quiet), expected, "{uptime}");
        }
        for name in [
            "set",
            "del",
            "unlink",
            "flushall",
            "evalsha",
            "eval",
            "config|resetstat",
            "config|set",
            "config",
            "script|flush",
            "restore",
            "replicaof",
            "psync",
            "pttl",
            "debug",
        ] {
            assert_eq!(newness(GOOD, &stats(&[name])), Newness::Used, "{name}");
        }
        // The server counts no commands, or does not say.
        assert_eq!(newness(GOOD, "# Commandstats\r\n"), Newness::Used);
        assert_eq!(newness("", &quiet), Newness::Used);
        for (old, new) in [
            ("replid2:0000", "replid2:00f0"),
            ("evicted_keys:0", "evicted_keys:7"),
            ("evicted_keys:0", ""),
            ("uptime_in_seconds:100", "uptime_in_seconds:-998"),
        ] {
            assert_eq!(
                newness(&GOOD.replace(old, new), &quiet),
                Newness::Used,
                "{new}"
            );
        }
    }

    #[test]
    fn a_server_that_stored_more_than_a_pledge_may_have_voted() {
        let stats = |lines: &str| format!("# Commandstats\r\ncmdstat_info:calls=3\r\n{lines}\r\n");
        for (lines, may) in [
            ("cmdstat_set:calls=1,usec=5", false),
            ("cmdstat_eval:calls=9\r\ncmdstat_set:calls=2,usec=5", false),
            // The server has stored a record, raised it, and stored the pledge behind them.
            ("cmdstat_set:calls=3,usec=5", true),
            ("cmdstat_set:calls=12", true),
            ("cmdstat_set:calls=1\r\ncmdstat_config|get:calls=1", false),
            (
                "cmdstat_set:calls=1\r\ncmdstat_config|resetstat:calls=1",
                true,
            ),
            ("cmdstat_set:calls=1\r\ncmdstat_config:calls=1", true),
            // The server does not count the pledge, either.
            ("cmdstat_eval:calls=1", true),
            ("cmdstat_set:usec=5", true),
        ] {
            assert_eq!(may_have_voted(&stats(lines)), may, "{lines}");
        }
        assert!(may_have_voted(""));
    }
}
