//! What users are told of their leases, and when.

use quorlock::sim::Mode;
use quorlock::{ErrorKind, LossReason};
use quorlock_sim::trace::{Hold, Step};

use super::Refused;
use super::clients::{Claim, Clients, Lease};
use crate::spec::Action;
use crate::spec::claim::{counted, nanos};

/// A loss is told so soon after the end, in ns of true time ("Honest loss" of PROMISES).
const TOLD_WITHIN: u64 = 10_000_000;
/// How often in a row a lease is passed on ("Order" of docs/explanation/waiting.md).
const IN_A_ROW: u32 = 16;

fn refuse(action: Action, hold: &Hold, why: String) -> Result<Action, Refused> {
    let who = format!("client {}, lease {}", hold.client, hold.index);
    Err(Refused::new(action, || format!("{who}: {why}")))
}

impl Clients {
    /// A step of a user, at a moment of true time; `None`: it is none.
    pub fn user(&mut self, at: u64, step: &Step) -> Option<Result<Action, Refused>> {
        Some(match step {
            Step::Won { .. } => self.wins(step)?,
            Step::Stands {
                hold,
                now,
                end,
                says,
                gave_back,
            } => self.stands(hold, now.0, end.0, says.0, gave_back.0)?,
            Step::GivesUp { hold, now, .. } => {
                let claim = self.claims.get_mut(&hold.token)?;
                claim.look(now.0);
                let lease = claim.lease.as_mut()?;
                lease.handles = lease.handles.saturating_sub(1);
                Ok(Action::ClientDone)
            }
            Step::GaveUp {
                hold,
                now,
                last,
                end,
                goes_on,
            } => self.gave_up(hold, now.0, *last, end.0, *goes_on)?,
            Step::Exports { hold, now } => {
                let claim = self.claims.get_mut(&hold.token)?;
                // guard: of a lease that has no other handle
                if claim.lease.as_ref().is_some_and(|lease| lease.handles > 1) {
                    let why = "is exported, and has other handles".into();
                    return Some(refuse(Action::ClientExport, hold, why));
                }
                let cap = claim.lease.as_ref().map_or(u64::MAX, |lease| lease.cap);
                claim.left = (cap != u64::MAX).then(|| cap.saturating_sub(now.0));
                (claim.dead, claim.exported) = (true, true);
                Ok(Action::ClientExport)
            }
            Step::Shares { hold } => {
                let claim = self.claims.get_mut(&hold.token)?;
                claim.lease.as_mut()?.mode = Mode::Shared;
                Ok(Action::ClientDowngrade)
            }
            Step::Released { hold, again } => {
                if *again {
                    let why = "is told twice by one handle that it is released".into();
                    return Some(refuse(Action::ClientRelease, hold, why));
                }
                let lease = self.claims.get_mut(&hold.token)?.lease.as_mut()?;
                lease.released += 1;
                if lease.number == hold.number && lease.released > lease.had {
                    let why = "is told twice that it is released".into();
                    return Some(refuse(Action::ClientRelease, hold, why));
                }
                Ok(Action::ClientRelease)
            }
            Step::Looks { .. } => self.looks(at, step)?,
            Step::Extended { .. } => self.extended(step)?,
            Step::Upgrades {
                hold,
                refused,
                held,
            } => {
                if *held && !refused {
                    let why = "waits for itself".into();
                    return Some(refuse(Action::ClientShare, hold, why));
                }
                Ok(Action::ClientShare)
            }
            Step::Closed { client } => {
                self.clients.get_mut(client)?.closed = true;
                Ok(Action::Crash)
            }
            _ => return None,
        })
    }

    /// A user has a lease: a quorum of its votes lasts, and bears one fence.
    fn wins(&mut self, step: &Step) -> Option<Result<Action, Refused>> {
        let Step::Won {
            hold,
            now,
            end,
            at_once,
            again,
            fence,
            mode,
            min_validity,
            max_hold,
            keep,
            begun,
            ..
        } = step
        else {
            return None;
        };
        let adopted = self.claims.get(&hold.token)?.adopts.clone();
        let adopted = adopted
            .and_then(|of| self.claims.get(&of))
            .map(|of| of.left);
        let claim = self.claims.get_mut(&hold.token)?;
        if *again {
            claim.look(now.0);
            if claim.is_over() {
                let why = "is entered again, and is over".into();
                return Some(refuse(Action::ClientWin, hold, why));
            }
            let lease = claim.lease.as_mut()?;
            (lease.handles, lease.had) = (lease.handles + 1, lease.had + 1);
            return Some(Ok(Action::ClientWin));
        }
        // guard: not by a client that is closed
        if self.clients.get(&hold.client)?.closed {
            let why = "is won, and its client is closed".into();
            return Some(refuse(Action::ClientWin, hold, why));
        }
        let action = if hold.number == 0 {
            Action::ClientWin
        } else {
            Action::ClientPassOn
        };
        let cap = max_hold.map_or(u64::MAX, |max| begun.0.saturating_add(nanos(max)));
        let before = claim.lease.clone();
        let last = match (&before, fence) {
            (_, None | Some(0)) => 0,
            (Some(before), _) => before.last,
            (None, Some(fence)) => {
                fence + u64::from(claim.block.max(1)) - 1 - u64::from(hold.number)
            }
        };
        claim.lease = Some(Lease {
            number: hold.number,
            since: now.0,
            cap,
            over: false,
            keep: nanos(*keep),
            at_once: *at_once,
            begun: begun.0,
            last,
            fence: fence.unwrap_or(0),
            mode: *mode,
            handles: 1,
            had: 1,
            released: 0,
            lasted: end.0,
            ended: None,
            given: false,
        });
        // guard: not for ever, for others may wait on the nodes
        if hold.number > IN_A_ROW {
            let why = format!("is passed on for the {}th time in a row", hold.number);
            return Some(refuse(action, hold, why));
        }
        let wrong = won(claim, before, step);
        if let Some(why) = wrong {
            return Some(refuse(action, hold, why));
        }
        let expected = claim.end();
        if end.0 != 0 && end.0.abs_diff(expected) > 1_000 {
            let why = format!("ends at {}, its votes at {expected}", end.0);
            return Some(refuse(action, hold, why));
        }
        // guard: a quorum of votes lasts beyond `min_validity`
        if expected < now.0 + nanos(*min_validity) {
            let why = format!("is won with votes until {expected}, at {}", now.0);
            return Some(refuse(action, hold, why));
        }
        if hold.number == 0
            && let (Some(Some(left)), own) = (adopted, max_hold.map_or(u64::MAX, nanos))
            && own > left + 1_000_000
        {
            let why = "goes on beyond the max_hold of what it adopts".into();
            return Some(refuse(Action::ClientAdopt, hold, why));
        }
        Some(Ok(action))
    }

    /// A lease, as a look finds it.
    fn stands(
        &mut self,
        hold: &Hold,
        now: u64,
        end: u64,
        says: u64,
        gave_back: u64,
    ) -> Option<Result<Action, Refused>> {
        let closed = self.clients.get(&hold.client)?.closed;
        let claim = self.claims.get_mut(&hold.token)?;
        claim.look(now);
        if gave_back > now {
            let why = "a handle that was given back says that it is held".into();
            return Some(refuse(Action::ClientRelease, hold, why));
        }
        if claim.lease.as_ref()?.number != hold.number {
            return None;
        }
        let (expected, over) = (claim.end(), claim.is_over());
        if says > now && (over || says > expected + 1_000) {
            let why = format!("says that it is held until {says}, its votes end at {expected}");
            return Some(refuse(Action::ClientLose, hold, why));
        }
        if end == 0 {
            let lease = claim.lease.as_ref()?;
            let given_up = lease.handles == 0;
            if !over && !given_up && !closed {
                let why = format!("is lost, and its votes last until {expected}");
                return Some(refuse(Action::ClientLose, hold, why));
            }
            claim.dead |= closed;
            return Some(Ok(Action::ClientLose));
        }
        if over && end > now {
            let why = format!("was over, and ends at {end}");
            return Some(refuse(Action::ClientTakeVote, hold, why));
        }
        if !over && end.abs_diff(expected) > 1_000 {
            let why = format!("ends at {end}, its votes at {expected}");
            return Some(refuse(Action::ClientTakeVote, hold, why));
        }
        Some(Ok(Action::Look))
    }

    /// A handle was given back: with the last the lease is over, or goes on for another of its client.
    fn gave_up(
        &mut self,
        hold: &Hold,
        now: u64,
        last: bool,
        end: u64,
        goes_on: bool,
    ) -> Option<Result<Action, Refused>> {
        let claim = self.claims.get_mut(&hold.token)?;
        let expected = claim.end();
        let lease = claim.lease.as_ref()?;
        if lease.number != hold.number {
            return None;
        }
        if last && !goes_on && end > now {
            let why = format!("is given up, and ends at {end}");
            return Some(refuse(Action::ClientRelease, hold, why));
        }
        if !last && end == 0 && !claim.is_over() {
            let why = "has ended with one of its handles".into();
            return Some(refuse(Action::ClientRelease, hold, why));
        }
        // guard: what is kept is not passed on
        if goes_on && lease.keep > 0 && lease.at_once && now < lease.since + lease.keep {
            let why = "is passed on, and is kept".into();
            return Some(refuse(Action::ClientPassOn, hold, why));
        }
        // guard: only what is valid is passed on
        if goes_on && (claim.is_over() || expected <= now) {
            let why = "is passed on, and is over".into();
            return Some(refuse(Action::ClientPassOn, hold, why));
        }
        claim.dead |= last && !goes_on;
        if let Some(lease) = claim.lease.as_mut().filter(|_| last && goes_on) {
            lease.given = true;
            self.given.push(hold.token.clone());
        }
        Some(Ok(Action::ClientRelease))
    }

    /// A user looks at its lease, or is told that it is lost.
    fn looks(&mut self, at: u64, step: &Step) -> Option<Result<Action, Refused>> {
        let Step::Looks {
            hold,
            now,
            since,
            held,
            reason,
            awake_since,
        } = step
        else {
            return None;
        };
        let clock = self.clients.get(&hold.client)?.clock;
        let claim = self.claims.get_mut(&hold.token)?;
        claim.look(now.0);
        let over = claim.is_over();
        let lease = claim.lease.as_ref()?;
        if lease.number != hold.number || lease.handles == 0 {
            return None;
        }
        if *held && over {
            let why = "says that it is held, and is over".into();
            return Some(refuse(Action::ClientLose, hold, why));
        }
        if reason.is_some() && *held {
            let why = "is told to be lost, and is held".into();
            return Some(refuse(Action::ClientLose, hold, why));
        }
        // guard: what is said to be lost has lost its votes
        let by_votes = [
            LossReason::Expired,
            LossReason::Refused,
            LossReason::MaxHold,
        ];
        if reason.is_some_and(|reason| by_votes.contains(&reason)) && !lease.over {
            let why = format!("is told to be lost: {reason:?}, and its votes last");
            return Some(refuse(Action::ClientLose, hold, why));
        }
        // guard: told in time
        if let Some(ended) = lease.ended {
            let ended = (ended.saturating_sub(clock.0) as f64 / clock.1) as u64;
            let late = at > ended.max(*since) + TOLD_WITHIN + 1_000;
            if late && *awake_since <= ended && !*held {
                let why = format!("ended at {ended}, of which its user hears at {at}: {reason:?}");
                return Some(refuse(Action::ClientLose, hold, why));
            }
        }
        Some(Ok(Action::ClientLose))
    }

    /// A user was told what came of an extension, or of what is to be left.
    fn extended(&mut self, step: &Step) -> Option<Result<Action, Refused>> {
        let Step::Extended {
            hold,
            asked,
            now,
            ttl,
            says,
            ensures,
            gave_back,
            outcome,
        } = step
        else {
            return None;
        };
        let claim = self.claims.get_mut(&hold.token)?;
        claim.look(now.0);
        let (over, drift, expected) = (claim.is_over(), claim.drift, claim.end());
        let lease = claim.lease.as_ref()?;
        if lease.number != hold.number {
            return None;
        }
        let least = match ensures {
            true => now.0 + nanos(*ttl),
            false => (asked.0 + counted(*ttl, drift)).min(lease.cap),
        };
        Some(match outcome {
            Ok(()) if *gave_back => {
                let why = "is extended by a handle that was given back".into();
                refuse(Action::ClientRenew, hold, why)
            }
            _ if *gave_back => Ok(Action::ClientRenew),
            Ok(()) if over => refuse(Action::ClientRenew, hold, "is extended, and is over".into()),
            Ok(()) if expected + 1_000 < least || says.0 + 1_000 < least => {
                let why = format!("is extended to {least}, and its votes end at {expected}");
                refuse(Action::ClientRenew, hold, why)
            }
            Err(ErrorKind::LockLost) if !over && says.0 > now.0 && !ensures => {
                refuse(Action::ClientLose, hold, "is said to be lost".into())
            }
            _ => Ok(Action::ClientRenew),
        })
    }
}

/// What is wrong with a lease that its user has from now on.
fn won(claim: &Claim, before: Option<Lease>, step: &Step) -> Option<String> {
    let Step::Won {
        hold,
        now,
        fence,
        begun,
        ..
    } = step
    else {
        return None;
    };
    let lease = claim.lease.as_ref()?;
    if claim.dead {
        return Some("is won by a token that is dead".into());
    }
    if let Some(fence) = fence {
        if *fence == 0 {
            return Some("is won, and has no fence".into());
        }
        // guard: a quorum stores one and the same fence
        if before.is_none() && hold.number == 0 && !claim.agreed.contains(&lease.last) {
            return Some(format!(
                "has the fence {fence}, up to {}, which no quorum stores: {:?}",
                lease.last, claim.votes
            ));
        }
        // guard: a fence of its own, within the block
        let first = lease.last + 1 - u64::from(claim.block.max(1));
        let own = first + u64::from(hold.number);
        if hold.number > 0 && (*fence != own || *fence > lease.last) && *fence != 0 {
            return Some(format!(
                "has the fence {fence}, where {own} is its own, up to {}",
                lease.last
            ));
        }
    }
    // It counts from the attempt that has won: not before the first request, nor behind the first vote.
    let counted = claim.votes.iter().filter(|vote| vote.end > now.0);
    let first = counted.map(|vote| vote.since).min().unwrap_or(u64::MAX);
    if !claim.asked.contains(&begun.0) || begun.0 > first {
        return Some(format!(
            "counts from {}, its votes from {first}: {:?}",
            begun.0, claim.asked
        ));
    }
    None
}
