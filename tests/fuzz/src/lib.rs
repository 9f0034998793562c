//! What the fuzzer feeds with bytes, and what must hold whatever they are. A
//! target panics where it does not.

mod address;
mod admission;
mod maps;
mod names;
mod pushes;
mod replies;

/// One target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// What it does with the bytes.
    pub run: fn(&[u8]),
    /// Inputs from which others are made.
    pub seeds: &'static [&'static [u8]],
}

/// All targets.
pub const TARGETS: [Target; 6] = [
    Target {
        name: "names",
        run: names::run,
        seeds: names::SEEDS,
    },
    Target {
        name: "replies",
        run: replies::run,
        seeds: replies::SEEDS,
    },
    Target {
        name: "pushes",
        run: pushes::run,
        seeds: pushes::SEEDS,
    },
    Target {
        name: "admission",
        run: admission::run,
        seeds: admission::SEEDS,
    },
    Target {
        name: "maps",
        run: maps::run,
        seeds: maps::SEEDS,
    },
    Target {
        name: "address",
        run: address::run,
        seeds: address::SEEDS,
    },
];

/// The bytes as two parts: before and behind the first occurrence of `mark`.
fn halves(data: &[u8], mark: u8) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == mark) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}
