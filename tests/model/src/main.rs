//! `quorlock-model run [--calls N] [--from SEED]`: random calls on the memory
//! node and on a real server, the clock of both set between them; both must
//! answer alike and hold the same. `quorlock-model replay SEED`: one sequence,
//! and its history. `quorlock-model changes`: one thing in a script changed at
//! a time, each of which must be found; `--remember` keeps the sequences that find what is
//! rarely seen. `quorlock-model directed`: calls whose effects
//! are written down by hand. `quorlock-model refused`: scripts whose commands the server refuses. `quorlock-model strangers`:
//! requests of those who have not the holder's token. `quorlock-model exported [--random N] [--mutated N] [--bearer]`: texts of
//! leases that nobody exported.

mod calls;
mod changes;
mod clock;
mod directed;
mod exported;
mod game;
mod hashed;
mod listener;
mod native;
mod refused;
mod remembered;
mod server;
mod strangers;
mod texts;

use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;

use quorlock_tests::Stage;

use crate::clock::Clock;
use crate::game::{Change, Game, LENGTH};
use crate::listener::Listener;
use crate::server::Server;

/// Every answer that a script can give must come so often in 40,000 calls; one to a request that
/// shares, of which there are fewer, half as often.
const OF_EACH_ANSWER: u64 = 4;
/// Kinds of answers, of all requests.
const KINDS: usize = 90;
/// Calls until a change must be found.
const PATIENCE: u64 = 400_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: u64| {
        let place = words.iter().position(|w| w == name);
        let word = place.and_then(|i| words.get(i + 1));
        word.map_or(default, |w| w.parse().expect("a number"))
    };
    let done = match words.first().map(String::as_str) {
        Some("run") => run(number("--calls", 40_000), number("--from", 1)),
        Some("replay") => replay(number("replay", 1)),
        Some("changes") => {
            let remember = words.iter().any(|w| w == "--remember");
            changes(number("--from", 1), remember)
        }
        Some("directed") => directed(),
        Some("refused") => refused(),
        Some("strangers") => strangers(),
        Some("exported") => exported::play(
            number("--random", 100_000),
            number("--mutated", 10_000),
            words.iter().any(|word| word == "--bearer"),
        ),
        _ => {
            eprintln!(
                "usage: quorlock-model run [--calls N] [--from SEED] | replay SEED | changes [--remember] | directed | refused | strangers | \
                 exported [--random N] [--mutated N] [--bearer]"
            );
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> io::Result<(Stage, Game)> {
    let stage = Stage::like(1, &["clocks"]);
    let server = Server::connect(&stage.nodes[0])?;
    let listener = Listener::new(Server::connect(&stage.nodes[0])?)?;
    let clock = Clock::open(&stage.clocks[0])?;
    Ok((stage, Game::new(server, listener, clock)))
}

fn run(calls: u64, from: u64) -> io::Result<bool> {
    let (_stage, mut game) = start()?;
    game.load(None)?;
    let sequences = calls.div_ceil(LENGTH);
    for seed in from..from + sequences {
        if let Err(difference) = game.play(seed, false)? {
            println!("{difference}");
            return Ok(false);
        }
    }
    let done = sequences * LENGTH;
    let floor = (done * OF_EACH_ANSWER / 40_000).max(1);
    let least = |kind: &str| match kind.split(' ').next() {
        // Of these there are many kinds in few sequences.
        Some("shared" | "slot" | "choose" | "leave" | "hashed") => floor.div_ceil(4),
        _ => floor,
    };
    for (kind, count) in &game.answers {
        println!("{count:8}  {kind}");
    }
    let rare = game.answers.iter().filter(|(kind, n)| **n < least(kind));
    let rare = rare.count();
    let kinds = game.answers.len();
    println!("{done} calls, the same answers and contents; {kinds} kinds of answers");
    println!("floor: {KINDS} kinds of answers, each {floor} times");
    Ok(rare == 0 && kinds >= KINDS)
}

fn replay(seed: u64) -> io::Result<bool> {
    let (_stage, mut game) = start()?;
    game.load(None)?;
    let played = game.play(seed, true)?;
    println!("{}", played.as_ref().err().map_or("the same", |d| d));
    Ok(played.is_ok())
}

fn directed() -> io::Result<bool> {
    let (_stage, mut game) = start()?;
    game.load(None)?;
    let failed = directed::play(&mut game)?;
    failed.iter().for_each(|case| println!("FAIL {case}"));
    let count = failed.len();
    println!("{} passed, {count} failed", directed::cases() - count);
    Ok(failed.is_empty())
}

fn refused() -> io::Result<bool> {
    let (_stage, mut game) = start()?;
    game.load(None)?;
    let failed = refused::play(&mut game)?;
    failed.iter().for_each(|case| println!("FAIL {case}"));
    let count = failed.len();
    println!("{} passed, {count} failed", refused::COMMANDS.len() - count);
    Ok(failed.is_empty())
}

fn strangers() -> io::Result<bool> {
    let (_stage, mut game) = start()?;
    game.load(None)?;
    let failed = strangers::play(&mut game)?;
    failed.iter().for_each(|case| println!("FAIL {case}"));
    let count = failed.len();
    println!("{} passed, {count} failed", strangers::FORMS.len() - count);
    Ok(failed.is_empty())
}

/// What was looked at, how many of it were not found, and by which seed which change was.
#[derive(Default)]
struct Share {
    looked: u64,
    failed: u64,
    found: BTreeMap<String, u64>,
}

fn changes(from: u64, remember: bool) -> io::Result<bool> {
    // Two servers side by side, for the game and its server wait for each other.
    let shares: io::Result<Vec<Share>> = std::thread::scope(|scope| {
        let begun = [0, 1].map(|share| scope.spawn(move || share_of_changes(from, share)));
        let ended = begun
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        ended.collect()
    });
    let shares = shares?;
    let looked: u64 = shares.iter().map(|share| share.looked).sum();
    let failed: u64 = shares.iter().map(|share| share.failed).sum();
    if remember {
        let found = shares.into_iter().flat_map(|share| share.found).collect();
        remembered::keep(&found, from)?;
    }
    println!("{} passed, {failed} failed", looked - failed);
    Ok(failed == 0)
}

/// Every other change.
fn share_of_changes(from: u64, share: usize) -> io::Result<Share> {
    let (_stage, mut game) = start()?;
    let mut done = Share::default();
    let drops_early = game.drops_early()?;
    for change in changes::all().skip(share).step_by(2) {
        if drops_early && change.at_the_end {
            // A key that this server has dropped in that millisecond would look
            // like the change.
            continue;
        }
        done.looked += 1;
        let title = remembered::title(change);
        match found(&mut game, change, &title, from)? {
            Some(seed) => {
                println!("ok   {title}  by sequence {seed}");
                done.found.insert(title, seed);
            }
            None => {
                println!("FAIL {title}  not in {PATIENCE} calls");
                done.failed += 1;
            }
        }
    }
    for change in changes::DIRECTED.iter().skip(share).step_by(2) {
        done.looked += 1;
        game.load(Some(change))?;
        let by = directed::play(&mut game)?;
        let title = remembered::title(change);
        match by.first().and_then(|case| case.lines().next()) {
            Some(case) => println!("ok   {title}  by: {case}"),
            None => {
                println!("FAIL {title}  by no case");
                done.failed += 1;
            }
        }
    }
    for change in changes::STRANGERS.iter().skip(share).step_by(2) {
        done.looked += 1;
        game.load(Some(change))?;
        let by = strangers::play(&mut game)?;
        let title = remembered::title(change);
        match by.first() {
            Some(case) => println!("ok   {title}  by: {case}"),
            None => {
                println!("FAIL {title}  by no stranger");
                done.failed += 1;
            }
        }
    }
    for change in changes::REFUSED.iter().skip(share).step_by(2) {
        done.looked += 1;
        game.load(Some(change))?;
        let by = refused::play(&mut game)?;
        let title = remembered::title(change);
        match by.first() {
            Some(case) => println!("ok   {title}  by: {case}"),
            None => {
                println!("FAIL {title}  by no command");
                done.failed += 1;
            }
        }
    }
    Ok(done)
}

/// Which sequence found a change: one that did before, or the first in order.
fn found(game: &mut Game, change: &Change, title: &str, from: u64) -> io::Result<Option<u64>> {
    game.load(Some(change))?;
    let in_order = from..from + PATIENCE / LENGTH;
    for seed in remembered::seed(title).into_iter().chain(in_order) {
        if game.play(seed, false)?.is_err() {
            return Ok(Some(seed));
        }
    }
    Ok(None)
}
