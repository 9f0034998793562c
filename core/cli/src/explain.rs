//! `quorlock explain`: what the documentation says of an id, an exit code, an error or an alert, and
//! its pages for operators, as they were when this program was built.

use crate::args::Explain;
use crate::exit::{self, Failure};
use crate::output::{line, plain};

/// Entries that begin with a line `== NAME`. tests/docs/reference.py makes it from the pages.
const ENTRIES: &str = include_str!("explain.txt");

pub fn explain(options: &Explain) -> Result<i32, Failure> {
    let Some(text) = entry(&options.what) else {
        let message = format!(
            "there is nothing on `{}`: give the id of a finding (QD30), an exit code (69), an error \
             (LockLost), an alert (QuorlockStuck), or one of the pages {}",
            plain(&options.what),
            pages().join(", ")
        );
        return Err(Failure::new(exit::USAGE, message));
    };
    line(text);
    Ok(0)
}

/// Each name and its text.
fn entries() -> impl Iterator<Item = (&'static str, &'static str)> {
    let entries = ENTRIES.split("\n== ").skip(1);
    entries.filter_map(|entry| {
        entry
            .split_once('\n')
            .map(|(name, text)| (name, text.trim()))
    })
}

fn entry(what: &str) -> Option<&'static str> {
    let what = what.trim();
    let by_name = entries().find(|(name, _)| name.eq_ignore_ascii_case(what));
    // An error has another name in each language, which its entry tells.
    let of_language = format!("`{what}`");
    let is_error =
        |(_, text): &(_, &str)| text.contains("· number ") && text.contains(&of_language);
    Some(by_name.or_else(|| entries().find(is_error))?.1)
}

/// The names of pages, which are in small letters.
fn pages() -> Vec<&'static str> {
    let is_page = |name: &&str| name.starts_with(|first: char| first.is_ascii_lowercase());
    entries().map(|(name, _)| name).filter(is_page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_entry_is_there_and_what_is_not_is_refused() {
        for (what, word) in [
            ("QD30", "OOM"),
            ("qd01", "kill -CONT"),
            ("69", "nodes"),
            ("LockLost", "lease"),
            ("LockContendedError", "not to wait"),
            ("ERR_QUORLOCK_TIMEOUT", "wait"),
            ("QuorlockStuck", "quorlock list"),
            ("sets", "Any other change"),
        ] {
            let text = entry(what).unwrap_or_default();
            assert!(text.contains(word), "{what}: {text}");
            assert!(!text.contains("<!--") && !text.contains("\n== "), "{what}");
        }
        assert_eq!(entry("QD00"), None);
        assert!(pages().contains(&"sizes"), "{:?}", pages());
    }

    #[test]
    fn what_messages_send_to_is_there() {
        for page in pages() {
            assert!(entry(page).is_some_and(|text| text.len() > 500), "{page}");
        }
    }
}
