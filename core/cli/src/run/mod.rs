//! `quorlock run`: a command while a lock is held.

mod child;
mod front;
mod guard;
mod supervise;
mod wait;
mod warden;

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use quorlock::{
    Client, Error, ErrorKind, Lease, Level, Lock, LossReason, blocking, defaults, set_log_sink,
};
use serde_json::json;

use crate::args::Run;
use crate::clock::now;
use crate::connect;
use crate::events::Events;
use crate::exit::{self, Failure};
use crate::given;
use crate::output::plain;
use crate::times;
use crate::voice::Voice;
use child::Child;
use front::{Front, Side};
use supervise::{LockEnd, Outcome, Rules, supervise};
use wait::{NoLease, Patience, acquire};
use warden::Warden;

/// Variables of this program whose values may be secrets.
const SECRETS: [&str; 3] = [defaults::NODES_VARIABLE, "QUORLOCK_KEY", "QUORLOCK_CERT"];

/// Returns the exit code.
pub fn run(options: &Run) -> i32 {
    // First, while there is one thread.
    let mut front = match front::split() {
        Ok(Side::Worker(front)) => front,
        Ok(Side::Front(code)) => return code,
        Err(e) => {
            eprintln!("quorlock: a second process cannot be started: {e}");
            return exit::BUG;
        }
    };
    work(options, front.as_mut())
}

/// What the process does that holds the lock.
fn work(options: &Run, front: Option<&mut Front>) -> i32 {
    let name = options.name.to_string_lossy();
    let metrics = options.metrics.as_deref().map(|path| (path, &*name));
    let mut voice = match Voice::new(options.quiet, options.json.as_deref(), metrics) {
        Ok(voice) => voice,
        Err(failure) => {
            eprintln!("quorlock: {}", failure.message);
            return failure.code;
        }
    };
    let code = under_lock(options, &mut voice, front).unwrap_or_else(|failure| {
        voice.fail(&failure.message);
        voice.tell(&json!({"event": "failed", "message": failure.message, "exit": failure.code}));
        failure.code
    });
    // Behind the lock, which waits for no log.
    voice.finish();
    code
}

fn under_lock(
    options: &Run,
    voice: &mut Voice,
    mut front: Option<&mut Front>,
) -> Result<i32, Failure> {
    // Before there is a second thread.
    let broken = |e| {
        Failure::new(
            exit::BUG,
            format!("a second process cannot be started: {e}"),
        )
    };
    let warden = if options.no_kill {
        None
    } else {
        Some(Warden::new().map_err(broken)?)
    };
    if let Some(front) = &mut front {
        front.die_with_it().map_err(broken)?;
    }
    let front = front.as_deref();
    let pid = front.map_or_else(std::process::id, Front::pid);
    let label = options.lock.label.clone();
    let label = label.unwrap_or_else(|| default_label(pid, &options.command));
    let client = connect::client(&options.connection, Some(label.clone()))?;
    let lock = lock(&client, options);
    lock.check()?;
    let broken = |e| Failure::new(exit::BUG, format!("signals cannot be caught: {e}"));
    let mut events = Events::of_a_worker().map_err(broken)?;
    if !options.quiet {
        let echo = voice.echo();
        set_log_sink(move |level, line| {
            if level == Level::Warn {
                echo(line.message());
            }
        });
    }
    let ours = (&client, &*label);
    let code = held(options, ours, &lock, &mut events, voice, (warden, front));
    // What is still to be undone or released is.
    blocking::wait(client.close());
    code
}

fn held(
    options: &Run,
    (client, label): (&Client, &str),
    lock: &Lock,
    events: &mut Events,
    voice: &mut Voice,
    (warden, front): (Option<Warden>, Option<&Front>),
) -> Result<i32, Failure> {
    let name = options.name.to_string_lossy();
    let begun = now();
    let hear = options.connection.node_timeout;
    let hear = hear.unwrap_or(defaults::NODE_TIMEOUT);
    let patience = Patience {
        wait: wait(options),
        votes: votes(options),
        hear,
        settles: settles(options).is_some(),
    };
    let lease = match acquire((client, label), lock, patience, events, voice) {
        Ok(lease) => lease,
        Err(NoLease::Signal(number)) => {
            let code = exit::SIGNAL + number;
            voice.tell(&json!({"event": "interrupted", "signal": number, "exit": code}));
            return Ok(code);
        }
        Err(NoLease::Failed(error)) => return refused(options, lock, &error, voice),
    };
    let waited = now() - begun;
    if options.print_wait {
        voice.say(&format!("waited {} for {name}", times::shown(waited)));
    }
    voice.tell(&json!({
        "event": "acquired", "lock": name, "fence": lease.fence(), "waited": waited.as_secs_f64(),
    }));
    let fence = lease.fence().map(|fence| fence.to_string());
    let slot = lease.slot().map(|slot| slot.to_string());
    let environment = [
        ("QUORLOCK_LOCK", options.name.clone()),
        ("QUORLOCK_FENCE", fence.unwrap_or_default().into()),
        ("QUORLOCK_SLOT", slot.unwrap_or_default().into()),
    ];
    let foreground = options.foreground || std::io::stdin().is_terminal();
    let rules = Rules {
        ttl: ttl(options),
        grace: options.grace,
        kill: !options.no_kill,
        foreground,
    };
    // A command that does not start needs the lock no longer, either: closing gives it back.
    let without: &[&str] = if options.no_nodes_env { &SECRETS } else { &[] };
    let start = || Child::start(&options.command, &environment, without, foreground);
    let mut child = match while_held(&lease, start)? {
        Ok(child) => child,
        Err(reason) => {
            let ended = LockEnd::new(reason, &lease);
            voice.say(&format!(
                "the lock was lost before the command was started, which it was not: {reason}{}",
                ended.told()
            ));
            let event = json!({
                "event": "lost", "reason": reason, "in_time": true, "exit": exit::LOST,
                "nodes": ended.nodes(),
            });
            voice.tell(&event);
            return Ok(exit::LOST);
        }
    };
    // What was typed until now may have come before the command.
    events.as_sent();
    let Outcome {
        child,
        lost,
        in_time,
    } = supervise(&lease, &mut child, &rules, events, voice, warden, front);
    // A command that was stopped for nodes that do not answer waits for them no longer.
    if lost.is_none() && !blocking::wait(lease.release())? {
        // It may also have been lost since; the command has ended before.
        voice.say(&format!(
            "too few nodes have acknowledged the release of {name}: it ends by its ttl at the latest"
        ));
    }
    let code = if lost.is_some() { exit::LOST } else { child };
    match lost {
        Some(ended) => {
            let how = if in_time {
                "the command was stopped before the lock was lost"
            } else {
                "the lock was lost while the command ran"
            };
            let reason = ended.reason;
            voice.say(&format!("{how}: {reason}{}", ended.told()));
            let event = json!({
                "event": "lost", "reason": reason, "in_time": in_time, "child": child, "exit": code,
                "nodes": ended.nodes(),
            });
            voice.tell(&event);
        }
        None => voice.tell(&json!({"event": "ended", "child": child, "exit": code})),
    }
    Ok(code)
}

/// Starts it, unless the lease is over by now, as after a pause of this process: then why.
fn while_held<T>(
    lease: &Lease,
    start: impl FnOnce() -> Result<T, Failure>,
) -> Result<Result<T, &'static str>, Failure> {
    if lease.is_held() {
        start().map(Ok)
    } else {
        Ok(Err(lease.loss().map_or("expired", LossReason::as_str)))
    }
}

/// There is no lease: held by another is an outcome that many expect.
fn refused(options: &Run, lock: &Lock, error: &Error, voice: &mut Voice) -> Result<i32, Failure> {
    if !matches!(error.kind(), ErrorKind::Contended | ErrorKind::Timeout) {
        return Err(error.clone().into());
    }
    let code = options.conflict_code.map_or(exit::HELD, i32::from);
    // The reply to a try by plain commands does not name the holder.
    let asked = || {
        blocking::wait(lock.holder())
            .ok()
            .flatten()?
            .label()
            .map(str::to_owned)
    };
    let holder = error.holder().map(str::to_owned).or_else(asked);
    // With a code of zero it is no failure, and cron sends mail for every line.
    if code != 0 {
        let by = holder
            .as_deref()
            .map(|label| format!("; it is held by {}", plain(label)));
        voice.say(&format!("{error}{}", by.unwrap_or_default()));
    }
    voice.tell(&json!({"event": "held", "holder": holder, "exit": code}));
    Ok(code)
}

fn lock(client: &Client, options: &Run) -> Lock {
    let mut lock = client.lock(options.name.as_bytes());
    if let Some(keep) = settles(options) {
        lock = lock.once(keep.saturating_mul(2).max(Duration::from_millis(20)));
        // Not as long as it is kept, which `once` asks for, unless that was said.
        lock = lock.ttl(ttl(options));
    }
    options.lock.on(lock).wait(wait(options)).renew(true)
}

/// Where every host tries in the same moment, and a single host must have it: for how long it stays
/// taken then.
fn settles(options: &Run) -> Option<Duration> {
    let keep = options.lock.keep.filter(|keep| !keep.is_zero());
    keep.filter(|_| options.no_wait)
}

/// How long a command that does not wait for the lock waits for votes: as long as a quarantine
/// lasts that is begun now, unless the user said. It is `max_ttl` and what the clocks' rates may
/// add, and 15 s more where other servers take over; the rest is for a connection or two.
fn votes(options: &Run) -> Duration {
    let max_ttl = options.connection.max_ttl.unwrap_or(defaults::MAX_TTL);
    let quarantine = max_ttl.mul_f64(1.05) + Duration::from_secs(20);
    options.votes.unwrap_or(quarantine)
}

/// How long the lock is waited for; without an end if there is none.
fn wait(options: &Run) -> Option<Duration> {
    if options.no_wait {
        Some(Duration::ZERO)
    } else {
        options.lock.wait
    }
}

/// The ttl that the lock has, as the core settles it.
fn ttl(options: &Run) -> Duration {
    let least = |ttl: Duration, bound: Option<Duration>| bound.map_or(ttl, |bound| ttl.min(bound));
    let usual = least(
        least(defaults::TTL, options.connection.max_ttl),
        options.lock.max_hold,
    );
    options.lock.ttl.unwrap_or(usual)
}

/// Host, process and command: at most 256 bytes, without control characters.
fn default_label(pid: u32, command: &[OsString]) -> String {
    let mut buffer = [0u8; 256];
    // SAFETY: the buffer is writable for its length, and its last byte stays zero.
    let failed = unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) } != 0;
    let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(0);
    let host = String::from_utf8_lossy(if failed { b"?" } else { &buffer[..end] });
    // Others see it, so what may be a secret is left out.
    let program = command
        .first()
        .filter(|word| given::program(word) == word.to_string_lossy());
    let program = program.map(Path::new).and_then(Path::file_name);
    let program = program.map(OsStr::to_string_lossy).unwrap_or_default();
    let short = |text: &str, most: usize| -> String {
        let text = text.chars().filter(|c| !c.is_control());
        text.scan(0, |length, c| {
            *length += c.len_utf8();
            (*length <= most).then_some(c)
        })
        .collect()
    };
    let (host, program) = (short(&host, 64), short(&program, 128));
    format!("{host}:{pid}:{program}")
}

#[cfg(test)]
mod tests {
    use quorlock::testing;

    use super::*;

    #[test]
    fn a_command_is_not_started_once_its_lock_is_lost() {
        let client = Client::new(testing::nodes(1)).expect("a URL");
        let lease = blocking::wait(client.lock("started").acquire()).expect("free");
        let started = |lease: &Lease| while_held(lease, || Ok(())).expect("it starts");
        assert_eq!(started(&lease), Ok(()));
        assert_eq!(testing::lose("started", LossReason::Expired), 1);
        assert_eq!(started(&lease), Err("expired"));
    }
}
