//! Lists the locks of a set by name, from the keys that its nodes have.

use std::sync::Arc;

use super::admission::{gate, target};
use super::inner::Inner;
use crate::error::{Error, ErrorKind, NodeError};
use crate::event::LogEvent;
use crate::node::FaultKind;
use crate::node::address::{Address, Endpoint};
use crate::node::redis::connect::{Names, scan};
use crate::protocol::quorum::quorum;

/// The locks of which nodes have a key: see [`Client::list`](crate::Client::list).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listing {
    /// Their names, sorted.
    pub names: Vec<Vec<u8>>,
    /// The names of [semaphores](crate::Client::semaphore), and how many slots each has at least: up to the last that
    /// a node has a key of.
    pub semaphores: Vec<(Vec<u8>, u32)>,
    /// Whether these are all: there were no more than asked for.
    pub complete: bool,
    /// The nodes that were not read, and why.
    pub unread: Vec<NodeError>,
}

/// What the keys of locks are like, and those of slots of semaphores; `names`: what their names are to be like.
fn patterns(namespace: &str, names: Option<&str>) -> [Vec<u8>; 2] {
    let of = |mark, none| pattern(namespace, mark, names, none);
    [of("", "[^#]*"), of("#p[0-9]*:", "*")]
}

fn pattern(namespace: &str, mark: &str, names: Option<&str>, none: &str) -> Vec<u8> {
    let mut pattern = Vec::new();
    for byte in namespace.bytes() {
        if b"*?[]^\\".contains(&byte) {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.extend_from_slice(mark.as_bytes());
    match names {
        // Keys of our own begin with a mark behind the namespace.
        None => pattern.extend_from_slice(none.as_bytes()),
        Some(names) if names.contains('{') => pattern.extend_from_slice(names.as_bytes()),
        Some(names) => {
            pattern.push(b'{');
            pattern.extend_from_slice(names.as_bytes());
            pattern.push(b'}');
        }
    }
    pattern
}

/// See [`Client::list`](crate::Client::list).
pub(super) async fn list(
    client: &Inner,
    names: Option<&str>,
    most: usize,
) -> Result<Listing, Error> {
    let (listing, lacks) = list_partly(client, names, most).await?;
    match lacks {
        Some(kind) => {
            let message = "the locks of the set cannot be listed: too few nodes could be read";
            Err(Error::with_nodes(kind, message, listing.unread))
        }
        None => Ok(listing),
    }
}

/// The same of the nodes that could be read; and why that is too few, if they are fewer than a quorum.
pub(super) async fn list_partly(
    client: &Inner,
    names: Option<&str>,
    most: usize,
) -> Result<(Listing, Option<ErrorKind>), Error> {
    let (settings, set) = (&client.settings, &client.set);
    let quiet: [fn(LogEvent); 2] = [drop, drop];
    let gate = Arc::new(gate(settings, set.clock.clone(), set.rng.clone(), quiet));
    let patterns = Arc::new(patterns(&settings.namespace, names));
    let begin = |(node, address): (usize, &Address)| {
        if matches!(address.endpoint, Endpoint::Memory(_)) {
            return None;
        }
        let target = target(address, node, &client.tls, &gate);
        let (namespace, patterns) = (settings.namespace.clone(), patterns.clone());
        Some(
            client
                .io
                .spawn(async move { scan(&target, &namespace, &patterns[..], most).await }),
        )
    };
    let work: Vec<_> = settings.nodes.iter().enumerate().map(begin).collect();
    let (mut found, mut complete, mut unread) = (Names::default(), true, Vec::new());
    let mut kind = ErrorKind::QuorumUnavailable;
    for (address, work) in settings.nodes.iter().zip(work) {
        let shown = address.shown.clone();
        let Some(work) = work else {
            let why = "a node within a process is not listed";
            unread.push(NodeError::new(shown, why.to_owned()));
            continue;
        };
        match work.await? {
            Ok((names, all)) => {
                found.extend(names);
                complete &= all;
            }
            Err(fault) => {
                if fault.kind == FaultKind::Misconfigured {
                    kind = ErrorKind::Misconfigured;
                }
                unread.push(NodeError::new(shown, fault.text.to_string()));
            }
        }
    }
    let nodes = settings.nodes.len();
    let lacks = (nodes - unread.len() < quorum(nodes)).then_some(kind);
    complete &= found.len() <= most && lacks.is_none();
    let listing = Listing {
        names: found.locks.into_iter().take(most).collect(),
        semaphores: found.semaphores.into_iter().take(most).collect(),
        complete,
        unread,
    };
    Ok((listing, lacks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_of_keys() {
        for (namespace, names, locks, slots) in [
            ("lock:", None, "lock:[^#]*", "lock:#p[0-9]*:*"),
            ("a*b:", None, "a\\*b:[^#]*", "a\\*b:#p[0-9]*:*"),
            (
                "lock:",
                Some("orders:*"),
                "lock:{orders:*}",
                "lock:#p[0-9]*:{orders:*}",
            ),
            (
                "lock:",
                Some("buy_{*}"),
                "lock:buy_{*}",
                "lock:#p[0-9]*:buy_{*}",
            ),
        ] {
            assert_eq!(
                patterns(namespace, names),
                [locks, slots].map(|text| text.as_bytes().to_vec())
            );
        }
    }
}
