//! The book of the scopes of one object that are open, and of those of them that were left while nothing says which.
//!
//! It knows nothing of Python: what is looked up in it is held up by nothing that a program does.

use std::mem;

/// A scope that is open.
pub(super) struct Entry<S> {
    pub(super) number: u64,
    pub(super) scope: S,
    /// It has a lease, which leaving it releases.
    pub(super) leased: bool,
    /// That of scopes as many of which have not been left.
    group: Option<u64>,
    /// The function that entered it goes on, and it alone leaves it.
    stays: bool,
}

impl<S> Entry<S> {
    /// Whether one of several may have been left, and it may be this one.
    pub(super) fn is_doubtful(&self) -> bool {
        self.group.is_some()
    }
}

/// Scopes some of which were left, and nothing says which.
struct Group<L> {
    number: u64,
    /// How many were left.
    left: usize,
    /// The callers that left them.
    leavers: Vec<L>,
}

/// What it comes to that one of several was left.
pub(super) enum CountOutcome<S> {
    /// They have changed meanwhile, and nothing is counted.
    Changed,
    /// As many were left as there are, so that these are open no longer.
    Settled(Vec<Entry<S>>),
    /// They stay until as many have been left. `warn`: a lease is kept on that account, for the first time.
    Open { warn: bool },
}

/// `S` is what is kept of a scope, `L` a caller that has left one.
pub(super) struct Book<S, L> {
    /// The newest is the last.
    open: Vec<Entry<S>>,
    groups: Vec<Group<L>>,
    numbers: u64,
    warned: bool,
}

// Derived, it would ask the same of what it keeps.
impl<S, L> Default for Book<S, L> {
    fn default() -> Book<S, L> {
        Book {
            open: Vec::new(),
            groups: Vec::new(),
            numbers: 0,
            warned: false,
        }
    }
}

impl<S, L> Book<S, L> {
    /// Those that are open; the newest is the last.
    pub(super) fn open(&self) -> &[Entry<S>] {
        &self.open
    }

    pub(super) fn open_mut(&mut self) -> &mut [Entry<S>] {
        &mut self.open
    }

    /// The callers that have left one of several.
    pub(super) fn leavers(&self) -> impl Iterator<Item = &L> {
        self.groups.iter().flat_map(|group| &group.leavers)
    }

    /// Whether so many of one group were left.
    pub(super) fn were_left(&self, many: usize) -> bool {
        self.groups.iter().any(|group| group.left >= many)
    }

    /// A number for a scope or a group, never given twice.
    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Opens the scope of that number.
    pub(super) fn enter(&mut self, number: u64, scope: S, leased: bool) {
        self.open.push(Entry {
            number,
            scope,
            leased,
            group: None,
            stays: false,
        });
    }

    /// Takes out the oldest of these if there are so many, none of which has a lease or is in doubt.
    pub(super) fn forget(&mut self, many: usize, is_one: impl Fn(&S) -> bool) -> Option<Entry<S>> {
        let is_idle =
            |entry: &Entry<S>| !entry.leased && !entry.is_doubtful() && is_one(&entry.scope);
        let oldest = self.open.iter().position(is_idle)?;
        let all = self.open.iter().filter(|entry| is_idle(entry)).count();
        (all >= many).then(|| self.open.remove(oldest))
    }

    /// Takes out the newest of these, and with it those that must have been left, now that this one is known to be.
    pub(super) fn take_newest(
        &mut self,
        is_one: impl Fn(&Entry<S>) -> bool,
    ) -> Option<Vec<Entry<S>>> {
        let at = self.open.iter().rposition(is_one)?;
        let taken = self.open.remove(at);
        let group = taken.group;
        let mut taken = vec![taken];
        if let Some(group) = group {
            self.settle(group, &mut taken);
        }
        Some(taken)
    }

    /// Takes out those of a group that have all been left.
    fn settle(&mut self, number: u64, taken: &mut Vec<Entry<S>>) {
        let is_of = |entry: &Entry<S>| entry.group == Some(number);
        let members = self.open.iter().filter(|entry| is_of(entry)).count();
        let group = self.groups.iter().position(|group| group.number == number);
        let Some(group) = group.filter(|&at| self.groups[at].left >= members) else {
            return;
        };
        self.groups.remove(group);
        for entry in mem::take(&mut self.open) {
            match is_of(&entry) {
                true if !entry.stays => taken.push(entry),
                true => self.open.push(Entry {
                    group: None,
                    ..entry
                }),
                false => self.open.push(entry),
            }
        }
    }

    /// Counts that one of `some`, or of `stay`, was left: they are one group from here on, with the groups that they were in.
    pub(super) fn count(&mut self, some: &[u64], stay: &[u64], leaver: L) -> CountOutcome<S> {
        let is_one =
            |entry: &Entry<S>| some.contains(&entry.number) || stay.contains(&entry.number);
        let found = || self.open.iter().filter(|entry| is_one(entry));
        if found().count() != some.len() + stay.len() {
            return CountOutcome::Changed;
        }
        let is_leased = found().any(|entry| entry.leased && some.contains(&entry.number));
        let joined: Vec<u64> = found().filter_map(|entry| entry.group).collect();
        let number = self.number();
        for entry in &mut self.open {
            if is_one(entry) || entry.group.is_some_and(|its| joined.contains(&its)) {
                entry.group = Some(number);
                entry.stays = stay.contains(&entry.number);
            }
        }
        let mut group = Group {
            number,
            left: 1,
            leavers: vec![leaver],
        };
        self.groups.retain_mut(|other| {
            let joins = joined.contains(&other.number);
            if joins {
                group.left += other.left;
                group.leavers.append(&mut other.leavers);
            }
            !joins
        });
        self.groups.push(group);
        let mut taken = Vec::new();
        self.settle(number, &mut taken);
        if taken.is_empty() {
            // Where none has a lease nothing is kept from being released.
            CountOutcome::Open {
                warn: is_leased && !mem::replace(&mut self.warned, true),
            }
        } else {
            CountOutcome::Settled(taken)
        }
    }
}
