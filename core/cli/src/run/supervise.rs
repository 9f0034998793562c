//! While the command runs: signals are handed on, and it is stopped before the lock ends.

use std::time::Duration;

use quorlock::{Lease, LossReason, NodeError};
use serde_json::{Value, json};

use super::child::{Change, Child};
use super::front::Front;
use super::guard::{Act, EndReason, Guard};
use super::warden::Warden;
use crate::clock::now;
use crate::events::{Event, Events};
use crate::output::plain;
use crate::times;
use crate::voice::Voice;

/// How often a group is looked at whose leader has ended: nothing tells its end.
const GROUP: Duration = Duration::from_millis(20);

/// What is to end a command comes twice within so long where it was sent to all of a group: to this
/// process, and to its front, which hands it on. The second time may mean more to a command.
const ONCE: Duration = Duration::from_millis(100);

/// What is to end a command.
const ENDS: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// How a command is looked after.
#[derive(Debug)]
pub struct Rules {
    pub ttl: Duration,
    pub grace: Duration,
    /// Whether it is stopped, and not only asked to end.
    pub kill: bool,
    pub foreground: bool,
}

/// How it went.
#[derive(Debug)]
pub struct Outcome {
    /// What the command ended with.
    pub child: i32,
    /// Why it was stopped, or how the lock was lost under it.
    pub lost: Option<LockEnd>,
    /// Whether the lock was still held when the command had ended.
    pub in_time: bool,
}

/// Looks after a command until it has ended, and its group with it or the grace is over.
pub fn supervise(
    lease: &Lease,
    child: &mut Child,
    rules: &Rules,
    events: &mut Events,
    voice: &mut Voice,
    warden: Option<Warden>,
    front: Option<&Front>,
) -> Outcome {
    let mut guard = Guard::new(rules.ttl, rules.grace);
    let tell_warden = |child: &Child, guard: &Guard| {
        if let Some(warden) = &warden {
            // The loss behind the rest: a loss that comes between the two leaves none.
            let (now, left) = (now(), lease.remaining());
            warden.guard(child.target(), guard.too_late(now, left, lease.loss()));
        }
    };
    // The warden knows the command before any report of it.
    tell_warden(child, &guard);
    voice.tell(&json!({"event": "started", "pid": child.pid()}));
    let mut killed = KillResult::No;
    // Polled for its waker: a loss ends the wait for the next event.
    let mut loss = lease.lost();
    let mut stopped = None;
    // By what it was last asked to end, and when.
    let mut last = None;
    // When its group is waited for no longer.
    let mut leave = None;
    let child_code = loop {
        let _ = lease.loss().is_none() && events.poll(&mut loss).is_ready();
        match child.look() {
            Some(Change::Stopped) => {
                // First, for the shell may have it go on at any time from now on.
                if let Some(front) = front {
                    front.stop();
                }
                voice.say("the command is stopped; the lock is renewed all the same");
            }
            Some(Change::Continued) => {
                if let Some(front) = front {
                    front.go_on();
                }
            }
            Some(Change::Ended(code)) => {
                leave = Some(now().saturating_add(rules.grace));
                voice.tell(&json!({"event": "exited", "child": code}));
            }
            None => {}
        }
        tell_warden(child, &guard);
        let mut most = Duration::MAX;
        if let (Some(code), Some(leave)) = (child.code, leave) {
            if child.is_gone() {
                break code;
            }
            if now() >= leave {
                voice.say("the command has left processes behind; the lock is released now");
                break code;
            }
            most = GROUP;
        }
        if killed == KillResult::No && warden.as_ref().is_some_and(Warden::has_killed) {
            killed = KillResult::Sent;
        }
        if killed == KillResult::Sent {
            // Where it could be sent to some of them, the others are what is left.
            if child.is_out_of_reach() {
                killed = kill_in_vain(voice);
            } else if !child.is_gone() {
                most = GROUP;
            }
        }
        match guard.look(now(), lease.remaining(), lease.loss()) {
            Act::Wait(long) => most = most.min(long),
            Act::Term(why) => {
                let how = match rules.kill {
                    false => StopRequest::Not,
                    true if child.signal(libc::SIGTERM) => StopRequest::InVain,
                    true => StopRequest::Term,
                };
                let reason = word(why, lease);
                if how == StopRequest::Term {
                    stopped = Some(LockEnd::new(reason, lease));
                    // A command that is stopped could not end.
                    child.signal(libc::SIGCONT);
                }
                explain(why, how, &LockEnd::new(reason, lease), voice);
                continue;
            }
            Act::Kill => {
                if rules.kill {
                    killed = if child.signal(libc::SIGKILL) {
                        kill_in_vain(voice)
                    } else {
                        voice.say("the command has not ended in time: killed");
                        KillResult::Sent
                    };
                }
                continue;
            }
        }
        if let Event::Signal { number, typed } = events.next(most)
            && number != libc::SIGCHLD
            // What asks for the terminal is the command, or stands in its group.
            && ![libc::SIGTTIN, libc::SIGTTOU].contains(&number)
            && last.is_none_or(|(same, at)| same != number || now() - at > ONCE)
        {
            if ENDS.contains(&number) {
                last = Some((number, now()));
            }
            // In the foreground the terminal has sent it to the command already.
            let has_it = typed && rules.foreground;
            let in_vain = !has_it && child.signal(number);
            if ENDS.contains(&number) {
                // A command that is stopped could not obey.
                child.signal(libc::SIGCONT);
            }
            if in_vain && number != libc::SIGWINCH {
                voice.say(&format!(
                    "signal {number} cannot be handed on: the command has another user"
                ));
                voice.tell(&not_permitted(number));
            }
        }
    };
    if warden.as_ref().is_some_and(Warden::has_killed) {
        voice
            .say("the command was killed: this process stood still, and the lock was about to end");
        stopped = stopped.or(Some(LockEnd::new(lease.ending().as_str(), lease)));
    }
    // Before its number can be another's.
    drop(warden);
    // A look finds a loss that was not reported before.
    let in_time = lease.is_held();
    let lost = lease.loss().map(|reason| reason.as_str());
    let lost = lost.or((!in_time).then_some("expired"));
    Outcome {
        child: child_code,
        lost: lost.map(|reason| LockEnd::new(reason, lease)).or(stopped),
        in_time,
    }
}

/// Why a lock has ended, or is about to, and what its nodes have to do with it.
#[derive(Debug)]
pub struct LockEnd {
    /// As a word.
    pub reason: &'static str,
    nodes: Vec<NodeError>,
}

impl LockEnd {
    /// By this word, and as things stand.
    pub fn new(reason: &'static str, lease: &Lease) -> LockEnd {
        let is_theirs = ["expired", "refused", "forced"].contains(&reason);
        let nodes = if is_theirs {
            lease.answers()
        } else {
            Vec::new()
        };
        LockEnd { reason, nodes }
    }

    /// What the nodes said, for programs.
    pub fn nodes(&self) -> Value {
        let node = |node: &NodeError| json!({"node": node.node(), "said": node.message()});
        self.nodes.iter().map(node).collect()
    }

    /// The same for people, in brackets behind something else.
    pub fn told(&self) -> String {
        let nodes: Vec<_> = self
            .nodes
            .iter()
            .map(|node| plain(&node.to_string()))
            .collect();
        if nodes.is_empty() {
            String::new()
        } else {
            format!(" ({})", nodes.join("; "))
        }
    }
}

/// Whether KILL was sent to the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KillResult {
    No,
    Sent,
    /// This process may not signal some of it, and the user has seen that.
    InVain,
}

/// Tells that what is left of the command cannot be killed.
fn kill_in_vain(voice: &mut Voice) -> KillResult {
    voice.say(
        "processes of the command cannot be killed, for they have another user: they go on \
         without the lock",
    );
    voice.tell(&not_permitted(libc::SIGKILL));
    KillResult::InVain
}

/// Whether a command was asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopRequest {
    /// It is to go on.
    Not,
    Term,
    /// It may not be signalled by this process.
    InVain,
}

/// A signal that the kernel has refused to send.
fn not_permitted(signal: i32) -> Value {
    json!({"event": "not_permitted", "signal": signal})
}

fn word(why: EndReason, lease: &Lease) -> &'static str {
    match why {
        EndReason::Ending(_) => lease.ending().as_str(),
        EndReason::Lost(reason) => reason.as_str(),
    }
}

fn explain(why: EndReason, how: StopRequest, ended: &LockEnd, voice: &mut Voice) {
    let so = match how {
        StopRequest::Not => "the command goes on",
        StopRequest::Term => "the command gets TERM",
        StopRequest::InVain => {
            "the command goes on, for it has another user, and may not be ended by this one"
        }
    };
    let (reason, nodes) = (ended.reason, ended.told());
    voice.say(&match why {
        EndReason::Ending(left) => {
            let left = times::shown(left);
            let because = if reason == LossReason::MaxHold.as_str() {
                "for it has been held for as long as --max-hold allows".to_owned()
            } else {
                format!("and is not renewed{nodes}")
            };
            format!("the lock ends in {left}, {because}: {so}")
        }
        EndReason::Lost(_) => format!("the lock is lost: {reason}{nodes}; {so}"),
    });
    let stopped = how == StopRequest::Term;
    voice.tell(&json!({
        "event": "ending", "reason": reason, "stopped": stopped, "nodes": ended.nodes(),
    }));
    if how == StopRequest::InVain {
        voice.tell(&not_permitted(libc::SIGTERM));
    }
}
