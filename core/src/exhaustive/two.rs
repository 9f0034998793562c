//! Two claims that want one lock, the nodes, and a network between: exclusion, and the order of fences.
//!
//! A node carries out what it is asked as `docs/reference/protocol.md` says, in a few lines. So that the
//! states stay few, an answer comes with its request, but for as many as a model says, which are late or
//! lost.

use std::time::Duration;

use stateright::{Model, Property};

use super::one::world::{DRIFT, NOW, World};
use super::specification::lease_end;
use super::{breaks, explore};
use crate::clock::Instant;
use crate::node::{Fault, FaultKind, Nodes, Op, Reply, RequestContext, Value};
use crate::protocol::claim::{Claim, ClaimInit, Event, Path, Phase};

const CLAIMS: usize = 2;
const TTL: Duration = Duration::from_secs(1);

/// What is looked at.
#[derive(Clone)]
struct Small {
    worlds: [World; CLAIMS],
    nodes: usize,
    /// In ms from the beginning.
    moments: &'static [u64],
    /// So many answers come late, and so many are lost.
    late: usize,
    losses: u8,
    /// A node may lose its keys, and give its vote again: what a guard is for.
    forgets: bool,
    /// A node counts fences from nothing where it has no key: what counters that live are for.
    forgets_fences: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Asked {
    claim: usize,
    ticket: RequestContext,
    native: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Server {
    /// Whose vote stands, and until when.
    key: Option<(usize, Instant)>,
    /// The last fence.
    count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct All {
    claims: [Claim; CLAIMS],
    begun: [bool; CLAIMS],
    /// Until when each vote counts, by the specification.
    votes: [Vec<super::specification::Vote>; CLAIMS],
    /// How often the end of the lease was told.
    over: [u8; CLAIMS],
    /// The largest fence that had been won when the claim was begun.
    floor: [u64; CLAIMS],
    won: u64,
    /// A claim has sent something after its death.
    haunts: bool,
    nodes: Vec<Server>,
    asked: Vec<Asked>,
    /// Answers that are late.
    late: Vec<(Asked, Reply)>,
    /// Releases that are on their way.
    releases: Vec<(usize, usize)>,
    moment: usize,
    losses: u8,
    forgotten: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Begins(usize),
    Answered(Asked),
    AnsweredLate(Asked),
    /// The request was carried out, and no answer comes.
    Lost(Asked),
    Comes(usize),
    Released(usize, usize),
    Looks(usize),
    HomeIsDue(usize),
    GivesUp(usize),
    Forgets(usize),
    TimeGoesOn,
}

impl All {
    fn now(&self, model: &Small) -> Instant {
        NOW + Duration::from_millis(model.moments[self.moment])
    }

    /// Has a claim take an event, and does what follows.
    fn act(&mut self, model: &Small, claim: usize, event: Event<'_>) {
        let now = self.now(model);
        let dead = self.claims[claim].phase() == Phase::Dead;
        let effects = self.claims[claim].step(event, now, &model.worlds[claim]);
        self.haunts |= dead && !effects.asks.is_empty();
        for ask in &effects.asks {
            if let Op::Acquire { candidate, .. } = ask.op {
                self.votes[claim][ask.node].ask(candidate);
            }
            let ticket = RequestContext {
                node: ask.node,
                sent: now,
                deadline: ask.deadline,
                op: ask.op,
                server: 1,
            };
            self.asked.push(Asked {
                claim,
                ticket,
                native: ask.native,
            });
        }
        self.asked
            .sort_by_key(|asked| (asked.claim, asked.ticket.node));
        for plan in effects.release.iter() {
            let tokens = plan.nodes.iter().filter(|left| left.token);
            self.releases
                .extend(tokens.map(|left| (claim, left.node.into())));
        }
        self.releases.sort_unstable();
        self.over[claim] += u8::from(effects.over.is_some());
        if self.claims[claim].is_won() {
            self.won = self.won.max(self.claims[claim].last_fence());
        }
    }

    /// A node carries a request out.
    fn serve(&mut self, model: &Small, asked: &Asked) -> Reply {
        let now = self.now(model);
        let Asked {
            claim,
            ticket,
            native,
        } = asked;
        let node = &mut self.nodes[ticket.node];
        let stands = node.key.filter(|(_, end)| now <= *end);
        let own = stands.is_some_and(|(whose, _)| whose == *claim);
        let key = Some((*claim, now + TTL));
        let granted = |fence| Reply::Granted { fence, lasts: None };
        match ticket.op {
            Op::Acquire { candidate, .. } if *native => {
                let counted = candidate > node.count;
                node.count = node.count.max(candidate);
                if stands.is_some() {
                    return Reply::Taken;
                }
                node.key = key;
                granted(if counted { candidate } else { 0 })
            }
            Op::Acquire { candidate, .. } => {
                if stands.is_some() && !own {
                    return Reply::Refused {
                        left: Some(TTL),
                        holder: None,
                        place: None,
                        subscribers: 1,
                        shared: false,
                    };
                }
                node.key = key;
                node.count = candidate.max(node.count + 1);
                granted(node.count)
            }
            Op::Confirm { fence, .. } => match own {
                false => Reply::NotMine,
                true if node.count >= fence => Reply::Greater { fence: node.count },
                true => {
                    node.key = key;
                    node.count = fence;
                    Reply::Confirmed
                }
            },
            Op::Extend { fence, .. } => {
                if stands.is_some() && !own {
                    return Reply::NotMine;
                }
                node.key = key;
                node.count = node.count.max(fence);
                Reply::Extended { repaired: !own }
            }
            _ => unreachable!("nothing else is asked"),
        }
    }

    /// An answer comes to its claim.
    fn hear(&mut self, model: &Small, asked: &Asked, reply: &Reply) {
        let (claim, ticket) = (asked.claim, asked.ticket);
        // A lease that is over counts nothing any more.
        if self.claims[claim].phase() == Phase::Asking || self.is_valid(model, claim) {
            self.votes[claim][ticket.node].take(&ticket, reply, DRIFT);
        }
        self.act(model, claim, Event::Replied { ticket, reply });
    }

    /// Whether a lease is valid.
    fn is_valid(&self, model: &Small, claim: usize) -> bool {
        let claim = &self.claims[claim];
        claim.phase() == Phase::Held && self.now(model) < claim.end()
    }

    /// Nothing stands of a dead token, and nothing comes of it, but what its release will take away.
    fn is_undone(&self, model: &Small, claim: usize) -> bool {
        let released = |node: usize| self.releases.contains(&(claim, node));
        let now = self.now(model);
        let asks = |asked: &&Asked| asked.claim == claim;
        let stands = |node: &Server| {
            node.key
                .is_some_and(|(whose, end)| whose == claim && now <= end)
        };
        let mut asked = self.asked.iter().filter(asks);
        asked.all(|asked| released(asked.ticket.node))
            && (0..self.nodes.len()).all(|node| released(node) || !stands(&self.nodes[node]))
    }
}

impl Model for Small {
    type State = All;
    type Action = Step;

    fn init_states(&self) -> Vec<All> {
        let claim = |i: usize| {
            let digits = [b'0' + i as u8; 40];
            let beginning = ClaimInit {
                value: Value([&digits[..], b"."].concat().into()),
                drawn: self.worlds[i].drawn[0],
                block: 1,
                waits: false,
                queued: None,
                renew_every: TTL / 3,
                nodes: self.nodes,
            };
            Claim::new(beginning, NOW, &self.worlds[i])
        };
        vec![All {
            claims: [claim(0), claim(1)],
            begun: [false; CLAIMS],
            votes: std::array::from_fn(|_| vec![Default::default(); self.nodes]),
            over: [0; CLAIMS],
            floor: [0; CLAIMS],
            won: 0,
            haunts: false,
            nodes: vec![Server::default(); self.nodes],
            asked: Vec::new(),
            late: Vec::new(),
            releases: Vec::new(),
            moment: 0,
            losses: 0,
            forgotten: false,
        }]
    }

    fn actions(&self, state: &All, steps: &mut Vec<Step>) {
        for claim in 0..CLAIMS {
            if !state.begun[claim] {
                steps.push(Step::Begins(claim));
                continue;
            }
            if state.claims[claim].phase() == Phase::Held {
                steps.extend([Step::Looks(claim), Step::GivesUp(claim)]);
            }
            let due = state.claims[claim].home_due();
            if due.is_some_and(|due| due <= state.now(self)) {
                steps.push(Step::HomeIsDue(claim));
            }
        }
        // A connection keeps the order: the first request of a token goes first, its release last.
        let same = |claim: usize, node: usize| {
            move |asked: &&Asked| (asked.claim, asked.ticket.node) == (claim, node)
        };
        for asked in &state.asked {
            let node = asked.ticket.node;
            if state.asked.iter().find(same(asked.claim, node)) != Some(asked) {
                continue;
            }
            let before = state.late.iter().map(|(asked, _)| asked);
            if before.clone().any(|late| same(asked.claim, node)(&late)) {
                continue;
            }
            steps.push(Step::Answered(asked.clone()));
            if state.late.len() < self.late {
                steps.push(Step::AnsweredLate(asked.clone()));
            }
            if state.losses < self.losses {
                steps.push(Step::Lost(asked.clone()));
            }
        }
        steps.extend((0..state.late.len()).map(Step::Comes));
        for (claim, node) in state.releases.iter().copied() {
            if !state.asked.iter().any(|asked| same(claim, node)(&asked)) {
                steps.push(Step::Released(claim, node));
            }
        }
        if self.forgets && !state.forgotten {
            steps.extend((0..self.nodes).map(Step::Forgets));
        }
        if state.moment + 1 < self.moments.len() {
            steps.push(Step::TimeGoesOn);
        }
    }

    fn next_state(&self, last: &All, step: Step) -> Option<All> {
        let mut all = last.clone();
        let take = |all: &mut All, asked: &Asked| {
            let place = all.asked.iter().position(|other| other == asked);
            place.map(|place| all.asked.remove(place))
        };
        match step {
            Step::Begins(claim) => {
                (all.begun[claim], all.floor[claim]) = (true, all.won);
                let event = Event::Begins {
                    path: Path::Plain,
                    nodes: Nodes::all(self.nodes),
                    homes: Nodes::NONE,
                };
                all.act(self, claim, event);
            }
            Step::Looks(claim) => all.act(self, claim, Event::Tick),
            Step::HomeIsDue(claim) => all.act(self, claim, Event::HomeDue),
            Step::GivesUp(claim) => all.act(self, claim, Event::Released { stay: None }),
            Step::TimeGoesOn => all.moment += 1,
            Step::Forgets(node) => {
                (all.nodes[node].key, all.forgotten) = (None, true);
                if self.forgets_fences {
                    all.nodes[node].count = 0;
                }
            }
            Step::Answered(asked) => {
                take(&mut all, &asked)?;
                let reply = all.serve(self, &asked);
                all.hear(self, &asked, &reply);
            }
            Step::AnsweredLate(asked) => {
                take(&mut all, &asked)?;
                let reply = all.serve(self, &asked);
                all.late.push((asked, reply));
            }
            Step::Lost(asked) => {
                take(&mut all, &asked)?;
                all.serve(self, &asked);
                all.losses += 1;
                let fault = Fault::new(FaultKind::Timeout, "no answer", true);
                all.hear(self, &asked, &Reply::Failed(fault));
            }
            Step::Comes(place) => {
                let (asked, reply) = all.late.remove(place);
                all.hear(self, &asked, &reply);
            }
            Step::Released(claim, node) => {
                all.releases.retain(|release| *release != (claim, node));
                let key = &mut all.nodes[node].key;
                *key = key.filter(|(whose, _)| *whose != claim);
            }
        }
        // What changed nothing is no step.
        (all != *last).then_some(all)
    }

    fn properties(&self) -> Vec<Property<Small>> {
        vec![
            Property::always("exclusion", |model: &Small, all: &All| {
                !(all.is_valid(model, 0) && all.is_valid(model, 1))
            }),
            Property::always("order of fences", |_, all: &All| {
                (0..CLAIMS)
                    .all(|i| !all.claims[i].is_won() || all.claims[i].last_fence() > all.floor[i])
            }),
            Property::always("a lease is as long as its votes say", |_, all: &All| {
                let held = |i: &usize| all.claims[*i].phase() == Phase::Held;
                let same = |i: usize| all.claims[i].end().0 == lease_end(&all.votes[i]);
                (0..CLAIMS).filter(held).all(same)
            }),
            Property::always("the end of a lease is told once", |_, all: &All| {
                let ended = |i: usize| all.claims[i].phase() == Phase::Dead;
                (0..CLAIMS).all(|i| all.over[i] <= u8::from(ended(i)))
            }),
            Property::always(
                "what is asked for is released",
                |model: &Small, all: &All| {
                    let dead = |i: &usize| all.claims[*i].phase() == Phase::Dead;
                    (0..CLAIMS).filter(dead).all(|i| all.is_undone(model, i))
                },
            ),
            Property::always("a dead token asks for nothing", |_, all: &All| !all.haunts),
            Property::sometimes("one is won after the other", |model: &Small, all: &All| {
                all.is_valid(model, 1) && all.floor[1] > 0
            }),
            Property::sometimes("a fence is written back", |_, all: &All| {
                all.claims[1].is_won() && all.claims[1].last_fence() > 8
            }),
        ]
    }
}

/// The first proposes the larger fence, as a client whose clocks are ahead.
fn small(nodes: usize, moments: &'static [u64]) -> Small {
    let world = |fence| {
        let mut world = World::new(TTL, true);
        world.drawn = [fence; 2];
        // By hand where a model is about it.
        world.terms.asked.renew = false;
        world
    };
    Small {
        worlds: [world(8), world(7)],
        nodes,
        moments,
        late: 0,
        losses: 0,
        forgets: false,
        forgets_fences: false,
    }
}

#[test]
#[ignore = "`make prove` runs it"]
fn two_claims_exclude_each_other() {
    let delayed = Small {
        late: 1,
        losses: 1,
        ..small(2, &[0, 1_001])
    };
    explore("two claims, two nodes", delayed, 120_000);
    explore("two claims, three nodes", small(3, &[0]), 40_000);
    let mut renewed = small(2, &[0, 400, 1_001]);
    renewed.worlds[0].terms.asked.renew = true;
    explore("two claims, one renewed", renewed, 90_000);
}

#[test]
fn a_node_that_forgets_breaks_what_is_promised() {
    let model = Small {
        forgets: true,
        ..small(3, &[0])
    };
    breaks(model, "exclusion");
    let model = Small {
        forgets: true,
        forgets_fences: true,
        ..small(1, &[0])
    };
    breaks(model, "order of fences");
}
