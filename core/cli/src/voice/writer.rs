//! A writer that may be behind: what it is given waits for a thread of its own.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Texts that wait at most. Beyond it the oldest goes: the last ones say how it ended.
const BOUND: usize = 1024;
/// After so long without any of it written, the rest is given up at the end.
const PATIENCE: Duration = Duration::from_secs(3);

pub struct Writer(Arc<WriterQueue>);

struct WriterQueue {
    state: Mutex<WriterState>,
    changed: Condvar,
}

struct WriterState {
    texts: VecDeque<String>,
    /// Where they go; the thread takes it when it begins.
    output: Option<Box<dyn Write + Send>>,
    has_thread: bool,
    writes: bool,
}

impl Writer {
    pub fn new(output: impl Write + Send + 'static) -> Writer {
        Writer(Arc::new(WriterQueue {
            state: Mutex::new(WriterState {
                texts: VecDeque::new(),
                output: Some(Box::new(output)),
                has_thread: false,
                writes: false,
            }),
            changed: Condvar::new(),
        }))
    }

    /// Waits for nothing. The first call starts the thread; where there is none to be had, the
    /// next one tries again.
    pub fn write(&self, text: String) {
        let mut state = self.0.lock();
        if state.texts.len() >= BOUND {
            state.texts.pop_front();
        }
        state.texts.push_back(text);
        if !state.has_thread {
            let shared = self.0.clone();
            let run = move || shared.run();
            state.has_thread = thread::Builder::new().spawn(run).is_ok();
        }
        drop(state);
        self.0.changed.notify_all();
    }

    /// Waits until all is written, or the output has taken nothing for [`PATIENCE`].
    pub fn finish(&self) {
        let mut state = self.0.lock();
        while state.has_thread && (state.writes || !state.texts.is_empty()) {
            let waited = self.0.changed.wait_timeout(state, PATIENCE);
            let (after, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                return;
            }
            state = after;
        }
    }
}

impl WriterQueue {
    fn lock(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        write_from_the_background();
        let mut state = self.lock();
        let mut output = state.output.take();
        loop {
            let Some(text) = state.texts.pop_front() else {
                let woken = self.changed.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.writes = true;
            drop(state);
            if let Some(output) = &mut output {
                // What reads it may be gone.
                let written = output.write_all(text.as_bytes());
                let _ = written.and_then(|()| output.flush());
            }
            state = self.lock();
            state.writes = false;
            self.changed.notify_all();
        }
    }
}

/// Has a terminal take what this thread writes though another group of processes has it: the kernel
/// would stop the whole of this one where the terminal is set so (`stty tostop`).
fn write_from_the_background() {
    // SAFETY: a set that is made empty before it is used, for this thread alone.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut signals);
        libc::sigaddset(&mut signals, libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut());
    }
}
