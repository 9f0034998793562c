//! How the network behaves in a schedule: what is drawn of it, and what follows.

use super::{MS, Time};

/// How the network behaves in a schedule.
#[derive(Clone, Copy, Debug, Default)]
pub struct Network {
    /// Shortest time one way.
    pub base: Time,
    /// Percent of messages that take long.
    pub slow: u64,
    /// The longest such time.
    pub tail: Time,
    /// Percent of messages that break their connection.
    pub cut: u64,
    /// Percent of messages that arrive when something is due, or nearly.
    pub edge: u64,
    /// Percent of requests that reach their node twice.
    pub twice: u64,
    /// Percent of requests that are not sent at all, for want of a connection.
    pub refuse: u64,
    /// Percent of messages that are lost though their connection stands.
    pub deaf: u64,
    /// How long a requester waits for one node.
    pub patience: Time,
    /// How far ahead messages and contenders aim at what is due.
    pub reach: Time,
    /// Every way takes a time of its own, always the same.
    pub even: bool,
}

impl Network {
    /// The same, but fast, and without losses; what drops messages goes on.
    pub fn calm(self) -> Network {
        Network {
            base: self.base.min(self.reach / 40),
            deaf: self.deaf,
            tail: self.tail,
            patience: self.patience,
            reach: self.reach,
            even: self.even,
            ..Network::default()
        }
    }

    /// How long a release waits for its acknowledgement before the connection
    /// is replaced once more.
    pub fn reconnect(&self) -> Time {
        (15 * MS).max(12 * self.base).max(self.reach / 40)
    }

    /// How long a connection may take to become ready.
    pub fn connect(&self) -> Time {
        2 * self.reconnect()
    }

    /// How long it may take from the calm on until everybody is connected, and
    /// what was late has arrived.
    pub fn settles(&self) -> Time {
        let late = |share, by| if share > 0 { by } else { 0 };
        let late = late(self.slow, self.tail) + late(self.edge, self.reach);
        late + self.connect() + self.reconnect() + MS
    }
}
