//! The queues of one client: for each lock, the calls of this process that wait for it.
//!
//! First come, first served. Only the first in a queue asks the nodes; the rest wait behind, which
//! costs the network nothing. While a lease that was won in a queue is held, no call asks: the end
//! of the lease, by release or by loss, calls the next. A lease that is released may go to the next
//! as it stands (see [`ClaimCell::pass_on`]); a lease that may not is released on the nodes, where other
//! clients may be queued, before the next here asks. Calls that share the lock ask side by side,
//! each for a lease of its own, as far as no call is before them that wants the lock alone. So do
//! calls for a slot of a semaphore, as far as this client may have more slots.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::hash::HashMap;
use crate::node::{LockId, Mode};
use crate::protocol::claim::failure::NoQuorum;
use crate::protocol::claim::{IN_A_ROW, LockParams};
use crate::protocol::claim_cell::ClaimCell;
use crate::protocol::renewal::WatchHandle;
use crate::sync::{Mutex, lock};
use crate::wakers::Wakers;

/// How many ask the nodes at once, of those that share a lock, or its slots.
const SIDE_BY_SIDE: usize = 64;

/// The queues of a client, by their locks. A queue exists only while a call asks, waits, or holds a
/// lease that was won in it.
#[derive(Debug, Default)]
pub struct LocalQueues(Mutex<HashMap<LockId, LocalQueue>>);

#[derive(Debug, Default)]
struct LocalQueue {
    /// A call that wants the lock alone has its turn: it asks the nodes.
    asking: bool,
    /// How many calls ask side by side, for a share of the lock or a slot of it.
    sharing: usize,
    /// The lease that was won last and is not over.
    held: Option<u64>,
    /// Those that share the lock, or have this slot of it, and are not over.
    shared: Vec<(u64, Option<u32>)>,
    /// Boxed, for most queues are those of leases that no call waits for.
    behind: Option<Box<LocalWaiters>>,
}

/// The calls that wait, and what for.
#[derive(Debug, Default)]
struct LocalWaiters {
    seats: VecDeque<Arc<LocalWaiter>>,
    /// What the nodes said to the last attempt that did not win.
    said: Option<Arc<NoQuorum>>,
}

#[derive(Debug)]
struct LocalWaiter {
    /// What is asked for.
    terms: LockParams,
    call: Mutex<Wakeup>,
}

/// What has come of a seat.
#[derive(Debug)]
enum Wakeup {
    /// The call waits, and this wakes it.
    NotYet(Option<Waker>),
    /// It is its turn to ask the nodes.
    Ask,
    /// It was given a lease.
    Given(PassedLease),
    /// It has taken that.
    Taken,
}

impl LocalWaiter {
    fn mode(&self) -> Mode {
        self.terms.keys.mode
    }

    /// Calls it, in the line's lock. To be woken when that is dropped.
    fn call(&self, call: Wakeup) -> Option<Waker> {
        match std::mem::replace(&mut *lock(&self.call), call) {
            Wakeup::NotYet(waker) => waker,
            _ => None,
        }
    }

    fn waker(&self) -> Option<Waker> {
        match &mut *lock(&self.call) {
            Wakeup::NotYet(waker) => waker.take(),
            _ => None,
        }
    }
}

/// A lease that was passed on, and its watch.
pub type PassedLease = (Arc<ClaimCell>, WatchHandle);

/// A place in a line: a seat, until it is called. Dropped, it is left, and the
/// next one called.
#[derive(Debug)]
pub(crate) struct LocalPlace {
    lines: Arc<LocalQueues>,
    id: LockId,
    /// `None`: it is our turn.
    seat: Option<Arc<LocalWaiter>>,
    mode: Mode,
}

/// What a call in a line brings.
pub(crate) enum Grant {
    /// It is our turn to ask the nodes.
    Ask,
    /// A lease.
    Given(PassedLease),
}

/// Whether a lease was passed on.
#[derive(Debug)]
pub enum PassOutcome {
    /// It was.
    On,
    /// It is still to be released.
    Not(WatchHandle),
}

impl LocalQueue {
    /// Calls the next, if no call asks and nothing is held; of calls that share all up to the first
    /// that does not, beside others that do. To be woken once the lock is dropped.
    fn call(&mut self) -> Wakers {
        let mut called = Wakers::default();
        while let Some(front) = self.behind.as_ref().and_then(|b| b.seats.front())
            && self.is_open(front.mode())
        {
            let mode = front.mode();
            let seat = self.behind.as_mut().and_then(|b| b.seats.pop_front());
            let Some(seat) = seat else { break };
            self.ask(mode);
            called.extend(seat.call(Wakeup::Ask));
        }
        called
    }

    /// Whether a call may ask now, if no other is before it.
    fn is_open(&self, mode: Mode) -> bool {
        let alone = self.asking || self.held.is_some();
        match mode {
            Mode::AnySlot(slots) => {
                // A call that counts more slots than this one may have others.
                let his = |(_, slot): &&(u64, Option<u32>)| slot.is_some_and(|slot| slot < slots);
                let left = (slots as usize).saturating_sub(self.shared.iter().filter(his).count());
                !alone && self.sharing < SIDE_BY_SIDE.min(left)
            }
            Mode::Slot(_) => !alone,
            Mode::Exclusive => !alone && self.sharing == 0 && self.shared.is_empty(),
            Mode::Shared => !alone && self.sharing < SIDE_BY_SIDE,
        }
    }

    /// A call has its turn.
    fn ask(&mut self, mode: Mode) {
        match mode {
            Mode::Exclusive | Mode::Slot(_) => self.asking = true,
            Mode::Shared | Mode::AnySlot(_) => self.sharing += 1,
        }
    }

    /// He asks no more.
    fn asked(&mut self, mode: Mode) {
        match mode {
            Mode::Exclusive | Mode::Slot(_) => self.asking = false,
            Mode::Shared | Mode::AnySlot(_) => self.sharing -= 1,
        }
    }

    /// Whether this lease of the line may be passed on: it is had alone, or is a slot.
    fn may_pass(&self, lease: u64) -> bool {
        let is_slot = |(held, slot): &(u64, Option<u32>)| *held == lease && slot.is_some();
        self.held == Some(lease) || self.shared.iter().any(is_slot)
    }

    /// Whether a lease that was won in the line is not over.
    fn is_held(&self) -> bool {
        self.held.is_some() || !self.shared.is_empty()
    }

    fn is_empty(&self) -> bool {
        !self.asking && self.sharing == 0 && !self.is_held() && self.waiting() == 0
    }

    /// How many wait behind.
    fn waiting(&self) -> usize {
        self.behind.as_ref().map_or(0, |behind| behind.seats.len())
    }
}

impl LocalQueues {
    /// Takes a place at the end of a queue; `None` if `most` others wait there behind the call that
    /// asks or holds.
    pub(crate) fn enter(self: &Arc<Self>, terms: &LockParams, most: usize) -> Option<LocalPlace> {
        let id = terms.keys.id();
        let mut table = lock(&self.0);
        let mode = terms.keys.mode;
        let line = table.entry(id.clone()).or_default();
        let seat = if (line.waiting() == 0) && line.is_open(mode) {
            line.ask(mode);
            None
        } else if line.waiting() >= most {
            return None;
        } else {
            let seat = Arc::new(LocalWaiter {
                terms: terms.clone(),
                call: Mutex::new(Wakeup::NotYet(None)),
            });
            let behind = line.behind.get_or_insert_default();
            behind.seats.push_back(seat.clone());
            Some(seat)
        };
        drop(table);
        Some(LocalPlace {
            lines: self.clone(),
            id: id.clone(),
            seat,
            mode,
        })
    }

    /// Has all calls that wait for that lock look again: one of them may re-enter the lease that
    /// was just won.
    pub(crate) fn look_again(&self, id: &LockId) {
        let table = lock(&self.0);
        let Some(behind) = table.get(id).and_then(|line| line.behind.as_ref()) else {
            return;
        };
        let wakers: Vec<_> = behind.seats.iter().filter_map(|s| s.waker()).collect();
        drop(table);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Passes a lease that was won in this line, and is given up, to the first
    /// that waits, if it serves for what that asks for.
    pub fn pass(&self, hold: &Arc<ClaimCell>, watched: WatchHandle) -> PassOutcome {
        let mut table = lock(&self.0);
        let line = table.get_mut(hold.terms.keys.id());
        let Some(behind) = line
            .filter(|line| line.may_pass(hold.id))
            .and_then(|line| line.behind.as_mut())
        else {
            return PassOutcome::Not(watched);
        };
        let next = behind.seats.front();
        if !next.is_some_and(|seat| hold.pass_on(&seat.terms)) {
            return PassOutcome::Not(watched);
        }
        let seat = behind.seats.pop_front().expect("looked at above");
        let waker = seat.call(Wakeup::Given((hold.clone(), watched)));
        drop(table);
        if let Some(waker) = waker {
            waker.wake();
        }
        PassOutcome::On
    }

    /// What the nodes said to the last attempt in that line; `None` if the lock has been held in
    /// this process since.
    pub(crate) fn said(&self, id: &LockId) -> Option<Arc<NoQuorum>> {
        let table = lock(&self.0);
        let line = table.get(id)?;
        let said = line.behind.as_ref()?.said.clone();
        said.filter(|_| !line.is_held())
    }

    /// How many wait behind those that ask or hold, over all lines.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.0).values().map(LocalQueue::waiting).sum()
    }

    /// The lease is over: released or lost.
    fn over(&self, id: &LockId, lease: u64) {
        self.change(id, |line| {
            line.held.take_if(|held| *held == lease);
            line.shared.retain(|(held, _)| *held != lease);
            line.call()
        });
    }

    /// A lease is shared that was not.
    pub(crate) fn downgraded(&self, hold: &ClaimCell) {
        self.change(hold.terms.keys.id(), |line| {
            let held = line.held.take_if(|held| *held == hold.id);
            line.shared.extend(held.map(|held| (held, None)));
            line.call()
        });
    }

    /// Changes the queue for that lock, if there is one, and removes it once no call is left in it;
    /// then wakes the calls that got a turn.
    fn change(&self, id: &LockId, change: impl FnOnce(&mut LocalQueue) -> Wakers) {
        let mut table = lock(&self.0);
        let Entry::Occupied(mut entry) = table.entry(id.clone()) else {
            return;
        };
        let called = change(entry.get_mut());
        if entry.get().is_empty() {
            entry.remove();
        }
        drop(table);
        called.wake();
    }
}

impl LocalPlace {
    /// Whether it was our turn from the first.
    pub(crate) fn is_turn(&self) -> bool {
        self.seat.is_none()
    }

    /// How many fences to ask for: one for each lease that may follow on the same token, where
    /// others wait behind.
    pub(crate) fn block(&self) -> u32 {
        let table = lock(&self.lines.0);
        let line = table.get(&self.id);
        if self.mode.is_alone() && line.is_some_and(|line| line.waiting() > 0) {
            1 + IN_A_ROW
        } else {
            1
        }
    }

    /// Ready when we are called.
    pub(crate) fn poll_turn(&mut self, cx: &Context<'_>) -> Poll<Grant> {
        let Some(seat) = &self.seat else {
            return Poll::Ready(Grant::Ask);
        };
        let mut call = lock(&seat.call);
        match &mut *call {
            Wakeup::NotYet(waker) => {
                *waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Wakeup::Ask => {}
            Wakeup::Given(_) | Wakeup::Taken => {
                if let Wakeup::Given(given) = std::mem::replace(&mut *call, Wakeup::Taken) {
                    return Poll::Ready(Grant::Given(given));
                }
                return Poll::Pending;
            }
        }
        drop(call);
        self.seat = None;
        Poll::Ready(Grant::Ask)
    }

    /// Tells those behind what the nodes said to an attempt of ours.
    pub(crate) fn tell(&self, said: Arc<NoQuorum>) {
        if let Some(line) = lock(&self.lines.0).get_mut(&self.id) {
            line.behind.get_or_insert_default().said = Some(said);
        }
    }

    /// What the nodes said to the last attempt in this line; `None` if the
    /// lock has been held in this process since.
    pub(crate) fn said(&self) -> Option<Arc<NoQuorum>> {
        self.lines.said(&self.id)
    }

    /// Our attempt has won: those behind wait for the end of the lease.
    pub(crate) fn won(self, hold: &ClaimCell) {
        let (lines, id, lease) = (Arc::downgrade(&self.lines), self.id.clone(), hold.id);
        hold.on_over(move || {
            if let Some(lines) = lines.upgrade() {
                lines.over(&id, lease);
            }
        });
        if let Some(line) = lock(&self.lines.0).get_mut(&self.id) {
            match self.mode {
                Mode::Exclusive | Mode::Slot(_) => line.held = Some(lease),
                Mode::Shared | Mode::AnySlot(_) => line.shared.push((lease, hold.mode().slot())),
            }
            if let Some(behind) = &mut line.behind {
                behind.said = None;
            }
        }
        // The lease may have been lost before this listener was set.
        if hold.is_over() {
            self.lines.over(&self.id, lease);
        }
    }
}

impl Drop for LocalPlace {
    fn drop(&mut self) {
        let mut given = None;
        self.lines.change(&self.id, |line| {
            let call = match &self.seat {
                Some(seat) => std::mem::replace(&mut *lock(&seat.call), Wakeup::Taken),
                None => Wakeup::Ask,
            };
            match (call, &self.seat) {
                (Wakeup::NotYet(_), Some(seat)) => {
                    let behind = line.behind.get_or_insert_default();
                    behind.seats.retain(|other| !Arc::ptr_eq(other, seat));
                }
                (Wakeup::Given(lease), _) => {
                    given = Some(lease);
                    return Wakers::default();
                }
                (Wakeup::Taken, _) => return Wakers::default(),
                // It was our turn, whether we looked or not.
                _ => line.asked(self.mode),
            }
            line.call()
        });
        // The next may have it.
        if let Some((hold, watched)) = given
            && let PassOutcome::Not(_watched) = self.lines.pass(&hold, watched)
        {
            hold.release();
        }
    }
}

#[cfg(all(test, quorlock_loom))]
mod loom_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::names::{Naming, aux};
    use crate::node::{Keys, Mode, Waits};
    use crate::protocol::timing::Timing;
    use std::time::Duration;

    pub(super) fn terms() -> LockParams {
        LockParams {
            keys: Arc::new(Keys {
                lock: b"lock:{k}"[..].into(),
                aux: aux("lock:", b"lock:{k}", Naming::Tagged),
                waits: Waits {
                    reservation: Duration::ZERO,
                    place: Duration::ZERO,
                    most: 0,
                },
                fence_ttl: None,
                mode: Mode::Exclusive,
                adopts: None,
                field: None,
            }),
            label: Arc::default(),
            timing: Timing::of(Duration::from_secs(1), 0.01, 0.1, Duration::from_millis(50)),
            drift: 0.01,
            asked: crate::protocol::asked::LeaseOptions {
                renew: true,
                ..Default::default()
            },
            bound: None,
            group: Default::default(),
        }
    }

    fn is_turn(place: &mut LocalPlace) -> bool {
        let turn = place.poll_turn(&Context::from_waker(Waker::noop()));
        matches!(turn, Poll::Ready(Grant::Ask))
    }

    #[test]
    fn the_first_asks_and_the_others_follow_in_order() {
        let lines = Arc::<LocalQueues>::default();
        let mut places: Vec<_> = (0..4).map(|_| lines.enter(&terms(), 9).unwrap()).collect();
        assert_eq!(lines.waiting(), 3);
        // One in the middle gives up.
        places.remove(2);
        for left in [3, 2, 1] {
            let turns: Vec<_> = places.iter_mut().map(is_turn).collect();
            assert_eq!(turns.iter().filter(|turn| **turn).count(), 1);
            assert!(turns[0]);
            assert_eq!(lines.waiting(), left - 1);
            places.remove(0);
        }
        assert!(lock(&lines.0).is_empty());
    }

    #[test]
    fn two_locks_of_one_key_have_two_lines() {
        let mut redisson = terms();
        redisson.keys = Arc::new(Keys {
            aux: crate::node::names::redisson("lock:", b"lock:{k}"),
            ..Keys::clone(&redisson.keys)
        });
        let lines = Arc::<LocalQueues>::default();
        let both = [terms(), redisson].map(|terms| lines.enter(&terms, 9).unwrap());
        assert!(both.iter().all(LocalPlace::is_turn));
        assert_eq!(lines.waiting(), 0);
    }

    fn terms_of(mode: Mode) -> LockParams {
        let mut terms = terms();
        terms.keys = Arc::new(Keys {
            mode,
            ..Keys::clone(&terms.keys)
        });
        terms
    }

    #[test]
    fn readers_ask_side_by_side_and_pass_no_writer() {
        let lines = Arc::<LocalQueues>::default();
        let enter = |mode| lines.enter(&terms_of(mode), 9).unwrap();
        let readers = [enter(Mode::Shared), enter(Mode::Shared)];
        assert!(readers.iter().all(LocalPlace::is_turn));
        let mut writer = enter(Mode::Exclusive);
        let mut newcomer = enter(Mode::Shared);
        assert!(!is_turn(&mut writer) && !is_turn(&mut newcomer));
        let [first, second] = readers;
        drop(first);
        assert!(!is_turn(&mut writer) && !is_turn(&mut newcomer));
        drop(second);
        assert!(is_turn(&mut writer) && !is_turn(&mut newcomer));
        drop(writer);
        assert!(is_turn(&mut newcomer));
    }

    #[test]
    fn as_many_ask_side_by_side_as_there_are_slots() {
        let lines = Arc::<LocalQueues>::default();
        let enter = || lines.enter(&terms_of(Mode::AnySlot(2)), 9).unwrap();
        let mut places: Vec<_> = (0..3).map(|_| enter()).collect();
        let turns: Vec<_> = places.iter_mut().map(is_turn).collect();
        assert_eq!(turns, [true, true, false]);
        places.remove(0);
        assert!(places.iter_mut().all(is_turn));
    }

    #[test]
    fn a_turn_that_nobody_took_goes_on() {
        let lines = Arc::<LocalQueues>::default();
        let first = lines.enter(&terms(), 9).unwrap();
        let second = lines.enter(&terms(), 9).unwrap();
        let mut third = lines.enter(&terms(), 9).unwrap();
        drop(first);
        // Called, but it never looked.
        drop(second);
        assert!(is_turn(&mut third));
        drop(third);
        assert!(lock(&lines.0).is_empty());
    }

    #[test]
    fn a_line_is_bounded() {
        let lines = Arc::<LocalQueues>::default();
        let _asks = lines.enter(&terms(), 1).unwrap();
        let waits = lines.enter(&terms(), 1).unwrap();
        assert!(lines.enter(&terms(), 1).is_none());
        drop(waits);
        assert!(lines.enter(&terms(), 1).is_some());
    }
}
