use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

#[test]
fn a_lock_that_many_hold_is_no_election() {
    let client = crate::Client::new(["memory://an-election-of-many"]).unwrap();
    let lock = || client.lock("chief").for_election();
    for (lock, option) in [(lock().shared(true), "shared"), (lock().slots(2), "slots")] {
        let fix = format!("leave {option} out");
        let election = Election::of(lock.clone());
        let work = |_| async { Ok::<_, Error>(()) };
        // Wherever a term is asked for, also by a binding that wins the lock by itself.
        let refused = [
            election.check(),
            crate::blocking::wait(election.campaign()).map(drop),
            crate::blocking::wait(election.run(work)),
            crate::blocking::wait(lock.win()).map(drop),
            crate::blocking::wait(lock.try_win()).map(drop),
        ];
        for refused in refused {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument);
            assert!(error.message().ends_with(&fix), "{error}");
        }
    }
    Election::of(lock()).check().unwrap();
    Election::of(lock().shared(true).shared(false))
        .check()
        .unwrap();
}

#[test]
fn work_is_not_begun_in_a_term_that_is_over() {
    let client = crate::Client::new(crate::testing::nodes(1)).unwrap();
    let term = crate::blocking::wait(client.election("over").campaign()).unwrap();
    assert_eq!(crate::testing::lose("over", LossReason::Expired), 1);
    let (_resign, asked) = oneshot::channel();
    let begun = std::cell::Cell::new(false);
    let work = || {
        begun.set(true);
        std::future::ready(())
    };
    let at_work = WorkThread::default();
    let mut leads = pin!(lead(&term, work, asked, &at_work));
    let ended = leads.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(ended, Poll::Ready(TermEnd::Lost)) && !begun.get());
}

type Work = Pin<Box<dyn Future<Output = Result<u32, Error>>>>;

/// A run whose work is `work`, of the terms as they are counted; and how many have begun.
fn run(
    election: &Election,
    work: impl Fn(u32, Arc<Lease>) -> Work,
) -> (impl Future<Output = Result<u32, Error>>, Arc<AtomicU32>) {
    let begun = Arc::new(AtomicU32::new(0));
    let counted = begun.clone();
    let election = election.clone();
    let run = async move {
        let of_term = |term| work(counted.fetch_add(1, Ordering::AcqRel) + 1, term);
        election.run(of_term).await
    };
    (run, begun)
}

fn polled<F: Future + ?Sized>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls the run until so many terms have begun.
fn until<F: Future>(run: &mut Pin<&mut F>, begun: &AtomicU32, terms: u32) {
    while begun.load(Ordering::Acquire) < terms {
        assert!(polled(run).is_pending());
        thread::yield_now();
    }
}

fn forever(_: u32, _: Arc<Lease>) -> Work {
    Box::pin(std::future::pending())
}

fn client() -> crate::Client {
    crate::Client::new(crate::testing::nodes(1)).unwrap()
}

#[test]
fn a_run_leads_until_it_is_asked_to_resign_and_campaigns_again() {
    let client = client();
    let election = client.election("asked");
    let (working, begun) = run(&election, forever);
    let mut working = pin!(working);
    until(&mut working, &begun, 1);
    assert!(election.is_leader());
    let mut resigns = pin!(election.resign());
    assert!(polled(&mut resigns).is_pending());
    assert!(polled(&mut working).is_pending());
    assert!(crate::blocking::wait(resigns).unwrap());
    until(&mut working, &begun, 2);
    assert!(election.is_leader());
}

#[test]
fn a_term_whose_run_is_dropped_meanwhile_has_been_resigned() {
    let client = client();
    let election = client.election("dropped");
    let (working, begun) = run(&election, forever);
    let mut working = Box::pin(working);
    until(&mut working.as_mut(), &begun, 1);
    let mut resigns = pin!(election.resign());
    assert!(polled(&mut resigns).is_pending());
    drop(working);
    assert!(crate::blocking::wait(resigns).unwrap() && !election.is_leader());
    // Nothing is left to resign, and the next one leads.
    assert!(!crate::blocking::wait(election.resign()).unwrap());
    let next = crate::blocking::wait(election.campaign()).unwrap();
    assert!(election.is_leader() && next.is_held());
    assert!(crate::blocking::wait(election.resign()).unwrap() && !next.is_held());
}

#[test]
fn a_candidate_waits_as_long_as_it_takes() {
    let client = client();
    let held = crate::blocking::wait(client.lock("patient").acquire()).unwrap();
    let election = client.election("patient").wait(Duration::ZERO);
    let (working, begun) = run(&election, forever);
    let mut working = pin!(working);
    for _ in 0..1_000 {
        assert!(polled(&mut working).is_pending());
    }
    assert!(crate::blocking::wait(held.release()).unwrap());
    until(&mut working, &begun, 1);
}

#[test]
fn work_that_is_done_ends_the_run_or_begins_again() {
    let client = client();
    let done = |term, _| -> Work { Box::pin(std::future::ready(Ok(term))) };
    let election = client.election("done");
    let (once, _) = run(&election, done);
    assert_eq!(crate::blocking::wait(once).unwrap(), 1);
    let election = election.again(true);
    let (again, begun) = run(&election, done);
    until(&mut pin!(again), &begun, 3);
}

#[test]
fn observers_are_told_of_changes_alone() {
    let (client, moment) = (client(), Duration::from_millis(5));
    let mut observer = client.election("seen").observe(moment);
    // It looks again and again meanwhile.
    let is_quiet = |observer: &mut Observer| {
        let elapsed = client.election("seen").stopwatch().unwrap();
        let mut next = pin!(observer.next());
        while elapsed() < Duration::from_millis(30) {
            if polled(&mut next).is_ready() {
                return false;
            }
            thread::yield_now();
        }
        true
    };
    let tell = |observer: &mut Observer| crate::blocking::wait(observer.next()).unwrap();
    assert_eq!(tell(&mut observer), Leadership::Vacant);
    assert!(is_quiet(&mut observer));
    let election = client.election("seen");
    let mut before = None;
    // One leads behind another between two looks.
    for _ in 0..2 {
        let term = crate::blocking::wait(election.campaign()).unwrap();
        let leader = tell(&mut observer);
        assert_eq!(leader.leader().and_then(Holder::fence), term.fence());
        assert!(before.replace(leader.clone()) != Some(leader));
        assert!(is_quiet(&mut observer));
        assert!(crate::blocking::wait(term.release()).unwrap());
    }
    assert_eq!(tell(&mut observer), Leadership::Vacant);
    let mut never = client.election("seen").observe(Duration::ZERO);
    let refused = crate::blocking::wait(never.next()).unwrap_err();
    assert_eq!(refused.kind(), crate::ErrorKind::InvalidArgument);
}

#[test]
fn work_that_fails_at_once_is_begun_again_ever_later() {
    let mut failures = Failures::default();
    let mut pause = |led| {
        failures
            .pause(Duration::from_secs(led), &SystemRng)
            .as_millis()
    };
    for low in [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000] {
        let pause = pause(0);
        assert!((low..=2 * low).contains(&pause), "{pause} of {low}");
    }
    assert!(pause(30) >= 15_000);
    assert!(pause(31) <= 1_000);
    // Work that ends well makes the next pause short, too; and is not begun at once.
    let millis = Duration::from_millis;
    for (led, rest) in [(0, 100), (99, 1), (100, 0), (5_000, 0)] {
        assert_eq!(failures.none_after(millis(led)), millis(rest));
    }
    assert!(failures.pause(millis(0), &SystemRng) <= millis(1_000));
}
