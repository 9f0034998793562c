//! Two names, at the first `|`: no panic, and distinct names share no key of
//! any kind.

use quorlock::sim::names::{Naming, aux, lock_key, quarantine_key, record_key};

use crate::halves;

pub(crate) const SEEDS: &[&[u8]] = &[
    b"orders:42|buy_{7}",
    b"{x}|x",
    b"#f:{x}|#x",
    b"a{}b{c}|{a}{b}",
    b"}{|\xff\0\r\n",
];
const NAMESPACE: &str = "lock:";

struct Keys {
    lock: Vec<u8>,
    /// The counter's and the queue's.
    others: [Vec<u8>; 2],
}

fn keys(name: &[u8], naming: Naming) -> Option<Keys> {
    let lock = lock_key(NAMESPACE, name, naming).ok()?;
    let all = aux(NAMESPACE, &lock, naming);
    let others = [all.counter(), all.queue()].map(<[u8]>::to_vec);
    Some(Keys { lock, others })
}

/// The part that Redis hashes, written from its specification: between the
/// first `{` and the first `}` behind it, unless nothing is there.
fn hashed(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|b| *b == b'{') else {
        return key;
    };
    match key[open + 1..].iter().position(|b| *b == b'}') {
        Some(0) | None => key,
        Some(length) => &key[open + 1..open + 1 + length],
    }
}

/// `{x}` and `x` are one name.
fn canonical(name: &[u8]) -> &[u8] {
    let tag = hashed(name);
    if tag.len() + 2 == name.len() {
        tag
    } else {
        name
    }
}

pub(crate) fn run(data: &[u8]) {
    let (a, b) = halves(data, b'|');
    for naming in [Naming::Tagged, Naming::Raw] {
        for name in [a, b] {
            let Some(keys) = keys(name, naming) else {
                continue;
            };
            assert!(!name.is_empty() && name.len() <= 1024);
            for (other, mark) in keys.others.iter().zip(["lock:#f:", "lock:#q:"]) {
                assert!(other.starts_with(mark.as_bytes()));
            }
            // Braces that form no tag hash as nothing around them does.
            if hashed(name) != name || !name.iter().any(|b| matches!(b, b'{' | b'}')) {
                for other in &keys.others {
                    assert_eq!(hashed(&keys.lock), hashed(other), "one slot");
                }
            }
            if naming == Naming::Tagged {
                assert!(keys.lock.starts_with(b"lock:") && !keys.lock.starts_with(b"lock:#"));
                assert!(
                    keys.lock != record_key(NAMESPACE) && keys.lock != quarantine_key(NAMESPACE)
                );
            } else {
                assert_eq!(keys.lock, name);
            }
        }
    }
    for (one, other) in [(Naming::Tagged, Naming::Tagged), (Naming::Raw, Naming::Raw)] {
        if let (Some(x), Some(y)) = (keys(a, one), keys(b, other)) {
            let same = match one {
                Naming::Tagged => canonical(a) == canonical(b),
                Naming::Raw => a == b,
            };
            assert_eq!(x.lock == y.lock, same);
            for (one, other) in x.others.iter().zip(&y.others) {
                assert_eq!(one == other, same);
            }
        }
    }
    // What belongs to a raw name is nobody's else.
    if let (Some(x), Some(y)) = (keys(a, Naming::Raw), keys(b, Naming::Tagged)) {
        for (one, other) in x.others.iter().zip(&y.others) {
            assert_ne!(one, other);
            assert_ne!(*one, y.lock);
        }
    }
}
