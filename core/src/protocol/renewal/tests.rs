//! Many leases that are due at once, and attempts that wait for their homes.

use std::time::Duration;

use super::*;
use crate::node::{Link, Reply};
use crate::protocol::claim_cell::tests::{ByHand, NOW, Slow, TTL, terms};
use crate::token::SystemRng;

/// More than a node is given at a time, by so many.
const MORE: usize = 900;
const AT_A_TIME: usize = 4096;

const GRANTED: Reply = Reply::Granted {
    fence: 0,
    lasts: None,
};

fn set(nodes: &[Arc<Slow>], clock: &Arc<ByHand>) -> Arc<Set> {
    let links = nodes.iter().map(|node| node.clone() as Arc<dyn Link>);
    let (rng, clock) = (Arc::new(SystemRng), clock.clone());
    Arc::new(Set::new(links.collect(), clock, rng, TTL, 0.01, drop))
}

/// A client's leases, which were all won at one moment.
struct Crowd {
    nodes: Vec<Arc<Slow>>,
    clock: Arc<ByHand>,
    watchdog: Arc<Watchdog>,
    leases: Vec<(Arc<ClaimCell>, WatchHandle)>,
}

impl Crowd {
    fn new(nodes: usize) -> Crowd {
        let nodes: Vec<Arc<Slow>> = (0..nodes).map(|_| Arc::default()).collect();
        let clock = Arc::new(ByHand(AtomicU64::new(NOW.0)));
        let set = set(&nodes, &clock);
        let watchdog = Watchdog::new(clock.clone());
        let lease = |number: usize| {
            let hold = ClaimCell::begin(&set, &terms(&number.to_be_bytes()), 1, None);
            for node in &nodes {
                node.answers_all(&GRANTED);
            }
            (hold.clone(), watchdog.watch(hold))
        };
        Crowd {
            leases: (0..AT_A_TIME + MORE).map(lease).collect(),
            nodes,
            clock,
            watchdog,
        }
    }

    /// The watchdog looks, so long after the leases were won; returns how much each node is asked
    /// then that it has not answered.
    fn looks(&self, after: Duration) -> Vec<usize> {
        self.clock.0.store((NOW + after).0, Ordering::Relaxed);
        assert!(self.watchdog.look().is_some());
        self.nodes.iter().map(|node| node.asked()).collect()
    }
}

/// When all are due that were won at one moment, by 0.36 of the ttl and what the grid adds.
const DUE: Duration = Duration::from_secs(4);
const LATER: Duration = Duration::from_millis(400);
const EXTENDED: Reply = Reply::Extended { repaired: false };

#[test]
fn the_nodes_are_given_a_bounded_number_of_renewals_at_a_time() {
    let crowd = Crowd::new(3);
    assert_eq!(crowd.looks(DUE), [AT_A_TIME; 3]);
    assert_eq!(crowd.looks(DUE + LATER), [AT_A_TIME; 3]);
    // A node that does not answer holds back nothing of what a quorum does.
    crowd.nodes[0].answers_all(&EXTENDED);
    assert_eq!(crowd.looks(DUE + 2 * LATER), [0, AT_A_TIME, AT_A_TIME]);
    crowd.nodes[1].answers_all(&EXTENDED);
    // It is asked again, for its time to answer is over.
    let silent = 2 * AT_A_TIME + MORE;
    assert_eq!(crowd.looks(DUE + 3 * LATER), [MORE, MORE, silent]);
    crowd.nodes[0].answers_all(&EXTENDED);
    crowd.nodes[1].answers_all(&EXTENDED);
    assert!(crowd.leases.iter().all(|(hold, _)| hold.is_held()));
    assert!(
        crowd
            .leases
            .iter()
            .all(|(hold, _)| hold.remaining() > Duration::from_secs(8))
    );
}

#[test]
fn a_lease_that_is_near_its_end_waits_for_no_other() {
    let crowd = Crowd::new(1);
    assert_eq!(crowd.looks(DUE), [AT_A_TIME]);
    // The others, and those again whose node has not answered in time.
    assert_eq!(crowd.looks(TTL * 4 / 5), [AT_A_TIME + AT_A_TIME + MORE]);
}

/// An attempt at a lock of three nodes of which the home hangs; the other two have voted.
struct Waiting {
    home: Arc<Slow>,
    clock: Arc<ByHand>,
    watchdog: Arc<Watchdog>,
    attempt: Arc<ClaimCell>,
}

impl Waiting {
    fn new() -> Waiting {
        let nodes: Vec<Arc<Slow>> = (0..3).map(|_| Arc::default()).collect();
        let clock = Arc::new(ByHand(AtomicU64::new(NOW.0)));
        let (set, watchdog) = (set(&nodes, &clock), Watchdog::new(clock.clone()));
        watchdog.serve(&set);
        let attempt = ClaimCell::begin(&set, &terms(b"lock:{a}"), 1, None);
        // All have one id here, and then the home is the last.
        nodes[0].answers_all(&GRANTED);
        nodes[1].answers_all(&GRANTED);
        assert!(!attempt.is_won());
        Waiting {
            home: nodes[2].clone(),
            clock,
            watchdog,
            attempt,
        }
    }

    /// What the watchdog tells of its next look, if it looks so long after the attempt began.
    fn next_look(&self, after: Duration) -> Instant {
        self.clock.0.store((NOW + after).0, Ordering::Relaxed);
        self.watchdog.look().expect("it is not closed")
    }
}

/// A tenth of the node timeout.
const HOME_WAIT: Duration = Duration::from_millis(5);

#[test]
fn the_wait_for_a_home_that_hangs_ends_at_its_time() {
    let waiting = Waiting::new();
    assert_eq!(waiting.next_look(HOME_WAIT / 2), NOW + HOME_WAIT);
    assert!(!waiting.attempt.is_won());
    assert_eq!(waiting.next_look(HOME_WAIT), Instant::FAR);
    assert!(waiting.attempt.is_won());
}

#[test]
fn no_look_is_due_for_a_home_that_has_answered() {
    let waiting = Waiting::new();
    waiting.home.answers_all(&GRANTED);
    assert!(waiting.attempt.is_won());
    // It was to be woken for the wait, and forgets it then.
    assert_eq!(waiting.next_look(HOME_WAIT / 2), NOW + HOME_WAIT);
    assert_eq!(waiting.next_look(HOME_WAIT), Instant::FAR);

    let given_up = Waiting::new();
    let Waiting { attempt, .. } = &given_up;
    attempt.release();
    assert_eq!(given_up.next_look(HOME_WAIT), Instant::FAR);
}
