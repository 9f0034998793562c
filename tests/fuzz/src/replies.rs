//! What a server sends, through the parser to the outcome: no panic, and
//! nothing unexpected is a vote.

use std::time::Duration;

use quorlock::sim::probe::{self, ProbeReply};
use quorlock::sim::{Op, Repair, Reply};

/// The first byte chooses the request.
pub(crate) const SEEDS: &[&[u8]] = &[
    b"\0:1\r\n",
    b"\0*4\r\n:1\r\n$3\r\n123\r\n$10\r\n1800000000\r\n$2\r\n17\r\n",
    b"\0*7\r\n:0\r\n:1500\r\n$6\r\nhost:1\r\n:-1\r\n:1\r\n$2\r\n12\r\n$1\r\n7\r\n",
    b"\0*5\r\n:0\r\n:17\r\n$0\r\n\r\n:3\r\n:0\r\n",
    b"\0*4\r\n:3\r\n:900\r\n$2\r\n12\r\n$1\r\n7\r\n",
    b"\0*4\r\n:7\r\n:3\r\n$2\r\n12\r\n$1\r\n7\r\n",
    b"\x01*3\r\n:5\r\n$2\r\n12\r\n$1\r\n7\r\n",
    b"\x01*4\r\n:2\r\n$1\r\n9\r\n$2\r\n12\r\n$1\r\n7\r\n",
    b"\x02*4\r\n:6\r\n$1\r\n9\r\n$2\r\n12\r\n$1\r\n7\r\n",
    b"\x03-NOSCRIPT No matching script\r\n",
    b"\x01-NOPERM this user has no permissions\r\n",
    b"\x02%1\r\n+a\r\n~2\r\n_\r\n#t\r\n,1.5\r\n",
    b"\x03$-1\r\n>2\r\n=7\r\ntxt:abc\r\n(123\r\n",
];
const TTL: Duration = Duration::from_secs(1);
/// A fence is below 2^53.
const BEYOND: u64 = 1 << 53;

pub(crate) fn run(data: &[u8]) {
    let Some((choice, mut bytes)) = data.split_first() else {
        return;
    };
    let op = match choice % 4 {
        0 => Op::Acquire {
            ttl: TTL,
            candidate: 0,
            home: true,
            let_in: false,
            block: 1,
        },
        1 => Op::Extend {
            ttl: TTL,
            repair: Repair::Yes,
            fence: 7,
            behind: 0,
        },
        2 => Op::Confirm {
            ttl: TTL,
            fence: 7,
            block: 1,
        },
        _ => Op::Release,
    };
    // As many replies as there are.
    while let Ok(Some((said, end))) = probe::read(op, bytes) {
        assert!(0 < end && end <= bytes.len());
        if let ProbeReply::Reply(reply, _) = &said {
            assert!(fits(op, reply), "{op:?} {reply:?}");
            assert!(!is_vote(reply) || says_so(&bytes[..end]), "{reply:?}");
        }
        assert!(probe::read_alike(bytes), "not as redis-rs reads it");
        let _ = probe::read_init(bytes);
        // Its beginning is not taken for the whole of it.
        assert!(!matches!(probe::read(op, &bytes[..end - 1]), Ok(Some(_))));
        bytes = &bytes[end..];
    }
}

/// Whether this may be an answer to that request.
fn fits(op: Op, reply: &Reply) -> bool {
    match (op, reply) {
        (_, Reply::Failed(_)) => true,
        (Op::Release, reply) => matches!(reply, Reply::Released { .. } | Reply::Kept),
        (_, Reply::Late) => true,
        // How long a script's vote lasts is for its ttl to say.
        (Op::Acquire { .. }, Reply::Granted { fence, lasts }) => *fence < BEYOND && lasts.is_none(),
        (Op::Acquire { .. }, Reply::Refused { .. } | Reply::Quarantined { .. }) => true,
        // Of a semaphore, which is no vote.
        (Op::Acquire { .. }, Reply::Chosen { .. }) => true,
        (Op::Extend { .. }, Reply::Extended { .. } | Reply::Quarantined { .. }) => true,
        // Of an acquire: what it was to take over is not there, or it was forced out.
        (Op::Acquire { .. } | Op::Extend { .. } | Op::Confirm { .. }, Reply::NotMine) => true,
        (Op::Extend { .. } | Op::Confirm { .. }, Reply::Banned) => true,
        (Op::Confirm { .. }, Reply::Confirmed) => true,
        (Op::Confirm { .. }, Reply::Greater { fence }) => *fence < BEYOND,
        _ => false,
    }
}

/// Whether a vote is counted for this.
fn is_vote(reply: &Reply) -> bool {
    matches!(
        reply,
        Reply::Granted { .. } | Reply::Extended { .. } | Reply::Confirmed
    )
}

/// Votes come as the number 1 or 2, alone or at the head of an array.
fn says_so(bytes: &[u8]) -> bool {
    let text = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).to_vec();
    let lines: Vec<Vec<u8>> = bytes.split(|b| *b == b'\n').take(2).map(text).collect();
    let code = |line: &[u8]| {
        let digits = line.strip_prefix(b":")?;
        std::str::from_utf8(digits).ok()?.parse::<i64>().ok()
    };
    let code = match bytes.first() {
        Some(b':') => code(&lines[0]),
        Some(b'*' | b'~' | b'>') => lines.get(1).and_then(|line| code(line)),
        _ => None,
    };
    matches!(code, Some(1 | 2))
}
