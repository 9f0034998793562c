//! The guided fuzzer's program: `QUORLOCK_FUZZ` names the target,
//! `QUORLOCK_FUZZ_SEEDS` the folder where its seeds are put before it begins.
//! Built and run by tests/fuzz/fuzz.py.

#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use quorlock_fuzz::{TARGETS, Target};

fn target() -> &'static Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("QUORLOCK_FUZZ").unwrap_or_default();
        let found = TARGETS.into_iter().find(|t| t.name == name);
        found.expect("QUORLOCK_FUZZ names a target")
    })
}

fn put_seeds() {
    let Some(folder) = std::env::var_os("QUORLOCK_FUZZ_SEEDS").map(PathBuf::from) else {
        return;
    };
    for (number, seed) in target().seeds.iter().enumerate() {
        std::fs::write(folder.join(number.to_string()), seed).expect("a seed is written");
    }
}

fuzz_target!(init: put_seeds(), |data: &[u8]| (target().run)(data));
