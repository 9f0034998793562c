//! What a native acquire is worth, by the trailer that is read behind it: the table of "Native acquire".

use std::time::Duration;

use quorlock::sim::native::{NativeReplies, Outcome};
use quorlock::sim::{Op, Reply, Request};

use super::node::AHEAD;

/// What the trailer shows.
#[derive(Clone, Copy, Debug)]
pub struct Trailer {
    /// The record is that which the client was admitted with, or is not minded.
    pub admitted: bool,
    /// The node is in quarantine, and that is minded.
    pub quarantined: bool,
    /// The node's `TIME`.
    pub time: u64,
}

/// What the vote comes to.
pub fn worth(request: &Request, voted: NativeReplies, trailer: Trailer) -> Outcome {
    let Op::Acquire { ttl, candidate, .. } = request.op else {
        return Outcome::OtherRecord;
    };
    if !voted.stored {
        return Outcome::Reply(Reply::Taken);
    }
    // guard: the record
    if !trailer.admitted {
        return Outcome::OtherRecord;
    }
    // guard: no quarantine
    if trailer.quarantined {
        return Outcome::Quarantined;
    }
    let left = request.not_after.saturating_sub(trailer.time);
    // guard: half of the ttl is left at least
    if left < ttl.as_micros() as u64 / 2 {
        return Outcome::Reply(Reply::Late);
    }
    let mark = voted.counted && candidate <= trailer.time + AHEAD;
    Outcome::Reply(Reply::Granted {
        fence: if mark { candidate } else { 0 },
        lasts: Some(ttl.min(Duration::from_micros(left))),
    })
}
