//! Several locks at once. Each of the leases is JavaScript's by a number, as those of
//! one lock are; what is asked of all of them together is asked of an object.

use std::sync::{Arc, Mutex};

use napi::Either;
use napi::bindgen_prelude::ClassInstance;
use napi_derive::napi;
use quorlock::binding::lock;
use quorlock::{Error, ErrorKind, Leases as Core, Locks, Places};

use crate::client::Client;
use crate::failure::{Failure, checked, entry};
use crate::lock::{Name, Owner, octets};
use crate::options::{LockOptions, limit, time};
use crate::port::Port;
use crate::queue::{Value, WonLeases};

/// Leases that were won together.
#[napi]
pub struct Leases {
    /// Nothing after their [end](Leases::end).
    core: Mutex<Option<Arc<Core>>>,
    places: Places,
}

/// The first of them that is lost.
#[napi(object, object_from_js = false)]
pub struct LossOfOne {
    /// Which one, in the order of the locks' keys.
    pub at: u32,
    pub reason: &'static str,
    pub error: Failure,
}

impl Leases {
    pub(crate) fn new(core: Core) -> Leases {
        Leases {
            places: core.places(),
            core: Mutex::new(Some(Arc::new(core))),
        }
    }

    fn core(&self) -> Result<Arc<Core>, Error> {
        let core = lock(&self.core).clone();
        core.ok_or_else(|| Error::from_binding(ErrorKind::Internal, "these leases have ended"))
    }
}

fn loss_of(core: &Core) -> Option<LossOfOne> {
    let (name, reason) = core.loss()?;
    let at = core.iter().position(|lease| lease.name() == name)?;
    Some(LossOfOne {
        at: at as u32,
        reason: reason.as_str(),
        error: core.lost_error()?.into(),
    })
}

#[napi]
impl Leases {
    /// Whether all of them are valid now.
    #[napi(catch_unwind)]
    pub fn is_held(&self) -> Either<bool, Failure> {
        entry(|| Ok(self.core()?.is_held()))
    }

    /// Which of them is the lease on the lock of that name, also after their end.
    #[napi(catch_unwind)]
    pub fn place_of(&self, name: Name) -> Either<Option<u32>, Failure> {
        entry(|| Ok(self.places.of(&octets(&name)).map(|place| place as u32)))
    }

    /// The least validity that any of them has left, in milliseconds.
    #[napi(catch_unwind)]
    pub fn remaining(&self) -> Either<f64, Failure> {
        entry(|| Ok(self.core()?.remaining().as_secs_f64() * 1000.0))
    }

    /// The first of them that is lost; null while all are held.
    #[napi(catch_unwind)]
    pub fn loss(&self) -> Either<Option<LossOfOne>, Failure> {
        entry(|| Ok(loss_of(&*self.core()?)))
    }

    /// Extends all of them.
    #[napi(catch_unwind)]
    pub fn extend(&self, port: &Port, number: i64, ttl: Option<f64>) -> Option<Failure> {
        let given = self.core().and_then(|core| {
            let ttl = ttl.map(|ttl| time("ttl", ttl)).transpose()?;
            Ok((core, ttl))
        });
        port.begin(number, false, given, |(core, ttl)| async move {
            core.extend(ttl).await.map(|()| Value::Nothing)
        })
    }

    /// Makes sure that each has so much validity.
    #[napi(catch_unwind)]
    pub fn ensure(&self, port: &Port, number: i64, min: f64) -> Option<Failure> {
        let given = self.core().and_then(|core| {
            // No ttl gives what has no limit; the core says so.
            let min = limit("minRemaining", min)?.unwrap_or(std::time::Duration::MAX);
            Ok((core, min))
        });
        port.begin(number, false, given, |(core, min)| async move {
            core.ensure(min).await.map(|()| Value::Nothing)
        })
    }

    /// Releases all of them.
    #[napi(catch_unwind)]
    pub fn release(&self, port: &Port, number: i64) -> Option<Failure> {
        port.begin(number, false, self.core(), |core| async move {
            core.release_confirmed().await.map(Value::Flag)
        })
    }

    /// Whether a release waits for the nodes: as of one.
    #[napi(catch_unwind)]
    pub fn waits(&self, confirm: Option<bool>) -> Either<bool, Failure> {
        entry(|| self.core()?.waits(confirm))
    }

    /// Releases all of them without waiting for the nodes.
    #[napi(catch_unwind)]
    pub fn release_unconfirmed(&self, port: &Port) -> Either<bool, Failure> {
        entry(|| Ok(self.core()?.release_in_loop(port.drives())))
    }

    /// Lets go of leases that have been released. Returns what is left of them: the loss.
    #[napi(catch_unwind)]
    pub fn end(&self) -> Either<Option<LossOfOne>, Failure> {
        entry(|| {
            let core = self.core()?;
            let loss = loss_of(&core);
            let ended = lock(&self.core).take();
            // Not within the lock: it takes others.
            drop(ended);
            Ok(loss)
        })
    }
}

impl Client {
    /// The locks as one call asks for them.
    fn asked_all(
        &self,
        names: &[Name],
        options: Option<&LockOptions>,
        owners: Option<&[ClassInstance<'_, Owner>]>,
        wait: Option<f64>,
    ) -> Result<Locks, Error> {
        let each = names.iter().enumerate().map(|(i, name)| {
            let owner = owners.and_then(|owners| owners.get(i));
            self.asked(name, options, owner.map(|owner| &**owner), wait)
        });
        each.collect::<Result<_, _>>().map(Locks::of)
    }
}

#[napi]
impl Client {
    /// Refuses what cannot be held together.
    #[napi(catch_unwind)]
    pub fn check_all(&self, names: Vec<Name>, options: Option<LockOptions>) -> Option<Failure> {
        checked(|| {
            self.asked_all(&names, options.as_ref(), None, None)?
                .check()
        })
    }

    /// Acquires all of them; `wait` is for this call alone, and `owners` has one for each
    /// name. Each lease that is won has a
    /// number of its own: that of the operation and the place of its name among `names`,
    /// from 0 on.
    #[napi(catch_unwind)]
    pub fn acquire_all(
        &self,
        port: &Port,
        number: i64,
        names: Vec<Name>,
        options: Option<LockOptions>,
        owners: Option<Vec<ClassInstance<'_, Owner>>>,
        wait: Option<f64>,
    ) -> Option<Failure> {
        let asked = self.asked_all(&names, options.as_ref(), owners.as_deref(), wait);
        let names = names.iter().map(octets).collect();
        port.begin(number, true, asked, |locks| async move {
            let leases = locks.win().await?;
            Ok(Value::Leases(Some(WonLeases { leases, names })))
        })
    }

    /// The same; no leases where others hold one of the locks all the time.
    #[napi(catch_unwind)]
    pub fn try_acquire_all(
        &self,
        port: &Port,
        number: i64,
        names: Vec<Name>,
        options: Option<LockOptions>,
        owners: Option<Vec<ClassInstance<'_, Owner>>>,
        wait: Option<f64>,
    ) -> Option<Failure> {
        let asked = self.asked_all(&names, options.as_ref(), owners.as_deref(), wait);
        let names = names.iter().map(octets).collect();
        port.begin(number, true, asked, |locks| async move {
            let leases = locks.try_win().await?;
            let won = leases.map(|leases| WonLeases { leases, names });
            Ok(Value::Leases(won))
        })
    }
}
