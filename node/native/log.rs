//! Log lines of the core, as JavaScript takes them.

use std::collections::BTreeMap;

use napi_derive::napi;
use quorlock::LogEvent;

use crate::failure::spelled;

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
