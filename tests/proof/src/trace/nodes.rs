//! The steps of nodes: each is what the specification says, from what stood there to what stands there.

use std::sync::Arc;

use quorlock::sim::native::{NativeReplies, Outcome};
use quorlock::sim::{Mode, Op, Repair, Reply, Request};
use quorlock_sim::trace::{Between, Served, View, Views};
use quorlock_sim::world::FaultEvent;

use super::Refused;
use super::frame::Frame;
use super::view::{listeners, lock, time};
use crate::spec::Action;
use crate::spec::choose::choose;
use crate::spec::lock::Lock;
use crate::spec::native::{Trailer, worth};
use crate::spec::node::{Answer, Node};

/// What is known of nodes.
#[derive(Debug, Default)]
pub struct Nodes {
    frame: Frame,
    /// Each has another server that may take its place.
    pub failing_over: bool,
}

impl Nodes {
    /// A node has carried a request out.
    pub fn serves(
        &mut self,
        between: &Between,
        record: Option<&Arc<str>>,
        request: &Request,
        views: &Views,
        served: &Served,
    ) -> Result<Action, Refused> {
        let server = (between.node, between.server);
        if request.keys.field.is_some() {
            // Redisson's layout is left out: docs/proof/actions.toml.
            self.frame.forget(between.node);
            return Ok(Action::Look);
        }
        if self.failing_over {
            self.frame.forget(between.node);
        }
        let before: Vec<Lock> = views.before.iter().map(lock).collect();
        for (seen, (view, keys)) in before.iter().zip(views.before.iter().zip(&views.keys)) {
            let expected = self.frame.expected(server, keys, seen, time(view.now));
            if expected != seen.clone().at(time(view.now)) {
                return Err(Refused::new(Action::Tick, || {
                    format!(
                        "the node has changed by itself: {expected:?} was left, {seen:?} is there"
                    )
                }));
            }
        }
        let (action, after) = step(between, record, request, views, before, served)?;
        for (i, (expected, keys)) in after.into_iter().zip(&views.keys).enumerate() {
            let view = &views.after[i];
            let now = time(view.now);
            let (expected, found) = (expected.at(now), lock(view).at(now));
            if expected != found {
                return Err(Refused::new(action, || {
                    format!("leaves {found:?}, where {expected:?} is allowed")
                }));
            }
            self.frame.note(server, keys, &found);
        }
        Ok(action)
    }

    /// The trailer of a native acquire was read.
    pub fn counts(
        &mut self,
        record: Option<&Arc<str>>,
        request: &Request,
        view: &View,
        voted: NativeReplies,
        outcome: &Outcome,
    ) -> Result<Action, Refused> {
        let trailer = Trailer {
            admitted: record.is_none() || record == view.record.as_ref(),
            quarantined: record.is_some() && view.quarantine.is_some(),
            time: time(view.now),
        };
        let expected = worth(request, voted, trailer);
        if expected != *outcome {
            return Err(Refused::new(Action::NodeTrailer, || {
                format!("is {outcome:?}, where {expected:?} is allowed by {trailer:?}")
            }));
        }
        Ok(Action::NodeTrailer)
    }

    /// Something goes wrong.
    pub fn fault(&mut self, fault: FaultEvent) {
        match fault {
            FaultEvent::CrashNode(node, ..)
            | FaultEvent::Flush(node)
            | FaultEvent::StepNode(node, _)
            | FaultEvent::SetRight(node, _)
            | FaultEvent::Astray(_, node, _)
            | FaultEvent::Foreign { node, .. } => self.frame.forget(node),
            FaultEvent::FailsOver(failover) => self.frame.forget(failover.node),
            _ => {}
        }
    }
}

/// What the specification makes of a request: the state afterwards, if the answer is as it says.
fn step(
    between: &Between,
    record: Option<&Arc<str>>,
    request: &Request,
    views: &Views,
    before: Vec<Lock>,
    served: &Served,
) -> Result<(Action, Vec<Lock>), Refused> {
    let counts = listeners(views.before.iter().chain(&views.after));
    let guarded = record.is_some();
    let asked: Vec<Request> = views
        .keys
        .iter()
        .map(|keys| Request {
            keys: keys.clone(),
            ..request.clone()
        })
        .collect();
    let nodes = before.into_iter().zip(&views.before).zip(&asked);
    let mut nodes: Vec<Node<'_>> = nodes
        .map(|((lock, view), request)| Node {
            lock,
            time: time(view.now),
            quarantine: view.quarantine.filter(|_| guarded),
            admitted: !guarded || record == view.record.as_ref(),
            other_layout: view.hashed,
            request,
            listeners: &counts,
            called: Vec::new(),
        })
        .collect();
    let action = match served {
        Served::Stored(voted) => {
            let (stored, counted) = nodes[0].set_if_none();
            if (stored, counted) != (voted.stored, voted.counted) {
                return Err(Refused::new(Action::NodeNativeAcquire, || {
                    format!("answers {voted:?}, where {stored} and {counted} are allowed")
                }));
            }
            Action::NodeNativeAcquire
        }
        Served::Deleted(deleted) => {
            if nodes[0].delete_if_equal() != *deleted {
                return Err(Refused::new(Action::NodeRelease, || {
                    format!("says that it has deleted the key: {deleted}")
                }));
            }
            Action::NodeRelease
        }
        Served::Script(Some(Reply::Failed(_)), _) => Action::Lose,
        Served::Script(reply, called) => {
            // R11: in quarantine a vote is stored anew on the very server that gave it.
            if let Op::Extend {
                repair: Repair::InQuarantine { server },
                ..
            } = request.op
                && (server != between.known_as || server == 0)
            {
                return Err(Refused::new(Action::ClientRenew, || {
                    "mode 2 goes to a server that did not give the vote".into()
                }));
            }
            let (action, answer) = match request.keys.mode {
                Mode::AnySlot(_) => (Action::NodeServe, choose(&mut nodes)),
                _ => nodes[0].carry_out(),
            };
            let found = reply.clone().map_or(Answer::OtherRecord, Answer::Says);
            if action != Action::Look && answer != found {
                return Err(Refused::new(action, || {
                    format!("answers {found:?}, where {answer:?} is allowed")
                }));
            }
            let mut told: Vec<_> = nodes.iter().flat_map(|node| node.called.clone()).collect();
            let called = called
                .iter()
                .map(|(inbox, hint)| (inbox.to_vec(), hint.number, hint.slot));
            // Slots are looked at in an order of their own.
            let mut called: Vec<_> = called.collect();
            if nodes.len() > 1 {
                told.sort();
                called.sort();
            }
            if told != called {
                return Err(Refused::new(action, || {
                    format!("calls {called:?}, where {told:?} is allowed")
                }));
            }
            action
        }
    };
    Ok((action, nodes.into_iter().map(|node| node.lock).collect()))
}
