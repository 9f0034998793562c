//! Cuts and escapes text from outside before it is shown. What servers, sentinels, clusters, other
//! clients and exported leases say may end lines, rule a terminal, turn the order of letters round,
//! or be of any length. What is shown of it is [cut and escaped](excerpt). Errors, faults and lines of
//! the log see to the [whole](message) once more, as they are made.

/// How many characters are shown of a text from outside.
pub const MOST: usize = 200;

/// How many characters a message has at most, with all that it tells of.
const LONGEST: usize = 2000;

/// A text from outside for a message or a report: at most [`MOST`] characters, of which none ends a
/// line or rules a terminal. A text that was shown so before stays as it is.
pub fn excerpt(text: &str) -> String {
    escaped(text, MOST)
}

/// The same of bytes, which are to be UTF-8.
pub fn excerpt_of_bytes(text: &[u8]) -> String {
    excerpt(&String::from_utf8_lossy(text))
}

/// A message of our own, of which parts may be from outside.
pub fn message(text: impl Into<String>) -> String {
    let text = text.into();
    if text.len() <= LONGEST && text.chars().all(is_visible) {
        return text;
    }
    escaped(&text, LONGEST)
}

/// The text with what is not visible as `\u{…}`; at most this many characters, the last of them
/// `…` where more would follow.
fn escaped(text: &str, most: usize) -> String {
    // What is kept where the text goes on.
    let (mut shown, mut count, mut kept) = (String::new(), 0, 0);
    for c in text.chars() {
        let before = shown.len();
        if is_visible(c) {
            shown.push(c)
        } else {
            shown.extend(c.escape_debug())
        }
        count += shown[before..].chars().count();
        if count < most {
            kept = shown.len();
        }
        if count > most {
            shown.truncate(kept);
            shown.push('…');
            break;
        }
    }
    shown
}

/// Whether a character is seen where it stands, and does nothing else: no control, no mark of
/// direction, no end of a line or a paragraph, no blank but the space, and nothing unassigned.
pub fn is_visible(c: char) -> bool {
    match c {
        ' '..='~' => true,
        c if c.is_ascii() => false,
        // A mark over a letter is seen with that.
        c => format!("a{c}").escape_debug().nth(2).is_none(),
    }
}

/// The name or address of a server's host that another server gave, if it can be a host.
pub fn host(text: &str) -> Option<String> {
    let is_one = text.len() <= 255 && text.chars().all(|c| c != ' ' && is_visible(c));
    is_one.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_visible_is_escaped() {
        for (text, shown) in [
            ("web-2:ä漢字नमस्ते", "web-2:ä漢字नमस्ते"),
            ("a\\n 'b' \"c\"", "a\\n 'b' \"c\""),
            ("a\nb\rc\td\0", "a\\nb\\rc\\td\\0"),
            ("\x1b[2J\x7f\u{9b}", "\\u{1b}[2J\\u{7f}\\u{9b}"),
            ("\u{202e}\u{2066}\u{200f}", "\\u{202e}\\u{2066}\\u{200f}"),
            ("\u{2028}\u{2029}\u{feff}", "\\u{2028}\\u{2029}\\u{feff}"),
            ("\u{e0041}\u{e000}\u{a0}", "\\u{e0041}\\u{e000}\\u{a0}"),
        ] {
            assert_eq!(excerpt(text), shown);
            assert_eq!(message(text), shown);
            assert_eq!(excerpt(&excerpt(text)), shown);
        }
    }

    #[test]
    fn what_is_long_is_cut() {
        for (letter, wide) in [("a", 1), ("ä", 1), ("\n", 2), ("\u{202e}", 8)] {
            for many in [1, MOST / wide, MOST / wide + 1, 60_000] {
                let shown = excerpt(&letter.repeat(many));
                let count = shown.chars().count();
                assert!(count <= MOST, "{count}");
                assert_eq!(shown.ends_with('…'), many > MOST / wide);
                assert_eq!(excerpt(&shown), shown);
                assert_eq!(message(&*shown), shown);
            }
        }
        assert_eq!(message("ä".repeat(60_000)).chars().count(), LONGEST);
    }

    /// Whatever a server, a sentinel, a cluster, another client or an exported lease says.
    #[test]
    fn every_place_shows_text_from_outside_as_text() {
        use crate::error::{Error, ErrorKind, NodeError};
        use crate::event::event;
        use crate::export::LeaseText;
        use crate::node::address::Endpoint;
        use crate::node::admission::record::Record;
        use crate::node::admission::{Expectation, Info, ServerFacts};
        use crate::node::redis::{map, replies, server_error};
        use crate::node::{Fault, FaultKind, Op, Value};
        use crate::{Client, blocking};
        use redis::{Value as Resp, parse_redis_value};
        use std::time::Duration;

        let wicked = "m\u{1b}[2J\u{202e}\u{2028}\u{9b}\u{7f}\u{feff}\t";
        let long = format!("{wicked}{}", "x".repeat(60_000));
        let parsed = |wire: String| parse_redis_value(wire.as_bytes()).unwrap();
        let mut shown: Vec<(&str, String)> = Vec::new();

        for head in ["-ERR ", "-OOM ", "-NOPERM ", "-WRONGPASS ", "-NOSUCH", "-"] {
            let Resp::ServerError(error) = parsed(format!("{head}{long}\r\n")) else {
                panic!("{head}");
            };
            let fault = server_error::fault_of(error.code(), error.details());
            shown.push(("an error of a server", fault.text.to_string()));
            shown.push((
                "the same of a script",
                replies::fault(&error).text.to_string(),
            ));
        }
        for head in ["-MOVED 1", "-ASK 1"] {
            let Resp::ServerError(error) = parsed(format!("{head} {wicked}h:1\r\n")) else {
                panic!("{head}");
            };
            assert_eq!(server_error::redirect(&error), None, "{head}");
        }
        let asked = Endpoint::Tcp {
            host: "h".into(),
            port: 1,
            tls: false,
        };
        for host in [wicked, &long, "a b"] {
            let long = host.len();
            let map = parsed(format!(
                "*1\r\n*3\r\n:0\r\n:9\r\n*2\r\n${long}\r\n{host}\r\n:1\r\n"
            ));
            shown.push(("a map", map::read(&map, &asked).unwrap_err()));
        }
        for what in [
            format!("redis_version:1{long}"),
            format!("role:slave\nmaster_host:{long}\nmaster_port:{long}"),
            format!("maxmemory:1\nmaxmemory_policy:{long}"),
        ] {
            let why = Info::parse(&what).unfit(false);
            shown.extend(why.map(|why| ("INFO", why)));
            let server = ServerFacts::parse(&what);
            let version = server.flavor.version().map(str::to_owned);
            let parts = [version, server.eviction];
            shown.extend(parts.into_iter().flatten().map(|part| ("a report", part)));
        }
        let expected = Expectation {
            set_name: "default".into(),
            nodes: 3,
            max_ttl: 1,
            quarantine: Duration::ZERO,
            guard: true,
            declares: true,
        };
        let record = Record::parse(&format!("1 {long} 1 3 1 n r on")).expect("it is one");
        let differences = record.differences(&expected, None);
        shown.extend(differences.into_iter().map(|why| ("a record", why)));
        let refused = format!(
            "*7\r\n:0\r\n:9\r\n${}\r\n{long}\r\n:-1\r\n:0\r\n$1\r\n1\r\n$1\r\n1\r\n",
            long.len()
        );
        let op = Op::Acquire {
            ttl: Duration::from_secs(1),
            candidate: 0,
            home: false,
            let_in: false,
            block: 1,
        };
        shown.push((
            "a reply",
            format!("{:?}", replies::outcome(op, &parsed(refused))),
        ));
        for set_name in [wicked, &long] {
            let text = LeaseText {
                set_name: set_name.into(),
                nodes: 3,
                queue: set_name.into(),
                name: set_name.into(),
                raw: false,
                slot: None,
                value: Value([&[b'a'; 40], &b"."[..]].concat().into()),
                ttl: Duration::from_secs(1),
                renew: false,
                fence: 0,
                max_hold: None,
            };
            let client = Client::new(["memory://foreign"]).unwrap();
            let error = blocking::wait(client.adopt(&text.to_text())).unwrap_err();
            shown.push(("an exported text", error.to_string()));
        }
        let fault = Fault::new(FaultKind::NotReady, &*long, true);
        shown.push(("a fault", fault.text.to_string()));
        shown.push(("a fault", fault.with_text(&*long).text.to_string()));
        let node = NodeError::new("n".into(), long.clone());
        shown.push(("what a node said", node.to_string()));
        let error = Error::with_nodes(ErrorKind::Internal, &*long, vec![node]);
        shown.push(("an error", error.to_string()));
        let line = event!("a", "b {c}", c = long);
        shown.push(("a line of the log", line.to_string()));
        shown.push(("its field", line.field("c").expect("it has one").to_owned()));

        assert!(shown.len() >= 25, "{}", shown.len());
        for (place, text) in shown {
            let debug = text.chars().find(|c| !is_visible(*c));
            assert_eq!(debug, None, "{place}: {text}");
            // Of several texts, and in what is said about them.
            assert!(text.chars().count() <= 2 * LONGEST + 100, "{place}");
        }
    }

    #[test]
    fn a_host_is_a_word() {
        for one in ["10.0.0.1", "fe80::1%eth0", "redis-0.ünï", ""] {
            assert_eq!(host(one).as_deref(), Some(one));
        }
        for none in ["a b", "a\nb", "\u{202e}a", &"a".repeat(256)] {
            assert_eq!(host(none), None);
        }
    }
}
