//! Where a node is and how to talk to it: the URL, parsed.
//!
//! `redis://[user:password@]host[:port][/db]`, `rediss://` for TLS, `valkey://`
//! and `valkeys://` likewise; `redis+unix:///path?db=1&user=u&password=p`, `memory://NAME`;
//! [`redis+sentinel://`](sentinel); [`redis+cluster://`](cluster).

mod cluster;
mod endpoint;
mod listed;
mod sentinel;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use url::Url;

use crate::error::Error;
use crate::given;
use crate::node::Fault;
pub(crate) use endpoint::Seeds;
pub(crate) use endpoint::{Endpoint, Sentinels, shown};
use endpoint::{number_of, percent_decoded, with_database};
use listed::Discovery;

/// Origin of a client's node list: errors about a node say where its URL came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The caller passed the list when the client was made.
    Caller,
    /// The environment variable of this name.
    Environment(&'static str),
    /// The file of this path, which the caller did not name.
    File(&'static str),
    /// The default node of this name: neither the caller nor the environment variable named any.
    Default(&'static str),
}

impl fmt::Display for Origin {
    /// What to add to a message about the nodes; nothing where the caller named them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Caller => Ok(()),
            Origin::Environment(variable) => write!(f, " (the nodes are those of {variable})"),
            Origin::File(path) => write!(f, " (the nodes are those of {path})"),
            Origin::Default(_) => f.write_str(" (no node was named, so this is the default one)"),
        }
    }
}

/// A node's address, with what to say after connecting.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) endpoint: Endpoint,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) db: i64,
    pub(crate) origin: Origin,
    /// For errors and logs: no user, no password.
    pub(crate) shown: Arc<str>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.shown)
    }
}

const FORMS: &str = "write redis://host:port, rediss://host:port, redis+unix:///path, \
                     redis+sentinel://host:port/master, redis+cluster://host:port or memory://name";

/// What a password may not have as it is, and what cuts a list of URLs.
const ESCAPES: &str = " (in a user or a password write / # ? @ , as %2F %23 %3F %40 %2C)";

/// Why there is no TLS.
#[cfg(not(feature = "tls"))]
pub(crate) const WITHOUT_TLS: &str = "this program was compiled without it: enable the feature `tls` of the crate \
     quorlock, or write redis://";

impl Address {
    /// Parses a node URL. Errors never repeat the URL, which may carry a
    /// password; they name the node by its place in the list.
    pub(crate) fn parse(index: usize, text: &str, origin: Origin) -> Result<Address, Error> {
        let wrong = |why: &str| Error::invalid(format!("node {}: {why}{origin}", index + 1));
        let text = text.trim();
        // A text such as `localhost:6379` parses as a URL with the scheme `localhost`.
        if !text.contains(":/") {
            let hint = if text.contains('@') { ESCAPES } else { "" };
            return Err(wrong(&format!(
                "it does not say how to reach it: {FORMS}{hint}"
            )));
        }
        #[cfg(not(feature = "tls"))]
        if let Some((scheme, _)) = text.split_once("://")
            && ["rediss", "valkeys"]
                .iter()
                .any(|tls| scheme.to_ascii_lowercase().starts_with(tls))
        {
            return Err(wrong(&format!("the URL asks for TLS, and {WITHOUT_TLS}")));
        }
        // A list of hosts, as these schemes have it, is no valid URL, so it is cut before the
        // parser.
        if let Some((by, tls, rest)) = listed::scheme(text) {
            return Address::of_several(by, tls, rest, origin).map_err(|why| wrong(&why));
        }
        let unescaped = text.split_once("://").is_some_and(|(scheme, rest)| {
            let rest = rest.split_once(['/', '?', '#']).map(|(_, rest)| rest);
            !scheme.contains("unix") && rest.is_some_and(|rest| rest.contains('@'))
        });
        if unescaped {
            return Err(wrong(&format!("not a URL: {FORMS}{ESCAPES}")));
        }
        let url =
            Url::parse(text).map_err(|e| wrong(&format!("not a URL ({e}): {FORMS}{ESCAPES}")))?;
        let decoded = |text: &str, what: &str| {
            percent_decoded(text).ok_or_else(|| wrong(&format!("its {what} is not valid UTF-8")))
        };
        let mut user = match url.username() {
            "" => None,
            user => Some(decoded(user, "user")?),
        };
        let mut password = match url.password() {
            None => None,
            Some(password) => Some(decoded(password, "password")?),
        };
        let mut db = "0".to_owned();
        let (endpoint, shown) = match url.scheme() {
            "redis" | "rediss" | "valkey" | "valkeys" => {
                if let Some(named) = database(&url).map_err(wrong)? {
                    db = named;
                }
                tcp(&url).map_err(|why| wrong(&why))?
            }
            "redis+unix" | "unix" => {
                if cfg!(not(unix)) {
                    return Err(wrong(
                        "sockets of the machine are for Unix systems alone: write redis://host:port",
                    ));
                }
                let path = decoded(url.path(), "path")?;
                if path.len() < 2 {
                    return Err(wrong("the URL names no socket: write redis+unix:///path"));
                }
                for (key, value) in url.query_pairs() {
                    match &*key {
                        "db" => db = value.into_owned(),
                        "user" | "username" => user = Some(value.into_owned()),
                        "pass" | "password" => password = Some(value.into_owned()),
                        // The part is not shown: it may be the rest of a password.
                        _ => {
                            return Err(wrong(
                                "its query holds what is not understood in a redis+unix URL: db, \
                                 user and password are (write `&` in a password as %26)",
                            ));
                        }
                    }
                }
                (Endpoint::Unix(PathBuf::from(&path)), path)
            }
            "memory" => {
                let name = url.host_str().unwrap_or_default().to_owned();
                if name.is_empty() {
                    return Err(wrong("the memory node has no name: write memory://name"));
                }
                let shown = format!("memory://{name}");
                (Endpoint::Memory(name), shown)
            }
            other => {
                // A long scheme is not shown: it may be a password that contains `:/`.
                return Err(wrong(&format!(
                    "its scheme is {}, which is not understood: {FORMS}",
                    given::shown("scheme", other)
                )));
            }
        };
        let db = number_of(&db).map_err(wrong)?;
        let shown = with_database(shown, db);
        Ok(Address {
            endpoint,
            user,
            password,
            db,
            origin,
            shown: shown.into(),
        })
    }

    /// The address in a URL that names several hosts, by what comes behind its scheme; or why
    /// that is none.
    fn of_several(by: Discovery, tls: bool, rest: &str, origin: Origin) -> Result<Address, String> {
        Ok(match by {
            Discovery::Sentinel => {
                let parts = sentinel::parse(tls, rest)?;
                Address {
                    endpoint: Endpoint::Sentinel(Arc::new(parts.sentinels)),
                    user: parts.user,
                    password: parts.password,
                    db: parts.db,
                    origin,
                    shown: parts.shown.into(),
                }
            }
            Discovery::Cluster => {
                let parts = cluster::parse(tls, rest)?;
                Address {
                    endpoint: Endpoint::Cluster(Arc::new(parts.seeds)),
                    user: parts.user,
                    password: parts.password,
                    db: 0,
                    origin,
                    shown: parts.shown.into(),
                }
            }
        })
    }

    /// The address of one server of a node that is a cluster.
    pub(crate) fn of_cluster(&self, at: Endpoint) -> Address {
        Address {
            shown: format!("{} of {}", shown(&at), self.shown).into(),
            endpoint: at,
            ..self.clone()
        }
    }

    /// A fault without the passwords of the URL, which a server may repeat in its errors.
    pub(crate) fn quiet(&self, fault: Fault) -> Fault {
        let of_sentinels = match &self.endpoint {
            Endpoint::Sentinel(sentinels) => sentinels.password.as_deref(),
            _ => None,
        };
        let passwords = [self.password.as_deref(), of_sentinels];
        let repeated = |password: &&str| password.len() > 2 && fault.text.contains(*password);
        let repeated: Vec<_> = passwords.into_iter().flatten().filter(repeated).collect();
        let hidden = |text: String, password: &str| text.replace(password, "…");
        if repeated.is_empty() {
            fault
        } else {
            Fault {
                text: repeated
                    .into_iter()
                    .fold(fault.text.to_string(), hidden)
                    .into(),
                ..fault
            }
        }
    }

    /// Whether another server takes the node's place when its own fails, or that of a part
    /// of it.
    pub(crate) fn fails_over(&self) -> bool {
        matches!(self.endpoint, Endpoint::Sentinel(_) | Endpoint::Cluster(_))
    }
}

/// The database that a URL of a host names, as its path or as `?db=1`, for other
/// libraries write either. What is not understood is not shown: it may be the rest
/// of a password.
fn database(url: &Url) -> Result<Option<String>, &'static str> {
    let path = url.path();
    let path = path.strip_prefix('/').unwrap_or(path);
    let mut named = (!path.is_empty()).then(|| path.to_owned());
    for (key, value) in url.query_pairs() {
        if key != "db" {
            return Err(
                "its query holds more than `db`: give other settings as options of the client \
                 (write `?` in a password as %3F)",
            );
        }
        if named.as_ref().is_some_and(|db| *db != value) {
            return Err("it names two databases: write one, redis://host:port/1");
        }
        named = Some(value.into_owned());
    }
    Ok(named)
}

/// The host and port of a URL that has them, and how they are shown;
/// or why it has none.
fn tcp(url: &Url) -> Result<(Endpoint, String), String> {
    let host = match url.host() {
        Some(url::Host::Ipv6(ip)) => ip.to_string(),
        Some(host) => host.to_string(),
        None => return Err(format!("the URL names no host: {FORMS}")),
    };
    let port = url.port().unwrap_or(6379);
    let shown = match url.host() {
        Some(url::Host::Ipv6(ip)) => format!("[{ip}]:{port}"),
        _ => format!("{host}:{port}"),
    };
    let tls = matches!(url.scheme(), "rediss" | "valkeys");
    Ok((Endpoint::Tcp { host, port, tls }, shown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::FaultKind;

    fn parse(url: &str) -> Address {
        Address::parse(0, url, Origin::Caller).unwrap()
    }

    #[test]
    fn a_password_that_is_not_escaped_is_told_as_that_and_not_shown() {
        for password in [
            "s3cret/", "s3cret#", "s3cret?", "1/s3cret", "#s3cret@", "s3cret,x",
        ] {
            for user in ["", "u"] {
                let url = format!("redis://{user}:{password}@h:6379");
                // The text is cut where a list of URLs is cut.
                let first = url
                    .split(',')
                    .map(|url| Address::parse(0, url, Origin::Caller));
                let error = first.filter_map(Result::err).next().unwrap().to_string();
                assert!(
                    error.contains("%2F") && !error.contains("s3cret"),
                    "{error}"
                );
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn sockets_of_this_machine_are_understood() {
        let unix = parse("redis+unix:///run/redis.sock?db=2&password=x");
        assert_eq!(unix.endpoint, Endpoint::Unix("/run/redis.sock".into()));
        assert_eq!((unix.db, unix.password.as_deref()), (2, Some("x")));
    }

    #[cfg(not(unix))]
    #[test]
    fn what_this_system_has_no_sockets_for_is_refused() {
        let error = Address::parse(0, "redis+unix:///run/redis.sock", Origin::Caller).unwrap_err();
        assert!(
            error.to_string().contains("write redis://host:port"),
            "{error}"
        );
    }

    #[test]
    fn urls_are_understood() {
        let a = parse("redis://u:p%40ss@example.org:7000/3");
        assert_eq!(
            a.endpoint,
            Endpoint::Tcp {
                host: "example.org".into(),
                port: 7000,
                tls: false
            }
        );
        assert_eq!(a.user.as_deref(), Some("u"));
        assert_eq!(a.password.as_deref(), Some("p@ss"));
        assert_eq!((a.db, &*a.shown), (3, "example.org:7000/3"));
        assert_eq!(&*parse("rediss://[::1]").shown, "[::1]:6379");
        for (one, same) in [
            ("valkey://h", "redis://h"),
            ("valkeys://h:1", "rediss://h:1"),
            ("redis://h?db=0", "redis://h"),
            ("redis://h:1/?db=3", "redis://h:1/3"),
            ("redis://h/3?db=3", "redis://h/3"),
        ] {
            let (one, same) = (parse(one), parse(same));
            assert_eq!((one.endpoint, one.db), (same.endpoint, same.db));
        }
        assert_eq!(parse("memory://a").endpoint, Endpoint::Memory("a".into()));
    }

    #[test]
    fn bad_urls_are_refused_without_their_secrets() {
        for url in [
            "127.0.0.1:6379",
            "http://u:hunter2@h",
            "redis://:hunter2@h:99999",
            "redis://:hunter2@h/zero",
            "redis://:hunter2@h/-1",
            "redis://:hunter2@h?db=x",
            "redis://:hunter2@h?db=1&hunter2",
            "redis://:a@h/1?db=2",
            "localhost:hunter2",
            "u:hunter2@h:6379",
            "h",
            "redis://u:/hunter2@h",
            "redis+unix:///s?password=a&hunter2",
            "redis+unix://?password=hunter2",
            "redis+unix:///s?pwd=hunter2",
            "memory://",
            "redis://",
        ] {
            let error = Address::parse(4, url, Origin::Caller).unwrap_err();
            assert!(error.message().contains(": node 5: "), "{url}: {error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{url}: {error}");
        }
    }

    #[test]
    fn what_a_server_repeats_of_a_password_is_not_shown() {
        let of = |url: &str| {
            let fault = Fault::new(
                FaultKind::Misconfigured,
                "ERR hunter2 and hunter3 are wrong",
                true,
            );
            parse(url).quiet(fault).text.to_string()
        };
        assert_eq!(of("redis://u:hunter2@h"), "ERR … and hunter3 are wrong");
        let sentinels = of("redis+sentinel://u:hunter2@h/m?sentinel_password=hunter3");
        assert_eq!(sentinels, "ERR … and … are wrong");
        assert_eq!(of("redis://u:re@h"), of("redis://h"));
    }

    #[test]
    fn debug_hides_the_password() {
        let text = format!("{:?}", parse("redis://u:hunter2@h"));
        assert!(
            text.contains("h:6379") && !text.contains("hunter2"),
            "{text}"
        );
    }
}
