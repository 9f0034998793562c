//! Two claims, a few nodes and a few moments, and everything that may happen between them: `stateright` goes through all of it.
//!
//! The claims are the code that ships. The nodes, the network and the book of votes are a few lines here, written from
//! docs/reference/protocol.md: a node gives its vote where the lock is free, or its own; the network delays and loses; a vote counts
//! from when it was asked for.

use stateright::util::HashableHashSet;
use stateright::{Checker, Model, Property};

use super::*;

/// From one moment to the next.
const UNIT: Duration = Duration::from_millis(400);
const CLAIMS: usize = 2;

/// What is looked at.
#[derive(Clone)]
struct Small {
    worlds: [World; CLAIMS],
    nodes: usize,
    /// So many moments.
    moments: u64,
    /// So many answers are lost.
    losses: u8,
    /// A node may lose its keys, and give its vote again: what a guard is for.
    forgets: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Message {
    Ask {
        claim: usize,
        ticket: RequestContext,
        native: bool,
    },
    Answer {
        claim: usize,
        ticket: RequestContext,
        reply: Reply,
    },
    Release {
        claim: usize,
        node: usize,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    /// Whose vote stands, and until when.
    key: Option<(usize, Instant)>,
    /// The last fence.
    count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Everything {
    claims: [Claim; CLAIMS],
    begun: [bool; CLAIMS],
    /// The book: until when each vote counts.
    ends: [Vec<Instant>; CLAIMS],
    /// How often the end of the lease was told.
    over: [u8; CLAIMS],
    /// The largest fence that had been won when the claim was begun.
    floor: [u64; CLAIMS],
    won: u64,
    /// A claim has sent something after its death.
    haunts: bool,
    nodes: Vec<Node>,
    net: HashableHashSet<Message>,
    now: Instant,
    losses: u8,
    forgotten: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Begins(usize),
    Delivers(Message),
    Loses(Message),
    Looks(usize),
    HomeIsDue(usize),
    Releases(usize),
    Forgets(usize),
    TimeGoesOn,
}

impl Everything {
    /// Has a claim take an event, and does what follows.
    fn act(&mut self, model: &Small, claim: usize, event: Event<'_>) {
        let was = self.claims[claim].phase();
        let world = &model.worlds[claim];
        let effects = self.claims[claim].step(event, self.now, world);
        let dead = was == Phase::Dead;
        self.haunts |= dead && !effects.asks.is_empty();
        for ask in &effects.asks {
            let ticket = RequestContext {
                node: ask.node,
                sent: self.now,
                deadline: ask.deadline,
                op: ask.op,
                server: 1,
            };
            self.net.insert(Message::Ask {
                claim,
                ticket,
                native: ask.native,
            });
        }
        for plan in effects.release.iter() {
            for left in plan.nodes.iter().filter(|left| left.token) {
                let node = left.node.into();
                self.net.insert(Message::Release { claim, node });
            }
        }
        self.over[claim] += u8::from(effects.over.is_some());
        if self.claims[claim].is_won() {
            self.won = self.won.max(self.claims[claim].last_fence());
        }
    }

    /// A node carries a request out.
    fn serve(&mut self, claim: usize, ticket: &RequestContext, native: bool) -> Reply {
        let node = &mut self.nodes[ticket.node];
        let stands = node.key.filter(|(_, end)| self.now <= *end);
        let own = stands.is_some_and(|(whose, _)| whose == claim);
        let end = self.now + TTL;
        match ticket.op {
            Op::Acquire { candidate, .. } if native => {
                let counted = candidate > node.count;
                node.count = node.count.max(candidate);
                if stands.is_some() {
                    return Reply::Taken;
                }
                node.key = Some((claim, end));
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
                node.key = Some((claim, end));
                node.count = candidate.max(node.count + 1);
                granted(node.count)
            }
            Op::Confirm { fence, .. } => match own {
                false => Reply::NotMine,
                true if node.count >= fence => Reply::Greater { fence: node.count },
                true => {
                    node.key = Some((claim, end));
                    node.count = fence;
                    Reply::Confirmed
                }
            },
            Op::Extend { fence, .. } => {
                if stands.is_some() && !own {
                    return Reply::NotMine;
                }
                node.key = Some((claim, end));
                node.count = node.count.max(fence);
                Reply::Extended { repaired: !own }
            }
            _ => unreachable!("nothing else is asked"),
        }
    }

    /// Whether a lease is valid.
    fn is_valid(&self, claim: usize) -> bool {
        self.claims[claim].phase() == Phase::Held && self.now < self.claims[claim].end()
    }

    /// The end of the lease, by the book: the quorum-th largest of its votes' ends.
    fn book(&self, claim: usize) -> Instant {
        let mut ends = self.ends[claim].clone();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        ends[ends.len() / 2]
    }

    /// Nothing stands of a dead token, and nothing comes of it, but what its release will take away.
    fn is_undone(&self, claim: usize) -> bool {
        let released = |node: usize| self.net.contains(&Message::Release { claim, node });
        let asked = |message: &Message| match message {
            Message::Ask {
                claim: whose,
                ticket,
                ..
            } if *whose == claim => released(ticket.node),
            _ => true,
        };
        let stands = |node: &Node| node.key.filter(|(_, end)| self.now <= *end);
        let keys = self.nodes.iter().enumerate();
        self.net.iter().all(asked)
            && keys
                .filter(|(_, node)| stands(node).is_some_and(|(whose, _)| whose == claim))
                .all(|(place, _)| released(place))
    }
}

impl Model for Small {
    type State = Everything;
    type Action = Step;

    fn init_states(&self) -> Vec<Everything> {
        let claim = |i: usize| {
            let digits = [b'0' + i as u8; 40];
            let beginning = ClaimInit {
                value: Value([&digits[..], b"."].concat().into()),
                drawn: 0,
                block: 1,
                waits: false,
                queued: None,
                renew_every: TTL / 3,
                nodes: self.nodes,
            };
            Claim::new(beginning, NOW, &self.worlds[i])
        };
        vec![Everything {
            claims: [claim(0), claim(1)],
            begun: [false; CLAIMS],
            ends: std::array::from_fn(|_| vec![Instant::NEVER; self.nodes]),
            over: [0; CLAIMS],
            floor: [0; CLAIMS],
            won: 0,
            haunts: false,
            nodes: vec![Node::default(); self.nodes],
            net: HashableHashSet::new(),
            now: NOW,
            losses: 0,
            forgotten: false,
        }]
    }

    fn actions(&self, state: &Everything, steps: &mut Vec<Step>) {
        for claim in 0..CLAIMS {
            if !state.begun[claim] {
                steps.push(Step::Begins(claim));
                continue;
            }
            if state.claims[claim].phase() == Phase::Held {
                steps.extend([Step::Looks(claim), Step::Releases(claim)]);
            }
            let due = state.claims[claim].home_due();
            if due.is_some_and(|due| due <= state.now) {
                steps.push(Step::HomeIsDue(claim));
            }
        }
        for message in &state.net {
            // A release stands behind the request that it undoes.
            let behind = |claim: usize, node: usize| {
                state.net.iter().any(|other| {
                    matches!(other, Message::Ask { claim: whose, ticket, .. }
                        if (*whose, ticket.node) == (claim, node))
                })
            };
            match message {
                Message::Release { claim, node } if behind(*claim, *node) => {}
                Message::Answer { .. } => {
                    steps.push(Step::Delivers(message.clone()));
                    if state.losses < self.losses {
                        steps.push(Step::Loses(message.clone()));
                    }
                }
                _ => steps.push(Step::Delivers(message.clone())),
            }
        }
        if self.forgets && !state.forgotten {
            steps.extend((0..self.nodes).map(Step::Forgets));
        }
        if state.now < NOW + UNIT * self.moments as u32 {
            steps.push(Step::TimeGoesOn);
        }
    }

    fn next_state(&self, last: &Everything, step: Step) -> Option<Everything> {
        let mut state = last.clone();
        match step {
            Step::Begins(claim) => {
                (state.begun[claim], state.floor[claim]) = (true, state.won);
                let event = Event::Begins {
                    path: Path::Plain,
                    nodes: Nodes::all(self.nodes),
                    homes: Nodes::NONE,
                };
                state.act(self, claim, event);
            }
            Step::Looks(claim) => state.act(self, claim, Event::Tick),
            Step::HomeIsDue(claim) => state.act(self, claim, Event::HomeDue),
            Step::Releases(claim) => state.act(self, claim, Event::Released { stay: None }),
            Step::Forgets(node) => (state.nodes[node].key, state.forgotten) = (None, true),
            Step::TimeGoesOn => state.now = state.now + UNIT,
            Step::Loses(message) => {
                state.net.remove(&message);
                state.losses += 1;
                if let Message::Answer { claim, ticket, .. } = message {
                    let fault = Fault::new(FaultKind::Timeout, "no answer", true);
                    let reply = &Reply::Failed(fault);
                    state.act(self, claim, Event::Replied { ticket, reply });
                }
            }
            Step::Delivers(message) => {
                state.net.remove(&message);
                match message {
                    Message::Ask {
                        claim,
                        ticket,
                        native,
                    } => {
                        let reply = state.serve(claim, &ticket, native);
                        state.net.insert(Message::Answer {
                            claim,
                            ticket,
                            reply,
                        });
                    }
                    Message::Release { claim, node } => {
                        let key = &mut state.nodes[node].key;
                        *key = key.filter(|(whose, _)| *whose != claim);
                    }
                    Message::Answer {
                        claim,
                        ticket,
                        reply,
                    } => {
                        // A lease that is over counts nothing any more.
                        let held = state.claims[claim].phase() == Phase::Held;
                        if !held || state.is_valid(claim) {
                            let end = &mut state.ends[claim][ticket.node];
                            *end = match reply {
                                Reply::Granted { .. }
                                | Reply::Extended { .. }
                                | Reply::Confirmed => {
                                    let counted = TTL - Duration::from_millis(12);
                                    (ticket.sent + counted).max(*end)
                                }
                                Reply::Greater { .. } => *end,
                                _ => Instant::NEVER,
                            };
                        }
                        let event = Event::Replied {
                            ticket,
                            reply: &reply,
                        };
                        state.act(self, claim, event);
                    }
                }
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Small>> {
        vec![
            Property::always("exclusion", |_, s: &Everything| {
                !(s.is_valid(0) && s.is_valid(1))
            }),
            Property::always("order of fences", |_, s: &Everything| {
                let beyond =
                    |i: usize| !s.claims[i].is_won() || s.claims[i].last_fence() > s.floor[i];
                beyond(0) && beyond(1)
            }),
            Property::always(
                "a lease is as long as its votes say",
                |_, s: &Everything| {
                    let honest = |i: usize| {
                        s.claims[i].phase() != Phase::Held || s.claims[i].end() == s.book(i)
                    };
                    honest(0) && honest(1)
                },
            ),
            Property::always("the end of a lease is told once", |_, s: &Everything| {
                let told = |i: usize| {
                    let over = s.claims[i].phase() == Phase::Dead;
                    s.over[i] <= 1 && (s.over[i] == 0 || over)
                };
                told(0) && told(1)
            }),
            Property::always("what is asked for is released", |_, s: &Everything| {
                let undone = |i: usize| s.claims[i].phase() != Phase::Dead || s.is_undone(i);
                undone(0) && undone(1)
            }),
            Property::always("a dead token asks for nothing", |_, s: &Everything| {
                !s.haunts
            }),
            Property::sometimes("one is won after the other", |_, s: &Everything| {
                s.claims[0].is_won() && s.is_valid(1) && s.floor[1] > 0
            }),
            Property::sometimes("one is lost", |_, s: &Everything| {
                s.claims[0].loss().is_some()
            }),
            Property::sometimes("a fence is written back", |_, s: &Everything| {
                s.claims[1].is_won() && s.claims[1].last_fence() > 8
            }),
        ]
    }
}

fn small(nodes: usize, moments: u64, losses: u8, forgets: bool) -> Small {
    let world = |fence| {
        let mut world = world();
        world.fence = fence;
        world
    };
    Small {
        worlds: [world(8), world(7)],
        nodes,
        moments,
        losses,
        forgets,
    }
}

#[test]
fn all_that_may_become_of_two_claims_keeps_the_promises() {
    for (nodes, moments, losses, floor) in [(2, 3, 1, 10_000), (3, 1, 0, 10_000)] {
        let checker = small(nodes, moments, losses, false).checker();
        let done = checker.threads(1).spawn_bfs().join();
        let found = done.discoveries();
        let broken: Vec<_> = found
            .iter()
            .filter(|(name, _)| !name.contains("one is") && !name.contains("written back"))
            .map(|(name, path)| format!("{name}: {:?}", path.clone().into_actions()))
            .collect();
        assert!(broken.is_empty(), "{broken:#?}");
        assert!(found.contains_key("one is won after the other"));
        assert!(
            done.unique_state_count() > floor,
            "{}",
            done.unique_state_count()
        );
    }
}

#[test]
fn a_node_that_forgets_breaks_exclusion() {
    let checker = small(2, 1, 0, true).checker();
    let done = checker.threads(1).spawn_bfs().join();
    assert!(done.discovery("exclusion").is_some());
}
