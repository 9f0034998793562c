//! Where a frame stands: whether it is at the entry of a `with`, or at its exit.
//!
//! A frame that stands at the entry of a `with` or `async with` cannot end without calling the exit from there; so it, and
//! nothing else, leaves what was entered for it. Looking at it runs no Python.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use quorlock::binding::{LazyValue, lock};

use super::frame;
use crate::kept::{ForkSafe, name};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Site {
    /// At the entry of a `with`, or where that is awaited.
    Enter,
    /// At its exit, or where that is awaited.
    Exit,
    Neither,
    /// This Python has other instructions than those that are known here.
    Unknown,
}

/// Where this frame stands.
pub(super) fn site(frame: &Bound<'_, PyAny>) -> PyResult<Site> {
    let py = frame.py();
    let Some(codes) = opcodes(py)? else {
        return Ok(Site::Unknown);
    };
    let code = frame::code(frame);
    let at: u32 = match frame.getattr(name!(py, "f_lasti"))?.extract::<i64>()? {
        at if at >= 0 => u32::try_from(at).unwrap_or(u32::MAX),
        _ => return Ok(Site::Neither),
    };
    // A code that is known is kept, so its address is its own.
    let address = code.as_ptr() as usize;
    let known = lock(&SITES).get(&address).map(|known| Arc::clone(&known.1));
    let sites = match known {
        Some(known) => known,
        None => {
            let found: Arc<[SiteRange]> = sites(&code, codes)?.into();
            remember(address, code.unbind(), Arc::clone(&found));
            found
        }
    };
    let before = sites.partition_point(|standing| standing.end <= at);
    Ok(match sites.get(before) {
        Some(standing) if standing.begin <= at => standing.site,
        _ => Site::Neither,
    })
}

/// Instructions, by their offsets, at which a frame stands where it enters or leaves.
struct SiteRange {
    begin: u32,
    end: u32,
    site: Site,
}

type SiteCache = HashMap<usize, (Py<PyAny>, Arc<[SiteRange]>)>;

static SITES: LazyValue<Mutex<SiteCache>> = LazyValue::new(Mutex::default);

/// So many functions are known at a time. Programs have fewer that hold locks, unless they make functions.
const MOST: usize = 4096;

fn remember(address: usize, code: Py<PyAny>, found: Arc<[SiteRange]>) {
    let old = {
        let mut sites = lock(&SITES);
        let old = if sites.len() >= MOST {
            std::mem::take(&mut *sites)
        } else {
            SiteCache::new()
        };
        let replaced = sites.insert(address, (code, found));
        (old, replaced)
    };
    drop(old);
}

struct Opcodes {
    before_with: u8,
    before_async_with: u8,
    with_except_start: u8,
    get_awaitable: u8,
    send: u8,
    yield_value: u8,
    resume: u8,
    jump_back: u8,
    load_const: u8,
    call: u8,
    /// Up to 3.11.
    precall: Option<u8>,
    extended: u8,
    cache: u8,
}

/// The numbers of the instructions; `None` where this Python enters in another way.
fn opcodes(py: Python<'_>) -> PyResult<Option<&'static Opcodes>> {
    static CODES: ForkSafe<Option<Opcodes>> = ForkSafe::new();
    let codes = CODES.get_or_make(|| {
        // Later ones may mean something else by the same words.
        if py.version_info() >= (3, 14) {
            return Ok::<_, PyErr>(None);
        }
        let map = py
            .import("opcode")?
            .getattr("opmap")?
            .cast_into::<PyDict>()?;
        let number = |name: &str| -> PyResult<Option<u8>> {
            map.get_item(name)?
                .map(|number| number.extract())
                .transpose()
        };
        let all = || -> PyResult<Option<Opcodes>> {
            macro_rules! known {
                ($name:literal) => {
                    match number($name)? {
                        Some(number) => number,
                        None => return Ok(None),
                    }
                };
            }
            Ok(Some(Opcodes {
                before_with: known!("BEFORE_WITH"),
                before_async_with: known!("BEFORE_ASYNC_WITH"),
                with_except_start: known!("WITH_EXCEPT_START"),
                get_awaitable: known!("GET_AWAITABLE"),
                send: known!("SEND"),
                yield_value: known!("YIELD_VALUE"),
                resume: known!("RESUME"),
                jump_back: known!("JUMP_BACKWARD_NO_INTERRUPT"),
                load_const: known!("LOAD_CONST"),
                call: known!("CALL"),
                precall: number("PRECALL")?,
                extended: known!("EXTENDED_ARG"),
                cache: known!("CACHE"),
            }))
        };
        all()
    })?;
    Ok(codes.as_ref())
}

struct Instruction {
    code: u8,
    argument: usize,
    begin: u32,
    end: u32,
}

fn instructions(bytes: &[u8], codes: &Opcodes) -> Vec<Instruction> {
    let mut found: Vec<Instruction> = Vec::new();
    let (mut begin, mut argument) = (0, 0);
    for (at, unit) in (0u32..).step_by(2).zip(bytes.chunks_exact(2)) {
        if unit[0] == codes.cache {
            // A frame that has called another may stand at the last of these.
            if let Some(last) = found.last_mut() {
                last.end = at + 2;
            }
            begin = at + 2;
            continue;
        }
        argument = (argument << 8) | usize::from(unit[1]);
        if unit[0] == codes.extended {
            continue;
        }
        found.push(Instruction {
            code: unit[0],
            argument,
            begin,
            end: at + 2,
        });
        (begin, argument) = (at + 2, 0);
    }
    found
}

/// Where a function enters and leaves. An exit is called with three times `None` if the body ended normally, by an instruction of its
/// own otherwise; an `await` of either says so.
fn sites(code: &Bound<'_, PyAny>, codes: &Opcodes) -> PyResult<Vec<SiteRange>> {
    let py = code.py();
    let bytes = code.getattr(name!(py, "co_code"))?.cast_into::<PyBytes>()?;
    let constants = code
        .getattr(name!(py, "co_consts"))?
        .cast_into::<PyTuple>()?;
    let all = instructions(bytes.as_bytes(), codes);
    let is_none = |of: &Instruction| {
        of.code == codes.load_const
            && constants
                .get_item(of.argument)
                .is_ok_and(|value| value.is_none())
    };
    let mut found = Vec::new();
    let mut awaits = None;
    for (at, one) in all.iter().enumerate() {
        let goes_on = [
            codes.load_const,
            codes.send,
            codes.yield_value,
            codes.resume,
            codes.jump_back,
        ];
        awaits = awaits.filter(|_| goes_on.contains(&one.code));
        let site = if one.code == codes.before_with || one.code == codes.before_async_with {
            Some(Site::Enter)
        } else if one.code == codes.with_except_start {
            Some(Site::Exit)
        } else if one.argument == 2 && (one.code == codes.call || Some(one.code) == codes.precall) {
            // What precedes a call makes it where it has become a quick one.
            let before = at - usize::from(at > 0 && codes.precall == Some(all[at - 1].code));
            let nones = before.checked_sub(3).map(|first| &all[first..before]);
            nones
                .filter(|nones| nones.iter().all(is_none))
                .map(|_| Site::Exit)
        } else {
            if one.code == codes.get_awaitable {
                awaits = match one.argument {
                    1 => Some(Site::Enter),
                    2 => Some(Site::Exit),
                    _ => None,
                };
            }
            awaits
        };
        if let Some(site) = site {
            found.push(SiteRange {
                begin: one.begin,
                end: one.end,
                site,
            });
        }
    }
    Ok(found)
}
