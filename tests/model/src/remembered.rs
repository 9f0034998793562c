//! Which sequences have found what most do not: `found.txt`, a seed and a change a line. They are
//! tried first, so that a run need not look for them again; one that finds nothing any more costs its
//! own time alone, for all others follow.

use std::collections::BTreeMap;
use std::io;

use crate::game::Change;

const FOUND: &str = include_str!("../found.txt");
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/found.txt");
/// What this many sequences in order do not find is worth remembering.
const LATE: u64 = 15;

/// A change in one line.
pub fn title(change: &Change) -> String {
    let in_one_line = |text: &str| text.replace('\n', "\\n");
    let (old, new) = (in_one_line(change.old), in_one_line(change.new));
    format!("{}: `{old}` -> `{new}`", change.script)
}

/// The seed that has found the change of this title.
pub fn seed(title: &str) -> Option<u64> {
    let mut lines = FOUND.lines().filter_map(|line| line.split_once(' '));
    let (seed, _) = lines.find(|(_, of)| *of == title)?;
    seed.parse().ok()
}

/// Keeps what found each change, if it took long when it was looked for from seed `from` on.
pub fn keep(found: &BTreeMap<String, u64>, from: u64) -> io::Result<()> {
    let late = found.iter().filter(|(_, seed)| **seed >= from + LATE);
    let lines: String = late
        .map(|(title, seed)| format!("{seed} {title}\n"))
        .collect();
    std::fs::write(PATH, lines)
}
