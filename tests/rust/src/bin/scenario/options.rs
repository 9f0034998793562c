//! The options that a line gives to what it makes.

use quorlock::{ClientBuilder, Election, Error, Lock, Locks, Owner};

use crate::line::{Line, bytes, fraction, limit, millis, number, string, switch};

/// Why an option is not set: the line is wrong, or the library refuses its value.
pub enum NotSet {
    Line(String),
    Refused(Error),
}

impl From<String> for NotSet {
    fn from(why: String) -> NotSet {
        NotSet::Line(why)
    }
}

impl From<Error> for NotSet {
    fn from(error: Error) -> NotSet {
        NotSet::Refused(error)
    }
}

/// What takes options, with those of a line.
pub fn with_options<T: Options>(mut to: T, line: &Line<'_>) -> Result<T, NotSet> {
    for (name, value) in &line.options {
        to = to.with(name, value)?;
    }
    Ok(to)
}

pub trait Options: Sized {
    fn with(self, name: &str, value: &str) -> Result<Self, NotSet>;
}

macro_rules! options {
    ($Type:ident, $to:ident, $value:ident { $($own:tt)* }) => {
        impl Options for $Type {
            fn with(self, name: &str, $value: &str) -> Result<$Type, NotSet> {
                let $to = self;
                Ok(match name {
                    // Made from core/options.toml: options of all.
                    "ttl" => $to.ttl(millis($value)?),
                    "wait" => $to.wait(limit($value)?),
                    "renew" => $to.renew(switch($value)?),
                    "max_hold" => $to.max_hold(limit($value)?),
                    "raw" => $to.raw(switch($value)?),
                    "layout" => $to.layout($value.parse()?),
                    "label" => $to.label(string($value)),
                    "fencing" => $to.fencing(switch($value)?),
                    "max_waiters" => $to.max_waiters(number($value)?),
                    "fair" => $to.fair(switch($value)?),
                    "keep" => $to.keep(millis($value)?),
                    "reentrant" => $to.reentrant(switch($value)?),
                    "group" => $to.group(string($value)),
                    // End of what is made.
                    $($own)*
                    _ => return Err(format!("expected no option {name}").into()),
                })
            }
        }
    };
}

options!(ClientBuilder, to, value {
    "nodes" => to.nodes(value.split(',').filter(|url| !url.is_empty())),
    // Made from core/options.toml: options of a client.
    "max_ttl" => to.max_ttl(millis(value)?),
    "node_timeout" => to.node_timeout(millis(value)?),
    "connect_timeout" => to.connect_timeout(millis(value)?),
    "drift" => to.drift(fraction(value)?),
    "min_validity" => to.min_validity(fraction(value)?),
    "namespace" => to.namespace(string(value)),
    "fence_ttl" => to.fence_ttl(millis(value)?),
    "set_name" => to.set_name(string(value)),
    "restart_guard" => to.restart_guard(value.parse()?),
    "accept_eviction" => to.accept_eviction(switch(value)?),
    "wait_replicas" => to.wait_replicas(number(value)?),
    "ca" => to.ca(string(value)),
    "cert" => to.cert(string(value)),
    "key" => to.key(string(value)),
    // End of what is made.
});
options!(Lock, to, value {
    // Made from core/options.toml: options of a lock.
    "shared" => to.shared(switch(value)?),
    "slots" => to.slots(number(value)? as u32),
    "owner" => to.owner(Owner::named(bytes(value))),
    "confirm" => to.confirm(switch(value)?),
    // End of what is made.
});
options!(Locks, to, value {
    // Made from core/options.toml: options of several locks.
    "shared" => to.shared(switch(value)?),
    "slots" => to.slots(number(value)? as u32),
    "owner" => to.owner(Owner::named(bytes(value))),
    "confirm" => to.confirm(switch(value)?),
    // End of what is made.
});
options!(Election, to, value {});
