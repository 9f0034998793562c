//! What a client takes from its surroundings: the list of nodes where the user gave none, and the
//! label of the process.

use super::defaults;
use crate::node::address::Origin;

/// The label of this process, `host:pid`.
pub(crate) fn process_label() -> String {
    let host: String = host()
        .chars()
        .filter(|c| !c.is_control())
        .take(64)
        .collect();
    format!("{host}:{}", std::process::id())
}

#[cfg(unix)]
fn host() -> String {
    let mut buffer = [0u8; 256];
    // SAFETY: the buffer is writable for its length; gethostname writes at
    // most that many bytes.
    let failed = unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) } != 0;
    let end = buffer.iter().position(|b| *b == 0).unwrap_or(0);
    String::from_utf8_lossy(if failed { b"?" } else { &buffer[..end] }).into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "?".into())
}

/// The nodes of a client that was given none, and what has named them: those of the
/// environment, or the default node.
pub(crate) fn nodes_of_environment(environment: &str) -> (Vec<String>, Origin) {
    let listed: Vec<String> = environment
        .split([',', ' ', '\n', '\t'])
        .filter(|url| !url.is_empty())
        .map(str::to_owned)
        .collect();
    if listed.is_empty() {
        (
            vec![defaults::NODE.to_owned()],
            Origin::Default(defaults::NODES_VARIABLE),
        )
    } else {
        (listed, Origin::Environment(defaults::NODES_VARIABLE))
    }
}
