//! The threads that run callbacks.
//!
//! A thread that takes a callback first has another one stand ready for those behind it. So
//! callbacks begin in order, and a callback that blocks withholds no other. At rest a single thread
//! is kept.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::mutex::lock;
use crate::runtime::threads;

/// Threads at most: so many callbacks may block at one time before others have to wait.
const MOST: usize = 64;

/// Something to be called, which does not panic.
pub(crate) type Callback = Box<dyn FnOnce() + Send>;

/// See above.
#[derive(Default)]
pub(crate) struct Callers(Arc<CallerPool>);

#[derive(Default)]
struct CallerPool {
    state: Mutex<CallersState>,
    filled: Condvar,
}

#[derive(Default)]
struct CallersState {
    callbacks: VecDeque<Callback>,
    /// Threads that have not ended.
    threads: usize,
    /// Those of them that run no callback.
    ready: usize,
    handles: Vec<JoinHandle<()>>,
    stopped: bool,
}

impl Callers {
    /// Runs a callback on one of the threads. None is ever dropped.
    pub(crate) fn call(&self, callback: Callback) {
        let mut state = lock(&self.0.state);
        state.callbacks.push_back(callback);
        self.0.have_one_ready(&mut state);
        drop(state);
        self.0.filled.notify_one();
    }

    /// Ends the threads once no callback is left, and waits for that; but not for the
    /// thread that calls this.
    pub(crate) fn stop(&self) {
        let handles = {
            let mut state = lock(&self.0.state);
            state.stopped = true;
            // All of them in one: of two callbacks that call this, neither waits for the other.
            std::mem::take(&mut state.handles)
        };
        self.0.filled.notify_all();
        let here = std::thread::current().id();
        for thread in handles {
            if thread.thread().id() != here {
                let _ = thread.join();
            }
        }
    }
}

impl CallerPool {
    /// Starts a thread if callbacks wait and none is ready for them. Where that fails they wait for
    /// a thread that is busy, or for the next callback. Once it is stopped the threads that are
    /// left see to all callbacks; where none is left, a thread is started that the stop does not
    /// wait for.
    fn have_one_ready(self: &Arc<Self>, state: &mut CallersState) {
        let stopped = state.stopped && state.threads > 0;
        if state.callbacks.is_empty() || state.ready > 0 || state.threads >= MOST || stopped {
            return;
        }
        let shared = self.clone();
        if let Ok(thread) = threads::start("quorlock-events", move || shared.run()) {
            state.threads += 1;
            state.ready += 1;
            state.handles.retain(|ended| !ended.is_finished());
            state.handles.push(thread);
        }
    }

    fn run(self: Arc<Self>) {
        let mut state = lock(&self.state);
        loop {
            let Some(callback) = state.callbacks.pop_front() else {
                if state.stopped || state.ready > 1 {
                    break;
                }
                let woken = self.filled.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.ready -= 1;
            self.have_one_ready(&mut state);
            drop(state);
            callback();
            state = lock(&self.state);
            state.ready += 1;
        }
        state.ready -= 1;
        state.threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
    use std::time::Duration;

    /// For what comes at once, unless the machine stands still.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A callback that tells its number, and then waits for a word.
    fn blocks(callers: &Callers, number: usize, told: &Sender<usize>) -> Sender<()> {
        let (go_on, wait) = channel::<()>();
        let told = told.clone();
        callers.call(Box::new(move || {
            told.send(number).unwrap();
            let _ = wait.recv();
        }));
        go_on
    }

    fn tells(callers: &Callers, number: usize, told: &Sender<usize>) {
        let told = told.clone();
        callers.call(Box::new(move || told.send(number).unwrap()));
    }

    fn hear(told: &Receiver<usize>) -> usize {
        told.recv_timeout(PATIENCE).expect("it is called")
    }

    #[test]
    fn a_callback_that_blocks_withholds_no_other() {
        let callers = Callers::default();
        let (told, hears) = channel();
        let blocked: Vec<_> = (1..MOST).map(|n| blocks(&callers, n, &told)).collect();
        let mut begun: Vec<_> = (1..MOST).map(|_| hear(&hears)).collect();
        begun.sort_unstable();
        assert!(begun.into_iter().eq(1..MOST));
        for number in [1_000, 1_001, 1_002] {
            tells(&callers, number, &told);
            assert_eq!(hear(&hears), number);
        }
        drop(blocked);
        callers.stop();
    }

    #[test]
    fn there_are_no_more_threads_than_that_and_nothing_is_dropped() {
        let callers = Callers::default();
        let (told, hears) = channel();
        let mut blocked: Vec<_> = (0..MOST).map(|n| blocks(&callers, n, &told)).collect();
        for _ in 0..MOST {
            hear(&hears);
        }
        tells(&callers, MOST, &told);
        assert_eq!(lock(&callers.0.state).threads, MOST);
        let early = hears.recv_timeout(Duration::from_millis(50));
        assert_eq!(early, Err(RecvTimeoutError::Timeout));
        drop(blocked.pop());
        assert_eq!(hear(&hears), MOST);
        drop(blocked);
        callers.stop();
        assert_eq!(lock(&callers.0.state).threads, 0);
    }

    #[test]
    fn callbacks_that_do_not_block_are_all_called_and_one_thread_stays() {
        let callers = Callers::default();
        let (told, hears) = channel();
        (0..1_000).for_each(|number| tells(&callers, number, &told));
        let mut called: Vec<_> = (0..1_000).map(|_| hear(&hears)).collect();
        called.sort_unstable();
        assert!(called.into_iter().eq(0..1_000));
        // The others find that they are not needed, one after the other.
        let state = || lock(&callers.0.state);
        let one_stays = || state().threads == 1 && state().ready == 1;
        assert!((0..10_000_000).any(|_| {
            std::thread::yield_now();
            one_stays()
        }));
        callers.stop();
        assert_eq!(state().threads, 0);
    }

    #[test]
    fn what_waits_at_the_end_is_called_and_callbacks_may_end_it() {
        let callers = Arc::new(Callers::default());
        let (told, hears) = channel();
        for number in [1, 2] {
            let (ends, told) = (callers.clone(), told.clone());
            callers.call(Box::new(move || {
                ends.stop();
                told.send(number).unwrap();
            }));
        }
        let mut ended = [hear(&hears), hear(&hears)];
        ended.sort_unstable();
        assert_eq!(ended, [1, 2]);
        callers.stop();
    }

    #[test]
    fn what_comes_behind_the_end_is_called_too() {
        let callers = Callers::default();
        let (told, hears) = channel();
        callers.stop();
        for number in [1, 2] {
            tells(&callers, number, &told);
            assert_eq!(hear(&hears), number);
        }
    }
}
