//! What one node has of one lock: the keys of docs/reference/protocol.md ("Keys", "Values") as they stand at a moment.
//!
//! The `TIME` of a node is in µs, the ends of keys are in ms: a key is there up to and with its last millisecond.

use std::collections::BTreeMap;
use std::time::Duration;

use quorlock::sim::{Mode, Value, Waiter};

/// The state of one lock on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lock {
    /// The lock's own key.
    pub key: Option<Key>,
    /// The readers, each with the `TIME` at which its vote ends. One that has ended stays until it is swept.
    pub readers: BTreeMap<Value, u64>,
    /// The leases that are banned, each until that `TIME`.
    pub bans: BTreeMap<Vec<u8>, u64>,
    /// The last fence that was counted, and the end of the counter.
    pub counter: Option<(u64, End)>,
    /// The places of the queue in their order, and the end of its key.
    pub queue: Vec<Place>,
    /// See [`Lock::queue`].
    pub queue_end: u64,
}

/// The end of a key in ms; `None`: it has none.
pub type End = Option<u64>;

/// What stands under the lock's key, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The form of the text.
    pub form: Form,
    /// The end of the key.
    pub end: End,
}

/// The forms of the table in "Values".
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    /// `TOKEN.LABEL`; or a foreign text.
    Quiet(Value),
    /// `=END VALUE`.
    Held(u64, Value),
    /// `-END VALUE`.
    Kept(u64, Value),
    /// `@END WHO`.
    Reserved(u64, Whom),
    /// `&END BASE WHO`.
    Shared(u64, u64, Whom),
}

/// For whom a free lock is reserved.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Whom {
    /// No waiter.
    Nobody,
    /// This one, which wants the lock alone: its number and its inbox.
    Waiter(u64, Vec<u8>),
    /// Readers with tickets up to this one.
    Readers(u64),
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The waiter's number and inbox.
    pub waiter: (u64, Vec<u8>),
    /// It wants to share the lock.
    pub shares: bool,
    /// The place's number.
    pub ticket: u64,
    /// The `TIME` at which the place ends.
    pub end: u64,
}

impl Place {
    /// Whether it is this waiter's, in that mode.
    pub fn is(&self, waiter: &Waiter, mode: Mode) -> bool {
        self.waiter == named(waiter) && self.shares == (mode == Mode::Shared)
    }
}

/// A waiter by its number and inbox.
pub fn named(waiter: &Waiter) -> (u64, Vec<u8>) {
    (waiter.number, waiter.inbox.to_vec())
}

/// 40 lower-case hex digits and a dot are the lease of a value; any other text has none.
pub fn lease(value: &Value) -> Option<&[u8]> {
    let (lease, _) = value.0.split_at_checked(41)?;
    let digits = lease[..40]
        .iter()
        .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b));
    (digits && lease[40] == b'.').then_some(lease)
}

/// Whether the first names the lease of the second: a token proves itself, any other text nothing.
pub fn proves(value: &Value, held: &Value) -> bool {
    lease(value).is_some() && lease(value) == lease(held)
}

/// What names a value among the bans: its lease; of a foreign one all of it.
pub fn banned_as(value: &Value) -> Vec<u8> {
    lease(value).unwrap_or(&value.0).to_vec()
}

/// The label of a value, as a refusal tells it; a foreign one and an empty one have none.
pub fn label(value: &Value) -> Option<&[u8]> {
    let lease = lease(value)?;
    Some(&value.0[lease.len()..]).filter(|label| !label.is_empty())
}

/// Whole milliseconds, as lengths of time go over the wire.
pub fn ms(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// How many milliseconds it is from a `TIME` to another, the last one begun counted.
pub fn left(until: u64, time: u64) -> u64 {
    until.saturating_sub(time).div_ceil(1000)
}

impl Form {
    /// The value in the text, whether it holds the lock or not.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Form::Quiet(value) | Form::Held(_, value) | Form::Kept(_, value) => Some(value),
            Form::Reserved(..) | Form::Shared(..) => None,
        }
    }

    /// Until which `TIME` a crowded form means what it says.
    pub fn until(&self) -> Option<u64> {
        match self {
            Form::Quiet(_) => None,
            Form::Held(until, _) | Form::Kept(until, _) => Some(*until),
            Form::Reserved(until, _) | Form::Shared(until, ..) => Some(*until),
        }
    }

    /// For whom the lock is reserved at that `TIME`.
    pub fn reserved(&self, time: u64) -> Option<&Whom> {
        match self {
            Form::Reserved(until, whom) | Form::Shared(until, _, whom) if time <= *until => {
                Some(whom).filter(|whom| **whom != Whom::Nobody)
            }
            _ => None,
        }
    }
}

impl Lock {
    /// What of it is left at a moment: that which is over is gone. Readers count as long as the lock's key says that it
    /// is shared.
    pub fn at(mut self, time: u64) -> Lock {
        let now = time / 1000;
        let lives = |end: &End| end.is_none_or(|end| now <= end);
        self.key = self.key.filter(|key| lives(&key.end));
        self.counter = self.counter.filter(|(_, end)| lives(end));
        self.readers.retain(|_, until| time <= *until);
        if !matches!(&self.key, Some(key) if matches!(key.form, Form::Shared(..))) {
            self.readers.clear();
        }
        self.bans.retain(|_, until| time <= *until);
        if now > self.queue_end {
            self.queue.clear();
        }
        if self.queue.is_empty() {
            self.queue_end = 0;
        }
        self
    }
}
