//! `INFO` and a record, at the first `|`, as a server may send them: no panic,
//! and only a record that says what the client expects lets a node vote.

use std::time::Duration;

use quorlock::sim::Instant;
use quorlock::sim::admission::{
    Admission, Expectation, Info, Newness, Observation, Record, Refusal, Roster, Survey,
    may_have_voted,
};

use crate::halves;

pub(crate) const SEEDS: &[&[u8]] = &[
    b"redis_version:7.0.15\r\nrun_id:abcdefabcdefabcdef\r\nrole:master\r\nmaxmemory:0\r\n|1 s 1 3 60000 n1 abcdefabcdefabcd on",
    b"redis_version:6.0.1\r\nrun_id:ab\r\n|1 s 0 3 60000 n1 - off",
    b"role:slave\r\nmaster_host:h\r\nmaster_port:1\r\n|1 t 1 3 60000 n1 r on",
    b"maxmemory:9\r\nmaxmemory_policy:allkeys-lru\r\n|2 s 1 3 60000 n1 r on",
    b"run_id:\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9x\xc3\xa9|1 s 18446744073709551615 3 60000 n1 r on",
    b"uptime_in_seconds:99\r\nevicted_keys:0\r\nmaster_replid2:000\r\ncmdstat_info:calls=1\r\n|",
    b"|",
];

pub(crate) fn run(data: &[u8]) {
    let (info, stored) = halves(data, b'|');
    // As connections read them.
    let text = String::from_utf8_lossy(info);
    let info = Info::parse(&text);
    let stored = String::from_utf8_lossy(stored).into_owned();
    for accept in [true, false] {
        let _ = info.unfit(accept);
    }
    let run = info.run.as_deref().map(|run| run.get(..16).unwrap_or(run));
    for guard in [true, false] {
        let expected = Expectation::new("s", 3, Duration::from_secs(60), 0.01, guard);
        let newness = info.newness(&text, expected.quarantine);
        if let Newness::Young(left) = newness {
            assert!(!left.is_zero() && left <= expected.quarantine);
        }
        for voted in [may_have_voted(&text), true] {
            decided(&expected, &stored, run, (newness, voted));
        }
    }
    let now = Instant(0);
    let roster = Roster::new(&Expectation::new(
        "s",
        3,
        Duration::from_secs(1),
        0.01,
        true,
    ));
    let _ = roster.meet(0, "a", run, now);
    let _ = roster.admit(0, &stored, now);
    let _ = roster.meet(1, "b", run, now);
    let _ = roster.admit(1, &stored, now);
}

/// What a node becomes that shows this, in a set whose other nodes are known.
fn decided(expected: &Expectation, stored: &str, run: Option<&str>, lost: (Newness, bool)) {
    let (newness, voted) = lost;
    let survey = Survey::new(
        expected.clone(),
        ["a", "b", "c"].map(|n| (n.into(), false)).into(),
    );
    let look = |stored: Option<&str>, run: Option<&str>| Observation {
        stored: stored.map(str::to_owned),
        run: run.map(str::to_owned),
        newness,
        voted,
        stepped: false,
    };
    // Another node has this set's record, so that nothing is waited for.
    let own = Record::new(expected, 1, "n2", Some("r")).to_string();
    assert_eq!(
        survey.look(1, &look(Some(&own), Some("r")), "x"),
        Admission::Admit
    );
    let words: Vec<&str> = stored.split(' ').collect();
    match survey.look(0, &look(Some(stored), run), "fresh") {
        Admission::Refuse(Refusal::Foreign(why)) => assert!(!why.is_empty() && why.len() < 100_000),
        Admission::Admit => {
            assert_eq!((words.len(), words[0], words[1]), (8, "1", "s"));
            assert_eq!((words[3].parse(), words[4].parse()), (Ok(3), Ok(60_000)));
            assert_eq!(words[7], if expected.guard { "on" } else { "off" });
            let same = run.is_none_or(|run| words[6] == run);
            assert!(!expected.guard || same, "of another run");
        }
        Admission::Write(record, quarantine) => {
            let pledge = words[2].parse() == Ok(0);
            assert!(pledge || expected.guard && quarantine == expected.quarantine);
            // Then it is good.
            let written = record.to_string();
            let next = survey.look(0, &look(Some(&written), run), "x");
            assert_eq!(next, Admission::Admit, "{written}");
        }
        other => panic!("{other:?}"),
    }
    // Without a record it is given one, and a quarantine where there is a guard.
    match survey.look(0, &look(None, run), "fresh") {
        Admission::Write(_, quarantine) => assert_eq!(quarantine.is_zero(), !expected.guard),
        other => panic!("{other:?}"),
    }
}
