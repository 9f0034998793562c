//! Which scope is left by what has not entered it: the rules, apart from how Python's objects are looked at.

/// What is known of an open scope, in the order in which they were entered.
pub(super) struct ScopeFacts {
    pub(super) number: u64,
    /// It has a lease.
    pub(super) leased: bool,
    /// One of several may have been left, and it may be this one.
    pub(super) doubtful: bool,
    /// The caller that leaves has entered it.
    pub(super) ours: bool,
    /// The object whose method leaves has entered it.
    pub(super) its: bool,
    /// It was entered by hand.
    pub(super) by_hand: bool,
    /// An object has entered it that is still there.
    pub(super) of_object: bool,
}

/// What has become of the function that has entered a scope by hand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// It has ended, or nothing is known of it.
    Ended,
    /// It is run, or suspended, and does not leave.
    GoesOn,
    /// It has called what leaves.
    Calls,
}

/// What is left.
pub(super) enum Choice {
    Nothing,
    /// The scope of this number.
    One(u64),
    /// One of `some`, or of `stay`, which go on in the functions that entered them.
    AnyOf {
        some: Vec<u64>,
        stay: Vec<u64>,
    },
}

/// What an object leaves, if it has entered any: of several that it has entered for one caller the newest.
pub(super) fn of_object(known: &[ScopeFacts]) -> Option<Choice> {
    let its: Vec<&ScopeFacts> = known.iter().filter(|scope| scope.its).collect();
    let own = its.iter().rev().find(|scope| scope.ours);
    match (own.filter(|scope| !scope.doubtful), &its[..]) {
        (_, []) => None,
        (Some(one), _) | (None, [one]) => Some(Choice::One(one.number)),
        _ => Some(Choice::AnyOf {
            some: its.iter().map(|scope| scope.number).collect(),
            stay: Vec::new(),
        }),
    }
}

/// What is left of those that were entered by hand, each by a function; and whether there is a scope that another function
/// alone leaves. What an object has entered is left by that object; by another only where there is nothing else that is left.
/// `before`: so often the caller has left one of several already, and nothing said which.
pub(super) fn of_hand(
    known: &[ScopeFacts],
    functions: &[Function],
    before: usize,
) -> (Choice, bool) {
    let by_hand = known.iter().zip(functions.iter().copied());
    let by_hand: Vec<_> = by_hand.filter(|(scope, _)| scope.by_hand).collect();
    let of_functions = by_hand
        .iter()
        .copied()
        .filter(|(scope, _)| !scope.of_object);
    let (choice, elsewhere) = among(&of_functions.collect::<Vec<_>>(), before);
    if !matches!(choice, Choice::Nothing) {
        return (choice, elsewhere);
    }
    let (choice, others) = among(&by_hand, before);
    (choice, elsewhere || others)
}

/// The same among these alone.
fn among(considered: &[(&ScopeFacts, Function)], before: usize) -> (Choice, bool) {
    let (mut all, mut some, mut stay) = (Vec::new(), Vec::new(), Vec::new());
    let (mut own, mut called) = (0, false);
    for &(scope, function) in considered {
        match (function, scope.leased) {
            (Function::GoesOn, true) => stay.push(scope.number),
            (Function::GoesOn, false) => {}
            (_, leased) => {
                all.push(scope);
                if leased {
                    own += usize::from(scope.ours);
                    called |= function == Function::Calls;
                    some.push(scope.number);
                }
            }
        }
    }
    let elsewhere = !stay.is_empty();
    // A scope without a lease is left by its caller where that has entered none since, or has left these. Leaving it releases
    // nothing. Where the program never leaves such a scope, the lease that it leaves instead stays held, which is the lesser
    // harm: a lease that is released too early would let two in.
    let newest = all.iter().rev().filter(|scope| scope.ours).nth(before);
    let skipped = newest.filter(|newest| !newest.leased);
    if let Some(skipped) = skipped.filter(|skipped| !skipped.doubtful) {
        return (Choice::One(skipped.number), false);
    }
    // Of another caller it may be what is left here, unless the caller has one of its own that it has not left: without a
    // lease many are never left at all, and what waited for those would be renewed for ever.
    if own <= before || skipped.is_some() {
        some.extend(
            all.iter()
                .filter(|scope| !scope.leased)
                .map(|scope| scope.number),
        );
    }
    let choice = match (&some[..], &stay[..]) {
        ([], _) => Choice::Nothing,
        (&[one], []) => Choice::One(one),
        // What still runs is left by the function that entered it, or by what that calls.
        (&[one], _) if called || all.iter().all(|scope| !scope.leased) => Choice::One(one),
        _ => Choice::AnyOf { some, stay },
    };
    (choice, elsewhere)
}
