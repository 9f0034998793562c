//! The call of a user that waits for its release returns in the moment in which a quorum has carried it out, and when the time of its
//! requests is over at the latest: "Which means, and what follows".

use std::collections::{BTreeMap, BTreeSet, HashMap};

use quorlock::sim::{AfterRelease, Op, Reply};
use quorlock_sim::trace::Step;
use quorlock_sim::world::FaultEvent;

use super::Refused;
use super::clients::{shown, token};
use crate::spec::Action;
use crate::spec::claim::quorum;

/// What is not told apart: timers, and rates of clocks.
const SLACK: u64 = 2_000_000;

/// A release on its way.
#[derive(Debug, Default)]
struct Release {
    client: usize,
    /// The nodes, by their places, that have carried it out.
    done: BTreeSet<usize>,
    /// The end of the time of its requests, in true time.
    by: u64,
    /// Its user waits for it.
    awaited: bool,
}

/// The releases on their way.
#[derive(Debug, Default)]
pub struct Told {
    nodes: BTreeMap<usize, usize>,
    releases: BTreeMap<Vec<u8>, Release>,
    /// Those that are awaited.
    awaited: BTreeSet<Vec<u8>>,
    /// Which token a message is of.
    messages: HashMap<u64, Vec<u8>>,
    /// Of whose release a quorum has told in this moment.
    due: Vec<Vec<u8>>,
}

impl Told {
    /// A step, at a moment of true time.
    pub fn step(&mut self, at: u64, step: &Step) {
        match step {
            Step::Client { client, nodes, .. } => {
                self.nodes.insert(*client, *nodes);
            }
            Step::Asks {
                client,
                message,
                now,
                request,
                ticket,
                ..
            } if request.op == Op::Release
                && !request.value.0.is_empty()
                && !matches!(request.leaving, AfterRelease::Forced(_)) =>
            {
                let name = token(&request.value.0);
                self.messages.insert(*message, name.clone());
                let release = self.releases.entry(name).or_default();
                let left = ticket.deadline.0.saturating_sub(now.0);
                release.client = *client;
                release.by = release.by.max(at + left + left / 50 + SLACK);
            }
            Step::Hears {
                client,
                place,
                message,
                request,
                reply,
                ..
            } => {
                let Some(name) = self.messages.remove(message) else {
                    return;
                };
                let Some(release) = self.releases.get_mut(&name) else {
                    return;
                };
                let keeps = request.leaving != AfterRelease::Free;
                let done = match reply {
                    Reply::Released { held } => *held || !keeps,
                    Reply::Kept => true,
                    _ => false,
                };
                if done && release.client == *client {
                    release.done.insert(*place);
                }
                let nodes = self.nodes.get(client).copied().unwrap_or(0);
                if release.awaited && release.done.len() >= quorum(nodes) {
                    self.due.push(name);
                }
            }
            Step::Awaits { hold } => {
                if let Some(release) = self.releases.get_mut(&hold.token) {
                    release.awaited = true;
                    self.awaited.insert(hold.token.clone());
                }
            }
            Step::Told { hold } => self.forgets(&hold.token),
            // It does nothing for a while, or for ever.
            Step::Fault(
                FaultEvent::PauseClient(client, _)
                | FaultEvent::SuspendClient(client, _)
                | FaultEvent::CrashClient(client),
            ) => {
                let of = |(_, release): &(&Vec<u8>, &Release)| release.client == *client;
                let theirs = self.releases.iter().filter(of);
                let theirs: Vec<_> = theirs.map(|(name, _)| name.clone()).collect();
                theirs.iter().for_each(|name| self.forgets(name));
            }
            _ => {}
        }
    }

    fn forgets(&mut self, name: &[u8]) {
        self.awaited.remove(name);
        if let Some(release) = self.releases.get_mut(name) {
            release.awaited = false;
        }
    }

    fn refuse(name: &[u8], why: &str) -> Result<(), Refused> {
        let of = shown(name);
        Err(Refused::new(Action::ClientRelease, || {
            format!("the release of {of} is {why}, and its user waits")
        }))
    }

    /// A moment is over, and it is `at` now.
    pub fn waits(&mut self, at: u64) -> Result<(), Refused> {
        for name in std::mem::take(&mut self.due) {
            // guard: told once a quorum has done it
            if self.awaited.contains(&name) {
                return Told::refuse(&name, "done by a quorum");
            }
        }
        for name in &self.awaited {
            // guard: and in time
            if self.releases.get(name).is_some_and(|of| of.by < at) {
                return Told::refuse(name, "over by time");
            }
        }
        Ok(())
    }
}
