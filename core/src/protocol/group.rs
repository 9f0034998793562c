//! Groups of locks, by which metrics tell them apart.
//!
//! The name of a lock is no label: there may be a lock for each order of a shop. A group is a name
//! that the program chooses for all of a kind. The process has a fixed number of them, so that what
//! it measures stays small whatever it is given: what comes later is `other`. Within a group the
//! [modes](Mode) of asking are measured apart.

use std::sync::Arc;

use once_cell::race::OnceBox;

use crate::error::Error;
use crate::given;
use crate::node::Mode;

/// How many names the process keeps.
const NAMED: usize = 64;
/// Those, the group without a name, and the group for all that came too late.
const NAMES_IN_ALL: usize = NAMED + 2;
/// As metrics tell in which mode a lock is asked for.
const MODES: [&str; 3] = ["exclusive", "shared", "slot"];
/// How many there are, in all modes.
pub(crate) const GROUPS: usize = NAMES_IN_ALL * MODES.len();
/// The longest name, in bytes.
const LONGEST: usize = 64;
const OTHER: &str = "other";

/// `race`: no lock that another thread could have held at a fork.
static NAMES: [OnceBox<Arc<str>>; NAMED] = [const { OnceBox::new() }; NAMED];

/// A group. The default has no name, and is of calls that want a lock for themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Group(u8);

const _: () = assert!(GROUPS <= u8::MAX as usize + 1);

impl Group {
    /// The group of that name; of a new one if the process has room for it.
    fn named(name: &str) -> Group {
        Group::named_among(&NAMES, name)
    }

    fn named_among(names: &[OnceBox<Arc<str>>], name: &str) -> Group {
        match name {
            "" => return Group::default(),
            OTHER => return Group::at(NAMES_IN_ALL - 1),
            _ => {}
        }
        let is_here =
            |slot: &OnceBox<Arc<str>>| **slot.get_or_init(|| Box::new(name.into())) == *name;
        match names.iter().position(is_here) {
            Some(place) => Group::at(place + 1),
            None => Group::at(NAMES_IN_ALL - 1),
        }
    }

    /// The group of a name that a user gives.
    pub(crate) fn given(name: &str) -> Result<Group, Error> {
        if name.len() <= LONGEST && !name.chars().any(char::is_control) {
            given::check("group", name.as_bytes()).map_err(Error::invalid)?;
            return Ok(Group::named(name));
        }
        Err(Error::invalid(format!(
            "group is {}: give at most {LONGEST} bytes without control characters",
            given::shown("group", name)
        )))
    }

    /// The same group, for calls that ask in that mode.
    pub(crate) fn of_mode(self, mode: Mode) -> Group {
        let place = match mode {
            Mode::Exclusive => 0,
            Mode::Shared => 1,
            Mode::AnySlot(_) | Mode::Slot(_) => 2,
        };
        Group::at(self.place() % NAMES_IN_ALL + place * NAMES_IN_ALL)
    }

    /// Its mode, as a word.
    pub(crate) fn mode(self) -> &'static str {
        MODES[self.place() / NAMES_IN_ALL]
    }

    /// By its [place](Group::place).
    pub(crate) fn at(place: usize) -> Group {
        Group(place as u8)
    }

    /// Its place among all groups: less than [`GROUPS`].
    pub(crate) fn place(self) -> usize {
        self.0.into()
    }

    /// Its name; empty for the group without a name.
    pub(crate) fn name(self) -> &'static str {
        match self.place() % NAMES_IN_ALL {
            0 => "",
            place if place <= NAMED => NAMES[place - 1].get().map_or("", |name| name),
            _ => OTHER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_told_apart() {
        let group = Group::named("in-modes");
        let modes =
            [Mode::Exclusive, Mode::Shared, Mode::AnySlot(3)].map(|mode| group.of_mode(mode));
        assert_eq!(modes.map(Group::mode), MODES);
        assert_eq!(modes.map(Group::name), ["in-modes"; 3]);
        assert!(modes.map(Group::place).is_sorted() && modes[2].place() < GROUPS);
        assert_eq!(modes[1].of_mode(Mode::Exclusive), group);
        assert_eq!(Group::named(OTHER).of_mode(Mode::Shared).name(), OTHER);
    }

    #[test]
    fn names_are_kept_until_there_is_no_room() {
        // Those of the process are for other tests, too.
        let names = [const { OnceBox::new() }; 2];
        let named = |name: &str| Group::named_among(&names, name);
        assert_eq!((named(""), named("").name()), (Group::default(), ""));
        for _ in 0..2 {
            let places = ["a", "b", "c", "a"].map(|name| named(name).place());
            assert_eq!(places, [1, 2, NAMES_IN_ALL - 1, 1]);
        }
        assert_eq!((named("c").name(), named(OTHER)), (OTHER, named("c")));
        assert_eq!(Group::named("kept").name(), "kept");
    }

    #[test]
    fn names_are_checked() {
        assert!(Group::given("").is_ok() && Group::given("orders").is_ok());
        for (wrong, shown) in [
            ("x".repeat(65), "text of 65 characters"),
            ("a\nb".into(), r"`a\nb`"),
            ("redis://:secret@h".into(), "a URL with a password"),
        ] {
            let error = Group::given(&wrong).unwrap_err();
            let begin = format!("group is {shown}");
            assert!(error.detail().starts_with(&begin), "{error}");
        }
    }
}
