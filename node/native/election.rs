//! Leader election: what it has beside the lock that its terms are leases of.

use std::sync::{Arc, Mutex};

use napi::Either;
use napi_derive::napi;
use quorlock::binding::{Failures as CoreFailures, lock};
use quorlock::{Election as Core, Error, ErrorKind, Observer as CoreObserver};

use crate::client::Client;
use crate::failure::{Failure, entry};
use crate::inspection::Holder;
use crate::lock::Name;
use crate::options::{LockOptions, time};
use crate::port::Port;
use crate::queue::Value;

/// A candidate. Its terms are acquired as leases of its lock.
#[napi]
pub struct Election {
    core: Core,
}

/// Who leads, as far as the nodes say.
#[napi(object, object_from_js = false, use_nullable = true)]
pub struct Leadership {
    pub known: bool,
    pub leader: Option<Holder>,
}

impl From<&quorlock::Leadership> for Leadership {
    fn from(now: &quorlock::Leadership) -> Leadership {
        Leadership {
            known: now.is_known(),
            leader: now.leader().map(Holder::from),
        }
    }
}

#[napi]
impl Client {
    /// Makes a candidate; `options` are those of an election.
    #[napi(catch_unwind)]
    pub fn election(&self, name: Name, options: Option<LockOptions>) -> Either<Election, Failure> {
        entry(|| {
            let lock = self.lock(&name, options.as_ref())?;
            lock.check()?;
            Ok(Election {
                core: Core::of(lock),
            })
        })
    }
}

#[napi]
impl Election {
    /// Looks who leads.
    #[napi(catch_unwind)]
    pub fn leader(&self, port: &Port, number: i64) -> Option<Failure> {
        let core = self.core.clone();
        port.start(number, false, async move {
            core.leader().await.map(Value::Holder)
        })
    }

    /// Follows who leads, by a look each `every` milliseconds.
    #[napi(catch_unwind)]
    pub fn observe(&self, every: Option<f64>) -> Either<Observer, Failure> {
        entry(|| {
            let every = every.map(|every| time("every", every)).transpose()?;
            let core = Some(self.core.observe(every));
            Ok(Observer {
                core: Arc::new(Mutex::new(core)),
            })
        })
    }

    /// Waits for this many milliseconds, or until the client is closed.
    #[napi(catch_unwind)]
    pub fn pause(&self, port: &Port, number: i64, length: f64) -> Option<Failure> {
        let core = self.core.clone();
        port.begin(number, true, time("pause", length), |length| async move {
            core.pause(length).await.map(|()| Value::Nothing)
        })
    }
}

/// Follows who leads.
#[napi]
pub struct Observer {
    /// Nothing while it looks: a caller that ends the look ends the observer.
    core: Arc<Mutex<Option<CoreObserver>>>,
}

#[napi]
impl Observer {
    /// How it is, and after that the next change. To be called again once it has answered.
    #[napi(catch_unwind)]
    pub fn next(&self, port: &Port, number: i64) -> Option<Failure> {
        let taken = lock(&self.core).take();
        let looks = taken
            .ok_or_else(|| Error::from_binding(ErrorKind::Internal, "this observer looks already"));
        let place = self.core.clone();
        port.begin(number, true, looks, |mut core| async move {
            let now = core.next().await;
            *lock(&place) = Some(core);
            now.map(Value::Leadership)
        })
    }
}

/// Terms in a row whose work failed.
#[napi]
pub struct Failures(Mutex<CoreFailures>);

#[napi]
impl Failures {
    #[napi(constructor, catch_unwind)]
    #[allow(clippy::new_without_default, reason = "only JavaScript makes it")]
    pub fn new() -> Failures {
        Failures(Mutex::default())
    }

    /// The same after one whose work ended well.
    #[napi(catch_unwind)]
    pub fn none_after(&self, led: f64) -> Either<f64, Failure> {
        entry(|| {
            let led = time("led", led)?;
            Ok(lock(&self.0).none_after(led).as_secs_f64() * 1000.0)
        })
    }

    /// For how many milliseconds to pause after another one, which lasted for `led`.
    #[napi(catch_unwind)]
    pub fn pause_after(&self, led: f64) -> Either<f64, Failure> {
        entry(|| {
            let led = time("led", led)?;
            Ok(lock(&self.0).pause_after(led).as_secs_f64() * 1000.0)
        })
    }
}
