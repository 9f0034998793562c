//! `replay`: one schedule for a person to read, as it is or as short as it gets.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use quorlock_sim::cluster;
use quorlock_sim::death;
use quorlock_sim::history::ORACLES;
use quorlock_sim::schedule::{self, Layer, Outcome};
use quorlock_sim::shrink::{self, Shrunk};
use quorlock_sim::without::Without;

use crate::{choose, layer, number, option};

/// How it is called.
pub const USAGE: &str =
    "quorlock-sim replay SEED [--bytes] [--without PART,...] [--shrink [--seconds N]] [--raw]";

/// What is to be replayed.
struct Wanted<'a> {
    layer: Layer,
    seed: u64,
    without: Without,
    mutant: &'a str,
    raw: bool,
}

/// Prints the history of a schedule, and what came of it.
pub fn replay(words: &[String]) -> ExitCode {
    let Some(seed) = words.first().and_then(|s| s.parse().ok()) else {
        eprintln!("replay wants a seed, a number: {USAGE}");
        return ExitCode::from(2);
    };
    let without = match option(words, "--without").unwrap_or_default().parse() {
        Ok(without) => without,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let flag = |name: &str| words.iter().any(|word| word == name);
    let wanted = Wanted {
        layer: layer(words),
        seed,
        without,
        mutant: option(words, "--mutant").unwrap_or_default(),
        raw: flag("--raw"),
    };
    choose(wanted.mutant);
    if flag("--shrink") {
        let seconds = number(words, "--seconds", shrink::PATIENCE.as_secs());
        return shorter(&wanted, seconds);
    }
    let (whole, tapes) = schedule::record(wanted.layer, seed);
    let outcome = if wanted.without.0.is_empty() {
        whole
    } else {
        schedule::rerun(wanted.layer, seed, &tapes, wanted.without.clone())
    };
    tell(&wanted, &wanted.without, &outcome)
}

/// Prints the history as it was, and the command that prints it again.
fn tell(wanted: &Wanted, without: &Without, outcome: &Outcome) -> ExitCode {
    if let (Some(history), Some(plan)) = (&outcome.history, &outcome.plan) {
        if wanted.raw {
            print!("{}", history.raw())
        } else {
            print!("{}", history.explained(plan, &outcome.planned))
        }
    }
    println!(
        "\nseed {}: {} events, {} faults, {} holds",
        wanted.seed, outcome.events, outcome.faults, outcome.holds
    );
    println!("replay: {}", command(wanted, without));
    match &outcome.violation {
        Some(violation) => {
            println!("{violation}");
            let promise = ORACLES.iter().find(|o| violation.starts_with(o.0));
            if let Some((name, meaning)) = promise {
                println!("({name} is {meaning})");
            }
            ExitCode::FAILURE
        }
        None => {
            println!("no violation");
            ExitCode::SUCCESS
        }
    }
}

fn command(wanted: &Wanted, without: &Without) -> String {
    let mut command = format!("make sim SEED={}", wanted.seed);
    if wanted.layer == Layer::Bytes {
        command += " BYTES=1";
    }
    if death::are_wanted() {
        command += " DEATHS=1";
    }
    if !without.0.is_empty() {
        command += &format!(" WITHOUT={without}");
    }
    if !wanted.mutant.is_empty() {
        command += &format!(" MUTANT={}", wanted.mutant);
    }
    command
}

/// Looks for a shorter schedule, and prints that.
fn shorter(wanted: &Wanted, seconds: u64) -> ExitCode {
    #[allow(clippy::disallowed_methods)]
    let begun = std::time::Instant::now();
    let in_time = || begun.elapsed().as_secs() < seconds;
    // Schedules that panic are no shorter ones, and say nothing.
    std::panic::set_hook(Box::new(|_| ()));
    let search = || shrink::shrink(wanted.layer, wanted.seed, wanted.without.clone(), &in_time);
    let shrunk = catch_unwind(AssertUnwindSafe(search));
    let _ = std::panic::take_hook();
    let Ok(shrunk) = shrunk else {
        println!(
            "seed {} panics, which is not shrunk: replay it without SHRINK",
            wanted.seed
        );
        return ExitCode::FAILURE;
    };
    let Some(shrunk) = shrunk else {
        println!(
            "seed {}: no violation, so there is nothing to shrink",
            wanted.seed
        );
        return ExitCode::SUCCESS;
    };
    let status = tell(wanted, &shrunk.without, &shrunk.outcome);
    let Shrunk {
        lines_before,
        lines,
        tried,
        done,
        ..
    } = shrunk;
    let end = if done {
        "nothing more can go"
    } else {
        "the time is up"
    };
    println!("shrunk: {lines_before} -> {lines} lines, {tried} schedules tried, {end}");
    status
}

/// Prints what happened in a schedule of clusters.
pub(crate) fn of_clusters(words: &[String]) -> ExitCode {
    let Some(seed) = words.first().and_then(|word| word.parse().ok()) else {
        eprintln!("usage: quorlock-sim replay SEED --clusters");
        return ExitCode::from(2);
    };
    let outcome = cluster::schedule::run(seed, true, true);
    outcome.lines.iter().for_each(|line| println!("{line}"));
    match outcome.violation {
        Some(violation) => {
            println!("{violation}");
            ExitCode::FAILURE
        }
        None => {
            println!("no violation");
            ExitCode::SUCCESS
        }
    }
}
