//! URLs that name several hosts, which nothing that parses URLs knows:
//! `SCHEME://[user:password@]host[:port];host…[/path][?query]`.

use url::Url;

use super::endpoint::{Endpoint, percent_decoded};

/// What leads to a node by way of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Discovery {
    Sentinel,
    Cluster,
}

/// What comes behind the scheme of such a URL, and whether it asks for TLS.
pub(super) fn scheme(text: &str) -> Option<(Discovery, bool, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let (by, tls) = match &*scheme.to_ascii_lowercase() {
        "redis+sentinel" | "valkey+sentinel" => (Discovery::Sentinel, false),
        "rediss+sentinel" | "valkeys+sentinel" => (Discovery::Sentinel, true),
        "redis+cluster" | "valkey+cluster" => (Discovery::Cluster, false),
        "rediss+cluster" | "valkeys+cluster" => (Discovery::Cluster, true),
        _ => return None,
    };
    Some((by, tls, rest))
}

/// What such a URL says.
pub(super) struct HostList {
    /// All but the hosts, as in a URL of one host.
    pub(super) url: Url,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    /// TCP all of them, with TLS or all without.
    pub(super) hosts: Vec<Endpoint>,
    /// How these are shown.
    pub(super) listed: String,
}

/// Parses what comes behind the scheme, or says why not; never with a part that may belong
/// to a password. Each host is a `what`, with this port where it has none; `form` says how to
/// write it.
pub(super) fn listed(
    rest: &str,
    tls: bool,
    port: u16,
    what: &str,
    form: &str,
) -> Result<HostList, String> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (login, list) = match authority.rsplit_once('@') {
        Some((login, list)) => (format!("{login}@"), list),
        None => (String::new(), authority),
    };
    if list.contains(',') {
        return Err(format!("its {what}s are not separated by `;`: {form}"));
    }
    let (mut hosts, mut shown) = (Vec::new(), Vec::new());
    for (place, text) in list.split(';').enumerate() {
        let (host, port) = host(text, port).ok_or_else(|| {
            format!(
                "{what} {} of its list has no host, or a port that is none (write `/` and `@` in \
                 a password as %2F and %40): {form}",
                place + 1
            )
        })?;
        shown.push(if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        });
        hosts.push(Endpoint::Tcp { host, port, tls });
    }
    // The rest is parsed as any other URL, with a host that stands for the list.
    let url = Url::parse(&format!("redis://{login}host{path}"))
        .map_err(|e| format!("not a URL ({e}): {form}"))?;
    let decoded = |text: &str, what: &str| {
        percent_decoded(text).ok_or_else(|| format!("its {what} is not valid UTF-8"))
    };
    let user = match url.username() {
        "" => None,
        user => Some(decoded(user, "user")?),
    };
    let password = match url.password() {
        None => None,
        Some(password) => Some(decoded(password, "password")?),
    };
    Ok(HostList {
        url,
        user,
        password,
        hosts,
        listed: shown.join(";"),
    })
}

/// A host and its port.
fn host(text: &str, port: u16) -> Option<(String, u16)> {
    let url = Url::parse(&format!("redis://{text}")).ok()?;
    let host = match url.host()? {
        url::Host::Ipv6(ip) => ip.to_string(),
        host => host.to_string(),
    };
    Some((host, url.port().unwrap_or(port)))
}
