//! Leases. JavaScript has their numbers: an object of its own for each would
//! cost more than all that the lease does.

use std::sync::Arc;

use napi::bindgen_prelude::{Array, Buffer};
use napi::{Either, Env};
use napi_derive::napi;
use quorlock::{Error, ErrorKind, Lease as Core, LossReason};

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
        found.ok_or_else(|| Error::from_binding(ErrorKind::Internal, "there is no such lease"))
    }
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

    /// Whether a release waits for the nodes, where its caller says `confirm`, or nothing. Fails where it
    /// has to wait, and is not to.
    #[napi(catch_unwind)]
    pub fn waits(&self, lease: i64, confirm: Option<bool>) -> Either<bool, Failure> {
        entry(|| self.lease(lease)?.waits(confirm))
    }

    /// Releases it.
    #[napi(catch_unwind)]
    pub fn release(&self, number: i64, lease: i64) -> Option<Failure> {
        self.begin(number, false, self.lease(lease), |core| async move {
            core.release_confirmed().await.map(Value::Flag)
        })
    }

    /// Releases it without waiting for the nodes.
    #[napi(catch_unwind)]
    pub fn release_unconfirmed(&self, lease: i64) -> Either<bool, Failure> {
        entry(|| Ok(self.lease(lease)?.release_in_loop(self.drives())))
    }

    /// Lets go of a lease that has been released. Returns what is left of it, in one
    /// call: token, fence, reason and error of the loss, and its slot.
    #[napi(catch_unwind)]
    pub fn end<'env>(
        &self,
        env: &'env Env,
        lease: i64,
    ) -> napi::Result<Either<Array<'env>, Failure>> {
        let left = entry(|| {
            let core = self.lease(lease)?;
            let loss = core.loss();
            let error = loss.map(|_| Failure::from(core.lost_error()));
            let left = (
                core.token().to_owned(),
                fence(&core),
                loss,
                error,
                core.slot(),
            );
            let forgotten = self.leases().remove(&lease);
            // Not within the table's lock: it takes others.
            drop(forgotten);
            Ok(left)
        });
        let (token, fence, loss, error, slot) = match left {
            Either::A(left) => left,
            Either::B(failure) => return Ok(Either::B(failure)),
        };
        let mut left = env.create_array(5)?;
        left.set(0, token)?;
        left.set(1, fence)?;
        left.set(2, loss.map(LossReason::as_str))?;
        left.set(3, error)?;
        left.set(4, slot)?;
        Ok(Either::A(left))
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
