//! Locks beside those of every schedule, which only programs of users have: of a second namespace,
//! with the same names; raw; in Redisson's layout. Some of them have one key, and exclude each
//! other by that; all else that goes with a lock is its own.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use quorlock::sim::{AuxKeys, ClaimCell, Field, Keys, LockId, Mode, Waits};
use quorlock::{Layout, Lock};

use crate::contender::{Client, KEYS, NAMES};
use crate::random::Random;

/// The namespace of all clients, and the one beside it.
pub const NAMESPACES: [&str; 2] = ["lock:", "near:"];

/// How such a lock is named and stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// As the locks of all schedules are.
    Plain,
    /// Its key is its name.
    Raw,
    /// In Redisson's layout.
    Redisson,
}

/// Such a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Which of [`NAMESPACES`].
    pub namespace: usize,
    /// Its name.
    pub name: &'static str,
    /// How it is stored.
    pub how: How,
}

const fn neighbour(namespace: usize, name: &'static str, how: How) -> Neighbour {
    Neighbour {
        namespace,
        name,
        how,
    }
}

/// All of them. The last two have the key of the first lock of all schedules.
pub const NEIGHBOURS: [Neighbour; 7] = [
    neighbour(1, "k", How::Plain),
    neighbour(0, "x", How::Raw),
    neighbour(0, "x", How::Redisson),
    neighbour(1, "x", How::Raw),
    neighbour(1, "x", How::Redisson),
    neighbour(1, "lock:{k}", How::Raw),
    neighbour(1, "lock:{k}", How::Redisson),
];

/// How many of them have keys of their own.
const APART: usize = 5;

/// How many locks there are.
pub const LOCKS: usize = KEYS.len() + NEIGHBOURS.len();

/// What goes by a lock on a node.
#[derive(Debug)]
pub struct Known {
    /// Its key.
    pub lock: Arc<[u8]>,
    /// The others.
    pub aux: AuxKeys,
    /// It is in Redisson's layout.
    hashed: bool,
}

/// Their keys, written out from docs/reference/protocol.md: a lock's own, that of its queue or its tokens, and
/// that of its counter; first those of [`KEYS`].
const NAMED: [[&str; 3]; LOCKS] = [
    ["lock:{k}", "lock:#q:{k}", "lock:#f:{k}"],
    ["lock:{l}", "lock:#q:{l}", "lock:#f:{l}"],
    ["lock:{m}", "lock:#q:{m}", "lock:#f:{m}"],
    ["lock:#p0:{k}", "lock:#pq:{k}", "lock:#pf0:{k}"],
    ["lock:#p1:{k}", "lock:#pq:{k}", "lock:#pf1:{k}"],
    ["lock:#p2:{k}", "lock:#pq:{k}", "lock:#pf2:{k}"],
    ["near:{k}", "near:#q:{k}", "near:#f:{k}"],
    ["x", "lock:#q:#{x}", "lock:#f:#{x}"],
    ["x", "lock:#h:#{x}", "redisson_lock_token:{x}"],
    ["x", "near:#q:#{x}", "near:#f:#{x}"],
    ["x", "near:#h:#{x}", "redisson_lock_token:{x}"],
    ["lock:{k}", "near:#q:##lock:{k}", "near:#f:##lock:{k}"],
    [
        "lock:{k}",
        "near:#h:##lock:{k}",
        "redisson_lock_token:lock:{k}",
    ],
];

static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let known = |[lock, queue, counter]: [&str; 3]| Known {
        lock: lock.as_bytes().into(),
        aux: AuxKeys::of(queue.as_bytes(), counter.as_bytes()),
        hashed: queue.contains("#h:"),
    };
    NAMED.map(known).into()
});

/// All locks: those of [`KEYS`], and behind them these.
pub fn known() -> &'static [Known] {
    &KNOWN
}

/// Which of the locks it is that these keys are of.
pub fn place_of(keys: &Keys) -> usize {
    let place = known().iter().position(|lock| lock.id() == keys.id());
    place.unwrap_or(0)
}

/// The first of the locks with that key.
pub fn place_of_key(key: &[u8]) -> usize {
    let place = known().iter().position(|lock| *lock.lock == *key);
    place.unwrap_or(0)
}

/// Which of the locks a hold is of.
pub fn place_of_hold(hold: &ClaimCell) -> usize {
    match hold.mode().slot() {
        Some(slot) => NAMES.len() + slot as usize,
        None => place_of(&hold.terms().keys),
    }
}

impl Known {
    /// Which it is.
    pub fn id(&self) -> &LockId {
        self.aux.id()
    }

    /// The keys, for a node to be asked about.
    pub fn keys(&self) -> Keys {
        Keys {
            lock: self.lock.clone(),
            aux: self.aux.clone(),
            waits: Waits {
                reservation: Duration::ZERO,
                place: Duration::ZERO,
                most: 0,
            },
            fence_ttl: None,
            mode: Mode::Exclusive,
            adopts: None,
            field: self.hashed.then(|| Field {
                name: Arc::default(),
                shared: false,
            }),
        }
    }
}

impl Neighbour {
    /// The lock, as a client asks for it by the door to its namespace.
    pub fn of(&self, client: &Client) -> Lock {
        let lock = client.door.lock(self.name);
        match self.how {
            How::Plain => lock,
            How::Raw => lock.raw(true),
            How::Redisson => lock.layout(Layout::Redisson),
        }
    }

    /// Which it is, for a history.
    pub fn in_words(&self) -> String {
        let space = NAMESPACES[self.namespace];
        let how = match self.how {
            How::Plain => "",
            How::Raw => ", raw",
            How::Redisson => ", in the layout of Redisson",
        };
        let name = self.name.replace(['{', '}'], "");
        format!("the lock {name} of the namespace {space}{how}")
    }

    /// One of them. `one_key`: perhaps one under the key of the first lock. `layouts`: perhaps one in
    /// Redisson's layout.
    pub fn draw(random: &Random, one_key: bool, layouts: bool) -> Neighbour {
        let most = if one_key { NEIGHBOURS.len() } else { APART };
        let one = NEIGHBOURS[random.below(most as u64) as usize];
        match one.how {
            How::Redisson if !layouts => Neighbour {
                how: How::Raw,
                ..one
            },
            _ => one,
        }
    }
}
