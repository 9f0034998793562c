//! One lock in two modes, on real servers: many share it, or one has it alone.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use quorlock::{Client, Error, ErrorKind, Lease, Lock, Owner, RestartGuard, blocking};
use quorlock_tests::Stage;
use quorlock_tests::queue::{since, until};

const SOON: Duration = Duration::from_millis(150);

fn get(lock: Lock) -> Result<Lease, Error> {
    blocking::wait(lock.acquire())
}

fn refused(lock: Lock) -> ErrorKind {
    get(lock.wait(SOON)).expect_err("it is held").kind()
}

#[test]
fn readers_share_it_and_a_writer_has_it_alone() -> Result<(), Error> {
    for nodes in [1, 3] {
        let stage = Stage::new(nodes);
        let (one, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
        let first = get(one.lock("a"))?;
        drop(first);
        let before = get(one.lock("a"))?;
        assert_eq!(refused(other.lock("a").shared(true)), ErrorKind::Timeout);
        let fence = before.fence();
        blocking::wait(before.release())?;
        let readers = [
            get(one.lock("a").shared(true))?,
            get(one.lock("a").shared(true))?,
            get(other.lock("a").shared(true))?,
        ];
        for reader in &readers {
            assert!(reader.is_shared() && reader.is_held());
            assert!(reader.fence() > fence, "{:?}", reader.fence());
            blocking::wait(reader.extend(Duration::from_secs(20)))?;
        }
        let late = get(other.lock("a").wait(SOON)).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Timeout);
        let said = late.to_string();
        assert!(
            said.contains("shared by others") || said.contains("another owner"),
            "{said}"
        );
        let refused = get(other.lock("a").wait(Duration::ZERO)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Contended);
        let most = readers.iter().filter_map(Lease::fence).max();
        for reader in &readers {
            assert!(blocking::wait(reader.release())?);
        }
        let writer = get(other.lock("a"))?;
        assert!(writer.fence() > most && !writer.is_shared());
        drop(writer);
        stage.await_nothing_left();
    }
    Ok(())
}

#[test]
fn a_writer_is_let_in_before_those_who_come_behind_it() -> Result<(), Error> {
    for nodes in [1, 3, 5] {
        let stage = Stage::new(nodes);
        let clients: Vec<Client> = (0..3)
            .map(|_| Client::new(&stage.nodes))
            .collect::<Result<_, _>>()?;
        let reader = get(clients[0].lock("a").shared(true))?;
        let writer = clients[1].clone();
        let writer = std::thread::spawn(move || get(writer.lock("a")));
        let queued = || clients[1].stats().queued == 1;
        until("it queues", queued);
        // Its reservation keeps others out on every node, whichever is the home.
        until("no reader comes past it", || {
            let late = get(clients[2].lock("a").shared(true).wait(Duration::ZERO));
            late.is_err()
        });
        let behind = clients[2].clone();
        let behind = std::thread::spawn(move || get(behind.lock("a").shared(true)));
        until("a reader queues", || clients[2].stats().queued == 1);
        assert!(!writer.is_finished() && !behind.is_finished());
        drop(reader);
        let writer = writer.join().unwrap()?;
        assert!(!behind.is_finished());
        drop(writer);
        drop(behind.join().unwrap()?);
        stage.await_nothing_left();
    }
    Ok(())
}

#[test]
fn a_lease_is_downgraded_and_readers_come_in() -> Result<(), Error> {
    for nodes in [1, 3] {
        let stage = Stage::new(nodes);
        let (ours, theirs) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
        for waiting in [false, true] {
            let lease = get(ours.lock("a"))?;
            let reader = theirs.clone();
            let reader = std::thread::spawn(move || get(reader.lock("a").shared(true)));
            let local = ours.clone();
            let local = std::thread::spawn(move || get(local.lock("a").shared(true)));
            if waiting {
                until("it queues", || theirs.stats().queued == 1);
            }
            let fence = lease.fence();
            blocking::wait(lease.downgrade())?;
            blocking::wait(lease.downgrade())?;
            assert!(lease.is_shared() && lease.is_held() && lease.fence() == fence);
            let (reader, local) = (reader.join().unwrap()?, local.join().unwrap()?);
            assert!(reader.fence() > fence && local.fence() > fence);
            assert_eq!(refused(theirs.lock("a")), ErrorKind::Timeout);
            blocking::wait(lease.extend(None))?;
            drop((lease, reader, local));
            drop(get(theirs.lock("a"))?);
        }
        stage.await_nothing_left();
    }
    Ok(())
}

#[test]
fn an_owner_that_shares_it_is_refused_it_alone_at_once() -> Result<(), Error> {
    let stage = Stage::new(3);
    let client = Client::new(&stage.nodes)?;
    let owned = || client.lock("a").owner(Owner::named("o"));
    let shared = get(owned().shared(true))?;
    for lock in [owned().wait(None), owned().wait(None).reentrant(false)] {
        let error = get(lock).unwrap_err();
        assert_eq!(
            (error.kind(), error.name()),
            (ErrorKind::WouldDeadlock, Some(&b"a"[..]))
        );
    }
    let again = get(owned().shared(true))?;
    assert_eq!(again.token(), shared.token());
    assert!(!blocking::wait(again.release())? || shared.is_held());
    drop(shared);
    // Within a lease of its own alone it is a handle on that.
    let alone = get(owned())?;
    let within = get(owned().shared(true))?;
    assert!(within.token() == alone.token() && !within.is_shared());
    // Also when the other handle goes first.
    assert!(blocking::wait(alone.release())? && within.is_held() && !within.is_shared());
    let reader = client.lock("a").shared(true).wait(Duration::ZERO);
    assert_eq!(get(reader).unwrap_err().kind(), ErrorKind::Contended);
    drop((within, alone));
    stage.await_nothing_left();
    Ok(())
}

#[test]
fn what_does_not_go_with_sharing_is_refused() -> Result<(), Error> {
    let client = Client::new(["memory://shared-refused"])?;
    let kind = |lock: Lock| get(lock).unwrap_err().kind();
    assert_eq!(
        kind(client.lock("a").raw(true).shared(true)),
        ErrorKind::InvalidArgument
    );
    let keep = Duration::from_secs(1);
    assert_eq!(
        kind(client.lock("a").keep(keep).shared(true)),
        ErrorKind::InvalidArgument
    );
    let raw = get(client.lock("a").raw(true))?;
    let error = blocking::wait(raw.downgrade()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(!raw.is_shared() && raw.is_held());
    let evicting = Client::builder()
        .nodes(["memory://shared-evicting"])
        .accept_eviction(true)
        .build()?;
    assert_eq!(
        kind(evicting.lock("a").shared(true)),
        ErrorKind::Misconfigured
    );
    Ok(())
}

#[test]
fn an_operator_sees_readers_and_takes_the_lock_from_all_of_them() -> Result<(), Error> {
    let stage = Stage::new(3);
    let client = Client::new(&stage.nodes)?;
    let readers: Vec<Lease> = (0..5)
        .map(|_| get(client.lock("a").shared(true)))
        .collect::<Result<_, _>>()?;
    assert!(blocking::wait(client.lock("a").is_locked())?);
    // A lease is won before every node has carried everything out.
    until("all nodes have voted for all of them", || {
        let counts = stage.tell("redis all ZCARD lock:#s:{a}");
        counts.lines().filter(|count| count.trim() == "5").count() == 3
    });
    let found = blocking::wait(client.lock("a").inspect())?;
    assert_eq!(found.holder().map(|holder| holder.votes()), Some(3));
    assert!(found.nodes().iter().all(|node| node.state() == "shared"));
    let forced = blocking::wait(client.lock("a").force_release(None))?;
    assert_eq!(forced.freed(), 15);
    assert!(!blocking::wait(client.lock("a").is_locked())?);
    for reader in &readers {
        assert_eq!(
            blocking::wait(reader.extend(None)).unwrap_err().kind(),
            ErrorKind::LockLost
        );
    }
    drop(get(client.lock("a"))?);
    Ok(())
}

/// How many are in there: readers, and a writer as so many that no reader goes with it.
fn inside(stage: &Stage, readers: usize, writers: usize) -> Result<(u64, u64), Error> {
    const WRITER: i64 = 1 << 32;
    let (within, writes, reads) = (AtomicI64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let begun = quorlock_tests::monotonic();
    let work = |shared: bool| -> Result<(), Error> {
        let client = Client::new(&stage.nodes)?;
        while since(begun) < Duration::from_secs(2) {
            let lease = get(client.lock("busy").shared(shared).wait(None))?;
            let own = if shared { 1 } else { WRITER };
            let others = within.fetch_add(own, Ordering::SeqCst);
            assert!(
                others == 0 || shared && others < WRITER,
                "{others:x} beside {own:x}"
            );
            quorlock_tests::nap(Duration::from_millis(1));
            within.fetch_sub(own, Ordering::SeqCst);
            let turns = if shared { &reads } else { &writes };
            turns.fetch_add(1, Ordering::Relaxed);
            blocking::wait(lease.release())?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..readers + writers)
            .map(|number| scope.spawn(move || work(number < readers)))
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap())
    })?;
    Ok((reads.into_inner(), writes.into_inner()))
}

#[test]
fn readers_and_writers_of_many_clients_never_meet() -> Result<(), Error> {
    for nodes in [1, 3] {
        let stage = Stage::new(nodes);
        let (reads, writes) = inside(&stage, 12, 2)?;
        println!("{nodes} nodes: {reads} shared, {writes} alone");
        assert!(reads > 20 && writes > 20, "{reads} shared, {writes} alone");
        stage.await_nothing_left();
    }
    Ok(())
}

/// The key is that of a lock of another namespace, whose readers go by a key that it does not know.
#[test]
fn a_raw_lock_is_not_held_beside_readers() -> Result<(), Error> {
    for nodes in [None, Some(1), Some(3)] {
        let stage = nodes.map(Stage::new);
        let memory = ["memory://raw-beside-readers".to_owned()];
        let nodes = stage.as_ref().map_or(&memory[..], |stage| &stage.nodes);
        let ours = Client::new(nodes)?;
        let theirs = Client::builder()
            .nodes(nodes)
            .namespace("other:")
            // Servers in use take in no second set at once.
            .restart_guard(RestartGuard::Off);
        let theirs = theirs.build()?;
        let raw = || theirs.lock("lock:{a}").raw(true);
        let readers = [
            get(ours.lock("a").shared(true))?,
            get(ours.lock("a").shared(true))?,
        ];
        assert_eq!(refused(raw()), ErrorKind::Timeout);
        assert_eq!(refused(raw().keep(SOON)), ErrorKind::Timeout);
        // Nor does it go by force, which would be told to nobody: the name is another lock's.
        let forced = blocking::wait(raw().force_release(None)).unwrap_err();
        assert_eq!(forced.kind(), ErrorKind::Misconfigured, "{forced}");
        assert!(readers.iter().all(Lease::is_held));
        for reader in &readers {
            blocking::wait(reader.extend(Duration::from_secs(20)))?;
            assert!(blocking::wait(reader.release())?);
        }
        let held = get(raw())?;
        assert_eq!(refused(ours.lock("a").shared(true)), ErrorKind::Timeout);
        blocking::wait(held.release())?;
        assert!(blocking::wait(get(ours.lock("a").shared(true))?.release())?);
    }
    Ok(())
}
