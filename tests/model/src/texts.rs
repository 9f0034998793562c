//! How the directed table writes what is on a node, and what it says.

use quorlock::sim::probe::ProbeReply;
use quorlock::sim::{Reply, Value};

use crate::calls::INBOXES;
use crate::game::START;

/// A moment: ms from the beginning of a case, with up to three decimals.
pub fn micros(ms: &str) -> u64 {
    let ms: f64 = ms.parse().expect("ms");
    START.saturating_add_signed((ms * 1000.0).round() as i64)
}

pub fn millis_shown(micros: u64) -> String {
    let offset = micros as i64 - START as i64;
    format!("{}", offset as f64 / 1000.0)
}

/// A fence: µs from the beginning of a case; `0` for none.
pub fn fence(word: &str) -> u64 {
    match word {
        "0" => 0,
        _ => START.saturating_add_signed(word.parse().expect("a fence")),
    }
}

pub fn fence_shown(fence: u64) -> String {
    match fence {
        0 => "0".to_owned(),
        _ => format!("{:+}", fence as i64 - START as i64),
    }
}

/// The value of that letter; `-` for none; any other text is itself.
pub fn value(word: &str) -> Vec<u8> {
    match word.as_bytes() {
        b"-" => Vec::new(),
        [letter @ b'A'..=b'F'] => {
            let digit = letter.to_ascii_lowercase();
            [&[digit; 40][..], b".", &[digit]].concat()
        }
        // A token as others write it: of 40 digits too, and without a dot.
        b"token" => [b'a'; 40].to_vec(),
        other => other.to_vec(),
    }
}

/// A waiter as nodes store it.
fn stored_waiter(word: &str) -> Vec<u8> {
    let number: usize = word.trim_start_matches('s').parse().expect("a waiter");
    [word.as_bytes(), b" ", INBOXES[number - 1]].concat()
}

/// For whom a lock is reserved: a waiter, readers up to a ticket (`s=3`), or nobody.
fn stored_whom(word: &str) -> Vec<u8> {
    match word.strip_prefix("s=") {
        Some(ticket) => format!("s{ticket}").into_bytes(),
        None if word.is_empty() => Vec::new(),
        None => stored_waiter(word),
    }
}

fn whom(stored: &[u8]) -> String {
    match stored.strip_prefix(b"s") {
        Some(ticket) if !ticket.contains(&b' ') => {
            format!("s={}", String::from_utf8_lossy(ticket))
        }
        _ if stored.is_empty() => String::new(),
        _ => waiter(stored),
    }
}

/// What a lock's key holds, from its notation: `A`, `=100:A`, `-100:A`, `@100:1`, `@0:`,
/// `&0:+7:` (readers, whose base that fence is), `&100:0:1`, `@100:s=3`, or any text.
pub fn form(word: &str) -> Vec<u8> {
    let Some((mark, rest)) = word
        .split_at_checked(1)
        .filter(|(mark, _)| "=-@&".contains(mark))
    else {
        return value(word);
    };
    let Some((end, who)) = rest.split_once(':') else {
        return word.as_bytes().to_vec();
    };
    let end = if end == "0" { 0 } else { micros(end) };
    let who = match (mark, who) {
        ("@", who) => stored_whom(who),
        ("&", who) => {
            let Some((base, who)) = who.split_once(':') else {
                return word.as_bytes().to_vec();
            };
            [format!("{} ", fence(base)).as_bytes(), &stored_whom(who)].concat()
        }
        (_, who) => value(who),
    };
    [format!("{mark}{end} ").as_bytes(), &who].concat()
}

/// The waiter's number.
pub fn waiter(member: &[u8]) -> String {
    let words = (1..=INBOXES.len()).flat_map(|n| [n.to_string(), format!("s{n}")]);
    let known = words.into_iter().find(|word| stored_waiter(word) == member);
    known.unwrap_or_else(|| member.escape_ascii().to_string())
}

/// The notation of what a lock's key holds.
pub fn written(stored: &[u8]) -> String {
    for letter in 'A'..='F' {
        let whole = value(&letter.to_string());
        // Bans name the lease, without its label.
        if whole == stored || Value(whole.as_slice().into()).identity() == stored {
            return letter.to_string();
        }
    }
    let crowded = stored.split_first().and_then(|(mark, rest)| {
        let blank = rest.iter().position(|byte| *byte == b' ')?;
        let end = std::str::from_utf8(&rest[..blank])
            .ok()?
            .parse::<u64>()
            .ok()?;
        b"=-@&"
            .contains(mark)
            .then_some((char::from(*mark), end, &rest[blank + 1..]))
    });
    let Some((mark, end, who)) = crowded else {
        return String::from_utf8_lossy(stored).into_owned();
    };
    let end = if end == 0 {
        "0".to_owned()
    } else {
        millis_shown(end)
    };
    let who = match (mark, who) {
        ('@', who) => whom(who),
        ('&', who) => match who.iter().position(|byte| *byte == b' ') {
            Some(blank) => {
                let base = String::from_utf8_lossy(&who[..blank]).parse();
                let base = base.map_or_else(|_| "?".to_owned(), fence_shown);
                format!("{base}:{}", whom(&who[blank + 1..]))
            }
            None => written(who),
        },
        (_, who) => written(who),
    };
    format!("{mark}{end}:{who}")
}

/// What a node answered.
pub fn said(answer: &ProbeReply) -> String {
    let reply = match answer {
        ProbeReply::Reply(reply, _) => reply,
        other => return format!("{other:?}"),
    };
    match reply {
        Reply::Granted { fence, .. } => format!("granted {}", fence_shown(*fence)),
        Reply::Refused {
            left,
            holder,
            place,
            subscribers,
            shared,
        } => {
            let left = left.map_or("ever".to_owned(), |left| left.as_millis().to_string());
            let holder = holder
                .as_ref()
                .map_or(String::new(), |h| format!(" by {h}"));
            let place = place.map_or(String::new(), |p| format!(" place {p}"));
            let deaf = if *subscribers == 0 { " deaf" } else { "" };
            let shared = if *shared { " shared" } else { "" };
            format!("refused for {left}{holder}{place}{deaf}{shared}")
        }
        Reply::Quarantined { left } => format!("quarantined {}", left.as_millis()),
        Reply::Banned => "banned".to_owned(),
        Reply::Greater { fence } => format!("greater {}", fence_shown(*fence)),
        Reply::Extended { repaired: true } => "repaired".to_owned(),
        Reply::Extended { repaired: false } => "extended".to_owned(),
        Reply::Reserved { done: true } => "reserved".to_owned(),
        Reply::Reserved { done: false } => "not reserved".to_owned(),
        Reply::Released { held: true } => "released".to_owned(),
        Reply::Released { held: false } => "not held".to_owned(),
        Reply::Kept => "kept".to_owned(),
        Reply::Seen(seen) => {
            let left = seen
                .left
                .map_or("ever".to_owned(), |left| left.as_millis().to_string());
            let whose = seen
                .value
                .as_ref()
                .filter(|value| !value.0.is_empty())
                .map_or(String::new(), |value| format!(" {}", written(&value.0)));
            let fence = match seen.fence {
                0 => String::new(),
                fence => format!(" fence {}", fence_shown(fence)),
            };
            let fence = match seen.own {
                0 => fence,
                own => format!("{fence} of it {}", fence_shown(own)),
            };
            let shut = match seen.quarantine.as_millis() {
                0 => String::new(),
                left => format!(" quarantined {left}"),
            };
            let standing = format!("{:?}", seen.standing).to_lowercase();
            let readers = match seen.readers {
                0 => String::new(),
                readers => format!(" readers {readers}"),
            };
            format!(
                "{standing}{whose} for {left}{fence} queued {}{readers}{shut}",
                seen.queued
            )
        }
        reply => format!("{reply:?}"),
    }
}
