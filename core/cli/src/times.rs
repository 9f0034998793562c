//! Times as they are written on a command line, and as they are shown.

use std::time::Duration;

use crate::given;

/// Reads `10s`, `250ms`, `2m`, `1h30m`, or a plain number of seconds.
pub fn parse(text: &str) -> Result<Duration, String> {
    quorlock::spelled_time(text).ok_or_else(|| {
        format!(
            "{} is no time: give such as 10s, 250ms, 2m, 1h30m, or seconds",
            given::shown("time", text)
        )
    })
}

/// The same, of a time that is to pass again and again: 10 ms at least.
pub fn parse_some(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        time if time >= Duration::from_millis(10) => Ok(time),
        _ => Err(format!(
            "{} is too short: give 10ms at least",
            given::shown("time", text)
        )),
    }
}

/// A time for a person: its two largest units.
pub fn shown(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, millis) in [
            ("10s", 10_000),
            ("250ms", 250),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("7", 7_000),
            ("0.5", 500),
            ("1m0.5s", 60_500),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "s",
            "-1",
            "1x",
            "1h30",
            "1 s",
            "1.2.3",
            "1e3",
            "99999999999999999999h",
            "ä",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_told() {
        for (millis, text) in [
            (20, "20 ms"),
            (1_500, "1.5 s"),
            (242_000, "4 min 2 s"),
            (3_660_000, "1 h 1 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(shown(Duration::from_millis(millis)), text);
        }
    }
}
