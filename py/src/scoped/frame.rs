//! Frames of Python: what each runs, and what has called it.

use pyo3::ffi::{self, PyEval_GetFrame, PyFrameObject};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyWeakref, PyWeakrefMethods, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit};

use crate::kept::name;

/// The frame that calls us. It is null where nothing of Python does, which is not so where Python has called.
pub(super) fn current(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the thread is attached, and what comes is null or borrowed.
    unsafe {
        let frame: *mut PyFrameObject = PyEval_GetFrame();
        Bound::from_borrowed_ptr_or_opt(py, frame.cast())
    }
}

pub(super) fn code<'py>(frame: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
    // SAFETY: it is a frame, and every frame has a code, of which this gives a new reference.
    unsafe {
        let code = ffi::PyFrame_GetCode(frame.as_ptr().cast());
        Bound::from_owned_ptr(frame.py(), code.cast())
    }
}

/// The frame that called this one.
pub(super) fn back<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let back = frame.getattr(name!(frame.py(), "f_back"))?;
    Ok((!back.is_none()).then_some(back))
}

/// The name of the function that it runs.
pub(super) fn name(frame: &Bound<'_, PyAny>) -> PyResult<String> {
    code(frame).getattr(name!(frame.py(), "co_name"))?.extract()
}

/// The `self` of the method that it runs.
pub(super) fn this<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (py, code) = (frame.py(), code(frame));
    let arguments: usize = code.getattr(name!(py, "co_argcount"))?.extract()?;
    let names = code
        .getattr(name!(py, "co_varnames"))?
        .cast_into::<PyTuple>()?;
    if arguments == 0 || !names.get_item(0)?.eq(name!(py, "self"))? {
        return Ok(None);
    }
    Ok(frame
        .getattr(name!(py, "f_locals"))?
        .get_item(name!(py, "self"))
        .ok())
}

/// Whether it runs whatever it was given, as those of a thread, a pool or an event loop do: neither that function nor its `self` is
/// what enters or leaves.
pub(super) fn is_runner(frame: &Bound<'_, PyAny>) -> PyResult<bool> {
    const RUNNERS: [&str; 8] = [
        "anyio",
        "asyncio",
        "concurrent",
        "eventlet",
        "gevent",
        "threading",
        "trio",
        "weakref",
    ];
    let globals = frame.getattr(name!(frame.py(), "f_globals"))?;
    let module = globals.get_item(name!(frame.py(), "__name__"));
    let Ok(module) = module.and_then(|module| module.extract::<String>()) else {
        return Ok(false);
    };
    Ok(RUNNERS.contains(&module.split('.').next().unwrap_or_default()))
}

/// Stands in a frame for as long as that is there. Where a debugger comes to trace the frame, it is called for each event.
#[pyclass(frozen, weakref, module = "quorlock._native")]
struct FrameMark;

#[pymethods]
impl FrameMark {
    #[pyo3(signature = (*_arguments))]
    fn __call__(&self, _arguments: &Bound<'_, PyTuple>) {}
}

/// The identity of a frame, also against a frame that comes to its address once it has ended. It is not kept: that would
/// keep what its function has, and all that called it.
pub(super) enum FrameIdentity {
    /// By a [`FrameMark`] in its slot for a tracer, which nothing else uses; weakly.
    Marked(Py<PyAny>),
    /// By itself, where it is traced.
    Kept(Py<PyAny>),
}

impl FrameIdentity {
    pub(super) fn of(frame: &Bound<'_, PyAny>) -> PyResult<FrameIdentity> {
        let py = frame.py();
        let slot = name!(py, "f_trace");
        let standing = frame.getattr(slot)?;
        let mark = match standing.is_none() {
            true => {
                let mark = Bound::new(py, FrameMark)?.into_any();
                frame.setattr(slot, &mark)?;
                mark
            }
            false if standing.is_instance_of::<FrameMark>() => standing,
            false => return Ok(FrameIdentity::Kept(frame.clone().unbind())),
        };
        Ok(FrameIdentity::Marked(
            PyWeakrefReference::new(&mark)?.into_any().unbind(),
        ))
    }

    pub(super) fn clone_ref(&self, py: Python<'_>) -> FrameIdentity {
        match self {
            FrameIdentity::Marked(mark) => FrameIdentity::Marked(mark.clone_ref(py)),
            FrameIdentity::Kept(frame) => FrameIdentity::Kept(frame.clone_ref(py)),
        }
    }

    pub(super) fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let (FrameIdentity::Marked(kept) | FrameIdentity::Kept(kept)) = self;
        visit.call(kept)
    }

    fn mark<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match self {
            FrameIdentity::Marked(mark) => mark.bind(py).cast::<PyWeakref>().ok()?.upgrade(),
            FrameIdentity::Kept(_) => None,
        }
    }

    /// Whether it is this frame.
    pub(super) fn is(&self, frame: &Bound<'_, PyAny>) -> bool {
        let py = frame.py();
        match self {
            FrameIdentity::Kept(kept) => kept.is(frame),
            FrameIdentity::Marked(_) => self.mark(py).is_some_and(|mark| {
                let slot = frame.getattr(name!(py, "f_trace"));
                slot.is_ok_and(|standing| standing.is(&mark))
            }),
        }
    }

    /// Whether it has called this frame, directly or not.
    pub(super) fn has_called(&self, frame: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let mut at = frame.cloned();
        while let Some(frame) = at {
            if self.is(&frame) {
                return Ok(true);
            }
            at = back(&frame)?;
        }
        Ok(false)
    }

    /// Whether the function that it runs goes on: it is being run, or suspended.
    pub(super) fn is_going_on(&self, py: Python<'_>) -> PyResult<bool> {
        let mark = match self {
            FrameIdentity::Kept(frame) => return is_going_on(frame.bind(py)),
            FrameIdentity::Marked(_) => self.mark(py),
        };
        let Some(mark) = mark else {
            return Ok(false);
        };
        // A frame that has ended and is still there, as a traceback keeps it, is shown to the garbage collector; a frame that goes
        // on is not, for what runs it has it.
        let gc = py.import(name!(py, "gc"))?;
        let frames = gc.call_method1(name!(py, "get_referrers"), (mark,))?;
        for frame in frames.try_iter()? {
            let frame = frame?;
            if self.is(&frame) {
                return is_going_on(&frame);
            }
        }
        Ok(true)
    }
}

fn is_going_on(frame: &Bound<'_, PyAny>) -> PyResult<bool> {
    // A frame that has ended has its code by itself, and shows it to the garbage collector. Before, whatever runs it has that.
    let code = code(frame);
    let gc = frame.py().import(name!(frame.py(), "gc"))?;
    let shown = gc.call_method1(name!(frame.py(), "get_referents"), (frame,))?;
    for object in shown.try_iter()? {
        if object?.is(&code) {
            return Ok(false);
        }
    }
    Ok(true)
}
