//! While the command runs: signals are handed on, and it is stopped before the lock ends.

use std::time::Duration;

use quorlock::Lease;
use serde_json::{Value, json};

use super::child::{Change, Child};
use super::guard::{Act, Guard, Why};
use super::warden::Warden;
use crate::clock::now;
use crate::events::{Event, Events};
use crate::times;
use crate::voice::Voice;

/// How often a group is looked at whose leader has ended: nothing tells its end.
const GROUP: Duration = Duration::from_millis(20);

/// How a command is looked after.
#[derive(Debug)]
pub struct Rules {
    pub ttl: Duration,
    pub grace: Duration,
    /// Whether it is stopped, and not only told.
    pub kill: bool,
    pub foreground: bool,
}

/// How it went.
#[derive(Debug)]
pub struct Outcome {
    /// What the command ended with.
    pub child: i32,
    /// Why it was stopped, as a word, or how the lock was lost under it.
    pub lost: Option<&'static str>,
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
) -> Outcome {
    let mut guard = Guard::new(rules.ttl, rules.grace);
    let tell_warden = |child: &Child, guard: &Guard| {
        if let Some(warden) = &warden {
            // The loss behind the rest: one that comes between the two leaves none.
            let (now, left) = (now(), lease.remaining());
            warden.guard(child.target(), guard.too_late(now, left, lease.loss()));
        }
    };
    // It knows the command before anything is told of that.
    tell_warden(child, &guard);
    voice.tell(&json!({"event": "started", "pid": child.pid()}));
    let mut killed = Killed::No;
    // Polled for its waker: a loss ends the wait for the next event.
    let mut loss = lease.lost();
    let mut stopped = None;
    // When its group is waited for no longer.
    let mut leave = None;
    let child_code = loop {
        let _ = lease.loss().is_none() && events.poll(&mut loss).is_ready();
        match child.look() {
            Some(Change::Stopped) => {
                voice.say("the command is stopped; the lock is renewed all the same");
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
        if killed == Killed::No && warden.as_ref().is_some_and(Warden::has_killed) {
            killed = Killed::Sent;
        }
        if killed == Killed::Sent {
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
                    false => Asked::Not,
                    true if child.signal(libc::SIGTERM) => Asked::InVain,
                    true => Asked::Term,
                };
                if how == Asked::Term {
                    stopped = Some(word(why));
                    // One that is stopped could not end.
                    child.signal(libc::SIGCONT);
                }
                explain(why, how, voice);
                continue;
            }
            Act::Kill => {
                if rules.kill {
                    killed = match child.signal(libc::SIGKILL) {
                        true => kill_in_vain(voice),
                        false => {
                            voice.say("the command has not ended in time: killed");
                            Killed::Sent
                        }
                    };
                }
                continue;
            }
        }
        if let Event::Signal { number, typed } = events.next(most)
            && number != libc::SIGCHLD
            // In the foreground the terminal has sent it to the command already.
            && !(typed && rules.foreground)
        {
            let in_vain = child.signal(number);
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
        stopped = stopped.or(Some("expired"));
    }
    // Before its number can be another's.
    drop(warden);
    // A look finds a loss that nobody has been told yet.
    let in_time = lease.is_held();
    let lost = lease.loss().map(|reason| reason.as_str());
    let lost = lost.or((!in_time).then_some("expired"));
    Outcome {
        child: child_code,
        lost: lost.or(stopped),
        in_time,
    }
}

/// Whether KILL was sent to the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    No,
    Sent,
    /// Some of it may not be signalled by this process, which was told.
    InVain,
}

/// Tells that what is left of the command cannot be killed.
fn kill_in_vain(voice: &mut Voice) -> Killed {
    voice.say(
        "processes of the command cannot be killed, for they have another user: they go on \
         without the lock",
    );
    voice.tell(&not_permitted(libc::SIGKILL));
    Killed::InVain
}

/// Whether a command was asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
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

fn word(why: Why) -> &'static str {
    match why {
        Why::Ending(_) => "expired",
        Why::Lost(reason) => reason.as_str(),
    }
}

fn explain(why: Why, how: Asked, voice: &mut Voice) {
    let so = match how {
        Asked::Not => "the command goes on",
        Asked::Term => "the command gets TERM",
        Asked::InVain => {
            "the command goes on, for it has another user, and may not be ended by this one"
        }
    };
    match why {
        Why::Ending(left) => {
            let left = times::shown(left);
            voice.say(&format!(
                "the lock ends in {left}, and is not renewed: {so}"
            ));
        }
        Why::Lost(reason) => {
            voice.say(&format!("the lock is lost ({}): {so}", reason.as_str()));
        }
    }
    let stopped = how == Asked::Term;
    voice.tell(&json!({"event": "ending", "reason": word(why), "stopped": stopped}));
    if how == Asked::InVain {
        voice.tell(&not_permitted(libc::SIGTERM));
    }
}
