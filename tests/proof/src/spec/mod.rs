//! The specification: which steps are allowed.
//!
//! Pure: a step is a state, an action and its parameters, and is allowed or not. It is written from
//! docs/reference/protocol.md and calls nothing of the code that it judges: of the core it has the types of requests and
//! replies alone. Its actions have the names of docs/proof/actions.toml.

pub mod choose;
pub mod claim;
pub mod clock;
pub mod line;
pub mod lock;
pub mod native;
pub mod node;
pub mod release;
pub mod share;
pub mod votes;

macro_rules! actions {
    ($($name:ident),* $(,)?) => {
        /// An action, by its name in docs/proof/actions.toml.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "docs/proof/actions.toml says what each is")]
        pub enum Action { $($name),* }

        /// All of them.
        pub const ACTIONS: &[Action] = &[$(Action::$name),*];
    };
}

actions! {
    ClientAsk, ClientTakeVote, ClientTakeRefusal, ClientWriteBack, ClientTakeMark, ClientWin, ClientRenew, ClientPassOn,
    ClientGiveUp, ClientRelease, ClientLose, ClientExport, ClientAdopt, ClientForce,
    NodeNativeAcquire, NodeTrailer, NodeAcquire, NodeExtend, NodeConfirm, NodeRelease, NodeKeep, NodeForce, NodeAdopt, NodeInit,
    Tick, Gain, Step, Forget, CounterLost, Lose, Repeat, Crash,
    ClientJoin, ClientTry, ClientHear, ClientDone, ClientLeave, NodeJoin, NodeServe, NodeTry, Call, WaiterGone, PlaceEnds,
    ClientShare, ClientDowngrade, NodeShare, NodeShareExtend, NodeReserve,
    ClientSee, ClientPledge, ClientRaise, ClientCorrect,
    Look,
}
