//! Checks what a user gave against the bounds of each option, and the options against each other.

use std::time::Duration;

use super::{Layout, LockOptions, MIN_TTL, Settings, Times};
use crate::error::{Error, ErrorKind};
use crate::given;
use crate::node::address::{Address, Endpoint};
use crate::node::names::{MOST_SLOTS, Naming};
use crate::owner::Owner;

/// A bound on every duration, so that no sum of them overflows.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
const MAX_NODES: usize = 32;

impl LockOptions {
    /// Whether Redisson's layout allows the other options.
    fn check_redisson(&self) -> Result<(), Error> {
        let refused = [
            (self.slots.is_some(), "a semaphore's slots", "slots"),
            (self.shared, "readers of Quorlock's", "shared"),
            (!self.keep.is_zero(), "locks that are kept", "keep"),
        ];
        if let Some((_, what, option)) = refused.iter().find(|(given, ..)| *given) {
            return Err(Error::invalid(format!(
                "Redisson's RLock knows no {what}: leave {option} out, or layout"
            )));
        }
        match self.owner.as_ref().and_then(Owner::name) {
            Some(name)
                if name.is_empty() || name.len() > 256 || name.iter().any(u8::is_ascii_control) =>
            {
                Err(Error::invalid(format!(
                    "the owner, of {} bytes, is the field of a hash in Redisson's layout: give it 1 to \
                     256 bytes without control characters",
                    name.len()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether a reader can distinguish the label from the token, and show it in one line.
    fn check_label(&self) -> Result<(), Error> {
        match self.label.as_deref().map(String::as_str) {
            Some(label) if !is_label(label) => Err(Error::invalid(format!(
                "label is {}: give at most 256 bytes without control characters",
                given::shown("label", label)
            ))),
            Some(label) => given::check("label", label.as_bytes()).map_err(Error::invalid),
            None => Ok(()),
        }
    }

    /// Whether a term can be won with the mode: one leads, and only the exclusive mode has one holder.
    fn check_election(&self) -> Result<(), Error> {
        let refused = [
            (self.slots.is_some(), "a semaphore is held by many", "slots"),
            (self.shared, "a shared lock is held by many", "shared"),
            (!self.confirm, "the end of its term is confirmed", "confirm"),
        ];
        match refused.iter().find(|(given, ..)| *given) {
            Some((_, why, option)) => Err(Error::invalid(format!(
                "an election has one leader, and {why}: leave {option} out"
            ))),
            None => Ok(()),
        }
    }

    /// Checks the options of one lock against its client's settings.
    pub(crate) fn check(&self, settings: &Settings) -> Result<(), Error> {
        self.group.clone()?;
        self.check_label()?;
        if let Some(name) = self.owner.as_ref().and_then(Owner::name) {
            given::check("owner", name).map_err(Error::invalid)?;
        }
        let Times { ttl, max_hold, .. } = settings.times(self);
        let max_ttl = settings.max_ttl();
        if ttl < MIN_TTL {
            return Err(Error::invalid(format!(
                "ttl is {}: give {MIN_TTL:?} to {max_ttl:?}, the max_ttl of this client",
                shown(ttl)
            )));
        }
        if ttl > max_ttl {
            return Err(Error::invalid(format!(
                "ttl is {ttl:?}, above max_ttl ({max_ttl:?}): lower it, or raise max_ttl on every \
                 client of this set"
            )));
        }
        let timing = settings.timing(ttl);
        if timing.counted <= timing.min_validity {
            return Err(Error::invalid(format!(
                "ttl {ttl:?} with drift {} and min_validity {} leaves no time to hold the lock: \
                 raise the ttl, or lower the other two",
                settings.drift, settings.min_validity
            )));
        }
        if let Some(wait) = self.wait {
            within("wait", wait, Duration::ZERO, LONGEST)?;
        }
        // Made from core/options.toml: bounds of a lock.
        // End of what is made.
        if self.election {
            self.check_election()?;
        }
        if self.shared {
            settings.may_share(self.own_naming())?;
            if !self.keep.is_zero() {
                return Err(Error::invalid(format!(
                    "keep is {:?}, and a shared lease keeps nothing: leave keep or shared out",
                    self.keep
                )));
            }
        }
        if let Some(slots) = self.slots {
            if self.shared {
                return Err(Error::invalid(
                    "a slot of a semaphore is one holder's: leave slots or shared out",
                ));
            }
            if !(1..=MOST_SLOTS).contains(&slots) {
                return Err(Error::invalid(format!(
                    "slots is {slots}: give 1 to {MOST_SLOTS}"
                )));
            }
            if self.once.is_some() {
                return Err(Error::invalid(
                    "a job that one host runs is held by one: leave slots or once out",
                ));
            }
            if self.own_naming() == Naming::Raw {
                return Err(Error::invalid(
                    "a semaphore has no raw key, for other libraries count otherwise: leave raw out",
                ));
            }
        }
        if self.layout == Layout::Redisson {
            self.check_redisson()?;
        }
        if !self.confirm && !self.keep.is_zero() {
            return Err(unconfirmed(self.keep));
        }
        if self.keep > max_ttl {
            return Err(Error::invalid(format!(
                "keep is {:?}, above max_ttl ({max_ttl:?}): lower it, or raise max_ttl on every \
                 client of this set",
                self.keep
            )));
        }
        if let Some(every) = self.once
            && (self.keep >= every)
        {
            return Err(Error::invalid(format!(
                "keep is {:?} of a job that is to run every {every:?}: the next run would be left \
                 out; lower it",
                self.keep
            )));
        }
        let Some(max_hold) = max_hold else {
            return Ok(());
        };
        within("max_hold", max_hold, MIN_TTL, LONGEST)?;
        if max_hold < ttl {
            return Err(Error::invalid(format!(
                "max_hold is {max_hold:?}, below the ttl ({ttl:?}): raise it, or lower the ttl"
            )));
        }
        Ok(())
    }
}

impl Settings {
    /// Whether a lock that is named so may be shared.
    pub(crate) fn may_share(&self, naming: Naming) -> Result<(), Error> {
        if naming == Naming::Raw {
            return Err(Error::invalid(
                "a raw lock cannot be shared, for the other libraries that use its key know no \
                 readers: leave raw or shared out",
            ));
        }
        if self.accept_eviction {
            return Err(Error::new(
                ErrorKind::Misconfigured,
                "a lock cannot be shared where nodes may evict keys (accept_eviction): one key \
                 says that readers are there, and a writer would not see them without it",
            ));
        }
        Ok(())
    }

    /// Checks what a user gave; `lock` is checked with it.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.nodes.is_empty() {
            return Err(Error::invalid(
                "the node list is empty: give at least one URL, such as redis://127.0.0.1:6379",
            ));
        }
        if self.nodes.len() > MAX_NODES {
            return Err(Error::invalid(format!(
                "{} nodes given; at most {MAX_NODES} make sense: 3 or 5 are usual",
                self.nodes.len()
            )));
        }
        for (i, node) in self.nodes.iter().enumerate() {
            let mut before = self.nodes[..i].iter();
            let Some(other) = before.find(|other| other.endpoint == node.endpoint) else {
                continue;
            };
            let origin = node.origin;
            return Err(Error::invalid(if other.db == node.db {
                format!(
                    "the node {} is listed twice: each node must be a server of its own{origin}",
                    node.shown
                )
            } else {
                format!(
                    "the nodes {} and {} are databases of one server, and fail together: each node \
                     must be a server of its own{origin}",
                    other.shown, node.shown
                )
            }));
        }
        let times = self.times(&self.lock);
        // Made from core/options.toml: bounds.
        within(
            "max_ttl",
            times.max_ttl,
            Duration::from_millis(10),
            Duration::from_secs(86400),
        )?;
        within(
            "node_timeout",
            self.node_timeout,
            Duration::from_millis(1),
            Duration::from_secs(60),
        )?;
        within(
            "connect_timeout",
            self.connect_timeout,
            Duration::from_millis(1),
            Duration::from_secs(60),
        )?;
        fraction("drift", self.drift, 0.001, 0.5)?;
        fraction("min_validity", self.min_validity, 0.0, 0.9)?;
        counted("wait_replicas", self.wait_replicas, 0, 16)?;
        // End of what is made.
        let memory = |node: &&Address| matches!(node.endpoint, Endpoint::Memory(_));
        if self.wait_replicas > 0
            && let Some(node) = self.nodes.iter().find(memory)
        {
            return Err(Error::invalid(format!(
                "wait_replicas is {}, and the node {} has no replicas: it lives in this process; \
                 set wait_replicas to 0",
                self.wait_replicas, node.shown
            )));
        }
        if self.namespace.is_empty()
            || self.namespace.len() > 256
            || self.namespace.contains(['{', '}'])
        {
            return Err(Error::invalid(format!(
                "namespace is {}: give 1 to 256 bytes without braces",
                given::shown("namespace", &self.namespace)
            )));
        }
        given::check("namespace", self.namespace.as_bytes()).map_err(Error::invalid)?;
        given::check("set_name", self.set_name.as_bytes()).map_err(Error::invalid)?;
        if self.set_name.is_empty()
            || self.set_name.len() > 64
            || !self.set_name.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err(Error::invalid(format!(
                "set_name is {}: give 1 to 64 printable ASCII characters without blanks",
                given::shown("set_name", &self.set_name)
            )));
        }
        let max_ttl = times.max_ttl;
        within("fence_ttl", times.fence_ttl, 2 * max_ttl, LONGEST).map_err(|e| {
            let least = format!("at least twice max_ttl ({max_ttl:?})");
            Error::invalid(format!("{}, {least}", e.detail()))
        })?;
        self.lock.check(self)
    }
}

/// The error of a release that waits for no answer and is to keep the lock taken for so long.
pub(crate) fn unconfirmed(keep: Duration) -> Error {
    Error::invalid(format!(
        "keep is {keep:?}, and only the nodes' answers say that the lock stays taken: leave keep \
         out, or have the release confirmed (confirm)"
    ))
}

fn within(what: &str, value: Duration, low: Duration, high: Duration) -> Result<(), Error> {
    if value < low || value > high {
        return Err(Error::invalid(format!(
            "{what} is {}: give {} to {}",
            shown(value),
            shown(low),
            shown(high)
        )));
    }
    Ok(())
}

/// A time for a message: nothing at all has no unit.
fn shown(time: Duration) -> String {
    match time {
        Duration::ZERO => "0".into(),
        time => format!("{time:?}"),
    }
}

fn counted(what: &str, value: usize, low: usize, high: usize) -> Result<(), Error> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what} is {value}: give {low} to {high}"
    )))
}

fn fraction(what: &str, value: f64, low: f64, high: f64) -> Result<(), Error> {
    // Written so that NaN fails.
    if value >= low && value <= high {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what} is {value}: give a fraction from {low} to {high}"
    )))
}

/// Whether a value may have this label: it can be shown in one line.
pub(crate) fn is_label(label: &str) -> bool {
    label.len() <= 256 && !label.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    #[test]
    fn votes_wait_for_replicas_that_there_may_be() {
        let refused = |node: &str, replicas| {
            let client = crate::Client::builder()
                .nodes([node])
                .wait_replicas(replicas);
            client.build().err().map(|e| e.message().to_owned())
        };
        assert_eq!(refused("redis://h", 16), None);
        let many = refused("redis://h", 17).unwrap();
        assert!(many.contains("wait_replicas is 17: give 0 to 16"), "{many}");
        let memory = refused("memory://h", 1).unwrap();
        assert!(memory.contains("memory://h has no replicas"), "{memory}");
        assert_eq!(refused("memory://h", 0), None);
    }
}
