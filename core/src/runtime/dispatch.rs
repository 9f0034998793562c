//! The dispatcher: the one thread that runs user code.
//!
//! Loss callbacks and log lines are handed to it, so that a callback that
//! sleeps holds up other callbacks and never a renewal.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use once_cell::sync::{Lazy, OnceCell};

use crate::mutex::lock;

/// Log lines that wait at most. Beyond it the oldest goes, never a loss.
const LOG_BOUND: usize = 1024;

/// How grave a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// Something is wrong that the library can bear: look at it.
    Warn,
    /// Something worth knowing.
    Info,
}

impl Level {
    /// For bindings: the level as Python's logging names it.
    #[doc(hidden)]
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::Warn => "warning",
            Level::Info => "info",
        }
    }
}

type Sink = Arc<dyn Fn(Level, &str) + Send + Sync>;
static SINK: Lazy<Mutex<Option<Sink>>> = Lazy::new(Mutex::default);

/// Sends log lines to `sink` in place of the [`log`](https://docs.rs/log)
/// crate, to which they go by default. The sink runs on the dispatcher thread.
/// Lines carry no passwords and no tokens.
pub fn set_log_sink(sink: impl Fn(Level, &str) + Send + Sync + 'static) {
    *lock(&SINK) = Some(Arc::new(sink));
}

pub(crate) struct Dispatcher {
    queue: Arc<(Mutex<Queue>, Condvar)>,
    thread: OnceCell<Mutex<Option<JoinHandle<()>>>>,
}

#[derive(Default)]
struct Queue {
    calls: VecDeque<Box<dyn FnOnce() + Send>>,
    lines: VecDeque<(Level, String)>,
    dropped: u64,
    stopped: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.lines.is_empty()
    }
}

impl Dispatcher {
    pub(crate) fn new() -> Dispatcher {
        Dispatcher {
            queue: Arc::default(),
            thread: OnceCell::new(),
        }
    }

    /// Runs a callback on the thread, after those before it.
    pub(crate) fn call(&self, callback: Box<dyn FnOnce() + Send>) {
        lock(&self.queue.0).calls.push_back(callback);
        self.wake();
    }

    /// Logs a line on the thread, which is not started for what nobody reads.
    pub(crate) fn log(&self, level: Level, line: String) {
        let read = || lock(&SINK).is_some() || is_read();
        if level == Level::Info && !read() {
            return;
        }
        let mut queue = lock(&self.queue.0);
        if queue.lines.len() >= LOG_BOUND {
            queue.lines.pop_front();
            queue.dropped += 1;
        }
        queue.lines.push_back((level, line));
        drop(queue);
        self.wake();
    }

    fn wake(&self) {
        let started = self.thread.get_or_try_init(|| {
            let queue = self.queue.clone();
            std::thread::Builder::new()
                .name("quorlock-events".into())
                .spawn(move || run(&queue))
                .map(|thread| Mutex::new(Some(thread)))
        });
        // Without a thread the queue waits for the next try to start one.
        if started.is_ok() {
            self.queue.1.notify_one();
        }
    }

    /// Ends the thread once the queue is empty, and waits for that; but not on
    /// the thread itself.
    pub(crate) fn stop(&self) {
        lock(&self.queue.0).stopped = true;
        let Some(thread) = self.thread.get() else {
            return;
        };
        self.queue.1.notify_one();
        let thread = lock(thread).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

fn run((queue, filled): &(Mutex<Queue>, Condvar)) {
    loop {
        let (calls, lines, dropped) = {
            let mut queue = filled
                .wait_while(lock(queue), |q| q.is_empty() && !q.stopped)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            if queue.is_empty() {
                return;
            }
            let dropped = std::mem::take(&mut queue.dropped);
            (
                queue.calls.pop_front(),
                std::mem::take(&mut queue.lines),
                dropped,
            )
        };
        let sink = lock(&SINK).clone();
        if dropped > 0 {
            emit(
                &sink,
                Level::Warn,
                &format!("{dropped} log lines were dropped"),
            );
        }
        for (level, line) in lines {
            emit(&sink, level, &line);
        }
        if let Some(call) = calls
            && catch_unwind(AssertUnwindSafe(call)).is_err()
        {
            emit(&sink, Level::Warn, "a callback panicked");
        }
    }
}

fn emit(sink: &Option<Sink>, level: Level, line: &str) {
    // A sink that panics loses its line.
    let _ = catch_unwind(AssertUnwindSafe(|| match (sink, level) {
        (Some(sink), _) => sink(level, line),
        #[cfg(not(feature = "tracing"))]
        (None, Level::Warn) => log::warn!("{line}"),
        #[cfg(not(feature = "tracing"))]
        (None, Level::Info) => log::info!("{line}"),
        #[cfg(feature = "tracing")]
        (None, Level::Warn) => tracing::warn!(target: "quorlock", "{line}"),
        #[cfg(feature = "tracing")]
        (None, Level::Info) => tracing::info!(target: "quorlock", "{line}"),
    }));
}

/// Whether anybody may read what is worth knowing.
fn is_read() -> bool {
    #[cfg(not(feature = "tracing"))]
    let most = log::max_level() >= log::LevelFilter::Info;
    #[cfg(feature = "tracing")]
    let most = tracing::level_filters::LevelFilter::current() >= tracing::Level::INFO;
    most
}
