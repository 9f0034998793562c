//! The first questions to a server, and its answers to them as one [`Hello`]. A connection and a
//! look at a node ask the same.
//!
//! All questions leave in one write, before it is known what the server is: a round trip for each
//! would be dear on a far node, and a server that is no node refuses some of them in words that say
//! what it is. None of them changes anything there.

use redis::Value as Resp;

use super::talk::{CLOSED, good, login};
use super::target::{ConnectHints, Target};
use crate::hash::fnv1a;
use crate::node::admission::{Info, UnsupportedServer};
use crate::node::redis::replies::text;
use crate::node::redis::server_error;
use crate::node::{Cause, Fault};

/// The sections of `INFO` in which a server says what it is; the first identifies it. The whole
/// `INFO` may be of any length, for some sections grow with what clients do there, such as the
/// first words of errors (`errorstats`). Redis before 7.0 takes one section at a time.
const SECTIONS: [&str; 5] = ["server", "memory", "stats", "cluster", "replication"];

/// Which questions a server is asked.
pub(super) struct Questions<'a> {
    target: &'a Target,
    /// What it has carried out, which matters where it has no record: of a server that was not
    /// met yet.
    counts: bool,
    /// Whether the server is asked to send pushes.
    subscribe: bool,
}

impl<'a> Questions<'a> {
    pub(super) fn of(target: &'a Target, how: &ConnectHints) -> Questions<'a> {
        Questions {
            target,
            counts: target.routes.is_none() && !how.reached,
            subscribe: how.subscribe,
        }
    }

    /// Whether the server has the record of its node; of a cluster one shard has it.
    fn record(&self) -> bool {
        self.target.routes.is_none()
    }

    /// The commands, in the order in which [`Hello::read`] takes their answers.
    pub(super) fn commands(&self) -> Vec<redis::Cmd> {
        let Target { address, gate, .. } = self.target;
        let mut commands = login(address);
        if address.db != 0 {
            commands.push(redis::cmd("SELECT").arg(address.db).take());
        }
        commands.extend(SECTIONS.map(|section| redis::cmd("INFO").arg(section).take()));
        if self.record() {
            commands.push(redis::cmd("GET").arg(&*gate.record_key).take());
        }
        if self.counts {
            commands.push(count());
        }
        commands.push(redis::cmd("TIME"));
        commands.push(redis::cmd("CLIENT").arg("INFO").take());
        if self.subscribe {
            // `HELLO` comes last, for servers that do not know it, and so that the replies before
            // it look the same with it and without.
            commands.push(redis::cmd("HELLO").arg(3).take());
        }
        commands
    }
}

/// What a server has answered to the first questions: replies as they came, for each user of them
/// says by itself which command is not permitted, and what the others mean.
pub(super) struct Hello {
    /// The answer to the user and the password, where there are some.
    pub(super) login: Option<Resp>,
    /// The answer to the choice of a database, where it is not the first.
    pub(super) select: Option<Resp>,
    /// All [`SECTIONS`] of `INFO` in one, or the error in their place.
    info: Resp,
    /// The node's record.
    pub(super) record: Option<Resp>,
    /// What the server has carried out.
    pub(super) counts: Option<String>,
    /// The server's `TIME`.
    pub(super) time: Resp,
    /// The hash of the address at which the server itself has this connection; 0 if it does not
    /// tell.
    pub(super) own_address: u64,
    /// Whether the server sends pushes.
    pub(super) resp3: bool,
}

impl Hello {
    /// Takes the answers to these questions, of which there is one to each command.
    pub(super) fn read(questions: &Questions<'_>, answers: Vec<Resp>) -> Hello {
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or(Resp::Nil);
        let address = &questions.target.address;
        Hello {
            login: address.password.is_some().then(&mut next),
            select: (address.db != 0).then(&mut next),
            info: whole(SECTIONS.map(|_| next())),
            record: questions.record().then(&mut next),
            counts: questions.counts.then(|| text(&next())),
            time: next(),
            own_address: own_address(&text(&next())),
            resp3: questions.subscribe && matches!(next(), Resp::Map(_)),
        }
    }

    /// The kind of the server, if that can be no node.
    pub(super) fn unsupported(&self) -> Option<UnsupportedServer> {
        match &self.info {
            Resp::ServerError(error) => {
                UnsupportedServer::in_error(error.code(), error.details().unwrap_or_default())
            }
            said => Info::parse(&text(said)).unsupported(),
        }
    }

    /// The text of its `INFO`; `None` where the user may not ask for that.
    pub(super) fn info(&self) -> Result<Option<String>, Fault> {
        match &self.info {
            Resp::ServerError(error) if server_error::forbidden(error) => Ok(None),
            Resp::ServerError(_) => good(self.info.clone()).map(|_| None),
            said => Ok(Some(text(said))),
        }
    }
}

/// The sections of `INFO` as one.
fn whole(sections: [Resp; SECTIONS.len()]) -> Resp {
    let mut said = String::new();
    for (section, answer) in SECTIONS.iter().zip(sections) {
        match &answer {
            // A server without such a section may answer with an error; a server without `INFO`, or
            // that forbids it, answers so to each.
            Resp::ServerError(error) if *section != SECTIONS[0] && error.code() == "ERR" => {}
            Resp::ServerError(_) => return answer,
            answer => {
                said.push_str(&text(answer));
                said.push_str("\r\n");
            }
        }
    }
    Resp::BulkString(said.into_bytes())
}

/// Asks how often a server has carried out which commands.
pub(super) fn count() -> redis::Cmd {
    redis::cmd("INFO").arg("commandstats").take()
}

/// The hash of the address in `CLIENT INFO`.
fn own_address(client_info: &str) -> u64 {
    let mut words = client_info.split_ascii_whitespace();
    let address = words.find_map(|word| word.strip_prefix("laddr="));
    address.map_or(0, |address| fnv1a(address.as_bytes()))
}

/// Why the first questions went unanswered. A server that closes the connection at once may be on
/// its way down; or it speaks TLS, or is a proxy that does so at a command that it does not know.
pub(super) fn unanswered(fault: Fault) -> Fault {
    if fault.cause != Cause::Closed {
        return fault;
    }
    fault.with_text(format!(
        "{CLOSED} before it answered INFO, as a TLS port does to redis:// (write \
         rediss://), and a proxy that does not know INFO (twemproxy)"
    ))
}
