//! The log of the core, which has one sink for the process: every environment is sent every line.

use std::sync::{Arc, Mutex, Once, Weak};

use quorlock::binding::lock;
use quorlock::{Level, LogEvent};

use crate::log::LogLine;
use crate::queue::Queue;

/// Weak: an environment that ends takes its queue with it.
static LISTENING: Mutex<Vec<Weak<Queue>>> = Mutex::new(Vec::new());

/// From now on every line goes to this environment too.
pub(crate) fn listen(queue: &Arc<Queue>) {
    static SINK: Once = Once::new();
    SINK.call_once(|| quorlock::set_log_sink(sink));
    let mut listening = lock(&LISTENING);
    listening.retain(|queue| queue.strong_count() > 0);
    listening.push(Arc::downgrade(queue));
}

/// Called on the thread for log lines.
fn sink(level: Level, line: &LogEvent) {
    let queues: Vec<_> = lock(&LISTENING).iter().filter_map(Weak::upgrade).collect();
    let line = LogLine::from(line);
    for queue in queues {
        queue.log(level == Level::Warn, line.clone());
    }
}
