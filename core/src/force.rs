//! Takes a lock away from its holder: for operators.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::inner::Inner;
use crate::error::{Error, ErrorKind, NodeError, shown};
use crate::inspect::{Holder, Inspection, Verdict};
use crate::node::{Keys, LockState, SHOWN_BYTES, Standing, Value};
use crate::protocol::force::{BannedValue, ForceReplies, ban, force_out, late, targets};
use crate::protocol::inspect::{InspectReply, inspect};
use crate::protocol::quorum::quorum;

/// What a forced release has met and done: see
/// [`Client::force_release`](crate::Client::force_release). A quorum of nodes is free of the client
/// that held the lock before.
#[derive(Clone, Debug)]
pub struct Forced {
    found: Inspection,
    freed: usize,
}

impl Forced {
    /// So many votes of a semaphore that was found so.
    pub(crate) fn of(found: Inspection, freed: usize) -> Forced {
        Forced { found, freed }
    }

    /// How the lock stood before.
    pub fn found(&self) -> &Inspection {
        &self.found
    }

    /// The client that held it, or kept it; `None` where a quorum agreed on no holder.
    pub fn holder(&self) -> Option<&Holder> {
        self.found.holder()
    }

    /// How many votes were taken away; 0 where nothing was there any more.
    pub fn freed(&self) -> usize {
        self.freed
    }
}

/// One line for a person.
impl fmt::Display for Forced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} votes were taken away", self.found, self.freed)
    }
}

/// The largest fence: beyond it Lua's numbers are not exact.
const LARGEST: u64 = (1 << 53) - 1;

/// How often it is looked at a lock beyond the number of readers that shared it at first, for
/// more may come meanwhile.
const MORE_LOOKS: usize = 1_000;
/// As many readers are believed to be there as a node says, up to this.
const MOST_READERS: usize = 1_000_000;
/// For how long readers are taken away at most: a node may tell of ever more.
const LONGEST: Duration = Duration::from_secs(30);

/// See [`Client::force_release`](crate::Client::force_release).
pub(crate) async fn force_release(
    client: &Inner,
    keys: &Arc<Keys>,
    name: &[u8],
    fence: Option<u64>,
) -> Result<Forced, Error> {
    let forced = free(client, keys, name, fence).await;
    forced.map_err(|error| match (error.kind(), client.check()) {
        // Nodes that are asked no more, for the client was closed meanwhile, are not at fault.
        (ErrorKind::QuorumUnavailable, Err(closed)) => closed.about(name, None),
        _ => error,
    })
}

async fn free(
    client: &Inner,
    keys: &Arc<Keys>,
    name: &[u8],
    fence: Option<u64>,
) -> Result<Forced, Error> {
    if let Some(fence) = fence.filter(|fence| !(1..=LARGEST).contains(fence)) {
        let message = format!("fence is {fence}: give one that a lease had, 1 to 2^53 - 1");
        return Err(Error::invalid(message).about(name, None));
    }
    let (set, node_timeout) = (&client.set, client.settings.node_timeout);
    let mut said = inspect(set, keys, node_timeout).await;
    let found = match keys.mode.slot() {
        Some(slot) => Inspection::of_slot(set, name, slot, &said),
        None => Inspection::of(set, name, &said),
    };
    let mut values = targets(&said);
    let answered = said.iter().flatten().count();
    let unknown = values.is_empty() && found.verdict() == Verdict::Unknown;
    if unknown || answered < quorum(said.len()) {
        return Err(found.unknown());
    }
    if let Some(fence) = fence.filter(|_| !values.is_empty()) {
        check(&found, fence)?;
    }
    let (mut freed, end) = (0, set.clock.now() + LONGEST);
    let readers = said.iter().flatten().map(|seen| seen.readers as usize);
    let readers = readers.sum::<usize>().min(MOST_READERS);
    let mut looks = MORE_LOOKS + readers;
    loop {
        // A lock of another type than a string, or another lock's readers.
        if values.iter().any(|value| value.0.is_empty()) {
            return Err(no_string(&said, &found, name));
        }
        let whole = |value: &Value| {
            let is_reader = said.iter().flatten().any(|s| s.sharers.contains(value));
            value.0.len() < SHOWN_BYTES || value.is_ours() && !is_reader
        };
        if !values.iter().all(whole) {
            return Err(no_lease(&found, name));
        }
        let target = |value: Value| BannedValue {
            ban: ban(&said, &value, client.settings.max_ttl(), late(node_timeout)),
            is_plain: value.is_ours() && !said.iter().flatten().any(|s| s.sharers.contains(&value)),
            value,
        };
        let out: Vec<_> = values.into_iter().map(target).collect();
        for done in force_out(set, keys, &out, node_timeout).await {
            let few = done.iter().flatten().count() < quorum(done.len());
            if few {
                return Err(half_done(&done, &found, name));
            }
            freed += done.iter().flatten().filter(|held| **held).count();
        }
        // Of readers each node tells some at a time.
        let told = |seen: &LockState| seen.readers as usize <= seen.sharers.len();
        let told = said.iter().flatten().all(told);
        if told {
            return Ok(Forced { found, freed });
        }
        if looks == 0 || set.clock.now() >= end {
            return Err(still_shared(&said, &found, freed));
        }
        looks -= 1;
        said = inspect(set, keys, node_timeout).await;
        // The holders that the others report are not known then.
        if said.iter().flatten().count() < quorum(said.len()) {
            return Err(half_looked(&said, &found, freed));
        }
        values = targets(&said);
    }
}

/// What a lock's readers still are after as many were taken away as there can have been.
fn still_shared(said: &[InspectReply], found: &Inspection, freed: usize) -> Error {
    let nodes = found.nodes().iter().zip(said).map(|(view, said)| {
        let said = match said {
            Ok(seen) => format!("{} share it", seen.readers),
            Err(fault) => fault.text.to_string(),
        };
        NodeError::new(view.node().into(), said)
    });
    let message = format!(
        "the lock {} is shared by others still: {freed} votes were taken away, and as many came \
         meanwhile; keep them from coming, and do it again",
        shown(found.name())
    );
    Error::with_nodes(ErrorKind::Contended, message, nodes.collect()).about(found.name(), None)
}

/// Some readers were taken away, and then too few nodes answered to tell of the next.
fn half_looked(said: &[InspectReply], found: &Inspection, freed: usize) -> Error {
    let nodes = found.nodes().iter().zip(said);
    let nodes = nodes.filter_map(|(view, said)| {
        let fault = said.as_ref().err()?;
        Some(NodeError::new(view.node().into(), fault.text.to_string()))
    });
    let message = format!(
        "too few nodes answered to say who shares the lock {} yet, of which {freed} votes were taken \
         away: look at the nodes, and do it again",
        shown(found.name())
    );
    Error::with_nodes(ErrorKind::QuorumUnavailable, message, nodes.collect())
        .about(found.name(), None)
}

/// Whether the lock is held by this fence for certain: the holder is known by it, or it is the last
/// that was counted. Each hold that was won since has a larger fence, which a quorum has counted,
/// so of any quorum one node reports it; but so does a node that another client has asked in vain.
fn check(found: &Inspection, fence: u64) -> Result<(), Error> {
    let name = shown(found.name());
    let own = found.holder().and_then(Holder::fence);
    if found.is_held_by(fence) {
        return Ok(());
    }
    let message = match found.fence() {
        Some(last) if last == fence => return Ok(()),
        Some(last) if own.is_some_and(|own| own < last) => format!(
            "the lock {name} is not held by the fence {fence}, but by {}: look who holds it, and if it is to go \
             all the same give that fence, or none",
            own.unwrap_or(last)
        ),
        Some(last) if last > fence => format!(
            "the lock {name} is not held by the fence {fence} for certain: {last} was counted \
             since, by another that got the lock, or that asked in vain; look who holds it, and \
             if it is to go all the same give that fence, or none"
        ),
        Some(last) => format!(
            "the lock {name} is not held by the fence {fence}: the last that was counted for it \
             is {last}; was it another lock's?"
        ),
        None => format!(
            "the lock {name} is not known to be held by the fence {fence}: no fence is counted \
             for it; give none to take it away from whoever holds it"
        ),
    };
    let holder = found.holder().and_then(Holder::label);
    Err(Error::new(ErrorKind::Contended, message).about(found.name(), holder))
}

fn no_string(said: &[InspectReply], found: &Inspection, name: &[u8]) -> Error {
    let odd = said.iter().map(|said| {
        matches!(said, Ok(seen) if seen.standing == Standing::Foreign
            && seen.value.as_ref().is_some_and(|value| value.0.is_empty()))
    });
    let nodes = found.nodes().iter().zip(odd).filter(|(_, odd)| *odd);
    let nodes = nodes.map(|(view, _)| NodeError::new(view.node().into(), "not this lock's".into()));
    let message = format!(
        "the key of the lock {} is no lock of this name's, so nothing was taken away: it is one of \
         Redisson's, whose forceUnlock does that, or one of another namespace that readers have, or \
         data; use another name",
        shown(name)
    );
    Error::with_nodes(ErrorKind::Misconfigured, message, nodes.collect()).about(name, None)
}

/// Nodes take a value away that is given to them as a whole.
fn no_lease(found: &Inspection, name: &[u8]) -> Error {
    let message = format!(
        "under the key of the lock {} stands a value of {SHOWN_BYTES} bytes or more, which is none of a lock: \
         it is data; delete it by hand, or use another name",
        shown(name)
    );
    let holder = found.holder().and_then(Holder::label);
    Error::new(ErrorKind::Misconfigured, message).about(name, holder)
}

fn half_done(done: &ForceReplies, found: &Inspection, name: &[u8]) -> Error {
    let nodes = found.nodes().iter().zip(done).map(|(view, done)| {
        let said = match done {
            Ok(true) => "its vote was taken away".to_owned(),
            Ok(false) => "it had no vote".to_owned(),
            Err(fault) => fault.text.to_string(),
        };
        NodeError::new(view.node().into(), said)
    });
    let message = format!(
        "too few nodes answered to free the lock {}, some may have: look at the nodes, and do it \
         again",
        shown(name)
    );
    let holder = found.holder().and_then(Holder::label);
    Error::with_nodes(ErrorKind::QuorumUnavailable, message, nodes.collect()).about(name, holder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, blocking, testing};

    #[test]
    fn the_holder_is_known_by_its_own_fence_whoever_asks() {
        let nodes = testing::nodes(3);
        let clients = [(); 3].map(|()| Client::new(&nodes).unwrap());
        let wait = |lock: &crate::Lock| blocking::wait(lock.clone().wait(None).acquire()).unwrap();
        // From here on all know the nodes' clocks.
        clients
            .iter()
            .for_each(|client| drop(wait(&client.lock("warm"))));
        let asks_in_vain = |client: &Client| {
            let lost = blocking::wait(client.lock("a").try_acquire()).unwrap();
            assert!(lost.is_none());
        };
        // Won by plain commands, and asked for by plain commands.
        let lease = wait(&clients[0].lock("a"));
        asks_in_vain(&clients[1]);
        let found = blocking::wait(clients[2].inspect("a")).unwrap();
        assert!(found.fence() > lease.fence(), "{found:?}");
        assert_eq!(found.holder().unwrap().fence(), lease.fence(), "{found:?}");
        let other = blocking::wait(clients[2].force_release("a", lease.fence().map(|f| f - 1)));
        assert_eq!(other.unwrap_err().kind(), ErrorKind::Contended);
        // What was reported is known after a renewal as well.
        blocking::wait(lease.extend(None)).unwrap();
        let found = blocking::wait(clients[2].inspect("a")).unwrap();
        assert_eq!(found.holder().unwrap().fence(), lease.fence(), "{found:?}");
        let forced = blocking::wait(clients[2].force_release("a", lease.fence())).unwrap();
        assert!(forced.freed() >= 2, "{forced}");
    }

    #[test]
    fn a_semaphore_is_told_by_its_slots_and_beside_a_lock_of_its_name() {
        let nodes = testing::nodes(3);
        let (theirs, ours) = (Client::new(&nodes).unwrap(), Client::new(&nodes).unwrap());
        let semaphore = ours.semaphore("api", 3);
        let leases =
            [(); 2].map(|()| blocking::wait(theirs.semaphore("api", 3).acquire()).unwrap());
        let found = blocking::wait(semaphore.inspect()).unwrap();
        assert_eq!((found.slots().len(), found.slots_held()), (3, 2), "{found}");
        assert_eq!(found.verdict(), Verdict::Free);
        for lease in &leases {
            let slot = &found.slots()[lease.slot().unwrap() as usize];
            assert_eq!(slot.slot(), lease.slot());
            assert_eq!(slot.holder().unwrap().fence(), lease.fence());
        }
        let lock = blocking::wait(ours.inspect("api")).unwrap();
        assert_eq!((lock.verdict(), lock.slots_held()), (Verdict::Free, 2));
        assert!(lock.to_string().contains("semaphore"), "{lock}");
        assert!(blocking::wait(semaphore.wait_until_free(None)).unwrap());
        let last = blocking::wait(theirs.semaphore("api", 3).acquire()).unwrap();
        assert!(!blocking::wait(semaphore.wait_until_free(Duration::from_millis(60))).unwrap());
        assert!(blocking::wait(semaphore.is_locked()).unwrap());
        assert!(blocking::wait(semaphore.holder()).unwrap().is_some());
        // One slot goes, and the others stay.
        let slot = last.slot().unwrap();
        let of_another = blocking::wait(semaphore.force_release_slot(slot, Some(1)));
        assert_eq!(of_another.unwrap_err().kind(), ErrorKind::Contended);
        let forced = blocking::wait(semaphore.force_release_slot(slot, last.fence())).unwrap();
        assert_eq!(forced.found().slot(), Some(slot));
        assert!(forced.freed() >= 2, "{forced}");
        let found = blocking::wait(semaphore.inspect()).unwrap();
        assert_eq!(found.slots_held(), 2);
        assert!(leases.iter().all(crate::Lease::is_held));
        // All go.
        let with_fence = blocking::wait(semaphore.force_release(last.fence()));
        assert_eq!(with_fence.unwrap_err().kind(), ErrorKind::InvalidArgument);
        let no_slot = blocking::wait(semaphore.force_release_slot(3, None));
        assert_eq!(no_slot.unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert!(
            blocking::wait(semaphore.force_release(None))
                .unwrap()
                .freed()
                >= 4
        );
        let found = blocking::wait(semaphore.inspect()).unwrap();
        assert_eq!((found.slots_held(), found.verdict()), (0, Verdict::Free));
        assert_eq!(blocking::wait(ours.inspect("api")).unwrap().slots_held(), 0);
    }

    #[test]
    fn all_readers_go_however_many() {
        let nodes = testing::nodes(3);
        let (theirs, ours) = (Client::new(&nodes).unwrap(), Client::new(&nodes).unwrap());
        let share = || blocking::wait(theirs.lock("a").shared(true).acquire()).unwrap();
        let leases: Vec<_> = (0..MORE_LOOKS + 200).map(|_| share()).collect();
        let forced = blocking::wait(ours.force_release("a", None)).unwrap();
        assert!(forced.freed() >= 2 * leases.len(), "{forced}");
        let alone = blocking::wait(ours.lock("a").wait(None).acquire()).unwrap();
        assert!(alone.is_held());
    }
}
