//! Which environment variable gives which option of a client, alike in every language.

use std::str::FromStr;
use std::time::Duration;

use super::builder::ClientBuilder;
use crate::error::Error;
use crate::given;

type VariableSetter = fn(ClientBuilder, &str) -> Result<ClientBuilder, &'static str>;

/// Each option, its variable, and how that is read.
macro_rules! variables {
    ($($option:ident $variable:literal $read:expr,)*) => {
        /// Beside the nodes: the option, its variable, and what sets it.
        const ALL: &[(&str, &str, VariableSetter)] = &[$((stringify!($option), $variable, |to, said| {
            Ok(to.$option($read(said)?))
        }),)*];
    };
}

variables! {
    // Made from core/options.toml: variables
    max_ttl "QUORLOCK_MAX_TTL" time,
    node_timeout "QUORLOCK_NODE_TIMEOUT" time,
    connect_timeout "QUORLOCK_CONNECT_TIMEOUT" time,
    namespace "QUORLOCK_NAMESPACE" text,
    set_name "QUORLOCK_SET_NAME" text,
    restart_guard "QUORLOCK_RESTART_GUARD" word("give auto, on or off"),
    accept_eviction "QUORLOCK_ACCEPT_EVICTION" flag,
    wait_replicas "QUORLOCK_WAIT_REPLICAS" count,
    ca "QUORLOCK_CA" text,
    cert "QUORLOCK_CERT" text,
    key "QUORLOCK_KEY" text,
    // End of what is made.
}

/// The two go together, so if the program gives either, both variables are left out.
const PAIR: [&str; 2] = ["cert", "key"];

impl ClientBuilder {
    /// The same, with the options that the program has not given as the environment has them.
    pub(super) fn completed(self) -> Result<ClientBuilder, Error> {
        completed(self)
    }
}

fn completed(mut to: ClientBuilder) -> Result<ClientBuilder, Error> {
    let environment = to.environment.clone();
    let given = to.given.clone();
    for (option, variable, set) in ALL {
        let own = if PAIR.contains(option) {
            PAIR.iter().any(|one| given.contains(one))
        } else {
            given.contains(option)
        };
        let Some(said) = (if own {
            None
        } else {
            environment.get(variable)?
        }) else {
            continue;
        };
        to = set(to, &said).map_err(|remedy| {
            let shown = given::shown(option, &said);
            Error::invalid(format!(
                "the environment variable {variable} is {shown}: {remedy}"
            ))
        })?;
    }
    Ok(to)
}

fn text(said: &str) -> Result<&str, &'static str> {
    Ok(said)
}

fn flag(said: &str) -> Result<bool, &'static str> {
    said.parse().map_err(|_| "give true or false")
}

fn count(said: &str) -> Result<usize, &'static str> {
    said.parse().map_err(|_| "give a whole number")
}

fn word<T: FromStr>(give: &'static str) -> impl Fn(&str) -> Result<T, &'static str> {
    move |said| said.parse().map_err(|_| give)
}

fn time(said: &str) -> Result<Duration, &'static str> {
    spelled_time(said).ok_or("give a time such as 10s, 250ms, 2m, 1h30m, or seconds")
}

/// Reads `10s`, `250ms`, `2m`, `1h30m`, or a plain number of seconds.
pub fn spelled_time(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    loop {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let number: f64 = number.parse().ok()?;
        let seconds = match unit {
            "ms" => number / 1000.0,
            "s" => number,
            "m" => number * 60.0,
            "h" => number * 3600.0,
            // A number without a unit stands alone: `1h30` may mean anything.
            "" if digits == text.len() => number,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(seconds).ok()?;
        total = total.checked_add(part)?;
        if after.is_empty() {
            return Some(total);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|(_, variable, _)| *variable)
    }

    fn of(variables: &[(&str, &str)]) -> ClientBuilder {
        let all = variables
            .iter()
            .map(|(name, said)| (name.to_string(), said.to_string()));
        ClientBuilder::default()
            .nodes(["memory://variables"])
            .environment(all)
    }

    #[test]
    fn what_the_program_does_not_give_the_environment_may() {
        let all = [
            ("QUORLOCK_SET_NAME", "orders"),
            ("QUORLOCK_NAMESPACE", "own:"),
            ("QUORLOCK_MAX_TTL", "1m30s"),
            ("QUORLOCK_NODE_TIMEOUT", "0.1"),
            ("QUORLOCK_CONNECT_TIMEOUT", "700ms"),
            ("QUORLOCK_RESTART_GUARD", "on"),
            ("QUORLOCK_ACCEPT_EVICTION", "true"),
            ("QUORLOCK_WAIT_REPLICAS", "2"),
        ];
        let settings = completed(of(&all)).unwrap().settings;
        assert_eq!(
            (&*settings.set_name, &*settings.namespace),
            ("orders", "own:")
        );
        assert_eq!(settings.max_ttl(), Duration::from_secs(90));
        assert_eq!(settings.node_timeout, Duration::from_millis(100));
        assert_eq!(settings.connect_timeout, Duration::from_millis(700));
        assert_eq!(settings.restart_guard.as_str(), "on");
        assert!(settings.accept_eviction && settings.wait_replicas == 2);
        // What the program gives counts, also where it is the default.
        let own = of(&all)
            .set_name("default")
            .max_ttl(Duration::from_secs(60))
            .accept_eviction(false);
        let settings = completed(own).unwrap().settings;
        assert_eq!(&*settings.set_name, "default");
        assert_eq!(settings.max_ttl(), Duration::from_secs(60));
        assert!(!settings.accept_eviction);
        assert_eq!(settings.wait_replicas, 2);
        let none = all.map(|(name, _)| (name, ""));
        assert_eq!(&*completed(of(&none)).unwrap().settings.set_name, "default");
    }

    #[test]
    fn a_wrong_variable_is_named_and_what_it_says_is_not_shown() {
        for (name, remedy) in [
            ("QUORLOCK_MAX_TTL", "such as 10s"),
            ("QUORLOCK_RESTART_GUARD", "auto, on or off"),
            ("QUORLOCK_ACCEPT_EVICTION", "true or false"),
            ("QUORLOCK_WAIT_REPLICAS", "a whole number"),
        ] {
            let error = of(&[(name, "s3cret-password")])
                .build()
                .unwrap_err()
                .to_string();
            assert!(error.contains(name) && error.contains(remedy), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        for name in names() {
            let error = of(&[(name, "\u{fffd}")]).build().unwrap_err().to_string();
            assert!(error.contains(&format!("{name} is not UTF-8")), "{error}");
        }
    }

    #[test]
    fn a_certificate_and_its_key_come_from_one_place() {
        let both = [
            ("QUORLOCK_CERT", "/their.crt"),
            ("QUORLOCK_KEY", "/their.key"),
        ];
        let theirs = completed(of(&both)).unwrap();
        assert_eq!(theirs.cert.as_deref(), Some("/their.crt"));
        assert_eq!(theirs.key.as_deref(), Some("/their.key"));
        let own = completed(of(&both).cert("/own.crt").key("/own.key")).unwrap();
        assert_eq!(own.cert.as_deref(), Some("/own.crt"));
        assert_eq!(own.key.as_deref(), Some("/own.key"));
        assert_eq!(completed(of(&both).key("/own.key")).unwrap().cert, None);
    }
}
