//! The targets on their seeds, and on what chance makes of them: the guided
//! fuzzer (fuzz.py) goes further.

use quorlock_fuzz::TARGETS;
use quorlock_sim::random::Random;

const CHANGED: u64 = 20_000;

#[test]
fn seeds_and_their_changes_hold() {
    let random = Random::new(7);
    for target in TARGETS {
        for seed in target.seeds {
            (target.run)(seed);
        }
        for _ in 0..CHANGED {
            let mut data = random.pick(target.seeds).to_vec();
            for _ in 0..=random.below(4) {
                let at = random.below(data.len() as u64 + 1) as usize;
                let byte = random.below(256) as u8;
                match random.below(4) {
                    0 => data.insert(at, byte),
                    1 => data.truncate(at),
                    2 if at < data.len() => data[at] = byte,
                    _ => {
                        let other = random.pick(target.seeds);
                        let from = random.below(other.len() as u64 + 1) as usize;
                        data.splice(at..at, other[from..].iter().copied());
                    }
                }
            }
            (target.run)(&data);
        }
    }
}
