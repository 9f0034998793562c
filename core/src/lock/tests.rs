use crate::protocol::loss::LossReason;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::task::{Context, Waker};
use std::thread;

use super::*;
use crate::export::LeaseText;
use crate::{Client, Layout, blocking};

fn kind(outcome: Result<Lease, Error>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

#[test]
fn a_thread_that_may_not_enter_again_would_wait_for_itself() {
    let client = Client::new(["memory://own-thread"]).unwrap();
    let owned = || client.lock("a").owned_by_threads(true).reentrant(false);
    let tried = |lock: Lock| blocking::wait(lock.wait(Duration::from_millis(20)).win());
    let held = blocking::wait(owned().of_this_thread().acquire()).unwrap();
    // It would wait for a reader of its own, too, behind a writer that waits for that one.
    for lock in [owned(), owned().shared(true), owned().wait(Duration::ZERO)] {
        let outcome = tried(lock.of_this_thread());
        assert_eq!(kind(outcome), Some(ErrorKind::WouldDeadlock));
    }
    // A lease of another thread, and one without an owner, may be given back meanwhile.
    let other = thread::scope(|scope| scope.spawn(|| tried(owned().of_this_thread())).join());
    assert_eq!(kind(other.unwrap()), Some(ErrorKind::Timeout));
    let by_hand = client.lock("a").of_this_thread();
    assert_eq!(kind(tried(by_hand.clone())), Some(ErrorKind::Timeout));
    // An owner that may enter again does, and another is refused beside it.
    let entered = tried(owned().reentrant(true).of_this_thread()).unwrap();
    drop(held);
    assert_eq!(
        kind(tried(owned().of_this_thread())),
        Some(ErrorKind::WouldDeadlock)
    );
    assert!(entered.is_held());
    drop(entered);
    // Slots are given back by anybody.
    let slots = || {
        client
            .semaphore("s", 2)
            .owned_by_threads(true)
            .reentrant(false)
    };
    let both = [
        tried(slots().of_this_thread()),
        tried(slots().of_this_thread()),
    ];
    assert!(both.iter().all(Result::is_ok));
    let held = blocking::wait(by_hand.acquire()).unwrap();
    assert_eq!(
        kind(tried(owned().of_this_thread())),
        Some(ErrorKind::Timeout)
    );
    drop(held);
}

#[test]
fn raw_and_redisson_of_one_name_are_two_locks() {
    let client = Client::new(["memory://two-layouts"]).unwrap();
    let lock = || {
        let lock = client.lock("orders").wait(Duration::ZERO);
        lock.owner(Owner::current_thread())
    };
    let (raw, redisson) = (lock().raw(true), lock().layout(Layout::Redisson));
    for (one, other) in [(&raw, &redisson), (&redisson, &raw)] {
        let held = blocking::wait(one.acquire()).unwrap();
        // Its owner is not within the other one, whose key they both have.
        let refused = blocking::wait(other.acquire());
        assert_eq!(kind(refused), Some(ErrorKind::Misconfigured));
        let unowned = other.clone().owner(None::<Owner>);
        let refused = blocking::wait(unowned.wait(Duration::from_secs(9)).acquire());
        assert_eq!(kind(refused), Some(ErrorKind::Misconfigured));
        assert!(blocking::wait(held.release()).unwrap());
    }
}

#[test]
fn a_lease_goes_on_in_its_namespace_alone() {
    let client = |namespace: &str| {
        let client = Client::builder().nodes(["memory://exported-namespace"]);
        client.namespace(namespace).build().unwrap()
    };
    for raw in [true, false] {
        let lock = client("a:").lock("jobs").raw(raw);
        let text = blocking::wait(blocking::wait(lock.acquire()).unwrap().export()).unwrap();
        let refused = blocking::wait(client("b:").adopt(&text)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.message().contains("another namespace"), "{refused}");
        let adopted = blocking::wait(client("a:").adopt(&text)).unwrap();
        assert!(blocking::wait(adopted.release()).unwrap());
    }
}

#[test]
fn what_is_adopted_is_banned_for_as_long_as_any_vote_of_it_may_stand() {
    let most = Duration::from_secs(90);
    let client = Client::builder().nodes(["memory://adopts-and-bans"]);
    let client = client.max_ttl(most).build().unwrap();
    let lock = client.lock("a").ttl(most / 9);
    let lease = blocking::wait(lock.acquire()).unwrap();
    let exported = LeaseText::parse(&blocking::wait(lease.export()).unwrap()).unwrap();
    let adopts = Lock::of_export(lock.client.clone(), &exported).unwrap();
    let adopts = adopts.keys.unwrap().adopts.clone().unwrap();
    // It may have been extended beyond its ttl.
    assert!(adopts.value == exported.value && adopts.ban > most);
}

#[test]
fn what_was_won_before_a_wait_and_is_not_renewed_is_lengthened() {
    let client = || Client::new(["memory://lengthened"]).unwrap();
    let (ours, theirs) = (client(), client());
    let ttl = Duration::from_secs(9);
    let last = theirs.lock("b").ttl(ttl).renew(false);
    let last = blocking::wait(last.acquire()).unwrap();
    let both = ours.lock_all(["a", "b"]).ttl(ttl).renew(false).wait(None);
    let mut waits = pin!(both.acquire());
    let mut cx = Context::from_waker(Waker::noop());
    // The other is won by then, and a second is over.
    let most = Duration::from_millis(7_800);
    while last.remaining() > most || ours.stats().acquired == 0 {
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        thread::yield_now();
    }
    assert!(blocking::wait(last.release()).unwrap());
    let both = blocking::wait(waits).unwrap();
    let left = |name: &str| both.get(name).unwrap().remaining();
    assert!(left("a") + Duration::from_millis(900) > left("b"));
}

#[test]
fn what_the_owner_has_lost_is_to_be_released_first() {
    let client = Client::new(["memory://lost-before"]).unwrap();
    for reentrant in [true, false] {
        let lock = client
            .lock("lost-before")
            .owned_by_threads(true)
            .reentrant(reentrant);
        let held = blocking::wait(lock.clone().of_this_thread().acquire()).unwrap();
        crate::testing::lose("lost-before", LossReason::Refused);
        let error = blocking::wait(lock.clone().of_this_thread().acquire()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LockLost);
        let told = "is lost (refused), and it has not been released";
        assert!(error.message().contains(told), "{error}");
        drop(held);
        drop(blocking::wait(lock.of_this_thread().acquire()).unwrap());
    }
}

#[test]
fn what_is_left_already_is_ensured_whatever_the_ttl() {
    let client = Client::new(["memory://ensured"]).unwrap();
    let second = Duration::from_secs(1);
    let lease = blocking::wait(client.lock("a").ttl(2 * second).acquire()).unwrap();
    let refused = blocking::wait(lease.ensure(20 * second)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    blocking::wait(lease.extend(Some(50 * second))).unwrap();
    blocking::wait(lease.ensure(20 * second)).unwrap();
}

#[test]
fn a_job_is_not_kept_into_its_next_run() {
    let client = Client::new(["memory://keeps"]).unwrap();
    let second = Duration::from_secs(1);
    let job = || client.lock("job").once(second);
    assert!(job().check().is_ok() && job().keep(second / 2).check().is_ok());
    for keep in [second, 2 * second] {
        let refused = job().keep(keep).check().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.message().contains("left out"), "{refused}");
    }
    assert!(client.lock("job").keep(2 * second).check().is_ok());
}

#[test]
fn what_is_to_stay_taken_is_confirmed() {
    let client = Client::new(["memory://confirmed"]).unwrap();
    let second = Duration::from_secs(1);
    let lock = || client.lock("a").confirm(false);
    assert!(lock().check().is_ok());
    let candidate = client.election("a").lock.confirm(false);
    for (refused, names) in [
        (lock().keep(second), "keep is 1s"),
        (
            client.lock("a").once(second).confirm(false),
            "keep is 500ms",
        ),
        (candidate, "leave confirm out"),
    ] {
        let refused = refused.check().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        let message = refused.message();
        assert!(
            message.contains(names) && message.contains("confirm"),
            "{refused}"
        );
    }
}

#[test]
fn what_is_acquired_by_hand_outlives_its_thread() {
    let client = Client::new(["memory://by-hand"]).unwrap();
    assert!(is_renewed(&client, |ttl| {
        let lock = client.lock("outlives").ttl(ttl);
        let acquired = || blocking::wait(lock.clone().of_this_thread().acquire()).unwrap();
        thread::scope(|scope| scope.spawn(acquired).join()).unwrap()
    }));
}

/// Whether a lease of this client that is won with this ttl is renewed. A machine that stands still
/// loses a short one, and then it has to be a long one.
fn is_renewed(client: &Client, won: impl Fn(Duration) -> Lease) -> bool {
    let mut ttls = [600, 9_000].into_iter().map(Duration::from_millis);
    ttls.any(|ttl| {
        let lease = won(ttl);
        // One may have been under way.
        let begun = client.stats().renewals + 2;
        while client.stats().renewals < begun && lease.is_held() {
            thread::yield_now();
        }
        lease.is_held()
    })
}

#[test]
fn what_is_passed_on_outlives_the_thread_that_had_it() {
    let client = Client::new(["memory://passed-on-to-a-thread"]).unwrap();
    assert!(is_renewed(&client, |ttl| {
        let lock = || client.lock("a").ttl(ttl).fencing(false).wait(None);
        let lock = || lock().owned_by_threads(true).of_this_thread();
        let (told, hears) = channel();
        let (go_on, waits) = channel();
        thread::scope(|scope| {
            let had = scope.spawn(move || {
                let lease = blocking::wait(lock().acquire()).unwrap();
                told.send(()).unwrap();
                waits.recv().unwrap();
                assert!(blocking::wait(lease.release()).unwrap());
                lease.token().to_string()
            });
            hears.recv().unwrap();
            let waits = lock();
            let mut next = pin!(waits.acquire());
            let mut cx = Context::from_waker(Waker::noop());
            assert!(next.as_mut().poll(&mut cx).is_pending());
            go_on.send(()).unwrap();
            let token = had.join().unwrap();
            let lease = blocking::wait(next).unwrap();
            assert_eq!(lease.token(), token);
            lease
        })
    }));
}

/// Whether the lease of one goes to the other, which waits for the lock in the same client.
fn is_passed_on(one: &Lock, other: &Lock) -> bool {
    let first = blocking::wait(one.acquire()).unwrap();
    let mut next = pin!(other.acquire());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(next.as_mut().poll(&mut cx).is_pending());
    assert!(blocking::wait(first.release()).unwrap());
    let second = blocking::wait(next).unwrap();
    let passed = second.token() == first.token();
    assert!(second.is_held() && blocking::wait(second.release()).unwrap());
    passed
}

#[test]
fn a_lease_is_passed_on_where_it_serves_and_nowhere_else() {
    let client = Client::new(["memory://passed-on-terms"]).unwrap();
    let second = Duration::from_secs(1);
    let lock = || client.lock("a").ttl(9 * second).fencing(false).wait(None);
    assert!(is_passed_on(&lock(), &lock().label("another")));
    for other in [
        lock().ttl(8 * second),
        lock().max_hold(60 * second),
        lock().renew(false),
        lock().fair(true),
        lock().keep(Duration::from_millis(1)),
        lock().fencing(true),
        lock().shared(true),
    ] {
        assert!(!is_passed_on(&lock(), &other), "{other:?}");
        assert!(!is_passed_on(&other, &lock()), "{other:?}");
    }
    // The nodes know the holder, and that may be in another process, too.
    let java = || lock().layout(Layout::Redisson);
    let owned = || java().owner(Owner::named("java:1"));
    assert!(is_passed_on(&java(), &java()));
    assert!(!is_passed_on(&java(), &owned()) && !is_passed_on(&owned(), &java()));
    // Slots are passed on as locks are, but not to a call that counts them otherwise.
    let slots = |most| client.semaphore("s", most).fencing(false).wait(None);
    assert!(is_passed_on(&slots(1), &slots(1)));
}

#[test]
fn slots_beyond_those_that_are_counted_here_take_none_of_them() {
    let client = Client::new(crate::testing::nodes(1)).unwrap();
    let many = client.semaphore("s", 3).wait(Duration::from_secs(60));
    let mut taken: Vec<_> = (0..3)
        .map(|_| blocking::wait(many.acquire()).unwrap())
        .collect();
    taken.retain(|lease| lease.slot() != Some(0));
    assert_eq!(taken.len(), 2);
    let one = client.semaphore("s", 1).wait(Duration::from_secs(10));
    let first = blocking::wait(one.acquire()).unwrap();
    assert_eq!(first.slot(), Some(0));
}

#[test]
fn what_an_owner_has_entered_and_lost_meanwhile_ends_the_call_for_several() {
    let nodes = crate::testing::nodes(1);
    let (ours, theirs) = (Client::new(&nodes).unwrap(), Client::new(&nodes).unwrap());
    let owner = Owner::named("me");
    let [first, last] = ["entered-and-lost:a", "entered-and-lost:b"];
    let outer = blocking::wait(ours.lock(first).owner(owner.clone()).acquire()).unwrap();
    let other = blocking::wait(theirs.lock(last).acquire()).unwrap();
    let both = ours.lock_all([first, last]).owner(owner).wait(None);
    let mut waits = pin!(both.acquire());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    assert_eq!(crate::testing::lose(first, LossReason::Refused), 1);
    assert!(blocking::wait(other.release()).unwrap());
    let lost = blocking::wait(waits).unwrap_err();
    assert_eq!(
        (lost.kind(), lost.name()),
        (ErrorKind::LockLost, Some(first.as_bytes()))
    );
    assert!(!outer.is_held());
    // What it won beside that is given back.
    let free = theirs.lock(last).wait(Duration::from_secs(60));
    assert!(blocking::wait(free.acquire()).is_ok());
}

#[test]
fn what_goes_on_here_is_renewed() {
    let client = Client::new(["memory://goes-on-renewed"]).unwrap();
    assert!(is_renewed(&client, |ttl| {
        let lease = blocking::wait(client.lock("a").ttl(ttl).acquire()).unwrap();
        let text = blocking::wait(lease.export()).unwrap();
        blocking::wait(client.adopt(&text)).unwrap()
    }));
}

/// A call that tries once has no place in the queue, so that the next waits at the nodes; behind
/// that `max_waiters` counts.
#[test]
fn what_was_won_without_a_wait_is_in_no_line() {
    let client = Client::new(["memory://in-no-line"]).unwrap();
    let moment = Duration::from_millis(20);
    let next = || {
        let lock = client.lock("a").max_waiters(0).wait(moment);
        kind(blocking::wait(lock.acquire()))
    };
    let held = blocking::wait(client.lock("a").acquire()).unwrap();
    assert_eq!(next(), Some(ErrorKind::TooManyWaiters));
    blocking::wait(held.release()).unwrap();
    let tried = blocking::wait(client.lock("a").try_acquire()).unwrap();
    assert_eq!(next(), Some(ErrorKind::Timeout));
    blocking::wait(tried.unwrap().release()).unwrap();
    let several = blocking::wait(client.lock_all(["a", "b"]).acquire()).unwrap();
    assert_eq!(next(), Some(ErrorKind::Timeout));
    blocking::wait(several.release()).unwrap();
}

#[test]
fn one_of_several_that_is_given_back_or_exported_is_no_loss() {
    let client = Client::new(["memory://one-of-several"]).unwrap();
    let several = blocking::wait(client.lock_all(["a", "b", "c"]).acquire()).unwrap();
    let of = |name| several.get(name).unwrap();
    let text = blocking::wait(of("b").export()).unwrap();
    assert!(blocking::wait(of("c").release()).unwrap());
    assert!(of("a").is_held() && !several.is_held() && several.loss().is_none());
    assert!(!blocking::wait(several.release()).unwrap());
    // It went on elsewhere.
    assert!(blocking::wait(client.adopt(&text)).unwrap().is_held());
}
