//! Why a lease was lost.

use crate::error::Error;

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    // Made from core/vocabulary.toml: reasons.
    /// Its validity ended before it was renewed: not renewed at all, or too few nodes could be
    /// reached.
    Expired,
    /// Nodes answered that the lock is another's: deleted, or lost in a restart, and taken since.
    Refused,
    /// It reached `max_hold`.
    MaxHold,
    /// The thread that owned it ended without releasing it.
    OwnerGone,
    /// Its client was closed.
    Closed,
    /// An operator took the lock away by [force](crate::Client::force_release).
    Forced,
    // End of what is made.
}

// Made from core/vocabulary.toml: lists of reasons.
impl LossReason {
    /// Every reason, in the order of their numbers.
    pub const ALL: &'static [LossReason] = &[
        LossReason::Expired,
        LossReason::Refused,
        LossReason::MaxHold,
        LossReason::OwnerGone,
        LossReason::Closed,
        LossReason::Forced,
    ];

    /// The reason's number, the same forever.
    pub const fn number(self) -> i32 {
        match self {
            LossReason::Expired => 1,
            LossReason::Refused => 2,
            LossReason::MaxHold => 3,
            LossReason::OwnerGone => 4,
            LossReason::Closed => 5,
            LossReason::Forced => 6,
        }
    }

    /// The reason as a word: `expired`, `refused`, `max_hold`, `owner_gone`, `closed`, `forced`.
    pub const fn as_str(self) -> &'static str {
        match self {
            LossReason::Expired => "expired",
            LossReason::Refused => "refused",
            LossReason::MaxHold => "max_hold",
            LossReason::OwnerGone => "owner_gone",
            LossReason::Closed => "closed",
            LossReason::Forced => "forced",
        }
    }
}

/// The words, for a message.
const WORDS: &str = "expired, refused, max_hold, owner_gone, closed or forced";
// End of what is made.

impl std::str::FromStr for LossReason {
    type Err = Error;

    fn from_str(word: &str) -> Result<LossReason, Error> {
        let known = LossReason::ALL.iter();
        let found = known.copied().find(|reason| reason.as_str() == word);
        found.ok_or_else(|| {
            Error::invalid(format!(
                "reason is {}: give {WORDS}",
                crate::given::shown("reason", word)
            ))
        })
    }
}
