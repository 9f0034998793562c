//! The parts of a schedule, each of which can be taken away.
//!
//! A part has a name that a person can write: `WITHOUT=user:2,fault:3`. What is
//! taken away is drawn all the same and then left out, so that the rest stays
//! what it was.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::plan::Plan;
use crate::world::Network;

/// A part of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A user, with all that it does.
    User(usize),
    /// A node, and all nodes behind it.
    Node(usize),
    /// One of a user's rounds; those of the calm tail come last.
    Round(usize, u64),
    /// One of the deeds of the program that a user runs in a round.
    Deed(usize, u64, u64),
    /// What goes wrong, by the order in which it was planned: at the beginning,
    /// and for the calm tail.
    Fault(u64),
    /// What goes wrong because of what a user does in a round.
    FaultOf(usize, u64, u64),
    /// A way in which the network treats messages.
    Net(&'static str),
    /// Something that the schedule's users have chosen, or that is odd about
    /// their set.
    Setting(&'static str),
    /// What everybody draws while it is played: in its place they draw something
    /// else, of which there is one for each number.
    Draws(u64),
}

/// The ways of the network, and what each is in a plan.
type Net = (&'static str, fn(&mut Network) -> &mut u64);

const NETS: [Net; 6] = [
    ("slow", |n| &mut n.slow),
    ("cut", |n| &mut n.cut),
    ("edge", |n| &mut n.edge),
    ("twice", |n| &mut n.twice),
    ("refuse", |n| &mut n.refuse),
    ("deaf", |n| &mut n.deaf),
];

/// Settings: whether a plan has it, and the plan without.
type Setting = (&'static str, fn(&Plan) -> bool, fn(&mut Plan));

const SETTINGS: [Setting; 15] = [
    ("programs", |p| p.programs.is_some(), |p| p.programs = None),
    ("habits", |p| !p.habits.is_empty(), |p| p.habits.clear()),
    ("mute", |p| p.mute > 0, |p| p.mute = 0),
    ("stray", |p| p.stray.is_some(), |p| p.stray = None),
    (
        "listed-twice",
        |p| p.listed_twice.is_some(),
        |p| p.listed_twice = None,
    ),
    ("owned", |p| p.owned, |p| p.owned = false),
    ("keep", |p| !p.keep.is_zero(), |p| p.keep = Duration::ZERO),
    ("capped", |p| p.capped > 0, |p| p.capped = 0),
    ("elects", |p| p.elects, |p| p.elects = false),
    ("several", |p| p.several, |p| p.several = false),
    ("locks", |p| p.locks > 1, |p| p.locks = 1),
    ("gone", |p| p.swarm.gone, |p| p.swarm.gone = false),
    ("rates", |p| p.swarm.rates, |p| p.swarm.rates = false),
    (
        "renew",
        |p| p.renew,
        |p| {
            p.renew = false;
            p.habits.iter_mut().for_each(|habit| habit.renew = false);
        },
    ),
    (
        "fences",
        |p| p.fence_ttl.is_some(),
        |p| {
            p.fence_ttl = None;
            p.habits.iter_mut().for_each(|habit| habit.fences = false);
        },
    ),
];

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::User(user) => write!(f, "user:{user}"),
            Part::Node(node) => write!(f, "node:{node}"),
            Part::Round(user, round) => write!(f, "round:{user}.{round}"),
            Part::Deed(user, round, number) => write!(f, "deed:{user}.{round}.{number}"),
            Part::Fault(number) => write!(f, "fault:{number}"),
            Part::FaultOf(user, round, number) => write!(f, "fault:{user}.{round}.{number}"),
            Part::Net(name) => write!(f, "net:{name}"),
            Part::Setting(name) => write!(f, "setting:{name}"),
            Part::Draws(other) => write!(f, "draws:{other}"),
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(word: &str) -> Result<Part, String> {
        let unknown = || {
            format!(
                "{word:?} is no part of a schedule; parts are user:2, node:4, round:2.0, \
                 deed:2.0.1, fault:3, fault:2.0.1, net:slow, setting:habits, draws:7"
            )
        };
        let (kind, name) = word.split_once(':').ok_or_else(unknown)?;
        let numbers: Option<Vec<u64>> = name.split('.').map(|n| n.parse().ok()).collect();
        let named = |names: &[&'static str]| names.iter().find(|n| **n == name).copied();
        let part = match (kind, numbers.as_deref()) {
            ("user", Some([user])) => Some(Part::User(*user as usize)),
            ("node", Some([node])) => Some(Part::Node(*node as usize)),
            ("round", Some([user, round])) => Some(Part::Round(*user as usize, *round)),
            ("fault", Some([number])) => Some(Part::Fault(*number)),
            ("fault", Some([user, round, number])) => {
                Some(Part::FaultOf(*user as usize, *round, *number))
            }
            ("deed", Some([user, round, number])) => {
                Some(Part::Deed(*user as usize, *round, *number))
            }
            ("draws", Some([other])) => Some(Part::Draws(*other)),
            ("net", _) => named(&NETS.map(|net| net.0)).map(Part::Net),
            ("setting", _) => named(&SETTINGS.map(|setting| setting.0)).map(Part::Setting),
            _ => None,
        };
        part.ok_or_else(unknown)
    }
}

/// What is taken away from a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Without(pub BTreeSet<Part>);

impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(Part::to_string).collect();
        f.write_str(&words.join(","))
    }
}

impl FromStr for Without {
    type Err = String;

    fn from_str(words: &str) -> Result<Without, String> {
        let words = words.split(',').filter(|word| !word.is_empty());
        words.map(str::parse).collect::<Result<_, _>>().map(Without)
    }
}

impl Without {
    /// Whether this is taken away.
    pub fn has(&self, part: &Part) -> bool {
        self.0.contains(part)
    }

    /// What everybody draws in place of what was drawn, if that is away.
    pub fn draws(&self) -> Option<u64> {
        self.0.iter().find_map(|part| match part {
            Part::Draws(other) => Some(*other),
            _ => None,
        })
    }

    /// The same, with these draws.
    pub fn with_draws(&self, other: u64) -> Without {
        let mut redrawn = self.clone();
        redrawn.0.retain(|part| !matches!(part, Part::Draws(_)));
        redrawn.0.insert(Part::Draws(other));
        redrawn
    }

    /// The same, and these.
    pub fn and<'a>(&self, parts: impl IntoIterator<Item = &'a Part>) -> Without {
        let mut more = self.clone();
        more.0.extend(parts.into_iter().cloned());
        more
    }

    /// How many nodes are left of this many; at least one is. Scenes keep theirs: it
    /// is fixed what each of them is for.
    pub fn nodes(&self, plan: &Plan) -> usize {
        let gone = self.0.iter().filter_map(|part| match part {
            Part::Node(node) if plan.scene.is_none() => Some(*node),
            _ => None,
        });
        gone.min().map_or(plan.nodes, |n| n.clamp(1, plan.nodes))
    }

    /// The plan that is left of one.
    pub fn left_of(&self, plan: &Plan) -> Plan {
        let mut left = plan.clone();
        left.nodes = self.nodes(plan);
        for (name, ways) in NETS {
            if self.has(&Part::Net(name)) {
                *ways(&mut left.network) = 0;
            }
        }
        for (name, _, remove) in SETTINGS {
            if self.has(&Part::Setting(name)) {
                remove(&mut left);
            }
        }
        let listed = |(place, other): &(usize, usize)| *place.max(other) < left.nodes;
        left.listed_twice = left.listed_twice.filter(listed);
        left
    }
}

/// What a plan has that can be taken away, but for what comes about as it is
/// played.
pub fn parts_of(plan: &Plan) -> [Vec<Part>; 4] {
    let users = (0..plan.clients * plan.workers).map(Part::User);
    let nodes = match plan.scene {
        None => (1..plan.nodes).map(Part::Node).collect(),
        Some(_) => Vec::new(),
    };
    let mut network = plan.network;
    let nets = NETS.iter().filter(|(_, ways)| *ways(&mut network) > 0);
    let nets = nets.map(|(name, _)| Part::Net(name)).collect();
    let settings = SETTINGS.iter().filter(|(_, has, _)| has(plan));
    let settings = settings.map(|(name, ..)| Part::Setting(name)).collect();
    [users.collect(), nodes, nets, settings]
}
