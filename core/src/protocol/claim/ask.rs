//! What the nodes are asked for their votes, and until when, by their clocks, they may do it.

use std::time::Duration;

use super::effects::{Ask, Effects, PerNode};
use super::env::Env;
use super::{Claim, Path, Phase};
use crate::clock::Instant;
use crate::node::{Mode, Nodes, Op, Repair, RequestContext, native};
use crate::protocol::quorum::Vote;

/// For how long the lock is reserved for a waiter: three polls of the first in a line. No longer
/// than its ttl, for a client that dies costs the others no more than that.
const RESERVED: Duration = Duration::from_millis(1_800);

impl Claim {
    pub(super) fn begin(
        &mut self,
        path: Path,
        nodes: Nodes,
        homes: Nodes,
        now: Instant,
        env: &impl Env,
        fx: &mut Effects,
    ) {
        // Votes that are taken over are asked for in rounds of one attempt.
        let goes_on = env.terms().keys.adopts.is_some() && self.begun != Instant::NEVER;
        if !goes_on {
            self.begun = now;
        }
        self.round.candidate = 0;
        self.round.home_due = None;
        self.ask(path, nodes, homes, now, env, fx);
    }

    /// The commands that ask for a lock for which this client has not waited so far. Plain commands
    /// know of no queue and no readers, and take one fence at once. A lock in Redisson's layout is
    /// asked for by its script all the same, before the client listens to its channel.
    pub(crate) fn cheapest_path(&self, now: Instant, env: &impl Env) -> Path {
        let contended = || env.is_contended(now);
        let alone = env.terms().keys.mode.is_alone();
        if alone && self.block == 1 && !contended() {
            Path::Plain
        } else {
            Path::Script
        }
    }

    pub(super) fn ask(
        &mut self,
        path: Path,
        nodes: Nodes,
        homes: Nodes,
        now: Instant,
        env: &impl Env,
        fx: &mut Effects,
    ) {
        if self.phase != Phase::Asking {
            return;
        }
        // Where the home has voted, the others are to store the same fence; but no
        // less than the median, for the home's clock alone bounds what it stores.
        let proposed = self.propose(path, now, env);
        let voted = self.votes.0.iter().map(|node| node.mark.stored).max();
        let voted = voted.unwrap_or(0);
        let candidate = voted.max(proposed);
        let candidate = if self.is_undecided(env) {
            self.first_slot(env).into()
        } else {
            candidate
        };
        // A node that may be in quarantine is asked by script, so that it says so.
        let native = |i: usize| path == Path::Plain && !env.is_out(i);
        let native: Nodes = nodes.iter().filter(|i| native(*i)).collect();
        let let_in = self.is_let_in(now, env);
        let in_field = env.terms().keys.field.is_some();
        for i in nodes.iter() {
            let plain = native.contains(i);
            let home = homes.contains(i) && !plain;
            let renew_at = now + self.renew_every;
            // In Redisson's layout a node never tells what others have stored: what it has
            // is the token's own.
            let counted_from = candidate.max(in_field.into());
            let queues = self.waits && home;
            let node = &mut self.votes.0[i];
            node.ask(counted_from, queues, renew_at);
            node.scripted |= !plain;
            let op = Op::Acquire {
                ttl: env.terms().timing.ttl,
                candidate,
                home,
                let_in,
                block: self.block,
            };
            fx.asks.push(if plain && !in_field {
                native_ask(i, op, now, env)
            } else {
                self.scripted_ask(i, op, now, env)
            });
        }
        self.address(env, fx);
    }

    /// The fence to propose, once enough clocks are known: 0 before, and without fences. It is
    /// drawn once for each attempt, so that what is written back does not move with the time.
    pub(super) fn propose(&mut self, path: Path, now: Instant, env: &impl Env) -> u64 {
        let round = &mut self.round;
        if round.candidate == 0 && env.terms().keys.fence_ttl.is_some() {
            // Plain commands are sent as soon as the token is drawn, and propose the time in it. A
            // script may be sent after a wait, when the clocks tell another time.
            let drawn = std::mem::take(&mut round.drawn);
            round.candidate = match drawn {
                drawn if drawn != 0 && (path == Path::Plain) => drawn,
                _ => env.draw_fence(now),
            };
        }
        round.candidate
    }

    /// Asks the node the same once more.
    pub(super) fn ask_again(
        &self,
        ticket: &RequestContext,
        now: Instant,
        env: &impl Env,
        fx: &mut Effects,
    ) {
        self.ask_each([ticket.node], ticket.op, now, env, fx);
    }

    /// Reserves the lock for the waiter on all nodes but the `home`, so that they let no more readers
    /// in.
    ///
    /// Only the home knows the queue. Readers that win without the home's vote would keep a waiter
    /// that wants the lock for itself out forever, so the waiter that stands first at the home
    /// reserves the lock on the other nodes, with each of its polls. Only the first does: if all
    /// waiters did, their reservations would split over the nodes, and readers would starve in
    /// their place. A reservation carries no safety, and ends by itself.
    ///
    /// A reader with the home's vote passes it. The home has let that reader in before this waiter
    /// was the first, and its requests to the other nodes may be on their way: refused there it would
    /// leave both without a quorum until its attempt ends. The waiter does not starve for that: the
    /// home lets no more readers in behind it, and a client that takes another node for the home asks
    /// that one first, without any vote. A waiter that alone cannot reach the home waits longer:
    /// readers win without the nodes in whose queues it stands, until its retries have queued it on
    /// so many that no quorum is left to them. It leaves these queues with its attempt, so that
    /// readers that hold the lock for longer, and always overlap, can keep it out.
    pub(super) fn reserve(&mut self, home: usize, now: Instant, env: &impl Env, fx: &mut Effects) {
        if self.phase != Phase::Asking {
            return;
        }
        let others = (0..self.votes.0.len()).filter(|node| *node != home);
        let others: PerNode<usize> = others.filter(|node| !env.is_out(*node)).collect();
        // What is reserved there has to be taken back with the waiter's place.
        for node in &others {
            self.votes.0[*node].queued = true;
        }
        let op = Op::Reserve {
            long: RESERVED.min(env.terms().timing.ttl),
        };
        self.ask_each(others, op, now, env, fx);
    }

    /// Writes the fence to the voters that store less, unless they have been asked to: their votes
    /// brought different ones.
    pub(super) fn write_back(
        &mut self,
        fence: u64,
        needed: Instant,
        now: Instant,
        env: &impl Env,
        fx: &mut Effects,
    ) {
        let mut less = PerNode::new();
        for (i, node) in self.votes.0.iter_mut().enumerate() {
            let mark = &mut node.mark;
            if node.vote.lasts(needed)
                && !mark.failed
                && mark.stored != fence
                && mark.asked != fence
            {
                mark.asked = fence;
                less.push(i);
            }
        }
        fx.counts.write_backs = less.len() as u32;
        let op = Op::Confirm {
            ttl: env.terms().timing.ttl,
            fence,
            block: self.block,
        };
        self.ask_each(less, op, now, env, fx);
    }

    /// Asks the same of each of those nodes.
    pub(super) fn ask_each(
        &self,
        nodes: impl IntoIterator<Item = usize>,
        op: Op,
        now: Instant,
        env: &impl Env,
        fx: &mut Effects,
    ) {
        for node in nodes {
            fx.asks.push(self.scripted_ask(node, op, now, env));
        }
        self.address(env, fx);
    }

    /// Says by which keys, and with which value, the nodes are asked.
    fn address(&self, env: &impl Env, fx: &mut Effects) {
        fx.asks_for = Some((self.keys(env).clone(), self.value.clone()));
    }

    fn scripted_ask(&self, node: usize, op: Op, now: Instant, env: &impl Env) -> Ask {
        let deadline = now + env.terms().timing.node_timeout;
        let deadline = match op {
            // A round is over after twice the time of one request.
            Op::Confirm { .. } => deadline.min(self.attempt_ends(env)),
            Op::Acquire { .. } if !self.waits => deadline.min(self.attempt_ends(env)),
            _ => deadline,
        };
        let (op, not_after, server) = self.bounded(node, op, now, env);
        Ask {
            node,
            op,
            native: false,
            not_after,
            server,
            deadline,
        }
    }

    /// What is asked of the node at `now`, and the `TIME` after which it must do
    /// nothing: so that a request which is stuck in a dead connection takes no
    /// lock that is wanted no more. 0: no such time is known. By the clock of that server.
    ///
    /// Here is rule R11 (`extend` in docs/reference/protocol.md): in quarantine a vote that
    /// is gone is stored anew only on the very server that gave it, and only while
    /// its end is still ahead by that server's own clock.
    pub(crate) fn bounded(
        &self,
        node: usize,
        op: Op,
        now: Instant,
        env: &impl Env,
    ) -> (Op, u64, u64) {
        let Some(((_, high), server)) = env.node_time(node, now) else {
            return (op, 0, 0);
        };
        let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX / 2);
        let timeout = env.terms().timing.node_timeout;
        let late = micros(timeout + timeout / 10);
        let Op::Extend {
            ttl,
            repair: Repair::Yes,
            fence,
            behind,
        } = op
        else {
            return (op, high + late, server);
        };
        let confirmed = self.votes.0[node].confirmed;
        let (had, its) = (confirmed.until, confirmed.server);
        // Another server may have answered since, to another lease of this client.
        let clock = its;
        let known = env.server_time(node, clock, now);
        let Some((low, high)) = known.filter(|_| now < had) else {
            return (op, high + late, server);
        };
        let repair = Repair::InQuarantine { server: its };
        let (usual, end) = (high + late, low + micros(now.until(had)));
        (
            Op::Extend {
                ttl,
                repair,
                fence,
                behind,
            },
            usual.min(end),
            its,
        )
    }

    /// Whether the home has let this reader in: its vote stands at `now`. Then a waiter that has
    /// come to be the first there keeps it out on no other node: see [`reserve`](Claim::reserve).
    fn is_let_in(&self, now: Instant, env: &impl Env) -> bool {
        let voted =
            |home: usize| matches!(self.votes.0[home].vote, Vote::Granted(end) if now < end);
        (self.mode(env) == Mode::Shared) && self.home(env).is_some_and(voted)
    }
}

/// An acquire by plain commands. Its key ends at a `TIME` of its own by the best guess, whenever it
/// is carried out: so a request that is stuck in a dead connection takes no lock that is no longer
/// wanted.
fn native_ask(node: usize, op: Op, now: Instant, env: &impl Env) -> Ask {
    let timing = env.terms().timing;
    let ends = |(time, server)| (native::key_end(time, timing.ttl), server);
    let (not_after, server) = env.guess(node, now).map_or((0, 0), ends);
    Ask {
        node,
        op,
        native: true,
        not_after,
        server,
        deadline: now + timing.node_timeout,
    }
}
