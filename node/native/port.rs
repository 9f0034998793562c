//! How results reach JavaScript: one callback per environment for all of them.
//!
//! JavaScript numbers its operations. Those it starts in one turn are submitted
//! together, so that their requests leave together; an operation that is alone is begun on the
//! thread of the loop (see [`sockets`]). What has completed is queued;
//! the first rings the bell, and JavaScript takes all there is in one call and
//! settles its promises. While operations are awaited, and only then, the bell keeps the
//! environment alive: renewal must not.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{Context, Waker};

use napi::bindgen_prelude::{Function, FunctionRef, JsValue, Unknown};
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi::{Either, Env, sys};
use napi_derive::napi;
use quorlock::binding::{CallBatch, Revocation, Steps, Task, call, caught, lock, spawn};
use quorlock::{Client, Error, Lease, Lost};

use crate::failure::{Failure, checked, entry};
use crate::queue::{Bell, Event, Queue, Value, WonLeases};
use crate::{sink, sockets};

/// A lease that JavaScript holds. Dropped, it is released in the background; one of
/// several when those are dropped, too.
pub(crate) struct HeldLease {
    pub(crate) core: Arc<Lease>,
    /// Rings at the loss, as long as it lives.
    _lost: Lost,
}

/// The clients of an environment, as long as they are in use.
type Clients = Arc<Mutex<Vec<Weak<Client>>>>;

/// Closes them, and waits for no answer.
fn close(clients: &Clients) {
    for client in lock(clients).drain(..).filter_map(|weak| weak.upgrade()) {
        let mut closing = Box::pin(async move { client.close().await });
        // It is closed when this has polled: the process may end next. Without an I/O thread
        // there is nothing to be released.
        if closing
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
        {
            let _ = spawn(closing).map(Task::detach);
        }
    }
}

/// The channel of one environment.
#[napi]
pub struct Port {
    queue: Arc<Queue>,
    bell: Arc<Bell>,
    /// What takes what is queued.
    ring: FunctionRef<(), ()>,
    /// The operations under way, with what ends them if they can be revoked.
    running: Mutex<HashMap<i64, Option<Revocation>>>,
    turn: CallBatch,
    /// Whether the host is Node itself, whose event loop is libuv's.
    is_node: bool,
    clients: Clients,
    /// How the loop drives the I/O itself.
    steps: OnceLock<Option<Steps>>,
    /// What JavaScript holds, by the number of the operation that won it.
    leases: Mutex<HashMap<i64, HeldLease>>,
}

#[napi]
impl Port {
    /// `ring` is called when there is something to take. `is_node`: whether
    /// the host is Node itself. Bun and Deno have libuv's functions by name alone (where they
    /// are called, Bun ends the process), and Deno frees nothing of what a worker had.
    #[napi(constructor, catch_unwind)]
    pub fn new(env: Env, ring: Function<'_, (), ()>, is_node: bool) -> napi::Result<Port> {
        let clients = Clients::default();
        if !is_node {
            env.add_env_cleanup_hook(clients.clone(), |clients| {
                let _ = caught(|| close(&clients));
            })?;
        }
        let called = ring.create_ref()?;
        let bell = ring
            .build_threadsafe_function()
            .weak::<true>()
            .build_callback(|_| Ok(()))?;
        let bell = Arc::new(bell);
        let ring = bell.clone();
        // A bell that is gone belongs to an environment that is gone.
        let queue = Arc::new(Queue::new(move || {
            ring.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }));
        sink::listen(&queue);
        Ok(Port {
            queue,
            bell,
            ring: called,
            running: Mutex::default(),
            turn: CallBatch::default(),
            is_node,
            clients,
            steps: OnceLock::new(),
            leases: Mutex::default(),
        })
    }

    /// Ends a turn of the event loop: submits what it has started.
    #[napi(catch_unwind)]
    pub fn submit(&self, env: &Env) -> Option<Failure> {
        // Not before: a program that only loads the package needs no thread for I/O.
        let watched = || match self.ring.borrow_back(env) {
            Ok(ring) if self.is_node => sockets::watched(&ring, env, &self.queue),
            _ => None,
        };
        let steps = self.steps.get_or_init(watched);
        checked(|| match steps {
            Some(steps) if lock(&self.running).len() == 1 => self.turn.end_alone(steps),
            _ => self.turn.end(),
        })
    }

    /// Ends an operation that is awaited no more, and has this many numbers; what it has won is
    /// released, also where that was [taken](Port::news) already and JavaScript has yet to hear of it.
    #[napi(catch_unwind)]
    pub fn cancel(&self, number: i64, numbers: i64) -> Option<Failure> {
        checked(|| {
            let revoked = lock(&self.running).remove(&number);
            drop(revoked);
            let mut leases = self.leases();
            let numbers = number..number.saturating_add(numbers);
            let won: Vec<HeldLease> = numbers.filter_map(|at| leases.remove(&at)).collect();
            // Not within the table's lock: it takes others.
            drop(leases);
            for held in won {
                held.core.take_back();
            }
            Ok(())
        })
    }

    /// Reports a loss once more, when the microtasks of this turn are done.
    #[napi(catch_unwind)]
    pub fn put_off(&self, number: i64) {
        self.queue.push(Event::Lost(number, true));
    }

    /// Has the environment treat what a listener threw as an uncaught exception, and
    /// goes on.
    #[napi(catch_unwind)]
    pub fn uncaught(&self, env: &Env, thrown: Unknown<'_>) {
        // SAFETY: both are of the call under way.
        unsafe { sys::napi_fatal_exception(env.raw(), thrown.raw()) };
    }

    /// Whether to keep the environment alive.
    #[napi(catch_unwind)]
    pub fn keep(&self, env: &Env, alive: bool) -> Either<bool, Failure> {
        entry(|| {
            let bell = self.bell.raw();
            // SAFETY: the port keeps the function from being freed, and this is
            // the thread of its environment.
            let status = unsafe {
                if alive {
                    sys::napi_ref_threadsafe_function(env.raw(), bell)
                } else {
                    sys::napi_unref_threadsafe_function(env.raw(), bell)
                }
            };
            Ok(status == sys::Status::napi_ok)
        })
    }
}

impl Port {
    /// All that has happened since the last call. What has been won is held for JavaScript from here on.
    pub(crate) fn news(&self) -> Vec<Event> {
        let mut events = self.queue.take();
        events.retain_mut(|event| match event {
            Event::Done(number, done) => {
                // An operation without a number was given up, and the lease that it has won is
                // dropped here.
                let is_awaited = lock(&self.running).remove(number).is_some();
                if is_awaited {
                    match done {
                        Ok(Value::Lease(lease)) => {
                            let lease = lease.take();
                            *done = self.won(*number, lease).map(Value::Flag);
                        }
                        Ok(Value::Leases(won)) => {
                            let won = won.take();
                            *done = self.won_all(*number, won);
                        }
                        _ => {}
                    }
                }
                is_awaited
            }
            _ => true,
        });
        events
    }

    /// Keeps what an operation has won, if JavaScript takes it in time: that may have
    /// been busy for longer than the ttl. Returns whether it has won anything.
    fn won(&self, number: i64, lease: Option<Lease>) -> Result<bool, Error> {
        let Some(lease) = lease else {
            return Ok(false);
        };
        self.hold(number, Arc::new(lease.delivered()?));
        Ok(true)
    }

    /// The same for leases that were won together.
    fn won_all(&self, number: i64, won: Option<WonLeases>) -> Result<Value, Error> {
        let Some(WonLeases { leases, names }) = won else {
            return Ok(Value::Nothing);
        };
        let leases = leases.delivered()?;
        let place = |lease: &Arc<Lease>| names.iter().position(|name| name == lease.name());
        // Each is of one of them.
        let places: Vec<usize> = leases.parts().iter().filter_map(place).collect();
        for (lease, place) in leases.parts().iter().zip(&places) {
            self.hold(number + *place as i64, lease.clone());
        }
        let places = places.into_iter().map(|place| place as u32).collect();
        Ok(Value::Kept(leases, places))
    }

    fn hold(&self, number: i64, core: Arc<Lease>) {
        let queue = self.queue.clone();
        let lost = core.bell(move || queue.push(Event::Lost(number, false)));
        self.leases()
            .insert(number, HeldLease { core, _lost: lost });
    }

    /// Whether the loop drives what it sends itself: it has no operation under way.
    pub(crate) fn drives(&self) -> bool {
        matches!(self.steps.get(), Some(Some(_))) && lock(&self.running).is_empty()
    }

    pub(crate) fn know(&self, client: &Arc<Client>) {
        let mut clients = lock(&self.clients);
        clients.retain(|known| known.strong_count() > 0);
        clients.push(Arc::downgrade(client));
    }

    pub(crate) fn leases(&self) -> MutexGuard<'_, HashMap<i64, HeldLease>> {
        lock(&self.leases)
    }

    /// Has an operation carried out on the I/O thread, which does its part while
    /// JavaScript is busy: at the latest when the turn [ends](Port::submit). A
    /// revocable one ends with [`cancel`](Port::cancel) or with the environment; any
    /// other goes on to its end.
    pub(crate) fn start(
        &self,
        number: i64,
        revocable: bool,
        work: impl Future<Output = Result<Value, Error>> + Send + 'static,
    ) -> Option<Failure> {
        checked(|| {
            let queue = self.queue.clone();
            let (work, revocation) = call(work, revocable, move |done| {
                queue.push(Event::Done(number, done));
            });
            lock(&self.running).insert(number, revocation);
            self.turn.begin();
            self.turn.submit(work)
        })
    }
}

impl Port {
    /// As [`start`](Port::start), if there is something to do it with.
    pub(crate) fn begin<T, F>(
        &self,
        number: i64,
        revocable: bool,
        with: Result<T, Error>,
        work: impl FnOnce(T) -> F,
    ) -> Option<Failure>
    where
        F: Future<Output = Result<Value, Error>> + Send + 'static,
    {
        match with {
            Ok(with) => self.start(number, revocable, work(with)),
            Err(error) => Some(error.into()),
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let running = std::mem::take(&mut *lock(&self.running));
        drop(running);
        let leases = std::mem::take(&mut *self.leases());
        drop(leases);
        self.queue.close();
    }
}
