//! Events as JavaScript takes them: all that a port hands over stands here, so that the port knows none of it.

use napi::Env;
use napi::bindgen_prelude::{Array, Null};
use napi_derive::napi;

use crate::election::Leadership;
use crate::failure::Failure;
use crate::inspection::{Forced, Holder, Inspection};
use crate::port::Port;
use crate::probe::Probe;
use crate::queue::{Event, Value};
use crate::several::Leases;

// What an event is. `port.ts` has the same.
const DONE: u32 = 0;
const FAILED: u32 = 1;
const LOST: u32 = 2;
const LOG: u32 = 3;

#[napi]
impl Port {
    /// All that has happened since the last call, as [`array`] lays it out.
    #[napi(catch_unwind)]
    pub fn take<'env>(&self, env: &'env Env) -> napi::Result<Array<'env>> {
        array(env, self.news())
    }
}

/// A flat array, three elements for each event: what, number, value. Objects for
/// them would cost more than what they carry.
fn array(env: &Env, events: Vec<Event>) -> napi::Result<Array<'_>> {
    let mut all = env.create_array(3 * events.len() as u32)?;
    for (i, event) in events.into_iter().enumerate() {
        let at = 3 * i as u32;
        match event {
            Event::Done(number, Ok(value)) => {
                all.set(at, DONE)?;
                all.set(at + 1, number)?;
                match value {
                    Value::Flag(flag) => all.set(at + 2, flag)?,
                    Value::Time(time) => all.set(at + 2, time)?,
                    Value::Inspection(found) => all.set(at + 2, Inspection::from(&*found))?,
                    Value::Forced(forced) => all.set(at + 2, Forced::from(&*forced))?,
                    Value::Probe(found) => all.set(at + 2, Probe::from(&*found))?,
                    Value::Holder(holder) => all.set(at + 2, holder.as_ref().map(Holder::from))?,
                    Value::Leadership(now) => all.set(at + 2, Leadership::from(&now))?,
                    Value::Kept(leases, places) => {
                        let mut kept = env.create_array(2)?;
                        kept.set(0, Leases::new(leases))?;
                        kept.set(1, places)?;
                        all.set(at + 2, kept)?;
                    }
                    // A lease stays with its port.
                    Value::Nothing | Value::Lease(_) | Value::Leases(_) => all.set(at + 2, Null)?,
                }
            }
            Event::Done(number, Err(error)) => {
                all.set(at, FAILED)?;
                all.set(at + 1, number)?;
                all.set(at + 2, Failure::from(error))?;
            }
            Event::Lost(number, put_off) => {
                all.set(at, LOST)?;
                all.set(at + 1, number)?;
                all.set(at + 2, put_off)?;
            }
            Event::Log(warning, line) => {
                all.set(at, LOG)?;
                all.set(at + 1, i64::from(warning))?;
                all.set(at + 2, line)?;
            }
        }
    }
    Ok(all)
}
