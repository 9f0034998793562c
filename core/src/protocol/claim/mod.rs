//! The life of one token, as a state machine.
//!
//! A [`Claim`] begins as an attempt: it asks the nodes for their votes. If a quorum votes for it,
//! it is a lease; in the end it is dead, and its release is on the way to every node that may know
//! it. [`step_into`](Claim::step_into) takes one event into account and says what is to be done. A
//! claim sends nothing, waits for nothing and reads no clock: the [shell](crate::protocol::claim_cell)
//! that holds it passes the time with each event, performs the effects, and is the [`Env`] that the
//! claim asks for what it needs to know of the world.
//!
//! | file | one idea |
//! |---|---|
//! | [`ask`] | what the nodes are asked for their votes |
//! | [`votes`] | what a reply makes of its node's vote |
//! | [`decide`] | all conditions under which an attempt is won |
//! | [`home`] | the opinion of the node at which waiters queue |
//! | [`lease`] | a lease that is renewed, extended, shared, passed on, exported or lost |
//! | [`release`] | what is sent to which node so that nothing is left |
//! | [`failure`] | why an attempt was not won, and the kind of error that says so |

mod ask;
mod decide;
pub(crate) mod effects;
pub(crate) mod env;
pub(crate) mod failure;
pub(crate) mod home;
mod lease;
mod release;
mod slot;
mod terms;
mod votes;

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Instant;
use crate::node::{Keys, Mode, Nodes, Reply, RequestContext, Value};
#[cfg(test)]
use crate::protocol::fence::Mark;
use crate::protocol::group::Group;
use crate::protocol::loss::LossReason;
use crate::protocol::quorum::{RoundVerdict, Vote};
use effects::{Effects, Wake};
use env::Env;
use votes::{Rules, Votes};

pub(crate) use lease::IN_A_ROW;
pub use terms::LockParams;
pub(crate) use votes::Phase;

/// One token's life. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    phase: Phase,
    votes: Votes,
    round: Round,
    lease: LeaseState,
    /// What stands for the lease on the nodes, or will by the next renewal: the token, and behind it
    /// the label, if there is one.
    value: Value,
    /// When the value got another label than the one with which the token was drawn; `NEVER` while
    /// it has that label.
    relabelled: Instant,
    /// The keys by which the nodes are asked, where those are not its terms': of the slot that it is
    /// to have, or has; and of a lease that was not shared and is.
    own_keys: Option<Arc<Keys>>,
    /// How many fences the acquire takes, for leases that follow on this token.
    block: u32,
    /// A waiter decides how an attempt goes on that is not won.
    waits: bool,
    /// The first request of the attempt was sent after this moment; `NEVER` before.
    begun: Instant,
    renew_every: Duration,
}

/// The round that is to win the token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Round {
    /// Counts the changes that a waiter is woken for.
    progress: u64,
    /// The fence that is the time in the token, until one is proposed.
    drawn: u64,
    /// The fence that is [proposed](Claim::propose); 0 before.
    candidate: u64,
    /// A quorum has voted, and the home is waited for until then.
    home_due: Option<Instant>,
    /// The home's missing answer alone keeps the round from being won.
    awaits_home: bool,
    /// The home that has refused plain commands, and is asked again by script.
    taken: Option<usize>,
    /// Which slot the home has chosen.
    chosen: Option<u32>,
}

/// The present lease among those that the token is passed through.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LeaseState {
    /// How often the token was passed on.
    passed: u32,
    /// By which metrics tell it from others.
    group: Group,
    /// When it was won.
    since: Instant,
    /// Until when it is valid; `NEVER` before it is won, and once it is over.
    end: Instant,
    /// When it was handed to its user; `NEVER` before.
    handed_over: Instant,
    /// Its fence; 0 without fences, and before it is won.
    fence: u64,
    /// The last fence of the token's block.
    last_fence: u64,
    /// Why it was lost, if it was.
    loss: Option<LossReason>,
    /// The user was warned that `max_hold` is near.
    warned: bool,
    /// A node has said that the token was forced out.
    banned: bool,
}

/// By which commands nodes are asked for their votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Path {
    /// Plain commands, while no other is known that wants the lock.
    Plain,
    /// The script.
    Script,
}

/// What happens to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event<'a> {
    /// The attempt begins, or its next round: these nodes are asked. `homes`: those that queue the
    /// waiter if they refuse. From here on `max_hold` counts, and the time until the attempt
    /// [ends](Claim::attempt_ends).
    Begins {
        path: Path,
        nodes: Nodes,
        homes: Nodes,
    },
    /// These nodes are asked, the ones that refused once more; no node that has yet to answer, and
    /// none that has granted.
    Asks { nodes: Nodes, homes: Nodes },
    /// The slot of a semaphore that the token is to have is known.
    TakesSlot { slot: u32 },
    /// A node has replied to anything but a release.
    Replied {
        ticket: RequestContext,
        reply: &'a Reply,
    },
    /// The time may have come at which the home is waited for no longer.
    HomeDue,
    /// The lock is to be reserved for the waiter on all nodes but this home.
    Reserves { home: usize },
    /// The lease is looked at: what is over ends.
    LookedAt,
    /// The lease is looked at, and renewed where that is due.
    Tick,
    /// A node's clock may have stepped.
    ClockStepped,
    /// The lease of this number is to be lengthened on all nodes.
    Extends { lease: u32, ttl: Duration },
    /// The lease of this number is shared from now on.
    Shares { lease: u32 },
    /// The lease of this number goes on in another client.
    Exports { lease: u32 },
    /// The lease ends, and another begins on the same token for a request that it `serves`.
    PassesOn {
        label: &'a str,
        group: Group,
        serves: bool,
    },
    /// The lease is its user's from now on.
    HandedOver,
    /// The lease was its user's for nothing.
    TakenBack,
    /// The token is given up. The waiter stays in the queue of the node `stay`.
    Released { stay: Option<usize> },
    /// A valid lease is taken from its user.
    Forfeited(LossReason),
}

/// With what a claim begins.
#[derive(Debug)]
pub(crate) struct ClaimInit {
    /// The token, and behind it the label.
    pub(crate) value: Value,
    /// The fence that is the time in the token; 0 for none.
    pub(crate) drawn: u64,
    /// How many fences are asked for: one, and one for each lease that may follow on the token.
    pub(crate) block: u32,
    /// A waiter decides how the attempt goes on.
    pub(crate) waits: bool,
    /// The node in whose queue the waiter stands already, or may.
    pub(crate) queued: Option<usize>,
    /// From one renewal of a vote to the next.
    pub(crate) renew_every: Duration,
    /// How many nodes the set has.
    pub(crate) nodes: usize,
}

impl Claim {
    /// A claim that has asked no node so far.
    pub(crate) fn new(beginning: ClaimInit, now: Instant, env: &impl Env) -> Claim {
        let stepped = (0..beginning.nodes).map(|node| env.stepped(node));
        Claim {
            phase: Phase::Asking,
            votes: Votes::new(stepped, beginning.queued),
            round: Round {
                drawn: beginning.drawn,
                ..Round::default()
            },
            lease: LeaseState {
                passed: 0,
                group: env.terms().group,
                since: now,
                end: Instant::NEVER,
                handed_over: Instant::NEVER,
                fence: 0,
                last_fence: 0,
                loss: None,
                warned: false,
                banned: false,
            },
            value: beginning.value,
            relabelled: Instant::NEVER,
            own_keys: None,
            block: beginning.block,
            waits: beginning.waits,
            begun: Instant::NEVER,
            renew_every: beginning.renew_every,
        }
    }

    /// Takes one event into account, which happens at `now`. Returns what is to be done.
    #[cfg(test)]
    pub(crate) fn step(&mut self, event: Event<'_>, now: Instant, env: &impl Env) -> Effects {
        let mut effects = Effects::default();
        self.step_into(event, now, env, &mut effects);
        effects
    }

    /// As `step`, into effects that are empty: they are large, and so are written where the caller
    /// keeps them.
    pub(crate) fn step_into(
        &mut self,
        event: Event<'_>,
        now: Instant,
        env: &impl Env,
        fx: &mut Effects,
    ) {
        match event {
            Event::Begins { path, nodes, homes } => self.begin(path, nodes, homes, now, env, fx),
            Event::Asks { nodes, homes } => self.ask(Path::Script, nodes, homes, now, env, fx),
            Event::TakesSlot { slot } => fx.done = self.take_slot(slot, env),
            Event::Replied { ticket, reply } => self.take_reply(ticket, reply, now, env, fx),
            Event::HomeDue => self.look_for_home(now, env, fx),
            Event::Reserves { home } => self.reserve(home, now, env, fx),
            Event::LookedAt => {
                self.end_if_over(now, env, fx);
            }
            Event::Tick => self.tick(now, env, fx),
            Event::ClockStepped => self.look_at_steps(now, env, fx),
            Event::Extends { lease, ttl } => self.extend(lease, ttl, now, env, fx),
            Event::Shares { lease } => self.share(lease, now, env, fx),
            Event::Exports { lease } => self.export(lease, now, env, fx),
            Event::PassesOn {
                label,
                group,
                serves,
            } => fx.done = serves && self.pass_on(label, group, now, env, fx),
            Event::HandedOver => self.hand_over(now),
            Event::TakenBack => self.lease.handed_over = Instant::NEVER,
            Event::Released { stay } => self.release(stay, now, env, fx),
            Event::Forfeited(reason) => {
                if self.phase == Phase::Held {
                    self.lose(reason, now, env, fx);
                }
            }
        }
    }

    /// Takes a node's reply to anything but a release into account.
    fn take_reply(
        &mut self,
        ticket: RequestContext,
        reply: &Reply,
        now: Instant,
        env: &impl Env,
        fx: &mut Effects,
    ) {
        self.note_promptness(&ticket, reply, now, fx);
        let before = self.lease.end;
        self.settle_steps(env);
        // A lease that has ended stays ended, even if this reply would have
        // saved it a moment ago.
        if self.end_if_over(now, env, fx) {
            return;
        }
        let phase = self.phase;
        // A late answer can still explain why the round was lost.
        if phase == Phase::Dead && !self.votes.is_awaited(&ticket) {
            return;
        }
        let rules = self.rules(env);
        let node = &mut self.votes.0[ticket.node];
        let again = node.take(&ticket, reply, now, phase, &rules);
        if matches!(ticket.op, crate::node::Op::Extend { .. }) && ticket.sent < self.relabelled {
            // The node has stored the label of the previous lease.
            node.requests.renew_at = now;
        }
        if again == votes::Repeat::Yes {
            return self.ask_again(&ticket, now, env, fx);
        }
        if self.is_undecided(env) {
            return self.take_choice(reply, fx);
        }
        self.lease.banned |= *reply == Reply::Banned;
        if let Reply::Extended { repaired } = reply {
            fx.counts.renewed = true;
            fx.counts.repaired = *repaired;
        }
        match phase {
            Phase::Asking => self.take_vote(ticket.node, reply, now, env, fx),
            Phase::Held => self.measure(before, now, env, fx),
            Phase::Dead => fx.wake = Some(Wake::AfterSending),
        }
    }

    /// Looks at the round after one more reply to it.
    fn take_vote(
        &mut self,
        node: usize,
        reply: &Reply,
        now: Instant,
        env: &impl Env,
        fx: &mut Effects,
    ) {
        if *reply == Reply::Taken && self.ask_home_again(node, now, env, fx) {
            return;
        }
        if matches!(reply, Reply::Failed(_) | Reply::Late) {
            self.refusal_stands(node);
        }
        self.note_awaited_timeout(node, reply, now, env, fx);
        // A waiter goes on otherwise after such a reply, if the round is still open.
        let tells = !matches!(reply, Reply::Granted { .. }) || self.votes.are_in();
        self.round.progress += u64::from(tells);
        self.conclude(tells, now, env, fx);
    }

    /// Counts a timeout without which the round would still be open.
    fn note_awaited_timeout(
        &self,
        node: usize,
        reply: &Reply,
        now: Instant,
        env: &impl Env,
        fx: &mut Effects,
    ) {
        use crate::node::FaultKind::Timeout;
        use crate::protocol::quorum;
        if matches!(reply, Reply::Failed(f) if f.kind == Timeout) {
            let needed = now + env.terms().timing.min_validity;
            let unanswered = |(i, vote)| if i == node { Vote::Awaited } else { vote };
            let before = self.votes.0.iter().map(|node| node.vote).enumerate();
            fx.counts.awaited_timeout = self.votes.verdict(needed) == RoundVerdict::Lost
                && quorum::verdict(before.map(unanswered), needed) != RoundVerdict::Lost;
        }
    }

    fn rules(&self, env: &impl Env) -> Rules {
        Rules {
            timing: env.terms().timing,
            drift: env.terms().drift,
            renew_every: self.renew_every,
        }
    }

    /// Whether a waiter, or a client that adopts, decides how an attempt goes on that is not won.
    fn is_patient(&self, env: &impl Env) -> bool {
        self.waits || env.terms().keys.adopts.is_some()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether a quorum voted for the token: a lease may be lost before its winner looks.
    pub(crate) fn is_won(&self) -> bool {
        self.phase == Phase::Held || self.lease.loss.is_some()
    }

    /// Whether every node that was asked for its vote has answered, or failed to.
    pub(crate) fn is_answered(&self) -> bool {
        self.votes.are_in()
    }

    /// What a waiter compares with what it has seen: it changes when there is more to know.
    pub(crate) fn progress(&self) -> u64 {
        self.round.progress
    }

    /// When the attempt was begun; `NEVER` before.
    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    /// When an attempt that is still open is over.
    pub(crate) fn attempt_ends(&self, env: &impl Env) -> Instant {
        let terms = env.terms();
        let long = 2 * terms.timing.node_timeout;
        let long = if self.waits {
            // Votes from its beginning are to be worth something at its end.
            long.max(terms.keys.waits.reservation.min(terms.timing.ttl / 2))
        } else if terms.keys.adopts.is_some() {
            long.max(terms.timing.ttl)
        } else {
            long
        };
        self.begun + long
    }

    /// What each node's vote is worth: until when it counts, its mark, and until when it counted
    /// on which server.
    #[cfg(test)]
    pub(crate) fn counted(&self) -> impl Iterator<Item = (Instant, Mark, (Instant, u64))> {
        let worth = |node: &votes::NodeVote| {
            let confirmed = (node.confirmed.until, node.confirmed.server);
            (node.end, node.mark, confirmed)
        };
        self.votes.0.iter().map(worth)
    }

    /// In which mode the lease is held.
    pub(crate) fn mode(&self, env: &impl Env) -> Mode {
        self.keys(env).mode
    }

    /// What all requests for the token have in common.
    pub(crate) fn keys<'a>(&'a self, env: &'a impl Env) -> &'a Arc<Keys> {
        self.own_keys.as_ref().unwrap_or(&env.terms().keys)
    }

    /// What stands for the lease on the nodes, or will by the next renewal.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }
}

#[cfg(test)]
mod tests;
