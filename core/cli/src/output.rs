//! What the commands print: lines for people, or objects for programs.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::Value;

/// Prints a line. Whoever reads may have seen enough: that is no failure.
pub fn line(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// Prints an object.
pub fn object(value: &Value) {
    line(&value.to_string());
}

/// A time in seconds, as objects have it.
pub fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// Text that a node or another client has chosen, without what a terminal would obey.
pub fn plain(text: &str) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_does_not_rule_the_terminal() {
        assert_eq!(plain("web-2:\x1b[2Jä\n"), "web-2:\u{fffd}[2Jä\u{fffd}");
    }
}
