//! A lease that is exported and goes on in another client, with each of its requests late or cut.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use quorlock::sim::{Clock, Instant, Link, Request, RequestContext, Set, Sink, Sleep, Wakers};
use quorlock::{Client, ErrorKind};
use quorlock_sim::contender::NAMES;
use quorlock_sim::mutants::choose;
use quorlock_sim::random::Random;
use quorlock_sim::world::MS;

use crate::stage::{Stage, TTL, exported, time_of, with_and_without};

/// The work, or `None`: it is given up where it has been polled so often.
async fn cut<T>(work: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut work = Some(Box::pin(work));
    let mut polled = 0;
    poll_fn(|cx| {
        if polled == polls {
            work = None;
            return Poll::Ready(None);
        }
        polled += 1;
        let work = work.as_mut().expect("it goes on");
        work.as_mut().poll(cx).map(Some)
    })
    .await
}

/// An export is given up at each of its awaits: whose text is not delivered is held as before.
fn an_export_is_cut() -> Result<(), String> {
    let stage = Stage::new(3);
    for polls in 0.. {
        let door = stage.door(0);
        let done = stage.does(0, async move {
            let lease = door.lock(NAMES[0]).acquire().await.expect("free");
            match cut(lease.export(), polls).await {
                Some(text) => text.map_err(|_| false),
                None => Err(lease.is_held() && lease.release().await.expect("no fork")),
            }
        });
        stage.pass(50 * MS);
        let done = done.lock().unwrap().take();
        match done.expect("all answer") {
            Ok(text) => {
                assert!(polls > 0 && stage.goes_on(1, &text));
                break;
            }
            Err(true) => {}
            Err(false) => return Err(format!("cut after {polls} polls it is over")),
        }
    }
    stage.end().map_or(Ok(()), Err)
}

#[test]
fn whose_text_is_not_delivered_is_held_as_before() {
    with_and_without("export-ends-before-its-text", an_export_is_cut);
}

/// An adoption is given up at each of its awaits: what it has taken over is given back.
fn an_adoption_is_cut() -> Result<(), String> {
    let stage = Stage::new(3);
    for polls in 0.. {
        let (door, other) = (stage.door(0), stage.door(1));
        let done = stage.does(0, async move {
            let lease = door.lock(NAMES[0]).acquire().await.expect("free");
            let text = lease.export().await.expect("held");
            let adopted = cut(other.adopt(&text), polls).await;
            (text, adopted.map(|lease| lease.expect("it is there")))
        });
        stage.pass(50 * MS);
        let done = done.lock().unwrap().take();
        let (text, adopted) = done.expect("all answer");
        if adopted.is_some() {
            assert!(polls > 0);
            break;
        }
        // Another goes on, or the lock is free.
        if !stage.goes_on(2, &text) {
            let next = stage.tries(2);
            stage.pass(20 * MS);
            let Some(next) = next.take() else {
                return Err(format!("cut after {polls} polls it is nobody's, and taken"));
            };
            next.release();
            stage.pass(20 * MS);
        }
    }
    stage.end().map_or(Ok(()), Err)
}

#[test]
fn an_adoption_that_is_given_up_gives_back_what_it_has() {
    with_and_without("cancel-leaks", an_adoption_is_cut);
}

/// A lease is exported while an extension of it is under way, which comes when another has gone
/// on with it and has released it: the old value would stand for nobody, and be taken over again.
fn an_extension_comes_after_the_adopter() -> Result<(), String> {
    let stage = Stage::new(3);
    let door = stage.door(0);
    let lease = stage.does(0, async move {
        let lease = door.lock(NAMES[0]).acquire().await.expect("free");
        lease.prepare_export().await.expect("held");
        Arc::new(lease)
    });
    stage.pass(20 * MS);
    let lease = lease.lock().unwrap().take().expect("free");
    for node in 0..3 {
        stage.cut(0, node, 100 * MS, false);
    }
    let extended = lease.clone();
    stage.does(0, async move { extended.extend(None).await.is_ok() });
    stage.pass(MS);
    let text = lease.export_now().expect("held");
    assert!(stage.goes_on(1, &text));
    stage.pass(150 * MS);
    let again = stage.goes_on(2, &text);
    let left = stage.forces(2);
    stage.pass(20 * MS);
    let left = left.lock().unwrap().take();
    match (again, left, stage.end()) {
        (false, Some(0), None) => Ok(()),
        other => Err(format!("again, left, wrong: {other:?}")),
    }
}

#[test]
fn what_was_exported_is_not_stored_anew() {
    with_and_without(
        "exported-lease-comes-back",
        an_extension_comes_after_the_adopter,
    );
}

/// A node is asked for the vote of a lease that is won without it and exported. It is slow, and
/// the lease is over for everybody when it would vote.
fn a_vote_comes_after_the_adopter() -> Result<(), String> {
    let stage = Stage::new(3);
    let door = stage.door(0);
    // Home is node 2.
    stage.cut(0, 0, 200 * MS, false);
    let text = stage.does(0, async move {
        let lease = door.lock(NAMES[0]).acquire().await.expect("free");
        lease.export().await.expect("held")
    });
    stage.pass(100 * MS);
    let text = text.lock().unwrap().take().expect("two nodes answer");
    assert!(stage.goes_on(1, &text));
    stage.pass(300 * MS);
    let left = stage.forces(2);
    stage.pass(20 * MS);
    let left = left.lock().unwrap().take();
    match (left, stage.end()) {
        (Some(0), None) => Ok(()),
        other => Err(format!("left, wrong: {other:?}")),
    }
}

#[test]
fn what_an_exported_lease_has_asked_for_is_taken_back() {
    with_and_without(
        "export-leaves-what-it-asked",
        a_vote_comes_after_the_adopter,
    );
}

/// An adopter waits for nodes that do not answer as long as its client's `wait` says, at least for
/// two answers and at most for the ttl.
#[test]
fn an_adopter_waits_for_nodes_as_long_as_it_says() {
    assert!(choose(""));
    for (wait, least) in [(0, 500), (600, 600), (1_500, 1_500), (9_000, 2_000)] {
        let stage = Stage::new(3);
        let text = exported(&stage);
        for node in [0, 1] {
            stage.cut(1, node, 4_000 * MS, true);
        }
        let builder = Client::builder().wait(Duration::from_millis(wait));
        let door = stage.door_of(1, builder);
        let adopts = stage.does(1, async move { door.adopt(&text).await.map(drop) });
        let (took, adopted) = time_of(&stage, &adopts).expect("it ends");
        let refused = adopted.expect_err("one node is no quorum").kind();
        assert_eq!(refused, ErrorKind::QuorumUnavailable);
        assert!(
            (least * MS..(least + 2) * MS).contains(&took),
            "wait of {wait} ms: it took {took} ns"
        );
        assert_eq!(stage.end(), None);
    }
}

/// A client stands still from when the nodes have let it go on with a lease until that is over.
fn an_adopted_lease_is_over_before_it_is_handed_over() -> Result<(), String> {
    let stage = Stage::new(3);
    let text = exported(&stage);
    let (clock, door) = (stage.world.clock(1), stage.door(1));
    let on = clock.now() + Duration::from_secs(60);
    let adopts = stage.does(1, async move {
        let mut adopts = Box::pin(door.adopt(&text));
        poll_fn(|cx| Poll::Ready(adopts.as_mut().poll(cx).is_pending())).await;
        clock.sleep_until(on).await;
        adopts.await.map(|lease| lease.is_held())
    });
    stage.pass(60_010 * MS);
    let adopted = adopts.lock().unwrap().take().expect("it ends");
    match adopted.map_err(|error| error.kind()) {
        Err(ErrorKind::LockLost) => stage.end().map_or(Ok(()), Err),
        other => Err(format!("it is told: {other:?}")),
    }
}

#[test]
fn what_was_adopted_is_not_handed_over_when_it_is_lost() {
    with_and_without(
        "adopted-though-lost",
        an_adopted_lease_is_over_before_it_is_handed_over,
    );
}

/// Two nodes answer an adopter late, and within its time.
#[test]
fn what_is_late_for_one_answer_is_in_time_for_an_adopter() {
    assert!(choose(""));
    let stage = Stage::new(3);
    let text = exported(&stage);
    for node in [0, 1] {
        stage.cut(1, node, 1_200 * MS, true);
    }
    let door = stage.door_of(1, Client::builder().wait(Duration::from_secs(9)));
    let adopts = stage.does(1, async move { door.adopt(&text).await.expect("in time") });
    let (took, lease) = time_of(&stage, &adopts).expect("it ends");
    assert!(
        (1_190 * MS..1_700 * MS).contains(&took),
        "it took {took} ns"
    );
    assert!(lease.is_held());
    stage.does(1, async move { lease.release().await });
    stage.pass(20 * MS);
    assert_eq!(stage.end(), None);
}

/// An adopter that reaches two nodes of three leaves nothing of the lease on the third, either.
#[test]
fn what_an_adopter_could_not_take_over_goes_with_its_release() {
    assert!(choose(""));
    let stage = Stage::new(3);
    let text = exported(&stage);
    stage.cut(1, 0, 100 * MS, true);
    let door = stage.door(1);
    let adopts = stage.does(
        1,
        async move { door.adopt(&text).await.expect("two answer") },
    );
    stage.pass(20 * MS);
    let lease = adopts.lock().unwrap().take().expect("two answer at once");
    stage.pass(200 * MS);
    stage.does(1, async move { lease.release().await });
    stage.pass(1_000 * MS);
    let left = stage.forces(2);
    stage.pass(20 * MS);
    assert_eq!(left.lock().unwrap().take(), Some(0));
    assert_eq!(stage.end(), None);
}

/// A link that is connected at a moment, of what its link is then; what is asked before is lost.
struct Dialled {
    link: Arc<dyn Link>,
    clock: Arc<dyn Clock>,
    at: Instant,
    timer: Mutex<Sleep>,
}

impl Link for Dialled {
    fn send(
        &self,
        request: Request,
        ticket: RequestContext,
        sink: Arc<dyn Sink>,
        give_up: Instant,
    ) -> Option<Wakers> {
        if self.clock.now() < self.at {
            None
        } else {
            self.link.send(request, ticket, sink, give_up)
        }
    }

    fn shown(&self) -> Arc<str> {
        self.link.shown()
    }

    fn poll_met(&self, cx: &Context<'_>) -> Poll<bool> {
        let mut cx = Context::from_waker(cx.waker());
        let mut timer = self.timer.lock().unwrap();
        if self.clock.now() < self.at {
            timer.as_mut().poll(&mut cx).map(|()| true)
        } else {
            Poll::Ready(true)
        }
    }

    fn close(&self) {}
}

/// The first call of a client is an adoption, and its connections take longer than that may.
fn an_adopter_is_not_connected_yet() -> Result<(), String> {
    let mut stage = Stage::new(3);
    let text = exported(&stage);
    let clock = stage.world.clock(1);
    let dialled = |(node, link): (usize, Arc<dyn Link>)| -> Arc<dyn Link> {
        // A quorum of them is enough.
        let long = Duration::from_millis(if node == 0 { 5_000 } else { 1_200 });
        let at = clock.now() + long;
        let timer = Mutex::new(clock.sleep_until(at));
        let clock = clock.clone();
        Arc::new(Dialled {
            link,
            clock,
            at,
            timer,
        })
    };
    let links = stage.world.links(1).into_iter().enumerate().map(dialled);
    let random = Arc::new(Random::new(1));
    let mut set = Set::new(
        links.collect(),
        stage.world.clock(1),
        random,
        TTL,
        0.01,
        |_| (),
    );
    set.connect_timeout = TTL;
    stage.sets[1] = Arc::new(set);
    let door = stage.door_of(1, Client::builder().wait(Duration::ZERO));
    let adopts = stage.does(1, async move { door.adopt(&text).await });
    let (took, adopted) = time_of(&stage, &adopts).expect("it ends");
    let lease = adopted.map_err(|error| format!("after {took} ns: {error}"))?;
    assert!(lease.is_held() && (1_199 * MS..1_210 * MS).contains(&took));
    stage.does(1, async move { lease.release().await });
    stage.pass(20 * MS);
    stage.end().map_or(Ok(()), Err)
}

#[test]
fn an_adoption_waits_for_its_clients_first_connections() {
    with_and_without("adopts-unconnected", an_adopter_is_not_connected_yet);
}
