//! The executor: tasks are polled in the order of their wake-ups, in one thread. Where all of them wait, time
//! passes and the nodes answer.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::nodes::Nodes;

/// How long the way to a node and back takes.
const ROUND_TRIP: Duration = Duration::from_micros(100);

type Ready = Arc<Mutex<VecDeque<usize>>>;

struct TaskWaker {
    task: usize,
    ready: Ready,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut ready = self.ready.lock().expect("one thread");
        ready.push_back(self.task);
    }
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    waker: Waker,
    ended: bool,
}

/// The tasks of a scene.
#[derive(Default)]
pub struct Tasks {
    tasks: Vec<Task>,
    ready: Ready,
    idle: Idle,
}

/// Where tasks wait until nothing is under way but what waits here.
#[derive(Clone, Default)]
pub struct Idle(Rc<RefCell<VecDeque<Waker>>>);

impl Idle {
    pub async fn wait(&self) {
        let mut waits = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut waits, true) {
                return Poll::Ready(());
            }
            self.0.borrow_mut().push_back(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Tasks {
    pub fn idle(&self) -> Idle {
        self.idle.clone()
    }

    pub fn spawn(&mut self, future: impl Future<Output = ()> + 'static) {
        let task = self.tasks.len();
        let ready = self.ready.clone();
        self.tasks.push(Task {
            future: Box::pin(future),
            waker: Waker::from(Arc::new(TaskWaker { task, ready })),
            ended: false,
        });
        self.ready.lock().expect("one thread").push_back(task);
    }

    /// Runs until nothing is left to do.
    pub fn run(&mut self, nodes: &Nodes) {
        loop {
            self.poll_ready();
            nodes.clock.step(ROUND_TRIP);
            if nodes.answer() {
                continue;
            }
            let Some(waker) = self.idle.0.borrow_mut().pop_front() else {
                return;
            };
            waker.wake();
        }
    }

    fn poll_ready(&mut self) {
        loop {
            let next = self.ready.lock().expect("one thread").pop_front();
            let Some(task) = next else { return };
            let task = &mut self.tasks[task];
            if !task.ended {
                let mut cx = Context::from_waker(&task.waker);
                task.ended = task.future.as_mut().poll(&mut cx).is_ready();
            }
        }
    }

    /// How many tasks have ended.
    pub fn ended(&self) -> usize {
        self.tasks.iter().filter(|task| task.ended).count()
    }
}
