//! What happened in a schedule: kept as it is, and written down in two ways.
//!
//! *In words*, for a person: one line an event, with the time, who it happens
//! to, and what. `words` says it, and [`History::explained`] puts a legend
//! before. *Raw*, for the digest: the same schedule gives the same raw text for
//! as long as nothing has changed of what is decided, however the words change.

mod faults;
mod words;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use quorlock::LossReason;
use quorlock::sim::native::{NativeReplies, Outcome};
use quorlock::sim::{AfterRelease, Op, Reply, Request};

use crate::neighbour::place_of;
use crate::plan::Plan;
use crate::script::Planned;
use crate::who::{self, Who};
use crate::world::{FaultEvent, MS, Time};

pub use words::{ORACLES, is_well_formed, legend};

/// What a request asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// What is to be done.
    pub op: Op,
    /// The first digits of its token; none where there is none.
    pub token: String,
    /// Which of the locks it is about.
    pub lock: usize,
    /// It is asked by plain commands.
    pub native: bool,
    /// How a release leaves the lock.
    pub leaving: AfterRelease,
}

impl Asked {
    /// What this request asks for.
    pub fn of(request: &Request) -> Asked {
        let token = request.value.0.get(..6).unwrap_or_default();
        Asked {
            op: request.op,
            token: String::from_utf8_lossy(token).into_owned(),
            lock: place_of(&request.keys),
            native: request.native,
            leaving: request.leaving,
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "numbers of clients, nodes, messages, waiters")]
pub enum Happened {
    /// The schedule begins; its plan.
    Begins(String),
    /// A client sends a request to a node.
    Asks {
        client: usize,
        node: usize,
        message: u64,
        asked: Asked,
    },
    /// A node takes a request in, and answers; `None`: it holds another record.
    CarriedOut {
        node: usize,
        message: u64,
        client: usize,
        asked: Asked,
        reply: Option<Reply>,
    },
    /// A node carries out the commands of a native acquire.
    Voted {
        node: usize,
        message: u64,
        client: usize,
        asked: Asked,
        voted: NativeReplies,
    },
    /// The end of its write shows what that vote is worth.
    Counted {
        node: usize,
        message: u64,
        client: usize,
        asked: Asked,
        outcome: Outcome,
    },
    /// The answer has reached its client.
    Answered {
        client: usize,
        node: usize,
        message: u64,
        token: String,
        reply: Reply,
    },
    /// The client waits no longer for an answer.
    TimedOut { client: usize, message: u64 },
    /// Something goes wrong.
    Fault(FaultEvent),
    /// A connection is reset; the node by its place in the client's list, too.
    Reset {
        client: usize,
        place: usize,
        node: usize,
    },
    /// A node calls a waiter, of the client with that inbox.
    Calls {
        node: usize,
        client: String,
        number: u64,
    },
    /// The call is dropped on its way.
    NotCalled { number: u64 },
    /// A call has reached its client.
    Called {
        client: usize,
        node: usize,
        number: u64,
    },
    /// A node is to store a record of its set.
    Record {
        node: usize,
        record: Arc<str>,
        written: bool,
    },
    /// A client finds that a node may not vote.
    Unfit {
        client: usize,
        node: usize,
        pair: usize,
        why: String,
    },
    /// A user has a lease.
    Won {
        client: usize,
        token: String,
        fence: Option<u64>,
        left: Duration,
    },
    /// A user has one more handle on a lease that its owner holds.
    ReEntered { client: usize, token: String },
    /// A user has given a handle back; `over`: the last one.
    GaveUp {
        client: usize,
        token: String,
        over: bool,
    },
    /// A user was told that its lease is lost.
    Lost { client: usize, reason: LossReason },
    /// An oracle has seen a broken promise.
    Violation(String),
    /// What a user does or is told; raw histories do not have it.
    User(String),
    /// A line that somebody else has written.
    Line(String),
}

impl From<String> for Happened {
    fn from(line: String) -> Happened {
        Happened::Line(line)
    }
}

impl Happened {
    /// A node calls a waiter.
    pub fn calls(node: usize, inbox: &[u8], number: u64) -> Happened {
        let inbox = String::from_utf8_lossy(inbox);
        let client = inbox.rsplit(':').next().unwrap_or_default();
        let client = client.trim_start_matches('0').into();
        Happened::Calls {
            node,
            client,
            number,
        }
    }

    /// The line of the raw history, if it has one.
    fn raw(&self) -> Option<String> {
        Some(match self {
            Happened::Begins(line) | Happened::Line(line) => line.clone(),
            Happened::Asks {
                client,
                node,
                message,
                asked: Asked {
                    op, token, native, ..
                },
            } => {
                let how = if *native { " natively" } else { "" };
                format!("c{client} -> n{node} m{message} {op:?}{how} {token}")
            }
            Happened::CarriedOut {
                node,
                message,
                client,
                asked: Asked { op, token, .. },
                reply,
            } => format!("n{node} m{message} c{client} {op:?} {token} -> {reply:?}"),
            Happened::Voted {
                node,
                message,
                client,
                asked: Asked { op, token, .. },
                voted,
            } => format!("n{node} m{message} c{client} {op:?} {token} -> {voted:?}"),
            Happened::Counted {
                node,
                message,
                client,
                asked: Asked { token, .. },
                outcome,
            } => format!("n{node} m{message} c{client} {token} -> {outcome:?}"),
            Happened::Answered {
                client,
                node,
                message,
                reply,
                ..
            } => format!("c{client} <- n{node} m{message} {reply:?}"),
            Happened::TimedOut { client, message } => format!("c{client} m{message} timed out"),
            Happened::Fault(fault) => format!("{fault:?}"),
            Happened::Reset { client, place, .. } => format!("reset c{client} n{place}"),
            Happened::Calls {
                node,
                client,
                number,
            } => format!("n{node} tells waiter {number} of c{client}"),
            Happened::NotCalled { number } => format!("waiter {number} is not told"),
            Happened::Called {
                client,
                node,
                number,
            } => format!("c{client} <- n{node} waiter {number}"),
            Happened::Record {
                node,
                record,
                written,
            } => format!("n{node} record {record}: {written}"),
            Happened::Unfit { pair, why, .. } => format!("pair {pair} refused: {why}"),
            Happened::Won { client, token, .. } => format!("c{client} won {token}"),
            Happened::ReEntered { client, token } => format!("c{client} re-entered {token}"),
            Happened::GaveUp { client, token, .. } => format!("c{client} released {token}"),
            Happened::Lost { client, reason } => format!("c{client} lost {reason:?}"),
            Happened::Violation(what) => format!("VIOLATION {what}"),
            Happened::User(_) => return None,
        })
    }
}

/// Something that happened, when, and who acted.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When.
    pub at: Time,
    /// Who.
    pub who: Who,
    /// What.
    pub what: Happened,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History(pub Vec<Entry>);

impl History {
    /// Adds what happens now.
    pub fn add(&mut self, at: Time, what: Happened) {
        let who = who::now();
        self.0.push(Entry { at, who, what });
    }

    /// The raw history: what two runs are compared by.
    pub fn raw(&self) -> String {
        let mut text = String::new();
        for entry in &self.0 {
            if let Some(line) = entry.what.raw() {
                let _ = writeln!(text, "{:>12.3} ms  {line}", entry.at as f64 / MS as f64);
            }
        }
        text
    }

    /// One line for each event, in words.
    pub fn lines(&self, plan: &Plan, planned: &[Planned]) -> Vec<String> {
        words::lines(self, plan, planned)
    }

    /// All that a person needs: a legend, and the lines.
    pub fn explained(&self, plan: &Plan, planned: &[Planned]) -> String {
        let mut text = words::legend(plan);
        for line in self.lines(plan, planned) {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}
