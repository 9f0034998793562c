//! Values as TLC writes them, and the state graph that it dumps (`-dump dot,actionlabels`).

use std::collections::{BTreeMap, BTreeSet};

/// A value of TLA+.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// A number.
    Int(i64),
    /// A word or a string.
    Word(String),
    /// A set.
    Set(BTreeSet<Value>),
    /// A function from 1 on.
    Seq(Vec<Value>),
    /// A record.
    Rec(BTreeMap<String, Value>),
}

/// A graph: its edges, each with the name of its action, and its states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The states.
    pub states: BTreeSet<Value>,
    /// From which state by which action to which.
    pub edges: BTreeSet<(Value, String, Value)>,
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn blank(&mut self) {
        while let [b' ' | b'\n', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }

    /// Whether that comes next; then it is read.
    fn is(&mut self, what: &str) -> bool {
        self.blank();
        match self.0.strip_prefix(what.as_bytes()) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> Option<String> {
        self.blank();
        let wordly = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'-';
        let long = self.0.iter().take_while(|byte| wordly(byte)).count();
        let (word, rest) = self.0.split_at(long);
        self.0 = rest;
        Some(String::from_utf8_lossy(word).into_owned()).filter(|word| !word.is_empty())
    }

    fn list(&mut self, end: &str) -> Option<Vec<Value>> {
        let mut all = Vec::new();
        while !self.is(end) {
            all.push(self.value()?);
            self.is(",");
        }
        Some(all)
    }

    fn value(&mut self) -> Option<Value> {
        if self.is("<<") {
            return self.list(">>").map(Value::Seq);
        }
        if self.is("{") {
            return Some(Value::Set(self.list("}")?.into_iter().collect()));
        }
        if self.is("[") {
            let mut fields = BTreeMap::new();
            while !self.is("]") {
                let name = self.word()?;
                self.is("|->").then_some(())?;
                fields.insert(name, self.value()?);
                self.is(",");
            }
            return Some(Value::Rec(fields));
        }
        if self.is("\"") {
            let word = self.word()?;
            self.is("\"").then_some(())?;
            return Some(Value::Word(word));
        }
        let word = self.word()?;
        Some(match word.parse() {
            Ok(number) => Value::Int(number),
            Err(_) => Value::Word(word),
        })
    }
}

/// The text of a label, up to its end: as strings are written in dot, `\n` a new line.
fn unescaped(label: &str) -> String {
    let mut text = String::new();
    let mut bytes = label.chars();
    while let Some(one) = bytes.next() {
        match one {
            '"' => break,
            '\\' => match bytes.next() {
                Some('n') => text.push('\n'),
                other => text.extend(other),
            },
            _ => text.push(one),
        }
    }
    text
}

/// The state of a label: `/\ variable = value` on lines of their own.
fn state(label: &str) -> Option<Value> {
    let mut reader = Reader(label.as_bytes());
    let mut fields = BTreeMap::new();
    while reader.is("/\\") {
        let name = reader.word()?;
        reader.is("=").then_some(())?;
        fields.insert(name, reader.value()?);
    }
    (!fields.is_empty()).then_some(Value::Rec(fields))
}

/// The graph of a dump: a line for each state, and one for each edge.
pub fn read(dot: &str) -> Option<Graph> {
    let (mut names, mut edges) = (BTreeMap::new(), Vec::new());
    for line in dot.lines() {
        let Some((head, label)) = line.split_once(" [label=\"") else {
            continue;
        };
        let label = unescaped(label);
        match head.split_once(" -> ") {
            Some((from, to)) => edges.push((from, label, to)),
            None if head.parse::<i64>().is_ok() => {
                names.insert(head, state(&label)?);
            }
            None => {}
        }
    }
    let mut graph = Graph::default();
    for (from, action, to) in edges {
        let (from, to) = (names.get(from)?.clone(), names.get(to)?.clone());
        graph.edges.insert((from, action, to));
    }
    graph.states = names.into_values().collect();
    Some(graph)
}

/// What one graph has and the other has not: at most so many lines of each.
pub fn differences(ours: &Graph, theirs: &Graph, most: usize) -> Vec<String> {
    let only = |whose: &str, one: &Graph, other: &Graph| {
        let states = one.states.difference(&other.states);
        let states = states.map(|state| format!("{whose} a state: {state:?}"));
        let edges = one.edges.difference(&other.edges);
        let edges = edges.map(|(from, action, to)| format!("{whose} {action}: {from:?} to {to:?}"));
        states
            .take(most)
            .chain(edges.take(most))
            .collect::<Vec<_>>()
    };
    let mut found = only("only here", ours, theirs);
    found.extend(only("only TLC has", theirs, ours));
    found
}
