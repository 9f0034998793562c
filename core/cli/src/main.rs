//! `quorlock`: a command under a lock of several Redis or Valkey nodes, from a shell.
//!
//! Everything that decides about locks is in the core; here are processes, signals, exit
//! codes, and words for people.

mod args;
mod clock;
mod connect;
mod events;
mod exit;
mod run;
mod times;
mod voice;

use std::panic::catch_unwind;

use clap::Parser;

use args::{Args, Command};

fn main() {
    let args = Args::try_parse().unwrap_or_else(|error| exit::with(args::explain(&error)));
    let code = catch_unwind(|| match args.command {
        Command::Run(run) => run::run(&run),
    });
    exit::with(code.unwrap_or(exit::BUG));
}
