//! What the nodes said to the attempts of one call: the error of a call that was not given the lock
//! tells of all of them.

use std::sync::Arc;
use std::task::Context;

use crate::clock::Instant;
use crate::protocol::claim::failure::NoQuorum;
use crate::protocol::claim_cell::ClaimCell;

/// What is known of the attempts before the present one.
#[derive(Default)]
pub(super) struct FailureLog {
    /// The token before, to which nodes may still answer.
    previous: Option<Arc<ClaimCell>>,
    /// What the nodes said to those before that one.
    merged: Option<NoQuorum>,
}

impl FailureLog {
    /// Takes a token in that was given up, if it was asked for.
    pub(super) fn note(&mut self, hold: Arc<ClaimCell>) {
        if hold.begun() != Instant::NEVER
            && let Some(before) = self.previous.replace(hold)
        {
            self.merged = Some(before.so_far().after(self.merged.as_ref()).closed());
        }
        self.forget_answered();
    }

    /// Lets go of the token before, once nothing more is to come of it: thousands may wait.
    pub(super) fn forget_answered(&mut self) {
        if let Some(before) = self.previous.take_if(|before| before.is_answered()) {
            self.merged = Some(before.so_far().after(self.merged.as_ref()));
        }
    }

    /// What the nodes have said last, where `hold` is the present attempt.
    pub(super) fn summary(&self, hold: &ClaimCell) -> NoQuorum {
        let before = self.previous.as_ref();
        let before = before.map(|hold| hold.so_far().after(self.merged.as_ref()));
        hold.so_far()
            .after(before.as_ref().or(self.merged.as_ref()))
    }

    /// Has the task of `cx` woken at the next answer to the token before.
    pub(super) fn listen(&self, cx: &Context<'_>) {
        self.previous.iter().for_each(|before| before.listen(cx));
    }
}
