//! A lock is taken away by force, on real nodes.

use std::time::Duration;

use quorlock::{Client, Error, ErrorKind, LossReason, Verdict, blocking};
use quorlock_tests::queue::until;
use quorlock_tests::{Stage, escaped};

fn client(stage: &Stage) -> Client {
    let builder = Client::builder().nodes(&stage.nodes).label("alex");
    // So that a renewal comes soon.
    builder.ttl(Duration::from_secs(3)).build().unwrap()
}

#[test]
fn who_is_forced_out_learns_it_at_the_next_renewal() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (ours, theirs) = (client(&stage), client(&stage));
    let nobody = blocking::wait(theirs.force_release("a", None))?;
    assert_eq!((nobody.holder(), nobody.freed()), (None, 0));
    let lease = blocking::wait(ours.lock("a").acquire())?;
    let forced = blocking::wait(theirs.force_release("a", lease.fence()))?;
    assert_eq!(forced.found().verdict(), Verdict::Held);
    assert_eq!(forced.holder().unwrap().label(), Some("alex"));
    assert!(forced.freed() >= 2, "{forced}");
    assert!(!format!("{forced:?}").contains(lease.token()));
    assert_eq!(blocking::wait(lease.lost()), LossReason::Forced);
    assert_eq!(
        blocking::wait(theirs.inspect("a"))?.verdict(),
        Verdict::Free
    );
    // By an extension too.
    let lease = blocking::wait(ours.lock("b").renew(false).acquire())?;
    blocking::wait(theirs.force_release("b", None))?;
    let error = blocking::wait(lease.extend(None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockLost);
    assert_eq!(lease.loss(), Some(LossReason::Forced));
    Ok(())
}

/// The holder is known by its own fence while others ask in vain: whether it has won by plain commands or out of the
/// queue, before its first renewal and after.
#[test]
fn a_contended_lock_is_forced_by_its_holders_own_fence() -> Result<(), Error> {
    let stage = Stage::new(3);
    let [ours, theirs, operator] = [(); 3].map(|()| client(&stage));
    let known = |fence: Option<u64>| -> Result<bool, Error> {
        // One that knows of nobody asks by plain commands, and raises the counter.
        let stranger = client(&stage);
        drop(blocking::wait(stranger.lock("warm").acquire())?);
        assert!(blocking::wait(stranger.lock("a").try_acquire())?.is_none());
        let found = blocking::wait(operator.inspect("a"))?;
        assert!(found.fence() > fence, "{found:?}");
        Ok(found.holder().is_some_and(|holder| holder.fence() == fence))
    };
    for client in [&ours, &theirs] {
        drop(blocking::wait(client.lock("warm").acquire())?);
    }
    let first = blocking::wait(ours.lock("a").acquire())?;
    assert!(known(first.fence())?, "won by plain commands");
    std::thread::scope(|scope| -> Result<(), Error> {
        let waits = scope.spawn(|| blocking::wait(theirs.lock("a").wait(None).acquire()));
        until("it waits", || theirs.stats().queued == 1);
        assert!(known(first.fence())?, "and waited for");
        let old = first.fence();
        assert!(blocking::wait(first.release())?);
        let second = waits.join().expect("no panic")?;
        assert!(known(second.fence())?, "won out of the queue");
        let error = blocking::wait(operator.force_release("a", old)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
        blocking::wait(second.extend(None))?;
        assert!(known(second.fence())?, "and renewed");
        let forced = blocking::wait(operator.force_release("a", second.fence()))?;
        assert!(forced.freed() >= 2, "{forced}");
        assert_eq!(blocking::wait(second.lost()), LossReason::Forced);
        Ok(())
    })
}

#[test]
fn the_successor_is_not_hit() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (ours, theirs) = (client(&stage), client(&stage));
    let first = blocking::wait(ours.lock("a").acquire())?;
    let old = first.fence();
    blocking::wait(first.release())?;
    let second = blocking::wait(ours.lock("a").acquire())?;
    let next = second.fence().map(|fence| fence + 1);
    for fence in [old, next] {
        let error = blocking::wait(theirs.force_release("a", fence)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
        assert_eq!(error.holder(), Some("alex"));
    }
    for fence in [0, 1 << 53] {
        let error = blocking::wait(theirs.force_release("a", Some(fence))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    blocking::wait(second.extend(None))?;
    blocking::wait(theirs.force_release("a", second.fence()))?;
    Ok(())
}

#[test]
fn who_waits_gets_it_though_a_minority_is_down() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (ours, theirs) = (client(&stage), client(&stage));
    let lease = blocking::wait(ours.lock("a").acquire())?;
    stage.tell("kill 1");
    std::thread::scope(|scope| {
        let lock = theirs.lock("a").wait(Duration::from_secs(60));
        let waiter = scope.spawn(move || blocking::wait(lock.acquire()));
        quorlock_tests::queue::until("it is queued", || {
            blocking::wait(ours.inspect("a")).unwrap().queued() == 1
        });
        assert!(blocking::wait(ours.force_release("a", None))?.freed() >= 1);
        assert!(waiter.join().unwrap()?.is_held());
        Ok::<(), Error>(())
    })?;
    let reason = blocking::wait(lease.lost());
    assert!(matches!(reason, LossReason::Refused | LossReason::Forced));
    stage.tell("kill 2");
    let error = blocking::wait(ours.force_release("a", None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QuorumUnavailable);
    Ok(())
}

#[test]
fn what_is_kept_or_foreign_goes_too() -> Result<(), Error> {
    let stage = Stage::new(3);
    let client = client(&stage);
    let kept = client.lock("a").keep(Duration::from_secs(60));
    blocking::wait(blocking::wait(kept.acquire())?.release())?;
    let forced = blocking::wait(client.force_release("a", None))?;
    assert_eq!(forced.found().verdict(), Verdict::Kept);
    assert!(blocking::wait(client.lock("a").try_acquire())?.is_some());
    stage.tell("redis all SET lock:{b} somebody");
    let forced = blocking::wait(client.force_release("b", None))?;
    assert_eq!(forced.freed(), 3);
    assert!(blocking::wait(client.lock("b").try_acquire())?.is_some());
    stage.tell("redis all HSET lock:{c} field value");
    let error = blocking::wait(client.force_release("c", None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    Ok(())
}

/// As many as share a lock, and no thousand of them, are taken away; readers put there as
/// `share` puts them.
#[test]
fn all_who_share_a_lock_go() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (ours, theirs) = (client(&stage), client(&stage));
    let real = blocking::wait(ours.lock("a").shared(true).acquire())?;
    let script = "local t = redis.call('TIME') for i = 1, 1500 do redis.call('ZADD', KEYS[1], \
                  string.format('%.0f', t[1] * 1000000 + 50000000 - i), string.format('%040x.reader%d', i, i)) end";
    let script = escaped(script);
    stage.tell(&format!("redis all EVAL {script} 1 lock:#s:{{a}}"));
    let forced = blocking::wait(theirs.force_release("a", None))?;
    assert!(forced.freed() >= 2 * 1501, "{forced}");
    assert_eq!(
        blocking::wait(theirs.inspect("a"))?.verdict(),
        Verdict::Free
    );
    assert_eq!(blocking::wait(real.lost()), LossReason::Forced);
    stage.tell("expect all 0 ZCARD lock:#s:{a}");
    Ok(())
}
