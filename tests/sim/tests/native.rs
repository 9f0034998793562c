//! What plain commands may do to each other, in orders that chance seldom brings about:
//! two in which a value that is no vote would become one, and a crossing of three. Each
//! is played as it is, and, in a build with seeded bugs, with the bug that it is for.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use quorlock::sim::{
    Acquired, Asked, Clock, Hold, Inbox, Instant, Link, LocalQueues, LossReason, Request,
    RequestContext, Set, Sink, Sleep, Terms, Timing, Wait, Waits, Wakers, Watchdog, acquire,
};
use quorlock::{Client, ClientBuilder, ErrorKind, Owner};
use quorlock_sim::contender::{KEYS, NAMES, keys_of};
use quorlock_sim::mutants::choose;
use quorlock_sim::random::Random;
use quorlock_sim::world::{Admission, FaultEvent, MS, Network, Rate, Time, Ways, World};

const TTL: Duration = Duration::from_secs(2);
/// Of a max ttl that is the ttl, and then some.
const QUARANTINE: Time = 2_100 * MS;
const CLIENTS: usize = 3;

const WAITS: Waits = Waits {
    reservation: Duration::from_millis(200),
    place: Duration::from_secs(60),
    most: 10_000,
};

fn terms() -> Terms {
    Terms {
        keys: keys_of(KEYS[0], WAITS, Some(Duration::from_secs(600))),
        label: Arc::default(),
        timing: Timing::of(TTL, 0.01, 0.1, Duration::from_millis(500)),
        drift: 0.01,
        asked: Asked::default(),
        bound: None,
        group: Default::default(),
    }
}

/// Nodes that guard restarts, and clients that know them.
struct Stage {
    world: Arc<World>,
    sets: Vec<Arc<Set>>,
}

impl Stage {
    fn new(nodes: usize) -> Stage {
        let network = Network {
            base: MS / 10,
            reach: TTL.as_nanos() as Time,
            patience: 500 * MS,
            even: true,
            ..Network::default()
        };
        let clock = Rate {
            offset: 1_000 * MS,
            rate: 1.0,
        };
        let world = World::new(
            Random::new(7),
            network,
            Admission::new(nodes, TTL, true, true),
            &vec![clock; nodes],
            &[clock; CLIENTS],
            false,
        );
        let set = |client| {
            let random = Arc::new(Random::new(client as u64));
            let (links, clock) = (world.links(client), world.clock(client));
            Arc::new(Set::new(links, clock, random, TTL, 0.01, |_| ()))
        };
        let sets = (0..CLIENTS).map(set).collect();
        let stage = Stage { world, sets };
        for client in 0..CLIENTS {
            // From here on it is connected, and knows what time it is.
            let first = stage.tries(client);
            stage.pass(20 * MS);
            first.take().expect("free").release();
            stage.pass(20 * MS);
        }
        stage
    }

    fn pass(&self, time: Time) {
        self.world.run(self.world.time() + time);
    }

    /// A client tries to have the lock, once.
    fn tries(&self, client: usize) -> Attempt {
        self.waits(client, Duration::ZERO)
    }

    /// A client waits for the lock, for so long.
    fn waits(&self, client: usize, long: Duration) -> Attempt {
        self.wants(client, long, terms())
    }

    fn wants(&self, client: usize, long: Duration, terms: Terms) -> Attempt {
        let won = Arc::new(Mutex::new(None));
        let (set, result) = (self.sets[client].clone(), won.clone());
        let inbox = Inbox::new(self.world.inbox(client), &set.links);
        self.world.spawn(client, async move {
            let lines: Arc<LocalQueues> = Arc::default();
            let wait = Wait {
                limit: Some(long),
                lines: &lines,
                inbox: &inbox,
                max_waiters: 1,
            };
            let ended = acquire(&set, &terms, b"k", wait, || None::<()>).await;
            if let Ok(Acquired::Hold(hold)) = ended {
                *result.lock().unwrap() = Some(hold);
            }
        });
        Attempt(won)
    }

    /// A client as its users have it. Nothing renews its leases.
    fn door(&self, client: usize) -> Client {
        self.door_of(client, Client::builder())
    }

    /// The same, built so.
    fn door_of(&self, client: usize, builder: ClientBuilder) -> Client {
        let set = self.sets[client].clone();
        let inbox = Inbox::new(self.world.inbox(client), &set.links);
        let watchdog = Watchdog::new(set.clock.clone());
        let door = builder.max_ttl(TTL);
        door.simulated(set, inbox, watchdog, WAITS)
    }

    /// A client does this; what came of it, once it has.
    fn does<T: Send + 'static>(
        &self,
        client: usize,
        what: impl Future<Output = T> + Send + 'static,
    ) -> Arc<Mutex<Option<T>>> {
        let done = Arc::new(Mutex::new(None));
        let result = done.clone();
        self.world.spawn(client, async move {
            let what = what.await;
            *result.lock().unwrap() = Some(what);
        });
        done
    }

    /// An operator takes the lock away, from this client; of how many nodes a vote went.
    fn forces(&self, client: usize) -> Arc<Mutex<Option<usize>>> {
        let door = self.door(client);
        self.does(client, async move {
            let forced = door.force_release(NAMES[0], None).await;
            forced.expect("all answer").freed()
        })
    }

    /// A client goes on with an exported lease, and releases it; whether both was done.
    fn goes_on(&self, client: usize, text: &str) -> bool {
        let (door, text) = (self.door(client), text.to_owned());
        let done = self.does(client, async move {
            let Ok(lease) = door.adopt(&text).await else {
                return false;
            };
            lease.release().await.expect("no fork")
        });
        self.pass(20 * MS);
        let done = done.lock().unwrap().take();
        done.expect("all answer at once")
    }

    /// What a client asks of a node arrives so much later; or is lost.
    fn cut(&self, client: usize, node: usize, long: Time, lossy: bool) {
        let cut = FaultEvent::Cut {
            client,
            node,
            long,
            ways: Ways::Requests,
            lossy,
        };
        self.world.plan(self.world.time(), cut);
        self.pass(MS);
    }

    /// Whether a client cannot have the lock now; it gives back what it gets.
    fn tries_in_vain(&self, client: usize) -> bool {
        let tried = self.tries(client);
        self.pass(20 * MS);
        let got = tried.take();
        let in_vain = got.is_none();
        got.iter().for_each(|hold| drop(hold.release()));
        self.pass(20 * MS);
        in_vain
    }

    /// What was violated, if anything was.
    fn end(self) -> Option<String> {
        let violation = self.world.violation();
        self.world.end();
        violation
    }
}

struct Attempt(Arc<Mutex<Option<Arc<Hold>>>>);

impl Attempt {
    fn take(&self) -> Option<Arc<Hold>> {
        self.0.lock().unwrap().take()
    }
}

/// Plays as it is, and with a seeded bug where the build has it: that has to show.
fn with_and_without(bug: &str, play: impl Fn() -> Result<(), String>) {
    assert!(choose(""));
    assert_eq!(play(), Ok(()));
    if choose(bug) {
        let wrong = play();
        choose("");
        assert!(wrong.is_err(), "{bug} does not show");
    }
}

/// A node forgets everything. The value that is stored there next was not checked by
/// anybody; asked for again by script, once the node has its new record and is in
/// quarantine, it is there, and is no vote: that which the node gave before counts on.
fn a_void_vote_is_confirmed_in_quarantine() -> Result<(), String> {
    let stage = Stage::new(1);
    let first = stage.tries(0);
    stage.pass(20 * MS);
    let first = first.take().expect("free");
    stage.world.plan(stage.world.time(), FaultEvent::Flush(0));
    stage.pass(MS);
    let second = stage.tries(1);
    for _ in 0..100 {
        stage.pass(MS);
        if second.take().is_some() && first.is_held() {
            stage.world.end();
            return Err("two hold the lock".into());
        }
    }
    assert!(first.is_held(), "it was held all the time");
    stage.end().map_or(Ok(()), Err)
}

#[test]
fn in_quarantine_no_value_is_taken_for_a_vote() {
    with_and_without(
        "own-confirmed-in-quarantine",
        a_void_vote_is_confirmed_in_quarantine,
    );
}

/// A node forgot everything, and its quarantine is over. A client that has not noticed
/// finds its vote void, for the record is another, and asks again by script: now it is a
/// vote. A release of the void one would come behind that, and delete it.
fn a_void_vote_is_released() -> Result<(), String> {
    let stage = Stage::new(1);
    stage.world.plan(stage.world.time(), FaultEvent::Flush(0));
    stage.pass(MS);
    // Has the node write its new record.
    let witness = stage.tries(0);
    stage.pass(QUARANTINE);
    assert!(witness.take().is_none(), "in quarantine");
    let first = stage.tries(1);
    stage.pass(20 * MS);
    let first = first.take().expect("free");
    let second = stage.tries(2);
    stage.pass(20 * MS);
    assert!(first.is_held(), "it was held all the time");
    if second.take().is_some() {
        stage.world.end();
        return Err("two hold the lock".into());
    }
    stage.end().map_or(Ok(()), Err)
}

#[test]
fn a_void_vote_is_not_released_while_its_token_lives() {
    with_and_without("void-is-released", a_void_vote_is_released);
}

/// Who holds a lock that another waits for is gone, and so is the other: the key stays, and
/// means nothing. A try is refused natively, and asks by script whether that is so.
fn a_crowd_is_gone() -> Result<(), String> {
    let stage = Stage::new(1);
    let first = stage.tries(0);
    stage.pass(20 * MS);
    first.take().expect("free");
    let second = stage.waits(1, Duration::from_millis(100));
    stage.pass(50 * MS);
    let crash = FaultEvent::CrashClient(0);
    stage.world.plan(stage.world.time(), crash);
    stage.pass(TTL.as_nanos() as Time + 200 * MS);
    assert!(second.take().is_none(), "held as long as it waited");
    let third = stage.tries(2);
    stage.pass(20 * MS);
    if third.take().is_none() {
        stage.world.end();
        return Err("a free lock is not to be had".into());
    }
    stage.end().map_or(Ok(()), Err)
}

#[test]
fn a_try_gets_what_a_crowd_has_left() {
    with_and_without("taken-is-held", a_crowd_is_gone);
}

/// The home has refused plain commands, for somebody waits there, and its connection breaks
/// before it says more to the script. The others are free: whoever is to have the lock next
/// does not hear that it is called. Its refusal stands.
fn a_home_refuses_and_is_gone() -> Result<(), String> {
    let stage = Stage::new(3);
    let first = stage.tries(0);
    stage.pass(20 * MS);
    let first = first.take().expect("free");
    let second = stage.waits(1, Duration::from_secs(10));
    stage.pass(50 * MS);
    for node in 0..3 {
        stage.cut(1, node, 900 * MS, false);
    }
    first.release();
    stage.pass(20 * MS);
    // Home is node 2. By then the script is on its way there.
    let reset = FaultEvent::Reset(2, 2);
    stage.world.plan(stage.world.time() + MS / 4, reset);
    let third = stage.tries(2);
    stage.pass(700 * MS);
    let passed = third.take().is_some();
    stage.pass(1_000 * MS);
    let called = second.take().is_some();
    match (passed, called, stage.end()) {
        (false, true, None) => Ok(()),
        other => Err(format!("passed, called, wrong: {other:?}")),
    }
}

#[test]
fn what_the_home_has_refused_stays_refused() {
    with_and_without("refusal-is-forgotten", a_home_refuses_and_is_gone);
}

/// The home of a lock answers one client 60 ms late, which is more than a tenth of the time
/// that a node has. It is waited for once; then the others' votes are enough, until it
/// answers sooner. It is waited for again then.
fn a_home_is_late() -> Result<(), String> {
    let stage = Stage::new(3);
    // Home is node 2.
    let (base, late) = (2 * MS, 60 * MS);
    let mut took = Vec::new();
    for slow in [true, true, true, false, true] {
        if slow {
            stage.cut(0, 2, late, false);
        }
        let (begun, attempt) = (stage.world.time(), stage.tries(0));
        let hold = loop {
            stage.pass(base);
            if let Some(hold) = attempt.take() {
                break hold;
            }
            assert!(stage.world.time() < begun + 200 * MS, "it is free");
        };
        took.push(stage.world.time() - begun > 40 * MS);
        stage.pass(2 * late);
        hold.release();
        stage.pass(2 * late);
    }
    let wrong = stage.end();
    if wrong.is_none() && took == [true, false, false, false, true] {
        Ok(())
    } else {
        Err(format!("waited {took:?}, wrong: {wrong:?}"))
    }
}

#[test]
fn a_home_that_is_late_is_waited_for_once() {
    with_and_without("late-home-is-waited-for", a_home_is_late);
}

/// Three attempts cross. The third proposes the largest fence `c` to nodes 0 and 1, and
/// is given up. The first comes to nodes 2 and 0, finds `c` on the latter, and wins with
/// `c + 1`. The second comes to nodes 2 and 1 once that is over, finds `c` on node 1, and
/// writes `c + 1` back, which the first has left on node 2.
fn three_cross() -> Result<(), String> {
    let stage = Stage::new(3);
    // Home is node 2. What they propose is drawn now.
    stage.cut(0, 2, 100 * MS, false);
    stage.cut(0, 0, 100 * MS, false);
    stage.cut(0, 1, 800 * MS, true);
    stage.cut(1, 2, 205 * MS, false);
    stage.cut(1, 1, 200 * MS, false);
    stage.cut(1, 0, 800 * MS, true);
    let (first, second) = (stage.tries(0), stage.tries(1));
    stage.pass(5 * MS);
    stage.cut(2, 2, 20 * MS, true);
    let third = stage.tries(2);
    stage.pass(70 * MS);
    third.take().expect("without its home").release();
    stage.pass(40 * MS);
    let first = first.take().expect("its home and node 0");
    let fence = first.fence();
    first.release();
    stage.pass(300 * MS);
    if let Some(wrong) = stage.world.violation() {
        stage.world.end();
        return Err(wrong);
    }
    let second = second.take().expect("its home and node 1");
    let other = second.fence();
    stage.world.end();
    if fence < other {
        Ok(())
    } else {
        Err(format!("the fence {other} comes after {fence}"))
    }
}

#[test]
fn a_fence_is_written_back_beyond_all_that_is_stored() {
    with_and_without("write-back-not-strict", three_cross);
}

/// A lock is taken away by force, and nobody waits for it: its key is gone. The renewal of
/// who held it comes next, and would store it anew.
fn a_holder_is_forced_out() -> Result<(), String> {
    let stage = Stage::new(3);
    let renewed = Terms {
        asked: Asked {
            renew: true,
            ..Asked::default()
        },
        ..terms()
    };
    let first = stage.wants(0, Duration::ZERO, renewed);
    stage.pass(20 * MS);
    let first = first.take().expect("free");
    let freed = stage.forces(1);
    stage.pass(20 * MS);
    assert_eq!(*freed.lock().unwrap(), Some(3));
    assert!(first.is_held(), "it cannot know yet");
    // Its renewals come, and its end is far yet.
    while first.is_held() && stage.world.time() < 1_800 * MS {
        first.tend();
        stage.pass(10 * MS);
    }
    let told = first.loss(0);
    let second = stage.tries(2);
    stage.pass(20 * MS);
    let free = second.take().is_some();
    match (told, free, stage.end()) {
        (Some(LossReason::Forced), true, None) => Ok(()),
        other => Err(format!("told, free, wrong: {other:?}")),
    }
}

#[test]
fn who_was_forced_out_learns_that_it_was() {
    with_and_without("ban-is-a-refusal", a_holder_is_forced_out);
}

/// A lock is taken away whose holder has two nodes' votes. One of them is not told of that; to the
/// third the holder's plain command is under way, and comes when it has been told: two again.
fn a_plain_command_comes_after_the_force() -> Result<(), String> {
    let stage = Stage::new(3);
    // Home is node 2.
    stage.cut(0, 0, 200 * MS, false);
    let first = stage.tries(0);
    stage.pass(100 * MS);
    let first = first.take().expect("two nodes answer");
    let freed = stage.forces(1);
    // Between the look and the release.
    let cut = FaultEvent::Cut {
        client: 1,
        node: 1,
        long: 600 * MS,
        ways: Ways::Requests,
        lossy: true,
    };
    stage.world.plan(stage.world.time() + MS / 5, cut);
    while freed.lock().unwrap().is_none() {
        stage.pass(MS);
    }
    assert!(first.is_held(), "it cannot know yet");
    // Another finds what it has left.
    let left = stage.forces(2);
    while left.lock().unwrap().is_none() {
        stage.pass(MS);
    }
    let left = left.lock().unwrap().take();
    match (left, stage.end()) {
        (Some(0), None) => Ok(()),
        other => Err(format!("left, wrong: {other:?}")),
    }
}

#[test]
fn a_lock_is_taken_away_when_nothing_is_under_way_that_brings_it_back() {
    with_and_without("forces-once", a_plain_command_comes_after_the_force);
}

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

/// How long a client takes for this, if it ends within five seconds; to a fifth of a millisecond.
fn time_of<T>(stage: &Stage, done: &Mutex<Option<T>>) -> Option<(Time, T)> {
    let began = stage.world.time();
    while stage.world.time() < began + 5_000 * MS {
        if let Some(done) = done.lock().unwrap().take() {
            return Some((stage.world.time() - began, done));
        }
        stage.pass(MS / 5);
    }
    None
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

/// A lease of which more than a fifth of `max_hold` is used goes to nobody of its client: the next
/// one has all of its own.
#[test]
fn a_lease_that_has_used_its_max_hold_is_not_passed_on() {
    assert!(choose(""));
    for (held, passes) in [(300, true), (500, false)] {
        let stage = Stage::new(3);
        let door = stage.door(0);
        let lock = door
            .lock(NAMES[0])
            .ttl(TTL)
            .max_hold(TTL)
            .fencing(false)
            .wait(Duration::from_secs(9));
        let (first, next) = (lock.clone(), lock);
        let first = stage.does(0, async move { first.acquire().await.expect("free") });
        stage.pass(20 * MS);
        let first = first.lock().unwrap().take().expect("all answer at once");
        let next = stage.does(0, async move { next.acquire().await.expect("in time") });
        stage.pass(held * MS);
        let token = first.token().to_owned();
        stage.does(0, async move { first.release().await });
        stage.pass(20 * MS);
        let next = next.lock().unwrap().take().expect("it is called");
        assert_eq!(next.token() == token, passes, "after {held} ms");
        assert!(next.remaining() > TTL / 2);
        stage.does(0, async move { next.release().await });
        stage.pass(20 * MS);
        assert_eq!(stage.end(), None);
    }
}

/// Who waits in the holder's own client to share the lock does so at once when the holder lets
/// others in.
#[test]
fn a_holder_that_shares_its_lease_calls_those_of_its_client() {
    assert!(choose(""));
    let stage = Stage::new(3);
    let door = stage.door(0);
    let lock = door.lock(NAMES[0]).wait(Duration::from_secs(9));
    let (alone, writer) = (lock.clone(), lock.clone());
    let holder = stage.does(0, async move { alone.acquire().await.expect("free") });
    stage.pass(20 * MS);
    let holder = holder.lock().unwrap().take().expect("all answer at once");
    let reader = || {
        let lock = lock.clone().shared(true);
        stage.does(0, async move { lock.acquire().await.expect("in time") })
    };
    let readers = [reader(), reader()];
    let writer = stage.does(0, async move { writer.acquire().await.expect("in time") });
    stage.pass(100 * MS);
    let shares = stage.does(0, async move {
        holder.downgrade().await.expect("held");
        holder
    });
    stage.pass(20 * MS);
    let holder = shares.lock().unwrap().take().expect("all answer at once");
    let inside = readers.map(|reader| reader.lock().unwrap().take().expect("it is called"));
    assert!(holder.is_held() && inside.iter().all(|lease| lease.is_held()));
    assert!(writer.lock().unwrap().is_none());
    stage.does(0, async move { drop((holder, inside)) });
    stage.pass(20 * MS);
    assert!(
        writer
            .lock()
            .unwrap()
            .take()
            .expect("it is called")
            .is_held()
    );
    stage.pass(20 * MS);
    assert_eq!(stage.end(), None);
}

/// The `wait` of several locks is for all of them together: what the first takes of it the second
/// has not.
#[test]
fn several_locks_are_waited_for_as_long_as_one() {
    assert!(choose(""));
    let stage = Stage::new(3);
    let other = stage.door(1);
    let holds = stage.does(1, async move {
        let first = other.lock(NAMES[0]).ttl(TTL).acquire().await;
        let second = other.lock(NAMES[1]).ttl(TTL).acquire().await;
        (first.expect("free"), second.expect("free"))
    });
    stage.pass(20 * MS);
    let (first, second) = holds.lock().unwrap().take().expect("all answer at once");
    let door = stage.door(0);
    let all = door.lock_all(&NAMES[..2]).ttl(TTL);
    let waits = all.wait(Duration::from_millis(1_000));
    let waits = stage.does(0, async move { waits.acquire().await.map(drop) });
    stage.pass(600 * MS);
    assert!(waits.lock().unwrap().is_none());
    stage.does(1, async move { first.release().await });
    let (took, waited) = time_of(&stage, &waits).expect("it ends");
    assert_eq!(waited.expect_err("one is held").kind(), ErrorKind::Timeout);
    assert!(
        (400 * MS..402 * MS).contains(&took),
        "it took {took} ns more"
    );
    assert!(second.is_held());
    stage.does(1, async move { second.release().await });
    stage.pass(20 * MS);
    assert_eq!(stage.end(), None);
}

/// A lease of which each node has a vote is exported; the text.
fn exported(stage: &Stage) -> String {
    let door = stage.door(0);
    let exports = stage.does(0, async move {
        let lease = door.lock(NAMES[0]).acquire().await.expect("free");
        lease.export().await.expect("held")
    });
    stage.pass(20 * MS);
    let text = exports.lock().unwrap().take();
    text.expect("all answer at once")
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

/// Of several locks one that was won before a wait, and would be over too soon behind it, is asked
/// for anew.
#[test]
fn several_locks_are_given_with_enough_left_of_each() {
    assert!(choose(""));
    let stage = Stage::new(3);
    let other = stage.door(1);
    let holds = stage.does(1, async move {
        let lock = other.lock(NAMES[1]).ttl(TTL);
        lock.acquire().await.expect("free")
    });
    stage.pass(20 * MS);
    let holds = holds.lock().unwrap().take().expect("all answer at once");
    let door = stage.door(0);
    let all = door
        .lock_all(&NAMES[..2])
        .ttl(TTL)
        .wait(Duration::from_secs(9));
    let waits = stage.does(0, async move { all.acquire().await.expect("in time") });
    // A tenth of the ttl is too little, and nobody renews it here.
    stage.pass(1_850 * MS);
    assert!(waits.lock().unwrap().is_none());
    stage.does(1, async move { holds.release().await });
    stage.pass(20 * MS);
    let both = waits.lock().unwrap().take().expect("both are free");
    assert!(both.remaining() > TTL / 2, "{:?}", both.remaining());
    stage.does(0, async move { both.release().await });
    stage.pass(20 * MS);
    assert_eq!(stage.end(), None);
}

/// Of several locks one that is over too soon behind a wait for another is asked for while that is
/// held, and the next in line for it waits on.
fn the_first_of_two_is_over_too_soon() -> Result<(), String> {
    let stage = Stage::new(3);
    let (other, third) = (stage.door(1), stage.door(2));
    let holds = stage.does(1, async move {
        let lock = other.lock(NAMES[1]).ttl(TTL);
        lock.acquire().await.expect("free")
    });
    stage.pass(20 * MS);
    let holds = holds.lock().unwrap().take().expect("all answer at once");
    let door = stage.door(0);
    let long = Duration::from_secs(9);
    let all = door.lock_all(&NAMES[..2]).ttl(TTL).wait(long);
    let waits = stage.does(0, async move { all.acquire().await.expect("in time") });
    stage.pass(20 * MS);
    let behind = third.lock(NAMES[1]).ttl(TTL).wait(long);
    let behind = stage.does(2, async move { behind.acquire().await.expect("in time") });
    stage.pass(1_830 * MS);
    stage.does(1, async move { holds.release().await });
    stage.pass(20 * MS);
    let both = waits.lock().unwrap().take();
    let both = both.ok_or("the one that was waited for was given back")?;
    assert!(behind.lock().unwrap().is_none());
    stage.does(0, async move { both.release().await });
    stage.pass(20 * MS);
    let behind = behind.lock().unwrap().take().expect("it is free");
    stage.does(2, async move { behind.release().await });
    stage.pass(20 * MS);
    stage.end().map_or(Ok(()), Err)
}

#[test]
fn several_locks_are_not_given_back_for_what_may_be_had_at_once() {
    with_and_without("asks-for-the-lost-later", the_first_of_two_is_over_too_soon);
}

/// For how long a lock stays taken counts from when it was won, however often its owner enters it
/// again; and not at all once others were let in.
#[test]
fn what_is_kept_is_kept_from_the_first_and_not_beside_others() {
    assert!(choose(""));
    let stage = Stage::new(3);
    let door = stage.door(0);
    let lock = door.lock(NAMES[0]).ttl(TTL).owner(Owner::named("me"));
    let lock = lock.keep(Duration::from_secs(1));
    let enters = |lock: quorlock::Lock| {
        let enters = stage.does(0, async move { lock.acquire().await.expect("it is ours") });
        stage.pass(20 * MS);
        let lease = enters.lock().unwrap().take();
        lease.expect("all answer at once")
    };
    let first = enters(lock.clone());
    stage.pass(580 * MS);
    let again = enters(lock.clone());
    stage.does(
        0,
        async move { (again.release().await, first.release().await) },
    );
    stage.pass(280 * MS);
    assert!(stage.tries_in_vain(1), "it is kept for a second");
    stage.pass(300 * MS);
    assert!(!stage.tries_in_vain(1), "and no longer");
    let shares = enters(lock);
    stage.does(0, async move {
        shares.downgrade().await.expect("it is held");
        shares.release().await
    });
    stage.pass(40 * MS);
    assert!(!stage.tries_in_vain(1), "a reader keeps nothing");
    assert_eq!(stage.end(), None);
}

/// What is passed on is kept for as long as what was won from the nodes.
#[test]
fn what_is_passed_on_is_kept_from_then_on() {
    assert!(choose(""));
    let stage = Stage::new(3);
    let door = stage.door(0);
    let lock = door.lock(NAMES[0]).ttl(TTL).fencing(false);
    let lock = lock
        .keep(Duration::from_millis(300))
        .wait(Duration::from_secs(9));
    let (first, next) = (lock.clone(), lock);
    let first = stage.does(0, async move { first.acquire().await.expect("free") });
    stage.pass(20 * MS);
    let first = first.lock().unwrap().take().expect("all answer at once");
    let next = stage.does(0, async move { next.acquire().await.expect("in time") });
    stage.pass(400 * MS);
    let token = first.token().to_owned();
    stage.does(0, async move { first.release().await });
    stage.pass(20 * MS);
    let next = next.lock().unwrap().take().expect("it is called");
    assert_eq!(next.token(), token);
    stage.does(0, async move { next.release().await });
    stage.pass(100 * MS);
    assert!(stage.tries_in_vain(1), "it is kept");
    stage.pass(300 * MS);
    assert!(!stage.tries_in_vain(1), "and no longer");
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

/// A client that stands still from when the nodes have given it the lock until the lease is over
/// asks once more, in what is left of its `wait`.
fn a_lease_is_over_before_it_is_handed_over() -> Result<(), String> {
    let frozen = 2_200;
    // How long it waits; whether another client has the lock by then; what comes of it, how long
    // after the client goes on.
    for (wait, taken, ends, after) in [
        (9_000, false, None, 0),
        (3_000, true, Some(ErrorKind::Timeout), 800),
        (1_000, false, Some(ErrorKind::LockLost), 0),
    ] {
        let stage = Stage::new(3);
        let (clock, door) = (stage.world.clock(0), stage.door(0));
        let on = clock.now() + Duration::from_millis(frozen);
        let lock = door.lock(NAMES[0]).ttl(TTL);
        let lock = lock.wait(Duration::from_millis(wait));
        let wins = stage.does(0, async move {
            let mut wins = Box::pin(lock.acquire());
            poll_fn(|cx| Poll::Ready(wins.as_mut().poll(cx).is_pending())).await;
            clock.sleep_until(on).await;
            wins.await
        });
        stage.pass(1_000 * MS);
        assert!(stage.tries_in_vain(1), "the nodes have given it");
        stage.pass(1_060 * MS);
        let other = taken.then(|| stage.tries(1));
        stage.pass(frozen * MS - 2_100 * MS);
        let other = other.map(|other| other.take().expect("it is over"));
        let (took, won) = time_of(&stage, &wins).expect("it ends");
        let kind = won.as_ref().err().map(|error| error.kind());
        let held = won.as_ref().is_ok_and(|lease| lease.is_held());
        let in_time = (after * MS..(after + 10) * MS).contains(&took);
        if kind != ends || held != ends.is_none() || !in_time {
            return Err(format!("wait of {wait} ms: {kind:?} after {took} ns"));
        }
        stage.does(0, async move { drop(won) });
        other.iter().for_each(|hold| drop(hold.release()));
        stage.pass(20 * MS);
        if let Some(violation) = stage.end() {
            return Err(violation);
        }
    }
    Ok(())
}

#[test]
fn what_is_lost_before_it_is_handed_over_is_asked_for_in_what_is_left_of_the_wait() {
    for bug in [
        "lost-is-handed-over",
        "lost-waits-anew",
        "lost-is-asked-for-behind-its-wait",
    ] {
        with_and_without(bug, a_lease_is_over_before_it_is_handed_over);
    }
}
