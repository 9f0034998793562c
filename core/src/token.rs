//! Draws tokens and makes all other random choices. The only module that reads randomness.

use std::fmt;
use std::time::Duration;

/// The seam through which the core sees randomness.
pub trait Rng: Send + Sync + 'static {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

impl dyn Rng {
    /// A duration drawn evenly from `low..high`.
    pub(crate) fn between(&self, low: Duration, high: Duration) -> Duration {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        let share = share(u32::from_le_bytes(bytes));
        low + high.saturating_sub(low).mul_f64(share)
    }
}

/// Random bits as a number in `0.0..1.0`.
fn share(bits: u32) -> f64 {
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

/// The operating system's generator. It keeps no state in this process, so a
/// fork or a cloned machine cannot repeat its output.
#[derive(Debug)]
pub(crate) struct SystemRng;

impl Rng for SystemRng {
    fn fill(&self, bytes: &mut [u8]) {
        #[allow(clippy::disallowed_methods)]
        getrandom::fill(bytes).expect("the operating system gives random bytes");
    }
}

/// 20 bytes in hex: 13 random ones, and the time. Names one attempt, and the lease it
/// becomes; it is made for each attempt and never used again.
///
/// The time is the nodes' `TIME` in µs as its client knew it, 0 where it did not: it shows an
/// operator since when a client has the lock. Nothing rests on it.
///
/// A client that knows a token can release its lock, so `Debug` hides it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token([u8; Token::LEN]);

/// The years 2020 and 2100, in µs: no token is drawn outside of them.
const EARLIEST: u64 = 1_577_836_800_000_000;
const LATEST: u64 = 4_102_444_800_000_000;

/// How many bytes of a token are random: enough for no two to meet.
const RANDOM: usize = 13;

impl Token {
    /// Length of the text form.
    pub const LEN: usize = 40;

    /// The `TIME` at which a token of that text was drawn, in µs; `None` where its client
    /// did not know it. Others may have drawn all of it: then the time makes no sense.
    pub(crate) fn time_of(text: &[u8]) -> Option<u64> {
        Token::drawn(text).filter(|time| (EARLIEST..LATEST).contains(time))
    }

    /// The fence that a token of that text was drawn with, where nodes have counted as far: the same number.
    pub(crate) fn fence_of(text: &[u8], counted: u64) -> Option<u64> {
        // The nodes of a test tell the time of a clock that begins at none.
        let made_up = counted < EARLIEST;
        let drawn = Token::drawn(text)?;
        let known = drawn != 0 && drawn <= counted && (made_up || drawn >= EARLIEST);
        known.then_some(drawn)
    }

    fn drawn(text: &[u8]) -> Option<u64> {
        let digits = std::str::from_utf8(text.get(2 * RANDOM..Token::LEN)?).ok()?;
        u64::from_str_radix(digits, 16).ok()
    }

    /// Draws a new token at this `TIME`, and with it a number in `0.0..1.0`: one call of
    /// the system for both.
    pub(crate) fn with_jitter(rng: &dyn Rng, time: u64) -> (Token, f64) {
        let mut bytes = [0; Token::LEN / 2 + 4];
        rng.fill(&mut bytes);
        bytes[RANDOM..Token::LEN / 2].copy_from_slice(&time.to_be_bytes()[1..]);
        let (name, jitter) = bytes.split_at(Token::LEN / 2);
        let jitter = u32::from_le_bytes(jitter.try_into().expect("four bytes"));
        (Token::of(name), share(jitter))
    }

    fn of(bytes: &[u8]) -> Token {
        let mut text = [0; Token::LEN];
        for (i, byte) in bytes.iter().enumerate() {
            text[2 * i] = b"0123456789abcdef"[usize::from(byte >> 4)];
            text[2 * i + 1] = b"0123456789abcdef"[usize::from(byte & 15)];
        }
        Token(text)
    }

    /// The text form: 40 lower-case hex digits.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hex digits are ASCII")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn tokens_are_hex_and_differ() {
        let tokens: HashSet<String> = (0..10_000)
            .map(|_| Token::with_jitter(&SystemRng, 0).0.as_str().to_owned())
            .collect();
        assert_eq!(tokens.len(), 10_000);
        assert!(
            tokens
                .iter()
                .all(|t| t.len() == 40 && t.bytes().all(|b| b.is_ascii_hexdigit()))
        );
    }

    #[test]
    fn debug_hides_the_token() {
        let token = Token::with_jitter(&SystemRng, 0).0;
        assert!(!format!("{token:?}").contains(token.as_str()));
    }

    #[test]
    fn a_token_says_when_it_was_drawn() {
        for (time, said) in [
            (1_800_000_000_123_456, Some(1_800_000_000_123_456)),
            (0, None),
            (u64::MAX >> 8, None),
        ] {
            let token = Token::with_jitter(&SystemRng, time).0;
            assert_eq!(Token::time_of(token.as_str().as_bytes()), said);
        }
        for other in ["", "0123", &"f".repeat(40), &"x".repeat(40)] {
            assert_eq!(Token::time_of(other.as_bytes()), None);
        }
    }

    #[test]
    fn between_stays_in_range() {
        let rng: &dyn Rng = &SystemRng;
        let (low, high) = (Duration::from_millis(10), Duration::from_millis(20));
        for _ in 0..1000 {
            let d = rng.between(low, high);
            assert!(low <= d && d < high, "{d:?}");
        }
    }
}
