//! From a lock's name to its keys (docs/reference/protocol.md, "Keys").
//!
//! Distinct names never share a key, and all keys of one name share a hash
//! slot. A name with a hash tag of its own is used as it is; any other name
//! becomes the tag. `{x}` and `x` are one name. A raw name is the key, and so one that a
//! tagged name of this namespace could have, or what goes with it, is refused.

use super::AuxKeys;
use crate::error::Error;
use crate::given;

/// The longest name, in bytes.
pub(crate) const MAX_NAME: usize = 1024;

/// How a lock's name becomes its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Under the namespace, with a hash tag: `lock:{orders:42}`.
    Tagged,
    /// The name itself, as other Redlock libraries do.
    Raw,
}

/// The lock key for `name`, or why the name is refused.
pub fn lock_key(namespace: &str, name: &[u8], naming: Naming) -> Result<Vec<u8>, Error> {
    if name.is_empty() {
        return Err(Error::invalid("a lock name must not be empty"));
    }
    if name.len() > MAX_NAME {
        return Err(Error::invalid(format!(
            "the lock name has {} bytes; at most {MAX_NAME} are allowed: use a digest of it",
            name.len()
        )));
    }
    given::check("the lock name", name).map_err(Error::invalid)?;
    // A raw name inside the namespace could be the key of another lock, or one that goes with it.
    if naming == Naming::Raw {
        let inside = is_inside(namespace, name);
        return if inside {
            Err(Error::invalid(format!(
                "the lock name is a key as it stands, and begins with the namespace `{namespace}` as \
                 keys of Quorlock's own do: begin it otherwise, or choose another namespace"
            )))
        } else {
            Ok(name.to_vec())
        };
    }
    let tagged = match hash_tag(name) {
        Some(_) => {
            // Such a name could look like a key that goes with a lock.
            if name[0] == b'#' {
                return Err(Error::invalid(
                    "the lock name has a hash tag and begins with `#`, which is kept for \
                     Quorlock's own keys: begin it otherwise",
                ));
            }
            true
        }
        // Braces without a tag would put the lock and the keys beside it in different hash slots.
        None if name.iter().any(|b| matches!(b, b'{' | b'}')) => {
            return Err(Error::invalid(format!(
                "the lock name is {}, and has braces that do not form a hash tag: write `{{tag}}` \
                 or leave the braces out",
                given::shown("name", &String::from_utf8_lossy(name))
            )));
        }
        None => false,
    };
    let mut key = Vec::with_capacity(namespace.len() + name.len() + 2);
    key.extend_from_slice(namespace.as_bytes());
    if tagged {
        key.extend_from_slice(name);
    } else {
        key.push(b'{');
        key.extend_from_slice(name);
        key.push(b'}');
    }
    Ok(key)
}

/// Whether both are names of one lock.
pub(crate) fn is_same(naming: Naming, ours: &[u8], other: &[u8]) -> bool {
    let key = |name| lock_key("", name, naming).ok();
    ours == other || (key(ours) == key(other))
}

/// Whether a lock of this namespace that is not raw may have this key, or what goes with one, or
/// with the node.
fn is_inside(namespace: &str, key: &[u8]) -> bool {
    let rest = key.strip_prefix(namespace.as_bytes());
    rest.is_some_and(|rest| rest.starts_with(b"#") || hash_tag(rest).is_some())
}

/// The name of the lock whose key that is: the inverse of [`lock_key`] for tagged names. `None`
/// for any other key.
pub fn name_of(namespace: &str, key: &[u8]) -> Option<Vec<u8>> {
    let name = key.strip_prefix(namespace.as_bytes())?;
    let tagged = name
        .strip_prefix(b"{")
        .and_then(|rest| rest.strip_suffix(b"}"));
    let plain = tagged.filter(|name| !name.iter().any(|b| matches!(b, b'{' | b'}')));
    let name = plain.unwrap_or(name);
    (lock_key(namespace, name, Naming::Tagged).ok()? == key).then(|| name.to_vec())
}

/// How many slots a semaphore may have. The bound exists because a request looks at all of them.
pub(crate) const MOST_SLOTS: u32 = 128;

/// The name of the semaphore of which that is a slot's lock, and the number of the slot. `None` for any other key,
/// and for a slot that no semaphore has.
pub fn slot_of(namespace: &str, key: &[u8]) -> Option<(Vec<u8>, u32)> {
    let rest = key
        .strip_prefix(namespace.as_bytes())?
        .strip_prefix(b"#p")?;
    let end = rest.iter().position(|byte| *byte == b':')?;
    let number = std::str::from_utf8(&rest[..end]).ok()?;
    let slot = number
        .parse()
        .ok()
        .filter(|slot: &u32| *slot < MOST_SLOTS && slot.to_string() == number)?;
    let name = name_of(
        namespace,
        &[namespace.as_bytes(), &rest[end + 1..]].concat(),
    )?;
    Some((name, slot))
}

/// The other keys of the lock that `key` belongs to, each with a mark of its own:
/// `q` the queue, `f` the counter of fences, `s` [those that share it](AuxKeys::shared),
/// `x` the [bans](AuxKeys::bans).
///
/// Behind it those of a raw name have a `#`, with which no other name begins, and then
/// `{name}` where it has no braces, `#name` where it has a hash tag, `##name` where it has
/// braces that form none. No two of these are alike: the first has a brace where the others
/// have a `#`, and a `#` in front makes no tag and ends none. They share the slot of the lock's
/// own key but for the third, since no key around such a name hashes as the name does.
pub fn aux(namespace: &str, key: &[u8], naming: Naming) -> AuxKeys {
    let tail: [&[u8]; 3] = match naming {
        Naming::Tagged => [b"", &key[namespace.len()..], b""],
        Naming::Raw if hash_tag(key).is_some() => [b"##", key, b""],
        Naming::Raw if key.iter().any(|b| matches!(b, b'{' | b'}')) => [b"###", key, b""],
        Naming::Raw => [b"#{", key, b"}"],
    };
    let space = namespace.as_bytes();
    let named = |mark: &[u8]| [space, mark, tail[0], tail[1], tail[2]].concat();
    AuxKeys::of(&named(b"#q:"), &named(b"#f:"))
}

/// The keys of a lock in Redisson's layout, beside its own, which is the name: where the tokens
/// are, and Redisson's counter of fences (`RedissonFencedLock`).
pub fn redisson(namespace: &str, name: &[u8]) -> AuxKeys {
    let mut tokens = aux(namespace, name, Naming::Raw).queue().to_vec();
    tokens[namespace.len() + 1] = b'h';
    AuxKeys::of(&tokens, &prefixed(b"redisson_lock_token", name))
}

/// The channel on which Redisson tells that such a lock is free (`RedissonLock`).
pub(crate) fn redisson_channel(name: &[u8]) -> Vec<u8> {
    prefixed(b"redisson_lock__channel", name)
}

/// As Redisson names what goes with a lock (`RedissonObject.prefixName`): so that it is in the
/// hash slot of the lock itself.
fn prefixed(prefix: &[u8], name: &[u8]) -> Vec<u8> {
    if name.contains(&b'{') {
        [prefix, b":", name].concat()
    } else {
        [prefix, b":{", name, b"}"].concat()
    }
}

/// Whether all keys of a raw name are in the hash slot of the name itself.
pub(crate) fn shares_hash_slot(name: &[u8]) -> bool {
    hash_tag(name).is_some() || !name.iter().any(|b| matches!(b, b'{' | b'}'))
}

/// The keys of a semaphore of that name, whose lock would have this `key`: one by which it is
/// known, under which nothing is stored, and those that go with it, among which that of the
/// counter is stored under neither. [`Keys::of_slot`](super::Keys::of_slot) makes the others of them.
pub fn semaphore(namespace: &str, key: &[u8]) -> (Vec<u8>, AuxKeys) {
    let named = |mark: &[u8]| [namespace.as_bytes(), mark, &key[namespace.len()..]].concat();
    (named(b"#p:"), AuxKeys::of(&named(b"#pq:"), &named(b"#pf:")))
}

/// The key of a node's record.
pub fn record_key(namespace: &str) -> Vec<u8> {
    format!("{namespace}#node").into_bytes()
}

/// The key of a node's quarantine.
pub fn quarantine_key(namespace: &str) -> Vec<u8> {
    format!("{namespace}#quarantine").into_bytes()
}

/// The key of a lock that no client has: of a heartbeat, with this tag.
pub(crate) fn beat_key(namespace: &str, tag: &str) -> Vec<u8> {
    format!("{namespace}#beat:{{{tag}}}").into_bytes()
}

/// The part of a key that Redis hashes: between the first `{` and the first
/// `}` after it, unless that is empty (Redis cluster specification, "Hash
/// tags").
pub(crate) fn hash_tag(name: &[u8]) -> Option<&[u8]> {
    let open = name.iter().position(|&b| b == b'{')?;
    let length = name[open + 1..].iter().position(|&b| b == b'}')?;
    (length > 0).then(|| &name[open + 1..open + 1 + length])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::node::{Keys, Mode, Waits};
    use proptest::prelude::*;

    fn key(name: &str) -> Result<String, String> {
        lock_key("lock:", name.as_bytes(), Naming::Tagged)
            .map(|k| String::from_utf8(k).unwrap())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn names_become_keys() {
        assert_eq!(key("orders:42").unwrap(), "lock:{orders:42}");
        assert_eq!(key("buy_{7}").unwrap(), "lock:buy_{7}");
        assert_eq!(key("{x}").unwrap(), key("x").unwrap());
        let same = |naming| is_same(naming, b"{x}", b"x");
        assert!(same(Naming::Tagged) && !same(Naming::Raw));
        assert!(!is_same(Naming::Tagged, b"x", b"y") && !is_same(Naming::Tagged, b"x", b"}"));
        assert_eq!(key("#x").unwrap(), "lock:{#x}");
        assert_eq!(lock_key("lock:", b"{", Naming::Raw).unwrap(), b"{".to_vec());
    }

    proptest! {
        #[test]
        fn a_key_tells_its_name(name in proptest::collection::vec(proptest::sample::select(b"ab#{}:".to_vec()), 1..9)) {
            if let Ok(key) = lock_key("lock:", &name, Naming::Tagged) {
                let told = name_of("lock:", &key).unwrap();
                // The names `{x}` and `x` mean one lock.
                prop_assert_eq!(lock_key("lock:", &told, Naming::Tagged).unwrap(), key);
            }
        }
    }

    #[test]
    fn other_keys_tell_no_name() {
        for key in [
            "lock:#node",
            "lock:#f:{a}",
            "lock:#q:{a}",
            "lock:#x:b{a}",
            "lock:#p:{a}",
            "lock:#p3:{a}",
            "lock:#pq:b{a}",
            "lock:a",
            "lock:{}",
            "{a}",
        ] {
            assert_eq!(name_of("lock:", key.as_bytes()), None, "{key}");
        }
    }

    #[test]
    fn a_raw_name_is_no_key_of_the_namespace() {
        let raw = |name: &str| lock_key("lock:", name.as_bytes(), Naming::Raw);
        for name in [
            "lock:{x}",
            "lock:a{x}b",
            "lock:#node",
            "lock:#quarantine",
            "lock:#f:{x}",
            "lock:#",
        ] {
            let error = raw(name).unwrap_err().to_string();
            assert!(
                error.contains("begins with the namespace `lock:`"),
                "{error}"
            );
            // In Redisson's layout names are keys, too; the error must not speak of raw names, for
            // its users never ask for those.
            assert!(!error.contains("raw"), "{error}");
        }
        // The library python-redis-lock has such keys.
        for name in [
            "lock:x",
            "lock:",
            "lock:{x",
            "lock:{}x",
            "other:{x}",
            "#node",
            "{x}",
        ] {
            assert_eq!(raw(name).unwrap(), name.as_bytes());
        }
    }

    #[test]
    fn what_goes_with_half_a_hash_tag_is_named_as_redisson_does_it() {
        for (name, behind) in [
            ("a", "{a}"),
            ("a{t}", "a{t}"),
            ("{x", "{x"),
            ("{}x", "{}x"),
            ("x}", "{x}}"),
        ] {
            let name = name.as_bytes();
            let counter = format!("redisson_lock_token:{behind}");
            assert_eq!(redisson("lock:", name).counter(), counter.as_bytes());
            // The key that keeps tokens in Redisson's layout is the queue of other layouts, so
            // neither the lock nor a raw lock of that name has a queue.
            let tokens = redisson("lock:", name);
            assert!(tokens.queue().starts_with(b"lock:#h:#"));
            let channel = format!("redisson_lock__channel:{behind}");
            assert_eq!(redisson_channel(name), channel.as_bytes());
        }
    }

    #[test]
    fn half_a_hash_tag_is_none_and_has_keys_in_several_hash_slots() {
        for (name, shares) in [
            ("a", true),
            ("a{t}", true),
            ("{t}}", true),
            ("{x", false),
            ("x}", false),
            ("{}x", false),
            ("}x{", false),
        ] {
            assert_eq!(shares_hash_slot(name.as_bytes()), shares, "{name}");
        }
    }

    #[test]
    fn bad_names_are_refused_with_the_reason() {
        for (name, reason) in [
            ("", "empty"),
            ("a{b", "braces"),
            ("a}b", "braces"),
            ("{}", "braces"),
            ("#f:{x}", "begins with `#`"),
        ] {
            let error = key(name).unwrap_err();
            assert!(error.contains(reason), "{name}: {error}");
        }
        assert!(key(&"x".repeat(1024)).is_ok());
        assert!(key(&"x".repeat(1025)).unwrap_err().contains("1025 bytes"));
    }

    /// A name built of the characters that matter to the rule.
    fn name() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(proptest::sample::select(b"{}#ab:qfsx\xff\0".to_vec()), 0..8)
    }

    /// What Redis hashes of a key.
    fn hashed(key: &[u8]) -> &[u8] {
        hash_tag(key).unwrap_or(key)
    }

    #[test]
    fn companions_of_raw_names() {
        for (name, counter) in [
            ("jobs", "lock:#f:#{jobs}"),
            ("#jobs", "lock:#f:#{#jobs}"),
            ("buy_{7}", "lock:#f:##buy_{7}"),
            ("}{7}", "lock:#f:##}{7}"),
            ("a{b", "lock:#f:###a{b"),
            ("{}{7}", "lock:#f:###{}{7}"),
            ("jobs}", "lock:#f:###jobs}"),
        ] {
            let all = aux("lock:", name.as_bytes(), Naming::Raw);
            assert_eq!(all.counter(), counter.as_bytes());
            assert_eq!(all.queue(), counter.replace("#f", "#q").as_bytes());
            assert_eq!(all.bans(), counter.replace("#f", "#x").as_bytes());
            assert_eq!(all.shared(), counter.replace("#f", "#s").as_bytes());
        }
    }

    /// The canonical form: `{x}` and `x` are one name.
    fn canonical(name: &[u8]) -> Vec<u8> {
        match hash_tag(name) {
            Some(tag) if tag.len() + 2 == name.len() => tag.to_vec(),
            _ => name.to_vec(),
        }
    }

    proptest! {
        #[test]
        fn distinct_names_never_share_a_key(a in name(), b in name()) {
            let key = |n: &[u8]| lock_key("lock:", n, Naming::Tagged).ok();
            if let (Some(x), Some(y)) = (key(&a), key(&b)) {
                prop_assert_eq!(x == y, canonical(&a) == canonical(&b));
            }
        }

        #[test]
        fn a_raw_name_never_has_a_key_of_another(a in name(), b in name(), inside in any::<bool>()) {
            let b = if inside { [b"lock:", &b[..]].concat() } else { b };
            let (Ok(x), Ok(y)) = (lock_key("lock:", &a, Naming::Tagged), lock_key("lock:", &b, Naming::Raw)) else {
                return Ok(());
            };
            prop_assert!(x != y);
            let all = aux("lock:", &x, Naming::Tagged);
            for other in [all.queue(), all.counter(), &all.bans()[..], &all.shared()] {
                prop_assert!(other != y);
            }
        }

        #[test]
        fn distinct_names_never_share_a_companion(a in name(), b in name(), raw in any::<(bool, bool)>()) {
            let naming = |raw| if raw { Naming::Raw } else { Naming::Tagged };
            let keys = |n: &[u8], naming| {
                let key = lock_key("lock:", n, naming).ok()?;
                let all = aux("lock:", &key, naming);
                Some((key, [all.queue().to_vec(), all.counter().to_vec(), all.bans(), all.shared()]))
            };
            if let (Some(x), Some(y)) = (keys(&a, naming(raw.0)), keys(&b, naming(raw.1))) {
                let same = raw.0 == raw.1 && x.0 == y.0;
                for (i, one) in x.1.iter().enumerate() {
                    prop_assert!(one.starts_with(b"lock:#"));
                    for (j, other) in y.1.iter().enumerate() {
                        prop_assert_eq!(one == other, same && i == j);
                    }
                }
            }
        }

        #[test]
        fn a_semaphore_shares_no_key_with_anything(a in name(), b in name(), slots in any::<(u8, u8)>()) {
            let key = |n: &[u8]| lock_key("lock:", n, Naming::Tagged).ok();
            let (Some(x), Some(y)) = (key(&a), key(&b)) else { return Ok(()) };
            let slot = |key: &[u8], slot: u8| {
                let (lock, aux) = semaphore("lock:", key);
                let keys = Keys {
                    lock: lock.into(),
                    aux,
                    waits: Waits {
                        reservation: Duration::ZERO,
                        place: Duration::ZERO,
                        most: 0,
                    },
                    fence_ttl: None,
                    mode: Mode::AnySlot(128),
                    adopts: None,
                    field: None,
                };
                keys.of_slot(slot.into())
            };
            let (one, other) = (slot(&x, slots.0), slot(&y, slots.1));
            let same = x == y && slots.0 == slots.1;
            prop_assert_eq!(one.lock == other.lock, same);
            // The lock is compared by its key, for it may have two names, with its braces and
            // without.
            let found = slot_of("lock:", &one.lock).map(|(name, slot)| (key(&name), slot));
            prop_assert_eq!(found, (slots.0 < 128).then(|| (Some(x.clone()), slots.0.into())));
            for key in [&x, one.aux.queue(), one.aux.counter()] {
                prop_assert_eq!(slot_of("lock:", key), None);
            }
            prop_assert_eq!(one.aux.counter() == other.aux.counter(), same);
            // The queue and the bans are keys of all slots together, and share one hash slot.
            for all in [|k: &Keys| k.aux.queue().to_vec(), |k: &Keys| k.aux.bans()] {
                let (one, other) = (all(&one), all(&other));
                prop_assert_eq!(one == other, x == y);
                prop_assert_eq!(hashed(&one), hashed(&x));
            }
            prop_assert_eq!(hashed(&one.lock), hashed(&x));
            prop_assert_eq!(hashed(one.aux.counter()), hashed(&x));
            let others = aux("lock:", &y, Naming::Tagged);
            let others = [y, others.queue().to_vec(), others.counter().to_vec(), others.bans(), others.shared()];
            let own = [one.lock.to_vec(), one.aux.queue().to_vec(), one.aux.counter().to_vec(),
                       one.aux.bans(), one.aux.shared()];
            prop_assert!(own.iter().all(|key| !others.contains(key)));
            prop_assert_eq!(own.iter().collect::<BTreeSet<_>>().len(), own.len());
        }

        #[test]
        fn companions_share_the_slot_of_their_lock(a in name(), raw in any::<bool>()) {
            let naming = if raw { Naming::Raw } else { Naming::Tagged };
            if let Ok(key) = lock_key("lock:", &a, naming) {
                let all = aux("lock:", &key, naming);
                let braces = a.iter().any(|b| matches!(b, b'{' | b'}'));
                let shared = !raw || hash_tag(&a).is_some() || !braces;
                for other in [all.queue(), all.counter(), &all.bans()[..], &all.shared()] {
                    prop_assert_eq!(hashed(other) == hashed(&key), shared);
                }
            }
        }

        #[test]
        fn a_lock_key_is_no_companion_key(a in name()) {
            // No lock key begins as the keys beside it do: `lock:#f:…`, `lock:#q:…`, `lock:#s:…`,
            // `lock:#x:…`, `lock:#node`, `lock:#quarantine`.
            if let Ok(key) = lock_key("lock:", &a, Naming::Tagged) {
                prop_assert!(!key.starts_with(b"lock:#"));
                prop_assert!(hash_tag(&key).is_some());
            }
        }
    }
}
