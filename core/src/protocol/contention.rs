//! Which locks were seen lately to be wanted by others: those are asked for by script,
//! at their home first, and released by script. A hint; all else is asked for with
//! plain commands, which cost the nodes less and know of no line.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clock::Instant;
use crate::hash::HashMap;
use crate::mutex::lock;

/// For how long a lock counts as contended after it was seen to be.
const CONTENDED: Duration = Duration::from_secs(1);
/// Contended locks that are remembered; beyond it those are forgotten that
/// were not seen to be contended for long enough.
const REMEMBERED: usize = 1024;

/// When each lock was seen to be contended last, by its key.
#[derive(Debug, Default)]
pub(crate) struct Contention(Mutex<HashMap<Arc<[u8]>, Instant>>);

impl Contention {
    /// Notes that others want the lock of that key too.
    pub(crate) fn note(&self, key: &Arc<[u8]>, now: Instant) {
        let mut seen = lock(&self.0);
        if seen.len() >= REMEMBERED && !seen.contains_key(key) {
            seen.retain(|_, at| now < *at + CONTENDED);
            if seen.len() >= REMEMBERED {
                return;
            }
        }
        seen.insert(key.clone(), now);
    }

    /// Whether others were seen lately to want it.
    pub(crate) fn is_seen(&self, key: &[u8], now: Instant) -> bool {
        let mut seen = lock(&self.0);
        match seen.get(key) {
            None => false,
            Some(at) if now < *at + CONTENDED => true,
            Some(_) => {
                seen.remove(key);
                false
            }
        }
    }
}
