//! A place in a queue is given up by a waiter that has no use for it any more: once it has won, once its lease is exported, once its
//! call is over. "Which means, and what follows", "Export and adopt".

use std::collections::{BTreeMap, BTreeSet, HashMap};

use quorlock::sim::{Op, Reply};
use quorlock_sim::trace::Step;
use quorlock_sim::world::FaultEvent;

use super::Refused;
use super::clients::token;
use crate::spec::Action;

/// A waiter, by its client and its number.
type Waiter = (usize, u64);

/// Where a waiter may stand.
#[derive(Debug, Default)]
struct Places {
    /// The places of the client's list.
    stands: BTreeSet<usize>,
    /// The last request for a vote at each, by message, while it is not answered.
    open: BTreeMap<usize, u64>,
    /// The token by which it has what it waited for.
    won: Option<Vec<u8>>,
}

impl Places {
    /// Where it stands, as far as nodes have answered.
    fn settled(&self) -> Option<usize> {
        let open = |place: &usize| self.open.contains_key(place);
        self.stands.iter().copied().find(|place| !open(place))
    }
}

/// Why a place is given up.
#[derive(Clone, Copy, Debug)]
enum Ends {
    Won,
    Exported,
    Over,
}

/// The places of waiters.
#[derive(Debug, Default)]
pub struct Waiters {
    waiters: BTreeMap<Waiter, Places>,
    /// Which waiter asks for a token.
    tokens: BTreeMap<Vec<u8>, Waiter>,
    /// Which waiter a request is of.
    messages: HashMap<u64, Waiter>,
    gone: BTreeSet<usize>,
    /// Whose places are to be given up in this moment.
    due: Vec<(Waiter, Ends)>,
}

impl Waiters {
    /// A step.
    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Asks {
                client,
                place,
                message,
                request,
                ..
            } if request.keys.field.is_none() => {
                let Some(waiter) = &request.waiter else {
                    return;
                };
                let name = (*client, waiter.number);
                let places = self.waiters.entry(name).or_default();
                match request.op {
                    Op::Release => {
                        places.stands.remove(place);
                        return;
                    }
                    Op::Acquire { home, .. } => {
                        if home {
                            places.stands.insert(*place);
                        }
                        places.open.insert(*place, *message);
                    }
                    // What it reserves is its place there.
                    Op::Reserve { .. } => {
                        places.stands.insert(*place);
                    }
                    _ => return,
                }
                self.messages.insert(*message, name);
                self.tokens.insert(token(&request.value.0), name);
            }
            Step::Hears {
                place,
                message,
                reply,
                ..
            } => {
                let Some(name) = self.messages.remove(message) else {
                    return;
                };
                let Some(places) = self.waiters.get_mut(&name) else {
                    return;
                };
                if places.open.get(place) == Some(message) {
                    places.open.remove(place);
                }
                // The vote has ended the place.
                if matches!(reply, Reply::Granted { .. }) {
                    places.stands.remove(place);
                }
                if places.won.is_some() {
                    self.due.push((name, Ends::Won));
                }
            }
            Step::Won { hold, again, .. } if !again && hold.number == 0 => {
                self.ends(&hold.token, Ends::Won);
            }
            Step::Exports { hold, .. } => self.ends(&hold.token, Ends::Exported),
            Step::Useless { token } => {
                let digits = format!("{token:016x}").into_bytes();
                let found = self.tokens.range(digits.clone()..);
                let found = found.take_while(|(name, _)| name.starts_with(&digits));
                for (name, waiter) in found {
                    // By another token it may have won: then it has not left where an answer is awaited.
                    let won = self.waiters.get(waiter).and_then(|p| p.won.as_ref());
                    let how = match won {
                        Some(won) if won != name => Ends::Won,
                        _ => Ends::Over,
                    };
                    self.due.push((*waiter, how));
                }
            }
            Step::Fault(FaultEvent::CrashClient(client)) => {
                self.gone.insert(*client);
            }
            _ => {}
        }
    }

    fn ends(&mut self, token: &[u8], how: Ends) {
        let Some(name) = self.tokens.get(token) else {
            return;
        };
        if let Some(places) = self.waiters.get_mut(name) {
            places.won = Some(token.to_vec());
            self.due.push((*name, how));
        }
    }

    /// A moment is over.
    pub fn settles(&mut self) -> Result<(), Refused> {
        for (name, how) in std::mem::take(&mut self.due) {
            let Some(places) = self.waiters.get(&name) else {
                continue;
            };
            // guard: what it may stand in it leaves, as soon as the node has answered, or at once
            let left = match how {
                Ends::Won => places.settled(),
                Ends::Exported | Ends::Over => places.stands.first().copied(),
            };
            if let Some(place) = left.filter(|_| !self.gone.contains(&name.0)) {
                return Err(Refused::new(Action::ClientLeave, || {
                    format!(
                        "client {}: waiter {} has no use for its place any more ({how:?}), and does not leave node {place}",
                        name.0, name.1
                    )
                }));
            }
        }
        Ok(())
    }
}
