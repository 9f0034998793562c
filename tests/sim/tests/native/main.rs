//! Schedules that are played by hand, in orders that chance seldom brings about. Each is played as
//! it is, and, in a build with seeded bugs, with the bug that it is for.

mod adopt;
mod handed;
mod stage;
mod votes;
