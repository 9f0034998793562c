//! Why a node is in quarantine. The client that begins one says it in the value of its key, so that all others can tell it
//! too. Nothing rests on it.

/// What has happened to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuarantineCause {
    /// The node came without the record of the set.
    New,
    /// The node's server has restarted.
    Restarted,
    /// Another server runs in the node's place.
    Promoted,
    /// The node's clock has stepped.
    Clock,
}

impl QuarantineCause {
    const ALL: [QuarantineCause; 4] = [
        QuarantineCause::New,
        QuarantineCause::Restarted,
        QuarantineCause::Promoted,
        QuarantineCause::Clock,
    ];

    /// The word for the cause that stands on the node.
    pub fn word(self) -> &'static str {
        match self {
            QuarantineCause::New => "new",
            QuarantineCause::Restarted => "restarted",
            QuarantineCause::Promoted => "promoted",
            QuarantineCause::Clock => "clock",
        }
    }

    /// What stands there, if it is one of these words.
    pub(crate) fn read(word: &str) -> Option<QuarantineCause> {
        QuarantineCause::ALL
            .into_iter()
            .find(|cause| cause.word() == word)
    }

    /// In words, behind "the node".
    pub(crate) fn text(self) -> &'static str {
        match self {
            QuarantineCause::New => "came without a record, so it is new or has lost its memory",
            QuarantineCause::Restarted => "has restarted",
            QuarantineCause::Promoted => "is another server, which was promoted, or has restarted",
            QuarantineCause::Clock => "has a clock that stepped",
        }
    }
}
