//! Several locks at once, on real servers.

use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use quorlock::{Client, Error, ErrorKind, Leases, LossReason, Owner, blocking, set_log_sink};
use quorlock_tests::Stage;
use quorlock_tests::queue::until;

fn names(leases: &Leases) -> Vec<String> {
    let name = |lease: &quorlock::Lease| String::from_utf8(lease.name().to_vec()).unwrap();
    leases.iter().map(name).collect()
}

#[test]
fn all_of_them_are_won_in_one_round() -> Result<(), Error> {
    let stage = Stage::new(3);
    let client = Client::new(&stage.nodes)?;
    drop(blocking::wait(client.lock_all(["a", "b", "c"]).acquire())?);
    stage.tell("await-free lock:{c} 5000");
    stage.tell("reset-counters");
    let leases = blocking::wait(client.lock_all(["c", "a", "b", "a"]).acquire())?;
    // A plain request for each lock on each node, and nothing else.
    stage.tell("expect-calls evalsha 0 0 5000");
    assert_eq!(names(&leases), ["a", "b", "c"]);
    assert!(leases.is_held() && leases.remaining() > Duration::from_secs(5));
    let fences: Vec<_> = leases.iter().map(quorlock::Lease::fence).collect();
    assert!(fences.iter().all(Option::is_some));
    assert_eq!(leases.get("b").unwrap().fence(), fences[1]);
    assert!(leases.get("d").is_none());
    assert_eq!(leases.get("{b}").unwrap().fence(), fences[1]);
    blocking::wait(leases.extend(Duration::from_secs(20)))?;
    assert!(leases.remaining() > Duration::from_secs(15));
    blocking::wait(leases.ensure(Duration::from_secs(5)))?;
    assert!(
        leases
            .iter()
            .all(|lease| lease.remaining() > Duration::from_secs(15))
    );
    assert!(blocking::wait(leases.release())?);
    assert!(!leases.is_held() && leases.loss().is_none());
    assert!(!blocking::wait(leases.release())?);
    stage.await_nothing_left();
    Ok(())
}

#[test]
fn all_or_none() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (ours, theirs) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    let middle = blocking::wait(theirs.lock("b").acquire())?;
    let all = ours.lock_all(["a", "b", "c"]);
    assert!(blocking::wait(all.try_acquire())?.is_none());
    let refused = blocking::wait(all.clone().wait(Duration::ZERO).acquire()).unwrap_err();
    assert_eq!(
        (refused.kind(), refused.name()),
        (ErrorKind::Contended, Some(&b"b"[..]))
    );
    let wait = Duration::from_millis(300);
    let late = blocking::wait(all.clone().wait(wait).acquire()).unwrap_err();
    assert_eq!(
        (late.kind(), late.name()),
        (ErrorKind::Timeout, Some(&b"b"[..]))
    );
    assert!(late.to_string().contains("300ms"), "{late}");
    for free in ["a", "c"] {
        stage.tell(&format!("await-free lock:{{{free}}} 5000"));
    }
    blocking::wait(middle.release())?;
    // A quorum has carried it out; its home may be the last.
    stage.tell("await-free lock:{b} 5000");
    let all = blocking::wait(all.try_acquire())?.unwrap();
    drop(all);
    stage.await_nothing_left();
    Ok(())
}

#[test]
fn who_waits_holds_what_comes_before_and_nothing_behind() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (ours, theirs) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    let middle = blocking::wait(theirs.lock("b").acquire())?;
    let all = ours.lock_all(["c", "b", "a"]).wait(None);
    let waits = std::thread::spawn(move || blocking::wait(all.acquire()).map(drop));
    until("it waits", || ours.stats().queued == 1);
    let holder = |name: &str| -> Result<bool, Error> {
        Ok(blocking::wait(theirs.lock(name).try_acquire())?.is_none())
    };
    until("what is behind is free", || !holder("c").unwrap());
    assert!(holder("a")?);
    blocking::wait(middle.release())?;
    waits.join().unwrap()?;
    stage.await_nothing_left();
    Ok(())
}

#[test]
fn callers_of_the_same_names_in_any_order_all_go_on() {
    const EACH: usize = 25;
    let stage = Stage::new(3);
    let inside: [AtomicUsize; 4] = Default::default();
    let clients: Vec<_> = (0..2).map(|_| Client::new(&stage.nodes).unwrap()).collect();
    let orders = [
        ["a", "b", "c"],
        ["c", "b", "a"],
        ["d", "a", "c"],
        ["b", "d", "c"],
        ["d", "c", "b"],
        ["c", "a", "d"],
    ];
    std::thread::scope(|scope| {
        for (n, order) in orders.iter().enumerate() {
            let (client, inside) = (&clients[n % 2], &inside);
            scope.spawn(move || {
                for _ in 0..EACH {
                    let all = client.lock_all(*order).wait(Duration::from_secs(60));
                    let all = blocking::wait(all.acquire()).unwrap();
                    let place = |name: &str| usize::from(name.as_bytes()[0] - b'a');
                    for name in order {
                        assert_eq!(inside[place(name)].fetch_add(1, Ordering::SeqCst), 0);
                    }
                    for name in order {
                        inside[place(name)].fetch_sub(1, Ordering::SeqCst);
                    }
                    assert!(blocking::wait(all.release()).unwrap());
                }
            });
        }
    });
    stage.await_nothing_left();
}

#[test]
fn the_loss_of_one_is_the_loss_of_all() -> Result<(), Error> {
    let stage = Stage::new(1);
    let client = Client::builder()
        .nodes(&stage.nodes)
        .ttl(Duration::from_millis(1_500))
        .build()?;
    let all = blocking::wait(client.lock_all(["a", "b"]).acquire())?;
    let (told, hear) = std::sync::mpsc::channel();
    all.on_lost(move |name, reason| told.send((name.to_vec(), reason)).unwrap());
    stage.tell("redis 1 SET lock:{b} stolen PX 5000");
    let lost = blocking::wait(all.lost());
    assert_eq!(lost, (&b"b"[..], LossReason::Refused));
    assert_eq!(hear.recv().unwrap(), (b"b".to_vec(), LossReason::Refused));
    assert!(!all.is_held() && all.remaining().is_zero());
    assert_eq!(all.loss(), Some(lost));
    // Nobody comes in before the work has stopped.
    assert!(all.get("a").unwrap().is_held());
    let extended = blocking::wait(all.extend(None)).unwrap_err();
    assert_eq!(extended.kind(), ErrorKind::LockLost);
    assert!(!blocking::wait(all.release())?);
    stage.tell("await-free lock:{a} 5000");
    assert!(hear.try_recv().is_err());
    Ok(())
}

#[test]
fn one_that_is_lost_while_others_are_waited_for_is_asked_for_again() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (ours, theirs) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    let last = blocking::wait(theirs.lock("c").acquire())?;
    let all = ours
        .lock_all(["a", "c"])
        .ttl(Duration::from_millis(300))
        .renew(false);
    let all = all.wait(Duration::from_secs(30));
    let waits = std::thread::spawn(move || blocking::wait(all.acquire()));
    until("it has lost what it held", || ours.stats().lost >= 2);
    blocking::wait(last.release())?;
    let all = waits.join().unwrap()?;
    assert_eq!(names(&all), ["a", "c"]);
    assert!(all.is_held());
    drop(all);
    stage.await_nothing_left();
    Ok(())
}

#[test]
fn one_who_goes_away_leaves_nothing() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (ours, theirs) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    let last = blocking::wait(theirs.lock("z").acquire())?;
    {
        let all = ours.lock_all(["x", "y", "z"]).wait(None);
        let mut waits = pin!(all.acquire());
        until("it waits", || {
            let mut context = Context::from_waker(Waker::noop());
            assert!(waits.as_mut().poll(&mut context).is_pending());
            ours.stats().queued == 1
        });
    }
    for free in ["x", "y"] {
        stage.tell(&format!("await-free lock:{{{free}}} 5000"));
    }
    blocking::wait(last.release())?;
    stage.await_nothing_left();
    Ok(())
}

#[test]
fn an_owner_enters_again_what_it_holds() -> Result<(), Error> {
    let stage = Stage::new(1);
    let client = Client::new(&stage.nodes)?;
    let mine = || Some(Owner::named("me"));
    let b = blocking::wait(client.lock("b").owner(mine()).acquire())?;
    let all = blocking::wait(client.lock_all(["a", "b"]).owner(mine()).acquire())?;
    assert_eq!(all.get("b").unwrap().fence(), b.fence());
    blocking::wait(all.release())?;
    assert!(b.is_held());
    drop(b);
    stage.await_nothing_left();
    Ok(())
}

#[test]
fn what_an_owner_has_entered_it_keeps_while_it_waits_for_others() -> Result<(), Error> {
    let stage = Stage::new(1);
    let (ours, theirs) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    let first = blocking::wait(theirs.lock("kept-a").acquire())?;
    let mine = Owner::named("me");
    let b = blocking::wait(ours.lock("kept-b").owner(mine.clone()).acquire())?;
    let all = ours.lock_all(["kept-a", "kept-b"]).owner(mine).wait(None);
    let waits = std::thread::spawn(move || blocking::wait(all.acquire()));
    until("it waits", || ours.stats().queued == 1);
    let fence = b.fence();
    blocking::wait(b.release())?;
    // Else the next call of that owner, which is no part of this one, would share it.
    assert!(blocking::wait(theirs.lock("kept-b").try_acquire())?.is_none());
    blocking::wait(first.release())?;
    let all = waits.join().unwrap()?;
    assert_eq!(all.get("kept-b").unwrap().fence(), fence);
    drop(all);
    // The loss of one that was entered ends the call.
    let mine = Owner::named("me");
    let first = blocking::wait(theirs.lock("kept-a").acquire())?;
    let b = blocking::wait(ours.lock("kept-b").owner(mine.clone()).acquire())?;
    let all = ours.lock_all(["kept-a", "kept-b"]).owner(mine).wait(None);
    let waits = std::thread::spawn(move || blocking::wait(all.acquire()));
    until("it waits", || ours.stats().queued == 1);
    assert_eq!(quorlock::testing::lose("kept-b", LossReason::Expired), 1);
    let lost = waits.join().unwrap().unwrap_err();
    assert_eq!(
        (lost.kind(), lost.name()),
        (ErrorKind::LockLost, Some(&b"kept-b"[..]))
    );
    drop((b, first));
    stage.await_nothing_left();
    Ok(())
}

#[test]
fn what_is_not_valid_is_refused() -> Result<(), Error> {
    let client = Client::new(["memory://several"])?;
    let many: Vec<String> = (0..17).map(|n| format!("n{n}")).collect();
    for (locks, word) in [
        (client.lock_all(Vec::<String>::new()), "no name"),
        (
            client.lock_all(&many[..]).ttl(Duration::from_secs(1)),
            "17 locks",
        ),
        (client.lock_all(["a", ""]), "name"),
        (client.lock_all(["a"]).ttl(Duration::ZERO), "ttl"),
    ] {
        let refused = blocking::wait(locks.acquire()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.to_string().contains(word), "{refused}");
        assert!(locks.check().is_err());
    }
    // The same name, in two ways.
    let all = blocking::wait(
        client
            .lock_all(many.iter().take(16).chain(&many[..3]))
            .acquire(),
    )?;
    assert_eq!(all.iter().len(), 16);
    Ok(())
}

#[test]
fn two_orders_of_the_same_two_are_told() -> Result<(), Error> {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    set_log_sink(|_, line| SAID.lock().unwrap().push(line.to_string()));
    let stage = Stage::new(1);
    let client = Client::new(&stage.nodes)?;
    let lock = |owner: &str, name: &str| {
        let lock = client.lock(name).owner(Owner::named(owner));
        blocking::wait(lock.wait(Duration::from_millis(800)).acquire())
    };
    for (first, second) in [("p", "q"), ("q", "p")] {
        let (theirs, mine) = (lock("they", second)?, lock("me", first)?);
        assert_eq!(lock("me", second).unwrap_err().kind(), ErrorKind::Timeout);
        drop((theirs, mine));
    }
    let warned = || {
        let said = SAID.lock().unwrap();
        said.iter()
            .any(|line| line.contains("`p`") && line.contains("the other way round"))
    };
    until("it is told", warned);
    Ok(())
}
