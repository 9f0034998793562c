//! Who holds a lock, as real nodes have it.

use std::time::{Duration, SystemTime};

use quorlock::{Client, Error, ErrorKind, Verdict, blocking};
use quorlock_tests::Stage;
use quorlock_tests::queue::until;

fn client(stage: &Stage, label: &str) -> Client {
    let builder = Client::builder().nodes(&stage.nodes).label(label);
    builder.build().unwrap()
}

#[test]
fn a_holder_is_told_with_votes_fence_and_since_when() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (ours, theirs) = (client(&stage, "alex"), client(&stage, ""));
    // From here on both know the nodes' clocks.
    drop(blocking::wait(ours.lock("warm").acquire())?);
    // The servers are on this machine: their clock is this one.
    #[allow(clippy::disallowed_methods)]
    let before = SystemTime::now();
    let lease = blocking::wait(ours.lock("a").acquire())?;
    let found = blocking::wait(theirs.inspect("a"))?;
    assert_eq!(found.verdict(), Verdict::Held, "{found}");
    assert!(found.is_locked());
    assert_eq!((found.fence(), found.queued()), (lease.fence(), 0));
    let holder = found.holder().unwrap();
    assert_eq!((holder.label(), holder.votes()), (Some("alex"), 3));
    let left = holder.left().unwrap();
    assert!(
        left > Duration::from_secs(5) && left <= Duration::from_millis(10_100),
        "{left:?}"
    );
    let since = holder.since().unwrap();
    let off = since
        .duration_since(before)
        .unwrap_or_else(|e| e.duration());
    assert!(off < Duration::from_secs(5), "{off:?}");
    assert_eq!(found.nodes().len(), 3);
    for node in found.nodes() {
        assert_eq!(
            (node.state(), node.label(), node.error()),
            ("held", Some("alex"), None)
        );
        assert_eq!(
            (node.fence(), node.quarantine()),
            (lease.fence(), Duration::ZERO)
        );
    }
    // No token, in nothing that is shown.
    for shown in [found.to_string(), format!("{found:?}")] {
        assert!(!shown.contains(lease.token()), "{shown}");
    }
    blocking::wait(lease.release())?;
    let nobody = blocking::wait(theirs.lock("b").acquire())?;
    let found = blocking::wait(ours.inspect("b"))?;
    assert_eq!(found.holder().unwrap().label(), None);
    drop(nobody);
    Ok(())
}

#[test]
fn what_others_have_put_there_is_foreign() -> Result<(), Error> {
    let stage = Stage::new(3);
    let client = client(&stage, "alex");
    let lock = client.lock("theirs").raw(true);
    stage.tell("redis all SET theirs 0123456789 PX 60000");
    let found = blocking::wait(lock.inspect())?;
    assert_eq!(found.verdict(), Verdict::Held);
    let holder = found.holder().unwrap();
    assert_eq!((holder.label(), holder.since()), (None, None));
    assert!(found.nodes().iter().all(|node| node.state() == "foreign"));
    // Of another type, and without an end.
    stage.tell("redis 1 DEL theirs");
    stage.tell("redis 1 LPUSH theirs x");
    stage.tell("redis 2 PERSIST theirs");
    let found = blocking::wait(lock.inspect())?;
    assert_eq!(found.nodes()[0].state(), "foreign");
    assert_eq!(found.nodes()[1].left(), None);
    Ok(())
}

#[test]
fn who_lost_memory_and_who_does_not_answer() -> Result<(), Error> {
    let stage = Stage::new(3);
    let client = client(&stage, "alex");
    let lease = blocking::wait(client.lock("a").acquire())?;
    stage.tell("kill 1");
    let found = blocking::wait(client.inspect("a"))?;
    assert_eq!(
        (found.verdict(), found.holder().unwrap().votes()),
        (Verdict::Held, 2)
    );
    assert!(found.nodes()[0].error().is_some());
    blocking::wait(lease.release())?;
    stage.tell("kill 2");
    let found = blocking::wait(client.inspect("a"))?;
    assert_eq!(found.verdict(), Verdict::Unknown);
    let error = blocking::wait(client.lock("a").is_locked()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QuorumUnavailable);
    assert_eq!((error.name(), error.nodes().len()), (Some(&b"a"[..]), 3));
    // Empty, and so in quarantine: what they say is not worth a "free".
    stage.tell("start 1,2");
    until("they answer again", || {
        let found = blocking::wait(client.inspect("a")).unwrap();
        assert_eq!(found.verdict(), Verdict::Unknown, "{found:?}");
        found.nodes()[0].quarantine() > Duration::from_secs(30)
    });
    Ok(())
}

/// What anybody has put under a lock's key costs no connection, however long it is.
#[test]
fn values_and_labels_of_any_length() -> Result<(), Error> {
    let stage = Stage::new(1);
    let ours = client(&stage, "alex");
    let port = stage.nodes[0].rsplit_once(':').expect("it has a port").1;
    let token = "a".repeat(40);
    let long = |before: &str| format!("{before}\n\u{202e}{}", "x".repeat(100_000));
    let put = |words: &[&str]| {
        let told = std::process::Command::new("redis-cli")
            .args(["-p", port])
            .args(words)
            .output();
        assert!(told.expect("it runs").status.success());
    };
    drop(blocking::wait(ours.lock("warm").acquire())?);
    let labelled = long(&format!("{token}.web-2\n\x1b"));
    let foreign = long("theirs");
    put(&["SET", "lock:{ours}", &labelled, "PX", "60000"]);
    put(&["SET", "raw", &foreign, "PX", "60000"]);
    let crowded = format!("=99999999999999999 {labelled}");
    put(&["SET", "lock:{crowded}", &crowded, "PX", "60000"]);
    put(&["SET", "lock:{shared}", "&0 0 ", "PX", "60000"]);
    for number in 0..16 {
        let reader = format!("{number}{labelled}");
        put(&[
            "ZADD",
            "lock:#s:{shared}",
            "99999999999999999",
            &reader[..100_000],
        ]);
    }
    put(&["HSET", "java", &foreign, "1"]);
    put(&["PEXPIRE", "java", "60000"]);
    let before = blocking::wait(ours.probe())?.nodes.len();
    let connects = || ours.stats().connects;
    let first = connects();
    for _ in 0..10 {
        for name in ["ours", "crowded", "shared"] {
            let found = blocking::wait(ours.inspect(name))?;
            assert_eq!(found.verdict(), Verdict::Held, "{found}");
            let label = found
                .holder()
                .unwrap()
                .label()
                .unwrap_or_default()
                .to_owned();
            assert!(label.chars().count() <= 200, "{label}");
            assert!(!label.contains(['\n', '\x1b', '\u{202e}']), "{label}");
            for wait in [Duration::ZERO, Duration::from_millis(50)] {
                let error = blocking::wait(ours.lock(name).wait(wait).acquire()).unwrap_err();
                assert!(error.is_busy(), "{error}");
                assert!(error.to_string().chars().count() < 500, "{error}");
                let share = ours.lock(name).shared(true).wait(wait);
                let shared = blocking::wait(share.acquire());
                assert!(shared.is_ok() || shared.unwrap_err().is_busy());
            }
        }
        let raw = ours.lock("raw").raw(true);
        assert_eq!(blocking::wait(raw.inspect())?.verdict(), Verdict::Held);
        assert!(
            blocking::wait(raw.wait(Duration::ZERO).acquire())
                .unwrap_err()
                .is_busy()
        );
        let java = ours.lock("java").layout(quorlock::Layout::Redisson);
        let error = blocking::wait(java.wait(Duration::ZERO).acquire()).unwrap_err();
        assert!(error.is_busy(), "{error}");
    }
    assert_eq!((connects(), before), (first, 1));
    // What is ours goes, whatever its label; of what is none the error says so.
    for name in ["ours", "crowded"] {
        assert_eq!(blocking::wait(ours.force_release(name, None))?.freed(), 1);
    }
    let error = blocking::wait(ours.force_release("shared", None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    Ok(())
}
