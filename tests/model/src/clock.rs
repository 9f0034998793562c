//! The clock of the server, which stands where we set it (tests/stage/clock.c).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// `version, offset, rate, since, still`, each of eight bytes.
const STILL: u64 = 4 * 8;

/// The file that the server's clock is read from.
#[derive(Debug)]
pub struct Clock {
    file: File,
    version: i64,
}

impl Clock {
    /// Takes over the clock of a node that nobody else sets.
    pub fn open(path: &Path) -> io::Result<Clock> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut version = [0; 8];
        file.read_exact_at(&mut version, 0)?;
        let version = i64::from_ne_bytes(version);
        Ok(Clock { file, version })
    }

    /// From now on time stands at this many µs since 1970.
    pub fn stand(&mut self, micros: u64) -> io::Result<()> {
        let still = i64::try_from(micros * 1000).expect("before the year 2262");
        // Odd while it is written.
        self.file
            .write_all_at(&(self.version + 1).to_ne_bytes(), 0)?;
        self.file.write_all_at(&still.to_ne_bytes(), STILL)?;
        self.version += 2;
        self.file.write_all_at(&self.version.to_ne_bytes(), 0)
    }
}
