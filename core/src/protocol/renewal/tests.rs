//! Many leases that are due at once.

use std::time::Duration;

use super::*;
use crate::node::{Link, Reply};
use crate::protocol::claim_cell::tests::{ByHand, NOW, Slow, TTL, terms};
use crate::token::SystemRng;

/// More than a node is given at a time, by so many.
const MORE: usize = 900;
const AT_A_TIME: usize = 4096;

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
        let links = nodes.iter().map(|node| node.clone() as Arc<dyn Link>);
        let clock = Arc::new(ByHand(AtomicU64::new(NOW.0)));
        let rng = Arc::new(SystemRng);
        let set = Arc::new(Set::new(
            links.collect(),
            clock.clone(),
            rng,
            TTL,
            0.01,
            drop,
        ));
        let watchdog = Watchdog::new(clock.clone());
        let lease = |number: usize| {
            let hold = ClaimCell::begin(&set, &terms(&number.to_be_bytes()), 1, None);
            for node in &nodes {
                node.answers_all(&Reply::Granted {
                    fence: 0,
                    lasts: None,
                });
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
