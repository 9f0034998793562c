//! A history in words.

mod replies;

use std::collections::BTreeMap;
use std::time::Duration;

use quorlock::sim::native::Outcome;
use quorlock::sim::{AfterRelease, Op, Repair, Reply};

use super::faults::{begin_of, end_of};
use super::{Asked, Happened, History};
use crate::plan::Plan;
use crate::script::Planned;
use crate::who::Who;
use crate::world::{FaultEvent, MS, Time};
use replies::{answer, said, verb};

/// What the oracles promise, by their names.
pub const ORACLES: [(&str, &str); 20] = [
    ("S1", "exclusion: no two leases on one lock at a time"),
    ("S2", "fences: who holds a lock later has a larger fence"),
    ("S3", "no theft: nobody touches what is another's on a node"),
    ("S4", "honest validity: a lease is as long as its votes say"),
    ("S5", "loss is told in time, and final"),
    (
        "K1",
        "keep: nobody has a lock that is kept, as its user was told",
    ),
    (
        "HL1",
        "whose lease is over and was not ended by itself is told of it",
    ),
    (
        "AD1",
        "of all who adopt one text one is told so at most, ever",
    ),
    (
        "AD2",
        "of a lease that goes on elsewhere nothing is stored anew",
    ),
    ("LN1", "a request changes nothing of any lock but its own"),
    (
        "LN2",
        "what a user is given is of the lock it has asked for",
    ),
    ("AD3", "where nothing goes wrong a text is adopted"),
    (
        "FR1",
        "once a lock was taken away no quorum holds what one held before",
    ),
    ("L1", "no leak: what is given up leaves no key behind"),
    ("L2", "no deadlock: a free lock is to be had"),
    (
        "L3",
        "honest errors: nodes that answer are not said to be away",
    ),
    ("L4", "no lost wake-up: who waits is called in its turn"),
    ("L5", "bounded: every call returns in its time"),
    (
        "L6",
        "what a link promises: order, releases kept, one answer to each request",
    ),
    ("L7", "order: no newcomer passes a live queue"),
];

/// What is about nobody in particular.
const WORLD: &str = "world";
/// Where a promise is broken.
const JUDGE: &str = "VIOLATION";

/// What stands before a history.
pub fn legend(plan: &Plan) -> String {
    let on = |on: bool, what: &str| {
        if on {
            format!(", {what}")
        } else {
            String::new()
        }
    };
    let users = |client| plan.users(client).map(|u| format!("u{u}"));
    let users = |client: usize| users(client).collect::<Vec<_>>().join(" ");
    let clients = (0..plan.clients).map(|c| format!("c{c} with {}", users(c)));
    let nodes = (0..plan.nodes).map(|n| format!("n{n}"));
    let scene = plan.scene.as_ref().map(|s| format!(", {}", s.title()));
    let mut text = format!(
        "\
Nodes {}; clients {}.
The ttl is {:?}, a node has {:?} to answer{}{}{}{}{}.

Each line: the time since the start, who, what, and in brackets the token (its
first digits) and the message that it is about. `u1 c0` is user 1, who works in
client 0; `c0` what client 0 does by itself; `n2` is node 2; `fault:3` goes wrong,
and WITHOUT=fault:3 takes it away; VIOLATION is where a promise is broken.

",
        nodes.collect::<Vec<_>>().join(" "),
        clients.collect::<Vec<_>>().join(", "),
        plan.ttl,
        plan.node_timeout,
        on(plan.renew, "leases are renewed"),
        on(plan.fence_ttl.is_some(), "with fences"),
        on(plan.guard, "restarts are guarded"),
        on(plan.tail > 0, "all wait for the lock in the end"),
        scene.unwrap_or_default(),
    );
    if !plan.habits.is_empty() {
        text.push_str("The clients differ in what they have chosen:\n");
        for (client, habit) in plan.habits.iter().enumerate() {
            let fences = on(habit.fences, "with fences");
            let renew = on(habit.renew, "renewed");
            text += &format!("  c{client}: ttl {:?}{renew}{fences}\n", habit.ttl);
        }
        text.push('\n');
    }
    text
}

/// Whether a line has the form that every line has.
pub fn is_well_formed(line: &str) -> bool {
    let Some((time, rest)) = line.split_once(" ms  ") else {
        return false;
    };
    let Some((who, what)) = rest.split_at_checked(WHO) else {
        return false;
    };
    let number = |word: &str| word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let numbered = |word: &str, sigil: &str| {
        word.strip_prefix(sigil)
            .is_some_and(|n| !n.is_empty() && number(n))
    };
    let someone = |who: &str| match who.split_once(' ') {
        Some((user, client)) => numbered(user, "u") && numbered(client, "c"),
        None => {
            let faults = who == "fault" || numbered(who, "fault:");
            faults || who == JUDGE || who == WORLD || numbered(who, "c") || numbered(who, "n")
        }
    };
    // No debug text of the code's: no braces, no colons of paths, no options.
    // A raw name may be the key of another lock, and so is told in an error.
    let what = what.replace("`lock:{k}`", "");
    let words = !what.contains(['{', '}']) && !what.contains("Some(") && !what.contains("::");
    number(time.trim_start()) && someone(who.trim_end()) && words && what.starts_with("  ")
}

/// How wide the column of who acts is.
const WHO: usize = 13;

/// A line for each event.
pub fn lines(history: &History, plan: &Plan, planned: &[Planned]) -> Vec<String> {
    let teller = Teller::new(history, plan);
    let last = history.0.last().map_or(0, |entry| entry.at);
    let mut names: Vec<_> = planned.iter().map(Some).collect();
    let mut lines = Vec::new();
    let mut ends: Vec<(Time, String, String, FaultEvent)> = Vec::new();
    let happened = history.0.iter();
    for entry in happened.filter(|entry| !matches!(entry.what, Happened::Begins(_))) {
        if let Happened::Fault(FaultEvent::CrashClient(client)) = entry.what {
            // It goes on no more, whatever held it up.
            ends.retain(|end| !matches!(end.3, FaultEvent::PauseClient(c, _) | FaultEvent::SuspendClient(c, _) if c == client));
        }
        ends.sort_by_key(|end| end.0);
        while ends.first().is_some_and(|end| end.0 <= entry.at) {
            let (at, who, what, _) = ends.remove(0);
            lines.push(line(at, &who, &what));
        }
        let (mut who, what) = teller.say(entry.who, &entry.what);
        if let Some(fault) = fault_of(&entry.what) {
            let named = names.iter_mut().find(|name| {
                name.is_some_and(|(at, planned, _)| {
                    // One that was to come with a vote came later than planned.
                    let late = matches!(fault, FaultEvent::PauseClient(..)) && *at < entry.at;
                    *planned == fault && (*at == entry.at || late)
                })
            });
            if let Some((_, _, name)) = named.and_then(Option::take) {
                who = name.to_string();
            }
            if let Some((at, what)) = end_of(fault, entry.at).filter(|end| end.0 <= last) {
                ends.push((at, who.clone(), what, fault));
            }
        }
        lines.push(line(entry.at, &who, &what));
    }
    lines
}

fn line(at: Time, who: &str, what: &str) -> String {
    let millis = at as f64 / MS as f64;
    format!("{millis:>12.3} ms  {who:<WHO$}  {what}")
}

/// The fault that an event is.
fn fault_of(what: &Happened) -> Option<FaultEvent> {
    match what {
        Happened::Fault(fault) => Some(*fault),
        Happened::Reset { client, place, .. } => Some(FaultEvent::Reset(*client, *place)),
        _ => None,
    }
}

pub(super) fn ms(long: Time) -> String {
    let text = format!("{:.3}", long as f64 / MS as f64);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} ms")
}

/// A duration, with no more digits than a person wants.
fn brief(long: Duration) -> String {
    ms(long.as_nanos() as Time)
}

/// The token and the message that a line is about.
fn about(token: &str, message: u64) -> String {
    match token {
        "" => format!("m{message}"),
        _ => format!("{token} m{message}"),
    }
}

/// Who asked for what.
struct Teller<'a> {
    plan: &'a Plan,
    /// The user whom a token is for.
    users: BTreeMap<&'a str, usize>,
    /// The node that a message goes to.
    nodes: BTreeMap<u64, (usize, &'a Asked)>,
}

impl<'a> Teller<'a> {
    fn new(history: &'a History, plan: &'a Plan) -> Teller<'a> {
        let (mut users, mut nodes) = (BTreeMap::new(), BTreeMap::new());
        for entry in &history.0 {
            if let Happened::Asks {
                message,
                asked,
                node,
                ..
            } = &entry.what
            {
                nodes.insert(*message, (*node, asked));
                if let (Who::User(user), false) = (entry.who, asked.token.is_empty()) {
                    users.entry(&*asked.token).or_insert(user);
                }
            }
        }
        Teller { plan, users, nodes }
    }

    /// Who is meant by a client, where its user is known.
    fn whose(&self, client: usize, token: &str, acts: Who) -> String {
        let acts = match acts {
            Who::User(user) => Some(user),
            _ => None,
        };
        let user = self.users.get(token).copied().or(acts);
        match user.filter(|user| self.plan.client_of(*user) == client) {
            Some(user) => format!("u{user} c{client}"),
            None => format!("c{client}"),
        }
    }

    /// What a client hears.
    fn heard(&self, message: u64, reply: &Reply) -> String {
        let asked = self.nodes.get(&message).map(|(_, asked)| *asked);
        asked.map_or_else(|| said(reply), |asked| answer(asked, reply))
    }

    fn lock(&self, asked: &Asked) -> &'static str {
        match (self.plan.locks, asked.lock) {
            (1, _) => "the lock",
            (_, 0) => "the first lock",
            (_, 1) => "the second lock",
            _ => "the third lock",
        }
    }

    /// Who acts, and what is done.
    fn say(&self, acts: Who, what: &Happened) -> (String, String) {
        let node = |n: &usize| format!("n{n}");
        match what {
            Happened::Begins(_) => (WORLD.into(), "all begin".into()),
            Happened::Asks {
                client,
                node,
                message,
                asked,
            } => {
                let who = self.whose(*client, &asked.token, acts);
                let what = self.asks(asked, &format!("n{node}"));
                (who, format!("{what}  ({})", about(&asked.token, *message)))
            }
            Happened::CarriedOut {
                node: n,
                message,
                client,
                asked,
                reply,
            } => {
                let whom = self.whose(*client, &asked.token, Who::World);
                let verb = verb(asked);
                let said = reply.as_ref().map_or_else(
                    || "nothing is done, for the client goes by another record of the set".into(),
                    |reply| answer(asked, reply),
                );
                let copy = if *message == 0 { "a copy of " } else { "" };
                let about = format!("({})", about(&asked.token, *message));
                let what = format!("takes in {copy}the {verb} of {whom}: {said}  {about}");
                (node(n), what)
            }
            Happened::Voted {
                node: n,
                message,
                client,
                asked,
                voted,
            } => {
                let whom = self.whose(*client, &asked.token, Who::World);
                let copy = if *message == 0 { "a copy of " } else { "" };
                let stored = if voted.stored {
                    "its value is stored"
                } else {
                    "another's value stands there"
                };
                let counted = if voted.counted {
                    ", its fence is counted"
                } else {
                    ""
                };
                let about = about(&asked.token, *message);
                let what = format!(
                    "takes in {copy}the native request of {whom}: {stored}{counted}  ({about})"
                );
                (node(n), what)
            }
            Happened::Counted {
                node: n,
                message,
                client,
                asked,
                outcome,
            } => {
                let whom = self.whose(*client, &asked.token, Who::World);
                let worth = match outcome {
                    Outcome::Reply(reply) => said(reply),
                    Outcome::OtherRecord => "void, for the node holds another record".into(),
                    Outcome::Quarantined => "void, for the node is in quarantine".into(),
                };
                let about = about(&asked.token, *message);
                let what =
                    format!("shows what the native vote for {whom} is worth: {worth}  ({about})");
                (node(n), what)
            }
            Happened::Answered {
                client,
                node,
                message,
                token,
                reply,
            } => {
                let who = self.whose(*client, token, acts);
                let what = format!(
                    "hears of n{node}: {}  ({})",
                    self.heard(*message, reply),
                    about(token, *message)
                );
                (who, what)
            }
            Happened::TimedOut { client, message } => match self.nodes.get(message) {
                Some((node, asked)) => {
                    let who = self.whose(*client, &asked.token, acts);
                    let verb = verb(asked);
                    let about = format!("({})", about(&asked.token, *message));
                    (
                        who,
                        format!("has no answer of n{node} to its {verb} in time  {about}"),
                    )
                }
                None => (
                    format!("c{client}"),
                    format!("has no answer in time  (m{message})"),
                ),
            },
            Happened::Fault(fault) => ("fault".into(), begin_of(*fault)),
            Happened::Reset { client, node, .. } => {
                let what = format!("the connection between c{client} and n{node} is reset");
                ("fault".into(), what)
            }
            Happened::Calls {
                node: n,
                client,
                number,
            } => {
                let client = u64::from_str_radix(client, 16).unwrap_or(0);
                let what = format!("calls waiter {number} of c{client}: it is its turn");
                (node(n), what)
            }
            Happened::NotCalled { number } => (
                "fault".into(),
                format!("the call to waiter {number} is lost"),
            ),
            Happened::Called {
                client,
                node,
                number,
            } => {
                let what = format!("hears that n{node} calls its waiter {number}");
                (format!("c{client}"), what)
            }
            Happened::Record {
                node: n,
                record,
                written,
            } => {
                let what = if *written {
                    format!("stores the record of its set: {record}")
                } else {
                    format!("refuses the record, for it holds another by now: {record}")
                };
                (node(n), what)
            }
            Happened::Unfit {
                client, node, why, ..
            } => (
                format!("c{client}"),
                format!("lets n{node} not vote: {why}"),
            ),
            Happened::Won {
                client,
                token,
                fence,
                left,
            } => {
                let fence = fence.map_or(String::new(), |f| format!(", with the fence {f}"));
                let what = format!(
                    "HOLDS the lock, for another {}{fence}  ({token})",
                    brief(*left)
                );
                (self.who(*client, acts), what)
            }
            Happened::ReEntered { client, token } => {
                let what = format!("re-enters the lock that it holds  ({token})");
                (self.who(*client, acts), what)
            }
            Happened::GaveUp {
                client,
                token,
                over,
            } => {
                let what = if *over {
                    "GIVES the lock UP"
                } else {
                    "gives one of its handles on the lock up"
                };
                (self.who(*client, acts), format!("{what}  ({token})"))
            }
            Happened::Lost { client, reason } => {
                let what = format!("is told that its lease is LOST: {reason:?}");
                (self.who(*client, acts), what)
            }
            Happened::Violation(what) => (JUDGE.into(), what.clone()),
            Happened::User(what) => {
                let user = match acts {
                    Who::User(user) => self.who(self.plan.client_of(user), acts),
                    _ => WORLD.into(),
                };
                (user, what.clone())
            }
            Happened::Line(line) => (WORLD.into(), line.clone()),
        }
    }

    fn who(&self, client: usize, acts: Who) -> String {
        self.whose(client, "", acts)
    }

    fn asks(&self, asked: &Asked, node: &str) -> String {
        let lock = self.lock(asked);
        match asked.op {
            Op::Acquire {
                ttl,
                candidate,
                home,
                let_in,
                ..
            } => {
                let home = if home {
                    ", and for a place in its queue"
                } else {
                    ""
                };
                let let_in = if let_in { ", let in by its home" } else { "" };
                let fence = match candidate {
                    0 => String::new(),
                    fence => format!(", proposes the fence {fence}"),
                };
                let how = if asked.native { ", natively" } else { "" };
                format!(
                    "asks {node} for {lock} for {}{home}{let_in}{fence}{how}",
                    brief(ttl)
                )
            }
            Op::Extend { ttl, repair, .. } => {
                let repair = match repair {
                    Repair::No => "",
                    Repair::Yes => ", stored anew if it is gone",
                    Repair::InQuarantine { .. } => ", stored anew if it is gone, in quarantine too",
                };
                format!(
                    "asks {node} to keep its vote for {} more{repair}",
                    brief(ttl)
                )
            }
            Op::Confirm { fence, .. } => format!("asks {node} to store the fence {fence}"),
            Op::Release if asked.token.is_empty() => format!("leaves the queue of {node}"),
            Op::Release if asked.native => format!("tells {node} to delete its vote, natively"),
            Op::Release if matches!(asked.leaving, AfterRelease::Forced(_)) => {
                format!("has {node} take that vote away by force")
            }
            Op::Release if asked.leaving != AfterRelease::Free => {
                format!("gives its vote up, and has {node} keep the lock taken")
            }
            Op::Release => format!("tells {node} to delete its vote"),
            Op::Inspect => format!("looks who has the lock on {node}"),
            Op::Reserve { long } => {
                format!("has {node} let no more readers in for {}", brief(long))
            }
        }
    }
}
