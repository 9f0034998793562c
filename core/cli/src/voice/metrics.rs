//! What `run` has done, in the text format of Prometheus: a file that a collector reads when it
//! likes, such as the textfile collector of node_exporter.
//!
//! One file is of one job. Each run reads what those before it have left there, and replaces the
//! file as a whole: when it begins, so that a file that cannot be written is found before the lock
//! is won, and when it has ended.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::clock::{now, time_of_day};
use crate::exit;

/// How a run may end.
const OUTCOMES: [&str; 6] = [
    "ended",
    "failed",
    "held",
    "interrupted",
    "lost",
    "no_quorum",
];
const TOTAL: &str = "quorlock_run_total";

/// Name, type and meaning; all but the first are of the last run.
const FAMILIES: [(&str, &str, &str); 7] = [
    (TOTAL, "counter", "Runs that have ended, by how."),
    (
        "quorlock_run_start_timestamp_seconds",
        "gauge",
        "When the last run began.",
    ),
    (
        "quorlock_run_end_timestamp_seconds",
        "gauge",
        "When a run ended last; 0 for never.",
    ),
    (
        "quorlock_run_last_success_timestamp_seconds",
        "gauge",
        "When the command last ended with 0 under the lock; 0 for never.",
    ),
    (
        "quorlock_run_wait_seconds",
        "gauge",
        "How long the last run that ended waited for the lock.",
    ),
    (
        "quorlock_run_hold_seconds",
        "gauge",
        "How long the last run that ended held the lock.",
    ),
    (
        "quorlock_run_exit_code",
        "gauge",
        "What the last run that ended has ended with.",
    ),
];

/// What one run tells there.
pub struct Metrics {
    file: Textfile,
    begun: Duration,
    won: Option<Duration>,
    end: Option<End>,
}

/// How it ended, and when.
struct End {
    outcome: &'static str,
    exit: f64,
    success: bool,
    wait: f64,
    hold: f64,
    at: f64,
}

impl Metrics {
    /// Writes that a run has begun.
    pub fn begin(path: &Path, lock: &str) -> io::Result<Metrics> {
        let file = Textfile::new(path, lock);
        let at = time_of_day().0;
        file.change(|values| values.set("quorlock_run_start_timestamp_seconds", at))?;
        Ok(Metrics {
            file,
            begun: now(),
            won: None,
            end: None,
        })
    }

    /// Takes what is reported to programs into account.
    pub fn hear(&mut self, object: &Value) {
        let event = object["event"].as_str().unwrap_or_default();
        if event == "acquired" {
            self.won = Some(now());
        }
        let outcome = match event {
            "failed" if object["exit"] == exit::NO_QUORUM => "no_quorum",
            event => event,
        };
        let Some(outcome) = OUTCOMES.iter().find(|known| **known == outcome) else {
            return;
        };
        let won = self.won.unwrap_or_else(now);
        self.end = Some(End {
            outcome,
            exit: object["exit"].as_f64().unwrap_or_default(),
            success: *outcome == "ended" && object["child"] == 0,
            wait: won.saturating_sub(self.begun).as_secs_f64(),
            hold: now().saturating_sub(won).as_secs_f64(),
            at: time_of_day().0,
        });
    }

    /// Writes how it ended. Behind the lock, which no disk holds up.
    pub fn finish(self) -> io::Result<()> {
        let Some(end) = self.end else {
            return Ok(());
        };
        self.file.change(|values| {
            values.count(end.outcome);
            values.set("quorlock_run_wait_seconds", end.wait);
            values.set("quorlock_run_hold_seconds", end.hold);
            values.set("quorlock_run_exit_code", end.exit);
            values.set("quorlock_run_end_timestamp_seconds", end.at);
            if end.success {
                values.set("quorlock_run_last_success_timestamp_seconds", end.at);
            }
        })
    }
}

/// The values of one file, by what stands before them in their lines.
struct Values {
    /// The name of the lock, as a label has it.
    lock: String,
    values: BTreeMap<String, f64>,
}

impl Values {
    /// Those of a text; zeros where it has none.
    fn of(lock: &str, text: &str) -> Values {
        let mut escaped = String::new();
        for c in lock.chars() {
            match c {
                '\\' => escaped += "\\\\",
                '"' => escaped += "\\\"",
                '\n' => escaped += "\\n",
                c => escaped.push(c),
            }
        }
        let mut values = Values {
            lock: escaped,
            values: BTreeMap::new(),
        };
        let series: Vec<_> = FAMILIES
            .iter()
            .flat_map(|family| values.series(family.0))
            .collect();
        for series in series {
            let before = text.lines().find_map(|line| line.strip_prefix(&*series));
            let before = before.and_then(|rest| rest.trim().parse().ok());
            let finite = before.filter(|value: &f64| value.is_finite());
            values.values.insert(series, finite.unwrap_or(0.0));
        }
        values
    }

    /// The series of a family, in the order in which they are written.
    fn series(&self, name: &str) -> Vec<String> {
        if name == TOTAL {
            OUTCOMES.iter().map(|outcome| self.total(outcome)).collect()
        } else {
            vec![self.of_last(name)]
        }
    }

    fn total(&self, outcome: &str) -> String {
        format!("{TOTAL}{{lock=\"{}\",outcome=\"{outcome}\"}}", self.lock)
    }

    fn of_last(&self, name: &str) -> String {
        format!("{name}{{lock=\"{}\"}}", self.lock)
    }

    fn set(&mut self, name: &str, value: f64) {
        self.values.insert(self.of_last(name), value);
    }

    fn count(&mut self, outcome: &str) {
        *self.values.entry(self.total(outcome)).or_default() += 1.0;
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, kind, meaning) in FAMILIES {
            let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} {kind}");
            for series in self.series(name) {
                let value = self.values.get(&series).copied().unwrap_or_default();
                let _ = writeln!(text, "{series} {value}");
            }
        }
        text
    }
}

/// Where the text stands.
struct Textfile {
    path: PathBuf,
    /// In the same folder; no collector reads it.
    beside: PathBuf,
    lock: String,
}

impl Textfile {
    fn new(path: &Path, lock: &str) -> Textfile {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.tmp", std::process::id()));
        Textfile {
            path: path.to_owned(),
            beside: path.with_file_name(name),
            lock: lock.to_owned(),
        }
    }

    /// What stands there. A device or a pipe is no such file: it may have no end, and would be replaced.
    fn read(&self) -> io::Result<Vec<u8>> {
        match fs::metadata(&self.path) {
            Ok(found) if !found.is_file() => Err(io::Error::other("it is no plain file")),
            Ok(_) => fs::read(&self.path),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    /// Puts another text in the place of the present text.
    fn change(&self, change: impl FnOnce(&mut Values)) -> io::Result<()> {
        let before = self.read()?;
        let mut values = Values::of(&self.lock, &String::from_utf8_lossy(&before));
        change(&mut values);
        let written = fs::write(&self.beside, values.text());
        let written = written.and_then(|()| fs::rename(&self.beside, &self.path));
        if written.is_err() {
            // It may not be there.
            let _ = fs::remove_file(&self.beside);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_before_is_kept() {
        let mut values = Values::of("a\"b\\c\nd", "");
        values.count("held");
        values.set("quorlock_run_last_success_timestamp_seconds", 1764413493.5);
        let text = values.text();
        let mut again = Values::of("a\"b\\c\nd", &text);
        assert_eq!(again.text(), text);
        again.count("held");
        let line = "quorlock_run_total{lock=\"a\\\"b\\\\c\\nd\",outcome=\"held\"} 2\n";
        assert!(again.text().contains(line), "{}", again.text());
        assert!(
            again
                .text()
                .contains("_success_timestamp_seconds{lock=\"a\\\"b\\\\c\\nd\"} 1764413493.5")
        );
        // Of another lock nothing is taken over, nor what is no number.
        assert!(!Values::of("b", &text).text().contains("1764413493.5"));
        assert!(
            Values::of("b", "quorlock_run_exit_code{lock=\"b\"} NaN")
                .text()
                .contains("_exit_code{lock=\"b\"} 0\n")
        );
    }
}
