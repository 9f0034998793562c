//! `quorlock-proof histories [--schedules N] [--from SEED]`: the traces of so many schedules of the simulator are behaviours of
//! the specification. `quorlock-proof mutants NAME=SEED…` (a build with `--cfg mutants`): which seeded bugs it refuses, each in the
//! schedule of its seed.

use std::collections::BTreeMap;
use std::process::ExitCode;

use quorlock_proof::graph::graph;
use quorlock_proof::graph::state::{RESTARTS, SMALLEST};
use quorlock_proof::graph::value;
use quorlock_proof::spec::Action;
use quorlock_proof::trace::{Checker, Refused};
use quorlock_sim::{mutants, schedule};

/// So many schedules are searched for one that catches a bug.
const SEARCHED: u64 = 10_000;
/// And so many, where the checker accepts that one, for one that catches it and is refused: the trace of the first may end before
/// the step that is missing is due.
const SEARCHED_AGAIN: u64 = 300;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: u64| {
        let place = words.iter().position(|word| word == name);
        let word = place.and_then(|place| words.get(place + 1));
        word.map_or(default, |word| word.parse().expect("a number"))
    };
    if let Some(place) = words.iter().position(|word| word == "--mutant") {
        let name = words.get(place + 1).map_or("", String::as_str);
        assert!(mutants::choose(name), "no bugs in this build");
    }
    match words.first().map(String::as_str) {
        Some("histories") => histories(number("--from", 1), number("--schedules", 10_000)),
        Some("graph") => compare(&words[1..]),
        Some("trace") => {
            let (_, trace) = schedule::traced(number("--from", 1));
            for traced in &trace.0 {
                println!("{:.3} {:?}", traced.at as f64 / 1e6, traced.step);
            }
            ExitCode::SUCCESS
        }
        Some("mutants") => each_mutant(&words[1..]),
        _ => {
            eprintln!("usage: quorlock-proof histories [--schedules N] [--from SEED]");
            eprintln!("       quorlock-proof mutants NAME=SEED...");
            ExitCode::from(2)
        }
    }
}

/// Compares the whole graph of a small model with a dump of TLC's, edge by edge, both ways.
fn compare(words: &[String]) -> ExitCode {
    let [name, file] = words else {
        eprintln!("usage: quorlock-proof graph smallest|restarts FILE.dot");
        return ExitCode::from(2);
    };
    let model = match name.as_str() {
        "smallest" => SMALLEST,
        "restarts" => RESTARTS,
        _ => return ExitCode::from(2),
    };
    let text = std::fs::read_to_string(file).expect("a dump");
    let theirs = value::read(&text).expect("a graph of TLC's");
    let ours = graph(&model);
    let found = value::differences(&ours, &theirs, 5);
    for one in &found {
        println!("FAIL {one}");
    }
    let (states, edges) = (ours.states.len(), ours.edges.len());
    println!(
        "     {states} states and {edges} edges; TLC has {} and {}",
        theirs.states.len(),
        theirs.edges.len()
    );
    let good = found.is_empty() && edges > 0;
    println!("{} passed, {} failed", u8::from(good), u8::from(!good));
    ExitCode::from(u8::from(!good))
}

/// Whether the trace of a schedule is a behaviour of the specification, and how long it is.
fn judge(seed: u64, taken: &mut BTreeMap<Action, u64>) -> (usize, Result<(), Refused>) {
    let (_, trace) = schedule::traced(seed);
    let mut checker = Checker::default();
    let verdict = checker.check(&trace);
    for (action, times) in checker.taken {
        *taken.entry(action).or_default() += times;
    }
    (trace.0.len(), verdict)
}

fn histories(from: u64, schedules: u64) -> ExitCode {
    let (mut steps, mut refused, mut taken) = (0, 0, BTreeMap::new());
    for seed in from..from + schedules {
        let (long, verdict) = judge(seed, &mut taken);
        steps += long;
        if let Err(why) = verdict {
            refused += 1;
            println!("FAIL seed {seed}: {why}");
            if refused >= 20 {
                break;
            }
        }
    }
    for (action, times) in &taken {
        println!("     {action:?} {times}");
    }
    println!("     {steps} steps in {schedules} histories");
    println!("{} passed, {refused} failed", schedules - refused);
    ExitCode::from(u8::from(refused > 0))
}

/// What the simulator and the checker say of a schedule with a seeded bug; `None`: the simulator sees nothing wrong.
fn with_bug(name: &str, seed: u64) -> Option<(String, Result<(), Refused>)> {
    assert!(mutants::choose(name), "no bugs in this build");
    let played = std::panic::catch_unwind(|| {
        let (outcome, trace) = schedule::traced(seed);
        let violation = outcome.violation?;
        Some((violation, Checker::default().check(&trace)))
    });
    mutants::choose("");
    played.ok()?
}

/// One line for each bug: the seed in which the simulator catches it, by which invariant, and what the checker says. A seed that
/// catches it no more is looked for anew among the first ones.
fn each_mutant(bugs: &[String]) -> ExitCode {
    for bug in bugs {
        let (name, seed) = bug.split_once('=').expect("NAME=SEED");
        let seed = seed.parse().expect("a seed");
        let seeds = std::iter::once(seed).chain(1..=SEARCHED);
        let mut caught = seeds.filter_map(|seed| Some((seed, with_bug(name, seed)?)));
        let refuses = |seed| match with_bug(name, seed)? {
            (violation, Err(why)) => Some((seed, (violation, Err(why)))),
            _ => None,
        };
        let found = match caught.next() {
            Some((seed, (violation, Ok(())))) => Some(
                (1..=SEARCHED_AGAIN)
                    .find_map(refuses)
                    .unwrap_or((seed, (violation, Ok(())))),
            ),
            found => found,
        };
        match found {
            Some((seed, (violation, verdict))) => {
                let invariant = violation.split(' ').next().unwrap_or("");
                match verdict {
                    Err(why) => println!("{name} {seed} {invariant} refused {why}"),
                    Ok(()) => println!("{name} {seed} {invariant} accepted {violation}"),
                }
            }
            None => println!("{name} - - uncaught in so many schedules"),
        }
    }
    ExitCode::SUCCESS
}
