//! A native acquire as a client writes it: plain commands, and the trailer of its write.

use quorlock::sim::names::{quarantine_key, record_key};
use quorlock::sim::{Op, Request};

use crate::calls::NAMESPACE;
use crate::server::command;

/// The fence that it proposes.
pub fn fence(request: &Request) -> Option<u64> {
    match request.op {
        Op::Acquire { candidate, .. } if request.keys.fence_ttl.is_some() => {
            Some(candidate).filter(|fence| *fence != 0 && request.not_after != 0)
        }
        _ => None,
    }
}

/// Its commands.
pub fn commands(request: &Request) -> Vec<u8> {
    let Op::Acquire { ttl, .. } = request.op else {
        return Vec::new();
    };
    let (word, end): (&[u8], u128) = match request.not_after {
        0 => (b"PX", ttl.as_millis()),
        end => (b"PXAT", u128::from(end / 1000)),
    };
    let end = end.to_string();
    let vote: [&[u8]; 6] = [
        b"SET",
        &request.keys.lock,
        &request.value.0,
        b"NX",
        word,
        end.as_bytes(),
    ];
    let mut all = command(&vote);
    if let (Some(fence), Some((counter, ttl))) = (fence(request), request.keys.counter()) {
        let fence = fence.to_string();
        let life = (ttl + ttl / 4).as_millis().to_string();
        all.extend(command(&[
            b"ZADD",
            counter,
            b"GT",
            b"CH",
            fence.as_bytes(),
            b"f",
        ]));
        all.extend(command(&[b"PEXPIRE", counter, life.as_bytes()]));
    }
    all.extend(command(&[
        b"MGET",
        &record_key(NAMESPACE),
        &quarantine_key(NAMESPACE),
    ]));
    all.extend(command(&[b"TIME"]));
    all
}
