//! What the commands print: lines for people, or objects for programs.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use quorlock::foreign::is_visible;
use serde_json::Value;

/// Prints a line. The reader may have seen enough and gone: that is no failure.
pub fn line(text: &str) {
    print(text);
}

/// As [`line()`]; false once the reader has gone.
pub fn print(text: &str) -> bool {
    writeln!(io::stdout(), "{text}").is_ok()
}

/// Whether nothing reads the standard output any more, as far as the system tells: of a pipe and
/// of a socket.
pub fn is_closed() -> bool {
    let mut output = libc::pollfd {
        fd: libc::STDOUT_FILENO,
        events: 0,
        revents: 0,
    };
    let gone = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&mut output, 1, 0) == 1 && output.revents & gone != 0 }
}

/// Prints an object.
pub fn object(value: &Value) {
    line(&seen(&value.to_string()));
}

/// A time in seconds, as objects have it.
pub fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// Text that a node or another client has chosen, without what a terminal would obey.
pub fn plain(text: &str) -> String {
    let clean = |c: char| if is_visible(c) { c } else { '\u{fffd}' };
    text.chars().map(clean).collect()
}

/// An object's text, in which what a terminal would obey, and a letter that is not seen, is written
/// as its number. Programs read the same.
pub fn seen(object: &str) -> String {
    let mut text = String::with_capacity(object.len());
    for c in object.chars() {
        if is_visible(c) {
            text.push(c)
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}

/// How text stands out on a terminal.
#[derive(Clone, Copy, Debug)]
pub enum Ink {
    Good,
    Warning,
    Wrong,
    Strong,
    Faint,
}

/// The text in that ink, where the standard output is a terminal and the user has not asked for
/// none (`NO_COLOR`, <https://no-color.org>).
pub fn ink(ink: Ink, text: &str) -> String {
    let none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if none || !io::stdout().is_terminal() {
        return text.to_owned();
    }
    let code = match ink {
        Ink::Good => 32,
        Ink::Warning => 33,
        Ink::Wrong => 31,
        Ink::Strong => 1,
        Ink::Faint => 2,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// How many columns and rows the terminal has; `None` where the standard output is none.
pub fn size() -> Option<(usize, usize)> {
    size_of(libc::STDOUT_FILENO)
}

/// The same of the terminal behind any descriptor.
pub fn size_of(fd: i32) -> Option<(usize, usize)> {
    // SAFETY: all zeros is a valid size, which is written to.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (libc::ioctl(fd, libc::TIOCGWINSZ, &mut size) == 0).then_some(size)?
    };
    (size.ws_col > 0).then_some((size.ws_col.into(), size.ws_row.into()))
}

/// The text in this many columns at most: cut where it is longer, and marked so.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { kept } else { kept + "…" }
}

/// The same in just this many columns.
pub fn fit(text: &str, width: usize) -> String {
    let mut fitted = cut(text, width);
    fitted.extend(std::iter::repeat_n(' ', width - fitted.chars().count()));
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_fits() {
        for (text, width, fitted) in [
            ("ab", 4, "ab  "),
            ("abcd", 4, "abcd"),
            ("abcde", 4, "abc…"),
            ("ab", 1, "…"),
            ("ab", 0, ""),
        ] {
            assert_eq!(fit(text, width), fitted);
        }
    }

    #[test]
    fn a_label_does_not_rule_the_terminal() {
        assert_eq!(plain("web-2:\x1b[2Jä\n"), "web-2:\u{fffd}[2Jä\u{fffd}");
        assert_eq!(
            plain("a\u{202e}\u{2028}\u{9b}b"),
            "a\u{fffd}\u{fffd}\u{fffd}b"
        );
    }

    #[test]
    fn an_object_has_no_letter_that_is_not_seen() {
        let object = serde_json::json!({"a\u{9b}": "\u{202e}\u{2028}\n\u{e0041}ä"});
        let text = seen(&object.to_string());
        assert_eq!(text, r#"{"a\u009b":"\u202e\u2028\n\udb40\udc41ä"}"#);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), object);
    }
}
