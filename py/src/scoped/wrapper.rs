//! Wrappers: objects whose methods enter and leave a scope for what stands above them, as contextlib's do.

use pyo3::intern;
use pyo3::prelude::*;

use super::frame;
use super::site::{Site, site};

/// What enters or leaves by the method of a wrapper.
pub(super) enum Above<'py> {
    /// A frame that does a `with` over it.
    Frame(Bound<'py, PyAny>),
    /// One of contextlib's stacks.
    Stack(Bound<'py, PyAny>),
}

/// So many calls of wrappers by wrappers are looked through, for they may call each other without an end.
const DEPTH: usize = 64;

/// Climbs from a frame through the methods of wrappers: those that enter or leave, and those
/// of one object that call each other.
pub(super) fn climb<'py>(frame: &Bound<'py, PyAny>, to: Site) -> PyResult<Option<Above<'py>>> {
    let (wrappers, stacks) = match to {
        Site::Enter => (
            ["__enter__", "__aenter__"],
            ["enter_context", "enter_async_context"],
        ),
        _ => (["__exit__", "__aexit__"], ["__exit__", "__aexit__"]),
    };
    let mut at = frame.clone();
    for _ in 0..DEPTH {
        let (name, this) = (frame::name(&at)?, frame::this(&at)?);
        if stacks.contains(&name.as_str())
            && let Some(stack) = this.as_ref().filter(|this| callbacks(this).is_some())
        {
            return Ok(Some(Above::Stack(stack.clone())));
        }
        let Some(above) = frame::back(&at)? else {
            return Ok(None);
        };
        let wraps = wrappers.contains(&name.as_str());
        let of_one = match (&this, wraps) {
            (Some(this), false) => frame::this(&above)?.is_some_and(|other| other.is(this)),
            _ => false,
        };
        if !wraps && !of_one {
            return Ok(None);
        }
        match site(&above)? {
            found if found == to && wraps => return Ok(Some(Above::Frame(above))),
            // What is called by a wrapper and is none itself does the `with`.
            Site::Unknown if wraps && !wrappers.contains(&frame::name(&above)?.as_str()) => {
                return match frame::this(&above)? {
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
pub(super) fn callbacks<'py>(stack: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let list = stack.getattr(intern!(stack.py(), "_exit_callbacks")).ok()?;
    let is_deque = list.get_type().name().is_ok_and(|name| name == "deque");
    is_deque.then_some(list)
}
