//! How nodes may answer what a claim asks.

use std::time::Duration;

use super::world::Ticket;
use crate::node::{Fault, FaultKind, Op, Reply};

fn refused() -> Reply {
    Reply::Refused {
        left: None,
        holder: None,
        place: None,
        subscribers: 1,
        shared: false,
    }
}

/// No answer, to a request that may have reached the node, or has not.
pub(super) fn failed(sent: bool) -> Reply {
    Reply::Failed(Fault::new(FaultKind::Timeout, "no answer", sent))
}

fn granted(fence: u64) -> Reply {
    Reply::Granted { fence, lasts: None }
}

const QUARANTINED: Reply = Reply::Quarantined {
    left: Duration::from_millis(400),
};

/// All that may become of a vote, where no fence is counted.
pub(super) fn of_votes(ticket: &Ticket) -> Vec<Reply> {
    match (ticket.context.op, ticket.native) {
        (Op::Acquire { .. }, true) => vec![
            granted(0),
            Reply::Granted {
                fence: 0,
                lasts: Some(Duration::from_millis(600)),
            },
            Reply::Taken,
            Reply::Late,
            failed(true),
            failed(false),
        ],
        (Op::Acquire { .. }, false) => vec![
            granted(0),
            refused(),
            Reply::NotMine,
            QUARANTINED,
            Reply::Late,
            failed(true),
            failed(false),
        ],
        _ => Vec::new(),
    }
}

/// What a waiter is answered: where it is refused by its home it is queued.
pub(super) fn of_waiters(ticket: &Ticket) -> Vec<Reply> {
    let Op::Acquire { home, .. } = ticket.context.op else {
        return Vec::new();
    };
    let refused = Reply::Refused {
        left: None,
        holder: None,
        place: home.then_some(0),
        subscribers: 1,
        shared: false,
    };
    vec![granted(0), refused, QUARANTINED, Reply::Late, failed(true)]
}

/// Votes that bring fences, and what becomes of a fence that is written back.
pub(super) fn of_fences(ticket: &Ticket) -> Vec<Reply> {
    match ticket.context.op {
        // What others have stored; it is no mark.
        Op::Acquire { candidate: 0, .. } => vec![granted(0), granted(8), failed(true)],
        // A native vote that was not counted has no mark; the script counts on.
        Op::Acquire { candidate, .. } if ticket.native => {
            vec![granted(candidate), granted(0), Reply::Taken, failed(true)]
        }
        Op::Acquire { candidate, .. } => {
            vec![
                granted(candidate),
                granted(candidate + 2),
                refused(),
                failed(true),
            ]
        }
        Op::Confirm { fence, .. } => {
            let mut all = vec![Reply::Confirmed, Reply::NotMine, failed(true)];
            // Others have counted on, once.
            if fence < 10 {
                all.push(Reply::Greater { fence: 10 });
            }
            all
        }
        _ => Vec::new(),
    }
}

/// All that may become of a renewal.
pub(super) fn of_renewals(ticket: &Ticket) -> Vec<Reply> {
    match ticket.context.op {
        // Of one node the answers that differ most.
        Op::Extend { .. } if ticket.context.node == 2 => vec![
            Reply::Extended { repaired: false },
            Reply::NotMine,
            failed(true),
        ],
        Op::Extend { .. } => vec![
            Reply::Extended { repaired: false },
            Reply::Extended { repaired: true },
            Reply::NotMine,
            Reply::Banned,
            QUARANTINED,
            Reply::Late,
            failed(true),
            failed(false),
        ],
        _ => vec![granted(7), failed(true)],
    }
}

/// The three ends of a renewal: it is lengthened, gone, or not known.
pub(super) fn of_renewals_twice(ticket: &Ticket) -> Vec<Reply> {
    match ticket.context.op {
        Op::Extend { .. } => vec![
            Reply::Extended { repaired: false },
            Reply::NotMine,
            QUARANTINED,
            failed(true),
        ],
        _ => Vec::new(),
    }
}

/// Renewals that come or do not.
pub(super) fn of_leases(ticket: &Ticket) -> Vec<Reply> {
    match ticket.context.op {
        Op::Extend { .. } => vec![Reply::Extended { repaired: false }, failed(true)],
        _ => Vec::new(),
    }
}
