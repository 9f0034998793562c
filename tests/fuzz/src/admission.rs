//! `INFO` and a record, at the first `|`, as a server may send them: no panic,
//! and only a record that says what the client expects lets a node vote.

use std::time::Duration;

use quorlock::sim::Instant;
use quorlock::sim::admission::{Decision, Expected, Info, Roster, decide};

use crate::halves;

pub(crate) const SEEDS: &[&[u8]] = &[
    b"redis_version:7.0.15\r\nrun_id:abcdefabcdefabcdef\r\nrole:master\r\nmaxmemory:0\r\n|1 s 1 3 60000 n1 abcdefabcdefabcd",
    b"redis_version:6.0.1\r\nrun_id:ab\r\n|1 s 1 3 60000 n1 -",
    b"role:slave\r\nmaster_host:h\r\nmaster_port:1\r\n|1 t 1 3 60000 n1 r",
    b"maxmemory:9\r\nmaxmemory_policy:allkeys-lru\r\n|2 s 1 3 60000 n1 r",
    b"run_id:\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9x\xc3\xa9|1 s 18446744073709551615 3 60000 n1 r",
    b"|",
];

pub(crate) fn run(data: &[u8]) {
    let (info, stored) = halves(data, b'|');
    // As connections read them.
    let info = Info::parse(&String::from_utf8_lossy(info));
    let stored = String::from_utf8_lossy(stored).into_owned();
    for accept in [true, false] {
        let _ = info.unfit(accept);
    }
    let run = info.run_id.as_deref();
    for guard in [true, false] {
        let expected = Expected {
            set_name: "s".into(),
            nodes: 3,
            max_ttl: 60_000,
            guard,
        };
        for epoch in [None, Some(1)] {
            decided(&expected, &stored, run, epoch);
            let none = decide(&expected, None, run, epoch, "fresh");
            assert!(matches!(none, Decision::Write { quarantine, .. } if quarantine == guard));
        }
    }
    let now = Instant(0);
    let roster = Roster::new(Duration::from_secs(1));
    let _ = roster.meet(0, "a", run, now);
    let _ = roster.admit(0, &stored, now);
    let _ = roster.meet(1, "b", run, now);
    let _ = roster.admit(1, &stored, now);
    let _ = roster.epoch(1);
}

fn decided(expected: &Expected, stored: &str, run: Option<&str>, epoch: Option<u64>) {
    let decision = decide(expected, Some(stored), run, epoch, "fresh");
    let words: Vec<&str> = stored.split(' ').collect();
    match decision {
        Decision::Refuse(why) => assert!(!why.is_empty() && why.len() < 100_000),
        Decision::Admit => {
            assert_eq!((words.len(), words[0], words[1]), (7, "1", "s"));
            assert_eq!(words[3].parse(), Ok(3));
            assert!(!expected.guard || words[4].parse() == Ok(60_000));
            let same = run.is_none_or(|run| run.starts_with(words[6]) || words[6] == run);
            assert!(!expected.guard || same, "of another run");
        }
        Decision::Write { record, quarantine } => {
            assert!(quarantine && expected.guard, "only after a restart");
            // Then it is good, unless its set has another max_ttl.
            let written = record.to_string();
            let next = decide(expected, Some(&written), run, epoch, "x");
            assert!(!matches!(next, Decision::Write { .. }), "{written}");
        }
    }
}
