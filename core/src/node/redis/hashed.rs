//! How the scripts of a lock in Redisson's layout are called: `hacquire`, `hextend` and
//! `hrelease` of docs/reference/protocol.md. This file and that page change together.

use super::resp;
use super::script::{self, Guard, HACQUIRE, HEXTEND, HRELEASE, Script, millis};
use crate::node::{Op, Request, names};

/// Whether the request is one to a lock in Redisson's layout. Looking is the same for all.
pub(crate) fn is_meant(request: &Request) -> bool {
    request.keys.field.is_some() && request.op != Op::Inspect
}

/// The script that carries a request out to such a lock.
pub(crate) fn of(request: &Request) -> &'static Script {
    match request.op {
        Op::Acquire { .. } => &HACQUIRE,
        Op::Release => &HRELEASE,
        _ => &HEXTEND,
    }
}

/// Appends the script call for a request to such a lock.
pub(crate) fn write_command(
    out: &mut Vec<u8>,
    request: &Request,
    guard: Option<&Guard>,
    in_cluster: bool,
    with_text: bool,
) {
    let Some(field) = &request.keys.field else {
        unreachable!("it is asked for by an owner's field");
    };
    let releases = request.op == Op::Release;
    let keys = if releases {
        2
    } else {
        3 + 2 * usize::from(guard.is_some())
    };
    resp::write_array(out, 3 + keys + if releases { 4 } else { 8 });
    script::write_script(out, of(request), with_text);
    resp::write_number(out, keys as u64);
    let aux = &request.keys.aux;
    resp::write_text(out, &request.keys.lock);
    resp::write_text(out, aux.queue());
    if !releases {
        resp::write_text(out, aux.counter());
        if let Some(guard) = guard {
            resp::write_text(out, &guard.record_key);
            resp::write_text(out, &guard.quarantine_key);
        }
    }
    resp::write_text(out, &field.name);
    resp::write_text(out, &request.value.0);
    let (fence, block) = match request.op {
        Op::Acquire {
            ttl,
            candidate,
            block,
            ..
        } => {
            resp::write_number(out, millis(ttl));
            resp::write_text(out, &channel(request).unwrap_or_default());
            (candidate, block)
        }
        Op::Extend {
            ttl, repair, fence, ..
        } => {
            resp::write_number(out, millis(ttl));
            resp::write_number(out, script::mode(repair));
            (fence, 1)
        }
        Op::Confirm { ttl, fence, block } => {
            resp::write_number(out, millis(ttl));
            resp::write_number(out, 3);
            (fence, block)
        }
        _ => {
            resp::write_text(out, &names::redisson_channel(&request.keys.lock));
            // Redisson listens on sharded channels where there are shards, whether the client has a
            // guard or not.
            let publish: &[u8] = if in_cluster { b"SPUBLISH" } else { b"PUBLISH" };
            return resp::write_text(out, publish);
        }
    };
    resp::write_text(out, guard.map_or(b"", |guard| guard.record.as_bytes()));
    resp::write_number(out, script::not_after(request));
    match request.keys.counter() {
        Some(_) => resp::write_number(out, fence),
        None => resp::write_text(out, b""),
    }
    resp::write_number(out, block.into());
}

/// The channel on which a server announces that the lock is free; for an acquire that waits at its
/// home.
pub(crate) fn channel(request: &Request) -> Option<Vec<u8>> {
    let home = matches!(request.op, Op::Acquire { home: true, .. });
    let waits = home && request.waiter.is_some() && request.keys.field.is_some();
    waits.then(|| names::redisson_channel(&request.keys.lock))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::node::{AfterRelease, Field, Keys, Mode, Value, Waits};

    #[test]
    fn java_is_told_by_a_sharded_channel_in_a_cluster_guarded_or_not() {
        let request = Request {
            op: Op::Release,
            native: false,
            keys: Arc::new(Keys {
                lock: b"q"[..].into(),
                aux: names::redisson("lock:", b"q"),
                waits: Waits {
                    reservation: Duration::ZERO,
                    place: Duration::ZERO,
                    most: 0,
                },
                fence_ttl: None,
                mode: Mode::Exclusive,
                adopts: None,
                field: Some(Field {
                    name: b"java:1"[..].into(),
                    shared: true,
                }),
            }),
            value: Value(b"a."[..].into()),
            waiter: None,
            leaving: AfterRelease::Free,
            not_after: 0,
        };
        let guard = Guard::shard_of(b"lock:#quarantine"[..].into());
        for guard in [None, Some(&guard)] {
            for in_cluster in [true, false] {
                let mut out = Vec::new();
                write_command(&mut out, &request, guard, in_cluster, false);
                let sharded = out.windows(8).any(|word| word == b"SPUBLISH");
                assert_eq!(sharded, in_cluster);
            }
        }
    }
}
