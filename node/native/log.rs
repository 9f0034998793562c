//! Log lines of the core, which has one sink for the process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Once, Weak};

use napi_derive::napi;
use quorlock::binding::lock;
use quorlock::{Level, LogEvent};

use crate::failure::spelled;
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

/// A line, for JavaScript.
#[napi(object, object_from_js = false)]
#[derive(Clone)]
pub struct LogLine {
    pub message: String,
    pub event: String,
    pub template: String,
    pub fields: BTreeMap<String, String>,
}

impl From<&LogEvent> for LogLine {
    fn from(line: &LogEvent) -> LogLine {
        let fields = line.fields().iter();
        LogLine {
            message: spelled(line.message()),
            event: line.name().into(),
            template: spelled(line.template()),
            // Named as in the template.
            fields: fields
                .map(|(name, value)| (spelled(name), value.clone()))
                .collect(),
        }
    }
}

/// Called on the thread for log lines.
fn sink(level: Level, line: &LogEvent) {
    let queues: Vec<_> = lock(&LISTENING).iter().filter_map(Weak::upgrade).collect();
    let line = LogLine::from(line);
    for queue in queues {
        queue.log(level == Level::Warn, line.clone());
    }
}
