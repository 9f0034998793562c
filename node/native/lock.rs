//! Locks. JavaScript has their names and options and nothing native: to wrap an
//! object costs more memory than a lease does.

use napi::Either;
use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;
use quorlock::{Error, Lock};

use crate::client::Client;
use crate::failure::{Failure, checked};
use crate::options::{LockOptions, limit};
use crate::port::Port;
use crate::queue::Value;

/// Text as UTF-8, or bytes.
pub(crate) type Name = Either<String, Uint8Array>;

/// Its bytes.
pub(crate) fn octets(name: &Name) -> Vec<u8> {
    match name {
        Either::A(text) => text.as_bytes().to_vec(),
        Either::B(bytes) => bytes.to_vec(),
    }
}

/// The owner of a lease, which may enter it again.
#[napi]
pub struct Owner(quorlock::Owner);

#[napi]
impl Owner {
    /// Different from every other, unless it is given a name.
    #[napi(constructor, catch_unwind)]
    pub fn new(name: Option<Uint8Array>) -> Owner {
        Owner(match name {
            Some(name) => quorlock::Owner::named(name.to_vec()),
            None => quorlock::Owner::task(),
        })
    }
}

impl Client {
    pub(crate) fn lock(&self, name: &Name, options: Option<&LockOptions>) -> Result<Lock, Error> {
        let lock = self.core.lock(octets(name));
        match options {
            Some(options) => options.apply(lock),
            None => Ok(lock),
        }
    }

    /// A lock as one call asks for it.
    pub(crate) fn asked(
        &self,
        name: &Name,
        options: Option<&LockOptions>,
        owner: Option<&Owner>,
        wait: Option<f64>,
    ) -> Result<Lock, Error> {
        let mut lock = self.lock(name, options)?;
        if let Some(Owner(owner)) = owner {
            lock = lock.owner_or(|| owner.clone());
        }
        Ok(match wait {
            Some(wait) => lock.wait(limit("wait", wait)?),
            None => lock,
        })
    }
}

#[napi]
impl Client {
    /// Checks the name and the options of a lock.
    #[napi(catch_unwind)]
    pub fn check(&self, name: Name, options: Option<LockOptions>) -> Option<Failure> {
        checked(|| self.lock(&name, options.as_ref())?.check())
    }

    /// Acquires; `wait` is for this call alone.
    #[napi(catch_unwind)]
    pub fn acquire(
        &self,
        port: &Port,
        number: i64,
        name: Name,
        options: Option<LockOptions>,
        owner: Option<&Owner>,
        wait: Option<f64>,
    ) -> Option<Failure> {
        let asked = self.asked(&name, options.as_ref(), owner, wait);
        port.begin(number, true, asked, |lock| async move {
            let lease = lock.win().await?;
            Ok(Value::Lease(Some(lease)))
        })
    }

    /// The same; no lease where others hold the lock all the time.
    #[napi(catch_unwind)]
    pub fn try_acquire(
        &self,
        port: &Port,
        number: i64,
        name: Name,
        options: Option<LockOptions>,
        owner: Option<&Owner>,
        wait: Option<f64>,
    ) -> Option<Failure> {
        let asked = self.asked(&name, options.as_ref(), owner, wait);
        port.begin(number, true, asked, |lock| async move {
            lock.try_win().await.map(Value::Lease)
        })
    }

    /// Takes the lock away from its holder; `fence`: only from the lease that has it; `slot`: that slot of a semaphore.
    #[napi(catch_unwind)]
    pub fn force_release(
        &self,
        port: &Port,
        number: i64,
        name: Name,
        options: Option<LockOptions>,
        fence: Option<i64>,
        slot: Option<u32>,
    ) -> Option<Failure> {
        // No fence is negative, and the core refuses 0.
        let fence = fence.map(|fence| u64::try_from(fence).unwrap_or(0));
        let asked = self.lock(&name, options.as_ref());
        port.begin(number, false, asked, move |lock| async move {
            let forced = match slot {
                Some(slot) => lock.force_release_slot(slot, fence).await?,
                None => lock.force_release(fence).await?,
            };
            Ok(Value::Forced(Box::new(forced)))
        })
    }

    /// Waits until it is free, for so many milliseconds at most; infinite: without end.
    #[napi(catch_unwind)]
    pub fn wait_until_free(
        &self,
        port: &Port,
        number: i64,
        name: Name,
        options: Option<LockOptions>,
        wait: f64,
    ) -> Option<Failure> {
        let asked = self.lock(&name, options.as_ref());
        let asked = asked.and_then(|lock| Ok((lock, limit("wait", wait)?)));
        port.begin(number, false, asked, |(lock, wait)| async move {
            lock.wait_until_free(wait).await.map(Value::Flag)
        })
    }
}

/// Operations that ask for nothing but a lock, and which no call can revoke.
macro_rules! ask {
    ($($(#[$doc:meta])* $name:ident: |$lock:ident| $work:expr;)+) => {
        #[napi]
        impl Client {$(
            $(#[$doc])*
            #[napi(catch_unwind)]
            pub fn $name(
                &self,
                port: &Port,
                number: i64,
                name: Name,
                options: Option<LockOptions>,
            ) -> Option<Failure> {
                let asked = self.lock(&name, options.as_ref());
                port.begin(number, false, asked, |$lock| async move { $work })
            }
        )+}
    };
}

ask! {
    /// Looks what the nodes have of the lock.
    inspect: |lock| lock.inspect().await.map(Box::new).map(Value::Inspection);
    /// Whether any client holds the lock.
    is_locked: |lock| lock.is_locked().await.map(Value::Flag);
    /// The holder of the lock.
    holder: |lock| lock.holder().await.map(Value::Holder);
    /// Releases what the owner among the options holds.
    release: |lock| lock.release().await.map(Value::Flag);
}
