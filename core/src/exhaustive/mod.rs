//! Everything that may happen to what decides, in small worlds: `stateright` goes through all of it.
//!
//! What decides is the code that ships: the [claim](crate::protocol::claim), the verdict on
//! [votes](crate::protocol::quorum) and on [fences](crate::protocol::fence), the
//! [home](crate::protocol::claim::home), and how a set is [founded](crate::node::admission). The rest of
//! each world is a few lines here. What the code makes of an answer is compared with the specification,
//! which is a program of its own (`tests/proof`); what it asks for and gives up is judged by
//! `docs/reference/protocol.md`.
//!
//! `make prove` runs this, in half a minute of one core; the tests that take longer than a second are
//! ignored elsewhere. Each world has a floor of states, and says what it has seen besides what must
//! always hold, so that nothing holds for want of cases. A fault in the world is found: that is a test
//! of each file.
//!
//! | file | what it has | what it leaves out | states |
//! |---|---|---|---|
//! | [`one`] | one claim over three nodes: each answer to each request, at each of a few moments, with and without fences; a waiter's; a lease that is renewed, and what its user may do | adoption, slots, locks in Redisson's layout, readers that wait, a bound thread, nodes known to be out | 960,000 |
//! | [`two`] | two claims that want one lock, two or three nodes, and a network that delays and loses: exclusion, the order of fences | more than two, queues | 260,000 |
//! | [`verdicts`] | the votes of one to five nodes, and the fences of three, one answer after the other | | 36,000 |
//! | [`homes`] | two and three contenders over three nodes, of which one may go down: one goes on | nodes that one of them alone cannot reach | 65,000 |
//! | [`founders`] | two clients that found a set of two nodes, or two sets that share one, and a node that forgets | three nodes, nodes that fail over, clusters | 320,000 |
//! | [`seats`] | servers that change places in a list, and clocks that step in quarantine: stories of seven steps | | 196,000 |

mod founders;
mod homes;
mod one;
mod seats;
mod two;
mod verdicts;

// What the specification has of a claim, as it stands.
#[allow(
    dead_code,
    reason = "some of it is for the other tests of the specification"
)]
#[path = "../../../tests/proof/src/spec/claim.rs"]
mod specification;

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// Goes through all states of a model: what must always hold does, what may come does come, and there
/// are at least so many states.
fn explore<M>(name: &str, model: M, floor: usize)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures);
    let done = checker.spawn_bfs().join();
    let (states, depth) = (done.unique_state_count(), done.max_depth());
    println!("{name}: {states} states, {depth} steps deep");
    for property in done.model().properties() {
        let found = done.discovery(property.name);
        match (property.expectation, found) {
            (Expectation::Sometimes, None) => panic!("{name}: never `{}`", property.name),
            (Expectation::Sometimes, Some(_)) | (_, None) => {}
            (_, Some(path)) => {
                let last = path.last_state().clone();
                let steps = path.into_actions();
                panic!(
                    "{name}: not `{}`: {steps:#?}\nends in {last:?}",
                    property.name
                )
            }
        }
    }
    assert!(states >= floor, "{name}: only {states} states");
}

/// Of a model with a fault in it: what must always hold does not.
fn breaks<M>(model: M, property: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures);
    let done = checker.spawn_bfs().join();
    assert!(done.discovery(property).is_some(), "`{property}` holds");
}
