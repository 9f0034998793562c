//! The dispatcher: the threads that run user code.
//!
//! Callbacks run on [`callers`](super::callers), log lines on a thread of their own. So
//! neither holds up a renewal, and a log sink that blocks withholds no loss.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use once_cell::sync::OnceCell;

use crate::mutex::lock;
use crate::runtime::callers::{Callback, Callers};
use crate::runtime::threads;

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

type Sink = Box<dyn Fn(Level, &str) + Send + Sync>;

/// No lock, which a forked child could find taken by a thread that it does not have. A sink that
/// another one has replaced is never freed: a line may be on its way to it.
static SINK: AtomicPtr<Sink> = AtomicPtr::new(std::ptr::null_mut());

/// The sink that was set last, if any.
fn sink() -> Option<&'static Sink> {
    // SAFETY: null, or a box that was leaked.
    unsafe { SINK.load(Ordering::Acquire).as_ref() }
}

/// Sends log lines to `sink` in place of the [`log`](https://docs.rs/log)
/// crate, to which they go by default. The sink runs on a thread that is there for log
/// lines alone: one that blocks holds up other lines, and no loss. Beyond 1024 lines that
/// wait the oldest are dropped, and counted. Lines carry no passwords and no tokens. A sink is
/// there as long as the process, also when another has taken its place.
pub fn set_log_sink(sink: impl Fn(Level, &str) + Send + Sync + 'static) {
    let sink: Sink = Box::new(sink);
    SINK.store(Box::into_raw(Box::new(sink)), Ordering::Release);
}

/// See above.
#[derive(Default)]
pub(crate) struct Dispatcher {
    callers: Callers,
    lines: Arc<Lines>,
}

impl Dispatcher {
    /// Runs a callback, behind no other that blocks.
    pub(crate) fn call(&self, callback: Callback) {
        let lines = self.lines.clone();
        self.callers.call(Box::new(move || {
            if catch_unwind(AssertUnwindSafe(callback)).is_err() {
                lines.log(Level::Warn, "a callback panicked".into());
            }
        }));
    }

    /// Logs a line. A line that no sink reads starts no thread.
    pub(crate) fn log(&self, level: Level, line: String) {
        let read = || sink().is_some() || is_read();
        if level == Level::Warn || read() {
            self.lines.log(level, line);
        }
    }

    /// Ends the threads once nothing waits for them, and waits for that; but not for the
    /// thread that calls this.
    pub(crate) fn stop(&self) {
        self.callers.stop();
        self.lines.stop();
    }
}

/// Log lines, and the thread that hands them to the sink.
#[derive(Default)]
struct Lines {
    queue: Arc<(Mutex<Queue>, Condvar)>,
    thread: OnceCell<Mutex<Option<JoinHandle<()>>>>,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<(Level, String)>,
    dropped: u64,
    stopped: bool,
}

impl Lines {
    fn log(&self, level: Level, line: String) {
        let mut queue = lock(&self.queue.0);
        if queue.lines.len() >= LOG_BOUND {
            queue.lines.pop_front();
            queue.dropped += 1;
        }
        queue.lines.push_back((level, line));
        drop(queue);
        let started = self.thread.get_or_try_init(|| {
            let queue = self.queue.clone();
            threads::start("quorlock-log", move || run(&queue))
                .map(|thread| Mutex::new(Some(thread)))
        });
        // Without a thread the queue waits for the next try to start one.
        if started.is_ok() {
            self.queue.1.notify_one();
        }
    }

    fn stop(&self) {
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
        let (lines, dropped) = {
            let mut queue = filled
                .wait_while(lock(queue), |q| q.lines.is_empty() && !q.stopped)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            if queue.lines.is_empty() {
                return;
            }
            let dropped = std::mem::take(&mut queue.dropped);
            (std::mem::take(&mut queue.lines), dropped)
        };
        let sink = sink();
        if dropped > 0 {
            emit(
                sink,
                Level::Warn,
                &format!("{dropped} log lines were dropped"),
            );
        }
        for (level, line) in lines {
            emit(sink, level, &line);
        }
    }
}

fn emit(sink: Option<&Sink>, level: Level, line: &str) {
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
