use super::*;
use crate::blocking::wait;
use crate::{Client, Locks, testing};
use std::pin::pin;
use std::task::Waker;

/// A lease that was released, and the lease of the same token that followed it.
fn passed_on() -> (Client, Lease, Lease) {
    let client = Client::builder().nodes(testing::nodes(3)).label("first");
    let client = client.build().unwrap();
    let lock = client
        .lock("k")
        .fencing(false)
        .wait(Duration::from_secs(60));
    let first = wait(lock.acquire()).unwrap();
    let lock = lock.label("second");
    let mut next = pin!(lock.acquire());
    // It stands in the line from here on.
    let waits = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(waits.is_pending());
    assert!(wait(first.release()).unwrap());
    let second = wait(next).unwrap();
    assert_eq!(first.token(), second.token());
    (client, first, second)
}

#[test]
fn an_export_that_nobody_gets_ends_nothing() {
    let nodes = testing::nodes(3);
    let (client, other) = (Client::new(&nodes).unwrap(), Client::new(&nodes).unwrap());
    let lease = wait(client.lock("k").acquire()).unwrap();
    wait(lease.prepare_export()).unwrap();
    assert!(lease.is_held() && wait(lease.extend(None)).is_ok());
    // It was entered meanwhile, or given back.
    let owned = client.lock("o").owner(crate::Owner::named("me"));
    let outer = wait(owned.acquire()).unwrap();
    wait(outer.prepare_export()).unwrap();
    let inner = wait(owned.acquire()).unwrap();
    let refused = outer.export_now().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(wait(inner.release()).unwrap() && outer.is_held());
    assert!(wait(outer.release()).unwrap());
    let refused = outer.export_now().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotOwner);
    // And the client that gets the text goes on.
    let text = lease.export_now().unwrap();
    assert!(!lease.is_held());
    assert!(wait(other.adopt(&text)).unwrap().is_held());
}

#[test]
fn what_is_passed_on_has_the_label_of_who_has_it() {
    let (client, _first, second) = passed_on();
    // As its first renewal does.
    wait(second.extend(None)).unwrap();
    let lock = client.lock("k");
    let found = wait(lock.inspect()).unwrap();
    let holder = found.holder().expect("it is held");
    assert_eq!((holder.label(), holder.votes()), (Some("second"), 3));
    assert!(wait(second.release()).unwrap());
    assert!(!wait(lock.inspect()).unwrap().is_locked());
}

#[test]
fn nodes_hear_at_once_who_has_what_was_passed_on() {
    let client = Client::builder().nodes(testing::nodes(3)).label("first");
    let client = client.build().unwrap();
    let minute = Duration::from_secs(60);
    let lock = client.lock("k").ttl(minute).fencing(false).wait(None);
    let first = wait(lock.acquire()).unwrap();
    let lock = lock.label("second");
    let mut next = pin!(lock.acquire());
    let waits = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(waits.is_pending());
    assert!(wait(first.release()).unwrap());
    let second = wait(next).unwrap();
    // Its renewal would come when a third of the ttl is over.
    let begun = second.remaining();
    let told = || {
        let found = wait(client.lock("k").inspect()).unwrap();
        found
            .holder()
            .and_then(|holder| holder.label().map(str::to_owned))
    };
    while told().as_deref() != Some("second") {
        assert!(second.remaining() + minute / 6 > begun, "{:?}", told());
        std::thread::yield_now();
    }
    assert!(wait(second.release()).unwrap());
}

#[test]
fn the_loss_of_what_was_passed_on_is_told_to_who_has_it_alone() {
    let nodes = testing::nodes(1);
    let client = Client::new(&nodes).unwrap();
    let name = "passed-on-and-lost";
    let lock = client.lock(name).fencing(false).wait(None);
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let tells = |which: &'static str| {
        let told = told.clone();
        move |reason| told.lock().unwrap().push((which, reason))
    };
    let first = wait(lock.acquire()).unwrap();
    first
        .share
        .held
        .hold
        .on_lost(first.number(), Box::new(tells("before")));
    let mut next = pin!(lock.acquire());
    let waits = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(waits.is_pending());
    assert!(wait(first.release()).unwrap());
    let second = wait(next).unwrap();
    assert_eq!(first.token(), second.token());
    let (hold, lease) = (&first.share.held.hold, first.number());
    hold.on_lost(lease, Box::new(tells("late")));
    hold.on_lost(second.number(), Box::new(tells("second")));
    assert_eq!(testing::lose(name, LossReason::Refused), 1);
    hold.on_lost(lease, Box::new(tells("too late")));
    assert_eq!(*told.lock().unwrap(), [("second", LossReason::Refused)]);
    assert_eq!(
        (first.loss(), second.loss()),
        (None, Some(LossReason::Refused))
    );
}

/// It is asked for again behind it where a node has lost its counter, so that no lease that
/// is passed on from here has a fence that was counted for another.
#[test]
fn a_lease_with_others_behind_it_has_a_block_of_fences_and_renews_all_of_it() {
    let client = Client::new(testing::nodes(3)).unwrap();
    let lock = client.lock("k").wait(None);
    let mut cx = Context::from_waker(Waker::noop());
    let held = wait(lock.acquire()).unwrap();
    let mut next = [pin!(lock.acquire()), pin!(lock.acquire())];
    for next in &mut next {
        assert!(next.as_mut().poll(&mut cx).is_pending());
    }
    // Alone it had no block, so this one is won anew, with one.
    assert!(wait(held.release()).unwrap());
    let [first, second] = next;
    let first = wait(first).unwrap();
    let (hold, fence) = (first.hold().clone(), first.fence().unwrap());
    assert_eq!(
        hold.last_fence(),
        fence + u64::from(crate::protocol::claim::IN_A_ROW)
    );
    assert!(hold.renews_fence() == hold.last_fence());
    assert!(wait(first.release()).unwrap());
    let second = wait(second).unwrap();
    assert_eq!(
        (second.token(), second.fence()),
        (first.token(), Some(fence + 1))
    );
    assert!(hold.renews_fence() == hold.last_fence());
}

#[test]
fn what_cannot_be_exported_is_held_as_before() {
    let client = Client::new(testing::nodes(3)).unwrap();
    let lock = || client.lock("k").owner(crate::Owner::named("me"));
    for lock in [
        lock().shared(true),
        lock().keep(Duration::from_millis(1)),
        lock().layout(crate::Layout::Redisson),
    ] {
        let lease = wait(lock.acquire()).unwrap();
        let refused = wait(lease.export()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert!(lease.is_held() && wait(lease.release()).unwrap());
    }
}

#[test]
fn what_is_exported_lasts_for_its_ttl_from_then_on() {
    let client = Client::new(testing::nodes(3)).unwrap();
    let lock = client.lock("k").ttl(Duration::from_secs(60)).renew(false);
    let lease = wait(lock.acquire()).unwrap();
    let moment = Duration::from_millis(100);
    let begun = lease.remaining();
    while lease.remaining() + moment > begun {
        std::thread::yield_now();
    }
    let left = || {
        let found = wait(client.lock("k").inspect()).unwrap();
        found.holder().and_then(crate::Holder::left).unwrap()
    };
    let before = left();
    let text = wait(lease.export()).unwrap();
    // The text waits for its adopter.
    let after = left();
    assert!(after > before + moment / 2, "{after:?} behind {before:?}");
    assert!(wait(wait(client.adopt(&text)).unwrap().release()).unwrap());
}

#[test]
fn a_slot_goes_on_as_that_slot() {
    let client = Client::new(testing::nodes(3)).unwrap();
    let slots = || client.semaphore("s", 2).wait(Duration::ZERO);
    let (first, second) = (
        wait(slots().acquire()).unwrap(),
        wait(slots().acquire()).unwrap(),
    );
    let slot = first.slot();
    let text = wait(first.export()).unwrap();
    let adopted = wait(client.adopt(&text)).unwrap();
    assert!(slot.is_some() && adopted.slot() == slot && second.slot() != slot);
    let full = wait(slots().acquire()).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::Contended);
}

#[test]
fn several_last_as_long_as_the_first_that_ends_and_its_loss_is_told_once() {
    let client = Client::new(testing::nodes(1)).unwrap();
    let all = client.lock_all(["s-a", "s-b"]).renew(false);
    let leases = wait(all.acquire()).unwrap();
    wait(leases.get("s-b").unwrap().extend(Duration::from_secs(50))).unwrap();
    assert!(leases.remaining() <= Duration::from_secs(10));
    let (told, hears) = std::sync::mpsc::channel();
    leases.on_lost(move |name, reason| told.send((name.to_vec(), reason)).unwrap());
    for name in ["s-b", "s-a"] {
        assert_eq!(testing::lose(name, LossReason::Refused), 1);
    }
    let first = hears.recv().unwrap();
    assert_eq!(first.1, LossReason::Refused);
    // A loss by then has no listener.
    assert_eq!(leases.delivered().unwrap_err().kind(), ErrorKind::LockLost);
    assert!(hears.recv().is_err());
}

#[test]
fn of_a_lease_that_was_passed_on_nothing_can_be_done_any_more() {
    let (_client, first, second) = passed_on();
    let (hold, lease) = (&first.share.held.hold, first.share.held.lease);
    // A caller that asked before the release comes to it later.
    assert!(hold.export(lease).is_none());
    assert!(!hold.share(lease));
    let ttl = hold.terms.timing.ttl;
    assert!(matches!(wait(hold.extend(lease, ttl)), ExtendResult::Lost));
    assert!(second.is_held() && !second.is_shared());
    assert_eq!(second.loss(), None);
    for gone in [
        wait(first.export()).map(drop),
        wait(first.downgrade()),
        wait(first.extend(None)),
        wait(first.ensure(Duration::from_millis(1))),
    ] {
        assert_eq!(gone.unwrap_err().kind(), ErrorKind::NotOwner);
    }
    assert!(!wait(first.release()).unwrap() && !first.is_held());
    assert!(second.is_held() && wait(second.release()).unwrap());
}

#[test]
fn an_unconfirmed_release_says_whether_the_lease_was_valid() {
    let client = Client::new(testing::nodes(3)).unwrap();
    let lock = client.lock("unconfirmed").wait(Duration::ZERO);
    let lease = wait(lock.acquire()).unwrap();
    assert!(lease.release_unconfirmed().unwrap());
    assert!(!lease.is_held() && lease.loss().is_none());
    assert!(!lease.release_unconfirmed().unwrap() && !wait(lease.release()).unwrap());
    assert_eq!(client.stats().released, 1);
    let lease = wait(lock.acquire()).unwrap();
    assert_eq!(testing::lose("unconfirmed", LossReason::Refused), 1);
    assert!(!lease.release_unconfirmed().unwrap());
    assert_eq!(lease.loss(), Some(LossReason::Refused));
    // What its client has lost by its end, too.
    let lease = wait(lock.acquire()).unwrap();
    wait(client.close());
    assert!(!lease.release_unconfirmed().unwrap());
}

#[test]
fn the_last_handle_frees_without_an_answer_too() {
    let nodes = testing::nodes(3);
    let (client, other) = (Client::new(&nodes).unwrap(), Client::new(&nodes).unwrap());
    let owned = client.lock("k").owner(crate::Owner::named("me"));
    let (outer, inner) = (
        wait(owned.acquire()).unwrap(),
        wait(owned.acquire()).unwrap(),
    );
    let other = other.lock("k");
    assert!(outer.release_unconfirmed().unwrap());
    assert!(!outer.is_held() && inner.is_held());
    assert!(wait(other.try_acquire()).unwrap().is_none());
    assert!(inner.release_unconfirmed().unwrap());
    assert!(wait(other.try_acquire()).unwrap().is_some());
}

#[test]
fn a_waiter_gets_what_was_released_without_an_answer() {
    let client = Client::new(testing::nodes(3)).unwrap();
    let lock = client.lock("k").fencing(false).wait(None);
    let first = wait(lock.acquire()).unwrap();
    let mut next = pin!(lock.acquire());
    let waits = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(waits.is_pending());
    assert!(first.release_unconfirmed().unwrap());
    let second = wait(next).unwrap();
    assert_eq!(first.token(), second.token());
    assert_eq!(client.stats().passed_on, 1);
    assert!(second.is_held() && !first.release_unconfirmed().unwrap());
}

#[test]
fn what_is_to_stay_taken_is_not_released_without_an_answer() {
    let client = Client::new(testing::nodes(3)).unwrap();
    let minute = Duration::from_secs(60);
    let kept = client
        .lock("k")
        .owner(crate::Owner::named("me"))
        .keep(minute);
    let lease = wait(kept.acquire()).unwrap();
    let refused = lease.release_unconfirmed().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.detail().contains("keep is 60s"), "{refused}");
    assert!(lease.is_held());
    // An owner that enters it again with other options has a lease that is to stay taken all the same.
    let within = client.lock("k").owner(crate::Owner::named("me"));
    let within = wait(within.confirm(false).acquire()).unwrap();
    assert!(within.release_unconfirmed().is_err() && within.is_held());
    assert!(wait(within.release()).unwrap() && lease.is_held());
    assert!(wait(lease.release()).unwrap());
    let stays = wait(client.lock("k").inspect()).unwrap();
    assert!(stays.is_locked());
    // Of several that are held together all stay held.
    let both = Locks::of(vec![client.lock("a"), client.lock("b").keep(minute)]);
    let leases = wait(both.acquire()).unwrap();
    let refused = leases.release_unconfirmed().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(leases.is_held() && leases.waits(Some(false)).is_err());
    assert!(leases.waits(None).unwrap());
}

#[test]
fn several_are_released_without_an_answer() {
    let client = Client::new(testing::nodes(3)).unwrap();
    let all = client.lock_all(["u-a", "u-b", "u-c"]).wait(Duration::ZERO);
    let leases = wait(all.acquire()).unwrap();
    assert!(leases.release_unconfirmed().unwrap());
    assert!(!leases.release_unconfirmed().unwrap());
    let leases = wait(all.acquire()).unwrap();
    assert_eq!(testing::lose("u-a", LossReason::Refused), 1);
    // The others are released though the first says false.
    assert!(!leases.release_unconfirmed().unwrap());
    assert!(leases.iter().all(|lease| lease.is_released()));
    assert!(wait(all.confirm(false).acquire()).is_ok());
}

#[test]
fn a_release_waits_as_its_lock_says_unless_the_call_does() {
    let client = Client::new(testing::nodes(3)).unwrap();
    let owner = || crate::Owner::named("me");
    let asked = client.lock("k").owner(owner());
    let lease = wait(asked.acquire()).unwrap();
    assert!(lease.waits(None).unwrap() && !lease.waits(Some(false)).unwrap());
    // Each handle as its own lock says.
    let unasked = wait(asked.clone().confirm(false).acquire()).unwrap();
    assert!(!unasked.waits(None).unwrap() && unasked.waits(Some(true)).unwrap());
    assert!(wait(unasked.release()).unwrap() && lease.is_held());
    assert!(wait(asked.confirm(false).release()).unwrap());
    assert!(lease.is_released());
}
