//! A node's URL, as an operator may write it: no panic, and no password in
//! what is shown.

use percent_encoding::percent_decode_str;
use quorlock::sim::probe;
use url::Url;

/// What a password is known by.
const SECRET: &str = "hunter2";

/// The schemes of URLs that are not such as others are.
const SENTINELS: [&str; 8] = [
    "redis+sentinel",
    "rediss+sentinel",
    "valkey+sentinel",
    "valkeys+sentinel",
    "redis+cluster",
    "rediss+cluster",
    "valkey+cluster",
    "valkeys+cluster",
];

pub(crate) const SEEDS: &[&[u8]] = &[
    b"redis://u:hunter2@example.org:7000/3",
    b"rediss://:hunter2@[::1]",
    b"redis+unix:///run/redis.sock?db=2&password=hunter2",
    b"unix:///s?user=hunter2",
    b"memory://a",
    b"redis+sentinel://u:hunter2@one:1;two/m/3?sentinel_user=s&sentinel_password=hunter2",
    b"rediss+sentinel://u:26/hunter2@one",
    b"redis+cluster://u:hunter2@one:1;two",
    b" redis://h/-1?x=hunter2#f",
    b"redis://u:/hunter2@h",
    b"redis://%68unter2:%ff@h",
    b"hun\tter2://u:p@h",
];

pub(crate) fn run(data: &[u8]) {
    let Ok(url) = std::str::from_utf8(data) else {
        return;
    };
    match probe::address(4, url) {
        Ok(shown) => {
            assert!(!shown.is_empty());
            let place = place(url);
            assert!(place.contains(SECRET) || !shown.contains(SECRET), "{shown}");
        }
        Err(error) => {
            assert!(error.detail().starts_with("node 5: "));
            // A scheme that is not known is shown, as the parser reads it: without tabs and
            // ends of lines.
            let scheme = Url::parse(url.trim()).map_or(String::new(), |url| url.scheme().into());
            let shown = format!("{error:?} {error}");
            assert!(
                scheme.contains(SECRET) || !shown.contains(SECRET),
                "{shown}"
            );
        }
    }
}

/// Where the node is, which is shown: neither user and password nor the query.
fn place(url: &str) -> String {
    // The parser reads over these too.
    let url = url.trim().replace(['\t', '\r', '\n'], "");
    let text = match url.split_once("://") {
        Some((scheme, rest)) if SENTINELS.contains(&&*scheme.to_ascii_lowercase()) => {
            let end = rest.find(['?', '#']).unwrap_or(rest.len());
            let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let login = rest[..authority].rfind('@').map_or(0, |at| at + 1);
            rest[login..end].to_owned()
        }
        _ => {
            let url = Url::parse(&url).expect("it was understood");
            [url.host_str().unwrap_or_default(), url.path()].concat()
        }
    };
    percent_decode_str(&text).decode_utf8_lossy().into_owned()
}
