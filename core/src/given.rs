//! What an error may show of a value that the caller gave.
//!
//! A wrong argument may be a secret that stands in a wrong place: a URL with its password where a
//! word is wanted, the text of a key where a path is. So an error has the type of what was given,
//! and of a text its length, unless it is shorter than any secret. What others see as a matter of
//! course, as the name of a lock, is refused where it is a URL with a password or a key.

/// The longest text that is shown as it is, in characters.
const SHORT: usize = 5;

/// Options of which nothing is shown, in the words of every language.
const SECRET: [&str; 9] = [
    "a node",
    "ca",
    "cert",
    "cert_key",
    "environment",
    "key",
    "nodes",
    "password",
    "url",
];

/// Whether nothing of what was given for the option is shown, however short it is.
pub fn is_secret(option: &str) -> bool {
    SECRET.contains(&option)
}

/// A text that was given for an option, for a message.
pub fn shown(option: &str, given: &str) -> String {
    let characters = given.chars().count();
    let plain = characters <= SHORT && !is_secret(option);
    if plain {
        format!("`{}`", given.escape_debug())
    } else {
        format!("text of {characters} characters")
    }
}

/// Refuses a text that everybody sees and that holds a secret; `what` it is.
pub fn check(what: &str, text: &[u8]) -> Result<(), String> {
    let found = found(text);
    match found {
        Some(secret) => Err(format!(
            "{what} is {secret}, and others see it: nodes, logs, and who else asks. URLs of nodes are \
             for the option nodes alone"
        )),
        None => Ok(()),
    }
}

/// The secret that the text is or has, if any, in words; also where it is written out as in JSON, or as a
/// part of another URL.
pub fn found(text: &[u8]) -> Option<&'static str> {
    let is_written_out = |b: &u8| matches!(b, b'\\' | b'%') || b.is_ascii_whitespace();
    let written = text.iter().any(is_written_out);
    found_in(text).or_else(|| found_in(&written.then(|| decoded(text))?))
}

/// The text without blanks and backslashes, and with the characters for which `%` and two digits stand.
fn decoded(text: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [first, behind @ ..] = rest {
        let digits = behind.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        rest = match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                &behind[2..]
            }
            None => {
                let stays = *first != b'\\' && !first.is_ascii_whitespace();
                plain.extend(stays.then_some(*first));
                behind
            }
        };
    }
    plain
}

fn found_in(text: &[u8]) -> Option<&'static str> {
    let has = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
    if !text.contains(&b':') && !text.contains(&b'-') {
        return None;
    }
    if [
        &b"-----BEGIN"[..],
        b"PRIVATE KEY",
        b"PRIVATEKEY",
        b"Private-Lines",
    ]
    .iter()
    .any(|part| has(part))
    {
        return Some("the text of a key or a certificate");
    }
    let of_login = |login: &[u8]| {
        let colon = login.iter().position(|b| *b == b':');
        colon.is_some_and(|colon| !login[..colon].contains(&b'/'))
    };
    let bare = text.strip_prefix(b"//");
    let bare = bare.and_then(|rest| rest.iter().rposition(|b| *b == b'@').map(|at| &rest[..at]));
    if bare.is_some_and(of_login) {
        return Some("a URL with a password");
    }
    let signs = text.windows(2).enumerate();
    let mut ends = signs.filter(|(_, sign)| sign == b":/").map(|(at, _)| at);
    let is_url = |end: usize| {
        let (scheme, rest) = (&text[..end], &text[end + 2..]);
        let of_scheme = |b: &u8| b.is_ascii_alphanumeric() || *b == b'+';
        let length = scheme.iter().rev().take_while(|b| of_scheme(b)).count();
        let scheme = scheme[end - length..].to_ascii_lowercase();
        let of_nodes = [&b"redis"[..], b"valkey", b"unix"];
        let of_node = of_nodes.iter().any(|begin| scheme.starts_with(begin));
        let login = rest.iter().rposition(|b| *b == b'@').map(|at| &rest[..at]);
        // Options behind it may be anything.
        let password = rest.contains(&b'?');
        match login {
            Some(_) if of_node => true,
            // Behind a path an `@` is no end of a login.
            Some(login) => of_login(login.strip_prefix(b"/").unwrap_or(login)),
            None => of_node && password,
        }
    };
    ends.any(is_url).then_some("a URL with a password")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shown_where_it_is_shorter_than_a_secret() {
        assert_eq!(shown("restart_guard", "maybe"), "`maybe`");
        assert_eq!(shown("set_name", "a\n"), "`a\\n`");
        assert_eq!(shown("layout", ""), "``");
        assert_eq!(shown("layout", "häää!x"), "text of 6 characters");
        for option in SECRET {
            assert_eq!(shown(option, "abc"), "text of 3 characters");
        }
    }

    #[test]
    fn what_others_see_has_no_secret() {
        for secret in [
            "redis://u:s3cret@h:6379",
            "redis://s3cret@h",
            "REDISS://:s3cret@h",
            "x redis+sentinel://h/m?sentinel_password=s3cret",
            "redis+unix:///s?Pass=s3cret",
            "unix:/u:s3cret@h",
            "valkeys://u:s3/cret@h",
            "https://u:s3cret@h/x",
            "amqp://u:s3/cret@h",
            "-----BEGIN PRIVATE KEY-----\ns3cret",
            "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\ns3cret",
            "PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 1\ns3cret",
            "redis:\\/\\/u:s3cret@h",
            "redis%3A%2F%2Fu%3as3cret%40h",
            "redis: //u:s3cret@h",
            "//u:s3cret@h",
            "redis://h?pwd=s3cret",
        ] {
            let told = check("the lock name", secret.as_bytes()).unwrap_err();
            assert!(
                told.contains("the lock name is ") && !told.contains("s3"),
                "{told}"
            );
        }
        for name in [
            "orders:42",
            "mail:joe@example.com",
            "https://example.org/a:b@c",
            "https://joe@example.org",
            "redis://cache:6379/0",
            "100%:done",
            "%zz:%",
            "a b:c\\d",
            "//share/a:b@c",
            "file:/etc/passwd",
            "a:/b@c",
            "--",
            "",
        ] {
            assert!(check("the lock name", name.as_bytes()).is_ok(), "{name}");
        }
    }
}
