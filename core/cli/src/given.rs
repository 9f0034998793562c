//! What is shown of words that were given: an argument or a variable in a wrong place may be a
//! password or a key.

use std::ffi::OsStr;
use std::path::Path;

use clap::error::ContextKind;
use clap::{Command, CommandFactory};
use quorlock::binding::check_shared;
pub use quorlock::binding::given as shown;

use crate::args::Args;
use crate::exit::{self, Failure};
use crate::flags::{FLAGS, NO_FLAGS};

/// The longest word that is shown as it is, as in the errors of the library.
const SHORT: usize = 5;

/// A file that cannot be read or written, without its path.
pub fn file(path: &Path) -> String {
    let characters = path.to_string_lossy().chars().count();
    let mut houses = path.ancestors().skip(1);
    let house = houses.find(|house| house.parent().is_some() && house.is_dir());
    let below = house.map(|house| format!(", below {}", house.display()));
    format!(
        "its path has {characters} characters{}",
        below.unwrap_or_default()
    )
}

/// The program of a command, unless it is none but a secret.
pub fn program(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    if word.contains('@') || check_shared("the program", word.as_bytes()).is_err() {
        shown("the program", &word)
    } else {
        word.into_owned()
    }
}

/// Refuses what everybody will see and what holds a secret.
pub fn check(what: &str, text: &str) -> Result<(), Failure> {
    check_shared(what, text.as_bytes()).map_err(|why| Failure::new(exit::USAGE, why))
}

/// An error of the library, which names options as its own, with the flags that these are here. An
/// option whose name is a word of English is one where the sentence is about it.
pub fn by_flags(error: &quorlock::Error) -> String {
    let told = error.to_string();
    let begins = told.find(error.detail()).unwrap_or_default();
    let (mut said, mut left_out) = (String::new(), false);
    for piece in told.split_inclusive(|c: char| !c.is_ascii_lowercase() && c != '_') {
        let at = piece.as_ptr() as usize - told.as_ptr() as usize;
        let word = piece.trim_end_matches(|c: char| !c.is_ascii_lowercase() && c != '_');
        left_out = word == "leave" || left_out && word != "out";
        let subject = at == begins && told[at + piece.len()..].starts_with("is ");
        let flag = FLAGS.iter().find(|(option, _)| *option == word);
        match flag.filter(|_| word.contains('_') || subject || left_out) {
            Some((_, flag)) => said.extend([flag, &piece[word.len()..]]),
            None => said.push_str(piece),
        }
    }
    said
}

/// What is wrong with the command line, without what was given there or in a variable; but for
/// what is nearly an option or a command.
pub fn without_words(error: &clap::Error, given: impl Iterator<Item = String>) -> String {
    let mut text = error.render().to_string();
    // What is an option elsewhere is no secret.
    let mut known: Vec<String> = NO_FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
    names(&Args::command(), &mut known);
    let similar = [
        (ContextKind::SuggestedArg, ContextKind::InvalidArg),
        (
            ContextKind::SuggestedSubcommand,
            ContextKind::InvalidSubcommand,
        ),
    ];
    for (suggested, invalid) in similar {
        if let (Some(meant), Some(word)) = (error.get(suggested), error.get(invalid)) {
            let (meant, word) = (meant.to_string(), word.to_string());
            // What clap takes for similar may be of any length.
            let of_words = |c: char| c.is_ascii_lowercase() || c == '-';
            if word.chars().all(of_words) && word.len() <= meant.len() + 2 {
                known.push(word);
            }
        }
    }
    let mut parts: Vec<String> = given.flat_map(|word| parts(&word)).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    let mut hidden = false;
    for part in parts {
        if part.chars().count() > SHORT && !known.contains(&part) && text.contains(&part) {
            text = text.replace(&part, "…");
            hidden = true;
        }
    }
    if hidden {
        text.push_str(
            "\nWhat was given is not shown, for it may be a secret. The URLs of nodes go into \
             QUORLOCK_NODES, or into a file for --nodes-file.\n",
        );
    }
    text
}

/// A word, and what of it may be the value of an option.
fn parts(word: &str) -> Vec<String> {
    let mut parts = vec![word.to_owned(), word.trim().to_owned()];
    parts.extend(word.lines().map(str::to_owned));
    parts.extend(word.split_whitespace().map(str::to_owned));
    if let Some((name, value)) = word.split_once('=') {
        parts.extend([name.to_owned(), value.to_owned()]);
    }
    // Of letters that stand together the last may have the rest as its value.
    if word.starts_with('-') && !word.starts_with("--") {
        parts.extend(
            word.char_indices()
                .skip(1)
                .map(|(at, _)| word[at..].to_owned()),
        );
    }
    parts
}

/// The words of the program itself.
fn names(command: &Command, found: &mut Vec<String>) {
    found.push(command.get_name().to_owned());
    for argument in command.get_arguments() {
        found.extend(argument.get_long().map(|long| format!("--{long}")));
    }
    for part in command.get_subcommands() {
        names(part, found);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;

    fn told(words: &[&str]) -> String {
        let words = || {
            ["quorlock"]
                .iter()
                .chain(words)
                .map(|word| (*word).to_owned())
        };
        let error = Args::try_parse_from(words()).expect_err("a wrong command line");
        without_words(&error, words().skip(1))
    }

    #[test]
    fn a_secret_in_an_argument_is_not_repeated() {
        let body = "MHcCAQEEIBMs0hUYjnWUE1BHSO/yBdufupjL3oAGGEvFb4lZWh9QoAoGCCqGSM49==";
        let framed = format!("-----BEGIN KEY-----\n{body}\n-----END KEY-----");
        for secret in [
            body,
            &framed,
            &body[..12],
            "redis://:MHcCAQ@h:1",
            "u:MHcCAQ@h",
        ] {
            for words in [
                vec!["list", "a", secret],
                vec!["list", "--", "a", secret],
                vec![secret],
                vec!["run", "a", secret, "--", "true"],
                vec!["run", "--ttl", secret, "a", "--", "true"],
                vec!["run", &format!("--ttl={secret}"), "a", "--", "true"],
                vec!["run", &format!("-w{secret}"), "a", "--", "true"],
                vec!["run", &format!("-qw{secret}"), "a", "--", "true"],
                vec!["list", "--kee", secret],
                vec!["list", &format!("--{secret}")],
                vec!["list", &format!("--{secret}=1")],
                vec!["list", "--restart-guard", secret],
                vec!["dev", secret],
                vec!["completions", secret],
                // Similar to `run`, for clap.
                vec!["redis://u:MHcCAQ@h"],
                vec!["redis:/u:MHcCAQ@h"],
            ] {
                let text = told(&words);
                assert!(
                    !text.contains("MHcCAQ") && !text.contains("CAQEEI"),
                    "{words:?}: {text}"
                );
            }
        }
        // Where a key belongs.
        let words = ["quorlock", "list", "--cert", "client.crt", "--key", &framed];
        assert!(Args::try_parse_from(words).is_ok());
    }

    #[test]
    fn what_is_nearly_an_option_is_repeated() {
        assert!(told(&["run", "--no-wiat", "a", "--", "true"]).contains("'--no-wiat'"));
        assert!(told(&["inspekt", "a"]).contains("'inspekt'"));
        assert!(told(&["run", "--ttl", "5x", "a", "--", "true"]).contains("'5x'"));
    }

    #[test]
    fn errors_about_options_name_the_flags() {
        let nodes = || quorlock::Client::builder().nodes(["memory://flags"]);
        for (builder, part) in [
            (
                nodes().ttl(Duration::ZERO),
                ": --ttl is 0: give 10ms to 60s, the --max-ttl of",
            ),
            (nodes().set_name(""), ": --set-name is ``: give 1"),
            (nodes().wait_replicas(1), "set --wait-replicas to 0"),
        ] {
            let error = builder.build().expect_err("a wrong option");
            assert!(by_flags(&error).contains(part), "{}", by_flags(&error));
        }
        let lock = nodes().build().expect("right options").lock("the ttl");
        let error = lock.shared(true).slots(2).check().expect_err("either");
        let said = "a slot of a semaphore is one holder's: leave --slots or --shared out";
        assert!(by_flags(&error).contains(said), "{}", by_flags(&error));
    }
}
