//! The lock.

use napi_derive::napi;
use quorlock::{Error, Lock as Core};

use crate::failure::Failure;
use crate::lease::Lease;
use crate::options::{LockOptions, limit};
use crate::port::Port;
use crate::queue::Value;

/// A lock of the core.
#[napi]
pub struct Lock {
    core: Core,
    /// It has an owner with a name, who owns it wherever it is used.
    named: bool,
}

/// An invocation as an owner.
#[napi]
pub struct Owner(quorlock::Owner);

#[napi]
impl Owner {
    /// Different from every other.
    #[napi(constructor, catch_unwind)]
    #[allow(clippy::new_without_default, reason = "each is another")]
    pub fn new() -> Owner {
        Owner(quorlock::Owner::task())
    }
}

impl Lock {
    pub(crate) fn new(core: Core, options: LockOptions) -> Result<Lock, Error> {
        let named = options.owner.is_some();
        let core = options.apply(core)?;
        core.check()?;
        Ok(Lock { core, named })
    }

    fn of(&self, owner: Option<&Owner>) -> Core {
        match owner {
            Some(Owner(owner)) if !self.named => self.core.clone().owner(owner.clone()),
            _ => self.core.clone(),
        }
    }
}

#[napi]
impl Lock {
    /// Acquires; `wait` is for this call alone.
    #[napi(catch_unwind)]
    pub fn acquire(
        &self,
        port: &Port,
        number: i64,
        owner: Option<&Owner>,
        wait: Option<f64>,
    ) -> Option<Failure> {
        let mut core = self.of(owner);
        if let Some(wait) = wait {
            core = match limit("wait", wait) {
                Ok(wait) => core.wait(wait),
                Err(error) => return Some(error.into()),
            };
        }
        let queue = port.queue().clone();
        port.start(number, true, async move {
            let lease = core.acquire().await?;
            Ok(Value::Lease(Some(Lease::new(lease, number, queue))))
        })
    }

    /// Tries once.
    #[napi(catch_unwind)]
    pub fn try_acquire(&self, port: &Port, number: i64) -> Option<Failure> {
        let (core, queue) = (self.core.clone(), port.queue().clone());
        port.start(number, true, async move {
            let lease = core.try_acquire().await?;
            Ok(Value::Lease(
                lease.map(|lease| Lease::new(lease, number, queue)),
            ))
        })
    }

    /// Releases what its owner holds.
    #[napi(catch_unwind)]
    pub fn release(&self, port: &Port, number: i64) -> Option<Failure> {
        let core = self.core.clone();
        port.start(number, false, async move {
            core.release().await.map(Value::Flag)
        })
    }
}
