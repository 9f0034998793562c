//! What `run` tells: lines for people on the standard error, and objects for programs.
//!
//! A log that nothing reads, or a terminal that stands still, holds up none but its own
//! writer.

mod metrics;
mod writer;

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::exit::{self, Failure};
use crate::given;
use crate::output::{cut, seen, size_of};
use metrics::Metrics;
use writer::Writer;

/// Where a command reports what it does.
pub struct Voice {
    quiet: bool,
    people: Arc<Writer>,
    json: Option<Writer>,
    metrics: Option<Metrics>,
    terminal: bool,
    /// Whether a line stands on the terminal that the next one replaces.
    unfinished: bool,
}

impl Voice {
    /// `json`: the file for objects, `-` for the standard output. `metrics`: the file for a
    /// collector, and the lock that it tells of.
    pub fn new(
        quiet: bool,
        json: Option<&Path>,
        metrics: Option<(&Path, &str)>,
    ) -> Result<Voice, Failure> {
        let cannot = |option: &str, path: &Path, e: &io::Error| {
            let file = given::file(path);
            let message = format!("{option}: the file cannot be written ({file}): {e}");
            Failure::new(exit::USAGE, message)
        };
        let json = match json {
            None => None,
            Some(path) if path == Path::new("-") => Some(Writer::new(io::stdout())),
            Some(path) => {
                let file = File::create(path).map_err(|e| cannot("--json", path, &e))?;
                Some(Writer::new(file))
            }
        };
        let begin = |(path, lock): (&Path, &str)| {
            given::check("NAME", lock)?;
            Metrics::begin(path, lock).map_err(|e| cannot("--metrics", path, &e))
        };
        let metrics = metrics.map(begin).transpose()?;
        Ok(Voice {
            quiet,
            people: Arc::new(Writer::new(io::stderr())),
            json,
            metrics,
            terminal: io::stderr().is_terminal(),
            unfinished: false,
        })
    }

    /// Whether people look at a terminal.
    pub fn is_live(&self) -> bool {
        self.terminal && !self.quiet
    }

    /// A line, unless nothing but errors is wanted.
    pub fn say(&mut self, text: &str) {
        if !self.quiet {
            self.line(text);
        }
    }

    /// A line about what went wrong.
    pub fn fail(&mut self, text: &str) {
        self.line(text);
    }

    /// A line that the next one replaces, where there is a terminal.
    pub fn update(&mut self, text: &str) {
        if self.is_live() {
            // A line that is wrapped would not be replaced as a whole.
            let columns = size_of(libc::STDERR_FILENO).map_or(usize::MAX, |(columns, _)| columns);
            let line = cut(&format!("quorlock: {text}"), columns.saturating_sub(1));
            self.people.write(format!("\r\x1b[K{line}"));
            self.unfinished = true;
        } else {
            self.say(text);
        }
    }

    /// An object for programs. What reads them may be gone: the command goes first.
    pub fn tell(&mut self, object: &Value) {
        if let Some(metrics) = &mut self.metrics {
            metrics.hear(object);
        }
        if let Some(json) = &self.json {
            json.write(format!("{}\n", seen(&object.to_string())));
        }
    }

    /// Writes lines of other threads between those that it says.
    pub fn echo(&self) -> impl Fn(&str) + Send + Sync + 'static {
        let people = self.people.clone();
        move |text| people.write(line(text))
    }

    /// Waits until what was reported is written, or nothing takes it.
    pub fn finish(&mut self) {
        let written = self.metrics.take().map(Metrics::finish);
        if let Some(Err(e)) = written {
            self.fail(&format!("--metrics: the file could not be written: {e}"));
        }
        for writer in [Some(&*self.people), self.json.as_ref()] {
            writer.into_iter().for_each(Writer::finish);
        }
    }

    /// Takes away the line that would be replaced.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.unfinished) {
            self.people.write("\r\x1b[K".into());
        }
    }

    fn line(&mut self, text: &str) {
        self.clear();
        self.people.write(line(text));
    }
}

/// What is written in one go, so that lines of several processes do not mix.
fn line(text: &str) -> String {
    format!("quorlock: {text}\n")
}
