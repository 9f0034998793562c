//! `quorlock acl`: what a user of a node has to be permitted.

use quorlock::defaults;

use crate::args::Acl;
use crate::exit::{self, Failure};
use crate::output::line;

pub fn acl(options: &Acl) -> Result<i32, Failure> {
    let namespace = options.namespace.as_deref().unwrap_or(defaults::NAMESPACE);
    // A command of one line, which somebody will paste.
    for (what, text) in [("user", &*options.user), ("namespace", namespace)] {
        if text.is_empty() || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            let message = format!(
                "the {what} `{}` is empty or has blanks",
                text.escape_debug()
            );
            return Err(Failure::new(exit::USAGE, message));
        }
    }
    let mut words = quorlock::permissions(namespace);
    if options.operator {
        words += " +scan";
    }
    if options.wait_replicas {
        words += " +wait";
    }
    line(&format!(
        "ACL SETUSER {} on >PASSWORD {words}",
        options.user
    ));
    Ok(0)
}
