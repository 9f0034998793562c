//! On whose behalf this thread acts at the moment: so that a history can say it,
//! and what is drawn can be kept apart by whom it is for.

use std::cell::Cell;

/// Who acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// The schedule itself: what it begins with, and what happens to nobody in
    /// particular.
    #[default]
    World,
    /// A client, beside its users.
    Client(usize),
    /// A user, by its number among all users.
    User(usize),
    /// What a client sends to the node at a place of its list, or hears of it.
    AtClient(usize),
    /// What the node does with it, and sends back.
    AtNode(usize),
}

thread_local!(static NOW: Cell<Who> = const { Cell::new(Who::World) });

/// From here on this one acts. Returns who did until now.
pub fn turn_to(who: Who) -> Who {
    NOW.replace(who)
}

/// This one acts, until that is dropped.
pub fn act(who: Who) -> Acting {
    Acting(turn_to(who))
}

/// Gives the word back to who acted before.
#[derive(Debug)]
pub struct Acting(Who);

impl Drop for Acting {
    fn drop(&mut self) {
        turn_to(self.0);
    }
}

/// Who acts.
pub fn now() -> Who {
    NOW.get()
}
