//! A lease that goes from one client to another, on real servers.

use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::Duration;

use quorlock::{Client, Error, ErrorKind, Lease, Lock, Owner, blocking};
use quorlock_tests::Stage;
use quorlock_tests::queue::patient;

fn get(lock: Lock) -> Result<Lease, Error> {
    blocking::wait(lock.acquire())
}

/// One for which all nodes have voted: so it has a quorum without any of them.
fn get_from_all(client: &Client) -> Result<Lease, Error> {
    let lease = get(client.lock("a").ttl(Duration::from_secs(60)))?;
    quorlock_tests::queue::until("all have voted", || {
        let found = blocking::wait(client.lock("a").inspect());
        found.is_ok_and(|found| found.holder().is_some_and(|holder| holder.votes() == 3))
    });
    Ok(lease)
}

fn export(lease: &Lease) -> Result<String, Error> {
    blocking::wait(lease.export())
}

fn adopt(client: &Client, text: &str) -> Result<Lease, Error> {
    blocking::wait(client.adopt(text))
}

fn kind<T: std::fmt::Debug>(outcome: Result<T, Error>) -> ErrorKind {
    outcome.expect_err("it is refused").kind()
}

#[test]
fn a_lease_goes_on_in_another_client_with_a_larger_fence() -> Result<(), Error> {
    for nodes in [1, 3, 5] {
        let stage = Stage::new(nodes);
        let (one, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
        for lock in [
            one.lock("a"),
            one.lock("a")
                .ttl(Duration::from_secs(3))
                .max_hold(Duration::from_secs(60)),
            one.lock("raw:a").raw(true),
            one.lock("unfenced").fencing(false).renew(false),
            one.semaphore("pool", 2),
        ] {
            let first = get(lock.clone())?;
            let text = export(&first)?;
            assert!(!first.is_held() && first.loss().is_none());
            assert!(!blocking::wait(first.release())?, "it is the other's");
            if first.slot().is_none() {
                assert_eq!(
                    kind(get(lock.clone().wait(Duration::ZERO))),
                    ErrorKind::Contended
                );
            }
            let second = adopt(&other, &text)?;
            assert!(second.is_held() && second.fence() > first.fence() || first.fence().is_none());
            assert_eq!((second.name(), second.slot()), (first.name(), first.slot()));
            blocking::wait(second.extend(None))?;
            assert_eq!(kind(adopt(&one, &text)), ErrorKind::LockLost, "once");
            assert!(second.is_held());
            // And back.
            let third = adopt(&one, &export(&second)?)?;
            assert!(third.fence() > second.fence() || third.fence().is_none());
            assert!(blocking::wait(third.release())?);
            let fourth = get(lock)?;
            assert!(fourth.fence() > third.fence() || fourth.fence().is_none());
        }
        stage.await_nothing_left();
    }
    Ok(())
}

/// Has a future do its first step.
fn begin<F: Future>(future: &mut Pin<&mut F>) {
    let first = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(first.is_pending(), "it waits");
}

/// The same for one that asks the three nodes of the stage, of which none answers meanwhile: an
/// answer may come before the first step has ended.
fn begin_to_ask<F: Future>(stage: &Stage, future: &mut Pin<&mut F>) {
    let tell = |what| (1..=3).for_each(|node| drop(stage.tell(&format!("{what} {node}"))));
    tell("stop");
    begin(future);
    tell("cont");
}

#[test]
fn what_is_released_meanwhile_is_not_exported_nor_shared() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (client, other) = (patient(&stage.nodes), Client::new(&stage.nodes)?);
    let lock = client.lock("a").fencing(false);
    for share in [false, true] {
        // Another of this client waits, and is given the lease.
        let first = get(lock.clone())?;
        let mut next = pin!(lock.acquire());
        begin(&mut next);
        let mut export = pin!(async {
            if share {
                first.downgrade().await
            } else {
                first.export().await.map(drop)
            }
        });
        // Shared it would be at once, and is not passed on.
        if !share {
            begin_to_ask(&stage, &mut export);
        }
        assert!(blocking::wait(first.release())?);
        let second = blocking::wait(next)?;
        assert_eq!(second.token(), first.token());
        let refused = kind(blocking::wait(export));
        assert!([ErrorKind::NotOwner, ErrorKind::LockLost].contains(&refused));
        assert!(second.is_held() && second.loss().is_none() && !second.is_shared());
        assert!(blocking::wait(second.release())?);
    }
    // Nobody else waits: it is free, or goes on elsewhere, and never both.
    let lease = get(lock.clone())?;
    let mut export = pin!(lease.export());
    begin_to_ask(&stage, &mut export);
    assert!(blocking::wait(lease.release())?);
    assert!(blocking::wait(export).is_err());
    let next = get(other.lock("a").wait(Duration::ZERO))?;
    assert!(blocking::wait(next.release())?);
    // One that is given up ends nothing.
    let lease = get(lock.clone())?;
    let mut export = Box::pin(lease.export());
    begin_to_ask(&stage, &mut export.as_mut());
    drop(export);
    assert!(lease.is_held());
    assert!(blocking::wait(lease.release())?);
    // Nor does it go on where it has been entered again meanwhile.
    let owned = client.lock("b").owner(Owner::named("me"));
    let lease = get(owned.clone())?;
    let mut export = pin!(lease.export());
    begin_to_ask(&stage, &mut export);
    let inner = get(owned)?;
    assert_eq!(kind(blocking::wait(export)), ErrorKind::InvalidArgument);
    assert!(lease.is_held() && inner.is_held());
    Ok(())
}

#[test]
fn of_many_that_adopt_it_one_has_it_at_most_and_of_two_one() -> Result<(), Error> {
    let stage = Stage::new(5);
    let clients: Vec<Client> = (0..4)
        .map(|_| Client::new(&stage.nodes))
        .collect::<Result<_, _>>()?;
    for round in 0..40 {
        let clients = &clients[..if round % 2 == 0 { 4 } else { 2 }];
        let lease = get(clients[0].lock("a"))?;
        let text = export(&lease)?;
        let all: Vec<_> = clients
            .iter()
            .map(|client| {
                let (client, text) = (client.clone(), text.clone());
                std::thread::spawn(move || adopt(&client, &text))
            })
            .collect();
        let all: Vec<_> = all
            .into_iter()
            .map(|thread| thread.join().expect("it ends"))
            .collect();
        let held: Vec<&Lease> = all
            .iter()
            .flatten()
            .filter(|lease| lease.is_held())
            .collect();
        assert!(held.len() <= 1, "{all:?}");
        assert!(held.len() == 1 || clients.len() > 2, "{all:?}");
        for refused in all.iter().filter_map(|outcome| outcome.as_ref().err()) {
            assert_eq!(refused.kind(), ErrorKind::LockLost);
        }
    }
    stage.await_nothing_left();
    Ok(())
}

#[test]
fn one_that_has_ended_or_cannot_go_on_is_refused() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (one, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    let short = Duration::from_millis(300);
    let text = export(&get(one.lock("a").ttl(short))?)?;
    // Its keys end by themselves.
    stage.await_nothing_left();
    assert_eq!(kind(adopt(&other, &text)), ErrorKind::LockLost);
    let held = get(one.lock("a"))?;
    assert_eq!(kind(adopt(&other, &text)), ErrorKind::LockLost);
    assert!(held.is_held());

    let lease = get(one.lock("b"))?;
    blocking::wait(lease.release())?;
    assert_eq!(kind(export(&lease)), ErrorKind::NotOwner);
    let shared = get(one.lock("b").shared(true))?;
    assert_eq!(kind(export(&shared)), ErrorKind::InvalidArgument);
    drop(shared);
    let owner = Owner::named("me");
    let outer = get(one.lock("b").owner(owner.clone()))?;
    let inner = get(one.lock("b").owner(owner))?;
    assert_eq!(kind(export(&outer)), ErrorKind::InvalidArgument);
    assert!(outer.is_held());
    drop(inner);
    let text = export(&outer)?;

    let elsewhere = Client::builder()
        .nodes(&stage.nodes)
        .namespace("other:")
        .build()?;
    for wrong in [
        adopt(&elsewhere, &text),
        adopt(&Client::new(&stage.nodes[..1])?, &text),
        adopt(&other, &text[..text.len() - 2]),
        adopt(&other, "quorlock2.AAAA"),
        adopt(&other, ""),
    ] {
        let error = wrong.expect_err("it is refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(!error.to_string().contains(&text[10..40]), "{error}");
    }
    assert!(adopt(&other, &text)?.is_held());
    drop(held);
    stage.await_nothing_left();
    Ok(())
}

#[test]
fn who_waits_behind_it_goes_on_waiting() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (one, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    let lease = get(one.lock("a"))?;
    let waiter = Client::new(&stage.nodes)?;
    let waits = std::thread::spawn(move || get(waiter.lock("a").wait(Duration::from_secs(20))));
    quorlock_tests::queue::until("it waits", || {
        let found = blocking::wait(one.lock("a").inspect());
        found.is_ok_and(|found| found.queued() > 0)
    });
    let second = adopt(&other, &export(&lease)?)?;
    assert!(!waits.is_finished());
    assert!(blocking::wait(second.release())?);
    let third = waits.join().expect("it ends")?;
    assert!(third.fence() > second.fence());
    drop(third);
    stage.await_nothing_left();
    Ok(())
}

#[test]
fn one_node_that_is_missing_is_no_matter_and_two_are() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (one, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    let lease = get(one.lock("a"))?;
    drop(get(other.lock("warm"))?);
    let text = export(&lease)?;
    stage.tell("kill 1");
    let lease = adopt(&other, &text)?;
    assert!(lease.is_held());
    let text = export(&lease)?;
    stage.tell("kill 2");
    let error = adopt(&one, &text).expect_err("one node is no quorum");
    assert_eq!(error.kind(), ErrorKind::QuorumUnavailable, "{error}");
    Ok(())
}

#[test]
fn where_too_few_answer_it_stays_where_it_is() -> Result<(), Error> {
    let stage = Stage::new(3);
    let one = Client::new(&stage.nodes)?;
    let lease = get(one.lock("a"))?;
    stage.tell("kill 1");
    stage.tell("kill 2");
    assert_eq!(kind(export(&lease)), ErrorKind::QuorumUnavailable);
    assert!(lease.is_held());
    Ok(())
}

#[test]
fn what_is_released_leaves_nothing_of_the_lease_before() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (client, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    let lease = get_from_all(&client)?;
    let text = export(&lease)?;
    // To this node the other has no connection yet, so that its vote is not taken over.
    stage.tell("stop 3");
    let adopted = adopt(&other, &text)?;
    assert!(blocking::wait(adopted.release())?);
    stage.tell("cont 3");
    stage.await_nothing_left();
    Ok(())
}

#[test]
fn what_is_adopted_again_and_again_leaves_nothing_of_the_first_lease() -> Result<(), Error> {
    let stage = Stage::new(3);
    let client = || Client::new(&stage.nodes);
    let (first, second, third) = (client()?, client()?, client()?);
    let lease = get_from_all(&first)?;
    let text = export(&lease)?;
    // As above: the vote there stays that of the first.
    stage.tell("stop 3");
    let adopted = adopt(&second, &text)?;
    let adopted = adopt(&third, &export(&adopted)?)?;
    assert!(blocking::wait(adopted.release())?);
    stage.tell("cont 3");
    stage.await_nothing_left();
    Ok(())
}

#[test]
fn what_is_adopted_and_lost_leaves_nothing_of_the_first_lease() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (first, second) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    let lease = get_from_all(&first)?;
    let text = export(&lease)?;
    stage.tell("stop 3");
    let adopted = adopt(&second, &text)?;
    blocking::wait(second.force_release("a", None))?;
    assert_eq!(
        kind(blocking::wait(adopted.extend(None))),
        ErrorKind::LockLost
    );
    stage.tell("cont 3");
    stage.await_nothing_left();
    Ok(())
}
