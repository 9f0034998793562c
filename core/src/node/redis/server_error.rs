//! What a server answers in place of a reply: its errors, sorted by what can be done about them,
//! and in words for the person that has to do it.

use crate::foreign;
use crate::node::admission::UnsupportedServer;
use crate::node::{Cause, Fault, FaultKind, ServerState};

/// Whether an error says that a command is not there for us.
pub(crate) fn forbidden(error: &redis::ServerError) -> bool {
    error.code() == "NOPERM" || unknown(error)
}

/// Whether the server does not know a command.
pub(crate) fn unknown(error: &redis::ServerError) -> bool {
    let unknown = |text: &str| text.contains("unknown command");
    error.details().is_some_and(unknown)
}

/// Whether an error says that the server has become a replica, or is taking over another's
/// data to be one: every write over this connection will fail, though its address may lead to
/// the new master by now, or sentinels name another.
pub(crate) fn demoted(error: &redis::ServerError) -> bool {
    let (code, _) = beyond_place(error.code(), error.details().unwrap_or_default());
    let demoted = matches!(code, "READONLY" | "MASTERDOWN" | "LOADING");
    demoted
}

/// What a user may not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    Command,
    Key,
    Channel,
}

/// What an error says that the user may not do.
pub(crate) fn denied(error: &redis::ServerError) -> Option<Denial> {
    if error.code() != "NOPERM" {
        return None;
    }
    let detail = error.details().unwrap_or_default();
    let access = detail.contains("access");
    Some(match () {
        () if access && detail.contains("channel") => Denial::Channel,
        () if access && detail.contains("key") => Denial::Key,
        () => Denial::Command,
    })
}

/// Whether the server is in no cluster.
pub(crate) fn clusterless(error: &redis::ServerError) -> bool {
    let detail = error.details().unwrap_or_default();
    detail.contains("cluster support disabled") || unknown(error)
}

/// What a server of a cluster answers to a request that it does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// Another server serves that hash slot, from now on.
    Moved { slot: u16, host: String, port: u16 },
    /// Another server has that key: the hash slot is being moved there.
    Ask { host: String, port: u16 },
    /// The hash slot is being moved, and its keys are not all in one place.
    TryAgain,
    /// No server serves the hash slot, or the cluster has no majority.
    Down,
}

/// Where an error sends a request.
pub(crate) fn redirect(error: &redis::ServerError) -> Option<Redirect> {
    let mut words = error.details().unwrap_or_default().split(' ');
    let mut place = || {
        let slot = words.next()?.parse().ok()?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        Some((slot, foreign::host(host)?, port.parse().ok()?))
    };
    match error.code() {
        "MOVED" => place().map(|(slot, host, port)| Redirect::Moved { slot, host, port }),
        "ASK" => place().map(|(_, host, port)| Redirect::Ask { host, port }),
        "TRYAGAIN" => Some(Redirect::TryAgain),
        "CLUSTERDOWN" => Some(Redirect::Down),
        _ => None,
    }
}

/// What to tell of a command that is not permitted.
pub(crate) fn lacks(command: &str) -> String {
    format!("its user lacks the permission to run `{command}`: add `+{command}` to its ACL")
}

/// An error's code and text, without where in a script it came up. Redis before
/// 7.0 has a code behind that place, and then with a dash.
fn beyond_place<'a>(code: &'a str, detail: &'a str) -> (&'a str, &'a str) {
    if let Some((said, place)) = detail.rsplit_once(" script: ")
        && place.contains("on @user_script:")
    {
        return (code, said);
    }
    let place = detail.strip_prefix("Error running script ");
    let place = place.and_then(|place| place.rsplit_once("@user_script:"));
    let Some((_, said)) = place.and_then(|(_, line)| line.split_once(": ")) else {
        return (code, detail);
    };
    let said = said.strip_prefix('-').unwrap_or(said);
    match said.split_once(' ') {
        Some((inner, said)) if inner.bytes().all(|b| b.is_ascii_uppercase()) => (inner, said),
        _ => (code, said),
    }
}

/// An error's text without what it repeats of a request: the arguments of `AUTH` are a secret.
fn without_arguments(detail: &str) -> &str {
    let repeated = detail.find(", with args beginning with");
    repeated.map_or(detail, |at| &detail[..at])
}

/// Whether an error comes of what stands under the keys of one lock, or of whose they are: of
/// another type, not what a script expects, or out of what the user may touch. Every other is the
/// server's; [`redirect`] says which are a hash slot's. `errors.txt` has each kind, and
/// docs/reference/protocol.md, "Home", what follows.
fn is_of_lock(code: &str, detail: &str, kind: FaultKind, scripted: bool) -> bool {
    let keys = detail.contains("access") && detail.contains(" key") && !detail.contains("channel");
    // The commands in a script are right on every server, so the error is due to a value; but not
    // where the script or the command did not run at all.
    let unrun = ["Error compiling", "command called from script", "channel"];
    let met = scripted && !unrun.iter().any(|words| detail.contains(words));
    match code {
        "WRONGTYPE" => true,
        "NOPERM" => keys,
        "ERR" => keys || met && kind == FaultKind::NotReady,
        _ => false,
    }
}

/// A server's error to a request for a lock, sorted by what can be done about it.
pub(crate) fn fault_of(code: &str, detail: Option<&str>) -> Fault {
    let detail = detail.unwrap_or_default();
    let scripted = detail.contains("user_script:");
    let (code, detail) = beyond_place(code, detail);
    let cause = cause_of(code, detail);
    if let Some(kind) = UnsupportedServer::in_error(code, detail) {
        return Fault::new(FaultKind::Misconfigured, kind.sentence(), true).because(cause);
    }
    let kind = match code {
        "NOAUTH" | "WRONGPASS" | "NOPERM" | "NOPROTO" | "DENIED" | "WRONGTYPE" => {
            FaultKind::Misconfigured
        }
        // Other codes name a state of the server: LOADING, OOM, READONLY, BUSY, MISCONF,
        // MASTERDOWN, NOREPLICAS, …
        _ => FaultKind::NotReady,
    };
    let kind = match (code, detail) {
        // Errors of the connection's set-up have no code of their own.
        ("ERR", text)
            if text.contains("AUTH")
                || text.contains("DB index")
                || text.contains("unknown command")
                // A command that is forbidden within a script has no code either; on Redis 8 and
                // Valkey the error begins alike.
                || text.starts_with("ACL failure in script")
                || text.contains("can't run this command")
                || text.contains("can't access at least one of the keys") =>
        {
            FaultKind::Misconfigured
        }
        _ => kind,
    };
    if code == "NOPERM" && detail.contains("'evalsha'") {
        return Fault::new(kind, lacks("evalsha"), true).because(cause);
    }
    let of_lock = is_of_lock(code, detail, kind, scripted);
    let mut text = foreign::excerpt(format!("{code} {}", without_arguments(detail)).trim_end());
    if code == "WRONGTYPE" {
        text =
            "its key holds a value of another type than this lock has: a lock of another layout \
                (Redisson keeps a hash: see the option layout), or data; choose another name or \
                namespace"
                .into();
    }
    Fault::new(kind, text, true).because(cause).of_lock(of_lock)
}

/// What an error says of the server, without where in a script it came up.
fn cause_of(code: &str, detail: &str) -> Cause {
    match (code, detail) {
        ("OOM", _) => Cause::State(ServerState::OutOfMemory),
        ("MISCONF", _) => Cause::State(ServerState::CannotPersist),
        ("NOREPLICAS", _) => Cause::State(ServerState::FewReplicas),
        ("BUSY", _) => Cause::State(ServerState::RunsScript),
        ("ERR", detail) if detail.starts_with("max number of clients") => {
            Cause::State(ServerState::ManyClients)
        }
        ("DENIED", _) => Cause::State(ServerState::Protected),
        ("LOADING", _) => Cause::State(ServerState::Loading),
        ("MASTERDOWN", _) => Cause::State(ServerState::NoMaster),
        ("READONLY", _) => Cause::State(ServerState::ReadOnly),
        ("CLUSTERDOWN", _) => Cause::State(ServerState::ClusterDown),
        ("NOAUTH", _) => Cause::NoPassword,
        _ => UnsupportedServer::in_error(code, detail).map_or(Cause::Other, Cause::Unsupported),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::{Value as Resp, parse_redis_value};

    fn error(wire: &str) -> redis::ServerError {
        match parse_redis_value(format!("{wire}\r\n").as_bytes()) {
            Ok(Resp::ServerError(error)) => error,
            _ => panic!("{wire}"),
        }
    }

    #[test]
    fn what_a_user_can_mend_says_how() {
        for (wire, word) in [
            ("-MOVED 866 10.0.0.2:6379", "cluster-enabled no"),
            ("-CROSSSLOT Keys in request", "cluster-enabled no"),
            (
                "-ERR SELECT is not allowed in cluster mode",
                "cluster-enabled no",
            ),
            ("-WRONGTYPE Operation against a key", "Redisson"),
            ("-ERR unknown command 'EVAL', with args", "--lua"),
            ("-unsupported command 'info'", "Envoy"),
        ] {
            let error = error(wire);
            let text = fault_of(error.code(), error.details()).text;
            assert!(
                text.contains(word) && !text.contains("delete"),
                "{wire}: {text}"
            );
        }
        for (wire, told) in [
            (
                "-READONLY You can't write against a read only replica.",
                true,
            ),
            (
                "-READONLY You can't write against a read only replica. script: 5a, on @user_script:9.",
                true,
            ),
            (
                "-ERR Error running script (call to f_5a): @user_script:9: @user_script: 9: -READONLY x",
                true,
            ),
            (
                "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
                true,
            ),
            ("-LOADING Redis is loading the dataset in memory", true),
            ("-OOM x", false),
        ] {
            assert_eq!(demoted(&error(wire)), told, "{wire}");
        }
    }

    #[test]
    fn what_a_server_repeats_of_a_request_is_not_shown() {
        let error = error(
            "-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `u`, `s3cret`, ",
        );
        let text = fault_of(error.code(), error.details()).text;
        assert_eq!(&*text, "ERR unknown command `HELLO`");
    }

    #[test]
    fn a_redirect_says_where_to() {
        let moved = |slot, host: &str, port| Redirect::Moved {
            slot,
            host: host.into(),
            port,
        };
        for (wire, said) in [
            (
                "-MOVED 866 10.0.0.2:6379",
                Some(moved(866, "10.0.0.2", 6379)),
            ),
            ("-MOVED 866 ::1:6379", Some(moved(866, "::1", 6379))),
            ("-MOVED 866 :6379", Some(moved(866, "", 6379))),
            ("-MOVED 866", None),
            ("-MOVED x h:1", None),
            (
                "-ASK 1 h:1",
                Some(Redirect::Ask {
                    host: "h".into(),
                    port: 1,
                }),
            ),
            ("-TRYAGAIN Multiple keys", Some(Redirect::TryAgain)),
            ("-CLUSTERDOWN The cluster is down", Some(Redirect::Down)),
            ("-CROSSSLOT Keys", None),
        ] {
            assert_eq!(redirect(&error(wire)), said, "{wire}");
        }
    }

    #[test]
    fn each_error_is_the_locks_the_hash_slots_or_the_nodes() {
        let lines = include_str!("errors.txt").lines();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let (whose, wire) = line.split_once(' ').expect("whose, and the error");
            let error = error(wire);
            let fault = fault_of(error.code(), error.details());
            let found = match (redirect(&error), fault.of_lock) {
                (Some(_), false) => "slot",
                (None, true) => "lock",
                (None, false) => "node",
                (Some(_), true) => "two",
            };
            assert_eq!(found, whose, "{wire}");
        }
    }

    #[test]
    fn server_errors_are_sorted() {
        for (wire, kind) in [
            ("-OOM command not allowed", FaultKind::NotReady),
            ("-READONLY no", FaultKind::NotReady),
            ("-LOADING soon", FaultKind::NotReady),
            ("-NOPERM no", FaultKind::Misconfigured),
            ("-NOAUTH no", FaultKind::Misconfigured),
            ("-ERR DB index is out of range", FaultKind::Misconfigured),
            ("-WRONGTYPE x", FaultKind::Misconfigured),
            ("-MOVED 866 10.0.0.2:6379", FaultKind::Misconfigured),
            (
                "-CROSSSLOT Keys in request don't hash to the same slot",
                FaultKind::Misconfigured,
            ),
            (
                "-CLUSTERDOWN Hash slot not served",
                FaultKind::Misconfigured,
            ),
            (
                "-ERR SELECT is not allowed in cluster mode",
                FaultKind::Misconfigured,
            ),
            // Each server names the script in its own way: Redis 6.2, 7.0, 8.2 and Valkey 9.1.
            (
                "-ERR Error running script (call to f_5a): @user_script:9: WRONGTYPE x",
                FaultKind::Misconfigured,
            ),
            (
                "-ERR Error running script (call to f_5a): @user_script:9: @user_script: 9: -OOM x",
                FaultKind::NotReady,
            ),
            (
                "-ERR Error running script (call to f_5a): @user_script:9: @user_script: 9: \
                 The user executing the script can't run this command or subcommand",
                FaultKind::Misconfigured,
            ),
            (
                "-ERR The user executing the script can't run this command script: 5a, on @user_script:9.",
                FaultKind::Misconfigured,
            ),
            (
                "-ERR ACL failure in script: User u has no permissions to run the 'set' command \
                 script: 5a, on @user_script:9.",
                FaultKind::Misconfigured,
            ),
        ] {
            let error = error(wire);
            let fault = fault_of(error.code(), error.details());
            assert_eq!(fault.kind, kind, "{wire}");
            assert!(!fault.text.contains("user_script"), "{}", fault.text);
        }
    }
}
