//! Slots of a semaphore, on real servers: as many holders as there are slots, and no more.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use quorlock::{Client, Error, ErrorKind, Lease, Lock, Owner, Verdict, blocking};
use quorlock_tests::Stage;
use quorlock_tests::queue::{since, until};

const SOON: Duration = Duration::from_millis(150);

fn get(lock: Lock) -> Result<Lease, Error> {
    blocking::wait(lock.acquire())
}

#[test]
fn as_many_hold_it_as_there_are_slots() -> Result<(), Error> {
    for nodes in [1, 3] {
        let stage = Stage::new(nodes);
        let (one, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
        let leases = [
            get(one.semaphore("a", 3))?,
            get(other.semaphore("a", 3))?,
            get(one.semaphore("a", 3))?,
        ];
        let mut slots: Vec<_> = leases.iter().filter_map(Lease::slot).collect();
        slots.sort_unstable();
        assert_eq!(slots, [0, 1, 2]);
        for lease in &leases {
            assert!(lease.fence().is_some() && lease.is_held() && !lease.is_shared());
            blocking::wait(lease.extend(Duration::from_secs(20)))?;
        }
        let refused = get(other.semaphore("a", 3).wait(Duration::ZERO)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Contended, "{refused}");
        let late = get(other.semaphore("a", 3).wait(SOON)).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Timeout, "{late}");
        // A lock of that name is another matter.
        drop(get(other.lock("a"))?);
        // Whoever counts one more has that one.
        let fourth = get(other.semaphore("a", 4).wait(SOON))?;
        assert_eq!(fourth.slot(), Some(3));
        let freed = leases[1].slot();
        assert!(blocking::wait(leases[1].release())?);
        let next = get(other.semaphore("a", 3).wait(Duration::ZERO))?;
        assert_eq!(next.slot(), freed);
        assert!(next.fence() > leases[1].fence());
        drop((leases, fourth, next));
        stage.await_nothing_left();
    }
    Ok(())
}

#[test]
fn who_waits_is_called_for_the_slot_that_is_free() -> Result<(), Error> {
    for nodes in [1, 3, 5] {
        let stage = Stage::new(nodes);
        let clients: Vec<Client> = (0..3)
            .map(|_| Client::new(&stage.nodes))
            .collect::<Result<_, _>>()?;
        let held = [
            get(clients[0].semaphore("a", 2))?,
            get(clients[0].semaphore("a", 2))?,
        ];
        let mut waiters = Vec::new();
        for (i, client) in clients[1..].iter().enumerate() {
            let asks = client.clone();
            let fair = asks.semaphore("a", 2).fair(true);
            waiters.push(std::thread::spawn(move || get(fair)));
            until("it queues", || client.stats().queued == 1);
            assert!(!waiters[i].is_finished());
        }
        let begun = clients[1].stats().acquired + clients[2].stats().acquired;
        assert_eq!(begun, 0);
        let slot = held[1].slot();
        blocking::wait(held[1].release())?;
        let first = waiters.remove(0).join().unwrap()?;
        assert_eq!(first.slot(), slot);
        assert!(!waiters[0].is_finished());
        blocking::wait(first.release())?;
        let second = waiters.remove(0).join().unwrap()?;
        assert_eq!(second.slot(), slot);
        drop((held, second));
        stage.await_nothing_left();
    }
    Ok(())
}

#[test]
fn many_who_come_and_go_are_never_more_than_the_limit() -> Result<(), Error> {
    const SLOTS: u32 = 3;
    const TURNS: u64 = 25;
    for nodes in [1, 3] {
        let stage = Stage::new(nodes);
        let inside = AtomicI64::new(0);
        let most = AtomicI64::new(0);
        let turns = AtomicU64::new(0);
        let fences = Mutex::new([0_u64; SLOTS as usize]);
        let begun = quorlock_tests::monotonic();
        std::thread::scope(|scope| {
            for _ in 0..5 {
                let client = Client::new(&stage.nodes).unwrap();
                for _ in 0..2 {
                    let client = client.clone();
                    let (inside, most, turns, fences) = (&inside, &most, &turns, &fences);
                    scope.spawn(move || {
                        for _ in 0..TURNS {
                            let lease = get(client.semaphore("a", SLOTS).wait(None)).unwrap();
                            let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                            most.fetch_max(now, Ordering::SeqCst);
                            let slot = lease.slot().unwrap() as usize;
                            let fence = lease.fence().unwrap();
                            let before =
                                std::mem::replace(&mut fences.lock().unwrap()[slot], fence);
                            assert!(before < fence, "slot {slot}: {before}, {fence}");
                            std::thread::yield_now();
                            turns.fetch_add(1, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(lease);
                        }
                    });
                }
            }
        });
        assert_eq!(turns.load(Ordering::SeqCst), 10 * TURNS);
        let most = most.load(Ordering::SeqCst);
        assert!((2..=i64::from(SLOTS)).contains(&most), "{most} at once");
        eprintln!("{nodes} nodes: {:?}, {most} at once", since(begun));
        stage.await_nothing_left();
    }
    Ok(())
}

#[test]
fn a_crowd_in_one_client_passes_slots_on_and_leaves_some_to_others() -> Result<(), Error> {
    for nodes in [1, 3] {
        let stage = Stage::new(nodes);
        let (crowd, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
        let (inside, over) = (AtomicI64::new(0), AtomicI64::new(0));
        let fences = Mutex::new([0; 2]);
        let hold = |client: &Client| {
            let lease = get(client.semaphore("a", 2).wait(None)).unwrap();
            assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
            let slot = lease.slot().unwrap() as usize;
            let before =
                std::mem::replace(&mut fences.lock().unwrap()[slot], lease.fence().unwrap());
            assert!(before < lease.fence().unwrap());
            std::thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
            assert!(blocking::wait(lease.release()).unwrap());
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while over.load(Ordering::SeqCst) == 0 {
                        hold(&crowd);
                    }
                });
            }
            let passes = || crowd.stats().passed_on > 0;
            let end = quorlock_tests::monotonic() + 20_000_000_000;
            while !passes() && quorlock_tests::monotonic() < end {
                std::thread::yield_now();
            }
            (0..5).for_each(|_| hold(&other));
            over.store(1, Ordering::SeqCst);
            assert!(passes(), "{:?}", crowd.stats());
        });
        stage.await_nothing_left();
    }
    Ok(())
}

#[test]
fn a_named_owner_enters_its_slot_again_and_nobody_else_does() -> Result<(), Error> {
    let stage = Stage::new(1);
    let client = Client::new(&stage.nodes)?;
    let mine = || client.semaphore("a", 2).owner(Owner::named("mine"));
    let first = get(mine())?;
    let again = get(mine())?;
    assert_eq!((first.slot(), first.fence()), (again.slot(), again.fence()));
    let other = get(client.semaphore("a", 2).wait(SOON))?;
    assert_ne!(other.slot(), first.slot());
    drop((first, again, other));
    stage.await_nothing_left();
    Ok(())
}

#[test]
fn what_makes_no_semaphore_is_refused() -> Result<(), Error> {
    let stage = Stage::new(1);
    let client = Client::new(&stage.nodes)?;
    for (lock, word) in [
        (client.semaphore("a", 0), "slots is 0"),
        (client.semaphore("a", 129), "slots is 129"),
        (client.semaphore("a", 2).raw(true), "raw"),
    ] {
        let refused = get(lock).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.to_string().contains(word), "{refused}");
    }
    // One client may have them all.
    let all = (0..128).map(|_| get(client.semaphore("all", 128).wait(SOON)));
    let all = all.collect::<Result<Vec<_>, _>>()?;
    assert!(get(client.semaphore("all", 128).wait(SOON)).is_err());
    drop(all);
    let lease = get(client.semaphore("a", 128))?;
    let refused = blocking::wait(lease.downgrade()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(lease.is_held());
    drop(lease);
    stage.await_nothing_left();
    Ok(())
}

/// A semaphore is looked at and taken away by its slots, and a lock of its name is not told as free without a word of it.
#[test]
fn it_is_looked_at_and_taken_away_by_its_slots() -> Result<(), Error> {
    for nodes in [1, 3] {
        let stage = Stage::new(nodes);
        let (theirs, ours) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
        let semaphore = ours.semaphore("a", 2);
        // From here on it knows the nodes' clocks.
        drop(get(theirs.lock("warm"))?);
        let found = blocking::wait(semaphore.inspect())?;
        assert_eq!((found.slots().len(), found.slots_held()), (2, 0), "{found}");
        let leases = [
            get(theirs.semaphore("a", 2))?,
            get(theirs.semaphore("a", 2))?,
        ];
        // Where nodes had counted differently far, its fence is known from the next renewal on.
        for lease in &leases {
            blocking::wait(lease.extend(None))?;
        }
        let found = blocking::wait(semaphore.inspect())?;
        assert_eq!((found.verdict(), found.slots_held()), (Verdict::Held, 2));
        for lease in &leases {
            let slot = &found.slots()[lease.slot().expect("a slot") as usize];
            let holder = slot.holder().expect("a holder");
            assert_eq!((holder.fence(), holder.votes()), (lease.fence(), nodes));
            assert!(holder.since().is_some() && holder.left().is_some());
        }
        let lock = blocking::wait(ours.inspect("a"))?;
        assert_eq!(
            (lock.verdict(), lock.slots_held()),
            (Verdict::Free, 2),
            "{lock}"
        );
        assert!(!blocking::wait(semaphore.wait_until_free(SOON))?);
        std::thread::scope(|scope| -> Result<(), Error> {
            let free = scope.spawn(|| blocking::wait(semaphore.wait_until_free(None)));
            let slot = leases[1].slot().expect("a slot");
            let forced = blocking::wait(semaphore.force_release_slot(slot, leases[1].fence()))?;
            assert!(forced.freed() > nodes / 2, "{forced}");
            assert!(free.join().expect("no panic")?);
            Ok(())
        })?;
        assert!(leases[0].is_held());
        assert!(blocking::wait(semaphore.force_release(None))?.freed() > nodes / 2);
        assert_eq!(blocking::wait(semaphore.inspect())?.slots_held(), 0);
    }
    Ok(())
}
