//! Events as JavaScript takes them: all that a port hands over stands here, so that the port knows none of it.

use std::ptr::null_mut;

use napi::Env;
use napi::bindgen_prelude::{Array, JsValue, Null, ToNapiValue, Unknown};
use napi::sys::{self, napi_value};
use napi_derive::napi;
use quorlock::LossReason;

use crate::election::Leadership;
use crate::failure::Failure;
use crate::inspection::{Forced, Holder, Inspection};
use crate::port::Port;
use crate::probe::Probe;
use crate::queue::{Event, Left, Value};
use crate::several::Leases;

// What an event is. `port.ts` has the same.
const DONE: u32 = 0;
const FAILED: u32 = 1;
const LOST: u32 = 2;
const LOG: u32 = 3;
const ENDED: u32 = 4;

/// With more values than this the function that takes them is given an array: arguments take up the stack.
const MOST: usize = 1024;

#[napi]
impl Port {
    /// Has the ring take all that has happened since the last call: see [`arguments`].
    #[napi(catch_unwind)]
    pub fn take(&self, env: &Env) -> napi::Result<()> {
        let ring = self.ring.borrow_back(env)?;
        let news = arguments(env, self.desk.news())?;
        if news.is_empty() {
            return Ok(());
        }
        let (mut this, mut given) = (null_mut(), null_mut());
        // SAFETY: all of it is of this environment and of the call under way.
        let status = unsafe {
            sys::napi_get_undefined(env.raw(), &mut this);
            let (count, first) = (news.len(), news.as_ptr());
            sys::napi_call_function(env.raw(), this, ring.raw(), count, first, &mut given)
        };
        napi::check_status!(status)
    }
}

/// What the ring is called with: [`values`], or one array of them where they are many. Elements of an array cost more.
pub(crate) fn arguments(env: &Env, events: Vec<Event>) -> napi::Result<Vec<napi_value>> {
    let news = values(env, events)?;
    if news.len() <= MOST {
        return Ok(news);
    }
    Ok(vec![array(env, news)?.raw()])
}

/// An array of these.
pub(crate) fn array(env: &Env, values: Vec<napi_value>) -> napi::Result<Array<'_>> {
    let mut all = env.create_array(values.len() as u32)?;
    for (i, value) in values.into_iter().enumerate() {
        // SAFETY: it is of this environment and of the call under way.
        all.set(i as u32, unsafe {
            Unknown::from_raw_unchecked(env.raw(), value)
        })?;
    }
    Ok(all)
}

/// A value of JavaScript.
fn value(env: &Env, value: impl ToNapiValue) -> napi::Result<napi_value> {
    // SAFETY: the environment lives, and this is its thread.
    unsafe { ToNapiValue::to_napi_value(env.raw(), value) }
}

/// Three values for each event, and behind these what is [`left`] of a lease that it ends: what, number, value. Objects
/// for them would cost more than what they carry.
pub(crate) fn values(env: &Env, events: Vec<Event>) -> napi::Result<Vec<napi_value>> {
    let mut all = Vec::with_capacity(8 * events.len());
    for event in events {
        let (what, number, carried) = match event {
            Event::Done(number, Ok(Value::Ended(held, ended))) => {
                all.extend([value(env, ENDED)?, value(env, number)?, value(env, held)?]);
                all.extend(left(env, *ended)?);
                continue;
            }
            Event::Done(number, Ok(done)) => (DONE, number, carried(env, done)?),
            Event::Done(number, Err(error)) => (FAILED, number, value(env, Failure::from(error))?),
            Event::Lost(number, put_off) => (LOST, number, value(env, put_off)?),
            Event::Log(warning, line) => (LOG, i64::from(warning), value(env, line)?),
        };
        all.extend([value(env, what)?, value(env, number)?, carried]);
    }
    Ok(all)
}

/// What an operation has come to.
fn carried(env: &Env, done: Value) -> napi::Result<napi_value> {
    match done {
        Value::Flag(flag) => value(env, flag),
        Value::Time(time) => value(env, time),
        Value::Inspection(found) => value(env, Inspection::from(&*found)),
        Value::Forced(forced) => value(env, Forced::from(&*forced)),
        Value::Probe(found) => value(env, Probe::from(&*found)),
        Value::Holder(holder) => value(env, holder.as_ref().map(Holder::from)),
        Value::Leadership(now) => value(env, Leadership::from(&now)),
        Value::Kept(leases, places) => {
            let kept = vec![value(env, Leases::new(leases))?, value(env, places)?];
            value(env, array(env, kept)?)
        }
        // A lease stays with its port.
        Value::Nothing
        | Value::Lease(_)
        | Value::Leases(_)
        | Value::Released(..)
        | Value::Ended(..) => value(env, Null),
    }
}

/// What is left of a lease: token, fence, reason and error of the loss, and its slot.
pub(crate) fn left(env: &Env, left: Left) -> napi::Result<[napi_value; 5]> {
    let (loss, error) = left.loss.unzip();
    Ok([
        value(env, left.token)?,
        value(env, left.fence.map(|fence| fence as f64))?,
        value(env, loss.map(LossReason::as_str))?,
        value(env, error.map(Failure::from))?,
        value(env, left.slot)?,
    ])
}
