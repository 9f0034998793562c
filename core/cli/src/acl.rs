//! `quorlock acl`: what a user of a node has to be permitted.

use quorlock::defaults;

use crate::args::Acl;
use crate::exit::{self, Failure};
use crate::given;
use crate::output::line;

pub fn acl(options: &Acl) -> Result<i32, Failure> {
    let namespace = options.namespace.as_deref().unwrap_or(defaults::NAMESPACE);
    // A command of one line, which an operator will paste.
    for (what, text) in [("user", &*options.user), ("namespace", namespace)] {
        if text.is_empty() || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            let shown = given::shown(what, text);
            let message = format!("the {what} is {shown}: it is empty or has blanks");
            return Err(Failure::new(exit::USAGE, message));
        }
        given::check(&format!("the {what}"), text)?;
    }
    let mut words = if options.operator {
        quorlock::operator_permissions(namespace)
    } else {
        quorlock::permissions(namespace)
    };
    if options.wait_replicas {
        words += " +wait";
    }
    let user = &options.user;
    if options.file {
        // In a file of users nothing is quoted. The user that a server has from the beginning may do everything,
        // and has no password.
        line(&format!(
            "user default off\nuser {user} on >PASSWORD {words}"
        ))
    } else {
        line(&format!(
            "ACL SETUSER {user} on '>PASSWORD' {}",
            quoted(&words)
        ))
    }
    Ok(0)
}

/// The words for a shell and for the prompt of redis-cli alike, which take each text between quotes for one word.
fn quoted(words: &str) -> String {
    let special =
        |word: &str| word.contains(|c: char| !c.is_ascii_alphanumeric() && !"+-@:".contains(c));
    let quote = |word: &str| {
        if special(word) {
            format!("'{}'", word.replace('\\', "\\\\").replace('\'', "\\'"))
        } else {
            word.to_owned()
        }
    };
    words.split(' ').map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_take_apart_is_quoted() {
        let words = "~lock:* resetchannels &lock:* -@all +get +client|info";
        let said = "'~lock:*' resetchannels '&lock:*' -@all +get '+client|info'";
        assert_eq!(quoted(words), said);
    }
}
