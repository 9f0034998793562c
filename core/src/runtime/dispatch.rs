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

use crate::event::{LogEvent, event};
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

type LogSink = Box<dyn Fn(Level, &LogEvent) + Send + Sync>;

/// No lock, which a forked child could find taken by a thread that it does not have. A sink that
/// another one has replaced is never freed: a line may be on its way to it.
static SINK: AtomicPtr<LogSink> = AtomicPtr::new(std::ptr::null_mut());

/// The sink that was set last, if any.
fn sink() -> Option<&'static LogSink> {
    // SAFETY: null, or a box that was leaked.
    unsafe { SINK.load(Ordering::Acquire).as_ref() }
}

/// Sends log lines to `sink` in place of the [`log`](https://docs.rs/log) crate, to which they go
/// by default. The sink runs on a thread that is there for log lines alone: a sink that blocks
/// holds up other lines, and no loss. Beyond 1024 lines that wait the oldest are dropped, and
/// counted. Lines carry no passwords and no tokens. A sink is there as long as the process, also
/// when another has taken its place.
pub fn set_log_sink(sink: impl Fn(Level, &LogEvent) + Send + Sync + 'static) {
    let sink: LogSink = Box::new(sink);
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
                lines.log(
                    Level::Warn,
                    event!("callback_panicked", "a callback panicked"),
                );
            }
        }));
    }

    /// Logs a line. A line that no sink reads starts no thread.
    pub(crate) fn log(&self, level: Level, line: LogEvent) {
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
    lines: VecDeque<(Level, LogEvent)>,
    dropped: u64,
    stopped: bool,
}

impl Lines {
    fn log(&self, level: Level, line: LogEvent) {
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
            let told = event!(
                "lines_dropped",
                "{count} log lines were dropped",
                count = dropped
            );
            emit(sink, Level::Warn, &told);
        }
        for (level, line) in lines {
            emit(sink, level, &line);
        }
    }
}

fn emit(sink: Option<&LogSink>, level: Level, event: &LogEvent) {
    // A sink that panics loses its line.
    let _ = catch_unwind(AssertUnwindSafe(|| match sink {
        Some(sink) => sink(level, event),
        None => emit_to_crate(level, event),
    }));
}

/// The crate's own macro would name each field where it stands, and these are of many kinds.
#[cfg(not(feature = "tracing"))]
fn emit_to_crate(level: Level, event: &LogEvent) {
    let level = match level {
        Level::Warn => log::Level::Warn,
        Level::Info => log::Level::Info,
    };
    let name = [("event", event.name()), ("template", event.template())];
    let fields = event
        .fields()
        .iter()
        .map(|(name, value)| (*name, value.as_str()));
    let fields: Vec<(&str, &str)> = name.into_iter().chain(fields).collect();
    let fields = fields.as_slice();
    let logger = log::logger();
    let metadata = log::Metadata::builder()
        .level(level)
        .target("quorlock")
        .build();
    if level <= log::max_level() && logger.enabled(&metadata) {
        let mut record = log::Record::builder();
        record.metadata(metadata).key_values(&fields);
        logger.log(&record.args(format_args!("{event}")).build());
    }
}

/// A field that an event does not have is left out.
#[cfg(feature = "tracing")]
fn emit_to_crate(level: Level, event: &LogEvent) {
    macro_rules! emit {
        ($level:ident) => {
            tracing::$level!(
                target: "quorlock",
                event = event.name(),
                template = event.template(),
                lock = event.field("lock"),
                node = event.field("node"),
                reason = event.field("reason"),
                "{event}"
            )
        };
    }
    match level {
        Level::Warn => emit!(warn),
        Level::Info => emit!(info),
    }
}

/// Whether anybody may read what is worth knowing.
fn is_read() -> bool {
    #[cfg(not(feature = "tracing"))]
    let most = log::max_level() >= log::LevelFilter::Info;
    #[cfg(feature = "tracing")]
    let most = tracing::level_filters::LevelFilter::current() >= tracing::Level::INFO;
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> LogEvent {
        event!(
            "a_test",
            "`{lock}` is lost: {reason}",
            lock = "a",
            reason = "expired"
        )
    }

    /// What a reader of the `log` crate gets of a line: its level, and its parts by name.
    const TOLD: &str = "WARN quorlock `a` is lost: expired event=a_test \
                        template=`{lock}` is lost: {reason} lock=a reason=expired";

    #[cfg(not(feature = "tracing"))]
    #[test]
    fn lines_go_to_the_crate_log_with_their_fields() {
        use log::kv::{Key, Value, VisitSource};

        struct Keeps(Mutex<Vec<String>>);
        struct Fields<'a>(&'a mut String);
        impl<'kvs> VisitSource<'kvs> for Fields<'_> {
            fn visit_pair(
                &mut self,
                key: Key<'kvs>,
                value: Value<'kvs>,
            ) -> Result<(), log::kv::Error> {
                self.0.push_str(&format!(" {key}={value}"));
                Ok(())
            }
        }
        impl log::Log for Keeps {
            fn enabled(&self, _: &log::Metadata<'_>) -> bool {
                true
            }
            fn log(&self, record: &log::Record<'_>) {
                let mut line = format!("{} {} {}", record.level(), record.target(), record.args());
                record.key_values().visit(&mut Fields(&mut line)).unwrap();
                lock(&self.0).push(line);
            }
            fn flush(&self) {}
        }

        static KEEPS: Keeps = Keeps(Mutex::new(Vec::new()));
        log::set_logger(&KEEPS).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
        emit(None, Level::Info, &lost());
        emit(None, Level::Warn, &lost());
        // Other tests of this process may be heard, too.
        let told = lock(&KEEPS.0).clone();
        let told: Vec<_> = told.into_iter().filter(|l| l.contains("a_test")).collect();
        assert_eq!(told, [TOLD]);
    }

    #[cfg(feature = "tracing")]
    #[test]
    fn lines_go_to_the_crate_tracing_with_their_fields() {
        use std::fmt::Debug;
        use tracing::field::{Field, Visit};
        use tracing::span::{Attributes, Id, Record};
        use tracing::{Event, Metadata, Subscriber};

        struct Keeps(Arc<Mutex<Vec<String>>>);
        #[derive(Default)]
        struct Fields(String, String);
        impl Visit for Fields {
            fn record_str(&mut self, field: &Field, value: &str) {
                self.1.push_str(&format!(" {}={value}", field.name()));
            }
            fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
                self.0 = format!("{value:?}");
            }
        }
        impl Subscriber for Keeps {
            fn enabled(&self, _: &Metadata<'_>) -> bool {
                true
            }
            fn new_span(&self, _: &Attributes<'_>) -> Id {
                Id::from_u64(1)
            }
            fn record(&self, _: &Id, _: &Record<'_>) {}
            fn record_follows_from(&self, _: &Id, _: &Id) {}
            fn event(&self, event: &Event<'_>) {
                let mut fields = Fields::default();
                event.record(&mut fields);
                let (of, Fields(message, fields)) = (event.metadata(), fields);
                lock(&self.0).push(format!("{} {} {message}{fields}", of.level(), of.target()));
            }
            fn enter(&self, _: &Id) {}
            fn exit(&self, _: &Id) {}
        }

        let told = Arc::new(Mutex::new(Vec::new()));
        tracing::subscriber::with_default(Keeps(told.clone()), || {
            emit(None, Level::Warn, &lost());
        });
        assert_eq!(*lock(&told), [TOLD]);
    }
}
