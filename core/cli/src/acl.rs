//! `quorlock acl`: what a user of a node has to be permitted.

use quorlock::defaults;

use crate::args::Acl;
use crate::exit::{self, Failure};
use crate::given;
use crate::output::line;

pub fn acl(options: &Acl) -> Result<i32, Failure> {
    let namespace = options.namespace.as_deref().unwrap_or(defaults::NAMESPACE);
    // A command of one line, which somebody will paste.
    for (what, text) in [("user", &*options.user), ("namespace", namespace)] {
        if text.is_empty() || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            let shown = given::shown(what, text);
            let message = format!("the {what} is {shown}: it is empty or has blanks");
            return Err(Failure::new(exit::USAGE, message));
        }
        given::check(&format!("the {what}"), text)?;
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
