//! Contenders for one lock, over three nodes: one goes on, and the others wait where it is served.

use stateright::{Model, Property};

use super::{breaks, explore};
use crate::protocol::claim::home::{self, NextStep, NodeState};

const NODES: usize = 3;
const QUORUM: usize = 2;
const REFUSED: NodeState = NodeState::Refused {
    left: None,
    line: None,
};

struct Contention {
    contenders: usize,
    /// So many nodes are down, from the beginning or in between.
    down: usize,
    /// A contender that the home has refused keeps its votes, and asks again: what is wrong.
    stubborn: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct All {
    /// The nodes in the order in which they are home.
    order: [usize; NODES],
    /// Whose vote each node has given.
    holders: [Option<usize>; NODES],
    down: [bool; NODES],
    /// What each node has said to each contender: see [`letter`].
    said: Vec<[char; NODES]>,
    /// Where a contender waits.
    waits: Vec<Option<usize>>,
    /// Votes that were given back, and still stand: of whom, and where.
    given_back: Vec<(usize, usize)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Serves(usize, usize),
    GivesBack(usize, usize),
    GoesDown(usize),
}

/// A node's word, which is compared and hashed.
fn state(letter: char) -> NodeState {
    match letter {
        '?' => NodeState::Awaited,
        'g' => NodeState::Granted,
        'r' => REFUSED,
        _ => NodeState::Out,
    }
}

impl All {
    fn next(&self, contender: usize) -> NextStep {
        let states = self.said[contender].map(state);
        home::next(&self.order, &states)
    }

    fn votes(&self, contender: usize) -> usize {
        let mine = |holder: &&Option<usize>| **holder == Some(contender);
        self.holders.iter().filter(mine).count()
    }

    /// Whether the contender has the lock: a quorum has voted, and its home.
    fn has(&self, contender: usize) -> bool {
        let granted = self.said[contender].iter().filter(|said| **said == 'g');
        self.waits[contender].is_none() && granted.count() >= QUORUM && {
            let said = |node: &&usize| self.said[contender][**node] != 'o';
            let home = self.order.iter().find(said);
            home.is_some_and(|home| self.said[contender][*home] == 'g')
        }
    }

    /// Whether the node would answer otherwise than it has.
    fn is_news(&self, contender: usize, node: usize) -> bool {
        let free = self.holders[node].is_none_or(|holder| holder == contender);
        match self.said[contender][node] {
            '?' => true,
            'r' => free || self.down[node],
            'o' => !self.down[node],
            _ => false,
        }
    }
}

impl Model for Contention {
    type State = All;
    type Action = Step;

    fn init_states(&self) -> Vec<All> {
        // The nodes have no other order than this.
        let begun = All {
            order: [0, 1, 2],
            holders: [None; NODES],
            down: [false; NODES],
            said: vec![['?'; NODES]; self.contenders],
            waits: vec![None; self.contenders],
            given_back: Vec::new(),
        };
        vec![begun]
    }

    fn actions(&self, state: &All, steps: &mut Vec<Step>) {
        for contender in 0..self.contenders {
            if state.waits[contender].is_some() || state.has(contender) {
                continue;
            }
            // All are asked at once; the home's winner asks those again that have refused.
            let again = match state.next(contender) {
                NextStep::Retry(nodes) => nodes.iter().collect(),
                NextStep::Yield(_) if self.stubborn => (0..NODES).collect(),
                _ => Vec::new(),
            };
            for node in 0..NODES {
                let asked = state.said[contender][node] == '?' || again.contains(&node);
                if asked && state.is_news(contender, node) {
                    steps.push(Step::Serves(contender, node));
                }
            }
        }
        let back = state.given_back.iter();
        steps.extend(back.map(|(contender, node)| Step::GivesBack(*contender, *node)));
        if state.down.iter().filter(|down| **down).count() < self.down {
            let up = (0..NODES).filter(|node| !state.down[*node]);
            steps.extend(up.map(Step::GoesDown));
        }
    }

    fn next_state(&self, last: &All, step: Step) -> Option<All> {
        let mut all = last.clone();
        match step {
            Step::GoesDown(node) => all.down[node] = true,
            Step::GivesBack(contender, node) => {
                all.given_back.retain(|vote| *vote != (contender, node));
                if !all.down[node] && all.holders[node] == Some(contender) {
                    all.holders[node] = None;
                }
            }
            Step::Serves(contender, node) => {
                let holder = &mut all.holders[node];
                all.said[contender][node] = if all.down[node] {
                    'o'
                } else if *holder.get_or_insert(contender) == contender {
                    'g'
                } else {
                    'r'
                };
                if let NextStep::Yield(home) = all.next(contender)
                    && !self.stubborn
                {
                    all.waits[contender] = Some(home);
                    let back = (0..NODES).map(|node| (contender, node));
                    // What is asked for yet is undone behind it.
                    all.given_back.extend(back);
                    all.given_back.sort_unstable();
                }
            }
        }
        Some(all)
    }

    fn properties(&self) -> Vec<Property<Contention>> {
        vec![
            Property::always("two never have it", |model: &Contention, all: &All| {
                (0..model.contenders).filter(|c| all.has(*c)).count() <= 1
            }),
            Property::always("one goes on in the end", |model: &Contention, all: &All| {
                let mut steps = Vec::new();
                model.actions(all, &mut steps);
                let up = all.down.iter().filter(|down| !**down).count();
                let having = (0..model.contenders).filter(|c| all.has(*c)).count();
                !steps.is_empty() || having == 1 || up < QUORUM
            }),
            Property::always(
                "waiters stand where the holder was let in",
                |model: &Contention, all: &All| {
                    let home = |contender: usize| {
                        let said = |node: &&usize| all.said[contender][**node] != 'o';
                        all.order.iter().copied().find(|node| said(&node))
                    };
                    let mut waits = (0..model.contenders).filter_map(|c| all.waits[c]);
                    model.down > 0
                        || (0..model.contenders)
                            .filter(|c| all.has(*c))
                            .all(|c| waits.all(|at| Some(at) == home(c) && all.votes(c) >= QUORUM))
                },
            ),
            Property::sometimes("all others wait", |model: &Contention, all: &All| {
                let waiting = all.waits.iter().flatten().count();
                waiting + 1 == model.contenders && (0..model.contenders).any(|c| all.has(c))
            }),
        ]
    }
}

fn contention(contenders: usize, down: usize) -> Contention {
    Contention {
        contenders,
        down,
        stubborn: false,
    }
}

#[test]
#[ignore = "`make prove` runs it"]
fn of_contenders_one_goes_on() {
    explore("two contenders", contention(2, 0), 500);
    explore(
        "two contenders, and a node that goes down",
        contention(2, 1),
        3_500,
    );
    explore("three contenders", contention(3, 0), 60_000);
}

#[test]
fn contenders_that_keep_their_votes_wait_for_each_other() {
    let model = Contention {
        stubborn: true,
        ..contention(3, 0)
    };
    breaks(model, "one goes on in the end");
}

/// The home's word is known from the order alone, which is that of all clients, whatever their lists.
#[test]
fn all_clients_have_one_order() {
    let ids = [3_u64, 5, 9];
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for key in 0..=u8::MAX {
        let named = |list: [usize; 3]| {
            let order = home::order(&[key], list.into_iter().map(|place| ids[place]));
            order
                .into_iter()
                .map(|place| list[place])
                .collect::<Vec<_>>()
        };
        assert!(
            orders
                .into_iter()
                .all(|list| named(list) == named(orders[0]))
        );
    }
}
