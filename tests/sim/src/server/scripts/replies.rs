//! What came of an operation, as the reply of its script.

use std::time::Duration;

use quorlock::sim::{Op, OtherRecord, Reply, Standing};

use super::Call;
use crate::server::resp::{array, bulk, int};

/// A text without anything odd in it.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes what a script answers at `time` of the node, in µs.
pub fn answer(out: &mut Vec<u8>, call: &Call, answer: &Result<Reply, OtherRecord>, time: u64) {
    let millis = |d: Duration| d.as_millis() as i64;
    let fence = |fence: u64| {
        if call.fenced && fence > 0 {
            fence.to_string()
        } else {
            String::new()
        }
    };
    let (code, more, own) = match answer {
        Err(OtherRecord) => (4, Vec::new(), 0),
        Ok(Reply::Late) => (5, Vec::new(), 0),
        Ok(Reply::Granted { fence: f, .. }) => (1, bulked(&fence(*f)), 1),
        Ok(Reply::Extended { repaired }) => {
            let fence = match call.request.op {
                Op::Extend { fence: f, .. } => fence(f),
                _ => String::new(),
            };
            (1 + i64::from(*repaired), bulked(&fence), 1)
        }
        Ok(Reply::Confirmed) => match call.request.op {
            Op::Confirm { fence: f, .. } => (1, bulked(&fence(f)), 1),
            _ => (1, bulked(""), 1),
        },
        Ok(Reply::Greater { fence }) => (6, bulked(&fence.to_string()), 1),
        Ok(Reply::Quarantined { left }) => {
            let mut own = Vec::new();
            int(&mut own, millis(*left));
            (3, own, 1)
        }
        Ok(Reply::Refused {
            left,
            holder,
            place,
            subscribers,
            ..
        }) => {
            let mut own = Vec::new();
            int(&mut own, left.map_or(-1, millis));
            bulk(&mut own, holder.as_deref().unwrap_or_default().as_bytes());
            int(&mut own, place.map_or(-1, i64::from));
            int(&mut own, i64::from(*subscribers));
            (0, own, 4)
        }
        Ok(Reply::Chosen { slot }) => {
            let mut own = Vec::new();
            int(&mut own, i64::from(*slot));
            (7, own, 1)
        }
        Ok(Reply::Seen(seen)) => {
            let mut own = Vec::new();
            bulk(
                &mut own,
                match seen.standing {
                    Standing::Free => b"",
                    Standing::Held => b"=",
                    Standing::Shared => b"&",
                    Standing::Kept => b"-",
                    Standing::Reserved => b"@",
                    Standing::Foreign => b".",
                },
            );
            int(&mut own, seen.left.map_or(-1, millis));
            let value = seen.value.as_ref().map_or(&[][..], |value| &value.0);
            bulk(&mut own, value);
            let counted = match seen.own {
                0 => fence(seen.fence).to_string(),
                of_it => format!("{} {of_it}", seen.fence),
            };
            bulk(&mut own, counted.as_bytes());
            int(&mut own, i64::from(seen.queued));
            int(&mut own, millis(seen.quarantine));
            (8, own, 6)
        }
        Ok(Reply::Released { held }) => return int(out, i64::from(*held)),
        Ok(Reply::Kept) => return int(out, 2),
        Ok(Reply::Banned) => {
            array(out, b'*', 4);
            int(out, 0);
            moment(out, time);
            return int(out, 1);
        }
        Ok(Reply::NotMine) if matches!(call.request.op, Op::Acquire { .. }) => {
            array(out, b'*', 3);
            int(out, 2);
            return moment(out, time);
        }
        // No script says that another's value stands there and nothing else.
        Ok(Reply::Reserved { done }) => (i64::from(*done), Vec::new(), 0),
        Ok(Reply::NotMine | Reply::Taken | Reply::Failed(_)) => (0, Vec::new(), 0),
    };
    let refused = matches!(answer, Ok(Reply::Refused { .. }));
    if !call.told && !refused {
        return int(out, code);
    }
    // Whoever is refused is told the TIME in any case, and behind it that readers hold the lock.
    let told = call.told || refused;
    let behind = match answer {
        Ok(Reply::Refused { shared: true, .. }) => Some(1),
        Ok(Reply::Seen(seen)) => Some(i64::from(seen.slots)),
        _ => None,
    };
    let readers = match answer {
        Ok(Reply::Seen(seen)) => Some(i64::from(seen.readers)),
        _ => None,
    };
    let sharers = match answer {
        Ok(Reply::Seen(seen)) => &seen.sharers[..],
        _ => &[],
    };
    array(
        out,
        b'*',
        1 + own
            + 2 * usize::from(told)
            + usize::from(behind.is_some())
            + usize::from(readers.is_some())
            + sharers.len(),
    );
    int(out, code);
    out.extend_from_slice(&more);
    if told {
        moment(out, time);
    }
    if let Some(behind) = behind {
        int(out, behind);
    }
    if let Some(readers) = readers {
        int(out, readers);
    }
    for value in sharers {
        bulk(out, &value.0);
    }
}

fn bulked(text: &str) -> Vec<u8> {
    let mut own = Vec::new();
    bulk(&mut own, text.as_bytes());
    own
}

/// Appends a `TIME` as servers write it: seconds and µs.
pub fn moment(out: &mut Vec<u8>, time: u64) {
    bulk(out, (time / 1_000_000).to_string().as_bytes());
    bulk(out, (time % 1_000_000).to_string().as_bytes());
}
