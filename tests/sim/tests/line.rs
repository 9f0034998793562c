//! L4 as the world feeds it: what happens on nodes and connections reaches the
//! judge.

use quorlock::sim::Reply;
use quorlock_sim::world::line::Bounds;
use quorlock_sim::world::{FaultEvent, MS, Memory, Network, Time, World};

mod party;
use party::{ACQUIRE, FOUND, Heard, Party, RESERVATION, pass, world};

/// Of what is taken.
const TTL: Time = 10_000 * MS;
const GAP: Time = RESERVATION * 45 / 100;
/// The longest poll.
const POLL: Time = 2_400 * MS;
/// And of those that hear nothing.
const POLL_MUTE: Time = 120 * MS;

fn judge(world: &World) {
    let bounds = Bounds {
        quorum: 1,
        reservation: RESERVATION,
        trip: MS,
        longest: 20_000 * MS,
        healthy: false,
    };
    world.judge_lines(bounds, false);
    world.calm();
    world.judge_calm();
}

/// A holds the lock, B waits for it.
fn queued(a: &Party, b: &Party) {
    a.take(1);
    a.world.wins((0, 0), 0);
    b.join(2, 8);
    b.world.waits((1, 0), 0);
}

fn release(a: &Party) {
    a.release(1);
    a.world.ends((0, 0), 0);
}

/// The lock is idle for too long after `bound`, give or take what a request
/// and the last millisecond of a key take.
fn idle_after(world: &World, bound: Time) {
    pass(world, bound - 4 * MS);
    world.check_lines();
    assert_eq!(world.violation(), None);
    pass(world, 6 * MS);
    world.check_lines();
    let wrong = world.violation().expect("idle for too long");
    assert!(wrong.starts_with("L4 a lock is idle"), "{wrong}");
}

#[test]
fn who_is_told_and_comes_is_in_time() {
    let (world, [a, b, _]) = world(Network::default(), 1);
    judge(&world);
    queued(&a, &b);
    release(&a);
    pass(&world, MS);
    let reply = b.ask(ACQUIRE, 2, Some(b.waiter(8)));
    assert!(matches!(reply, Reply::Granted { .. }), "{reply:?}");
    world.wins((1, 0), 0);
    pass(&world, 5_000 * MS);
    world.check_lines();
    assert_eq!(world.violation(), None);
    world.end();
}

#[test]
fn who_is_told_and_does_not_come_is_not() {
    let (world, [a, b, _]) = world(Network::default(), 1);
    judge(&world);
    queued(&a, &b);
    release(&a);
    idle_after(&world, GAP);
    assert!(b.heard().contains(&Heard::Message(8)));
    world.end();
}

#[test]
fn keys_that_nobody_deletes_end_by_themselves() {
    let (world, [a, b, _]) = world(Network::default(), 1);
    judge(&world);
    queued(&a, &b);
    world.ends((0, 0), 0);
    idle_after(&world, TTL + GAP);
    world.end();
}

#[test]
fn a_lost_message_is_an_excuse() {
    let network = Network {
        deaf: 100,
        ..Network::default()
    };
    let (world, [a, b, _]) = world(network, 1);
    judge(&world);
    queued(&a, &b);
    release(&a);
    idle_after(&world, GAP + RESERVATION + POLL);
    world.end();
}

#[test]
fn a_lost_message_is_none_once_its_client_hears_again() {
    let network = Network {
        deaf: 100,
        ..Network::default()
    };
    let (world, [a, b, _]) = world(network, 1);
    judge(&world);
    queued(&a, &b);
    b.await_messages(true);
    release(&a);
    b.heard();
    world.plan(world.time(), FaultEvent::Reset(1, 0));
    idle_after(&world, Network::default().settles() + GAP);
    assert_eq!(b.heard(), [Heard::Subscribed]);
    world.end();
}

#[test]
fn who_hears_nothing_is_told_so_and_asks() {
    let (world, [a, b, _]) = world(Network::default(), 1);
    world.mute(1);
    judge(&world);
    a.take(1);
    world.wins((0, 0), 0);
    assert_eq!(b.join(2, 8), (0, 0), "nobody listens");
    world.waits((1, 0), 0);
    release(&a);
    idle_after(&world, GAP + POLL_MUTE);
    assert_eq!(b.heard(), []);
    world.end();
}

#[test]
fn a_crash_is_an_excuse_while_nodes_do_not_know() {
    for missed in [false, true] {
        let (world, [a, b, c]) = world(Network::default(), 1);
        judge(&world);
        queued(&a, &b);
        c.join(3, 9);
        world.waits((2, 0), 0);
        world.plan(world.time(), FaultEvent::CrashClient(1));
        pass(&world, if missed { FOUND } else { MS });
        release(&a);
        let excuse = if missed { 0 } else { RESERVATION + POLL };
        idle_after(&world, GAP + excuse);
        world.end();
    }
}

#[test]
fn a_node_that_has_forgotten_is_free() {
    let (world, [a, b, _]) = world(Network::default(), 1);
    judge(&world);
    queued(&a, &b);
    world.plan(world.time(), FaultEvent::CrashNode(0, MS, Memory::Lost));
    pass(&world, 2 * MS);
    world.ends((0, 0), 0);
    world.judge_calm();
    // Its connections broke.
    let settled = Network::default().settles() - 2 * MS;
    idle_after(&world, settled + GAP);
    world.end();
}
