//! What a user of a node has to be permitted: one line, which docs/reference/protocol.md shows too.

/// Commands that every client needs.
const COMMANDS: &str = "+select +info +client|info +client|setname +script|load +eval +evalsha +time +get +mget \
                        +set +del +pttl +pexpire +zadd +zincrby +zrem +zcard +zrank +zscore \
                        +zrange +publish +subscribe +pubsub|numsub";

/// What operators need beside that. They see the names of all keys, and all clients.
const OPERATOR: &str = "+scan +pubsub|channels +client|list";

/// The words of `ACL SETUSER` that give a user what locks need on a node, in the namespace of
/// these keys (`lock:` by default), and no more.
///
/// Not among them, for locks need it not: what [operators](operator_permissions) need;
/// `+wait`, for [`wait_replicas`](crate::ClientBuilder::wait_replicas).
pub fn permissions(namespace: &str) -> String {
    let mut like = String::new();
    for c in namespace.chars() {
        // What a pattern would take for something else.
        if "*?[]\\".contains(c) {
            like.push('\\');
        }
        like.push(c);
    }
    format!("~{like}* resetchannels &{like}* -@all {COMMANDS}")
}

/// What an operator of the nodes has to be permitted beside that: `+scan`, for
/// [`Client::list`](crate::Client::list) and for namespaces that begin each other; and what a
/// [probe](crate::Client::probe) finds clients by that have another list of nodes, or flood a
/// server.
pub fn operator_permissions(namespace: &str) -> String {
    format!("{} {OPERATOR}", permissions(namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_no_pattern() {
        assert!(permissions("a*:").starts_with("~a\\*:* resetchannels &a\\*:* -@all +select "));
    }
}
