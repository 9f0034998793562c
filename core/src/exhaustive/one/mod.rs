//! One claim: everything that may happen to it, in the order in which a client lets it happen.
//!
//! The claim is asked for its requests, and each is answered in every way in which a node may. Beside
//! it stand the votes as the specification has them, and a book of what was asked for; [`judge`]
//! compares the claim with both after each step.

mod answers;
mod judge;
mod models;
pub(super) mod world;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stateright::{Model, Property};

use crate::clock::Instant;
use crate::mutex::lock;
use crate::node::{Nodes, Reply, RequestContext};
use crate::protocol::claim::effects::Effects;
use crate::protocol::claim::home::{self, NextStep};
use crate::protocol::claim::{Claim, Event, Path, Phase};
use crate::protocol::group::Group;
use crate::protocol::loss::LossReason;
use world::{Books, NODES, NOW, Ticket, World};

/// What may happen in one model.
#[derive(Clone)]
struct Small {
    world: World,
    /// Moments, in ms from the beginning.
    moments: &'static [u64],
    /// How many fences are asked for at once.
    block: u32,
    /// By which commands the attempt begins.
    path: Path,
    /// How a request may be answered.
    answers: fn(&Ticket) -> Vec<Reply>,
    /// In how many ways a lease is won first, without choice; 0: the attempt is what is looked at.
    won: usize,
    /// What else may happen, and how often in all.
    happens: &'static [Happens],
    most: u8,
    /// The drift that the specification reckons with.
    drift: f64,
    /// What was seen on the way: see [`judge::Judged::seen`].
    seen: Arc<Mutex<BTreeSet<&'static str>>>,
}

/// What may happen besides answers and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Happens {
    HomeDue,
    /// A waiter goes on as the home says: it asks those again that have not voted, or waits there.
    GoesOn,
    Looks,
    Ticks,
    /// The clock of the first node steps forward.
    Steps,
    Extends,
    /// The handle of a lease that was passed on is used.
    ExtendsAnother,
    ExportsAnother,
    Shares,
    SharesAnother,
    Exports,
    PassesOn,
    /// To one whose label is another.
    PassesOnLabelled,
    HandsOver,
    TakesBack,
    Releases,
    Forfeits,
}

/// What is done in one step.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// The first request that a node has not answered is answered so, by that server.
    Answers(usize, Reply, u64),
    Happens(Happens),
    /// The next moment comes.
    TimeGoesOn,
}

/// All there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct All {
    /// What was wrong in the last step.
    wrong: Option<&'static str>,
    claim: Claim,
    books: Books,
    moment: usize,
    /// How often something has happened besides.
    happened: u8,
}

impl All {
    fn now(&self, model: &Small) -> Instant {
        NOW + Duration::from_millis(model.moments[self.moment])
    }

    /// Has the claim take an event, and judges what comes of it.
    fn takes(&mut self, model: &Small, event: Event<'_>) {
        let now = self.now(model);
        let mut world = model.world.clone();
        world.stepped = self.books.stepped;
        let before = self.claim.clone();
        let mut effects = Effects::default();
        self.claim.step_into(event, now, &world, &mut effects);
        self.books.due(&before, &event, now, &world);
        let step = judge::Judged {
            before: &before,
            after: &self.claim,
            event: &event,
            effects: &effects,
            now,
            world: &world,
            block: model.block,
        };
        self.wrong = self.wrong.or(step.verdict(&self.books));
        let seen: Vec<_> = step.seen().collect();
        if !seen.is_empty() {
            lock(&model.seen).extend(seen);
        }
        self.books.note(&self.claim, &event, &effects, now, &world);
        self.wrong = self.wrong.or(judge::votes(&self.claim, &self.books));
        if self.claim.phase() == Phase::Dead && before.phase() != Phase::Dead {
            self.haunt(model, &world);
        }
    }

    /// Nothing more comes of a claim that is dead, whatever happens to it.
    fn haunt(&mut self, model: &Small, world: &World) {
        let now = self.now(model);
        let lease = self.claim.lease();
        let events = [
            Event::Begins {
                path: model.path,
                nodes: Nodes::all(NODES),
                homes: Nodes::NONE,
            },
            Event::HomeDue,
            Event::LookedAt,
            Event::Tick,
            Event::ClockStepped,
            Event::Extends {
                lease,
                ttl: world.ttl(),
            },
            Event::Shares { lease },
            Event::Exports { lease },
            Event::PassesOn {
                label: "b",
                group: Group::default(),
                serves: true,
            },
            Event::HandedOver,
            Event::Released { stay: None },
            Event::Forfeited(LossReason::Closed),
        ];
        let mut dead = self.claim.clone();
        let mut after = |event: Event<'_>| {
            let effects = dead.step(event, now, world);
            let silent = judge::is_silent(&effects);
            (!silent || dead.phase() != Phase::Dead).then_some("a dead claim acts")
        };
        for event in events {
            self.wrong = self.wrong.or(after(event));
        }
        for ticket in self.books.open.clone() {
            for reply in (model.answers)(&ticket) {
                let ticket = ticket.context;
                let reply = &reply;
                self.wrong = self.wrong.or(after(Event::Replied { ticket, reply }));
            }
        }
        for event in events {
            self.wrong = self.wrong.or(after(event));
        }
    }
}

impl Small {
    /// A claim that has asked all nodes.
    fn begun(&self) -> All {
        let mut all = All {
            claim: self.world.claim(self.block),
            books: Books::default(),
            moment: 0,
            happened: 0,
            wrong: None,
        };
        // A waiter asks the home first.
        let home = Nodes::one(self.world.order()[0]);
        let (nodes, homes) = if self.world.waits {
            (home, home)
        } else {
            (Nodes::all(NODES), Nodes::NONE)
        };
        let path = self.path;
        all.takes(self, Event::Begins { path, nodes, homes });
        all
    }

    /// How a waiter goes on, as the home says.
    fn next(&self, all: &All) -> NextStep {
        let mut world = self.world.clone();
        world.stepped = all.books.stepped;
        home::next(&world.order(), &all.claim.node_states(&world))
    }

    fn answer(&self, all: &mut All, node: usize, reply: &Reply, server: u64) {
        let first = all.books.open.iter().position(|t| t.context.node == node);
        let Some(first) = first else { return };
        let open = all.books.open.remove(first);
        let ticket = RequestContext {
            server,
            ..open.context
        };
        let now = all.now(self);
        let around = (now, &self.world);
        all.books
            .answer(&all.claim, &open, &ticket, reply, self.drift, around);
        all.takes(self, Event::Replied { ticket, reply });
    }
}

impl Model for Small {
    type State = All;
    type Action = Step;

    fn init_states(&self) -> Vec<All> {
        let begun = self.begun();
        if self.won == 0 {
            return vec![begun];
        }
        // Won with all votes; with two of three, where the third was not reached, or has not answered.
        let (order, granted) = (
            self.world.order(),
            Reply::Granted {
                fence: 7,
                lasts: None,
            },
        );
        let mut won = begun;
        won.moment = 1;
        for node in &order[..2] {
            self.answer(&mut won, *node, &granted, 1);
        }
        let unsent = answers::failed(false);
        let last = |reply: &Reply| {
            let mut all = won.clone();
            self.answer(&mut all, order[2], reply, 1);
            all
        };
        let all = [last(&granted), last(&unsent), won.clone()];
        all[..self.won].to_vec()
    }

    fn actions(&self, state: &All, steps: &mut Vec<Step>) {
        let over = state.claim.phase() == Phase::Dead
            || self.won == 0 && state.claim.phase() == Phase::Held;
        if over || state.wrong.is_some() {
            return;
        }
        for node in 0..NODES {
            // Answers come in the order of the requests.
            let first = state.books.open.iter().find(|t| t.context.node == node);
            let Some(ticket) = first else { continue };
            for reply in (self.answers)(ticket) {
                // Another server may stand behind the address of one node.
                let votes = matches!(reply, Reply::Extended { .. });
                let servers = if votes && node == 0 { 2 } else { 1 };
                steps.extend((1..=servers).map(|on| Step::Answers(node, reply.clone(), on)));
            }
        }
        let due = state.claim.home_due();
        for what in self.happens {
            let may = match what {
                Happens::HomeDue => due.is_some_and(|due| due <= state.now(self)),
                Happens::GoesOn if state.happened == self.most => false,
                Happens::GoesOn => self.next(state) != NextStep::Await,
                _ => state.happened < self.most,
            };
            if may {
                steps.push(Step::Happens(*what));
            }
        }
        if state.moment + 1 < self.moments.len() {
            steps.push(Step::TimeGoesOn);
        }
    }

    fn next_state(&self, last: &All, step: Step) -> Option<All> {
        let mut all = last.clone();
        let what = match step {
            Step::TimeGoesOn => {
                all.moment += 1;
                return Some(all);
            }
            Step::Answers(node, reply, server) => {
                self.answer(&mut all, node, &reply, server);
                return Some(all);
            }
            Step::Happens(what) => what,
        };
        all.happened += u8::from(what != Happens::HomeDue);
        let lease = all.claim.lease();
        let passes = |label| Event::PassesOn {
            label,
            group: Group::default(),
            serves: true,
        };
        let ttl = self.world.ttl();
        let event = match what {
            Happens::HomeDue => Event::HomeDue,
            Happens::GoesOn => match self.next(last) {
                // The second time it stands in their queues as well.
                NextStep::Retry(nodes) => Event::Asks {
                    nodes,
                    homes: if last.happened > 0 {
                        nodes
                    } else {
                        Nodes::NONE
                    },
                },
                NextStep::Yield(home) => Event::Released { stay: Some(home) },
                NextStep::Pause | NextStep::Await => Event::Released { stay: None },
            },
            Happens::Looks => Event::LookedAt,
            Happens::Ticks => Event::Tick,
            Happens::Steps => {
                all.books.steps(0);
                Event::ClockStepped
            }
            Happens::Extends => Event::Extends {
                lease,
                ttl: 2 * ttl,
            },
            Happens::ExtendsAnother => Event::Extends {
                lease: lease + 1,
                ttl,
            },
            Happens::ExportsAnother => Event::Exports { lease: lease + 1 },
            Happens::Shares => Event::Shares { lease },
            Happens::SharesAnother => Event::Shares { lease: lease + 1 },
            Happens::Exports => Event::Exports { lease },
            Happens::PassesOn => passes(""),
            Happens::PassesOnLabelled => passes("b"),
            Happens::HandsOver => Event::HandedOver,
            Happens::TakesBack => Event::TakenBack,
            Happens::Releases => Event::Released { stay: None },
            Happens::Forfeits => Event::Forfeited(LossReason::Closed),
        };
        all.takes(self, event);
        // What changed nothing is no step.
        (all.claim != last.claim || all.wrong.is_some() || all.books != last.books).then_some(all)
    }

    fn properties(&self) -> Vec<Property<Small>> {
        let mut all = vec![
            Property::always(
                "the claim does as the specification says",
                |_, all: &All| all.wrong.is_none(),
            ),
            Property::sometimes("it is over", |_, all: &All| {
                all.claim.phase() == Phase::Dead
            }),
        ];
        if self.won > 0 {
            all.push(Property::sometimes("it is lost", |_, all: &All| {
                all.claim.loss().is_some()
            }));
        } else {
            all.push(Property::sometimes("it is won", |_, all: &All| {
                all.claim.phase() == Phase::Held
            }));
        }
        all
    }
}
