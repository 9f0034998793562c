//! What has entered a scope, and for which caller: that decides what may leave it.

use pyo3::prelude::*;
use pyo3::types::{PyWeakref, PyWeakrefMethods, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit};

use super::frame;
use super::site::{Site, site};
use super::wrapper::{Wrapper, climb};
use crate::kept::name;

/// What has entered a scope, which decides what may leave it. A frame is kept, or marked, for
/// the address of a frame that has ended is used again.
pub(super) enum Entrant {
    /// The `with` that this frame does.
    With(Py<PyAny>),
    /// The `with` that this frame does over a wrapper, whose `__enter__` has entered.
    Around(Py<PyAny>),
    /// A stack of callbacks, such as contextlib's.
    Stack(StackEntry),
    /// A call in this frame, by hand. `None` where nothing is known of it.
    Hand(Option<frame::FrameIdentity>),
}

/// How a stack has entered a scope.
pub(super) struct StackEntry {
    /// The list of its callbacks: itself while the scope is being entered, then weakly, with its address.
    pub(super) list: Py<PyAny>,
    pub(super) address: usize,
    /// Which place in the list the callback has that leaves the scope. A wrapper may take another.
    pub(super) place: usize,
    /// By the stack's own call, and not by a wrapper that the stack has entered.
    pub(super) direct: bool,
}

/// Entrance a scope is entered.
pub(super) struct Entrance {
    pub(super) entered: Entrant,
    /// The `self` of the method that enters it, weakly where that can be.
    pub(super) this: Option<Py<PyAny>>,
    /// The caller, as `_owner.Work` has it; of a plain `with` it plays no part.
    pub(super) flow: Option<Py<PyAny>>,
}

impl Entrance {
    /// By a caller of which nothing is known.
    pub(super) fn unknown() -> Entrance {
        Entrance {
            entered: Entrant::Hand(None),
            this: None,
            flow: None,
        }
    }

    pub(super) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.entered {
            Entrant::With(kept) | Entrant::Around(kept) => visit.call(kept)?,
            Entrant::Stack(stacked) => visit.call(&stacked.list)?,
            Entrant::Hand(frame) => frame.as_ref().map_or(Ok(()), |frame| frame.visit(visit))?,
        }
        visit.call(&self.this)?;
        visit.call(&self.flow)
    }

    /// Entrance this frame enters. Of a plain `with` it runs no Python.
    pub(super) fn entering(frame: Option<Bound<'_, PyAny>>, py: Python<'_>) -> PyResult<Entrance> {
        let Some(frame) = frame else {
            return Ok(Entrance::unknown());
        };
        let stands = site(&frame)?;
        if stands == Site::Enter {
            return Ok(Entrance {
                entered: Entrant::With(frame.unbind()),
                this: None,
                flow: None,
            });
        }
        let runner = frame::is_runner(&frame)?;
        let this = if runner { None } else { frame::this(&frame)? };
        let entered = match climb(&frame, Site::Enter)? {
            Some(Wrapper::Frame(above)) => Entrant::Around(above.unbind()),
            Some(Wrapper::Stack { list, direct }) => Entrant::Stack(StackEntry {
                address: list.as_ptr() as usize,
                place: 0,
                direct,
                list: list.unbind(),
            }),
            None if runner => Entrant::Hand(None),
            None => Entrant::Hand(Some(frame::FrameIdentity::of(&frame)?)),
        };
        Ok(Entrance {
            entered,
            this: this.map(|this| weakly(&this)),
            flow: Some(flow(py)?),
        })
    }
}

/// The caller.
pub(super) fn flow(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let owner = py.import(name!(py, "quorlock._owner"))?;
    Ok(owner.getattr(name!(py, "Work"))?.call0()?.unbind())
}

/// Whether two callers are the same.
pub(super) fn is_same(
    py: Python<'_>,
    one: Option<&Py<PyAny>>,
    other: &Py<PyAny>,
) -> PyResult<bool> {
    match one {
        Some(one) => one
            .bind(py)
            .call_method1(name!(py, "is_same"), (other,))?
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
pub(super) fn is_kept(kept: &Bound<'_, PyAny>, object: &Bound<'_, PyAny>) -> bool {
    match kept.cast::<PyWeakref>() {
        Ok(weak) => weak.upgrade().is_some_and(|alive| alive.is(object)),
        Err(_) => kept.is(object),
    }
}

/// Whether what [`weakly`] was given is still there.
pub(super) fn lives(kept: &Bound<'_, PyAny>) -> bool {
    match kept.cast::<PyWeakref>() {
        Ok(weak) => weak.upgrade().is_some(),
        Err(_) => true,
    }
}
