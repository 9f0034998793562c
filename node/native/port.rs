//! How results reach JavaScript: one callback per environment for all of them.
//!
//! JavaScript numbers its operations. Those it starts in one turn are submitted
//! together, so that their requests leave together; an operation that is alone is begun on the
//! thread of the loop (see [`sockets`]). What has completed is queued;
//! the first rings the bell, and JavaScript takes all there is in one call and
//! settles its promises.

use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{Context, Waker};

use napi::bindgen_prelude::{Function, FunctionRef, JsValue, Unknown};
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi::{Env, sys};
use napi_derive::napi;
use quorlock::binding::{CallBatch, Steps, Task, call, caught, lock, spawn};
use quorlock::{Client, Error};

use crate::desk::{Desk, HeldLease};
use crate::failure::{Failure, checked};
use crate::queue::{Bell, Event, Queue, Value};
use crate::sink;

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
    pub(crate) desk: Rc<Desk>,
    /// What takes what is queued.
    pub(crate) ring: FunctionRef<(), ()>,
    pub(crate) turn: CallBatch,
    /// Whether the host is Node itself, whose event loop is libuv's.
    pub(crate) is_node: bool,
    clients: Clients,
    /// How the loop drives the I/O itself.
    pub(crate) steps: OnceLock<Option<Steps>>,
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
        let bell: Arc<Bell> = Arc::new(bell);
        let ring = bell.clone();
        // A bell that is gone belongs to an environment that is gone.
        let queue = Arc::new(Queue::new(move || {
            ring.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }));
        sink::listen(&queue);
        Ok(Port {
            desk: Rc::new(Desk::new(env.raw(), bell, queue)),
            ring: called,
            turn: CallBatch::default(),
            is_node,
            clients,
            steps: OnceLock::new(),
        })
    }

    /// Ends an operation that is awaited no more, and has this many numbers; what it has won is
    /// released, also where that was [taken](Desk::news) already and JavaScript has yet to hear of it.
    #[napi(catch_unwind)]
    pub fn cancel(&self, number: i64, numbers: i64) -> Option<Failure> {
        checked(|| {
            self.desk.forget(number);
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
        self.desk.queue.push(Event::Lost(number, true));
    }

    /// Has the environment treat what a listener threw as an uncaught exception, and
    /// goes on.
    #[napi(catch_unwind)]
    pub fn uncaught(&self, env: &Env, thrown: Unknown<'_>) {
        // SAFETY: both are of the call under way.
        unsafe { sys::napi_fatal_exception(env.raw(), thrown.raw()) };
    }

    /// The environment stays alive until this is called once more, with false.
    #[napi(catch_unwind)]
    pub fn stay(&self, stays: bool) {
        self.desk.stay(stays);
    }
}

impl Port {
    /// Whether the loop drives what it sends itself: it has no operation under way.
    pub(crate) fn drives(&self) -> bool {
        matches!(self.steps.get(), Some(Some(_))) && self.desk.running() == 0
    }

    pub(crate) fn know(&self, client: &Arc<Client>) {
        let mut clients = lock(&self.clients);
        clients.retain(|known| known.strong_count() > 0);
        clients.push(Arc::downgrade(client));
    }

    pub(crate) fn leases(&self) -> MutexGuard<'_, HashMap<i64, HeldLease>> {
        self.desk.leases()
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
        checked(|| self.go(number, revocable, work))
    }

    /// The same, within an [`entry`](crate::failure::entry).
    pub(crate) fn go(
        &self,
        number: i64,
        revocable: bool,
        work: impl Future<Output = Result<Value, Error>> + Send + 'static,
    ) -> Result<(), Error> {
        let queue = self.desk.queue.clone();
        let (work, revocation) = call(work, revocable, move |done| {
            queue.push(Event::Done(number, done));
        });
        self.turn.begin();
        self.turn.submit(work)?;
        self.desk.expect(number, revocation);
        Ok(())
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
        self.desk.close();
    }
}
