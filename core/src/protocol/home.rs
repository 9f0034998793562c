//! Where a waiter queues, and how its attempt goes on. Pure: no I/O, no clock,
//! no await.
//!
//! The *home* of an attempt is the first node, in an order that is the same for
//! all clients, that answers in it. Whoever has the home's vote goes on and
//! asks the others again; whoever the home has refused gives its votes back at
//! once, and waits in the home's queue. So contenders do not split the votes,
//! and there is one line for all. Nothing here carries safety: votes do.

use std::time::Duration;

use crate::hash::fnv1a;
use crate::node::{Nodes, QueueInfo};

/// The nodes of a set in the order in which they are home of the lock with this
/// key: by rendezvous hashing (Thaler and Ravishankar, "Using name-based
/// mappings to increase hit rates"), so that each node is home of about as many
/// locks as any other. `ids` are the hashes by which the nodes are known.
pub(crate) fn order(key: &[u8], ids: impl Iterator<Item = u64>) -> Vec<usize> {
    let mut order: Vec<(u64, usize)> = weights(key, ids).collect();
    order.sort_unstable_by(|a, b| b.cmp(a));
    order.into_iter().map(|(_, node)| node).collect()
}

/// Each node with its weight for this key: the largest comes first.
fn weights(key: &[u8], ids: impl Iterator<Item = u64>) -> impl Iterator<Item = (u64, usize)> {
    let key = fnv1a(key);
    ids.map(move |id| mix(key ^ id)).zip(0..)
}

/// Spreads a number over all bits (the finisher of SplitMix64).
fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// A node's last word to the present token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It was not asked.
    Unasked,
    /// It has yet to answer.
    Awaited,
    /// It has voted for the token.
    Granted,
    /// The lock is another's there, or reserved for another, for so long unless
    /// that is renewed.
    Refused {
        /// `None`: it has no end.
        left: Option<Duration>,
        /// What it said of the line; `None` if the vote was lost later.
        line: Option<QueueInfo>,
    },
    /// It did not answer, or cannot vote.
    Out,
}

/// How an attempt that is not won goes on, once all nodes were asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// More answers are to come.
    Await,
    /// The home has voted for us, and too few others: these are asked again.
    Retry(Nodes),
    /// This home has refused: the attempt is over, and we wait there.
    Yield(usize),
    /// No node can vote.
    Pause,
}

/// What to do about what was `heard`. `order`: see [`order`].
pub(crate) fn next(order: &[usize], heard: &[Heard]) -> Next {
    let here = || order.iter().copied();
    let answers = |node: &usize| heard[*node] != Heard::Out;
    let Some(home) = here().find(answers) else {
        return Next::Pause;
    };
    let goes_on = match heard[home] {
        Heard::Refused { .. } => false,
        Heard::Granted => true,
        Heard::Awaited | Heard::Unasked | Heard::Out => return Next::Await,
    };
    if !goes_on {
        return Next::Yield(home);
    }
    if heard.contains(&Heard::Awaited) {
        return Next::Await;
    }
    Next::Retry(
        here()
            .filter(|node| heard[*node] != Heard::Granted)
            .collect(),
    )
}

/// What the home says to an attempt for which a quorum has voted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// It has voted too; or there is none that is worth waiting for.
    Yes,
    /// It has refused.
    No,
    /// This node, the home, has yet to answer.
    Awaited(usize),
}

/// The word of the home, which is the first node, in the [`order`] for `key`, that is not
/// out; yes if all are. One that `is_out` is not waited for.
pub(crate) fn word(
    key: &[u8],
    ids: impl Iterator<Item = u64>,
    heard: impl Fn(usize) -> Heard,
    is_out: impl Fn(usize) -> bool,
) -> Word {
    let word = |node: usize| match heard(node) {
        Heard::Out => None,
        Heard::Granted => Some(Word::Yes),
        Heard::Refused { .. } => Some(Word::No),
        Heard::Awaited | Heard::Unasked if is_out(node) => None,
        Heard::Awaited | Heard::Unasked => Some(Word::Awaited(node)),
    };
    let words = weights(key, ids).filter_map(|(weight, node)| Some((weight, node, word(node)?)));
    let home = words.max_by_key(|(weight, node, _)| (*weight, *node));
    home.map_or(Word::Yes, |(_, _, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REFUSED: Heard = Heard::Refused {
        left: None,
        line: None,
    };

    fn heard() -> impl Strategy<Value = Vec<Heard>> {
        let one = prop_oneof![
            Just(Heard::Awaited),
            Just(Heard::Granted),
            Just(REFUSED),
            Just(Heard::Out),
        ];
        proptest::collection::vec(one, 1..=7)
    }

    proptest! {
        /// Whatever the nodes have answered, of two contenders that none of
        /// them has left without an answer one goes on, and only one.
        #[test]
        fn one_of_two_goes_on(ours in heard(), key in any::<[u8; 4]>()) {
            let order = order(&key, 0..ours.len() as u64);
            // What one was granted the other was refused.
            let theirs: Vec<Heard> = ours
                .iter()
                .map(|heard| match heard {
                    Heard::Granted => REFUSED,
                    Heard::Refused { .. } => Heard::Granted,
                    other => *other,
                })
                .collect();
            let (we, they) = (next(&order, &ours), next(&order, &theirs));
            match we {
                Next::Pause => {
                    prop_assert!(ours.iter().all(|heard| *heard == Heard::Out));
                    prop_assert_eq!(they, Next::Pause);
                }
                Next::Yield(home) => {
                    prop_assert_eq!(ours[home], REFUSED);
                    prop_assert!(!matches!(they, Next::Yield(_) | Next::Pause));
                }
                Next::Retry(nodes) => {
                    prop_assert!(matches!(they, Next::Yield(_)));
                    prop_assert!(nodes.iter().all(|node| ours[node] != Heard::Granted));
                }
                Next::Await => prop_assert!(ours.contains(&Heard::Awaited)),
            }
        }

        /// All clients agree on the order, however they list the nodes.
        #[test]
        fn the_order_is_that_of_the_nodes(ids in proptest::collection::hash_set(any::<u64>(), 1..7)) {
            let ids: Vec<u64> = ids.into_iter().collect();
            let turned: Vec<u64> = ids.iter().rev().copied().collect();
            let named = |ids: &[u64]| -> Vec<u64> {
                order(b"lock:{k}", ids.iter().copied()).iter().map(|node| ids[*node]).collect()
            };
            prop_assert_eq!(named(&ids), named(&turned));
        }
    }

    #[test]
    fn the_first_that_is_there_has_the_word() {
        let (yes, asked, out) = (Heard::Granted, Heard::Awaited, Heard::Out);
        let order = order(b"lock:{k}", 0..3);
        for (heard, lame, expected) in [
            ([yes, REFUSED, yes], None, Word::Yes),
            ([REFUSED, yes, yes], None, Word::No),
            ([asked, yes, yes], None, Word::Awaited(order[0])),
            // One that is out, or known to be, is not the home.
            ([out, yes, REFUSED], None, Word::Yes),
            ([asked, REFUSED, yes], Some(0), Word::No),
            ([asked, yes, yes], Some(1), Word::Awaited(order[0])),
            ([out; 3], None, Word::Yes),
        ] {
            // In the order in which they are home.
            let place = |node| order.iter().position(|i| *i == node).unwrap();
            let lame = |node| lame == Some(place(node));
            let word = word(b"lock:{k}", 0..3, |node| heard[place(node)], lame);
            assert_eq!(word, expected, "{heard:?}");
        }
    }

    #[test]
    fn locks_have_different_homes() {
        let mut homes = [0; 5];
        for i in 0..1000_u32 {
            let ids = ["a", "b", "c", "d", "e"].map(|id| fnv1a(id.as_bytes()));
            homes[order(&i.to_le_bytes(), ids.into_iter())[0]] += 1;
        }
        assert!(
            homes.iter().all(|locks| (150..250).contains(locks)),
            "{homes:?}"
        );
    }
}
