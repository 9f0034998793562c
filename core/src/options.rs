//! Options as data, for programs that read them from a file under the names that all languages
//! have. Times are seconds, as in Python; `null` is a time without end.

use std::fmt;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::given;
use crate::{Client, ClientBuilder, Layout, Lock, RestartGuard};

macro_rules! options {
    ($(#[$about:meta])* $Name:ident for $Target:ident {
        $($(#[serde($with:meta)])? $field:ident: $Type:ty,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields, remote = "Self")]
        pub struct $Name {
            $(
                #[doc = concat!("See [`", stringify!($Target), "::", stringify!($field), "`].")]
                #[serde(skip_serializing_if = "Option::is_none" $(, $with)?)]
                pub $field: Option<$Type>,
            )*
        }

        impl $Name {
            /// Sets what is given here, and leaves all else as it is. Nothing is checked before
            /// that is used.
            pub fn apply(self, target: $Target) -> $Target {
                $(let target = match self.$field {
                    Some(value) => target.$field(value),
                    None => target,
                };)*
                target
            }
        }

        impl Serialize for $Name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $Name::serialize(self, to)
            }
        }

        impl<'de> Deserialize<'de> for $Name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<$Name, D::Error> {
                $Name::deserialize(from).map_err(quiet)
            }
        }

        /// Without what is in it: that may hold secrets.
        impl fmt::Debug for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($Name)).finish_non_exhaustive()
            }
        }
    };
}

/// The options of a kind, and those that locks have.
macro_rules! options_with_those_of_locks {
    ($(#[$about:meta])* $Name:ident for $Target:ident { $($own:tt)* }) => {
        options! {
            $(#[$about])*
            $Name for $Target {
                $($own)*
                // Made from core/options.toml: options of a client and its locks.
                #[serde(with = "seconds")] ttl: Duration,
                #[serde(with = "limit")] wait: Option<Duration>,
                renew: bool,
                #[serde(with = "limit")] max_hold: Option<Duration>,
                raw: bool,
                #[serde(with = "word")] layout: Layout,
                label: String,
                fencing: bool,
                max_waiters: usize,
                fair: bool,
                #[serde(with = "seconds")] keep: Duration,
                reentrant: bool,
                group: String,
                // End of what is made.
            }
        }
    };
}

options_with_those_of_locks! {
    /// The options of a client, as a file has them. With the feature `serde`.
    ///
    /// ```json
    /// {"nodes": ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"], "ttl": 30, "wait": null}
    /// ```
    ClientOptions for ClientBuilder {
        // Made from core/options.toml: options of a client.
        nodes: Vec<String>,
        #[serde(with = "seconds")] max_ttl: Duration,
        #[serde(with = "seconds")] node_timeout: Duration,
        #[serde(with = "seconds")] connect_timeout: Duration,
        drift: f64,
        min_validity: f64,
        namespace: String,
        #[serde(with = "seconds")] fence_ttl: Duration,
        set_name: String,
        #[serde(with = "word")] restart_guard: RestartGuard,
        accept_eviction: bool,
        wait_replicas: usize,
        ca: String,
        cert: String,
        key: String,
        // End of what is made.
    }
}

impl ClientOptions {
    /// A client with these options, and the defaults for what is not given.
    pub fn builder(self) -> ClientBuilder {
        self.apply(Client::builder())
    }
}

options_with_those_of_locks! {
    /// The options of a lock, as a file has them. With the feature `serde`. An owner is no matter
    /// of a file: see [`Lock::owner`].
    LockOptions for Lock {
        // Made from core/options.toml: options of a lock.
        shared: bool,
        slots: u32,
        confirm: bool,
        // End of what is made.
    }
}

/// What is wrong with options, without what was given, which may hold secrets.
fn quiet<E: Error>(error: E) -> E {
    let text = error.to_string();
    let Some(at) = text.rfind(", expected ") else {
        return error;
    };
    let (said, expected) = text.split_at(at);
    let name = said.strip_prefix("unknown field `");
    let name = name.and_then(|name| name.strip_suffix('`'));
    match (name, said.find('"')) {
        (Some(name), _) => {
            let name = given::shown("field", name);
            E::custom(format!("unknown field {name}{expected}"))
        }
        (None, Some(quoted)) => E::custom(format!("{}{expected}", said[..quoted].trim_end())),
        (None, None) => error,
    }
}

/// A time in seconds.
mod seconds {
    use super::Duration;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| time.as_secs_f64()).serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        of(f64::deserialize(from)?).map(Some)
    }

    pub(super) fn of<E: Error>(seconds: f64) -> Result<Duration, E> {
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| E::custom(format!("{seconds} is no time: give seconds, 0 or more")))
    }
}

/// The same, or null for one without end.
mod limit {
    use super::{Duration, seconds};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Option<Duration>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        seconds::serialize(&time.flatten(), to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(
        from: D,
    ) -> Result<Option<Option<Duration>>, D::Error> {
        Option::deserialize(from)?
            .map(seconds::of)
            .transpose()
            .map(Some)
    }
}

/// What is written as a word.
mod word {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<T: Display, S: Serializer>(
        word: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match word {
            Some(word) => to.collect_str(word),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'a, T: FromStr<Err = crate::Error>, D: Deserializer<'a>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let word = String::deserialize(from)?;
        word.parse().map(Some).map_err(D::Error::custom)
    }
}
