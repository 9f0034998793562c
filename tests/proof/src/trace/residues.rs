//! What a token may have left on nodes, and that its release goes there: "Which means, and what follows".

use std::collections::{BTreeMap, BTreeSet};

use quorlock::sim::{AfterRelease, Op, Reply};
use quorlock_sim::trace::{Served, Step};
use quorlock_sim::world::FaultEvent;

use super::Refused;
use super::clients::{Clients, token};
use crate::spec::Action;

/// What is known of one token.
#[derive(Clone, Debug, Default)]
struct Left {
    client: usize,
    /// The nodes that have stored it.
    stored: BTreeSet<usize>,
    /// Those that its client has sent its release to.
    released: BTreeSet<usize>,
    /// Its client has no use for it any more.
    useless: bool,
    /// It goes on in another client, with the votes of these nodes.
    exported: Option<BTreeSet<usize>>,
}

/// What tokens have left.
#[derive(Debug, Default)]
pub struct Residues {
    tokens: BTreeMap<Vec<u8>, Left>,
    gone: BTreeSet<usize>,
    /// Tokens that came to be of no use in this moment, or were stored in it although they were.
    due: Vec<Vec<u8>>,
    /// The native requests that were carried out, by client and message.
    natives: BTreeSet<(usize, u64)>,
    /// What was released over each connection.
    over: BTreeSet<(u64, Vec<u8>)>,
    /// The nodes, by client and place in its list.
    places: BTreeMap<(usize, usize), usize>,
}

impl Residues {
    /// A step.
    pub fn step(&mut self, step: &Step, clients: &Clients) -> Result<(), Refused> {
        match step {
            Step::Asks {
                client,
                place,
                node,
                request,
                ..
            } if !request.value.0.is_empty() => {
                self.places.insert((*client, *place), *node);
                let name = token(&request.value.0);
                let forced = matches!(request.leaving, AfterRelease::Forced(_));
                let left = self.tokens.entry(name).or_insert_with(|| Left {
                    client: *client,
                    ..Left::default()
                });
                if request.op == Op::Release && left.client == *client && !forced {
                    left.released.insert(*node);
                }
            }
            Step::Serves {
                between,
                message,
                request,
                served,
                ..
            } => {
                let name = token(&request.value.0);
                if request.op == Op::Release {
                    let forced = matches!(request.leaving, AfterRelease::Forced(_));
                    let left = self.tokens.get(&name);
                    if !forced && left.is_some_and(|left| left.client == between.client) {
                        self.over.insert((between.connection, name));
                    }
                    return Ok(());
                }
                let votes = matches!(request.op, Op::Acquire { .. } | Op::Extend { .. });
                // guard: behind its own release a request comes over no connection
                if votes && self.over.contains(&(between.connection, name.clone())) {
                    return Err(Refused::new(Action::NodeAcquire, || {
                        "a request comes behind the release of its token".into()
                    }));
                }
                if matches!(served, Served::Stored(_))
                    && (*message == 0 || !self.natives.insert((between.client, *message)))
                {
                    // guard: plain commands are never written twice
                    return Err(Refused::new(Action::Repeat, || {
                        "a native request is written twice".into()
                    }));
                }
                let stores = match served {
                    Served::Stored(voted) => voted.stored,
                    Served::Script(Some(reply), _) => matches!(
                        reply,
                        Reply::Granted { .. } | Reply::Extended { repaired: true }
                    ),
                    _ => false,
                };
                if stores && let Some(left) = self.tokens.get_mut(&name) {
                    left.stored.insert(between.node);
                    if left.useless || left.exported.is_some() {
                        self.due.push(name);
                    }
                }
            }
            Step::Exports { hold, .. } => {
                let votes = clients.claims.get(&hold.token).map(|claim| &claim.votes);
                let votes = votes.into_iter().flatten().enumerate();
                let known = votes.filter(|(_, vote)| vote.end > 0);
                let known = known.filter_map(|(i, _)| self.places.get(&(hold.client, i)));
                if let Some(left) = self.tokens.get_mut(&hold.token) {
                    left.exported = Some(known.copied().collect());
                    self.due.push(hold.token.clone());
                }
            }
            Step::Useless { token } => {
                // By its first digits.
                let digits = format!("{token:016x}").into_bytes();
                let found = self.tokens.range_mut(digits.clone()..);
                for (name, left) in found.take_while(|(name, _)| name.starts_with(&digits)) {
                    left.useless = true;
                    self.due.push(name.clone());
                }
            }
            Step::Fault(FaultEvent::CrashClient(client)) => {
                self.gone.insert(*client);
            }
            _ => {}
        }
        Ok(())
    }

    /// A moment is over.
    pub fn settles(&mut self) -> Result<(), Refused> {
        for name in std::mem::take(&mut self.due) {
            let Some(left) = self.tokens.get(&name) else {
                continue;
            };
            if self.gone.contains(&left.client) {
                continue;
            }
            // guard: to every node that may know the token, but those whose votes go on in another client
            let goes_on = |node: &usize| left.exported.as_ref().is_some_and(|on| on.contains(node));
            let mut owed = left.stored.difference(&left.released);
            if let Some(node) = owed.find(|node| !goes_on(node)) {
                return Err(Refused::new(Action::ClientGiveUp, || {
                    format!("a token is of no use any more, and is not released at node {node}")
                }));
            }
        }
        Ok(())
    }
}
