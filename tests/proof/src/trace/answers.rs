//! Requests and answers in pairs: a node carries out what was asked of it, and a client hears, once, what the node has answered to
//! that very request, or that there is no answer: "Requests", "What an answer of 0 counts for".

use std::collections::{HashMap, HashSet};
use std::mem::{Discriminant, discriminant};

use quorlock::sim::native::Outcome;
use quorlock::sim::{Op, Reply, Request};
use quorlock_sim::trace::{Served, Step};

use super::Refused;
use crate::spec::Action;

/// A request on its way.
#[derive(Debug)]
struct Asked {
    client: usize,
    value: Vec<u8>,
    op: Discriminant<Op>,
    /// What was answered, by however many of its copies.
    answers: Vec<Reply>,
    heard: bool,
}

/// The requests of a schedule.
#[derive(Debug, Default)]
pub struct Answers {
    /// By the number of the message.
    asked: HashMap<u64, Asked>,
    /// What each client has asked for, by the value: a copy has no number of its own.
    values: HashSet<(usize, Vec<u8>)>,
    /// The clients that guard against restarts.
    guarded: HashSet<usize>,
}

impl Answers {
    /// A step.
    pub fn step(&mut self, step: &Step) -> Result<(), Refused> {
        match step {
            Step::Client {
                client,
                guard: true,
                ..
            } => {
                self.guarded.insert(*client);
                Ok(())
            }
            Step::Asks {
                client,
                message,
                request,
                ..
            } => {
                let value = request.value.0.to_vec();
                self.values.insert((*client, value.clone()));
                let asked = Asked {
                    client: *client,
                    value,
                    op: discriminant(&request.op),
                    answers: Vec::new(),
                    heard: false,
                };
                self.asked.insert(*message, asked);
                Ok(())
            }
            Step::Serves {
                between,
                message,
                request,
                served,
                ..
            } => {
                // guard: what is carried out was asked for
                if !self.was_asked(between.client, *message, request) {
                    return Err(Refused::new(Action::Repeat, || {
                        format!("carries {:?} out, which was not asked for", request.op)
                    }));
                }
                let plain =
                    !self.guarded.contains(&between.client) && request.keys.fence_ttl.is_none();
                self.answer(*message, answers(served, plain));
                Ok(())
            }
            Step::Counts {
                message,
                outcome: Outcome::Reply(reply),
                ..
            } => {
                self.answer(*message, Some(reply.clone()));
                Ok(())
            }
            Step::Hears { message, reply, .. } => self.hears(*message, reply),
            _ => Ok(()),
        }
    }

    fn was_asked(&self, client: usize, message: u64, request: &Request) -> bool {
        let value = request.value.0.to_vec();
        match self.asked.get(&message) {
            Some(asked) => {
                let same = asked.client == client && asked.value == value;
                same && asked.op == discriminant(&request.op)
            }
            None => message == 0 && self.values.contains(&(client, value)),
        }
    }

    fn answer(&mut self, message: u64, reply: Option<Reply>) {
        if let (Some(asked), Some(reply)) = (self.asked.get_mut(&message), reply) {
            asked.answers.push(reply);
        }
    }

    fn hears(&mut self, message: u64, reply: &Reply) -> Result<(), Refused> {
        let refuse = |why: String| Err(Refused::new(Action::Lose, || why));
        let Some(asked) = self.asked.get_mut(&message) else {
            return refuse("an answer is heard to what was not asked".into());
        };
        // guard: once
        if std::mem::replace(&mut asked.heard, true) {
            return refuse("one request is answered twice".into());
        }
        // guard: what the node has answered; that there is no answer is the link's own word
        if !matches!(reply, Reply::Failed(_)) && !asked.answers.contains(reply) {
            let why = format!("hears {reply:?}, where {:?} was answered", asked.answers);
            return refuse(why);
        }
        Ok(())
    }
}

/// What a node answers by what it did; `plain`: no trailer stands behind a native acquire. A native release that found nothing is
/// not done yet: the script says it.
fn answers(served: &Served, plain: bool) -> Option<Reply> {
    match served {
        Served::Script(reply, _) => reply.clone(),
        Served::Stored(voted) if !voted.stored => Some(Reply::Taken),
        // With a trailer it counts by what that shows.
        Served::Stored(_) if plain => Some(Reply::Granted {
            fence: 0,
            lasts: None,
        }),
        Served::Deleted(true) => Some(Reply::Released { held: true }),
        Served::Stored(_) | Served::Deleted(false) => None,
    }
}
