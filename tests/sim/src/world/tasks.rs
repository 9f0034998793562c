//! The executor: tasks of the clients, polled in the order of their wake-ups.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::World;
use super::events::Event;
use super::local::Local;
use crate::death;
use crate::who::{Who, act};

/// No more polls are needed between two events.
const POLLS_BOUND: u32 = 10_000;

type Future_ = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Task {
    client: usize,
    who: Who,
    /// It is the client's own.
    own: bool,
    /// The pair whose real link it drives.
    link: Option<usize>,
    future: Future_,
    waker: Waker,
}

struct TaskWaker {
    id: usize,
    ready: Arc<Local<VecDeque<usize>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.get().push_back(self.id);
    }
}

impl World {
    /// Starts a task of a client.
    pub fn spawn(&self, client: usize, future: impl Future<Output = ()> + Send + 'static) {
        self.begin(Who::Client(client), client, (false, None), Box::pin(future));
    }

    /// Starts a task of a client's own.
    pub fn spawn_own(&self, client: usize, future: impl Future<Output = ()> + Send + 'static) {
        self.begin(Who::Client(client), client, (true, None), Box::pin(future));
    }

    /// Starts the task of one of a client's users, or another's.
    pub fn spawn_as(
        &self,
        who: Who,
        client: usize,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        self.begin(who, client, (false, None), Box::pin(future));
    }

    /// Starts the task of the real link of a pair.
    pub(super) fn spawn_link(&self, client: usize, pair: usize, future: Future_) {
        self.begin(Who::Client(client), client, (true, Some(pair)), future);
    }

    fn begin(&self, who: Who, client: usize, (own, link): (bool, Option<usize>), future: Future_) {
        let mut tasks = self.tasks.get();
        let id = tasks.len();
        let waker = Waker::from(Arc::new(TaskWaker {
            id,
            ready: self.ready.clone(),
        }));
        tasks.push(Some(Task {
            client,
            who,
            own,
            link,
            future,
            waker,
        }));
        self.ready.get().push_back(id);
    }

    /// Polls tasks until none is ready.
    pub(super) fn run_ready(&self) {
        for polls in 0.. {
            if polls > POLLS_BOUND {
                return self.violated("L5 tasks wake each other forever".into());
            }
            let Some(id) = self.ready.get().pop_front() else {
                return;
            };
            let Some(mut task) = self.tasks.get()[id].take() else {
                continue;
            };
            {
                let mut inner = self.inner();
                let now = inner.time;
                let client = &mut inner.clients[task.client];
                if client.crashed {
                    // Whatever its drop would do, no byte leaves any more.
                    drop(inner);
                    drop(task);
                    continue;
                }
                if client.paused_until > now {
                    client.held_back.push(Event::Wake(task.waker.clone()));
                    drop(inner);
                    self.tasks.get()[id] = Some(task);
                    continue;
                }
                inner.polled = id;
            }
            let waker = task.waker.clone();
            let mut cx = Context::from_waker(&waker);
            let _acting = act(task.who);
            death::polls(task.own.then_some(id));
            let polled = task.future.as_mut().poll(&mut cx);
            death::polls(None);
            if let Some(pair) = task.link {
                self.inner().link_turned(pair);
            }
            if polled == Poll::Pending {
                self.tasks.get()[id] = Some(task);
            }
        }
    }
}
