//! The Lua scripts, and how they are called. The tables of KEYS and ARGV are in
//! docs/PROTOCOL.md; this file and that page change together. What the scripts
//! answer is read in [`replies`](super::replies).
//!
//! Names and tokens travel as KEYS and ARGV, never as Lua text. On an
//! uncontended node a script makes as few calls as there can be: each costs the
//! server about as much as all the rest of a request.

use std::sync::Arc;
use std::time::Duration;

use once_cell::sync::Lazy;

use super::resp::{self, Decimal};
use crate::node::{Op, Repair, Request, Waiter};

/// A script: its text, and the hash by which the node knows it.
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) sha: Lazy<String>,
}

macro_rules! script {
    ($($file:literal),+) => {
        Script {
            text: concat!($(include_str!(concat!("lua/", $file))),+),
            sha: Lazy::new(|| sha1_hex(concat!($(include_str!(concat!("lua/", $file))),+))),
        }
    };
}

/// Vote for a token, and fence it; queue its waiter.
pub(crate) static ACQUIRE: Script = script!("line.lua", "acquire.lua");
/// Keep a vote; repair it; store a fence.
pub(crate) static EXTEND: Script = script!("extend.lua");
/// Take a vote back; reserve for the next in line.
pub(crate) static RELEASE: Script = script!("line.lua", "release.lua");
/// Replace a node's record, if it is still the one that was read.
pub(crate) static INIT: Script = script!("init.lua");
/// Find out which command is not permitted.
pub(crate) static TRY: Script = script!("try.lua");

/// The scripts of normal work, to be loaded on connect.
pub(crate) static ALL: [&Script; 3] = [&ACQUIRE, &EXTEND, &RELEASE];

/// Stands for "at any time" where a script compares the node's `TIME`.
const ANY_TIME: u64 = (1 << 53) - 1;

/// What a connection adds to the requests of a guarded set.
#[derive(Clone)]
pub(crate) struct Guard {
    /// The record that the node must hold.
    pub(crate) record: Arc<str>,
    /// Its key.
    pub(crate) record_key: Arc<[u8]>,
    /// The key of the quarantine.
    pub(crate) quarantine_key: Arc<[u8]>,
}

/// Appends the command for a request to `out`: `EVALSHA`, or `EVAL` with the
/// script's text for a node that has forgotten it. What neither guard nor
/// fences need is left out from the end.
pub(crate) fn write_command(
    out: &mut Vec<u8>,
    request: &Request,
    guard: Option<&Guard>,
    with_text: bool,
) {
    let (script, own, fence) = match request.op {
        Op::Acquire { candidate, .. } => (&ACQUIRE, 4, candidate),
        Op::Extend { fence, .. } | Op::Confirm { fence, .. } => (&EXTEND, 3, fence),
        Op::Release => (&RELEASE, 3, 0),
    };
    let release = request.op == Op::Release;
    let counter = request.keys.counter().filter(|_| !release);
    let plain = guard.is_none() && counter.is_none();
    let block = match request.op {
        Op::Acquire { block, .. } if block > 1 && counter.is_some() => Some(block),
        _ => None,
    };
    // A release minds the record only, and no counter.
    let (keys, more) = match (plain, release) {
        (true, _) => (3, 0),
        (false, true) => (5, 1),
        (false, false) => (4 + 2 * usize::from(guard.is_some()), 4),
    };
    resp::write_array(out, 3 + keys + own + more + usize::from(block.is_some()));
    if with_text {
        resp::write_text(out, b"EVAL");
        resp::write_text(out, script.text.as_bytes());
    } else {
        resp::write_text(out, b"EVALSHA");
        resp::write_text(out, script.sha.as_bytes());
    }
    resp::write_number(out, keys as u64);
    resp::write_text(out, &request.keys.lock);
    resp::write_text(out, request.keys.companions.queue());
    resp::write_text(out, request.keys.companions.reservation());
    if !plain && !release {
        // Without fences the place is kept by a key of the same lock.
        resp::write_text(out, counter.map_or(&request.keys.lock, |(key, _)| key));
    }
    if let Some(guard) = guard {
        resp::write_text(out, &guard.record_key);
        resp::write_text(out, &guard.quarantine_key);
    }
    resp::write_text(out, &request.value.0);
    write_own(out, request);
    if plain {
        return;
    }
    resp::write_text(out, guard.map_or(b"", |g| g.record.as_bytes()));
    if release {
        return;
    }
    resp::write_number(
        out,
        match request.not_after {
            0 => ANY_TIME,
            time => time.min(ANY_TIME),
        },
    );
    match counter {
        Some((_, ttl)) => {
            resp::write_number(out, fence);
            resp::write_number(out, millis(ttl));
        }
        None => {
            resp::write_text(out, b"");
            resp::write_text(out, b"");
        }
    }
    if let Some(block) = block {
        resp::write_number(out, block.into());
    }
}

/// The arguments of each script behind the value and before what all share.
fn write_own(out: &mut Vec<u8>, request: &Request) {
    let waits = request.keys.waits;
    let reservation = millis(waits.reservation);
    match request.op {
        Op::Acquire { ttl, home, .. } => {
            resp::write_number(out, millis(ttl));
            if home && request.waiter.is_some() {
                let texts = [reservation, millis(waits.place), waits.most as u64].map(Decimal::of);
                let [reservation, place, most] = texts.each_ref().map(Decimal::text);
                resp::write_parts(out, &[reservation, b" ", place, b" ", most]);
            } else {
                resp::write_number(out, reservation);
            }
            write_waiter(out, request.waiter.as_ref());
        }
        Op::Extend { ttl, repair, .. } => {
            resp::write_number(out, millis(ttl));
            let mode = match repair {
                Repair::No => 0,
                Repair::Yes => 1,
                Repair::InQuarantine { .. } => 2,
            };
            resp::write_number(out, mode);
        }
        Op::Confirm { ttl, .. } => {
            resp::write_number(out, millis(ttl));
            resp::write_number(out, 3);
        }
        Op::Release => {
            write_waiter(out, request.waiter.as_ref());
            resp::write_number(out, reservation);
        }
    }
}

/// The number, a blank, the inbox; empty for none.
fn write_waiter(out: &mut Vec<u8>, waiter: Option<&Waiter>) {
    match waiter {
        Some(waiter) => {
            let number = Decimal::of(waiter.number);
            resp::write_parts(out, &[number.text(), b" ", &waiter.inbox]);
        }
        None => resp::write_text(out, b""),
    }
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// The init script: replace the record if it is `old` (empty: none), and begin
/// a quarantine. `keys`: those of the record and of the quarantine.
pub(crate) fn init_command(
    keys: [&[u8]; 2],
    old: &str,
    new: &str,
    quarantine: Duration,
) -> redis::Cmd {
    redis::cmd("EVAL")
        .arg(INIT.text)
        .arg(2)
        .arg(keys[0])
        .arg(keys[1])
        .arg(old)
        .arg(new)
        .arg(millis(quarantine))
        .take()
}

/// SHA-1 in hex, as `EVALSHA` wants it.
fn sha1_hex(text: &str) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}
