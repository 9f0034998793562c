//! A node that is a master with replicas, found by its sentinels:
//! `redis+sentinel://[user:password@]host[:26379];host;host/MASTER[/db]`, with
//! `?sentinel_user=…&sentinel_password=…` where the sentinels want those.
//! `rediss+sentinel://` for TLS to the sentinels and to the servers; `valkey+sentinel://`
//! and `valkeys+sentinel://` likewise.

use url::Url;

use super::endpoint::{Sentinels, number_of, percent_decoded, with_database};
use super::listed::{HostList, listed};

/// The port of a sentinel.
const PORT: u16 = 26379;
const FORM: &str = "write redis+sentinel://host:26379;host;host/master";

/// What a URL says.
pub(super) struct SentinelUrl {
    pub(super) sentinels: Sentinels,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) db: i64,
    /// For errors and logs: no user, no password.
    pub(super) shown: String,
}

/// Parses what comes behind the scheme, or says why not; never with a part that may belong
/// to a password.
pub(super) fn parse(tls: bool, rest: &str) -> Result<SentinelUrl, String> {
    let HostList {
        url,
        user,
        password,
        hosts,
        listed,
    } = listed(rest, tls, PORT, "sentinel", FORM)?;
    let decoded = |text: &str, what: &str| {
        percent_decoded(text).ok_or_else(|| format!("its {what} is not valid UTF-8"))
    };
    let path = url.path();
    if path.contains('@') {
        // The part before it is not shown: it may be the rest of a password that has a `/`.
        return Err(format!(
            "its path has an `@` (write `/` in a password as %2F, and `@` in the master's name as \
             %40): {FORM}"
        ));
    }
    let (master, db) = match path.strip_prefix('/').unwrap_or(path).split_once('/') {
        Some((master, db)) => (master, Some(db.to_owned()).filter(|db| !db.is_empty())),
        None => (path.strip_prefix('/').unwrap_or(path), None),
    };
    let master = decoded(master, "master's name")?;
    if master.is_empty() || master.contains(|c: char| c.is_control() || c == ' ') {
        return Err(format!(
            "it does not say by what name the sentinels know the master: {FORM}"
        ));
    }
    let mut sentinels = Sentinels {
        master,
        hosts,
        tls,
        user: None,
        password: None,
    };
    let db = take_query(&url, &mut sentinels, db)?;
    let db = number_of(db.as_deref().unwrap_or("0"))?;
    let shown = with_database(format!("{}@{listed}", sentinels.master), db);
    Ok(SentinelUrl {
        sentinels,
        user,
        password,
        db,
        shown,
    })
}

/// Takes what the query says of the sentinels. Returns the database that the path or the
/// query names.
fn take_query(
    url: &Url,
    sentinels: &mut Sentinels,
    path: Option<String>,
) -> Result<Option<String>, String> {
    let mut db = path;
    for (key, value) in url.query_pairs() {
        let value = value.into_owned();
        match &*key {
            "sentinel_user" => sentinels.user = Some(value),
            "sentinel_password" => sentinels.password = Some(value),
            "db" if db.as_ref().is_some_and(|db| *db != value) => {
                return Err(format!("it names two databases: {FORM}/1"));
            }
            "db" => db = Some(value),
            // The part is not shown: it may be the rest of a password.
            _ => {
                return Err(
                    "its query holds what is not understood: db, sentinel_user and \
                     sentinel_password are (write `?` and `&` in a password as %3F and %26)"
                        .into(),
                );
            }
        }
    }
    match (&sentinels.user, &sentinels.password) {
        (Some(_), None) => Err("it has a sentinel_user and no sentinel_password".into()),
        _ => Ok(db),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::address::{Address, Endpoint, Origin};

    fn parse(url: &str) -> Address {
        Address::parse(0, url, Origin::Caller).unwrap()
    }

    fn sentinels(address: &Address) -> &Sentinels {
        match &address.endpoint {
            Endpoint::Sentinel(sentinels) => sentinels,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn urls_are_understood() {
        let a = parse(
            "redis+sentinel://u:p%40ss@one;two:7000;[::1]/my%2Dmaster/3\
             ?sentinel_user=s&sentinel_password=q%26",
        );
        assert_eq!(a.user.as_deref(), Some("u"));
        assert_eq!(a.password.as_deref(), Some("p@ss"));
        assert_eq!((a.db, a.fails_over()), (3, true));
        assert_eq!(&*a.shown, "my-master@one:26379;two:7000;[::1]:26379/3");
        let s = sentinels(&a);
        assert_eq!((&*s.master, s.tls), ("my-master", false));
        assert_eq!(s.user.as_deref(), Some("s"));
        assert_eq!(s.password.as_deref(), Some("q&"));
        let tcp = |host: &str, port| Endpoint::Tcp {
            host: host.into(),
            port,
            tls: false,
        };
        let listed = [tcp("one", 26379), tcp("two", 7000), tcp("::1", 26379)];
        assert_eq!(s.hosts, listed);
        for url in ["rediss+sentinel://h/m", "valkeys+sentinel://h/m"] {
            let a = parse(url);
            assert!(sentinels(&a).tls, "{url}");
            let hosts = &sentinels(&a).hosts[..];
            assert!(matches!(hosts, [Endpoint::Tcp { tls: true, .. }]));
        }
        assert_eq!(parse("valkey+sentinel://h/m?db=2").db, 2);
        assert_eq!(&*parse("redis+sentinel://h/m/").shown, "m@h:26379");
    }

    #[test]
    fn bad_urls_are_refused_without_their_secrets() {
        for (url, word) in [
            ("redis+sentinel://h", "by what name"),
            ("redis+sentinel://h/", "by what name"),
            ("redis+sentinel://h/a%20b", "by what name"),
            ("redis+sentinel:///m", "sentinel 1"),
            ("redis+sentinel://h;;k/m", "sentinel 2"),
            ("redis+sentinel://:hunter2@h;k:99999/m", "sentinel 2"),
            ("redis+sentinel://h,k/m", "`;`"),
            ("redis+sentinel://:hunter2/3@h/m", "sentinel 1"),
            ("redis+sentinel://:hunter2@h/m/zero", "database"),
            ("redis+sentinel://h/m/1?db=2", "two databases"),
            (
                "redis+sentinel://h/m?sentinel_password=a&hunter2",
                "its query",
            ),
            (
                "redis+sentinel://h/m?sentinel_user=hunter2",
                "no sentinel_password",
            ),
            ("redis+sentinel://memory://h/m", "by what name"),
            ("redis+sentinel://u:26/hunter2@h", "`@`"),
        ] {
            let error = Address::parse(4, url, Origin::Caller).unwrap_err();
            assert!(error.message().contains(": node 5: "), "{url}: {error}");
            assert!(error.message().contains(word), "{url}: {error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{url}: {error}");
        }
    }

    #[test]
    fn debug_hides_the_passwords() {
        let a = parse("redis+sentinel://u:hunter2@h/m?sentinel_password=hunter3");
        let text = format!("{a:?} {:?}", a.endpoint);
        assert!(
            text.contains("m@h:26379") && !text.contains("hunter"),
            "{text}"
        );
    }
}
