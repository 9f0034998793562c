//! In which order owners take locks: two that take the same two the other way round may wait for
//! each other until their `wait` is over. Each owner that waits looks, and each pair is reported
//! once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::mutex::lock;

/// How many pairs are known at a time: names may be without number.
const MOST: usize = 1_024;

type Key = Arc<[u8]>;

/// What is known of a client's locks: the owners that held the first while they waited for the
/// second.
#[derive(Debug, Default)]
pub(crate) struct Order(Mutex<Pairs>);

#[derive(Debug, Default)]
struct Pairs {
    seen: HashSet<(Key, Key)>,
    /// The lesser key first.
    told: HashSet<(Key, Key)>,
}

impl Order {
    /// An owner holds a lock, and waits for another. True if the user is to be warned that an owner
    /// did the same the other way round. An owner that may not enter again waits for its own.
    pub(crate) fn waits(&self, held: &Key, awaited: &Key) -> bool {
        let (pair, back) = (
            (held.clone(), awaited.clone()),
            (awaited.clone(), held.clone()),
        );
        let mut pairs = lock(&self.0);
        let against = pairs.seen.contains(&back);
        if pairs.seen.len() >= MOST {
            pairs.seen.clear();
        }
        pairs.seen.insert(pair.clone());
        against && held != awaited && pairs.told.len() < MOST && pairs.told.insert(pair.min(back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        name.as_bytes().into()
    }

    #[test]
    fn a_pair_is_told_once_when_it_was_taken_both_ways() {
        let order = Order::default();
        let (a, b, c) = (key("a"), key("b"), key("c"));
        assert!(!order.waits(&a, &b));
        assert!(!order.waits(&a, &b));
        assert!(!order.waits(&b, &c));
        assert!(order.waits(&b, &a));
        assert!(!order.waits(&b, &a) && !order.waits(&a, &b));
        assert!(order.waits(&c, &b));
    }

    #[test]
    fn who_waits_for_what_it_holds_itself_is_in_one_order() {
        let (order, own) = (Order::default(), key("own"));
        assert!(!order.waits(&own, &own) && !order.waits(&own, &own));
    }

    #[test]
    fn names_without_number_are_forgotten() {
        let order = Order::default();
        let held = key("held");
        for n in 0..3 * MOST {
            assert!(!order.waits(&held, &key(&n.to_string())));
        }
        assert!(lock(&order.0).seen.len() <= MOST);
    }
}
