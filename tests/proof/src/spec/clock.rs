//! What a client knows of the clock of a node, by the `TIME` in replies: each was read between the sending of its request and
//! the arrival of its reply, and clocks run apart by the drift. All in µs; the client's clock is in ns.

/// A reading may be off by so much without being a step: the drift of a time has as much to spare.
const TOLERANCE: i128 = 2_000;
/// So many servers of one node are known.
const SERVERS: usize = 4;

/// Bounds on a node's `TIME` less the client's clock, and when they were right.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    low: i128,
    high: i128,
    at: u64,
}

/// What is known of the clocks of one node's servers; the one that answered last is first.
#[derive(Clone, Debug, Default)]
pub struct Clocks(Vec<(u64, Bounds)>);

fn drifted(ns: u64, drift: f64) -> i128 {
    (ns as f64 / 1e9 * 1e6 * drift) as i128
}

impl Clocks {
    /// A server has said that it was `time` between two moments of the client. By how much its clock has stepped, at most:
    /// forward is positive.
    pub fn observe(
        &mut self,
        server: u64,
        (sent, received): (u64, u64),
        time: u64,
        drift: f64,
    ) -> i128 {
        let time = i128::from(time);
        let new = Bounds {
            low: time - i128::from(received / 1000) - 1,
            high: time - i128::from(sent / 1000)
                + 1
                + drifted(received.saturating_sub(sent), drift),
            at: received,
        };
        let Some(place) = self.0.iter().position(|known| known.0 == server) else {
            self.0.truncate(SERVERS - 1);
            self.0.insert(0, (server, new));
            return 0;
        };
        let (_, old) = self.0.remove(place);
        let slack = drifted(old.at.abs_diff(received), drift);
        let (low, high) = (old.low - slack, old.high + slack);
        let (known, step) = if new.low > high + TOLERANCE {
            (new, new.high - low)
        } else if new.high < low - TOLERANCE {
            (new, new.low - high)
        } else {
            let (low, high) = (low.max(new.low), high.min(new.high));
            let at = received.max(old.at);
            let both = Bounds { low, high, at };
            (if low <= high { both } else { new }, 0)
        };
        self.0.insert(0, (server, known));
        step
    }

    /// The best guess of the `TIME` of the server that answered last.
    pub fn guess(&self, now: u64) -> Option<u64> {
        let (_, known) = self.0.first()?;
        // The middle, as whole numbers are halved towards zero.
        let middle = (known.low + known.high) / 2;
        u64::try_from(middle + i128::from(now / 1000)).ok()
    }

    /// The earliest `TIME` that a server may have.
    pub fn earliest(&self, server: u64, now: u64, drift: f64) -> Option<u64> {
        let (_, known) = self.0.iter().find(|known| known.0 == server)?;
        let slack = drifted(now.saturating_sub(known.at), drift);
        u64::try_from(known.low - slack + i128::from(now / 1000)).ok()
    }
}

/// The lower median of the guesses; 0 where fewer than a quorum of the clocks is known ("Fences").
pub fn median(clocks: &[Clocks], now: u64) -> u64 {
    let mut known: Vec<u64> = clocks.iter().filter_map(|clock| clock.guess(now)).collect();
    if known.len() < clocks.len() / 2 + 1 {
        return 0;
    }
    known.sort_unstable();
    known[known.len().div_ceil(2) - 1]
}
