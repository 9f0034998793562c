//! `quorlock-sim run [--schedules N] [--from SEED] [--threads T]`: runs
//! schedules and fails at the first violation. `quorlock-sim replay SEED`:
//! runs one and prints its history.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use quorlock_sim::schedule;

/// A schedule with fewer events proves little; the average must be above.
const EVENTS_FLOOR: u64 = 100;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("replay") => replay(words.get(1)),
        Some("run") => run(&words[1..]),
        _ => {
            eprintln!("usage: quorlock-sim run [--schedules N] [--from SEED] [--threads T]");
            eprintln!("       quorlock-sim replay SEED");
            ExitCode::from(2)
        }
    }
}

fn replay(seed: Option<&String>) -> ExitCode {
    let Some(seed) = seed.and_then(|s| s.parse().ok()) else {
        eprintln!("replay wants a seed, a number");
        return ExitCode::from(2);
    };
    let outcome = schedule::run(seed, true);
    print!("{}", outcome.history.unwrap_or_default());
    println!(
        "seed {seed}: {} events, {} faults, {} holds",
        outcome.events, outcome.faults, outcome.holds
    );
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

fn number(words: &[String], name: &str, default: u64) -> u64 {
    let place = words.iter().position(|w| w == name);
    place
        .and_then(|i| words.get(i + 1))
        .map_or(default, |w| w.parse().expect("a number"))
}

fn run(words: &[String]) -> ExitCode {
    let schedules = number(words, "--schedules", 20_000);
    let from = number(words, "--from", 1);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let threads = number(words, "--threads", cores);
    #[allow(clippy::disallowed_methods)]
    let begun = std::time::Instant::now();
    let next = AtomicU64::new(from);
    let bad = AtomicU64::new(u64::MAX);
    let sum: [AtomicU64; 5] = Default::default();
    let add = |i: usize, n: u64| sum[i].fetch_add(n, Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // The lowest violating seed is reported, whatever the
                    // threads' pace.
                    if seed >= from + schedules || seed > bad.load(Ordering::Relaxed) {
                        return;
                    }
                    let outcome = schedule::run(seed, false);
                    add(0, 1);
                    add(1, outcome.events);
                    add(2, outcome.faults);
                    add(3, outcome.holds);
                    add(4, u64::from(outcome.holds > 0));
                    if outcome.violation.is_some() {
                        bad.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    let get = |i: usize| sum[i].load(Ordering::Relaxed);
    let done = get(0).max(1);
    println!(
        "{done} schedules, {:.0} a minute; {} events in each, {} faults, {} holds; {} % with a hold",
        done as f64 / seconds * 60.0,
        get(1) / done,
        get(2),
        get(3),
        100 * get(4) / done
    );
    let bad = bad.load(Ordering::Relaxed);
    if bad != u64::MAX {
        let outcome = schedule::run(bad, false);
        println!(
            "seed {bad} (schedule {}): {}",
            bad - from + 1,
            outcome.violation.unwrap_or_default()
        );
        return ExitCode::FAILURE;
    }
    if get(1) / done < EVENTS_FLOOR || get(3) == 0 {
        println!("too little happened: at least {EVENTS_FLOOR} events in each, and holds");
        return ExitCode::FAILURE;
    }
    println!("no violation");
    ExitCode::SUCCESS
}
