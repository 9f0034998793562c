//! What a server's `INFO` says for people to read. Pure; what the protocol goes by
//! is [`Info`](super::Info).

use std::time::Duration;

use super::flavor::Flavor;
use crate::foreign;

/// What a server says of itself; `None` where it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerFacts {
    pub(crate) flavor: Flavor,
    /// `master` or `replica`.
    pub(crate) role: Option<&'static str>,
    pub(crate) uptime: Option<Duration>,
    /// The server's `maxmemory_policy`.
    pub(crate) eviction: Option<String>,
    /// In bytes.
    pub(crate) memory_used: Option<u64>,
    /// In bytes; `None`: it has no limit.
    pub(crate) memory_limit: Option<u64>,
}

impl ServerFacts {
    /// Reads the text of `INFO`.
    pub(crate) fn parse(text: &str) -> ServerFacts {
        let lines = || {
            text.lines()
                .filter_map(|line| line.trim_end().split_once(':'))
        };
        let get = |name: &str| {
            lines()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        let number = |name: &str| get(name).and_then(|value| value.parse::<u64>().ok());
        ServerFacts {
            flavor: Flavor::in_info(|name| get(name).map(str::to_owned)),
            role: get("role").map(|role| match role {
                "master" => "master",
                _ => "replica",
            }),
            uptime: number("uptime_in_seconds").map(Duration::from_secs),
            eviction: get("maxmemory_policy").map(foreign::excerpt),
            memory_used: number("used_memory"),
            memory_limit: number("maxmemory").filter(|limit| *limit != 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_what_they_are() {
        let redis = ServerFacts::parse(
            "# Server\r\nredis_version:7.0.15\r\nuptime_in_seconds:61\r\nrole:slave\r\n\
             used_memory:9\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n",
        );
        assert_eq!(redis.flavor, Flavor::Redis("7.0.15".into()));
        assert_eq!(redis.role, Some("replica"));
        assert_eq!(redis.uptime, Some(Duration::from_secs(61)));
        assert_eq!((redis.memory_used, redis.memory_limit), (Some(9), None));
        let valkey =
            ServerFacts::parse("redis_version:7.2.4\r\nvalkey_version:9.1.0\r\nmaxmemory:5");
        assert_eq!(valkey.flavor, Flavor::Valkey("9.1.0".into()));
        assert_eq!(valkey.memory_limit, Some(5));
        assert_eq!(ServerFacts::parse(""), ServerFacts::default());
    }
}
