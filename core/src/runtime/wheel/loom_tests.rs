//! The wheel in all interleavings: what is rung for is woken once, by any thread that drives, and
//! without a timer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Wake;

use loom::thread;

use super::*;
use crate::sync::explore::{ExploreWaker, explore};

/// A task of the runtime, which is over when it has been woken.
struct Task {
    woken: AtomicUsize,
    over: Arc<ExploreWaker>,
}

impl Task {
    fn new() -> Arc<Task> {
        Arc::new(Task {
            woken: AtomicUsize::new(0),
            over: ExploreWaker::new(),
        })
    }

    fn wakers(self: &Arc<Task>) -> Wakers {
        let mut wakers = Wakers::default();
        wakers.extend([Waker::from(self.clone())]);
        wakers
    }

    /// Waits for its end; woken a second time it fails.
    fn ended(&self) {
        self.over.wait();
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        assert_eq!(self.woken.fetch_add(1, Ordering::Relaxed), 0, "woken twice");
        self.over.ring();
    }
}

struct Machine {
    wheel: Wheel<Arc<()>>,
    driving: AtomicUsize,
    now: AtomicU64,
}

impl Machine {
    fn new() -> Arc<Machine> {
        Arc::new(Machine {
            wheel: Wheel::new(Arc::new(())),
            driving: AtomicUsize::new(0),
            now: AtomicU64::new(0),
        })
    }

    /// It is never crowded: each look at the clock takes a second.
    fn now(&self) -> Instant {
        Instant(self.now.fetch_add(1_000_000_000, Ordering::Relaxed))
    }

    /// As a runtime does: asks `leaves` at first and whenever it is woken.
    fn drive(&self, leaves: impl Fn(&Waker) -> bool) {
        assert_eq!(self.driving.fetch_add(1, Ordering::Relaxed), 0, "two drive");
        let bell = ExploreWaker::new();
        let waker = Waker::from(bell.clone());
        while !leaves(&waker) {
            bell.wait();
        }
        self.driving.fetch_sub(1, Ordering::Relaxed);
    }

    fn io_thread(&self) {
        while let Some(runtime) = self.wheel.runtime() {
            self.drive(|waker| self.wheel.is_asked_for(waker));
            drop(runtime);
            if !self.wheel.stand_aside() {
                break;
            }
        }
        drop(self.wheel.end());
    }

    /// What a blocking caller does: it has a task woken and waits for its end, at
    /// the wheel if it can be had.
    fn blocking_call(&self) {
        let task = Task::new();
        match self.wheel.take(|| self.now()) {
            Some(runtime) => {
                task.wakers().wake();
                // One look, as long as a turn may be.
                let looked = AtomicUsize::new(0);
                self.drive(|waker| {
                    let first = looked.fetch_add(1, Ordering::Relaxed) == 0;
                    // It is woken by its own task at once.
                    self.wheel.is_wanted(waker) || first
                });
                drop(runtime);
                self.wheel.leave();
                task.ended();
            }
            None => {
                self.wheel.ring(task.wakers(), true, self.now());
                self.wheel.park();
                task.ended();
                self.wheel.unpark();
            }
        }
    }

    /// What anybody else does: it has a task woken.
    fn asynchronous_call(&self) {
        let task = Task::new();
        self.wheel.ring(task.wakers(), false, self.now());
        task.ended();
    }

    /// Runs calls beside each other and the I/O thread, and ends it.
    fn run(calls: &[fn(&Machine)]) {
        let machine = Machine::new();
        let spawn = |act: fn(&Machine)| {
            let machine = machine.clone();
            thread::spawn(move || act(&machine))
        };
        let io_thread = spawn(Machine::io_thread);
        let (here, others) = calls.split_first().expect("a call");
        let others: Vec<_> = others.iter().map(|call| spawn(*call)).collect();
        here(&machine);
        for other in others {
            other.join().unwrap();
        }
        machine.wheel.stop();
        io_thread.join().unwrap();
        let state = lock(&machine.wheel.state);
        assert!(state.runtime.is_none(), "the runtime stays");
        assert!(state.rung.is_empty(), "a task was not woken");
        assert_eq!(state.parked, 0);
    }
}

#[test]
fn a_caller_and_a_task_from_elsewhere_are_both_served() {
    explore(3, || {
        Machine::run(&[Machine::blocking_call, Machine::asynchronous_call]);
    });
}

#[test]
fn two_callers_are_both_served() {
    explore(3, || {
        Machine::run(&[Machine::blocking_call, Machine::blocking_call]);
    });
}
