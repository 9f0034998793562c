//! The Lua scripts, and how they are called. The tables of KEYS and ARGV are in
//! docs/reference/protocol.md; this file and that page change together. What the scripts
//! answer is read in [`replies`](super::replies).
//!
//! Names and tokens travel as KEYS and ARGV, never as Lua text. On an
//! uncontended node a script makes as few calls as there can be: each costs the
//! server about as much as all the rest of a request.

use std::sync::Arc;
use std::time::Duration;

use super::resp::{self, Decimal};
use crate::node::hash_slot;
use crate::node::{AfterRelease, AuxKeys, Mode, Op, Repair, Request, Waiter};
use crate::process::LazyValue;

/// A script: its text, and the hash by which the node knows it.
pub(crate) struct Script {
    pub(crate) text: LazyValue<String>,
    pub(crate) sha: LazyValue<String>,
}

macro_rules! script {
    ($file:literal) => {
        Script {
            text: LazyValue::new(|| whole(include_str!(concat!("lua/", $file)))),
            sha: LazyValue::new(|| sha1_hex(&whole(include_str!(concat!("lua/", $file))))),
        }
    };
}

/// A script with the parts that several have, where it says so. What stands in the middle
/// of one is defined there only, for defining it costs about as much as a call.
fn whole(text: &str) -> String {
    let parts = [
        ("--- guard.lua\n", include_str!("lua/guard.lua")),
        ("--- value.lua\n", include_str!("lua/value.lua")),
        ("--- ban.lua\n", include_str!("lua/ban.lua")),
        ("--- form.lua\n", include_str!("lua/form.lua")),
        ("--- fits.lua\n", include_str!("lua/fits.lua")),
        ("--- lease.lua\n", include_str!("lua/lease.lua")),
        ("--- line.lua\n", include_str!("lua/line.lua")),
        ("--- join.lua\n", include_str!("lua/join.lua")),
        ("--- place.lua\n", include_str!("lua/place.lua")),
        ("--- vote.lua\n", include_str!("lua/vote.lua")),
        ("--- fence.lua\n", include_str!("lua/fence.lua")),
    ];
    parts.iter().fold(text.to_owned(), |text, (name, part)| {
        text.replace(name, part)
    })
}

/// Vote for a token, and fence it; queue its waiter.
pub(crate) static ACQUIRE: Script = script!("acquire.lua");
/// Keep a vote; repair it; store a fence.
pub(crate) static EXTEND: Script = script!("extend.lua");
/// Take a vote back; reserve for the next in line.
pub(crate) static RELEASE: Script = script!("release.lua");
/// Delete a lock that holds a value, and nothing else: a native release, for a server
/// that has no command for it.
pub(crate) static COMPARE_AND_DELETE: Script = script!("lean.lua");
/// Vote for a token that shares the lock; queue its waiter. Most clients never share, so a
/// node is given its text when it is asked for; the same of those that follow.
pub(crate) static SHARE: Script = script!("share.lua");
/// Keep such a vote, and what [`EXTEND`] does besides; make one of a vote for one alone.
pub(crate) static SHARE_EXTEND: Script = script!("share_extend.lua");
/// Take a vote over from another client. Seldom asked for.
pub(crate) static ADOPT: Script = script!("adopt.lua");
/// Enter a lock in Redisson's layout, keep it, leave it. Seldom asked for.
pub(crate) static HACQUIRE: Script = script!("hacquire.lua");
/// See [`HACQUIRE`].
pub(crate) static HEXTEND: Script = script!("hextend.lua");
/// See [`HACQUIRE`].
pub(crate) static HRELEASE: Script = script!("hrelease.lua");
/// Find a free slot of a semaphore, or queue the waiter for one.
pub(crate) static CHOOSE: Script = script!("choose.lua");
/// Let no more readers in, for a waiter.
pub(crate) static RESERVE: Script = script!("reserve.lua");
/// Keep a vote whose hash slot is being moved. Seldom asked for, too.
pub(crate) static PROLONG: Script = script!("prolong.lua");
/// Look what is there. Seldom asked for: a node is given its text then.
pub(crate) static INSPECT: Script = script!("inspect.lua");
/// Replaces a node's record, if it is still the record that the client has read.
pub(crate) static INIT: Script = script!("init.lua");
/// Find out which command is not permitted.
pub(crate) static TRY: Script = script!("try.lua");

/// The scripts of normal work, to be loaded on connect.
pub(crate) static ALL: [&Script; 4] = [&ACQUIRE, &EXTEND, &RELEASE, &COMPARE_AND_DELETE];

/// Stands for "at any time" where a script compares the node's `TIME`.
const ANY_TIME: u64 = (1 << 53) - 1;

/// What a connection adds to the requests of a guarded set.
#[derive(Clone)]
pub(crate) struct Guard {
    /// The record that the node must hold.
    pub(crate) record: Arc<str>,
    /// The record's key.
    pub(crate) record_key: Arc<[u8]>,
    /// The key of the quarantine.
    pub(crate) quarantine_key: Arc<[u8]>,
    /// Whether the node is a shard of a cluster: each hash slot has a quarantine of its own, whose
    /// key is this key with the hash slot's tag, and the scripts compare no record.
    pub(crate) shard: bool,
}

/// Stands for a record that is not compared.
const NO_RECORD: &str = "-";

impl Guard {
    /// The guard of a shard; `quarantine_key` as of any node.
    pub(crate) fn shard_of(quarantine_key: Arc<[u8]>) -> Guard {
        Guard {
            record: NO_RECORD.into(),
            record_key: quarantine_key.clone(),
            quarantine_key,
            shard: true,
        }
    }

    /// What goes with requests for this lock, of a shard.
    pub(crate) fn of_shard(&self, lock: &[u8]) -> Option<Guard> {
        let mark: Arc<[u8]> = if self.shard {
            mark(&self.quarantine_key, hash_slot::of(lock)).into()
        } else {
            return None;
        };
        Some(Guard {
            record: self.record.clone(),
            record_key: mark.clone(),
            quarantine_key: mark,
            shard: false,
        })
    }
}

/// The key of the quarantine of a hash slot, which is in that hash slot.
pub(crate) fn mark(quarantine_key: &[u8], slot: u16) -> Vec<u8> {
    [quarantine_key, b":{", hash_slot::tag(slot).as_bytes(), b"}"].concat()
}

/// The script that carries a request out, of a lock in a layout of ours.
pub(crate) fn of(request: &Request) -> &'static Script {
    match (request.op, request.keys.mode) {
        (Op::Reserve { .. }, _) => &RESERVE,
        (Op::Inspect, _) => &INSPECT,
        (_, Mode::AnySlot(_)) => &CHOOSE,
        (Op::Acquire { .. }, _) if request.keys.adopts.is_some() => &ADOPT,
        (Op::Acquire { .. }, Mode::Shared) => &SHARE,
        (Op::Acquire { .. }, _) => &ACQUIRE,
        (Op::Extend { .. } | Op::Confirm { .. }, Mode::Shared) => &SHARE_EXTEND,
        (Op::Extend { .. } | Op::Confirm { .. }, _) => &EXTEND,
        (Op::Release, _) => &RELEASE,
    }
}

/// Appends the script call for a request to `out`: `EVALSHA`, or `EVAL` with the
/// script's text for a node that has forgotten it. What neither guard nor fences need
/// is left out from the end. `cold`: an acquire is to lengthen the counter's life too.
pub(crate) fn write_command(
    out: &mut Vec<u8>,
    request: &Request,
    guard: Option<&Guard>,
    with_text: bool,
    cold: bool,
) {
    if let Op::Reserve { long } = request.op {
        return write_reserve(out, request, guard, long, with_text);
    }
    if let Mode::AnySlot(slots) = request.keys.mode
        && request.op != Op::Inspect
    {
        return write_choose(out, request, guard, slots, with_text);
    }
    let (keys, arguments) = lengths(request, guard);
    resp::write_array(out, 3 + keys + arguments);
    write_script(out, of(request), with_text);
    resp::write_number(out, keys as u64);
    write_keys(out, request, guard);
    if request.op == Op::Inspect {
        return resp::write_text(out, guard.map_or(b"", |guard| guard.record.as_bytes()));
    }
    resp::write_text(out, &request.value.0);
    write_own(out, request);
    if matches!(request.op, Op::Release) {
        let keep = keep(request);
        if guard.is_some() || keep.is_some() {
            resp::write_text(out, guard.map_or(b"", |guard| guard.record.as_bytes()));
        }
        match keep {
            Some(ReleaseTerm::For(long)) => resp::write_number(out, long),
            Some(ReleaseTerm::Ban(long)) => {
                resp::write_parts(out, &[b"-", Decimal::of(long).text()])
            }
            None => {}
        }
    } else if !is_plain(request, guard) {
        write_checks(out, request, guard, cold);
    }
}

/// Appends the call that lengthens a vote by its one key, if that is what is asked.
pub(crate) fn write_prolong(out: &mut Vec<u8>, request: &Request, ttl: Duration, with_text: bool) {
    resp::write_array(out, 7);
    write_script(out, &PROLONG, with_text);
    resp::write_number(out, 1);
    resp::write_text(out, &request.keys.lock);
    resp::write_text(out, &request.value.0);
    resp::write_number(out, millis(ttl));
    resp::write_number(out, not_after(request));
}

/// Appends the call that reserves the lock for the request's waiter, which does not share.
fn write_reserve(
    out: &mut Vec<u8>,
    request: &Request,
    guard: Option<&Guard>,
    long: Duration,
    with_text: bool,
) {
    let keys = 1 + 2 * usize::from(guard.is_some());
    resp::write_array(out, 3 + keys + 4);
    write_script(out, &RESERVE, with_text);
    resp::write_number(out, keys as u64);
    resp::write_text(out, &request.keys.lock);
    if let Some(guard) = guard {
        resp::write_text(out, &guard.record_key);
        resp::write_text(out, &guard.quarantine_key);
    }
    write_waiter(out, request.waiter.as_ref(), Mode::Exclusive);
    let [reservation, life] = [long, request.keys.waits.place].map(|d| Decimal::of(millis(d)));
    resp::write_parts(out, &[reservation.text(), b" ", life.text()]);
    resp::write_text(out, guard.map_or(b"", |guard| guard.record.as_bytes()));
    resp::write_number(out, not_after(request));
}

/// Appends the call that chooses among this many slots, or that a waiter for them goes.
fn write_choose(
    out: &mut Vec<u8>,
    request: &Request,
    guard: Option<&Guard>,
    slots: u32,
    with_text: bool,
) {
    let keys = 1 + slots as usize + 2 * usize::from(guard.is_some());
    resp::write_array(out, 3 + keys + 5);
    write_script(out, &CHOOSE, with_text);
    resp::write_number(out, keys as u64);
    resp::write_text(out, request.keys.aux.queue());
    for slot in 0..slots {
        resp::write_text(out, &request.keys.of_slot(slot).lock);
    }
    if let Some(guard) = guard {
        resp::write_text(out, &guard.record_key);
        resp::write_text(out, &guard.quarantine_key);
    }
    write_waiter(out, request.waiter.as_ref(), request.keys.mode);
    match request.op {
        Op::Acquire {
            home, candidate, ..
        } => {
            write_waits(out, request, home && request.waiter.is_some());
            resp::write_number(out, candidate);
        }
        _ => {
            write_waits(out, request, false);
            resp::write_text(out, b"");
        }
    }
    resp::write_text(out, guard.map_or(b"", |guard| guard.record.as_bytes()));
    resp::write_number(out, not_after(request));
}

/// Whether nothing but the lock's own life is minded: neither guard nor fences.
pub(crate) fn is_plain(request: &Request, guard: Option<&Guard>) -> bool {
    guard.is_none() && request.keys.counter().is_none()
}

/// How many fences are taken at once, where that is more than one.
fn block(request: &Request) -> Option<u32> {
    let block = match request.op {
        Op::Acquire { block, .. } | Op::Confirm { block, .. } => block,
        // The block begins at the lease's own fence. Readers take one fence, also a reader that had
        // the lock for itself before.
        Op::Extend { behind, .. } if request.keys.mode.is_alone() => behind + 1,
        Op::Extend { .. } | Op::Release | Op::Inspect | Op::Reserve { .. } => 1,
    };
    debug_assert!(
        block == 1 || request.keys.mode.is_alone(),
        "readers take one fence"
    );
    (block > 1 && request.keys.counter().is_some()).then_some(block)
}

/// What a release says of the time to come, in milliseconds.
#[derive(Clone, Copy)]
enum ReleaseTerm {
    /// The lock stays taken for so long.
    For(u64),
    /// The value is banned for so long.
    Ban(u64),
}

fn keep(request: &Request) -> Option<ReleaseTerm> {
    match request.leaving {
        AfterRelease::TakenFor(long) => Some(ReleaseTerm::For(millis(long))),
        AfterRelease::Forced(long) => Some(ReleaseTerm::Ban(millis(long))),
        // `TakenUntil` has become `TakenFor` by the time that the request is written.
        AfterRelease::Free | AfterRelease::TakenUntil(_) => None,
    }
}

/// How many keys a request has, and how many arguments.
fn lengths(request: &Request, guard: Option<&Guard>) -> (usize, usize) {
    let guarded = usize::from(guard.is_some());
    let voted = usize::from(!is_plain(request, guard));
    let more = 4 * voted + usize::from(block(request).is_some());
    let shared = usize::from(request.keys.mode == Mode::Shared);
    match request.op {
        Op::Acquire { .. } => {
            let queue = usize::from(request.keys.adopts.is_none());
            (3 + queue + voted + 2 * guarded, 4 + more)
        }
        // An extension of a shared vote may notify waiters, so it needs their queue and their
        // time-outs.
        Op::Extend { .. } | Op::Confirm { .. } => {
            (3 + shared + voted + 2 * guarded, 3 + shared + more)
        }
        Op::Release => {
            let (keys, more) = match keep(request) {
                Some(ReleaseTerm::Ban(_)) => (1, 2),
                Some(ReleaseTerm::For(_)) => (0, 2),
                None => (0, guarded),
            };
            (3 + 2 * guarded + keys, 3 + more)
        }
        Op::Inspect => (4 + 2 * guarded + slots(request) as usize, 1),
        Op::Reserve { .. } => (1 + 2 * guarded, 4),
    }
}

fn write_keys(out: &mut Vec<u8>, request: &Request, guard: Option<&Guard>) {
    let aux = &request.keys.aux;
    let votes = matches!(request.op, Op::Acquire { .. });
    let extends = matches!(request.op, Op::Extend { .. } | Op::Confirm { .. });
    let adopts = votes && request.keys.adopts.is_some();
    let shares = request.keys.mode == Mode::Shared;
    // A script that stores or keeps a token looks at the bans; a script that may notify waiters has
    // their queue.
    let queues = !adopts && (!extends || shares);
    resp::write_text(out, &request.keys.lock);
    if queues {
        resp::write_text(out, aux.queue());
    } else {
        write_marked(out, aux, b"x");
    }
    if aux.is_raw() {
        resp::write_text(out, &request.keys.lock);
    } else {
        write_marked(out, aux, b"s");
    }
    if queues && (votes || extends) {
        write_marked(out, aux, b"x");
    }
    if request.op == Op::Inspect {
        resp::write_text(out, request.keys.aux.counter());
    } else if !matches!(request.op, Op::Release) && !is_plain(request, guard) {
        // Without fences a key of the same lock stands in the counter's place.
        let counter = request.keys.counter();
        resp::write_text(out, counter.map_or(&request.keys.lock, |(key, _)| key));
    }
    if let Some(guard) = guard {
        resp::write_text(out, &guard.record_key);
        resp::write_text(out, &guard.quarantine_key);
    }
    if matches!(
        (request.op, request.leaving),
        (Op::Release, AfterRelease::Forced(_))
    ) {
        write_marked(out, aux, b"x");
    }
    for slot in 0..slots(request) {
        resp::write_text(out, &request.keys.of_slot(slot).lock);
    }
}

/// How many slots are looked at.
fn slots(request: &Request) -> u32 {
    match (request.op, request.keys.mode) {
        (Op::Inspect, Mode::AnySlot(slots)) => slots,
        _ => 0,
    }
}

/// Appends the key of that mark.
fn write_marked(out: &mut Vec<u8>, aux: &AuxKeys, mark: &[u8; 1]) {
    let queue = aux.queue();
    match aux.mark() {
        Some(at) => resp::write_parts(out, &[&queue[..at], mark, &queue[at + 1..]]),
        None => resp::write_text(out, queue),
    }
}

/// Appends the first two words of a script's call.
pub(crate) fn write_script(out: &mut Vec<u8>, script: &Script, with_text: bool) {
    if with_text {
        resp::write_text(out, b"EVAL");
        resp::write_text(out, script.text.as_bytes());
    } else {
        resp::write_text(out, b"EVALSHA");
        resp::write_text(out, script.sha.as_bytes());
    }
}

/// The arguments of each script behind the value and before what all share.
fn write_own(out: &mut Vec<u8>, request: &Request) {
    match request.op {
        Op::Acquire { ttl, home, .. } => {
            resp::write_number(out, millis(ttl));
            match &request.keys.adopts {
                Some(adopted) => {
                    resp::write_number(out, millis(adopted.ban));
                    resp::write_text(out, &adopted.value.0);
                }
                None => {
                    write_waits(out, request, home && request.waiter.is_some());
                    write_waiter(out, request.waiter.as_ref(), request.keys.mode);
                }
            }
        }
        Op::Extend { ttl, repair, .. } => {
            resp::write_number(out, millis(ttl));
            resp::write_number(out, mode(repair));
            write_shared_waits(out, request);
        }
        Op::Confirm { ttl, .. } => {
            resp::write_number(out, millis(ttl));
            resp::write_number(out, 3);
            write_shared_waits(out, request);
        }
        Op::Release => {
            write_waiter(out, request.waiter.as_ref(), request.keys.mode);
            write_waits(out, request, false);
        }
        Op::Inspect | Op::Reserve { .. } => {}
    }
}

/// The mode of an extension.
pub(crate) fn mode(repair: Repair) -> u64 {
    match repair {
        Repair::No => 0,
        Repair::Yes => 1,
        Repair::InQuarantine { .. } => 2,
    }
}

/// The waits of an extension that may call others.
fn write_shared_waits(out: &mut Vec<u8>, request: &Request) {
    if request.keys.mode == Mode::Shared {
        write_waits(out, request, false);
    }
}

/// The reservation, the life of a place, where a waiter `joins` how many may be queued, and
/// of a slot its number; of a reader a `+` if its home has let it in.
fn write_waits(out: &mut Vec<u8>, request: &Request, joins: bool) {
    let waits = request.keys.waits;
    let numbers = [
        millis(waits.reservation),
        millis(waits.place),
        waits.most.into(),
    ];
    let texts = numbers.map(Decimal::of);
    let [reservation, place, most] = texts.each_ref().map(Decimal::text);
    let mut parts: [&[u8]; 7] = [reservation, b" ", place, b"", b"", b"", b""];
    if joins {
        parts[3..5].copy_from_slice(&[b" ", most]);
    }
    if let (Op::Acquire { let_in: true, .. }, Mode::Shared) = (request.op, request.keys.mode) {
        parts[5] = b" +";
    }
    let slot = request
        .keys
        .mode
        .slot()
        .map(|slot| Decimal::of(slot.into()));
    if let Some(slot) = &slot {
        parts[5..7].copy_from_slice(&[b" #", slot.text()]);
    }
    resp::write_parts(out, &parts);
}

/// The record, until when, and what of fences: what a vote is checked by.
fn write_checks(out: &mut Vec<u8>, request: &Request, guard: Option<&Guard>, cold: bool) {
    resp::write_text(out, guard.map_or(b"", |g| g.record.as_bytes()));
    resp::write_number(out, not_after(request));
    let Some((_, ttl)) = request.keys.counter() else {
        resp::write_text(out, b"");
        resp::write_text(out, b"");
        return;
    };
    let (fence, lengthens) = match request.op {
        Op::Acquire { candidate, .. } => (candidate, cold),
        Op::Extend { fence, .. } | Op::Confirm { fence, .. } => (fence, true),
        Op::Release | Op::Inspect | Op::Reserve { .. } => (0, false),
    };
    resp::write_number(out, fence);
    if lengthens {
        resp::write_number(out, millis(ttl + ttl / 4));
    } else {
        resp::write_text(out, b"");
    }
    if let Some(block) = block(request) {
        resp::write_number(out, block.into());
    }
}

/// The `TIME` after which a request does nothing, as it goes over the wire.
pub(crate) fn not_after(request: &Request) -> u64 {
    match request.not_after {
        0 => ANY_TIME,
        time => time.min(ANY_TIME),
    }
}

/// Appends the waiter as one word: its number, a blank, its inbox; before that an `s` if it is to
/// share the lock; an empty word for no waiter.
fn write_waiter(out: &mut Vec<u8>, waiter: Option<&Waiter>, mode: Mode) {
    match waiter {
        Some(waiter) => {
            let number = Decimal::of(waiter.number);
            let shares: &[u8] = if mode.is_alone() { b"" } else { b"s" };
            resp::write_parts(out, &[shares, number.text(), b" ", &waiter.inbox]);
        }
        None => resp::write_text(out, b""),
    }
}

pub(crate) fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// The init script: replace the record if it is `old` (empty: none), and begin
/// a quarantine. `keys`: those of the record and of the quarantine.
pub(crate) fn init_command(
    keys: [&[u8]; 2],
    old: &str,
    new: &str,
    (quarantine, cause): (Duration, &str),
) -> redis::Cmd {
    redis::cmd("EVAL")
        .arg(INIT.text.as_str())
        .arg(2)
        .arg(keys[0])
        .arg(keys[1])
        .arg(old)
        .arg(new)
        .arg(millis(quarantine))
        .arg(cause)
        .take()
}

/// SHA-1 in hex, as `EVALSHA` wants it.
fn sha1_hex(text: &str) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}
