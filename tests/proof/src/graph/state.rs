//! The states of docs/proof/tla/Votes.tla, as far as its smallest models go: one lock, and all times as what is left of them.

use std::collections::{BTreeMap, BTreeSet};

use super::value::Value;

/// A model: what Votes.tla calls its constants, and leaves at what its smallest models have.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// So many nodes.
    pub nodes: usize,
    /// So many tokens.
    pub tokens: usize,
    /// In units.
    pub ttl: u64,
    /// See Votes.tla.
    pub late: u64,
    /// See Votes.tla.
    pub quarantine: u64,
    /// Fences are counted.
    pub fencing: bool,
    /// Nodes are asked by plain commands.
    pub natives: bool,
    /// No fence is written back beyond this one.
    pub max_fence: u64,
    /// How often each token asks a node, and renews.
    pub max_asks: u64,
    /// See [`Model::max_asks`].
    pub max_renews: u64,
    /// How often nodes forget.
    pub max_forgets: u64,
}

/// The model `smallest` of docs/proof/tla/models.toml.
pub const SMALLEST: Model = Model {
    nodes: 1,
    tokens: 2,
    ttl: 2,
    late: 1,
    quarantine: 2,
    fencing: true,
    natives: true,
    max_fence: 3,
    max_asks: 1,
    max_renews: 0,
    max_forgets: 0,
};

/// The model `restarts`.
pub const RESTARTS: Model = Model {
    fencing: false,
    natives: false,
    max_fence: 0,
    max_renews: 1,
    max_forgets: 1,
    ..SMALLEST
};

/// A node. Tokens and nodes have numbers from 1 on; 0 is none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    /// Whose vote stands, and for how long.
    pub key: (u64, u64),
    /// What is left of its quarantine.
    pub quar: u64,
    /// Its record.
    pub rec: u64,
    /// The last fence.
    pub count: u64,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token {
    /// How far it has come.
    pub phase: &'static str,
    /// What is left of each vote.
    pub vote: Vec<u64>,
    /// The mark of each.
    pub mark: Vec<u64>,
    /// How often each node was asked.
    pub asks: Vec<u64>,
    /// How many renewals were sent.
    pub renews: u64,
    /// Its fence, and the last of its block.
    pub fence: u64,
    /// See [`Token::fence`].
    pub last: u64,
    /// The largest fence that was won before its first vote.
    pub floor: u64,
    /// A vote was cast for it.
    pub cast: bool,
    /// Where its release may come.
    pub undo: BTreeSet<u64>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// Its kind.
    pub k: &'static str,
    /// Its token.
    pub t: u64,
    /// Its node.
    pub n: u64,
    /// What is left of its count.
    pub c: u64,
    /// And of the time in which the node does anything.
    pub a: u64,
    /// The record that it expects.
    pub r: u64,
    /// A fence.
    pub f: u64,
    /// A mode.
    pub m: u64,
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct State {
    /// The nodes.
    pub node: Vec<Node>,
    /// The tokens.
    pub token: Vec<Token>,
    /// The messages under way.
    pub net: BTreeSet<Message>,
    /// The largest fence that was won.
    pub top: u64,
    /// How often nodes have forgotten.
    pub forgets: u64,
}

impl State {
    /// The first one.
    pub fn first(model: &Model) -> State {
        let node = Node {
            key: (0, 0),
            quar: 0,
            rec: 1,
            count: 0,
        };
        let token = Token {
            phase: "new",
            vote: vec![0; model.nodes],
            mark: vec![0; model.nodes],
            asks: vec![0; model.nodes],
            renews: 0,
            fence: 0,
            last: 0,
            floor: 0,
            cast: false,
            undo: BTreeSet::new(),
        };
        State {
            node: vec![node; model.nodes],
            token: vec![token; model.tokens],
            net: BTreeSet::new(),
            top: 0,
            forgets: 0,
        }
    }

    /// As TLC writes it.
    pub fn value(&self) -> Value {
        let tokens = self.token.len();
        record([
            (
                "node",
                Value::Seq(self.node.iter().map(|n| n.value(tokens)).collect()),
            ),
            (
                "token",
                Value::Seq(self.token.iter().map(Token::value).collect()),
            ),
            (
                "net",
                Value::Set(self.net.iter().map(Message::value).collect()),
            ),
            ("top", int(self.top)),
            (
                "spent",
                record([
                    ("forgets", int(self.forgets)),
                    ("steps", int(0)),
                    ("gains", int(0)),
                    ("counters", int(0)),
                    ("repeats", int(0)),
                ]),
            ),
        ])
    }
}

fn int(number: u64) -> Value {
    Value::Int(number as i64)
}

fn truth(is: bool) -> Value {
    Value::Word(if is { "TRUE" } else { "FALSE" }.into())
}

fn ints(numbers: &[u64]) -> Value {
    Value::Seq(numbers.iter().map(|number| int(*number)).collect())
}

fn record<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields = fields.map(|(name, value)| (name.to_owned(), value));
    Value::Rec(BTreeMap::from(fields))
}

impl Node {
    fn value(&self, tokens: usize) -> Value {
        let key = record([
            ("t", int(self.key.0)),
            ("left", int(self.key.1)),
            ("kept", truth(false)),
        ]);
        record([
            ("key", key),
            ("quar", int(self.quar)),
            ("rec", int(self.rec)),
            ("count", int(self.count)),
            ("gain", int(0)),
            ("ban", ints(&vec![0; tokens])),
        ])
    }
}

impl Token {
    fn value(&self) -> Value {
        let set = |of: &BTreeSet<u64>| Value::Set(of.iter().map(|n| int(*n)).collect());
        record([
            ("phase", Value::Word(self.phase.into())),
            ("vote", ints(&self.vote)),
            ("mark", ints(&self.mark)),
            ("asks", ints(&self.asks)),
            ("renews", int(self.renews)),
            ("passes", int(0)),
            ("fence", int(self.fence)),
            ("last", int(self.last)),
            ("floor", int(self.floor)),
            ("cast", truth(self.cast)),
            ("undo", set(&self.undo)),
            ("kept", set(&BTreeSet::new())),
            ("keep", int(0)),
            ("from", int(0)),
            ("won", truth(false)),
            ("age", int(0)),
        ])
    }
}

impl Message {
    fn value(&self) -> Value {
        record([
            ("k", Value::Word(self.k.into())),
            ("t", int(self.t)),
            ("n", int(self.n)),
            ("c", int(self.c)),
            ("a", int(self.a)),
            ("r", int(self.r)),
            ("f", int(self.f)),
            ("m", int(self.m)),
            ("x", int(0)),
        ])
    }
}
