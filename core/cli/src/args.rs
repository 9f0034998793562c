//! The command line: what may be said, and what is said about it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as Group, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::exit;
use crate::flags::{self, LockFlags, SetFlags};
use crate::given;
use crate::times;

/// A distributed lock over independent Redis or Valkey masters, for a shell.
#[derive(Debug, Parser)]
#[command(name = "quorlock", version, after_help = NODES)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

const NODES: &str = "\
The nodes come from the file that --nodes-file names; else from the environment variable \
QUORLOCK_NODES; else from ~/.config/quorlock/nodes (in $XDG_CONFIG_HOME, where that is set); else from \
/etc/quorlock/nodes; without any of these it is redis://127.0.0.1:6379. Their URLs are never arguments, \
for every user of a machine can see those, and URLs hold passwords.

Times: 10s, 250ms, 2m, 1h30m; a plain number is seconds.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs a command while a lock is held.
    Run(Run),
    /// Shows who holds locks, as each node has it.
    Inspect(Inspect),
    /// Declares the set: founds it where no node has a record yet.
    Init(Init),
    /// Takes a lock away from whoever holds it.
    Release(Release),
    /// Checks the nodes, and says what to fix.
    Doctor(Doctor),
    /// Lists the locks that are held or waited for now.
    List(List),
    /// Prints a line at each change of a lock.
    Watch(Watch),
    /// Starts servers to try things on, for as long as it runs.
    Dev(Dev),
    /// Prints what a user of a node has to be permitted.
    Acl(Acl),
    /// Explains a finding, an exit code, an error or an alert, or prints a page for operators; without a network.
    Explain(Explain),
    /// Prints completions for a shell.
    Completions(Completions),
    /// Prints a manual page.
    Man(Manual),
}

#[derive(Debug, Group)]
#[command(after_help = "\
WHAT is the id of a finding of doctor (QD30), an exit code (69), an error (LockLost), an alert \
(QuorlockStuck), or a page: clusters, deploy, permissions, sentinel, servers, sets, sizes.

Exit code: 0, 64 there is nothing of that name.")]
pub struct Explain {
    /// What to explain.
    #[arg(value_name = "WHAT")]
    pub what: String,
}

/// Of several locks the gravest code is what comes out.
#[derive(Debug, Group)]
#[command(after_help = "\
Exit code: 0 all are held or kept, of a semaphore all slots, 3 one is not, 69 too few nodes answered for one.")]
pub struct Inspect {
    /// They are semaphores of so many slots, 1 to 128: shows each slot.
    #[arg(long, value_name = "N", value_parser = flags::slots)]
    pub slots: Option<u32>,
    /// Prints one JSON object for each lock, one a line.
    #[arg(long)]
    pub json: bool,
    /// The locks.
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<OsString>,
    #[command(flatten)]
    pub connection: SetFlags,
}

#[derive(Debug, Group)]
#[command(after_help = "\
A wholly new set votes at once. Servers that may have lost something give no vote for max_ttl \
first. Where all nodes have this set's record already nothing is changed, and where a quorum has it and votes a node that \
is away does not matter, so it is safe at every deploy. Each node is given 5 s, and looked at for --connect-timeout and \
eight times --node-timeout; servers that are only too young are waited for, for max_ttl at most.

Exit code: 0 the set is declared and a quorum votes, 74 it is declared and no quorum votes yet, 69 a node does not answer, \
78 a node cannot be of this set.")]
pub struct Init {
    /// Lifts the quarantine of nodes that may have lost votes. Only where no lock is held: two
    /// may hold a lock that was held within the last max_ttl.
    #[arg(long)]
    pub force: bool,
    /// Waits until a quorum votes, at most so long.
    #[arg(short, long, value_name = "T", value_parser = times::parse)]
    pub wait: Option<Duration>,
    /// Prints one JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: SetFlags,
}

#[derive(Debug, Group)]
#[command(after_help = "\
The holder learns it at its next renewal, at most about a third of its ttl later. Until then two \
may work, and their fences tell them apart.

Exit code: 0 freed, 3 nobody held it, 69 too few nodes answered, 75 it is not held by --fence.")]
pub struct Release {
    /// Says that the holder is not asked. Without, nothing is done: a lock is released by who
    /// holds it.
    #[arg(long, required = true)]
    pub force: bool,
    /// It is a semaphore of so many slots: without --slot all of them are taken away.
    #[arg(long, value_name = "N", value_parser = flags::slots)]
    pub slots: Option<u32>,
    /// Takes this slot alone away, counted from 0.
    #[arg(long, value_name = "K", requires = "slots")]
    pub slot: Option<u32>,
    /// Only from the hold that has this fence, so that a successor is never hit.
    #[arg(long, value_name = "F")]
    pub fence: Option<u64>,
    /// Does not ask before.
    #[arg(short, long)]
    pub yes: bool,
    /// Prints one JSON object.
    #[arg(long)]
    pub json: bool,
    /// The lock.
    #[arg(value_name = "NAME")]
    pub name: OsString,
    #[command(flatten)]
    pub connection: SetFlags,
}

#[derive(Debug, Group)]
#[command(after_help = "\
Nothing is admitted, founded or changed by it; where the set is founded, each node is asked for a vote for a lock of a name \
that no client has, and such a lock is won and given back a few times. It takes at most --connect-timeout, \
eight times --node-timeout, and a few seconds. Each finding has an id, which `quorlock explain ID` explains.

Exit code: 0 locks can be won, 1 they can but something needs to be fixed, 69 they cannot. With --node: 0 that node votes, or no set \
has founded it yet, 69 it does not.")]
pub struct Doctor {
    /// Prints one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Looks at this node of the set alone, for what starts and stops servers: its URL without a password.
    #[arg(long, value_name = "URL", conflicts_with = "name")]
    pub node: Option<String>,
    /// A lock to look at, too.
    #[arg(value_name = "NAME")]
    pub name: Option<OsString>,
    #[command(flatten)]
    pub connection: SetFlags,
}

#[derive(Debug, Group)]
#[command(after_help = "\
Walks through all keys of each node, a thousand a step and for 30 s at most, which needs +scan: `quorlock acl \
--operator` has it. Locks of other libraries, with raw names, are not found. Where too few nodes are read it shows \
what the others have.

Exit code: 0, 69 too few nodes were read, 78 a node does not permit it.")]
pub struct List {
    /// Draws it again each second, the most wanted first: / filters, q quits.
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,
    /// Prints one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Only names like this, as Redis's KEYS has it: 'orders:*'.
    #[arg(value_name = "GLOB")]
    pub names: Option<String>,
    #[command(flatten)]
    pub connection: SetFlags,
}

#[derive(Debug, Group)]
#[command(after_help = "\
A change is another verdict, holder, fence, or number of waiters. What comes and goes between two \
looks is not seen.

Each look takes at most --connect-timeout and --node-timeout.

Exit code: 0 the lock is free (--until-free), or nobody reads any more, 75 it is not within --wait.")]
pub struct Watch {
    /// Ends after so long; without, never by itself.
    #[arg(short, long, value_name = "T", value_parser = times::parse)]
    pub wait: Option<Duration>,
    /// Ends as soon as the lock is free, or a slot is.
    #[arg(long)]
    pub until_free: bool,
    /// It is a semaphore of so many slots, 1 to 128.
    #[arg(long, value_name = "N", value_parser = flags::slots)]
    pub slots: Option<u32>,
    /// How often it looks.
    #[arg(long, value_name = "T", value_parser = times::parse_some, default_value = "1s")]
    pub every: Duration,
    /// Prints one JSON object for each change, one a line.
    #[arg(long)]
    pub json: bool,
    /// The lock.
    #[arg(value_name = "NAME")]
    pub name: OsString,
    #[command(flatten)]
    pub connection: SetFlags,
}

#[derive(Debug, Group)]
#[command(after_help = "\
They listen on free ports of this machine alone, keep nothing on disk, are declared a set, and end \
with this program, whatever ends it. Never for anything that matters.

Without a command it prints a line for other terminals, `export QUORLOCK_NODES=…`, and lasts until \
Ctrl-C. A command finds that variable in its environment:
  quorlock dev -- python first.py

Exit code: 0, or the command's own; 69 a server does not start, 78 there is no server to start.")]
pub struct Dev {
    /// How many.
    #[arg(value_name = "N", default_value = "3", value_parser = clap::value_parser!(u8).range(1..=9))]
    pub nodes: u8,
    /// The program; without, valkey-server or redis-server of the PATH.
    #[arg(long, value_name = "FILE")]
    pub server: Option<PathBuf>,
    /// A command to run with them, and its arguments; they end when it does.
    #[arg(value_name = "CMD", last = true)]
    pub command: Vec<OsString>,
}

#[derive(Debug, Group)]
#[command(after_help = "\
Put a password in the place of PASSWORD, and give the line to every node by redis-cli, at its prompt or behind \
its options; `ACL SAVE` keeps it. No node is asked for this.")]
pub struct Acl {
    /// Prints lines for a server's file of users (`aclfile`), which has no user without a password.
    #[arg(long)]
    pub file: bool,
    /// The user.
    #[arg(long, value_name = "U", default_value = "quorlock")]
    pub user: String,
    /// The prefix of every key.
    #[arg(
        long,
        value_name = "TEXT",
        env = "QUORLOCK_NAMESPACE",
        hide_env_values = true
    )]
    pub namespace: Option<String>,
    /// Of a person who looks after the nodes: with what `quorlock list` needs and `doctor` finds more by. It sees
    /// the names of all keys and all clients, whosever they are, so no application should have it.
    #[arg(long, alias = "list")]
    pub operator: bool,
    /// With what votes need that wait for replicas.
    #[arg(long)]
    pub wait_replicas: bool,
}

#[derive(Debug, Group)]
#[command(after_help = "\
  quorlock completions bash > /etc/bash_completion.d/quorlock
  quorlock completions zsh > ~/.zfunc/_quorlock
  quorlock completions fish > ~/.config/fish/completions/quorlock.fish")]
pub struct Completions {
    /// Whose: bash, elvish, fish, powershell or zsh.
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Group)]
#[command(after_help = "  quorlock man run | man -l -")]
pub struct Manual {
    /// Writes the pages of all commands into this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub dir: Option<PathBuf>,
    /// Of which command; without, of the program.
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
}

const EXIT: &str = "\
Exit code: the command's own, or 128 and the number of the signal that ended it. Else:
   64  the command line is wrong         75  the lock is held by another (see -E)
   69  too few nodes answered            76  the lock was lost while the command ran
   70  a bug in Quorlock                 78  nodes or credentials are set up wrong
  126  the command cannot be run        127  the command is not found

The command runs in a process group of its own and finds QUORLOCK_LOCK and QUORLOCK_FENCE in its \
environment, with --slots QUORLOCK_SLOT too. It does not outlive the lock: while renewals fail its group gets TERM, and KILL shortly \
before the lock ends, also where this program was killed or stopped. What leaves the group, as \
daemons do, is not ended. Give the fence to what the command changes.

For a crontab, the same line on every host, so that one of them does it; the nodes stand in \
/etc/quorlock/nodes, or in a line QUORLOCK_NODES=… above it:
  0 3 * * * quorlock run -n -E 0 --keep 55s nightly -- /usr/local/bin/close-month";

#[derive(Debug, Group)]
#[command(after_help = EXIT)]
pub struct Run {
    /// Does not wait if the lock is held by another.
    #[arg(short, long, conflicts_with = "wait")]
    pub no_wait: bool,
    #[command(flatten)]
    pub lock: LockFlags,
    /// How long -n waits for nodes that give no votes yet, since they may have lost some, and
    /// would make a quorum: nobody can hold the lock then. As long as that may take, unless this
    /// says otherwise: --max-ttl and some 20s.
    #[arg(long, value_name = "T", requires = "no_wait", value_parser = times::parse)]
    pub votes: Option<Duration>,
    /// The exit code if the lock is held by another, in place of 75.
    #[arg(short = 'E', long, value_name = "N", value_parser = clap::value_parser!(u8))]
    pub conflict_code: Option<u8>,
    /// How long the command may take to end after a loss that came without notice, and how long
    /// what it leaves in the background is waited for.
    #[arg(long, value_name = "T", value_parser = times::parse, default_value = "10s")]
    pub grace: Duration,
    /// Leaves the command in the process group of the caller, as it is where the standard input
    /// is a terminal. Then it alone is ended, and not what it has started.
    #[arg(long)]
    pub foreground: bool,
    /// Only tells that the lock is about to be lost, and lets the command run on.
    #[arg(long)]
    pub no_kill: bool,
    /// Keeps from the command the variables of this program that may hold secrets: QUORLOCK_NODES,
    /// QUORLOCK_KEY and QUORLOCK_CERT. It finds the lock and the fence all the same.
    #[arg(long)]
    pub no_nodes_env: bool,
    /// Says how long the lock was waited for.
    #[arg(long)]
    pub print_wait: bool,
    /// Says nothing but errors.
    #[arg(short, long)]
    pub quiet: bool,
    /// Writes what happens to this file, one JSON object a line; `-` is the standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Writes metrics to this file, as node_exporter's textfile collector reads them: how the last
    /// run went, and when one last ended well. Each job has a file of its own.
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,
    /// The lock.
    #[arg(value_name = "NAME")]
    pub name: OsString,
    /// The command and its arguments. No shell reads it.
    #[arg(value_name = "CMD", last = true, required = true)]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub connection: SetFlags,
}

impl Args {
    /// The command line, and the variables that stand for options of it. A variable that is empty
    /// is not set, as in every language.
    pub fn of_this_process() -> Result<Args, clap::Error> {
        let matches = without_empty(Args::command()).try_get_matches()?;
        Args::from_arg_matches(&matches)
    }
}

fn without_empty(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &clap::Arg| {
        let variable = arg.get_env().and_then(std::env::var_os);
        variable.is_some_and(|value| value.is_empty())
    };
    command
        .mut_args(|arg| if is_empty(&arg) { arg.env(None) } else { arg })
        .mut_subcommands(without_empty)
}

/// Prints what is wrong with the command line, or the help that was asked for; returns the
/// exit code.
pub fn explain(error: &clap::Error) -> i32 {
    if !error.use_stderr() {
        // No reader is left if the output is closed.
        let _ = error.print();
        return 0;
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Nothing of it was given by the user.
        let _ = error.print();
        return exit::USAGE;
    }
    let words = std::env::args_os().skip(1);
    // An option may stand in a variable.
    let variables = std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        name.starts_with("QUORLOCK_")
    });
    let given = words.chain(variables.map(|(_, value)| value));
    let given = given.map(|word| word.to_string_lossy().into_owned());
    eprint!("quorlock: {}", given::without_words(error, given));
    exit::USAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
