//! Leases. JavaScript has their numbers: an object of its own for each would
//! cost more than all that the lease does.

use std::sync::Arc;

use napi::bindgen_prelude::{Array, Buffer};
use napi::{Either, Env};
use napi_derive::napi;
use quorlock::{Error, ErrorKind, Lease as Core};

use crate::events::{array, left};
use crate::failure::{Failure, entry};
use crate::options::{limit, time};
use crate::port::Port;
use crate::queue::Value;

fn fence(core: &Core) -> Option<f64> {
    core.fence().map(|fence| fence as f64)
}

impl Port {
    fn lease(&self, lease: i64) -> Result<Arc<Core>, Error> {
        let leases = self.leases();
        let found = leases.get(&lease).map(|lease| lease.core.clone());
        found.ok_or_else(unknown)
    }
}

fn unknown() -> Error {
    Error::from_binding(ErrorKind::Internal, "there is no such lease")
}

#[napi]
impl Port {
    /// Whether the lease is valid now.
    #[napi(catch_unwind)]
    pub fn is_held(&self, lease: i64) -> Either<bool, Failure> {
        entry(|| Ok(self.lease(lease)?.is_held()))
    }

    /// Whether this handle has been given back.
    #[napi(catch_unwind)]
    pub fn is_released(&self, lease: i64) -> Either<bool, Failure> {
        entry(|| Ok(self.lease(lease)?.is_released()))
    }

    /// Validity left, in milliseconds.
    #[napi(catch_unwind)]
    pub fn remaining(&self, lease: i64) -> Either<f64, Failure> {
        entry(|| Ok(self.lease(lease)?.remaining().as_secs_f64() * 1000.0))
    }

    /// Names the hold.
    #[napi(catch_unwind)]
    pub fn token(&self, lease: i64) -> Either<String, Failure> {
        entry(|| Ok(self.lease(lease)?.token().to_owned()))
    }

    /// The fence, below 2^53 and so exact; null without one.
    #[napi(catch_unwind)]
    pub fn fence(&self, lease: i64) -> Either<Option<f64>, Failure> {
        entry(|| Ok(fence(&*self.lease(lease)?)))
    }

    /// Why it was lost; empty if it was not.
    #[napi(catch_unwind)]
    pub fn loss(&self, lease: i64) -> Either<&'static str, Failure> {
        entry(|| {
            Ok(self
                .lease(lease)?
                .loss()
                .map_or("", |reason| reason.as_str()))
        })
    }

    /// The error of a scope that ends after the loss.
    #[napi(catch_unwind)]
    pub fn lost_error(&self, lease: i64) -> Failure {
        match self.lease(lease) {
            Ok(core) => core.lost_error().into(),
            Err(error) => error.into(),
        }
    }

    /// Extends it.
    #[napi(catch_unwind)]
    pub fn extend(&self, number: i64, lease: i64, ttl: Option<f64>) -> Option<Failure> {
        let given = self.lease(lease).and_then(|core| {
            let ttl = ttl.map(|ttl| time("ttl", ttl)).transpose()?;
            Ok((core, ttl))
        });
        self.begin(number, false, given, |(core, ttl)| async move {
            core.extend(ttl).await.map(|()| Value::Nothing)
        })
    }

    /// Which slot of a semaphore it has.
    #[napi(catch_unwind)]
    pub fn slot(&self, lease: i64) -> Either<Option<u32>, Failure> {
        entry(|| Ok(self.lease(lease)?.slot()))
    }

    /// Whether others may share the lock with it.
    #[napi(catch_unwind)]
    pub fn is_shared(&self, lease: i64) -> Either<bool, Failure> {
        entry(|| Ok(self.lease(lease)?.is_shared()))
    }

    /// Shares it from now on.
    #[napi(catch_unwind)]
    pub fn downgrade(&self, number: i64, lease: i64) -> Option<Failure> {
        self.begin(number, false, self.lease(lease), |core| async move {
            core.downgrade().await.map(|()| Value::Nothing)
        })
    }

    /// Does what of an export has to be waited for; the lease is held as before.
    #[napi(catch_unwind)]
    pub fn prepare_export(&self, number: i64, lease: i64) -> Option<Failure> {
        self.begin(number, false, self.lease(lease), |core| async move {
            core.prepare_export().await.map(|()| Value::Nothing)
        })
    }

    /// Ends it here; a text with which another client goes on.
    #[napi(catch_unwind)]
    pub fn export(&self, lease: i64) -> Either<String, Failure> {
        entry(|| self.lease(lease)?.export_now())
    }

    /// The name of the lock of a lease that was adopted.
    #[napi(catch_unwind)]
    pub fn name(&self, lease: i64) -> Either<Buffer, Failure> {
        entry(|| Ok(self.lease(lease)?.name().to_vec().into()))
    }

    /// Makes sure of so much validity.
    #[napi(catch_unwind)]
    pub fn ensure(&self, number: i64, lease: i64, min: f64) -> Option<Failure> {
        let given = self.lease(lease).and_then(|core| {
            // No ttl gives what has no limit; the core says so.
            let min = limit("minRemaining", min)?.unwrap_or(std::time::Duration::MAX);
            Ok((core, min))
        });
        self.begin(number, false, given, |(core, min)| async move {
            core.ensure(min).await.map(|()| Value::Nothing)
        })
    }

    /// Releases it, and lets go of it when that is over. Where it does not wait for the nodes, it is released at once: whether it was
    /// held. Fails where it has to wait, and `confirm` says that it is not to.
    #[napi(catch_unwind)]
    pub fn release(
        &self,
        number: i64,
        lease: i64,
        confirm: Option<bool>,
    ) -> Either<Option<bool>, Failure> {
        entry(|| {
            let core = self.lease(lease)?;
            if !core.waits(confirm)? {
                return Ok(Some(core.release_in_loop(self.drives())));
            }
            let released = async move {
                let held = core.release_confirmed().await?;
                Ok(Value::Released(lease, held))
            };
            self.go(number, false, released).map(|()| None)
        })
    }

    /// Lets go of a lease that is over. Returns what is left of it, as [`left`] lays it out.
    #[napi(catch_unwind)]
    pub fn end<'env>(
        &self,
        env: &'env Env,
        lease: i64,
    ) -> napi::Result<Either<Array<'env>, Failure>> {
        let ended = entry(|| self.desk.end(lease).ok_or_else(unknown));
        Ok(match ended {
            Either::A(ended) => Either::A(array(env, left(env, ended)?.into())?),
            Either::B(failure) => Either::B(failure),
        })
    }

    /// Lets go of a lease that JavaScript has no more.
    #[napi(catch_unwind)]
    pub fn forget(&self, lease: i64) -> Either<bool, Failure> {
        entry(|| {
            let lease = self.leases().remove(&lease);
            Ok(lease.is_some())
        })
    }
}
