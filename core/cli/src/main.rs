//! `quorlock`: a command under a lock of several Redis or Valkey nodes, from a shell.
//!
//! Everything that decides about locks is in the core; here are processes, signals, exit
//! codes, and words for people.

mod acl;
mod args;
mod clock;
mod connect;
mod dev;
mod doctor;
mod events;
mod exit;
mod explain;
mod flags;
mod force;
mod given;
mod init;
mod inspect;
mod list;
mod output;
mod run;
mod start;
mod times;
mod together;
mod tool;
mod values;
mod voice;
mod watch;

use std::panic::catch_unwind;

use args::{Args, Command};
use exit::Failure;

fn main() {
    let args = Args::of_this_process().unwrap_or_else(|error| exit::with(args::explain(&error)));
    let code = catch_unwind(|| match args.command {
        Command::Run(run) => run::run(&run),
        Command::Inspect(inspect) => ended(inspect.json, inspect::inspect(&inspect)),
        Command::Init(init) => ended(init.json, init::init(&init)),
        Command::Release(release) => ended(release.json, force::release(&release)),
        Command::Doctor(doctor) => ended(doctor.json, doctor::doctor(&doctor)),
        Command::List(list) => ended(list.json, list::list(&list)),
        Command::Watch(watch) => ended(watch.json, watch::watch(&watch)),
        Command::Dev(dev) => ended(false, dev::dev(&dev)),
        Command::Acl(acl) => ended(false, acl::acl(&acl)),
        Command::Explain(explain) => ended(false, explain::explain(&explain)),
        Command::Completions(shell) => ended(false, tool::completions(&shell)),
        Command::Man(manual) => ended(false, tool::manual(&manual)),
    });
    exit::with(code.unwrap_or(exit::BUG));
}

/// The exit code; what failed is said, to programs too.
fn ended(json: bool, outcome: Result<i32, Failure>) -> i32 {
    outcome.unwrap_or_else(|failure| {
        eprintln!("quorlock: {}", failure.message);
        if json {
            output::object(&serde_json::json!({"error": failure.message, "code": failure.code}));
        }
        failure.code
    })
}
