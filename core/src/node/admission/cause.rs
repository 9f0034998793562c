//! Why a node is in quarantine. The client that begins one says it in the value of its key, so that all others can tell it
//! too. Nothing rests on it.

/// What has happened to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It came without the record of the set.
    New,
    /// Its server runs anew.
    Restarted,
    /// Another server runs in its place.
    Promoted,
    /// Its clock has stepped.
    Clock,
}

impl Cause {
    const ALL: [Cause; 4] = [Cause::New, Cause::Restarted, Cause::Promoted, Cause::Clock];

    /// As it stands on the node.
    pub fn word(self) -> &'static str {
        match self {
            Cause::New => "new",
            Cause::Restarted => "restarted",
            Cause::Promoted => "promoted",
            Cause::Clock => "clock",
        }
    }

    /// What stands there, if it is one of these words.
    pub(crate) fn read(word: &str) -> Option<Cause> {
        Cause::ALL.into_iter().find(|cause| cause.word() == word)
    }

    /// In words, behind "the node".
    pub(crate) fn told(self) -> &'static str {
        match self {
            Cause::New => "came without a record, so it is new or has lost its memory",
            Cause::Restarted => "has restarted",
            Cause::Promoted => "is another server, which was promoted, or has restarted",
            Cause::Clock => "has a clock that stepped",
        }
    }
}
