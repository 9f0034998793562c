//! The judges of a round, and a run that shows that each of them can fail.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use quorlock::{Error, ErrorKind, set_log_sink};
use quorlock_tests::{Stage, nap};

use super::{IDLE, Judge, MEMORY, PACE, PANICS, is_had, pace, used};

/// A lease that is told as held before and behind the look.
pub(super) fn judge_held(
    judge: &mut Judge,
    honest: &[String],
    key: &[u8],
    token: &str,
    held: impl Fn() -> bool,
) {
    if !is_had(honest, key, token) && held() {
        judge.fail("a lease that no healthy node has is told as held");
    }
}

pub(super) fn judge_pace(judge: &mut Judge, mood: &str, ratio: f64) {
    if ratio < PACE {
        judge.fail(format!(
            "the healthy nodes are at {ratio:.2} of their pace beside one that {mood}"
        ));
    }
}

pub(super) fn judge_idle(judge: &mut Judge, part: f64) {
    if part > IDLE {
        judge.fail(format!("a flooded client takes {part:.2} of a processor"));
    }
}

pub(super) fn judge_memory(judge: &mut Judge, before: u64, now: u64) {
    if now > before + MEMORY {
        judge.fail(format!("memory: {now} KiB, {before} before"));
    }
}

pub(super) fn judge_panics(judge: &mut Judge) {
    let panics = PANICS.swap(0, Ordering::Relaxed);
    if panics > 0 {
        judge.fail(format!("{panics} panics"));
    }
}

/// Counts panics, wherever they are caught, and looks at each line of the log.
pub(super) fn listen(odd: &'static AtomicUsize) {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        told(info);
    }));
    set_log_sink(move |_, line| {
        if line.message().chars().any(char::is_control) || line.message().chars().count() > 2_500 {
            odd.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Each judge sees what it is for.
pub(super) fn judges(stage: &Stage) -> ExitCode {
    let mut seen = 0;
    let mut check = |what: &str, spoil: &mut dyn FnMut(&mut Judge)| {
        let mut judge = Judge::default();
        spoil(&mut judge);
        seen += usize::from(!judge.failed.is_empty());
        println!(
            "{} {what}",
            if judge.failed.is_empty() {
                "FAIL"
            } else {
                "ok  "
            }
        );
    };
    check("a call that does not end", &mut |judge| {
        judge.call("x", Duration::from_millis(10), || {
            nap(Duration::from_millis(500));
            Ok(())
        });
    });
    check("a text that ends a line", &mut |judge| {
        judge.text("x", "a\nb")
    });
    check("a text without end", &mut |judge| {
        judge.text("x", &"x".repeat(3_000))
    });
    check("an error that names no node", &mut |judge| {
        let error = Error::from_binding(ErrorKind::QuorumUnavailable, "no");
        judge.error("x", &error);
    });
    check("a bug", &mut |judge| {
        judge.error("x", &Error::from_binding(ErrorKind::Internal, "no"));
    });
    check("a panic", &mut |judge| {
        let _ = thread::spawn(|| panic!("for the judge")).join();
        judge_panics(judge);
    });
    check("a lease that nobody has", &mut |judge| {
        let honest: Vec<_> = stage
            .nodes
            .iter()
            .map(|node| node.replace("redis://", ""))
            .collect();
        judge_held(judge, &honest, b"nothing", "token", || true);
    });
    check("healthy nodes that are slow", &mut |judge| {
        let ratio = pace(stage, 1, "honest", Duration::from_millis(2)).unwrap_or(0.0);
        judge_pace(judge, "honest", ratio);
    });
    check("a busy client", &mut |judge| {
        let before = used();
        while used() - before < 600_000_000 {
            std::hint::spin_loop();
        }
        judge_idle(judge, (used() - before) as f64 / 1e9);
    });
    check("memory", &mut |judge| judge_memory(judge, 1, MEMORY + 2));
    println!("{seen} passed, {} failed", 10 - seen);
    ExitCode::from(u8::from(seen != 10))
}
