//! The keys of a lock go together: those that are beside its own are named after it, in its namespace. "Keys".

use quorlock::sim::{Keys, Mode};

/// Where the mark stands that the names of keys differ in, and what is before and behind it.
fn parted<'a>(key: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = key.windows(mark.len()).position(|part| part == mark)?;
    Some((&key[..at], &key[at + mark.len()..]))
}

/// The name of a raw lock, from what stands for it in the names of its other keys.
fn raw(tag: &[u8]) -> Option<&[u8]> {
    match tag.strip_prefix(b"#")? {
        [b'#', b'#', name @ ..] | [b'#', name @ ..] => Some(name),
        [b'{', name @ .., b'}'] => Some(name),
        _ => None,
    }
}

/// What is wrong with the keys of a request, if anything is.
pub fn wrong(keys: &Keys) -> Option<String> {
    let (lock, queue, counter) = (&*keys.lock, keys.aux.queue(), keys.aux.counter());
    let slot = match keys.mode {
        Mode::AnySlot(_) => Some(String::new()),
        Mode::Slot(slot) => Some(slot.to_string()),
        Mode::Exclusive | Mode::Shared => None,
    };
    let named = |slot: &str| {
        let (space, tag) = parted(queue, b"#pq:")?;
        let own = |mark: String| [space, mark.as_bytes(), tag].concat();
        Some(lock == own(format!("#p{slot}:")) && counter == own(format!("#pf{slot}:")))
    };
    let plain = || {
        let (space, tag) = parted(queue, b"#q:")?;
        let own = [space, tag].concat();
        let is_own = *lock == *own || raw(tag) == Some(lock);
        Some(is_own && counter == [space, &b"#f:"[..], tag].concat())
    };
    let right = match slot {
        Some(slot) => named(&slot),
        None => plain(),
    };
    let shown = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    (right != Some(true)).then(|| {
        let (lock, queue, counter) = (shown(lock), shown(queue), shown(counter));
        format!("asks for {lock} with the queue {queue} and the counter {counter}")
    })
}
