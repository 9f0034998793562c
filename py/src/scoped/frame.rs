//! Frames of Python: what each runs, and what has called it.

use pyo3::ffi::{self, PyEval_GetFrame, PyFrameObject};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

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
    let back = frame.getattr(intern!(frame.py(), "f_back"))?;
    Ok((!back.is_none()).then_some(back))
}

/// The name of the function that it runs.
pub(super) fn name(frame: &Bound<'_, PyAny>) -> PyResult<String> {
    code(frame)
        .getattr(intern!(frame.py(), "co_name"))?
        .extract()
}

/// The `self` of the method that it runs.
pub(super) fn this<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (py, code) = (frame.py(), code(frame));
    let arguments: usize = code.getattr(intern!(py, "co_argcount"))?.extract()?;
    let names = code
        .getattr(intern!(py, "co_varnames"))?
        .cast_into::<PyTuple>()?;
    if arguments == 0 || !names.get_item(0)?.eq(intern!(py, "self"))? {
        return Ok(None);
    }
    Ok(frame
        .getattr(intern!(py, "f_locals"))?
        .get_item(intern!(py, "self"))
        .ok())
}

/// Whether the function that it runs goes on: it is being run, or suspended.
pub(super) fn is_going_on(frame: &Bound<'_, PyAny>) -> PyResult<bool> {
    // A frame that has ended has its code by itself, and shows it to the garbage collector. Before, whatever runs it has that.
    let code = code(frame);
    let gc = frame.py().import(intern!(frame.py(), "gc"))?;
    let shown = gc.call_method1(intern!(frame.py(), "get_referents"), (frame,))?;
    for object in shown.try_iter()? {
        if object?.is(&code) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a frame is called by another, directly or not.
pub(super) fn is_called_by(
    frame: Option<&Bound<'_, PyAny>>,
    other: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let mut at = frame.cloned();
    while let Some(frame) = at {
        if frame.is(other) {
            return Ok(true);
        }
        at = back(&frame)?;
    }
    Ok(false)
}
