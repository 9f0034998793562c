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
