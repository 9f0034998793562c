//! A node that is a cluster, reached by any of its servers:
//! `redis+cluster://[user:password@]host[:6379];host…`. `rediss+cluster://` for TLS to all of
//! them; `valkey+cluster://` and `valkeys+cluster://` likewise.

use super::endpoint::Seeds;
use super::listed::{HostList, listed};

const PORT: u16 = 6379;
const FORM: &str = "write redis+cluster://host:6379;host";

/// What a URL says.
pub(super) struct ClusterUrl {
    pub(super) seeds: Seeds,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    /// For errors and logs: no user, no password.
    pub(super) shown: String,
}

/// Parses what comes behind the scheme, or says why not; never with a part that may belong
/// to a password.
pub(super) fn parse(tls: bool, rest: &str) -> Result<ClusterUrl, String> {
    let HostList {
        url,
        user,
        password,
        hosts,
        listed,
    } = listed(rest, tls, PORT, "server", FORM)?;
    if !matches!(url.path(), "" | "/") {
        // The part is not shown: behind a `/` in a password it is the rest of the password.
        return Err(format!(
            "it names a database, and a cluster has one alone (write `/` in a password as %2F): \
             {FORM}"
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!(
            "it has a query: give settings as options of the client (write `?` and `#` in a \
             password as %3F and %23): {FORM}"
        ));
    }
    Ok(ClusterUrl {
        seeds: Seeds { hosts },
        user,
        password,
        shown: listed,
    })
}

#[cfg(test)]
mod tests {
    use crate::node::address::{Address, Endpoint, Origin};

    #[test]
    fn urls_are_understood() {
        let a = Address::parse(
            0,
            "rediss+cluster://u:p%2Fss@one;[::1]:7000/",
            Origin::Caller,
        );
        let a = a.unwrap();
        assert_eq!(a.user.as_deref(), Some("u"));
        assert_eq!(a.password.as_deref(), Some("p/ss"));
        assert_eq!((a.db, a.fails_over()), (0, true));
        assert_eq!(&*a.shown, "one:6379;[::1]:7000");
        let Endpoint::Cluster(seeds) = &a.endpoint else {
            panic!("{a:?}")
        };
        let tcp = |host: &str, port| Endpoint::Tcp {
            host: host.into(),
            port,
            tls: true,
        };
        assert_eq!(seeds.hosts, [tcp("one", 6379), tcp("::1", 7000)]);
        for url in ["redis+cluster://h", "valkey+cluster://h:6379/"] {
            let a = Address::parse(0, url, Origin::Caller).unwrap();
            assert_eq!(&*a.shown, "h:6379", "{url}");
        }
    }

    #[test]
    fn bad_urls_are_refused_without_their_secrets() {
        for (url, word) in [
            ("redis+cluster://", "server 1"),
            ("redis+cluster://h;;k", "server 2"),
            ("redis+cluster://:hunter2@h;k:99999", "server 2"),
            ("redis+cluster://h,k", "`;`"),
            ("redis+cluster://h/1", "database"),
            ("redis+cluster://u:26/hunter2@h", "database"),
            ("redis+cluster://u:26?hunter2@h", "query"),
            ("redis+cluster://h?db=0", "query"),
        ] {
            let error = Address::parse(4, url, Origin::Caller).unwrap_err();
            assert!(error.message().contains(": node 5: "), "{url}: {error}");
            assert!(error.message().contains(word), "{url}: {error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{url}: {error}");
        }
    }
}
