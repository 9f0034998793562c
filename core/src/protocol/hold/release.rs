//! The end of a token: what it may have left on the nodes, and the releases
//! that take it away.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use super::Hold;
use super::ask::Traces;
use super::votes::{Phase, Votes};
use crate::clock::{self, Instant};
use crate::mutex::lock;
use crate::node::{AfterRelease, FaultKind, Mode, Nodes, Reply, RequestContext, Sink, Value};
use crate::protocol::counters::count;
use crate::protocol::quorum::{self, Vote};
use crate::protocol::set::Set;
use crate::wakers::Wakers;

/// The releases of one token on their way.
pub struct Release {
    set: Arc<Set>,
    /// The lock is to stay taken: only a node that has stored so has done it.
    keeps: bool,
    state: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    open: usize,
    done: usize,
    not_held: usize,
    kept: usize,
    /// Of so many nodes, and why the last of them: it will not do it by itself.
    refused: (usize, Option<Arc<str>>),
    wakers: Wakers,
}

impl Release {
    pub(super) fn new(set: &Arc<Set>, keeps: bool, open: usize) -> Arc<Release> {
        set.counters
            .releases_pending
            .fetch_add(open, Ordering::AcqRel);
        let state = Mutex::new(Answers {
            open,
            ..Answers::default()
        });
        Arc::new(Release {
            set: set.clone(),
            keeps,
            state,
        })
    }

    /// Waits until a quorum has carried the release out, or all have answered
    /// or failed to. Returns false if a quorum did not hold the token, or may not carry it out;
    /// where the lock is to stay taken, also unless a quorum keeps it so.
    pub async fn acknowledged(&self) -> bool {
        let quorum = quorum::quorum(self.set.links.len());
        poll_fn(|cx| {
            let mut state = lock(&self.state);
            if self.is_decided(&state) {
                Poll::Ready(if self.keeps {
                    state.not_held < quorum && state.kept >= quorum
                } else {
                    state.not_held + state.refused.0 < quorum
                })
            } else {
                state.wakers.park(cx)
            }
        })
        .await
    }

    /// Why a node may not carry it out, if one has said so: its user lacks a permission.
    pub(crate) fn refused(&self) -> Option<Arc<str>> {
        lock(&self.state).refused.1.clone()
    }

    /// Whether the lock was to stay taken, and too few nodes have said that it does.
    pub(crate) fn keeps_too_little(&self) -> bool {
        self.keeps && lock(&self.state).kept < quorum::quorum(self.set.links.len())
    }

    /// Whether no answer that is to come changes anything.
    fn is_decided(&self, state: &Answers) -> bool {
        let all = state.open == 0;
        let done = if self.keeps { state.kept } else { state.done };
        all || done >= quorum::quorum(self.set.links.len())
    }
}

impl Sink for Release {
    fn on_reply(&self, ticket: RequestContext, reply: Reply, _: Option<u64>) {
        if matches!(reply, Reply::Released { .. } | Reply::Kept) {
            self.set.answered(ticket.node, None, false);
        }
        self.set.counters.release_done();
        let mut state = lock(&self.state);
        state.open -= 1;
        match reply {
            Reply::Released { held } => {
                state.done += 1;
                state.not_held += usize::from(!held);
                state.kept += usize::from(held);
            }
            Reply::Kept => {
                state.done += 1;
                state.not_held += 1;
                state.kept += 1;
            }
            Reply::Failed(fault) if fault.kind == FaultKind::Misconfigured && fault.sent => {
                state.refused = (state.refused.0 + 1, Some(fault.text));
            }
            _ => {}
        }
        // Whoever waits is woken once, at the answer that decides.
        let wakers = if self.is_decided(&state) {
            state.wakers.take()
        } else {
            Wakers::default()
        };
        drop(state);
        wakers.wake();
    }

    fn wanted(&self) -> bool {
        true
    }
}

/// See [`Hold::adopted`].
type Adopted = (Value, Nodes);

impl Hold {
    /// Ends the token's life and sends its release to every node that may
    /// know it. Returns whether the lease was valid, and the nodes' answers to
    /// come. Also the end of an attempt that is given up: its waiter leaves
    /// every queue.
    pub fn release(&self) -> (bool, Arc<Release>) {
        self.give_up(None)
    }

    /// As [`release`](Hold::release), but the waiter stays in the queue of the
    /// node `stay`.
    pub(crate) fn give_up(&self, stay: Option<usize>) -> (bool, Arc<Release>) {
        let now = self.set.clock.now();
        let mut state = self.state();
        if self.end_if_over(&mut state, now) {
            self.publish(state);
            return (false, Release::new(&self.set, false, 0));
        }
        let was = state.phase;
        // Dead first, then the first byte: nothing is renewed, repaired or
        // won for this token from here on.
        state.phase = Phase::Dead;
        self.end.store(Instant::NEVER.0, Ordering::Release);
        let traces = self.traces(&state.votes, stay, now);
        let old = self.adopted(&state.votes).filter(|_| was == Phase::Held);
        let (group, since) = (state.lease.group, state.lease.since);
        let wakers = state.round.wakers.take();
        drop(state);
        wakers.wake();
        if was == Phase::Dead {
            return (false, Release::new(&self.set, false, 0));
        }
        if was == Phase::Held {
            count(&self.set.counters.released);
            self.set.counters.measures.released(group, since.until(now));
        }
        let release = self.undo_at(&traces, now);
        self.release_old(old, now);
        if was == Phase::Held {
            self.tell_over();
        }
        (was == Phase::Held, release)
    }

    /// What may be left of the token, which is dead, and where it is to be told that the lock
    /// stays taken: at all nodes, for another would win by those that gave it no vote.
    pub(super) fn traces(&self, votes: &Votes, stay: Option<usize>, now: Instant) -> Vec<Traces> {
        let mut traces = votes.traces(stay);
        if self.leaving(now).keeps() {
            for traces in &mut traces {
                (traces.token, traces.scripted) = (true, true);
            }
        }
        traces
    }

    /// Sends the release to the nodes on which something may be left.
    pub(super) fn undo(&self, traces: &[Traces]) -> Arc<Release> {
        self.undo_at(traces, self.set.clock.now())
    }

    /// The lease is its user's from now on: what is kept is kept from here. One that nobody
    /// has got is taken back without a trace.
    pub(crate) fn hand_over(&self) {
        if self.terms.asked.keep.is_zero() {
            return;
        }
        let (never, now) = (Instant::NEVER.0, self.set.clock.now().0);
        // Another handle on it changes nothing.
        let _ = self
            .handed_over
            .compare_exchange(never, now, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// It was its user's for nothing.
    pub(crate) fn take_back(&self) {
        self.handed_over.store(Instant::NEVER.0, Ordering::Release);
    }

    /// How the release of this token leaves the lock: taken to the end of its
    /// [`keep`](super::Terms::keep), at whatever rate the nodes' clocks go.
    pub(super) fn leaving(&self, now: Instant) -> AfterRelease {
        let keep = self.terms.asked.keep;
        if self.mode() == Mode::Shared {
            return AfterRelease::Free;
        }
        let Some(won) = self.won() else {
            return AfterRelease::Free;
        };
        if keep.is_zero() {
            return AfterRelease::Free;
        }
        let full = keep + clock::drift_allowance(keep, self.terms.drift);
        let end = won + full;
        if now < end {
            AfterRelease::TakenUntil(end)
        } else {
            AfterRelease::Free
        }
    }

    /// Whether the lock stays taken though the present lease is given up at `now`.
    pub(super) fn is_kept(&self, now: Instant) -> bool {
        self.won()
            .is_some_and(|won| now < won + self.terms.asked.keep)
    }

    /// When the present lease became its user's.
    fn won(&self) -> Option<Instant> {
        let at = Instant(self.handed_over.load(Ordering::Acquire));
        (at != Instant::NEVER).then_some(at)
    }

    /// The value of the lease that was adopted, and the nodes whose votes were not taken over.
    pub(super) fn adopted(&self, votes: &Votes) -> Option<Adopted> {
        let old = self.terms.keys.adopts.as_ref()?;
        Some((old.value.clone(), votes.not_granted()))
    }

    /// Of a lease that is over: what it has adopted may stand yet on nodes whose votes were not
    /// taken over. Nobody else can win with that any more, and nobody else takes it away.
    pub(super) fn release_old(&self, old: Option<Adopted>, now: Instant) {
        let Some((old, nodes)) = old else { return };
        let sink: Arc<dyn Sink> = Release::new(&self.set, false, nodes.iter().count());
        let traces = Traces {
            token: true,
            waiter: false,
            scripted: true,
        };
        let releases = nodes.iter().map(|node| {
            let mut asked = self.release_of(node, traces, true, now);
            asked.request.value = old.clone();
            asked
        });
        self.set.send(releases, &sink);
    }

    fn undo_at(&self, traces: &[Traces], now: Instant) -> Arc<Release> {
        let most = traces.len();
        let targets = || {
            let left = traces.iter().enumerate().filter(|(_, traces)| traces.any());
            left.take(most)
        };
        let keeps = self.leaving(now).keeps();
        let release = Release::new(&self.set, keeps, targets().count());
        let sink: Arc<dyn Sink> = release.clone();
        let lined = self.set.contention.is_seen(&self.terms.keys.lock, now);
        let releases = targets().map(|(node, traces)| self.release_of(node, *traces, lined, now));
        self.set.send(releases, &sink);
        release
    }
}

impl Votes {
    /// The nodes that have given no vote.
    pub(super) fn not_granted(&self) -> Nodes {
        let none = |i: &usize| !matches!(self.cast[*i], Vote::Granted(_));
        (0..self.cast.len()).filter(none).collect()
    }

    /// What may be left on the nodes. The waiter is left alone at `stay`.
    pub(super) fn traces(&self, stay: Option<usize>) -> Vec<Traces> {
        let token = |i: usize| self.nodes[i].requests.reached > 0;
        let traces = |i: usize| Traces {
            token: token(i),
            waiter: self.nodes[i].queued && stay != Some(i),
            scripted: self.nodes[i].scripted,
        };
        (0..self.nodes.len()).map(traces).collect()
    }

    /// What is left of a waiter that has what it waited for: its places on
    /// nodes that have answered, or failed to. Empty if there are none.
    pub(super) fn left_behind(&mut self) -> Vec<Traces> {
        let mut traces = Vec::new();
        for (i, node) in self.nodes.iter_mut().enumerate() {
            if !node.queued || self.cast[i] == Vote::Awaited {
                continue;
            }
            node.queued = false;
            traces.resize(self.cast.len(), Traces::default());
            traces[i].waiter = true;
        }
        traces
    }
}

impl std::fmt::Debug for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Release")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Fault, Op};
    use crate::protocol::set::tests::of_silent;
    use std::pin::pin;
    use std::task::{Context, Waker};

    /// What is said of a release that so many nodes have answered so; `None` while it is waited
    /// for more.
    fn said(keeps: bool, replies: &[Reply]) -> Option<bool> {
        let release = Release::new(&of_silent(3), keeps, 3);
        for (node, reply) in replies.iter().enumerate() {
            let ticket = RequestContext {
                node,
                sent: Instant(1),
                deadline: Instant::FAR,
                op: Op::Release,
                server: 0,
            };
            release.on_reply(ticket, reply.clone(), None);
        }
        match pin!(release.acknowledged()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(said) => Some(said),
            Poll::Pending => None,
        }
    }

    fn held(held: bool) -> Reply {
        Reply::Released { held }
    }

    fn silent() -> Reply {
        Reply::Failed(Fault::new(FaultKind::Timeout, "it is silent", false))
    }

    #[test]
    fn a_lock_is_kept_by_a_quorum_that_has_stored_so() {
        for (replies, expected) in [
            (&[held(true), held(true)][..], Some(true)),
            (&[held(true), held(false)], None),
            (&[held(true), Reply::Kept], Some(true)),
            (&[Reply::Kept, Reply::Kept], Some(false)),
            (&[held(true), held(false), held(true)], Some(true)),
            (&[held(true), held(false), silent()], Some(false)),
            (&[held(true), silent(), silent()], Some(false)),
        ] {
            assert_eq!(said(true, replies), expected, "{replies:?}");
        }
    }

    #[test]
    fn what_nodes_refuse_to_carry_out_is_not_done() {
        let fault = |kind, sent| Reply::Failed(Fault::new(kind, "NOPERM no", sent));
        let refused = || fault(FaultKind::Misconfigured, true);
        for (replies, expected) in [
            (&[refused(), refused(), refused()][..], Some(false)),
            (&[refused(), held(true), refused()], Some(false)),
            (&[refused(), held(true), held(true)], Some(true)),
            (&[refused(), held(true), silent()], Some(true)),
            (&[refused(), held(false), silent()], Some(false)),
        ] {
            assert_eq!(said(false, replies), expected, "{replies:?}");
        }
        // What never got there is sent again.
        let away = || fault(FaultKind::Misconfigured, false);
        assert_eq!(said(false, &[away(), away(), away()]), Some(true));
    }

    #[test]
    fn a_lock_that_is_not_kept_is_free_by_any_answer() {
        for (replies, expected) in [
            (&[held(true), held(false)][..], Some(true)),
            (&[held(false), held(false)], Some(false)),
            (&[held(true), silent()], None),
            (&[held(true), silent(), silent()], Some(true)),
        ] {
            assert_eq!(said(false, replies), expected, "{replies:?}");
        }
    }
}
