//! Scopes: what an object has open, and which of it is left.
//!
//! `with`, where Ctrl-C must not come in between: a signal handler may raise before any
//! line of a Python function, so also before the first line of an `__exit__` written in
//! Python: then nothing would be released. Before a native function it cannot.
//!
//! Which scope is left is never guessed: `docs/explanation/owners.md` has the rules.

use std::mem;
use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple, PyWeakref, PyWeakrefMethods, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit, intern};
use quorlock::binding::lock;

use crate::lease::Lease;
use crate::several::Leases;
use crate::site::{self, Site, site};

/// What has entered a scope, which decides what may leave it. A frame is kept, for the
/// address of one that has ended is used again.
enum Entered {
    /// The `with` that this frame does.
    With(Py<PyAny>),
    /// The `with` that this frame does over a wrapper, whose `__enter__` has entered.
    Around(Py<PyAny>),
    /// One of contextlib's stacks. While the scope is being entered, the stack itself.
    Stack { stack: Py<PyAny>, list: usize },
    /// A call in this frame, by hand. `None` where nothing is known of it any more.
    Hand(Option<Py<PyAny>>),
}

/// Where a scope is entered.
struct Where {
    entered: Entered,
    /// The `self` of the method that enters it, weakly where that can be.
    this: Option<Py<PyAny>>,
    /// The caller, as `_owner.Flow` has it; of a plain `with` it plays no part.
    flow: Option<Py<PyAny>>,
}

impl Where {
    fn by_hand(frame: Option<Py<PyAny>>) -> Where {
        Where {
            entered: Entered::Hand(frame),
            this: None,
            flow: None,
        }
    }

    fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.entered {
            Entered::With(kept) | Entered::Around(kept) => visit.call(kept)?,
            Entered::Stack { stack, .. } => visit.call(stack)?,
            Entered::Hand(frame) => visit.call(frame)?,
        }
        visit.call(&self.this)?;
        visit.call(&self.flow)
    }

    /// Where this frame enters. Of a plain `with` it runs no Python.
    fn entering(frame: Option<Bound<'_, PyAny>>, py: Python<'_>) -> PyResult<Where> {
        let Some(frame) = frame else {
            return Ok(Where::by_hand(None));
        };
        let stands = site(&frame)?;
        if stands == Site::Enter {
            return Ok(Where {
                entered: Entered::With(frame.unbind()),
                this: None,
                flow: None,
            });
        }
        let this = site::this(&frame)?;
        let entered = match climb(&frame, Site::Enter)? {
            Some(Above::Frame(above)) => Entered::Around(above.unbind()),
            Some(Above::Stack(stack)) => Entered::Stack {
                stack: stack.unbind(),
                list: 0,
            },
            None => Entered::Hand(Some(frame.unbind())),
        };
        Ok(Where {
            entered,
            this: this.map(|this| weakly(&this)),
            flow: Some(flow(py)?),
        })
    }
}

/// The caller.
fn flow(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let owner = py.import(intern!(py, "quorlock._owner"))?;
    Ok(owner.getattr(intern!(py, "Flow"))?.call0()?.unbind())
}

/// Whether two callers are the same.
fn is_same(py: Python<'_>, one: Option<&Py<PyAny>>, other: &Py<PyAny>) -> PyResult<bool> {
    match one {
        Some(one) => one
            .bind(py)
            .call_method1(intern!(py, "is_same"), (other,))?
            .extract(),
        None => Ok(false),
    }
}

/// A weak reference, or the object itself where there is none to be had.
fn weakly(object: &Bound<'_, PyAny>) -> Py<PyAny> {
    match PyWeakrefReference::new(object) {
        Ok(weak) => weak.into_any().unbind(),
        Err(_) => object.clone().unbind(),
    }
}

/// Whether [`weakly`] was given this object.
fn is_kept(kept: &Bound<'_, PyAny>, object: &Bound<'_, PyAny>) -> bool {
    match kept.cast::<PyWeakref>() {
        Ok(weak) => weak.upgrade().is_some_and(|alive| alive.is(object)),
        Err(_) => kept.is(object),
    }
}

/// Whether what [`weakly`] was given is still there.
fn lives(kept: &Bound<'_, PyAny>) -> bool {
    match kept.cast::<PyWeakref>() {
        Ok(weak) => weak.upgrade().is_some(),
        Err(_) => true,
    }
}

/// What enters or leaves by the method of a wrapper.
enum Above<'py> {
    /// A frame that does a `with` over it.
    Frame(Bound<'py, PyAny>),
    /// One of contextlib's stacks.
    Stack(Bound<'py, PyAny>),
}

/// So many calls of wrappers by wrappers are looked through.
const DEPTH: usize = 64;

/// Climbs from a frame through the methods of wrappers: those that enter or leave, and those
/// of one object that call each other.
fn climb<'py>(frame: &Bound<'py, PyAny>, to: Site) -> PyResult<Option<Above<'py>>> {
    let (wrappers, stacks) = match to {
        Site::Enter => (
            ["__enter__", "__aenter__"],
            ["enter_context", "enter_async_context"],
        ),
        _ => (["__exit__", "__aexit__"], ["__exit__", "__aexit__"]),
    };
    let mut at = frame.clone();
    for _ in 0..DEPTH {
        let (name, this) = (site::name(&at)?, site::this(&at)?);
        if stacks.contains(&name.as_str())
            && let Some(stack) = this.as_ref().filter(|this| callbacks(this).is_some())
        {
            return Ok(Some(Above::Stack(stack.clone())));
        }
        let Some(above) = site::back(&at)? else {
            return Ok(None);
        };
        let wraps = wrappers.contains(&name.as_str());
        let of_one = match (&this, wraps) {
            (Some(this), false) => site::this(&above)?.is_some_and(|other| other.is(this)),
            _ => false,
        };
        if !wraps && !of_one {
            return Ok(None);
        }
        match site(&above)? {
            found if found == to && wraps => return Ok(Some(Above::Frame(above))),
            // What is called by a wrapper and is none itself does the `with`.
            Site::Unknown if wraps && !wrappers.contains(&site::name(&above)?.as_str()) => {
                return match site::this(&above)? {
                    Some(stack) if callbacks(&stack).is_some() => Ok(Some(Above::Stack(stack))),
                    _ => Ok(Some(Above::Frame(above))),
                };
            }
            _ => at = above,
        }
    }
    Ok(None)
}

/// The list of callbacks of one of contextlib's stacks, which `pop_all` hands on.
fn callbacks<'py>(stack: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let list = stack.getattr(intern!(stack.py(), "_exit_callbacks")).ok()?;
    let is_deque = list.get_type().name().is_ok_and(|name| name == "deque");
    is_deque.then_some(list)
}

/// A scope that is open.
struct Entry {
    number: u64,
    /// A lease, several, a `_scope.Scope`; `None` of one that goes on without.
    scope: Py<PyAny>,
    leased: bool,
    at: Where,
    /// That of scopes as many of which have not been left.
    group: Option<u64>,
    /// The function that entered it goes on, and it alone leaves it.
    stays: bool,
}

/// Scopes some of which were left, and nothing says which.
struct Group {
    number: u64,
    /// How many were left.
    left: usize,
    /// The callers that left them.
    leavers: Vec<Py<PyAny>>,
}

#[derive(Default)]
struct State {
    /// The newest is the last.
    open: Vec<Entry>,
    groups: Vec<Group>,
    numbers: u64,
    warned: bool,
}

impl State {
    /// Takes out the newest of these.
    fn take_newest(&mut self, is_one: impl Fn(&Entry) -> bool) -> Option<Vec<Entry>> {
        let at = self.open.iter().rposition(is_one)?;
        Some(self.take(at))
    }

    /// Takes one out, and with it those that must have been left, now that this one is known to be.
    fn take(&mut self, at: usize) -> Vec<Entry> {
        let taken = self.open.remove(at);
        let group = taken.group;
        let mut taken = vec![taken];
        if let Some(group) = group {
            self.settle(group, &mut taken);
        }
        taken
    }

    /// Takes out those of a group that have all been left.
    fn settle(&mut self, number: u64, taken: &mut Vec<Entry>) {
        let is_of = |entry: &Entry| entry.group == Some(number);
        let members = self.open.iter().filter(|entry| is_of(entry)).count();
        let group = self.groups.iter().position(|group| group.number == number);
        let Some(group) = group.filter(|&at| self.groups[at].left >= members) else {
            return;
        };
        self.groups.remove(group);
        for entry in mem::take(&mut self.open) {
            match is_of(&entry) {
                true if !entry.stays => taken.push(entry),
                true => self.open.push(Entry {
                    group: None,
                    ..entry
                }),
                false => self.open.push(entry),
            }
        }
    }
}

/// What leaving comes to.
enum Left {
    /// These scopes, none of which is open any more. `first`: that is the one which is left here, and the others were left before.
    Scopes { left: Vec<Entry>, first: bool },
    /// One of these, and nothing says which: they stay until as many have been left.
    Doubt { scopes: Vec<Py<PyAny>>, warn: bool },
    /// None is open that might be left here; whether one is that another function alone leaves.
    Nothing { elsewhere: bool },
}

/// An open scope, as it is looked at without holding up others.
struct Seen {
    number: u64,
    scope: Py<PyAny>,
    leased: bool,
    hand: bool,
    /// One of several may have been left, and it may be this one.
    doubtful: bool,
    frame: Option<Py<PyAny>>,
    this: Option<Py<PyAny>>,
    flow: Option<Py<PyAny>>,
}

/// The scopes of one object that are open. While they are looked at nothing is dropped and no Python
/// runs, either of which may come back here.
#[derive(Default)]
struct Open(Arc<Mutex<State>>);

impl Open {
    fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(state) = self.0.try_lock() else {
            return Ok(());
        };
        for entry in &state.open {
            visit.call(&entry.scope)?;
            entry.at.visit(visit)?;
        }
        for leaver in state.groups.iter().flat_map(|group| &group.leavers) {
            visit.call(leaver)?;
        }
        Ok(())
    }

    fn clear(&self) {
        let state = mem::take(&mut *lock(&self.0));
        drop(state);
    }

    fn enter(&self, py: Python<'_>, mut at: Where, scope: Py<PyAny>) {
        let leased = !scope.is_none(py) && !is_skipped(scope.bind(py));
        let number = {
            let mut state = lock(&self.0);
            state.numbers += 1;
            state.numbers
        };
        if let Entered::Stack { stack, .. } = &at.entered {
            let list = callbacks(stack.bind(py));
            at.entered = list
                .and_then(|list| self.watched(py, number, &list).ok())
                .unwrap_or(Entered::Hand(None));
        }
        let old = match (&at.entered, leased) {
            (Entered::Hand(_), false) => self.forgotten(),
            _ => None,
        };
        if matches!(at.entered, Entered::Hand(_)) {
            self.let_go_of_frames(py);
        }
        lock(&self.0).open.push(Entry {
            number,
            scope,
            leased,
            at,
            group: None,
            stays: false,
        });
        drop(old);
    }

    /// The list of callbacks of a stack; weakly, for a stack that is dropped unclosed leaves its scopes no more.
    fn watched(&self, py: Python<'_>, number: u64, list: &Bound<'_, PyAny>) -> PyResult<Entered> {
        let state = Arc::downgrade(&self.0);
        let gone = move |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            abandon(arguments.py(), &state, number);
        };
        let gone = PyCFunction::new_closure(py, None, None, gone)?;
        let stack = PyWeakrefReference::new_with(list, gone)?
            .into_any()
            .unbind();
        let list = list.as_ptr() as usize;
        Ok(Entered::Stack { stack, list })
    }

    /// Keeps no frames that have ended, which nothing is left from any more: each keeps those that called it.
    fn let_go_of_frames(&self, py: Python<'_>) {
        let frame_of = |entry: &Entry| match &entry.at.entered {
            Entered::Hand(Some(frame)) => Some((entry.number, frame.clone_ref(py))),
            _ => None,
        };
        let frames: Vec<_> = lock(&self.0).open.iter().filter_map(frame_of).collect();
        let has_ended =
            |frame: &Py<PyAny>| site::is_going_on(frame.bind(py)).is_ok_and(|goes_on| !goes_on);
        let ended: Vec<u64> = frames
            .iter()
            .filter(|(_, frame)| has_ended(frame))
            .map(|(number, _)| *number)
            .collect();
        for entry in lock(&self.0)
            .open
            .iter_mut()
            .filter(|entry| ended.contains(&entry.number))
        {
            // Not dropped here: `frames` keeps it until the state is let go of.
            entry.at.entered = Entered::Hand(None);
        }
    }

    /// The oldest of too many that were entered by hand, without a lease, and never left, for there was nothing to release.
    fn forgotten(&self) -> Option<Entry> {
        const MOST: usize = 256;
        let is_one = |entry: &Entry| {
            !entry.leased && entry.group.is_none() && matches!(entry.at.entered, Entered::Hand(_))
        };
        let mut state = lock(&self.0);
        let many = state.open.iter().filter(|entry| is_one(entry)).count() >= MOST;
        let oldest = state.open.iter().position(is_one).filter(|_| many);
        oldest.map(|at| state.open.remove(at))
    }

    /// Refuses to enter by hand where many were left in doubt: while more and more come that overlap, none of these would
    /// ever be released.
    fn refuse_more(&self, py: Python<'_>, at: &Where) -> PyResult<()> {
        const MOST: usize = 32;
        if !matches!(at.entered, Entered::Hand(_)) {
            return Ok(());
        }
        let many = lock(&self.0).groups.iter().any(|group| group.left >= MOST);
        match many {
            true => {
                let doubt = py.import(intern!(py, "quorlock._doubt"))?;
                Err(PyErr::from_value(
                    doubt.call_method0(intern!(py, "too_many"))?,
                ))
            }
            false => Ok(()),
        }
    }

    /// Whether a caller has left one of several, and would now wait for what is not released on that account.
    fn awaits_itself(&self, py: Python<'_>) -> PyResult<bool> {
        let leavers: Vec<Py<PyAny>> = {
            let state = lock(&self.0);
            let leavers = state.groups.iter().flat_map(|group| &group.leavers);
            leavers.map(|leaver| leaver.clone_ref(py)).collect()
        };
        if leavers.is_empty() {
            return Ok(false);
        }
        let here = flow(py)?;
        for leaver in leavers {
            if is_same(py, Some(&leaver), &here)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Leaves a scope from this frame.
    fn leave(&self, py: Python<'_>, frame: Option<Bound<'_, PyAny>>) -> PyResult<Left> {
        let Some(frame) = frame else {
            return self.doubtful(py, None);
        };
        let stands = site(&frame)?;
        let left = lock(&self.0).take_newest(|entry| match &entry.at.entered {
            Entered::With(by) => by.is(&frame) && stands == Site::Exit,
            Entered::Hand(Some(by)) => by.is(&frame) && stands != Site::Exit,
            _ => false,
        });
        if let Some(left) = left {
            return Ok(Left::Scopes { left, first: true });
        }
        if stands == Site::Exit {
            return Ok(Left::Nothing { elsewhere: false });
        }
        let left = match climb(&frame, Site::Exit)? {
            Some(Above::Frame(above)) => lock(&self.0).take_newest(
                |entry| matches!(&entry.at.entered, Entered::Around(by) if by.is(&above)),
            ),
            Some(Above::Stack(stack)) => {
                let list = callbacks(&stack).map(|list| list.as_ptr() as usize);
                lock(&self.0).take_newest(
                    |entry| matches!(entry.at.entered, Entered::Stack { list: its, .. } if Some(its) == list),
                )
            }
            None => None,
        };
        match left {
            Some(left) => Ok(Left::Scopes { left, first: true }),
            None => self.doubtful(py, Some(&frame)),
        }
    }

    /// Leaves one that this frame has not entered: by the object whose method it runs, or the only one that it can be.
    fn doubtful(&self, py: Python<'_>, frame: Option<&Bound<'_, PyAny>>) -> PyResult<Left> {
        let here = flow(py)?;
        let this = frame.map(site::this).transpose()?.flatten();
        // Others may have left what was chosen.
        for _ in 0..DEPTH {
            let seen = self.seen(py);
            let (choice, elsewhere) = Choice::of(py, &seen, frame, this.as_ref(), &here)?;
            let left = match choice {
                Choice::Nothing => return Ok(Left::Nothing { elsewhere }),
                Choice::One(number) => {
                    let taken = lock(&self.0).take_newest(|entry| entry.number == number);
                    taken.map(|left| Left::Scopes { left, first: true })
                }
                Choice::AnyOf { some, stay } => {
                    self.count(&some, &stay, here.clone_ref(py), &seen, py)
                }
            };
            if let Some(left) = left {
                return Ok(left);
            }
        }
        Ok(Left::Nothing { elsewhere: true })
    }

    fn seen(&self, py: Python<'_>) -> Vec<Seen> {
        let kept = |kept: &Option<Py<PyAny>>| kept.as_ref().map(|kept| kept.clone_ref(py));
        let see = |entry: &Entry| Seen {
            number: entry.number,
            scope: entry.scope.clone_ref(py),
            leased: entry.leased,
            doubtful: entry.group.is_some(),
            hand: matches!(entry.at.entered, Entered::Hand(_)),
            frame: match &entry.at.entered {
                Entered::Hand(frame) => kept(frame),
                _ => None,
            },
            this: kept(&entry.at.this),
            flow: kept(&entry.at.flow),
        };
        let state = lock(&self.0);
        // A plain `with` is left by its own frame alone.
        let others = state
            .open
            .iter()
            .filter(|entry| !matches!(entry.at.entered, Entered::With(_)));
        others.map(see).collect()
    }

    /// Counts that one of these was left. `None`: they have changed.
    fn count(
        &self,
        some: &[u64],
        stay: &[u64],
        leaver: Py<PyAny>,
        seen: &[Seen],
        py: Python<'_>,
    ) -> Option<Left> {
        let mut guard = lock(&self.0);
        let state = &mut *guard;
        let is_one = |entry: &Entry| some.contains(&entry.number) || stay.contains(&entry.number);
        if state.open.iter().filter(|entry| is_one(entry)).count() != some.len() + stay.len() {
            return None;
        }
        state.numbers += 1;
        let number = state.numbers;
        let mut group = Group {
            number,
            left: 1,
            leavers: vec![leaver],
        };
        let joined: Vec<u64> = state
            .open
            .iter()
            .filter(|entry| is_one(entry))
            .filter_map(|entry| entry.group)
            .collect();
        for entry in &mut state.open {
            if is_one(entry) || entry.group.is_some_and(|its| joined.contains(&its)) {
                entry.group = Some(number);
                entry.stays = stay.contains(&entry.number);
            }
        }
        state.groups.retain_mut(|other| {
            let joins = joined.contains(&other.number);
            if joins {
                group.left += other.left;
                group.leavers.append(&mut other.leavers);
            }
            !joins
        });
        state.groups.push(group);
        let mut taken = Vec::new();
        state.settle(number, &mut taken);
        if !taken.is_empty() {
            drop(guard);
            return Some(Left::Scopes {
                left: taken,
                first: false,
            });
        }
        let leased = seen
            .iter()
            .filter(|seen| some.contains(&seen.number) && seen.leased);
        let scopes: Vec<_> = leased.map(|seen| seen.scope.clone_ref(py)).collect();
        // Where none has a lease nothing is kept from being released.
        let warn = !scopes.is_empty() && !mem::replace(&mut state.warned, true);
        drop(guard);
        Some(Left::Doubt { scopes, warn })
    }
}

/// Which scope is left by what has not entered it.
enum Choice {
    Nothing,
    One(u64),
    /// One of `some`, or of `stay`, which go on in the functions that entered them.
    AnyOf {
        some: Vec<u64>,
        stay: Vec<u64>,
    },
}

impl Choice {
    fn of(
        py: Python<'_>,
        seen: &[Seen],
        frame: Option<&Bound<'_, PyAny>>,
        this: Option<&Bound<'_, PyAny>>,
        here: &Py<PyAny>,
    ) -> PyResult<(Choice, bool)> {
        let mut ours = Vec::new();
        for seen in seen {
            ours.push(is_same(py, seen.flow.as_ref(), here)?);
        }
        // An object that has entered several for one caller leaves the newest of these.
        if let Some(this) = this {
            let is_its = |seen: &Seen| {
                let kept = seen.this.as_ref();
                kept.is_some_and(|kept| is_kept(kept.bind(py), this))
            };
            let its: Vec<usize> = (0..seen.len()).filter(|&at| is_its(&seen[at])).collect();
            let own = its.iter().rev().find(|&&at| ours[at]);
            match (own.filter(|&&at| !seen[at].doubtful), &its[..]) {
                (_, []) => {}
                (Some(&one), _) | (None, &[one]) => {
                    return Ok((Choice::One(seen[one].number), false));
                }
                _ => {
                    let some = its.iter().map(|&at| seen[at].number).collect();
                    let stay = Vec::new();
                    return Ok((Choice::AnyOf { some, stay }, false));
                }
            }
        }
        // What an object has entered is left by that object; by another only where there is nothing else that is left.
        let is_plain = |seen: &Seen| seen.this.as_ref().is_none_or(|this| !lives(this.bind(py)));
        let plain: Vec<bool> = seen
            .iter()
            .map(|seen| seen.hand && is_plain(seen))
            .collect();
        let by_hand: Vec<bool> = seen.iter().map(|seen| seen.hand).collect();
        let mut elsewhere = false;
        for considered in [plain, by_hand] {
            let (choice, others) = Choice::among(py, seen, &considered, &ours, frame)?;
            elsewhere |= others;
            if !matches!(choice, Choice::Nothing) {
                return Ok((choice, elsewhere));
            }
        }
        Ok((Choice::Nothing, elsewhere))
    }

    /// Among those that are considered; whether there is one of them that another function alone leaves.
    fn among(
        py: Python<'_>,
        seen: &[Seen],
        considered: &[bool],
        ours: &[bool],
        frame: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Choice, bool)> {
        let (mut all, mut some, mut stay) = (Vec::new(), Vec::new(), Vec::new());
        let (mut own, mut called) = (false, false);
        for at in (0..seen.len()).filter(|&at| considered[at]) {
            let (mut goes_on, mut calls) = (false, false);
            if let Some(entered) = &seen[at].frame {
                calls = is_called_by(frame, entered.bind(py))?;
                goes_on = !calls && site::is_going_on(entered.bind(py))?;
            }
            match (goes_on, seen[at].leased) {
                (true, true) => stay.push(seen[at].number),
                (true, false) => {}
                (false, leased) => {
                    all.push(at);
                    if leased {
                        own |= ours[at];
                        called |= calls;
                        some.push(seen[at].number);
                    }
                }
            }
        }
        // One without a lease is left by its caller where that has entered none since: leaving it releases nothing, so at
        // worst another is released later than it could be, and never one whose scope is open.
        let newest = all.iter().rev().find(|&&at| ours[at]);
        let skipped = newest.map(|&at| &seen[at]).filter(|newest| !newest.leased);
        if let Some(skipped) = skipped.filter(|skipped| !skipped.doubtful) {
            return Ok((Choice::One(skipped.number), false));
        }
        // Of another caller it may be what is left here, unless there is one of our own: without a lease many are never left
        // at all, and what waited for those would be renewed for ever.
        if !own || skipped.is_some() {
            some.extend(
                all.iter()
                    .map(|&at| &seen[at])
                    .filter(|seen| !seen.leased)
                    .map(|seen| seen.number),
            );
        }
        let elsewhere = !stay.is_empty();
        let choice = match (&some[..], &stay[..]) {
            ([], _) => Choice::Nothing,
            (&[one], []) => Choice::One(one),
            // What still runs is left by the function that entered it, or by what that calls.
            (&[one], _) if called || all.iter().all(|&at| !seen[at].leased) => Choice::One(one),
            _ => Choice::AnyOf { some, stay },
        };
        Ok((choice, elsewhere))
    }
}

/// Whether a frame is called by another, directly or not.
fn is_called_by(frame: Option<&Bound<'_, PyAny>>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    let mut at = frame.cloned();
    while let Some(frame) = at {
        if frame.is(other) {
            return Ok(true);
        }
        at = site::back(&frame)?;
    }
    Ok(false)
}

/// Ends a scope that is never left: the lease is released unless the program keeps it otherwise.
fn abandon(py: Python<'_>, state: &Weak<Mutex<State>>, number: u64) {
    let Some(state) = state.upgrade() else {
        return;
    };
    let taken = lock(&state).take_newest(|entry| entry.number == number);
    for entry in taken.into_iter().flatten() {
        let scope = entry.scope.bind(py);
        if scope.hasattr(intern!(py, "abandoned")).unwrap_or(false)
            && let Err(error) = scope.call_method0(intern!(py, "abandoned"))
        {
            error.write_unraisable(py, Some(scope));
        }
    }
}

/// Whether it is a `_scope.Scope` that has nothing to release.
fn is_skipped(scope: &Bound<'_, PyAny>) -> bool {
    scope.get_type().name().is_ok_and(|name| name == "Skipped")
}

/// A base for what can be entered. It has `_enter(at_once)`, which gives the lease of a new scope, or `None` where the
/// scope goes on without; and `_leave(lease, error)`, which releases it; `_leave_none(elsewhere, error)`, where no
/// scope may be left, and `_leave_doubt(leases, warn, error)`, where several may.
#[pyclass(frozen, subclass, module = "quorlock._native")]
pub(crate) struct Scoped(Open);

#[pymethods]
impl Scoped {
    #[new]
    #[pyo3(signature = (*_arguments, **_options))]
    fn new(_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyAny>>) -> Scoped {
        Scoped(Open::default())
    }

    fn __enter__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let open = &this.get().0;
        let at = Where::entering(site::current(py), py)?;
        open.refuse_more(py, &at)?;
        let lease = match open.awaits_itself(py)? {
            false => this.call_method0(intern!(py, "_enter"))?,
            true => this.call_method1(intern!(py, "_enter"), (true,))?,
        };
        open.enter(py, at, lease.clone().unbind());
        Ok(lease)
    }

    fn __exit__<'py>(
        this: &Bound<'py, Self>,
        _kind: &Bound<'py, PyAny>,
        error: &Bound<'py, PyAny>,
        _traceback: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let py = this.py();
        match this.get().0.leave(py, site::current(py))? {
            Left::Scopes { left, first } => {
                let mut ended = Ok(());
                for (at, entry) in left.into_iter().enumerate() {
                    let scope = entry.scope.bind(py);
                    if scope.is_none() {
                        continue;
                    }
                    // What was left before has been told of its loss there.
                    let left = match first && at > 0 {
                        true => Ok(()),
                        false => this
                            .call_method1(intern!(py, "_leave"), (scope, error))
                            .map(|_| ()),
                    };
                    // Interrupted or not, it has been given back now.
                    ended = ended.and(left.and(let_go(scope)));
                }
                ended
            }
            Left::Doubt { scopes, warn } => {
                this.call_method1(intern!(py, "_leave_doubt"), (scopes, warn, error))?;
                Ok(())
            }
            Left::Nothing { elsewhere } => {
                this.call_method1(intern!(py, "_leave_none"), (elsewhere, error))?;
                Ok(())
            }
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.visit(&visit)
    }

    fn __clear__(&self) {
        self.0.clear();
    }
}

/// A base for what is entered but once, and left wherever that is: a lease.
#[pyclass(frozen, subclass, module = "quorlock._native")]
pub(crate) struct Ends;

#[pymethods]
impl Ends {
    #[new]
    #[pyo3(signature = (*_arguments, **_options))]
    fn new(_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyAny>>) -> Ends {
        Ends
    }

    fn __enter__<'py>(this: &Bound<'py, Self>) -> Bound<'py, Self> {
        this.clone()
    }

    fn __exit__<'py>(
        this: &Bound<'py, Self>,
        _kind: &Bound<'py, PyAny>,
        error: &Bound<'py, PyAny>,
        _traceback: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let left = this.call_method1(intern!(this.py(), "_leave"), (error,));
        left.and(let_go(this.as_any()))
    }
}

/// Where a scope is entered that is open later: in asyncio.
#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Place(Mutex<Option<Where>>);

#[pymethods]
impl Place {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.0.try_lock() {
            Ok(held) => held.as_ref().map_or(Ok(()), |at| at.visit(&visit)),
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        let at = lock(&self.0).take();
        drop(at);
    }
}

/// The scopes of an object in asyncio.
#[pyclass(frozen, module = "quorlock._native")]
pub(crate) struct Scopes(Open);

#[pymethods]
impl Scopes {
    #[new]
    fn new() -> Scopes {
        Scopes(Open::default())
    }

    /// Where this frame enters.
    fn place(&self, py: Python<'_>, frame: &Bound<'_, PyAny>) -> PyResult<Place> {
        let at = Where::entering(Some(frame.clone()), py)?;
        self.0.refuse_more(py, &at)?;
        Ok(Place(Mutex::new(Some(at))))
    }

    /// Whether the caller has left one of several, and would now wait for what is not released on that account.
    fn awaits_itself(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.awaits_itself(py)
    }

    /// Opens a scope there.
    fn enter(&self, py: Python<'_>, place: &Place, scope: Py<PyAny>) {
        let at = lock(&place.0).take();
        let at = at.unwrap_or_else(|| Where::by_hand(None));
        self.0.enter(py, at, scope);
    }

    /// Which scopes are left from this frame; whether that is in doubt; and whether that is to be said, or else whether the first
    /// is the one that is left here, or, where there are none, whether there is one that another function alone leaves.
    fn leave(
        &self,
        py: Python<'_>,
        frame: &Bound<'_, PyAny>,
    ) -> PyResult<(Vec<Py<PyAny>>, bool, bool)> {
        Ok(match self.0.leave(py, Some(frame.clone()))? {
            Left::Scopes { left, first } => {
                let scopes = left.into_iter().map(|entry| entry.scope).collect();
                (scopes, false, first)
            }
            Left::Doubt { scopes, warn } => (scopes, true, warn),
            Left::Nothing { elsewhere } => (Vec::new(), false, elsewhere),
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.visit(&visit)
    }

    fn __clear__(&self) {
        self.0.clear();
    }
}

/// Releases what a scope holds in the background.
fn let_go(scope: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = scope.py();
    let core = scope.getattr(intern!(py, "_core"))?;
    match core.cast_into::<Lease>() {
        Ok(lease) => lease.get().let_go(py),
        Err(other) => other.into_inner().cast_into::<Leases>()?.get().let_go(py),
    }
}
