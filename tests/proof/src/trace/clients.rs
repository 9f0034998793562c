//! The steps of clients: what is asked for a token, what comes of the answers, and when the token is a lease.

use std::collections::{BTreeMap, BTreeSet};

use quorlock::sim::{AfterRelease, Mode, Op, Repair, Reply, Request, RequestContext};

use super::{Refused, keys};
use crate::spec::Action;
use crate::spec::claim::{Vote, agreed, lease_end, least_written};
use crate::spec::clock::{Clocks, median};

/// A client, as it knows the nodes.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// Its longest ttl, in ns.
    pub max_ttl: u64,
    /// What its clock shows: at true time 0, and for each ns of true time.
    pub clock: (u64, f64),
    /// It is closed, or has ended.
    pub closed: bool,
    clocks: Vec<Clocks>,
    /// The drift that it allows for.
    drift: f64,
    /// The largest fence that it was seen to propose, or may have drawn.
    proposed: u64,
}

/// A token, as its client has it.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    /// Whose it is.
    pub client: usize,
    /// The votes, by the places of the client's list.
    pub votes: Vec<Vote>,
    /// The drift that its client allows for.
    pub drift: f64,
    /// It is asked for no more, nor renewed: given up, released, lost or exported.
    pub dead: bool,
    /// When its requests for a vote were sent.
    pub asked: Vec<u64>,
    /// The fences that were proposed for it.
    candidates: Vec<u64>,
    /// The medians at which a fence may have been drawn that is written back: since a vote was heard of.
    medians: Vec<u64>,
    /// The fences that a quorum was known to store at once while it voted.
    pub agreed: BTreeSet<u64>,
    /// How many fences it takes at once.
    pub block: u32,
    /// The fence that was written back last.
    written: u64,
    /// Which places have answered last that a request came too late: it is asked once more.
    late: Vec<bool>,
    /// The slot that its home has chosen.
    chosen: Option<u32>,
    /// Whether it was ever asked for any slot.
    any_slot: bool,
    /// The lease that it was won for, once it is a user's: see [`Lease`].
    pub lease: Option<Lease>,
    /// Of the lease that it adopts, and what was left of its `max_hold`.
    pub adopts: Option<Vec<u8>>,
    /// How much of `max_hold` was left as it was exported.
    pub left: Option<u64>,
    /// It was exported.
    pub exported: bool,
}

/// A lease on a token, as its user has it.
#[derive(Clone, Debug)]
pub struct Lease {
    /// Which of the token's leases.
    pub number: u32,
    /// When it became its user's.
    pub since: u64,
    /// At the latest it ends here, by `max_hold`.
    pub cap: u64,
    /// Its end was seen to have come.
    pub over: bool,
    /// It stays taken for so long from its win on, in ns; and whether it became its user's as that was won.
    pub keep: u64,
    /// See [`Lease::keep`].
    pub at_once: bool,
    /// When the attempt was begun that has won.
    pub begun: u64,
    /// The largest fence that is its token's.
    pub last: u64,
    /// Its own.
    pub fence: u64,
    /// In which mode.
    pub mode: Mode,
    /// How many handles its users have, and have had; and how often they were told that it is released.
    pub handles: u32,
    /// See [`Lease::handles`].
    pub had: u32,
    /// See [`Lease::handles`].
    pub released: u32,
    /// Its end, as a look found it last while it was not over.
    pub lasted: u64,
    /// When its end came, by the client's clock, once it has.
    pub ended: Option<u64>,
    /// It was given up by its user, and passed on.
    pub given: bool,
}

impl Claim {
    /// When the lease ends that the votes make.
    pub fn end(&self) -> u64 {
        let cap = self.lease.as_ref().map_or(u64::MAX, |lease| lease.cap);
        lease_end(&self.votes).min(cap)
    }

    /// Looks whether the lease is over by now: that is final.
    pub fn look(&mut self, now: u64) {
        let end = self.end();
        if let Some(lease) = &mut self.lease
            && !lease.over
            && end <= now
        {
            lease.over = true;
            // One that has lost votes, and would have lasted with them, ends now.
            lease.ended = Some(lease.lasted.min(now));
        } else if let Some(lease) = &mut self.lease {
            lease.lasted = end;
        }
    }

    /// Whether a lease of a user is over.
    pub fn is_over(&self) -> bool {
        self.dead || self.lease.as_ref().is_some_and(|lease| lease.over)
    }
}

/// All clients, and the tokens of each.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    /// By their numbers.
    pub clients: BTreeMap<usize, Client>,
    /// By the token.
    pub claims: BTreeMap<Vec<u8>, Claim>,
    /// What was released in this moment although a user has it.
    pub released: Vec<Vec<u8>>,
    /// What was passed on in this moment.
    pub given: Vec<Vec<u8>>,
    /// The clients of which some leases are told late or not at all: see [`Step::Client`](quorlock_sim::trace::Step::Client).
    pub unseen: BTreeSet<usize>,
}

/// What names a token: its digits.
pub fn token(value: &[u8]) -> Vec<u8> {
    value[..value.len().min(40)].to_vec()
}

/// A token for a reader: its first digits, for it is a secret.
pub fn shown(token: &[u8]) -> String {
    String::from_utf8_lossy(&token[..token.len().min(6)]).into_owned()
}

impl Clients {
    /// A client is there, with so many nodes.
    pub fn begins(&mut self, client: usize, nodes: usize, max_ttl: u64, clock: (u64, f64)) {
        let clocks = vec![Clocks::default(); nodes];
        self.clients.insert(
            client,
            Client {
                max_ttl,
                clock,
                clocks,
                ..Client::default()
            },
        );
    }

    /// A client ends.
    pub fn ends(&mut self, client: usize) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.closed = true;
        }
    }

    /// Whether a token has a vote that lasts.
    pub fn has_vote(&self, value: &[u8], now: u64) -> bool {
        self.votes_since(&token(value), now).is_some()
    }

    /// Since when a token that is alive has votes that last: from when the first of them was asked for.
    pub fn votes_since(&self, token: &[u8], now: u64) -> Option<u64> {
        let claim = self.claims.get(token).filter(|claim| !claim.is_over())?;
        let lasting = claim.votes.iter().filter(|vote| vote.end > now);
        lasting.map(|vote| vote.since).min()
    }

    /// Whether a quorum of a token's votes lasts for `least`, and bears one fence where it has to.
    pub fn may_be_won(&self, token: &[u8], now: u64, least: u64, fenced: bool) -> bool {
        let Some(claim) = self.claims.get(token) else {
            return false;
        };
        let bears = |mark: u64| mark > 0 && agreed(&claim.votes, mark, now + least);
        let lasts = lease_end(&claim.votes) > now + least;
        lasts && (!fenced || claim.votes.iter().any(|vote| bears(vote.mark)))
    }

    /// Whether all nodes have voted for it, so that no answer is awaited.
    pub fn has_all(&self, token: &[u8], now: u64) -> bool {
        let claim = self.claims.get(token);
        claim.is_some_and(|claim| claim.votes.iter().all(|vote| vote.end > now))
    }

    /// Time goes on: whether all of this moment was done that belongs together.
    pub fn settles(&mut self) -> Result<(), Refused> {
        for token in std::mem::take(&mut self.given) {
            let Some(claim) = self.claims.get(&token) else {
                continue;
            };
            let given = claim.lease.as_ref().is_some_and(|lease| lease.given);
            let closed = self.clients.get(&claim.client).is_some_and(|c| c.closed);
            // guard: what is passed on is another user's in the same moment, or is given up
            let unseen = self.unseen.contains(&claim.client);
            if given && !claim.dead && !closed && !unseen {
                return Err(Refused::new(Action::ClientPassOn, || {
                    "a lease is passed on, and no user has it".into()
                }));
            }
        }
        for token in std::mem::take(&mut self.released) {
            let Some(claim) = self.claims.get(&token) else {
                continue;
            };
            let has = claim.lease.as_ref().is_some_and(|lease| lease.handles > 0);
            let closed = self.clients.get(&claim.client).is_some_and(|c| c.closed);
            // guard: nor of one that is to go on in another client
            if (has || claim.exported) && !closed {
                return Err(Refused::new(Action::ClientRelease, || {
                    "a vote is released of a lease that its user has, or has exported".into()
                }));
            }
        }
        Ok(())
    }

    /// A client's clock shows that at a moment of true time: it goes on at its own rate, also while the client stands still.
    pub fn shows(&self, client: usize, at: u64, now: u64) -> Result<(), Refused> {
        let Some(known) = self.clients.get(&client) else {
            return Ok(());
        };
        let expected = known.clock.0 + (at as f64 * known.clock.1) as u64;
        if expected.abs_diff(now) > 1_000 {
            return Err(Refused::new(Action::Tick, || {
                format!("the clock of client {client} shows {now} in place of {expected}")
            }));
        }
        Ok(())
    }

    /// A client asks the node at a place of its list.
    #[allow(clippy::too_many_arguments, reason = "a request and what goes with it")]
    pub fn asks(
        &mut self,
        client: usize,
        place: usize,
        now: u64,
        request: &Request,
        ticket: &RequestContext,
        drift: f64,
        lease: Option<u64>,
    ) -> Result<Action, Refused> {
        let action = action_of(request);
        let refuse = |why: &str| {
            let why = format!("client {client}, node {place}: {why}");
            Err(Refused::new(action, || why))
        };
        // guard: keys that go together
        if let Some(why) = keys::wrong(&request.keys).filter(|_| request.keys.field.is_none()) {
            return refuse(&why);
        }
        // guard: counted from before it left
        if ticket.sent.0 > now {
            return refuse("counts from after its request was sent");
        }
        let Some(known) = self.clients.get_mut(&client) else {
            return Ok(action);
        };
        known.drift = drift;
        let closed = known.closed;
        let nodes = known.clocks.len();
        if matches!(request.op, Op::Inspect | Op::Reserve { .. }) || request.value.0.is_empty() {
            return Ok(action);
        }
        if matches!(request.leaving, AfterRelease::Forced(_)) {
            return Ok(action);
        }
        let name = token(&request.value.0);
        let middle = median(&known.clocks, now);
        known.proposed = known.proposed.max(middle);
        let claim = self.claims.entry(name.clone()).or_insert_with(|| Claim {
            client,
            votes: vec![Vote::default(); nodes],
            late: vec![false; nodes],
            drift,
            ..Claim::default()
        });
        if claim.client != client {
            // What it has adopted is released by the client that did.
            return if request.op == Op::Release {
                Ok(action)
            } else {
                refuse("asks for another client's token")
            };
        }
        claim.look(now);
        if request.op == Op::Release {
            // guard: dead first (R1)
            if lease.is_some_and(|end| end > now) {
                return refuse("releases a token that is a valid lease");
            }
            let handles = claim.lease.as_ref().map_or(0, |lease| lease.handles);
            // guard: what a user has is not released
            if handles > 0 && !claim.is_over() && !closed && claim.votes[place].end > now {
                // Unless its user lets go of it in this very moment.
                self.released.push(name);
            }
            claim.dead = true;
            return keeps(claim, request, now).map_or_else(|why| refuse(&why), |()| Ok(action));
        }
        // guard: nor does a client that is closed ask for a new one
        let new = claim.asked.is_empty() && matches!(request.op, Op::Acquire { .. });
        if closed && new {
            return refuse("is closed, and asks for a vote");
        }
        // guard: a dead token asks for nothing
        if claim.is_over() {
            return refuse("asks for a token that is dead");
        }
        match request.op {
            Op::Acquire {
                candidate,
                let_in,
                block,
                ..
            } => {
                claim.block = block;
                claim.adopts = request.keys.adopts.as_ref().map(|a| token(&a.value.0));
                match request.keys.mode {
                    Mode::AnySlot(_) => claim.any_slot = true,
                    // guard: the slot that the home has chosen
                    Mode::Slot(slot)
                        if claim.any_slot && claim.chosen.is_some_and(|chosen| chosen != slot) =>
                    {
                        return refuse("asks for a slot that its home has not chosen");
                    }
                    _ => {}
                }
                // guard: let in by the home (RW6)
                if let_in && !claim.votes.iter().any(|vote| vote.end > now) {
                    return refuse("says that its home has let it in, and has no vote");
                }
                let fresh = claim.asked.last() != Some(&ticket.sent.0);
                if fresh {
                    claim.asked.push(ticket.sent.0);
                }
                let fenced = request.keys.fence_ttl.is_some();
                if fenced && !matches!(request.keys.mode, Mode::AnySlot(_)) {
                    let marked = claim.votes.iter().map(|vote| vote.mark).max().unwrap_or(0);
                    claim.medians.push(middle);
                    let least = claim.medians.iter().copied().filter(|m| *m > 0).min();
                    let drawn = least.is_some_and(|least| candidate >= least);
                    let most = middle.max(known.proposed).max(marked) + 1_000;
                    let before = claim.candidates.iter().max().copied().unwrap_or(0);
                    let again = candidate > 0 && candidate == before;
                    let marks = candidate == marked && marked >= before;
                    // guard: the median, larger than the last; or the mark of the home, if that is larger
                    let blind = middle == 0 || claim.candidates.contains(&0);
                    let allowed = candidate == 0 && blind
                        || drawn && candidate <= most
                        || again
                        || marks && candidate > 0;
                    if !allowed {
                        let why = format!(
                            "proposes {candidate}, where the median is {middle}, and {before} was proposed"
                        );
                        return refuse(&why);
                    }
                    claim.candidates.push(candidate);
                    known.proposed = known.proposed.max(candidate);
                }
                // In Redisson's layout a node never tells what others have stored.
                claim.votes[place].ask(candidate.max(request.keys.field.is_some().into()));
            }
            Op::Extend { repair, .. } => {
                // guard: only what is valid is renewed
                if now >= claim.end() {
                    return refuse("renews a lease that is not valid");
                }
                if let Repair::InQuarantine { server } = repair {
                    let (until, confirmed) = claim.votes[place].confirmed;
                    // guard: a vote of this very server, whose end is ahead (R11)
                    if confirmed != server || until <= now {
                        return refuse("takes back a vote that it does not count");
                    }
                    // guard: by that server's own clock
                    let earliest = known.clocks[place].earliest(server, now, claim.drift);
                    let bound = earliest.unwrap_or(0) + (until - now) / 1000;
                    if request.not_after == 0 || request.not_after > bound + 1 {
                        return refuse("takes back a vote beyond its end");
                    }
                }
            }
            Op::Confirm { fence, block, .. } => {
                // guard: to a voter
                let again = std::mem::take(&mut claim.late[place]);
                if again {
                    return Ok(action);
                }
                if claim.votes[place].end <= now {
                    return refuse("writes a fence back to a node without its vote");
                }
                let medians = claim.medians.iter().copied().filter(|m| *m > 0);
                let median = medians.min().unwrap_or(middle);
                let least = least_written(&claim.votes, now, block, median);
                // guard: the largest, and no less than the median
                if fence < least {
                    let why = format!("writes {fence} back, where {least} is the least");
                    return refuse(&why);
                }
                // guard: what this node takes, for all that is known of it
                let Vote { mark, found, .. } = claim.votes[place];
                let stored = mark.max(found);
                if mark == fence || stored > 0 && stored + u64::from(block) > fence {
                    let why = format!("writes {fence} back, and {stored} is stored there");
                    return refuse(&why);
                }
                claim.written = fence;
            }
            Op::Release | Op::Inspect | Op::Reserve { .. } => {}
        }
        Ok(action)
    }

    /// An answer reaches its client.
    #[expect(
        clippy::too_many_arguments,
        reason = "a step of the trace has so many parts"
    )]
    pub fn hears(
        &mut self,
        client: usize,
        place: usize,
        now: u64,
        request: &Request,
        ticket: &RequestContext,
        reply: &Reply,
        time: Option<u64>,
    ) -> Action {
        let Some(known) = self.clients.get_mut(&client) else {
            return Action::Lose;
        };
        let name = token(&request.value.0);
        known.proposed = known.proposed.max(median(&known.clocks, now));
        if let Some(time) = time {
            let span = (ticket.sent.0, now);
            let step = known.clocks[place].observe(ticket.server, span, time, known.drift);
            if let Ok(by) = u64::try_from(step)
                && by > 0
            {
                let own = self.claims.values_mut().filter(|c| c.client == client);
                for claim in own {
                    claim.look(now);
                    claim.votes[place].step(by * 1000);
                }
            }
        }
        let Some(claim) = self.claims.get_mut(&name).filter(|c| c.client == client) else {
            return Action::ClientTakeVote;
        };
        let middle = median(&known.clocks, now);
        known.proposed = known.proposed.max(middle);
        claim.medians.push(middle);
        claim.look(now);
        if request.op == Op::Release || claim.is_over() {
            return Action::ClientGiveUp;
        }
        if let Reply::Chosen { slot } = reply {
            claim.chosen = Some(*slot);
            return Action::ClientTakeVote;
        }
        if matches!(request.keys.mode, Mode::AnySlot(_)) {
            return Action::ClientTakeRefusal;
        }
        claim.votes[place].take(ticket, reply, claim.drift);
        claim.late[place] = *reply == Reply::Late;
        claim.look(now);
        let marks: Vec<u64> = claim.votes.iter().map(|vote| vote.mark).collect();
        let agreed = marks
            .into_iter()
            .filter(|mark| agreed(&claim.votes, *mark, now));
        claim.agreed.extend(agreed.collect::<Vec<_>>());
        match reply {
            Reply::Confirmed | Reply::Greater { .. } => Action::ClientTakeMark,
            Reply::Granted { .. } | Reply::Extended { .. } => Action::ClientTakeVote,
            _ => Action::ClientTakeRefusal,
        }
    }
}

/// Whether a release keeps the lock for as long as it is to stay taken: from when the lease became its user's.
fn keeps(claim: &Claim, request: &Request, now: u64) -> Result<(), String> {
    let lease = claim.lease.as_ref().filter(|lease| lease.keep > 0);
    let Some(lease) = lease.filter(|lease| lease.mode != Mode::Shared) else {
        return Ok(());
    };
    let full = lease.keep + (lease.keep as f64 * claim.drift) as u64 + 2_000_000;
    // One that was won a while before it was given to its user is kept from then on.
    let end = lease.since + full;
    let least = if lease.at_once {
        end
    } else {
        lease.begun + full
    };
    match request.leaving {
        AfterRelease::TakenUntil(until) if (least..=end).contains(&until.0) => Ok(()),
        AfterRelease::Free if now >= least => Ok(()),
        other => Err(format!(
            "leaves the lock {other:?}, which is to stay taken until {end}"
        )),
    }
}

/// Which action a request is.
fn action_of(request: &Request) -> Action {
    let waits = request.waiter.is_some();
    match request.op {
        Op::Acquire { .. } if request.keys.adopts.is_some() => Action::ClientAdopt,
        Op::Acquire { home: true, .. } if waits => Action::ClientJoin,
        Op::Acquire { .. } if request.keys.mode == Mode::Shared => Action::ClientShare,
        Op::Acquire { .. } => Action::ClientAsk,
        Op::Extend { .. } => Action::ClientRenew,
        Op::Confirm { .. } => Action::ClientWriteBack,
        Op::Release if matches!(request.leaving, AfterRelease::Forced(_)) => Action::ClientForce,
        Op::Release if request.value.0.is_empty() => Action::ClientLeave,
        Op::Release => Action::ClientRelease,
        Op::Reserve { .. } => Action::ClientJoin,
        Op::Inspect => Action::Look,
    }
}
