//! The options that are one of several words: whether restarts are guarded, and how a lock is
//! stored.

use std::str::FromStr;

use crate::error::Error;
use crate::given;

/// Whether a node that lost its memory is kept from voting for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartGuard {
    /// On for sets of three nodes and more, and where a node fails over to another
    /// server.
    #[default]
    Auto,
    /// Always, and for a wholly new set, too.
    On,
    /// Never: a restart without data may give a lock to a second holder.
    Off,
}

impl RestartGuard {
    /// The option as a word: `auto`, `on`, `off`.
    pub const fn as_str(self) -> &'static str {
        match self {
            RestartGuard::Auto => "auto",
            RestartGuard::On => "on",
            RestartGuard::Off => "off",
        }
    }

    /// What it means for a set of this many nodes, some of which fail over or none.
    pub(crate) fn is_on(self, nodes: usize, fails_over: bool) -> bool {
        match self {
            RestartGuard::Auto => nodes >= 3 || fails_over,
            RestartGuard::On => true,
            RestartGuard::Off => false,
        }
    }
}

impl FromStr for RestartGuard {
    type Err = Error;

    fn from_str(word: &str) -> Result<RestartGuard, Error> {
        match word {
            "auto" => Ok(RestartGuard::Auto),
            "on" => Ok(RestartGuard::On),
            "off" => Ok(RestartGuard::Off),
            _ => Err(Error::invalid(format!(
                "restart_guard is {}: give auto, on or off",
                given::shown("restart_guard", word)
            ))),
        }
    }
}

/// How a lock is stored on the nodes, and so which other libraries it excludes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// Quorlock's own: a string, fair waiting, and all that Quorlock offers.
    #[default]
    Plain,
    /// That of Redisson's `RLock`: one lock with Java programs. See
    /// [`Lock::layout`](crate::Lock::layout).
    Redisson,
}

impl Layout {
    /// The option as a word: `plain`, `redisson`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Layout::Plain => "plain",
            Layout::Redisson => "redisson",
        }
    }
}

impl FromStr for Layout {
    type Err = Error;

    /// By its word in every language: `plain`, `redisson`.
    fn from_str(word: &str) -> Result<Layout, Error> {
        match word {
            "plain" => Ok(Layout::Plain),
            "redisson" => Ok(Layout::Redisson),
            _ => Err(Error::invalid(format!(
                "layout is {}: give plain or redisson",
                given::shown("layout", word)
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_guarded_where_a_vote_may_be_lost_unseen() {
        use RestartGuard::{Auto, Off, On};
        for (guard, nodes, fails_over, on) in [
            (Auto, 1, false, false),
            (Auto, 2, false, false),
            (Auto, 3, false, true),
            (Auto, 1, true, true),
            (On, 1, false, true),
            (Off, 3, true, false),
        ] {
            assert_eq!(guard.is_on(nodes, fails_over), on, "{guard:?} {nodes}");
        }
    }
}
