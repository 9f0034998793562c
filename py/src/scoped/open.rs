//! The scopes of one object that are open: they are entered, and left from some frame.

use std::mem;
use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit};
use quorlock::binding::lock;

use super::book::{Book, CountOutcome, Entry};
use super::choice::{self, Choice, Function, ScopeFacts};
use super::entered::{Entrance, Entrant, StackEntry, flow, is_kept, is_same, lives};
use super::frame;
use super::site::{Site, site};
use super::wrapper::{Wrapper, climb};
use crate::kept::name;

/// A scope, as it is kept while it is open.
pub(super) struct Scope {
    /// A lease, several, a `_scope.Scope`; `None` of a scope that goes on without.
    pub(super) scope: Py<PyAny>,
    at: Entrance,
}

type OpenScope = Entry<Scope>;
type ScopeBook = Book<Scope, Py<PyAny>>;

/// What leaving comes to.
pub(super) enum Departure {
    /// These scopes, none of which is open any more. `first`: that is the one which is left here, and the others were left before.
    Scopes { left: Vec<OpenScope>, first: bool },
    /// One of these, and nothing says which: they stay until as many have been left.
    Doubt { scopes: Vec<Py<PyAny>>, warn: bool },
    /// None is open that might be left here; whether one is that another function alone leaves.
    Nothing { elsewhere: bool },
}

/// An open scope, as it is looked at without holding up others.
struct ScopeView {
    number: u64,
    scope: Py<PyAny>,
    leased: bool,
    by_hand: bool,
    doubtful: bool,
    frame: Option<frame::FrameIdentity>,
    this: Option<Py<PyAny>>,
    flow: Option<Py<PyAny>>,
}

/// The scopes of one object that are open. While the book is looked at nothing is dropped and no Python
/// runs, either of which may come back here.
#[derive(Default)]
pub(super) struct OpenScopes(Arc<Mutex<ScopeBook>>);

impl OpenScopes {
    pub(super) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(book) = self.0.try_lock() else {
            return Ok(());
        };
        for entry in book.open() {
            visit.call(&entry.scope.scope)?;
            entry.scope.at.visit(visit)?;
        }
        for leaver in book.leavers() {
            visit.call(leaver)?;
        }
        Ok(())
    }

    pub(super) fn clear(&self) {
        let book = mem::take(&mut *lock(&self.0));
        drop(book);
    }

    /// Opens a scope that was entered there.
    pub(super) fn enter(&self, py: Python<'_>, mut at: Entrance, scope: Py<PyAny>) {
        let leased = !scope.is_none(py) && !is_skipped(scope.bind(py));
        let number = lock(&self.0).number();
        if let Entrant::Stack(stacked) = &at.entered {
            let watched = self.watched(py, number, stacked);
            at.entered = watched.map_or(Entrant::Hand(None), Entrant::Stack);
        }
        let by_hand = matches!(at.entered, Entrant::Hand(_));
        let old = if by_hand && !leased {
            self.forgotten()
        } else {
            None
        };
        if by_hand {
            self.let_go_of_frames(py);
        }
        lock(&self.0).enter(number, Scope { scope, at }, leased);
        drop(old);
    }

    /// The list of callbacks of a stack; weakly, for a stack that is dropped unclosed leaves its scopes no more.
    fn watched(&self, py: Python<'_>, number: u64, stacked: &StackEntry) -> PyResult<StackEntry> {
        let book = Arc::downgrade(&self.0);
        let gone = move |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            abandon(arguments.py(), &book, number);
        };
        let gone = PyCFunction::new_closure(py, None, None, gone)?;
        let list = stacked.list.bind(py);
        // A plain list has no weak references; what keeps it is a test, which ends.
        let kept = match PyWeakrefReference::new_with(list, gone) {
            Ok(weak) => weak.into_any(),
            Err(_) => list.clone(),
        };
        Ok(StackEntry {
            list: kept.unbind(),
            // The callback is the next that the stack puts there.
            place: list.len()?,
            ..*stacked
        })
    }

    /// Keeps no frames that have ended, which nothing is left from any more: each keeps those that called it.
    fn let_go_of_frames(&self, py: Python<'_>) {
        let frame_of = |entry: &OpenScope| match &entry.scope.at.entered {
            Entrant::Hand(Some(kept @ frame::FrameIdentity::Kept(_))) => {
                Some((entry.number, kept.clone_ref(py)))
            }
            _ => None,
        };
        let frames: Vec<_> = lock(&self.0).open().iter().filter_map(frame_of).collect();
        let has_ended =
            |frame: &frame::FrameIdentity| frame.is_going_on(py).is_ok_and(|goes_on| !goes_on);
        let ended: Vec<u64> = frames
            .iter()
            .filter(|(_, frame)| has_ended(frame))
            .map(|(number, _)| *number)
            .collect();
        for entry in lock(&self.0)
            .open_mut()
            .iter_mut()
            .filter(|entry| ended.contains(&entry.number))
        {
            // Not dropped here: `frames` keeps it until the book is let go of.
            entry.scope.at.entered = Entrant::Hand(None);
        }
    }

    /// The oldest of too many that were entered by hand, without a lease, and never left, for there was nothing to release.
    fn forgotten(&self) -> Option<OpenScope> {
        const MOST: usize = 256;
        let is_by_hand = |scope: &Scope| matches!(scope.at.entered, Entrant::Hand(_));
        lock(&self.0).forget(MOST, is_by_hand)
    }

    /// Refuses to enter by hand where many were left in doubt: while more and more come that overlap, none of these would
    /// ever be released.
    pub(super) fn refuse_more(&self, py: Python<'_>, at: &Entrance) -> PyResult<()> {
        const MOST: usize = 32;
        if !matches!(at.entered, Entrant::Hand(_)) {
            return Ok(());
        }
        let many = lock(&self.0).were_left(MOST);
        if many {
            let doubt = py.import(name!(py, "quorlock._doubt"))?;
            Err(PyErr::from_value(
                doubt.call_method0(name!(py, "too_many"))?,
            ))
        } else {
            Ok(())
        }
    }

    /// Whether a caller has left one of several, and would now wait for what is not released on that account.
    pub(super) fn awaits_itself(&self, py: Python<'_>) -> PyResult<bool> {
        let leavers = self.leavers(py);
        if leavers.is_empty() {
            return Ok(false);
        }
        Ok(count(py, &leavers, &flow(py)?)? > 0)
    }

    /// The callers that have left one of several.
    fn leavers(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        let book = lock(&self.0);
        book.leavers().map(|leaver| leaver.clone_ref(py)).collect()
    }

    /// Takes out the newest that was entered so, as [`Book::take_newest`].
    fn take(&self, is_one: impl Fn(&Entrance) -> bool) -> Option<Departure> {
        let left = lock(&self.0).take_newest(|entry| is_one(&entry.scope.at))?;
        Some(Departure::Scopes { left, first: true })
    }

    /// Leaves a scope from this frame.
    pub(super) fn leave(
        &self,
        py: Python<'_>,
        frame: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Departure> {
        let Some(frame) = frame else {
            return self.leave_of_another(py, None, None);
        };
        let stands = site(&frame)?;
        let left = self.take(|at| match &at.entered {
            Entrant::With(by) => by.is(&frame) && stands == Site::Exit,
            Entrant::Hand(Some(by)) => stands != Site::Exit && by.is(&frame),
            _ => false,
        });
        if let Some(left) = left {
            return Ok(left);
        }
        if stands == Site::Exit {
            return Ok(Departure::Nothing { elsewhere: false });
        }
        let runner = frame::is_runner(&frame)?;
        let this = if runner { None } else { frame::this(&frame)? };
        let is_its = |at: &Entrance| match (&at.this, &this) {
            (Some(kept), Some(this)) => is_kept(kept.bind(py), this),
            (kept, this) => kept.is_none() && this.is_none(),
        };
        let left = match climb(&frame, Site::Exit)? {
            // One frame may do a `with` over several wrappers, and each leaves what it has entered itself.
            Some(Wrapper::Frame(above)) => self.take(
                |at| matches!(&at.entered, Entrant::Around(by) if by.is(&above) && is_its(at)),
            ),
            Some(Wrapper::Stack { list, direct }) => {
                let (address, place) = (list.as_ptr() as usize, list.len()?);
                self.take(|at| match &at.entered {
                    Entrant::Stack(its) if its.address == address && its.direct == direct => {
                        // The stack has taken the callback out.
                        if direct {
                            its.place == place
                        } else {
                            is_its(at)
                        }
                    }
                    _ => false,
                })
            }
            None => None,
        };
        match left {
            Some(left) => Ok(left),
            None => self.leave_of_another(py, Some(&frame), this.as_ref()),
        }
    }

    /// Leaves a scope that this frame has not entered: by the object whose method it runs, or the only one that it can be.
    fn leave_of_another(
        &self,
        py: Python<'_>,
        frame: Option<&Bound<'_, PyAny>>,
        this: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Departure> {
        // Others may leave what was chosen meanwhile, but not each time.
        const TIMES: usize = 64;
        let here = flow(py)?;
        for _ in 0..TIMES {
            self.let_go_of_frames(py);
            let seen = self.seen(py);
            let before = count(py, &self.leavers(py), &here)?;
            let (choice, elsewhere) = choose(py, &seen, frame, this, &here, before)?;
            let left = match choice {
                Choice::Nothing => return Ok(Departure::Nothing { elsewhere }),
                Choice::One(number) => {
                    let taken = lock(&self.0).take_newest(|entry| entry.number == number);
                    taken.map(|left| Departure::Scopes { left, first: true })
                }
                Choice::AnyOf { some, stay } => self.count(&some, &stay, &here, &seen, py),
            };
            if let Some(left) = left {
                return Ok(left);
            }
        }
        Ok(Departure::Nothing { elsewhere: true })
    }

    /// Those that may be left by what has not entered them.
    fn seen(&self, py: Python<'_>) -> Vec<ScopeView> {
        let kept = |kept: &Option<Py<PyAny>>| kept.as_ref().map(|kept| kept.clone_ref(py));
        let see = |entry: &OpenScope| ScopeView {
            number: entry.number,
            scope: entry.scope.scope.clone_ref(py),
            leased: entry.leased,
            doubtful: entry.is_doubtful(),
            by_hand: matches!(entry.scope.at.entered, Entrant::Hand(_)),
            frame: match &entry.scope.at.entered {
                Entrant::Hand(Some(frame)) => Some(frame.clone_ref(py)),
                _ => None,
            },
            this: kept(&entry.scope.at.this),
            flow: kept(&entry.scope.at.flow),
        };
        let book = lock(&self.0);
        // A plain `with` is left by its own frame alone, and what a stack has entered by its callback.
        let is_another = |entry: &&OpenScope| match &entry.scope.at.entered {
            Entrant::With(_) => false,
            Entrant::Stack(stacked) => !stacked.direct,
            Entrant::Around(_) | Entrant::Hand(_) => true,
        };
        book.open().iter().filter(is_another).map(see).collect()
    }

    /// Counts that one of these was left. `None`: they have changed.
    fn count(
        &self,
        some: &[u64],
        stay: &[u64],
        here: &Py<PyAny>,
        seen: &[ScopeView],
        py: Python<'_>,
    ) -> Option<Departure> {
        let counted = lock(&self.0).count(some, stay, here.clone_ref(py));
        match counted {
            CountOutcome::Changed => None,
            CountOutcome::Settled(left) => Some(Departure::Scopes { left, first: false }),
            CountOutcome::Open { warn } => {
                let leased = seen
                    .iter()
                    .filter(|seen| seen.leased && some.contains(&seen.number));
                let scopes = leased.map(|seen| seen.scope.clone_ref(py)).collect();
                Some(Departure::Doubt { scopes, warn })
            }
        }
    }
}

/// Which of these is left from this frame, which has entered none of them, for that caller; and whether there is a scope that
/// another function alone leaves. `before`: so often that caller has left one of several.
fn choose(
    py: Python<'_>,
    seen: &[ScopeView],
    frame: Option<&Bound<'_, PyAny>>,
    this: Option<&Bound<'_, PyAny>>,
    here: &Py<PyAny>,
    before: usize,
) -> PyResult<(Choice, bool)> {
    let know = |seen: &ScopeView| {
        let object = seen.this.as_ref().map(|kept| kept.bind(py));
        Ok(ScopeFacts {
            number: seen.number,
            leased: seen.leased,
            doubtful: seen.doubtful,
            ours: is_same(py, seen.flow.as_ref(), here)?,
            its: object
                .zip(this)
                .is_some_and(|(kept, this)| is_kept(kept, this)),
            by_hand: seen.by_hand,
            of_object: object.is_some_and(lives),
        })
    };
    let known: Vec<ScopeFacts> = seen.iter().map(know).collect::<PyResult<_>>()?;
    if let Some(choice) = choice::of_object(&known) {
        return Ok((choice, false));
    }
    let function = |seen: &ScopeView| match &seen.frame {
        Some(entered) if entered.has_called(frame)? => Ok(Function::Calls),
        Some(entered) if entered.is_going_on(py)? => Ok(Function::GoesOn),
        _ => Ok(Function::Ended),
    };
    let functions: Vec<Function> = seen.iter().map(function).collect::<PyResult<_>>()?;
    Ok(choice::of_hand(&known, &functions, before))
}

/// How many of these are that caller.
fn count(py: Python<'_>, callers: &[Py<PyAny>], here: &Py<PyAny>) -> PyResult<usize> {
    let mut many = 0;
    for caller in callers {
        many += usize::from(is_same(py, Some(caller), here)?);
    }
    Ok(many)
}

/// Ends a scope that is never left: the lease is released unless the program keeps it otherwise.
fn abandon(py: Python<'_>, book: &Weak<Mutex<ScopeBook>>, number: u64) {
    let Some(book) = book.upgrade() else {
        return;
    };
    let taken = lock(&book).take_newest(|entry| entry.number == number);
    for entry in taken.into_iter().flatten() {
        let scope = entry.scope.scope.bind(py);
        if scope.hasattr(name!(py, "abandoned")).unwrap_or(false)
            && let Err(error) = scope.call_method0(name!(py, "abandoned"))
        {
            error.write_unraisable(py, Some(scope));
        }
    }
}

/// Whether it is a `_scope.Scope` that has nothing to release.
fn is_skipped(scope: &Bound<'_, PyAny>) -> bool {
    scope.get_type().name().is_ok_and(|name| name == "Skipped")
}
