//! Requests and replies in words.

use quorlock::sim::{Op, Reply};

use super::brief;
use crate::history::Asked;

/// What a request is called.
pub(super) fn verb(asked: &Asked) -> &'static str {
    match asked.op {
        Op::Acquire { .. } if asked.native => "native request",
        Op::Acquire { .. } => "request",
        Op::Extend { .. } => "extension",
        Op::Confirm { .. } => "fence",
        Op::Release if asked.token.is_empty() => "leaving",
        Op::Release => "release",
        Op::Inspect => "look",
        Op::Reserve { .. } => "reservation",
    }
}

/// What a node answers to a request.
pub(super) fn answer(asked: &Asked, reply: &Reply) -> String {
    match reply {
        Reply::Released { .. } if asked.token.is_empty() => "it waits there no more".into(),
        reply => said(reply),
    }
}

/// What a node answers.
pub(super) fn said(reply: &Reply) -> String {
    match reply {
        Reply::Granted { fence, lasts } => {
            let fence = match fence {
                0 => String::new(),
                fence => format!(", the fence there is {fence}"),
            };
            let lasts = lasts.map_or_else(String::new, |lasts| format!(", for {}", brief(lasts)));
            format!("GRANTED{lasts}{fence}")
        }
        Reply::Taken => "refused, another's value stands there".into(),
        Reply::Refused {
            left,
            holder,
            place,
            subscribers,
            shared,
        } => {
            let taken = match left {
                Some(left) if *shared => format!("refused, shared for another {}", brief(*left)),
                Some(left) => format!("refused, taken for another {}", brief(*left)),
                None => "refused, taken without an end".into(),
            };
            let holder = holder.as_ref().map(|label| format!(" by {label}"));
            let place = place.map(|place| format!("; {place} wait before it"));
            let deaf = match subscribers {
                0 => "; nobody listens in its inbox",
                _ => "",
            };
            let (holder, place) = (holder.unwrap_or_default(), place.unwrap_or_default());
            format!("{taken}{holder}{place}{deaf}")
        }
        Reply::Extended { repaired: false } => "its vote is kept".into(),
        Reply::Extended { repaired: true } => "its vote was gone and is stored anew".into(),
        Reply::Confirmed => "the fence is stored".into(),
        Reply::Greater { fence } => format!("the larger fence {fence} is stored there"),
        Reply::Quarantined { left } => {
            format!("no vote, in quarantine for another {}", brief(*left))
        }
        Reply::Reserved { done: true } => "it is reserved, and no reader comes".into(),
        Reply::Reserved { done: false } => "it cannot be reserved".into(),
        Reply::Chosen { slot } => format!("slot {slot} is free, and reserved for it"),
        Reply::Late => "nothing is done, for it comes too late".into(),
        Reply::NotMine => "there is no vote of its own".into(),
        Reply::Banned => "its vote was taken away by force".into(),
        Reply::Released { held: true } => "its vote is deleted".into(),
        Reply::Seen(seen) => format!("{:?}", seen.standing).to_lowercase(),
        Reply::Released { held: false } => "there was no vote of its own to delete".into(),
        Reply::Kept => "there was no vote of its own, and the lock stays taken".into(),
        Reply::Failed(fault) => {
            let sent = if fault.sent {
                "perhaps carried out"
            } else {
                "not sent"
            };
            format!("no answer that counts: {} ({sent})", fault.text)
        }
    }
}
