//! `Display` for the enums whose values are words.

use std::fmt;

use crate::{Health, Layout, Level, LossReason, RestartGuard, Severity, Verdict};

macro_rules! written_as_word {
    ($($word:ty),*) => {$(
        impl fmt::Display for $word {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    )*};
}

written_as_word!(
    Health,
    Layout,
    Level,
    LossReason,
    RestartGuard,
    Severity,
    Verdict
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_written_as_they_are_named() {
        for reason in LossReason::ALL {
            assert_eq!(reason.to_string().parse::<LossReason>().unwrap(), *reason);
        }
        assert_eq!(RestartGuard::Auto.to_string(), "auto");
        assert_eq!(
            format!("[{:>7}]", Level::Warn),
            format!("[{:>7}]", Level::Warn.as_str())
        );
        assert_eq!(Verdict::Held.to_string(), "held");
        assert_eq!(Health::Works.to_string(), "works");
        assert_eq!(Severity::Note.to_string(), "note");
    }
}
