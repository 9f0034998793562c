//! Our scripts on the wire: from KEYS and ARGV to the operation that a memory node
//! carries out, and from what came of it to the reply. What a script means is the
//! memory node's, which `tests/model` compares with real servers; this is the other
//! end of `script.rs` and `replies.rs` of the core, written from docs/reference/protocol.md.

mod replies;

use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::probe;
use quorlock::sim::{
    Adoption, AfterRelease, AuxKeys, Keys, Mode, Op, Repair, Request, Value, Waiter, Waits,
};

use super::resp::number;
pub use replies::{answer, moment, text};

/// "At any time", as the client writes it.
const ANY_TIME: u64 = (1 << 53) - 1;

/// A script that a server may be asked to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Vote for a token.
    Acquire,
    /// Keep a vote.
    Extend,
    /// Take it back.
    Release,
    /// Take it back where nobody waits.
    Lean,
    /// Look what is there.
    Inspect,
    /// Vote for a token that shares.
    Share,
    /// Keep such a vote.
    ShareExtend,
    /// Let no more readers in.
    Reserve,
    /// Find a free slot of a semaphore, or go.
    Choose,
    /// Take a vote over.
    Adopt,
    /// Replace the node's record.
    Init,
    /// Try permissions.
    Try,
}

impl Script {
    /// The scripts that may be called by their hash, in the order of [`probe::scripts`].
    const LOADED: [Script; 10] = [
        Script::Acquire,
        Script::Extend,
        Script::Release,
        Script::Lean,
        Script::Inspect,
        Script::Share,
        Script::ShareExtend,
        Script::Reserve,
        Script::Choose,
        Script::Adopt,
    ];

    /// The script of that text.
    pub fn of_text(text: &[u8]) -> Option<Script> {
        let known = probe::scripts().into_iter().zip(Script::LOADED);
        let mut known = known.map(|((_, known, _), script)| (known, script));
        let known = known.find(|(known, _)| known.as_bytes() == text);
        let others = [
            (probe::init_text(), Script::Init),
            (probe::try_text(), Script::Try),
        ];
        let mut others = others.into_iter();
        let other = || others.find(|(known, _)| known.as_bytes() == text);
        known.or_else(other).map(|(_, script)| script)
    }

    /// The script of that hash, among those that are loaded.
    pub fn of_sha(sha: &[u8]) -> Option<Script> {
        let mut known = probe::scripts().into_iter().zip(Script::LOADED);
        let known = known.find(|((_, _, known), _)| known.as_bytes() == sha);
        known.map(|(_, script)| script)
    }

    /// The hash under which it is asked for; none of one that is not loaded.
    pub fn sha(self) -> &'static str {
        let known = probe::scripts().into_iter().zip(Script::LOADED);
        let mut known = known.filter(|(_, script)| *script == self);
        known.next().map_or("", |((_, _, sha), _)| sha)
    }

    /// Its bit among those that a server has loaded.
    pub fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// A request as the server has it.
#[derive(Debug)]
pub struct Call {
    /// What to do.
    pub request: Request,
    /// What the node must hold; `None`: any record.
    pub record: Option<Arc<str>>,
    /// Whether the reply says the node's `TIME`.
    pub told: bool,
    /// Whether it asks for fences.
    fenced: bool,
}

/// What a call of `inspect` asks for.
fn look(keys: &[&[u8]], args: &[&[u8]]) -> Option<Call> {
    let [lock, queue, shared, counter, more @ ..] = keys else {
        return None;
    };
    let [record] = args else { return None };
    let (aux, mode) = aux(queue, lock)?;
    let fits = record.is_empty() == more.is_empty()
        && matches!(more, [] | [_, _])
        && *counter == aux.counter()
        && *shared == third(&aux, lock);
    fits.then(|| Call {
        request: Request {
            op: Op::Inspect,
            native: false,
            keys: Arc::new(Keys {
                lock: (*lock).into(),
                aux,
                waits: NO_WAITS,
                fence_ttl: None,
                mode,
                adopts: None,
                field: None,
            }),
            value: Value([].into()),
            waiter: None,
            leaving: AfterRelease::Free,
            not_after: 0,
        },
        record: (!record.is_empty()).then(|| text(record).into()),
        told: true,
        fenced: true,
    })
}

/// What a call of `reserve` asks for. It names no queue, and needs none.
fn reserve(keys: &[&[u8]], args: &[&[u8]]) -> Option<Call> {
    let lock = *keys.first()?;
    let [waiter_text, life, record, not_after] = args else {
        return None;
    };
    let fits = keys.len() == if record.is_empty() { 1 } else { 3 };
    let (times, _) = waits(life)?;
    let waiter = match waiter(waiter_text)? {
        Some((waiter, Mode::Exclusive)) => waiter,
        _ => return None,
    };
    let not_after = number(not_after).filter(|time| *time <= ANY_TIME)?;
    let prefix = lock.iter().position(|b| *b == b':')? + 1;
    let queue = [&lock[..prefix], b"#q:", &lock[prefix..]].concat();
    let aux = aux(&queue, lock)?.0;
    fits.then(|| Call {
        request: Request {
            op: Op::Reserve {
                long: times.reservation,
            },
            native: false,
            keys: Arc::new(Keys {
                lock: lock.into(),
                aux,
                waits: times,
                fence_ttl: None,
                mode: Mode::Exclusive,
                adopts: None,
                field: None,
            }),
            value: Value([].into()),
            waiter: Some(waiter),
            leaving: AfterRelease::Free,
            not_after: if not_after == ANY_TIME { 0 } else { not_after },
        },
        record: (!record.is_empty()).then(|| text(record).into()),
        told: true,
        fenced: false,
    })
}

/// What a call of `choose` asks for: a slot, or that the waiter goes.
fn choose(keys: &[&[u8]], args: &[&[u8]]) -> Option<Call> {
    let [waiter_text, waits_text, from, record, not_after] = args else {
        return None;
    };
    let guarded = 2 * usize::from(!record.is_empty());
    let (queue, slots) = keys[..keys.len().checked_sub(guarded)?].split_first()?;
    let at = queue.windows(4).position(|w| w == b"#pq:")?;
    let (start, end) = (&queue[..at], &queue[at + 3..]);
    let named = |mark: &str| [start, mark.as_bytes(), end].concat();
    let mut in_order = (0..slots.len()).zip(slots);
    let fits = in_order.all(|(i, key)| **key == *named(&format!("#p{i}")));
    let (waits, _) = waits(waits_text)?;
    let waiter = match waiter(waiter_text)? {
        Some((_, Mode::Shared)) => return None,
        waiter => waiter.map(|(waiter, _)| waiter),
    };
    let not_after = number(not_after).filter(|time| *time <= ANY_TIME)?;
    let op = if from.is_empty() {
        Op::Release
    } else {
        Op::Acquire {
            ttl: Duration::ZERO,
            candidate: number(from)?,
            home: waits.most > 0,
            let_in: false,
            block: 1,
        }
    };
    fits.then(|| Call {
        request: Request {
            op,
            native: false,
            keys: Arc::new(Keys {
                lock: named("#p").into(),
                aux: AuxKeys::of(queue, &named("#pf")),
                waits,
                fence_ttl: None,
                mode: Mode::AnySlot(slots.len() as u32),
                adopts: None,
                field: None,
            }),
            value: Value([].into()),
            waiter,
            leaving: AfterRelease::Free,
            not_after: if not_after == ANY_TIME { 0 } else { not_after },
        },
        record: (!record.is_empty()).then(|| text(record).into()),
        told: op != Op::Release,
        fenced: false,
    })
}

/// The key that requests have for that of the readers.
fn third(aux: &AuxKeys, lock: &[u8]) -> Vec<u8> {
    if aux.is_raw() {
        lock.to_vec()
    } else {
        aux.shared()
    }
}

/// The keys that go with that lock's own, of which this is one; and whether it is a slot.
fn aux(one: &[u8], lock: &[u8]) -> Option<(AuxKeys, Mode)> {
    let is_slot = one
        .windows(4)
        .position(|w| w[..2] == *b"#p" && w[3] == b':');
    let (mark, number, mode) = match is_slot {
        Some(at) => {
            let digits = lock[at + 2..].split(|b| *b == b':').next()?;
            (
                at + 2,
                digits,
                Mode::Slot(u32::try_from(number(digits)?).ok()?),
            )
        }
        None => {
            let at = one.windows(3).position(|w| w[0] == b'#' && w[2] == b':')?;
            (at + 1, &[][..], Mode::Exclusive)
        }
    };
    let named = |letter: u8, number: &[u8]| {
        let (start, end) = (&one[..mark], &one[mark + 1..]);
        [start, &[letter], number, end].concat()
    };
    Some((AuxKeys::of(&named(b'q', b""), &named(b'f', number)), mode))
}

/// What a call of a script asks for; `None`: no client of ours writes that.
pub fn call(script: Script, keys: &[&[u8]], args: &[&[u8]]) -> Option<Call> {
    match script {
        Script::Inspect => return look(keys, args),
        Script::Reserve => return reserve(keys, args),
        Script::Choose => return choose(keys, args),
        _ => {}
    }
    let millis = |place: usize| Some(Duration::from_millis(number(args.get(place)?)?));
    // Of one that its home has let in.
    let let_in = args.get(2).filter(|_| script == Script::Share);
    let let_in = let_in.and_then(|waits| waits.strip_suffix(b" +"));
    // How many arguments are its own, who waits, and its waits; how many keys are its own.
    let ((own, own_keys), waiter, waits) = match script {
        Script::Acquire | Script::Share => {
            let said = waits(let_in.unwrap_or(args.get(2)?))?;
            ((4, 4), waiter(args.get(3)?)?, said)
        }
        Script::Adopt => ((4, 3), None, (NO_WAITS, None)),
        Script::Extend => ((3, 3), None, (NO_WAITS, None)),
        Script::ShareExtend => ((4, 4), None, waits(args.get(3)?)?),
        Script::Release => ((3, 3), waiter(args.get(1)?)?, waits(args.get(2)?)?),
        _ => return None,
    };
    let (waits, slot) = waits;
    let shares = matches!(script, Script::Share | Script::ShareExtend);
    let mode = match (&waiter, shares) {
        // A release says by its waiter how it asked.
        (Some((_, mode)), false) if script == Script::Release => *mode,
        (Some((_, mode)), _) if (*mode == Mode::Shared) != shares => return None,
        (_, true) => Mode::Shared,
        (_, false) => Mode::Exclusive,
    };
    let waiter = waiter.map(|(waiter, _)| waiter);
    let more = args.get(own..)?;
    let release = script == Script::Release;
    let (aux, of_slot) = aux(keys.get(1)?, keys[0])?;
    let mode = match of_slot {
        Mode::Slot(_) if shares || mode != Mode::Exclusive => return None,
        Mode::Slot(_) => of_slot,
        _ => mode,
    };
    // Whoever may call others says for which slot.
    let says = matches!(script, Script::Acquire | Script::Release);
    if slot != mode.slot().filter(|_| says) {
        return None;
    }
    let said = more.get(1).filter(|_| release);
    let ban = said.and_then(|said| said.strip_prefix(b"-"));
    let bans = usize::from(ban.is_some());
    let bans_fit = bans == 0 || *keys.last()? == aux.bans();
    let fits = match (
        release,
        more.len(),
        keys.len().checked_sub(own_keys + bans)?,
    ) {
        (_, 0, 0) => true,
        // With what is kept, or without.
        (true, 1 | 2, 2) => !more[0].is_empty(),
        (true, 2, 0) => more[0].is_empty(),
        (false, 4 | 5, 1) => more[0].is_empty(),
        (false, 4 | 5, 3) => !more[0].is_empty(),
        _ => false,
    };
    let leaving = match (ban, said) {
        (Some(long), _) => AfterRelease::Forced(Duration::from_millis(number(long)?)),
        (None, Some(long)) => AfterRelease::TakenFor(Duration::from_millis(number(long)?)),
        (None, None) => AfterRelease::Free,
    };
    let told = !release && !more.is_empty();
    let fence = if told && !more[2].is_empty() {
        Some(number(more[2])?)
    } else {
        None
    };
    // The life of a counter is told by a quarter longer than is promised; where it is
    // not told, it was lately.
    let fence_ttl = match fence {
        Some(_) if more[3].is_empty() => Some(Duration::ZERO),
        Some(_) => Some(Duration::from_millis(number(more[3])?) * 4 / 5),
        None => None,
    };
    let block = match more.get(4) {
        Some(block) => number(block)?.try_into().ok()?,
        None => 1,
    };
    let not_after = if told {
        number(more[1]).filter(|time| *time <= ANY_TIME)?
    } else {
        0
    };
    let op = match script {
        Script::Release => Op::Release,
        Script::Acquire | Script::Share | Script::Adopt => Op::Acquire {
            ttl: millis(1)?,
            candidate: fence.unwrap_or(0),
            home: waits.most > 0,
            let_in: let_in.is_some(),
            block,
        },
        _ => extension(millis(1)?, args[2], fence.unwrap_or(0), block)?,
    };
    let adopts = match script {
        Script::Adopt => Some(Box::new(Adoption {
            value: Value((*args.get(3)?).into()),
            ban: millis(2)?,
        })),
        _ => None,
    };
    let second = match script {
        Script::Extend | Script::Adopt => aux.bans() == keys[1],
        _ => aux.queue() == keys[1],
    };
    let third = third(&aux, keys[0]) == *keys.get(2)?;
    let fourth = own_keys == 3 || aux.bans() == *keys.get(3)?;
    let second = second && third && fourth && (!shares || block == 1);
    let counter = fence.is_none() || keys.get(own_keys) == Some(&aux.counter());
    (fits && bans_fit && second && counter).then(|| Call {
        request: Request {
            op,
            native: false,
            keys: Arc::new(Keys {
                lock: keys[0].into(),
                aux,
                waits,
                fence_ttl,
                mode,
                adopts,
                field: None,
            }),
            value: Value(args[0].into()),
            waiter,
            leaving,
            not_after: if not_after == ANY_TIME { 0 } else { not_after },
        },
        record: more
            .first()
            .filter(|r| !r.is_empty())
            .map(|record| text(record).into()),
        told,
        fenced: fence.is_some(),
    })
}

fn extension(ttl: Duration, mode: &[u8], fence: u64, block: u32) -> Option<Op> {
    let repair = match mode {
        b"0" => Repair::No,
        b"1" => Repair::Yes,
        b"2" => Repair::InQuarantine { server: 0 },
        b"3" => return Some(Op::Confirm { ttl, fence, block }),
        _ => return None,
    };
    Some(Op::Extend {
        ttl,
        repair,
        fence,
        behind: block - 1,
    })
}

/// `number inbox`, of one that shares with an `s` before it, or nothing.
fn waiter(text: &[u8]) -> Option<Option<(Waiter, Mode)>> {
    if text.is_empty() {
        return Some(None);
    }
    let (text, mode) = match text.strip_prefix(b"s") {
        Some(rest) => (rest, Mode::Shared),
        None => (text, Mode::Exclusive),
    };
    let blank = text.iter().position(|b| *b == b' ')?;
    let waiter = Waiter {
        number: number(&text[..blank])?,
        inbox: text[blank + 1..].into(),
    };
    Some(Some((waiter, mode)))
}

/// Of requests that know of no line.
const NO_WAITS: Waits = Waits {
    reservation: Duration::ZERO,
    place: Duration::ZERO,
    most: 0,
};

/// The reservation, the life of a place, how many may be queued; and of which slot it is.
fn waits(text: &[u8]) -> Option<(Waits, Option<u32>)> {
    let (text, slot) = match text.iter().position(|b| *b == b'#') {
        Some(at) => (
            text[..at].strip_suffix(b" ")?,
            Some(u32::try_from(number(&text[at + 1..])?).ok()?),
        ),
        None => (text, None),
    };
    let millis = text.split(|b| *b == b' ').map(number);
    let millis = millis.collect::<Option<Vec<_>>>()?;
    let (place, most) = match millis[1..] {
        [place] => (place, 0),
        [place, most] => (place, u32::try_from(most).ok()?),
        _ => return None,
    };
    let waits = Waits {
        reservation: Duration::from_millis(millis[0]),
        place: Duration::from_millis(place),
        most,
    };
    Some((waits, slot))
}
