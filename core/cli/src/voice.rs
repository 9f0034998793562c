//! What `run` tells: lines for people on the standard error, and objects for programs.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use serde_json::Value;

use crate::exit::{self, Failure};
use crate::output::{cut, size_of};

/// Where a command's story is told.
pub struct Voice {
    quiet: bool,
    json: Option<Box<dyn Write>>,
    terminal: bool,
    /// Whether a line stands on the terminal that the next one replaces.
    unfinished: bool,
}

impl Voice {
    /// `json`: the file for objects, `-` for the standard output.
    pub fn new(quiet: bool, json: Option<&Path>) -> Result<Voice, Failure> {
        let json: Option<Box<dyn Write>> = match json {
            None => None,
            Some(path) if path == Path::new("-") => Some(Box::new(io::stdout())),
            Some(path) => Some(Box::new(File::create(path).map_err(|e| {
                let message = format!("--json {}: {e}", path.display());
                Failure::new(exit::USAGE, message)
            })?)),
        };
        Ok(Voice {
            quiet,
            json,
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
            // One that is wrapped would not be replaced as a whole.
            let columns = size_of(libc::STDERR_FILENO).map_or(usize::MAX, |(columns, _)| columns);
            let line = cut(&format!("quorlock: {text}"), columns.saturating_sub(1));
            let _ = write!(io::stderr(), "\r\x1b[K{line}");
            self.unfinished = true;
        } else {
            self.say(text);
        }
    }

    /// An object for programs. Whoever reads them may be gone: the command goes first.
    pub fn tell(&mut self, object: &Value) {
        if let Some(json) = &mut self.json {
            let _ = writeln!(json, "{object}").and_then(|()| json.flush());
        }
    }

    /// Takes away the line that would be replaced.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.unfinished) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    fn line(&mut self, text: &str) {
        self.clear();
        // In one write, so that lines of several processes do not mix.
        let line = format!("quorlock: {text}\n");
        let _ = io::stderr().write_all(line.as_bytes());
    }
}
