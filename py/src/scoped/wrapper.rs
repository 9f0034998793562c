//! Wrappers: objects whose methods enter and leave a scope for what stands above them, as contextlib's do.

use pyo3::prelude::*;

use super::frame;
use super::site::{Site, site};
use crate::kept::name;

/// What enters or leaves by the method of a wrapper.
pub(super) enum Wrapper<'py> {
    /// A frame that does a `with` over it.
    Frame(Bound<'py, PyAny>),
    /// A stack, which has this list of callbacks. `direct`: the frame that was climbed from is the stack's own.
    Stack {
        list: Bound<'py, PyAny>,
        direct: bool,
    },
}

/// So many calls of wrappers by wrappers are looked through, for they may call each other without an end.
const DEPTH: usize = 64;

/// Climbs from a frame through the methods of wrappers: those that enter or leave, and those
/// of one object that call each other.
pub(super) fn climb<'py>(frame: &Bound<'py, PyAny>, to: Site) -> PyResult<Option<Wrapper<'py>>> {
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
        let direct = at.is(frame);
        if let Some(list) = cleanups(&at, &name)? {
            return Ok(Some(Wrapper::Stack { list, direct }));
        }
        if stacks.contains(&name.as_str())
            && let Some(list) = this.as_ref().and_then(callbacks)
        {
            return Ok(Some(Wrapper::Stack { list, direct }));
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
            found if found == to && wraps => return Ok(Some(Wrapper::Frame(above))),
            // What is called by a wrapper and is none itself does the `with`.
            Site::Unknown if wraps && !wrappers.contains(&frame::name(&above)?.as_str()) => {
                return Ok(Some(
                    match frame::this(&above)?.as_ref().and_then(callbacks) {
                        Some(list) => Wrapper::Stack {
                            list,
                            direct: false,
                        },
                        None => Wrapper::Frame(above),
                    },
                ));
            }
            _ => at = above,
        }
    }
    Ok(None)
}

/// The list of callbacks of one of contextlib's stacks, which `pop_all` hands on.
fn callbacks<'py>(stack: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let list = stack.getattr(name!(stack.py(), "_exit_callbacks")).ok()?;
    let is_deque = list.get_type().name().is_ok_and(|name| name == "deque");
    is_deque.then_some(list)
}

/// The list of cleanups of a test or a class, where a frame is that of unittest which enters a context for one, or calls them.
fn cleanups<'py>(frame: &Bound<'py, PyAny>, function: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (owner, of_class) = match function {
        "_enter_context" => ("addcleanup", false),
        "enterAsyncContext" | "_callCleanup" | "_callMaybeAsync" => ("self", false),
        "doClassCleanups" => ("cls", true),
        _ => return Ok(None),
    };
    let py = frame.py();
    let globals = frame.getattr(name!(py, "f_globals"))?;
    let module = globals.get_item(name!(py, "__name__"));
    let module = module.and_then(|module| module.extract::<String>());
    if !module.is_ok_and(|module| module.starts_with("unittest.")) {
        return Ok(None);
    }
    let locals = frame.getattr(name!(py, "f_locals"))?;
    let find = || {
        let owner = locals.get_item(owner)?;
        if function != "_enter_context" {
            return Ok((owner, of_class));
        }
        let name: String = owner.getattr(name!(py, "__name__"))?.extract()?;
        Ok((
            owner.getattr(name!(py, "__self__"))?,
            name == "addClassCleanup",
        ))
    };
    let list = find().and_then(|(owner, of_class): (Bound<'py, PyAny>, bool)| {
        owner.getattr(if of_class {
            "_class_cleanups"
        } else {
            "_cleanups"
        })
    });
    Ok(list.ok())
}
