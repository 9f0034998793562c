//! Leader election on real nodes.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use quorlock::{Client, Error, ErrorKind, Leadership, Lease, LossReason, blocking};
use quorlock_tests::queue::{since, until};
use quorlock_tests::{Stage, monotonic, nap};

type Nothing = Result<(), std::convert::Infallible>;

fn client(stage: &Stage, label: &str) -> Client {
    let builder = Client::builder().nodes(&stage.nodes).label(label);
    // So that a renewal comes soon.
    builder.ttl(Duration::from_secs(3)).build().unwrap()
}

/// A candidate on a thread of its own, which sends each of its terms and leads until those
/// are lost or given up.
fn candidate(client: &Client) -> (quorlock::Election, mpsc::Receiver<Arc<Lease>>) {
    let (sender, terms) = mpsc::channel();
    let election = client.election("e");
    let runs = election.clone();
    thread::spawn(move || {
        let work = |term| {
            let sent = sender.send(term).is_ok();
            async move {
                if sent {
                    pending::<()>().await;
                }
                Nothing::Ok(())
            }
        };
        blocking::wait(runs.run(work))
    });
    (election, terms)
}

#[test]
fn the_next_candidate_leads_when_one_resigns() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (one, other) = (client(&stage, "one"), client(&stage, "other"));
    let watcher = client(&stage, "watcher");
    let (first, terms) = candidate(&one);
    let term = terms.recv().unwrap();
    assert!(first.is_leader() && term.is_held());
    let (second, later) = candidate(&other);
    let seen = watcher.election("e");
    until("the other waits", || {
        blocking::wait(watcher.inspect("e")).unwrap().queued() == 1
    });
    let leader = blocking::wait(seen.leader())?.unwrap();
    assert_eq!(leader.label(), Some("one"));
    assert!(leader.fence() >= term.fence());
    assert!(!second.is_leader());
    // It goes behind the other, and leads again after that.
    assert!(blocking::wait(first.resign())?);
    assert!(!first.is_leader() && !term.is_held());
    assert_eq!(term.loss(), None);
    // A home that answers late may let it pass the other: then it resigns again.
    let next = loop {
        match later.recv_timeout(Duration::from_secs(2)) {
            Ok(next) => break next,
            Err(_) => drop(blocking::wait(first.resign())?),
        }
    };
    assert!(next.fence() > term.fence());
    // Of each time that it has passed the other.
    while terms.try_recv().is_ok() {}
    assert!(blocking::wait(second.resign())?);
    assert!(terms.recv().unwrap().fence() > next.fence());
    assert!(!blocking::wait(second.resign())?);
    assert!(!blocking::wait(seen.resign())?);
    Ok(())
}

/// Tells that it was dropped.
struct OnDrop<'a>(&'a Cell<bool>);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

/// As where a `select!` has gone on to another branch: the same thread that would poll the run resigns.
#[test]
fn a_term_is_resigned_whose_run_is_not_polled() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (one, other) = (client(&stage, "one"), client(&stage, "other"));
    let election = one.election("e");
    let (steps, dropped) = (Cell::new(0), Cell::new(false));
    let work = |_| async {
        let _told = OnDrop(&dropped);
        poll_fn(|cx| {
            steps.set(steps.get() + 1);
            // Has something to do at each poll.
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        })
        .await;
        Nothing::Ok(())
    };
    let mut run = pin!(election.run(work));
    let led = blocking::wait_or(run.as_mut(), Duration::from_millis(1), || {
        election.is_leader()
    });
    assert!(led.is_none() && election.is_leader());
    assert!(blocking::wait(election.resign())?);
    assert!(!election.is_leader() && !blocking::wait(election.resign())?);
    // Another leads, though the run is still there; and that does nothing more of its work.
    let term = blocking::wait(other.election("e").campaign())?;
    let done = steps.get();
    assert!(!dropped.get());
    let next = blocking::wait_or(run.as_mut(), Duration::from_millis(1), || dropped.get());
    assert!(next.is_none() && steps.get() == done);
    // It campaigns, and leads after that.
    assert!(blocking::wait(term.release())?);
    let again = blocking::wait_or(run.as_mut(), Duration::from_millis(1), || {
        steps.get() > done
    });
    assert!(again.is_none() && election.is_leader());
    // Dropped while it waits for a run that is not polled, the term ends all the same.
    let begun = Cell::new(false);
    let waited = blocking::wait_or(election.resign(), Duration::from_millis(1), || {
        begun.replace(true)
    });
    assert!(waited.is_none());
    until("nobody leads", || {
        blocking::wait(election.leader()).unwrap().is_none()
    });
    Ok(())
}

#[test]
fn a_step_that_takes_longer_than_the_node_timeout_is_waited_for() -> Result<(), Error> {
    let stage = Stage::new(1);
    let short = Duration::from_millis(50);
    let client = Client::builder()
        .nodes(&stage.nodes)
        .node_timeout(short)
        .build()?;
    let election = client.election("e");
    let (begun, begins) = mpsc::channel();
    let (resigner, terms) = (election.clone(), AtomicUsize::new(0));
    let resigns = thread::spawn(move || {
        begins.recv().unwrap();
        blocking::wait(resigner.resign())
    });
    let work = |term: Arc<Lease>| {
        let first = terms.fetch_add(1, Ordering::SeqCst) == 0;
        let (begun, election) = (begun.clone(), &election);
        async move {
            if first {
                begun.send(()).unwrap();
                let end = monotonic() + 10 * short.as_nanos() as u64;
                while monotonic() < end {
                    assert!(term.is_held(), "given up while the work was in a step");
                    nap(Duration::from_millis(1));
                }
                pending::<()>().await;
            }
            // What would wait for its own step does not.
            let resigned = blocking::wait(election.resign());
            Ok::<_, Error>((resigned, term.is_held()))
        }
    };
    let (resigned, held) = blocking::wait(election.run(work))?;
    assert!(resigns.join().unwrap()? && resigned? && !held);
    assert_eq!(terms.load(Ordering::SeqCst), 2);
    Ok(())
}

#[test]
fn what_hears_of_the_end_of_work_hears_of_a_panic_and_of_a_run_that_is_dropped() {
    let stage = Stage::new(1);
    let client = client(&stage, "one");
    let ended = Arc::new(AtomicUsize::new(0));
    let told = ended.clone();
    let election = client.election("e").on_stopped(move || {
        told.fetch_add(1, Ordering::SeqCst);
        // Does not end the process, also where the work has panicked.
        assert!(!thread::panicking(), "in vain");
    });
    let panics = election.run(async |_| -> Nothing { panic!("as the work may") });
    let caught = catch_unwind(AssertUnwindSafe(|| blocking::wait(panics)));
    assert!(caught.is_err() && ended.load(Ordering::SeqCst) == 1);
    let waits = election.run(async |_| -> Nothing { pending().await });
    let led = blocking::wait_or(waits, Duration::from_millis(1), || election.is_leader());
    assert!(led.is_none() && ended.load(Ordering::SeqCst) == 2);
    // The term has been given up both times.
    until("nobody leads", || {
        blocking::wait(election.leader()).unwrap().is_none()
    });
}

#[test]
fn work_that_is_done_ends_it_and_work_that_fails_does_not() -> Result<(), Error> {
    let stage = Stage::new(3);
    let client = client(&stage, "one");
    let stopped = Arc::new(AtomicUsize::new(0));
    let counted = stopped.clone();
    let election = client.election("e").on_stopped(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let mut fences = Vec::new();
    let done = blocking::wait(election.run(|term| {
        assert!(term.is_held());
        fences.push(term.fence());
        let tries = fences.len();
        async move {
            match tries {
                1 => Err("not today"),
                _ => Ok(tries),
            }
        }
    }))?;
    assert_eq!(done, 2);
    assert!(fences[0] < fences[1], "{fences:?}");
    assert_eq!(stopped.load(Ordering::SeqCst), 2);
    assert_eq!(blocking::wait(election.leader())?, None);
    // Again and again.
    let (mut terms, begun) = (0, monotonic());
    let work = election.clone().again(true);
    let work = work.run(|_| {
        terms += 1;
        async move {
            if terms == 3 {
                pending::<()>().await;
            }
            Nothing::Ok(())
        }
    });
    let ended = blocking::wait_or(work, Duration::from_millis(1), || {
        stopped.load(Ordering::SeqCst) == 4 && election.is_leader()
    });
    assert!(ended.is_none());
    assert_eq!(terms, 3);
    // Work that is done at once is not begun as often as nodes answer.
    assert!(since(begun) > Duration::from_millis(190));
    // It was dropped, and so resigned.
    until("nobody leads", || {
        blocking::wait(election.leader()).unwrap().is_none()
    });
    Ok(())
}

#[test]
fn a_loss_drops_the_work_and_campaigns_again() -> Result<(), Error> {
    let stage = Stage::new(3);
    let one = client(&stage, "one");
    let (sender, told) = mpsc::channel();
    let stopped = sender.clone();
    let election = one
        .election("e")
        .on_lost(move |reason| sender.send(Some(reason)).unwrap())
        .on_stopped(move || stopped.send(None).unwrap());
    let (leads, terms) = mpsc::channel();
    let runs = election.clone();
    thread::spawn(move || {
        let work = |term| {
            leads.send(term).unwrap();
            pending::<Nothing>()
        };
        blocking::wait(runs.run(work))
    });
    let first = terms.recv().unwrap();
    blocking::wait(client(&stage, "operator").force_release("e", None))?;
    assert_eq!(told.recv().unwrap(), Some(LossReason::Forced));
    assert_eq!(told.recv().unwrap(), None);
    assert!(terms.recv().unwrap().fence() > first.fence());
    Ok(())
}

#[test]
fn observers_see_each_leader_and_never_an_old_one() -> Result<(), Error> {
    let stage = Stage::new(3);
    let (one, watcher) = (client(&stage, "one"), client(&stage, "watcher"));
    let mut seen = watcher.election("e").observe(Duration::from_millis(20));
    assert_eq!(blocking::wait(seen.next())?, Leadership::Vacant);
    let term = blocking::wait(one.election("e").campaign())?;
    let led = blocking::wait(seen.next())?;
    assert_eq!(led.leader().and_then(|leader| leader.label()), Some("one"));
    // The same leader in another term is a change.
    blocking::wait(term.release())?;
    let again = blocking::wait(one.election("e").campaign())?;
    let mut next = blocking::wait(seen.next())?;
    if next == Leadership::Vacant {
        next = blocking::wait(seen.next())?;
    }
    assert!(next.leader().unwrap().fence() >= again.fence());
    stage.tell("kill 1");
    stage.tell("kill 2");
    let unknown = blocking::wait(seen.next())?;
    assert_eq!(unknown, Leadership::Unknown);
    assert!(!unknown.is_known() && unknown.leader().is_none());
    let error = blocking::wait(watcher.election("e").leader()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QuorumUnavailable);
    let mut never = watcher.election("e").observe(Duration::ZERO);
    let error = blocking::wait(never.next()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    Ok(())
}

#[test]
fn a_close_ends_the_rest_of_an_observer_and_the_pause_after_work_that_failed() {
    let stage = Stage::new(3);
    let client = client(&stage, "one");
    // Of an election that nobody is a candidate of: there is nothing to see.
    let mut seen = client
        .election("nobody's")
        .observe(Duration::from_secs(3600));
    assert_eq!(blocking::wait(seen.next()).unwrap(), Leadership::Vacant);
    // As one that has seen the same.
    let mut other = seen.clone();
    let (sender, ended) = mpsc::channel();
    let sends = sender.clone();
    let observer = thread::spawn(move || sends.send(blocking::wait(seen.next()).unwrap_err()));
    let clone = thread::spawn(move || sender.send(blocking::wait(other.next()).unwrap_err()));
    let (failed, fails) = mpsc::channel();
    let election = client.election("e");
    let candidate = thread::spawn(move || {
        // Each pause is longer than the one before; the last is too long for a test.
        let work = |_| {
            let _ = failed.send(());
            async { Err::<(), _>("not today") }
        };
        blocking::wait(election.run(work)).unwrap_err()
    });
    (0..3).for_each(|_| fails.recv().unwrap());
    blocking::wait(client.close());
    assert_eq!(ended.recv().unwrap().kind(), ErrorKind::Closed);
    assert_eq!(ended.recv().unwrap().kind(), ErrorKind::Closed);
    assert_eq!(candidate.join().unwrap().kind(), ErrorKind::Closed);
    observer.join().unwrap().unwrap();
    clone.join().unwrap().unwrap();
}
