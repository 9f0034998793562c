//! What is said of a node at which the look came to its end before all was seen, by the obstacle.

use super::found;
use crate::node::admission::Rejection;
use crate::node::redis::connect::{Diagnosis, Obstacle};
use crate::node::{Cause, ServerState};
use crate::report::{Finding, Severity};

/// The states of a server in which it gives no vote to any lock, whatever it is asked; the finding, and what to do.
pub(super) const REFUSALS: [(ServerState, &str, &str); 10] = [
    (
        ServerState::OutOfMemory,
        "QD30",
        "give it more memory (CONFIG SET maxmemory): an empty server needs more than 1 MB, and \
         `quorlock explain sizes` says how many bytes a name takes, and for how long",
    ),
    (
        ServerState::CannotPersist,
        "QD31",
        "make room on its disk and look into its log; locks need no snapshots: CONFIG SET save \"\" \
         ends them",
    ),
    (
        ServerState::FewReplicas,
        "QD32",
        "bring its replicas back, or lower its min-replicas-to-write",
    ),
    (
        ServerState::RunsScript,
        "QD33",
        "SCRIPT KILL ends the script that another program has started there; give the locks a server \
         of their own",
    ),
    (
        ServerState::ManyClients,
        "QD34",
        "end a program that has many connections to it, by what the other nodes' CLIENT LIST and the \
         hosts tell (ss -tnp): until then no redis-cli is let in; then CONFIG SET maxclients",
    ),
    (
        ServerState::Protected,
        "QD35",
        "its protected mode takes clients of its own machine alone: give it a file of users whose \
         first line is `user default off`, and a user with a password (`quorlock explain deploy`)",
    ),
    (
        ServerState::Loading,
        "QD36",
        "wait: it is reading its data; a server that is for locks alone needs none",
    ),
    (
        ServerState::NoMaster,
        "QD36",
        "wait: it is a replica that has no link to its master, or look at that link",
    ),
    (
        ServerState::ReadOnly,
        "QD06",
        "list the master in its place",
    ),
    (
        ServerState::ClusterDown,
        "QD37",
        "look at CLUSTER INFO and at the primaries that have failed: a part of the hash slots is served \
         by none",
    ),
];

/// The finding of a fault, if its cause is one of those.
pub(super) fn refusal(cause: Cause) -> Option<(&'static str, &'static str)> {
    let found = REFUSALS
        .iter()
        .find(|(state, ..)| cause == Cause::State(*state))?;
    Some((found.1, found.2))
}

/// How much memory a server uses, and how much it may.
fn used(looked: &Diagnosis) -> Option<String> {
    let (used, most) = (looked.server.memory_used?, looked.server.memory_limit?);
    Some(format!(
        " (it uses {used} bytes, and its maxmemory is {most})"
    ))
}

/// A look that came to its end before all was seen.
pub(super) fn of_stop(stopped: &Obstacle, looked: &Diagnosis) -> Finding {
    if let Some(fault) = stopped.fault()
        && let Some((id, remedy)) = refusal(fault.cause)
    {
        let full = (id == "QD30").then(|| used(looked)).flatten();
        let what = format!("{}{}", fault.text, full.unwrap_or_default());
        return found(Severity::Error, id, what, remedy);
    }
    let (id, why, remedy) = match stopped {
        Obstacle::Unreached(fault) if fault.cause == Cause::LongReply => (
            "QD28",
            &*fault.text,
            "look what the node's address leads to, and what it answers there (INFO, CLUSTER SLOTS, \
             the key of its record)",
        ),
        Obstacle::Clock(fault) => ("QD29", &*fault.text, "set its clock, by NTP"),
        Obstacle::Unreached(fault) => (
            "QD01",
            &*fault.text,
            "start the server, have it go on if it is stopped (kill -CONT), or look at its address and \
             at the network between",
        ),
        Obstacle::Tls(fault) => (
            "QD16",
            &*fault.text,
            "look at the node's certificate and at `ca`, `cert` and `key`; redis:// is for a port \
             without TLS",
        ),
        Obstacle::Refused(fault) => (
            "QD02",
            &*fault.text,
            "give the user and the password that the server knows in the node's URL",
        ),
        Obstacle::Unnamed(fault) => (
            "QD24",
            &*fault.text,
            "write the URL as `quorlock explain sentinel` has it: the master by the name that the sentinels \
             know, and their own user and password if they want those",
        ),
        Obstacle::Lacks(fault) => (
            "QD03",
            &*fault.text,
            "give its user the permissions that `quorlock acl` prints",
        ),
        Obstacle::NoVote(fault) => (
            "QD38",
            &*fault.text,
            "look into the server's log; it answers, and refuses what every lock does",
        ),
        Obstacle::Several(fault) => (
            "QD25",
            &*fault.text,
            "list each server by a name or an address of its own",
        ),
        Obstacle::Rejected(unfit, why) => match unfit {
            Rejection::Unsupported(kind) => {
                let (id, remedy) = kind.finding();
                (id, &**why, remedy)
            }
            Rejection::Old => ("QD04", &**why, "install Redis 6.2 or later, or Valkey"),
            Rejection::Replica => ("QD06", &**why, "list the master in its place"),
            Rejection::Evicts => (
                "QD07",
                &**why,
                "CONFIG SET maxmemory-policy noeviction, or a server of its own",
            ),
        },
    };
    found(Severity::Error, id, why.to_owned(), remedy)
}
