//! What a person reads of a schedule, and schedules without some of their parts.

use std::time::Duration;

use quorlock::LossReason;
use quorlock::sim::native::{NativeReplies, Outcome};
use quorlock::sim::{AfterRelease, Cause, Fault, FaultKind, Op, Repair, Reply};
use quorlock_sim::history::{Asked, Entry, Happened, History, ORACLES, is_well_formed, legend};
use quorlock_sim::plan::Plan;
use quorlock_sim::random::Random;
use quorlock_sim::schedule::{self, Layer};
use quorlock_sim::script::Planned;
use quorlock_sim::shrink::kind_of;
use quorlock_sim::who::Who;
use quorlock_sim::without::{Part, Without};
use quorlock_sim::world::{Failover, FaultEvent, MS, Memory, Ways};

const TTL: Duration = Duration::from_millis(30);

/// Every kind of fault.
fn faults() -> Vec<FaultEvent> {
    let cut = |ways| FaultEvent::Cut {
        client: 0,
        node: 1,
        long: MS,
        ways,
        lossy: ways == Ways::Both,
    };
    let fails_over = |dies| {
        FaultEvent::FailsOver(Failover {
            node: 1,
            told: MS,
            dies,
            heard: None,
            named: 0,
        })
    };
    vec![
        FaultEvent::PauseNode(1, MS),
        FaultEvent::SlowNode(1, MS),
        FaultEvent::CrashNode(1, MS, Memory::Kept),
        FaultEvent::CrashNode(1, MS, Memory::Lost),
        FaultEvent::CrashNode(1, MS, Memory::Old),
        FaultEvent::Snapshot(1),
        FaultEvent::Flush(1),
        FaultEvent::StepNode(1, -5),
        FaultEvent::SetRight(1, 5),
        cut(Ways::Both),
        cut(Ways::Requests),
        cut(Ways::Replies),
        FaultEvent::Reset(0, 1),
        FaultEvent::Astray(0, 1, MS),
        FaultEvent::PauseClient(0, MS),
        FaultEvent::SuspendClient(0, MS),
        FaultEvent::CrashClient(0),
        FaultEvent::Forge(0, 1),
        FaultEvent::FallsBehind(1),
        FaultEvent::Foreign {
            node: 1,
            lock: 0,
            text: 0,
            long: MS,
        },
        fails_over(true),
        fails_over(false),
    ]
}

/// Every kind of answer.
fn replies() -> Vec<Reply> {
    let refused = |left, place| Reply::Refused {
        left,
        holder: Some("somebody".into()),
        place,
        subscribers: 0,
        shared: false,
    };
    let fault = |kind| {
        Reply::Failed(Fault {
            kind,
            text: "why".into(),
            sent: true,
            of_lock: false,
            cause: Cause::Other,
        })
    };
    vec![
        Reply::Granted {
            fence: 0,
            lasts: None,
        },
        Reply::Granted {
            fence: 7,
            lasts: Some(TTL),
        },
        Reply::Taken,
        refused(None, None),
        refused(Some(TTL), Some(2)),
        Reply::Extended { repaired: false },
        Reply::Extended { repaired: true },
        Reply::Confirmed,
        Reply::Greater { fence: 7 },
        Reply::Quarantined { left: TTL },
        Reply::Late,
        Reply::NotMine,
        Reply::Released { held: true },
        Reply::Released { held: false },
        Reply::Kept,
        fault(FaultKind::Timeout),
        fault(FaultKind::NotReady),
    ]
}

/// Every kind of request.
fn requests() -> Vec<Asked> {
    let repairs = [Repair::No, Repair::Yes, Repair::InQuarantine { server: 3 }];
    let extends = repairs.map(|repair| Op::Extend {
        ttl: TTL,
        repair,
        fence: 7,
        behind: 0,
    });
    let acquires = [(0, false, false), (7, true, false), (7, false, true)];
    let acquires = acquires.map(|(candidate, home, let_in)| Op::Acquire {
        ttl: TTL,
        candidate,
        home,
        let_in,
        block: 1,
    });
    let confirm = Op::Confirm {
        ttl: TTL,
        fence: 7,
        block: 1,
    };
    let ops = extends.into_iter().chain(acquires);
    let asked = |op, token: &str| Asked {
        op,
        token: token.into(),
        lock: 0,
        native: false,
        leaving: AfterRelease::Free,
    };
    let ops = ops.chain([confirm, Op::Release]);
    let mut all: Vec<Asked> = ops.map(|op| asked(op, "abc123")).collect();
    let natives = all.clone().into_iter();
    let natives = natives.filter(|asked| matches!(asked.op, Op::Acquire { .. } | Op::Release));
    all.extend(natives.map(|asked| Asked {
        native: true,
        ..asked
    }));
    all.push(asked(Op::Release, ""));
    all
}

/// One of each kind of event, with all that it may say.
fn events() -> Vec<Happened> {
    let (client, node, number, token) = (0, 1, 5, || String::from("abc123"));
    let mut all: Vec<Happened> = faults().into_iter().map(Happened::Fault).collect();
    for asked in requests() {
        all.push(Happened::Asks {
            client,
            node,
            message: 9,
            asked,
        });
    }
    for reply in replies() {
        all.push(Happened::Answered {
            client,
            node,
            message: 9,
            token: token(),
            reply: reply.clone(),
        });
        for asked in requests() {
            all.push(Happened::CarriedOut {
                node,
                message: 0,
                client,
                asked,
                reply: Some(reply.clone()),
            });
        }
    }
    all.extend(LossReason::ALL.iter().map(|reason| Happened::Lost {
        client,
        reason: *reason,
    }));
    for stored in [true, false] {
        all.push(Happened::Voted {
            node,
            message: 9,
            client,
            asked: requests().remove(3),
            voted: NativeReplies {
                stored,
                counted: stored,
            },
        });
    }
    let outcomes = replies().into_iter().map(Outcome::Reply);
    for outcome in outcomes.chain([Outcome::OtherRecord, Outcome::Quarantined]) {
        all.push(Happened::Counted {
            node,
            message: 9,
            client,
            asked: requests().remove(3),
            outcome,
        });
    }
    all.extend([
        Happened::CarriedOut {
            node,
            message: 9,
            client,
            asked: requests().remove(0),
            reply: None,
        },
        Happened::TimedOut { client, message: 9 },
        Happened::TimedOut {
            client,
            message: 99,
        },
        Happened::Reset {
            client,
            place: 2,
            node,
        },
        Happened::calls(node, b"lock:#in:00", number),
        Happened::NotCalled { number },
        Happened::Called {
            client,
            node,
            number,
        },
        Happened::Record {
            node,
            record: "v1:3".into(),
            written: true,
        },
        Happened::Unfit {
            client,
            node,
            pair: 1,
            why: "another set's".into(),
        },
        Happened::Won {
            client,
            token: token(),
            fence: Some(7),
            left: TTL,
        },
        Happened::ReEntered {
            client,
            token: token(),
        },
        Happened::GaveUp {
            client,
            token: token(),
            over: true,
        },
        Happened::Violation("S1 two at a time".into()),
        Happened::User("wants the lock".into()),
        Happened::Line("a line".into()),
    ]);
    all
}

#[test]
fn every_kind_of_event_has_words() {
    let plan = Plan::draw(&Random::new(1));
    for what in events() {
        for who in [Who::World, Who::User(0), Who::AtClient(0)] {
            let what = what.clone();
            let shown = format!("{what:?}");
            let history = History(vec![Entry { at: MS, who, what }]);
            let [line] = &history.lines(&plan, &[])[..] else {
                panic!("no line for {shown}");
            };
            assert!(is_well_formed(line), "{shown}: {line}");
        }
    }
}

#[test]
fn a_fault_has_its_name_and_its_end() {
    let plan = Plan::draw(&Random::new(1));
    let entry = |at, what| Entry {
        at,
        who: Who::World,
        what,
    };
    let fault = FaultEvent::PauseNode(1, 2 * MS);
    let planned: Planned = (MS, fault, Part::Fault(3));
    let history = History(vec![
        entry(MS, Happened::Fault(fault)),
        entry(9 * MS, Happened::Violation("S1 two at a time".into())),
    ]);
    let lines = history.lines(&plan, &[planned]);
    let begins = [
        "1.000 ms  fault:3 ",
        "3.000 ms  fault:3 ",
        "9.000 ms  VIOLATION ",
    ];
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.trim_start().starts_with(begin), "{line}");
    }
}

#[test]
fn histories_have_their_form() {
    for seed in 1..300 {
        let outcome = schedule::record(Layer::Links, seed).0;
        let lines = outcome.lines();
        assert!(!lines.is_empty());
        let bad = lines.iter().find(|line| !is_well_formed(line));
        assert_eq!(bad, None, "seed {seed}");
        let users = lines.iter().filter(|line| line.contains(" ms  u")).count();
        assert!(users > 0, "seed {seed} tells of no user");
        let text = legend(outcome.plan.as_ref().expect("with a history"));
        assert!(
            text.contains("Nodes n0") && text.contains("c0 with u0"),
            "{text}"
        );
    }
}

#[test]
fn every_violation_names_a_promise_that_is_explained() {
    let source = include_str!("../src/lib.rs");
    for (name, _) in ORACLES {
        assert!(source.contains(name), "{name}");
    }
    assert_eq!(
        kind_of("S5 c0: an acquire took 3.2ms of 3ms"),
        "S5 an acquire took of"
    );
}

#[test]
fn recording_and_playing_changes_nothing() {
    for seed in 1..300 {
        let plain = schedule::run(seed, true).history;
        let (recorded, tapes) = schedule::record(Layer::Links, seed);
        assert_eq!(plain, recorded.history, "seed {seed}");
        let played = schedule::rerun(Layer::Links, seed, &tapes, Without::default());
        assert_eq!(plain, played.history, "seed {seed}");
    }
}

/// What each user but one wants first.
fn wishes(history: &History, but: usize) -> Vec<(usize, String)> {
    let mut wishes: Vec<(usize, String)> = Vec::new();
    for entry in &history.0 {
        if let (Who::User(user), Happened::User(what)) = (entry.who, &entry.what)
            && user != but
            && wishes.iter().all(|wish| wish.0 != user)
        {
            wishes.push((user, what.clone()));
        }
    }
    wishes.sort();
    wishes
}

#[test]
fn without_a_user_all_others_draw_what_they_drew() {
    let mut compared = 0;
    for seed in 1..300 {
        let (whole, tapes) = schedule::record(Layer::Links, seed);
        let without = Without([Part::User(0)].into());
        let left = schedule::rerun(Layer::Links, seed, &tapes, without);
        let said =
            |outcome: &schedule::Outcome| wishes(outcome.history.as_ref().expect("recorded"), 0);
        let (before, after) = (said(&whole), said(&left));
        for (user, wish) in after {
            let same = before.iter().find(|other| other.0 == user);
            if let Some((_, other)) = same {
                assert_eq!(*other, wish, "seed {seed} u{user}");
                compared += 1;
            }
        }
        let acts = |outcome: &schedule::Outcome| {
            let lines = outcome.lines();
            lines.iter().any(|line| line.contains(" ms  u0 "))
        };
        assert!(!acts(&left), "seed {seed}: u0 acts though it is away");
    }
    assert!(compared > 300, "only {compared} users compared");
}

#[test]
fn what_is_taken_away_is_written_as_it_is_read() {
    let words = "user:2,node:4,round:2.0,fault:3,fault:2.0.1,net:slow,setting:habits,draws:7";
    let without: Without = words.parse().expect("parts");
    assert_eq!(without.to_string(), words);
    for word in ["user", "user:x", "net:fast", "fault:1.2", "setting:", "x:1"] {
        let error = word.parse::<Without>().expect_err(word);
        assert!(error.contains(word) && error.contains("user:2"), "{error}");
    }
}
