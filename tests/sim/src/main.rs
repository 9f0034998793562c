//! `quorlock-sim run [--schedules N] [--from SEED] [--threads T]`: runs
//! schedules and fails at the first violation. `quorlock-sim replay SEED`:
//! runs one and prints its history in words; `--without PART,...` without some of
//! its parts, `--shrink` without all that can go while the same is violated,
//! `--raw` as it is hashed. `quorlock-sim mutants NAME[=SEED]...` (a build with `--cfg mutants`): for each seeded bug, a schedule that catches it:
//! that seed, if it still does, or else the first of N. `--mutant NAME` turns a
//! bug on in the first two. `quorlock-sim digest [--schedules N] [--from SEED]`:
//! a number for each block of histories, the same where nothing has changed of
//! what is decided.

mod replay;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use quorlock_sim::death;
use quorlock_sim::mutants;
use quorlock_sim::program::Counts;
use quorlock_sim::schedule::{self, Layer};

/// A schedule with fewer events proves little; the average must be above.
const EVENTS_FLOOR: u64 = 100;
/// How many histories one line of a digest stands for.
const BLOCK: u64 = 10_000;
/// Percent of schedules in which somebody holds the lock. The first acquire of a
/// client takes two rounds, so that some schedules with many faults have no hold.
const HOLDS_FLOOR: u64 = 88;
/// The same where tasks end: each costs its client a node for a while.
const HOLDS_WITH_DEATHS: u64 = 55;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    death::choose(words.iter().any(|word| word == "--deaths"));
    match words.first().map(String::as_str) {
        Some("replay") if layer(&words) == Layer::Clusters => replay::of_clusters(&words[1..]),
        Some("replay") => replay::replay(&words[1..]),
        Some("run") => run(&words[1..]),
        Some("mutants") => each_mutant(&words[1..]),
        Some("digest") => digest(&words[1..]),
        _ => {
            eprintln!("usage: quorlock-sim run [--schedules N] [--from SEED] [--threads T]");
            eprintln!("       {}", replay::USAGE);
            eprintln!("       quorlock-sim mutants [--schedules N] NAME[=SEED]...");
            eprintln!("       quorlock-sim digest [--schedules N] [--from SEED]");
            eprintln!("--bytes: over the real links; --clusters: over those to clusters");
            eprintln!("--deaths: tasks of clients end where they wait, over the real links");
            eprintln!("--mutant NAME: with this seeded bug, in a build with --cfg mutants");
            ExitCode::from(2)
        }
    }
}

fn option<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    let place = words.iter().position(|w| w == name)?;
    words.get(place + 1).map(String::as_str)
}

/// `--bytes`: over the real links. `--clusters`: over those to clusters.
fn layer(words: &[String]) -> Layer {
    let has = |word: &str| words.iter().any(|w| w == word);
    match (has("--bytes"), has("--clusters")) {
        (_, true) => Layer::Clusters,
        (true, false) => Layer::Bytes,
        (false, false) => Layer::Links,
    }
}

fn number(words: &[String], name: &str, default: u64) -> u64 {
    option(words, name).map_or(default, |w| w.parse().expect("a number"))
}

fn choose(mutant: &str) {
    assert!(mutants::choose(mutant), "no bugs in this build");
}

/// What many schedules came to.
#[derive(Default)]
struct Sum {
    schedules: AtomicU64,
    events: AtomicU64,
    faults: AtomicU64,
    holds: AtomicU64,
    with_a_hold: AtomicU64,
    natives: AtomicU64,
    natives_in_line: AtomicU64,
    counts: Counts,
}

impl Sum {
    fn add(&self, outcome: &schedule::Outcome) {
        let add = |to: &AtomicU64, n| to.fetch_add(n, Ordering::Relaxed);
        add(&self.schedules, 1);
        add(&self.events, outcome.events);
        add(&self.faults, outcome.faults);
        add(&self.holds, outcome.holds);
        add(&self.natives, outcome.natives.tries);
        add(&self.natives_in_line, outcome.natives.in_line);
        self.counts.add(outcome.counted);
        add(&self.with_a_hold, u64::from(outcome.holds > 0));
    }
}

/// Runs schedules on all threads until one violates; the lowest such seed is
/// found, whatever the threads' pace. A panic is a violation too.
fn many(words: &[String], schedules: u64, mutant: &str) -> (Sum, Option<u64>) {
    let from = number(words, "--from", 1);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let threads = number(words, "--threads", cores);
    let deaths = death::are_wanted();
    let (next, bad, sum) = (
        AtomicU64::new(from),
        AtomicU64::new(u64::MAX),
        Sum::default(),
    );
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                choose(mutant);
                death::choose(deaths);
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + schedules || seed > bad.load(Ordering::Relaxed) {
                        return;
                    }
                    match catch_unwind(|| schedule::run_on(layer(words), seed, false)) {
                        Ok(outcome) => {
                            sum.add(&outcome);
                            if outcome.violation.is_none() {
                                continue;
                            }
                        }
                        Err(_) => eprintln!("seed {seed} panicked"),
                    }
                    bad.fetch_min(seed, Ordering::Relaxed);
                }
            });
        }
    });
    let bad = bad.load(Ordering::Relaxed);
    (sum, (bad != u64::MAX).then_some(bad))
}

/// What is wrong with a schedule, if anything is.
fn verdict(layer: Layer, seed: u64, mutant: &str) -> Option<String> {
    choose(mutant);
    let outcome = catch_unwind(|| schedule::run_on(layer, seed, false));
    choose("");
    outcome.map_or(Some("panicked".into()), |outcome| outcome.violation)
}

/// The same, of a seed that was seen to violate.
fn again(layer: Layer, seed: u64, mutant: &str) -> String {
    verdict(layer, seed, mutant).unwrap_or_else(|| "not again".into())
}

fn run(words: &[String]) -> ExitCode {
    let schedules = number(words, "--schedules", 20_000);
    let mutant = option(words, "--mutant").unwrap_or_default();
    #[allow(clippy::disallowed_methods)]
    let begun = std::time::Instant::now();
    let (sum, bad) = many(words, schedules, mutant);
    let seconds = begun.elapsed().as_secs_f64();
    let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
    let done = get(&sum.schedules).max(1);
    let events = get(&sum.events) / done;
    let with_a_hold = 100 * get(&sum.with_a_hold) / done;
    println!(
        "{done} schedules, {:.0} a minute; {events} events in each, {} faults, {} holds; {with_a_hold} % with a hold",
        done as f64 / seconds * 60.0,
        get(&sum.faults),
        get(&sum.holds),
    );
    println!(
        "{} native tries, {} of them where somebody stood in the queue",
        get(&sum.natives),
        get(&sum.natives_in_line),
    );
    println!("{}", sum.counts.counted());
    if let Some(bad) = bad {
        println!("seed {bad}: {}", again(layer(words), bad, mutant));
        return ExitCode::FAILURE;
    }
    let least = if death::are_wanted() {
        HOLDS_WITH_DEATHS
    } else {
        HOLDS_FLOOR
    };
    if events < EVENTS_FLOOR || with_a_hold < least {
        println!(
            "too little happened: at least {EVENTS_FLOOR} events in each, {least} % with a hold"
        );
        return ExitCode::FAILURE;
    }
    println!("no violation");
    ExitCode::SUCCESS
}

/// One line for each bug: its name, the seed that catches it, and how. One that
/// is known to catch it is tried first.
fn each_mutant(words: &[String]) -> ExitCode {
    let schedules = number(words, "--schedules", 10_000);
    let mut bugs = words.iter();
    while let Some(bug) = bugs.next() {
        if bug.starts_with("--") {
            if !["--bytes", "--clusters", "--deaths"].contains(&bug.as_str()) {
                bugs.next();
            }
            continue;
        }
        let (name, known) = bug.split_once('=').unwrap_or((bug, ""));
        let known = known.parse().ok();
        let still = known.and_then(|seed| Some((seed, verdict(layer(words), seed, name)?)));
        let search = || {
            many(words, schedules, name)
                .1
                .map(|seed| (seed, again(layer(words), seed, name)))
        };
        match still.or_else(search) {
            Some((seed, what)) => println!("{name} {seed} {what}"),
            None => println!("{name} - not caught in {schedules}"),
        }
    }
    ExitCode::SUCCESS
}

/// The hash of the histories of `seeds`.
fn digest_of(layer: Layer, seeds: std::ops::Range<u64>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for seed in seeds {
        let history = schedule::run_on(layer, seed, true).history;
        history.map(|history| history.raw()).hash(&mut hasher);
    }
    hasher.finish()
}

/// Prints a line for each block of schedules: its first seed, and its hash. Two
/// builds whose lines are the same decide the same in all of them.
fn digest(words: &[String]) -> ExitCode {
    let from = number(words, "--from", 1);
    let end = from + number(words, "--schedules", BLOCK);
    let blocks = (end - from).div_ceil(BLOCK);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, lines) = (AtomicU64::new(0), Mutex::new(vec![0; blocks as usize]));
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let block = next.fetch_add(1, Ordering::Relaxed);
                    if block >= blocks {
                        return;
                    }
                    let first = from + block * BLOCK;
                    let hash = digest_of(layer(words), first..end.min(first + BLOCK));
                    lines.lock().expect("no panic")[block as usize] = hash;
                }
            });
        }
    });
    for (block, hash) in (0..).zip(lines.into_inner().expect("no panic")) {
        println!("{} {hash:016x}", from + block * BLOCK);
    }
    ExitCode::SUCCESS
}
