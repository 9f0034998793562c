//! Messages in the simulated network: who is told, who is not, and what breaks
//! it; requests are sent by hand.

use quorlock::sim::{Op, Reply};
use quorlock_sim::world::{FaultEvent, MS, Memory, Network, Ways};

mod party;
use party::{ACQUIRE, FOUND, Heard, RESERVATION, pass, world};

#[test]
fn whose_turn_it_is_hears_of_it() {
    let (world, [a, b, c]) = world(Network::default(), 1);
    a.take(1);
    assert_eq!(b.join(2, 8), (0, 1));
    assert_eq!(c.join(3, 9), (1, 1));
    assert_eq!(b.heard(), [Heard::Subscribed]);
    a.release(1);
    pass(&world, MS);
    assert_eq!(b.heard(), [Heard::Message(8)]);
    // Reserved: nobody else is granted it, and nobody is told anew.
    assert!(matches!(
        a.ask(ACQUIRE, 4, None),
        Reply::Refused { left: Some(_), .. }
    ));
    let granted = b.ask(ACQUIRE, 2, Some(b.waiter(8)));
    assert!(matches!(granted, Reply::Granted { .. }), "{granted:?}");
    b.release(2);
    pass(&world, MS);
    assert_eq!(c.heard(), [Heard::Subscribed, Heard::Message(9)]);
    assert_eq!((a.heard(), b.heard()), (vec![Heard::Subscribed], vec![]));
    world.end();
}

#[test]
fn a_broken_connection_loses_messages_and_a_timeout_finds_it() {
    let (world, [a, b, c]) = world(Network::default(), 1);
    a.take(1);
    b.join(2, 8);
    b.heard();
    world.plan(
        world.time(),
        FaultEvent::Cut {
            client: 1,
            node: 0,
            long: 5 * MS,
            ways: Ways::Replies,
            lossy: true,
        },
    );
    a.release(1);
    pass(&world, 10 * MS);
    assert_eq!(b.heard(), [], "lost, and b does not know");
    assert!(matches!(c.ask(ACQUIRE, 3, None), Reply::Refused { .. }));
    let reply = b.ask(ACQUIRE, 2, Some(b.waiter(8)));
    assert!(matches!(reply, Reply::Failed(_)), "{reply:?}");
    pass(&world, 5 * MS);
    assert_eq!(b.heard(), [Heard::Subscribed]);
    let reply = b.ask(ACQUIRE, 2, Some(b.waiter(8)));
    assert!(matches!(reply, Reply::Granted { .. }), "{reply:?}");
    // The node has seen the end of the other connection, but not of this.
    pass(&world, FOUND);
    assert_eq!(c.listeners(3, &b), 1);
    world.end();
}

#[test]
fn a_lost_connection_is_made_again_for_the_sake_of_messages() {
    for awaited in [true, false] {
        let (world, [a, b, c]) = world(Network::default(), 1);
        a.take(1);
        b.join(2, 8);
        b.heard();
        b.await_messages(awaited);
        world.plan(world.time(), FaultEvent::Reset(1, 0));
        pass(&world, 100 * MS);
        if awaited {
            assert_eq!(b.heard(), [Heard::Subscribed]);
            pass(&world, FOUND);
            assert_eq!(c.listeners(3, &b), 1, "the node has seen its end");
            a.release(1);
            pass(&world, MS);
            assert_eq!(b.heard(), [Heard::Message(8)]);
        } else {
            assert_eq!(b.heard(), []);
            b.join(2, 8);
            assert_eq!(b.heard(), [Heard::Subscribed]);
        }
        world.end();
    }
}

#[test]
fn it_is_tried_again_while_the_node_is_down() {
    let (world, [a, b, _]) = world(Network::default(), 1);
    a.take(1);
    b.join(2, 8);
    b.heard();
    b.await_messages(true);
    world.plan(
        world.time(),
        FaultEvent::CrashNode(0, 150 * MS, Memory::Kept),
    );
    world.plan(world.time(), FaultEvent::Reset(1, 0));
    pass(&world, 100 * MS);
    assert_eq!(b.heard(), []);
    pass(&world, 200 * MS);
    assert_eq!(b.heard(), [Heard::Subscribed]);
    world.end();
}

#[test]
fn a_restart_ends_all_subscriptions_and_a_flush_none() {
    let memories = [Memory::Kept, Memory::Old, Memory::Lost];
    for (memory, seed) in memories.into_iter().cycle().zip(0..30) {
        let (world, [a, b, c]) = world(Network::default(), seed);
        a.take(1);
        b.join(2, 8);
        pass(&world, MS);
        world.plan(world.time(), FaultEvent::Snapshot(0));
        world.plan(world.time() + MS, FaultEvent::CrashNode(0, MS, memory));
        pass(&world, 50 * MS);
        // Connections of before are found dead by a timeout.
        a.ask(Op::Release, 77, None);
        pass(&world, 50 * MS);
        if memory == Memory::Lost {
            a.take(1);
        }
        assert_eq!(a.listeners(3, &b), 0, "{memory:?}, seed {seed}");
        if memory != Memory::Lost {
            a.release(1);
            c.take(4);
        }
        world.end();
    }
    let (world, [a, b, _]) = world(Network::default(), 1);
    a.take(1);
    b.join(2, 8);
    world.plan(world.time(), FaultEvent::Flush(0));
    pass(&world, MS);
    a.take(1);
    assert_eq!(a.listeners(3, &b), 1);
    world.end();
}

#[test]
fn the_dead_are_told_until_they_are_missed() {
    for (missed, seed) in [(false, 1), (true, 2)] {
        let (world, [a, b, c]) = world(Network::default(), seed);
        a.take(1);
        b.join(2, 8);
        c.join(3, 9);
        c.heard();
        world.plan(world.time(), FaultEvent::CrashClient(1));
        pass(&world, if missed { FOUND } else { 0 });
        a.release(1);
        pass(&world, MS);
        assert_eq!(b.heard(), [Heard::Subscribed]);
        let told = if missed {
            vec![Heard::Message(9)]
        } else {
            vec![]
        };
        assert_eq!(c.heard(), told);
        if !missed {
            // Whoever asks once the reservation is over has its turn.
            pass(&world, RESERVATION);
            let reply = c.ask(ACQUIRE, 3, Some(c.waiter(9)));
            assert!(matches!(reply, Reply::Granted { .. }), "{reply:?}");
        }
        world.end();
    }
}

#[test]
fn a_long_sleeper_is_missed_and_finds_that_out() {
    let (world, [a, b, c]) = world(Network::default(), 1);
    a.take(1);
    b.join(2, 8);
    c.join(3, 9);
    b.heard();
    b.await_messages(true);
    let long = FOUND + 100 * MS;
    world.plan(world.time(), FaultEvent::SuspendClient(1, long));
    pass(&world, FOUND);
    a.release(1);
    pass(&world, MS);
    assert_eq!(c.heard(), [Heard::Subscribed, Heard::Message(9)]);
    let reply = c.ask(ACQUIRE, 3, Some(c.waiter(9)));
    assert!(matches!(reply, Reply::Granted { .. }), "{reply:?}");
    assert_eq!(b.heard(), [], "asleep");
    pass(&world, 100 * MS);
    // It sees the end of its connection, or polls in vain.
    if b.heard().is_empty() {
        b.ask(ACQUIRE, 2, Some(b.waiter(8)));
        pass(&world, 5 * MS);
        assert_eq!(b.heard(), [Heard::Subscribed]);
    }
    assert_eq!(b.join(2, 8), (0, 1));
    world.end();
}

#[test]
fn a_pause_only_delays_them() {
    let (world, [a, b, _]) = world(Network::default(), 1);
    a.take(1);
    b.join(2, 8);
    b.heard();
    world.plan(world.time(), FaultEvent::PauseClient(1, 200 * MS));
    a.release(1);
    pass(&world, 100 * MS);
    assert_eq!(b.heard(), []);
    pass(&world, 100 * MS);
    assert_eq!(b.heard(), [Heard::Message(8)]);
    world.end();
}

#[test]
fn the_network_may_drop_them_double_them_and_make_them_up() {
    for (deaf, twice, heard) in [
        (100, 0, vec![]),
        (0, 100, vec![Heard::Message(8), Heard::Message(8)]),
    ] {
        let network = Network {
            deaf,
            twice,
            ..Network::default()
        };
        let (world, [a, b, c]) = world(network, 1);
        a.take(1);
        b.join(2, 8);
        b.heard();
        a.ask(Op::Release, 1, None);
        pass(&world, MS);
        assert_eq!(b.heard(), heard);
        assert!(matches!(c.ask(ACQUIRE, 3, None), Reply::Refused { .. }));
        assert_eq!(a.listeners(3, &b), 1, "the connection stands");
        world.end();
    }
    let (world, [a, b, c]) = world(Network::default(), 1);
    a.take(1);
    b.join(2, 8);
    b.heard();
    for _ in 0..20 {
        world.plan(world.time(), FaultEvent::Forge(1, 0));
        world.plan(world.time(), FaultEvent::Forge(2, 0));
    }
    pass(&world, MS);
    let forged = b.heard();
    assert_eq!(forged.len(), 20);
    assert!(forged.contains(&Heard::Message(8)), "the present waiter's");
    assert!(
        forged.contains(&Heard::Message(7)),
        "one that may have left"
    );
    assert_eq!(c.heard(), [], "c has no connection yet");
    world.end();
}

#[test]
fn messages_keep_their_place_between_replies() {
    // Whatever takes long holds up what is behind it.
    let network = Network {
        slow: 50,
        tail: 5 * MS,
        ..Network::default()
    };
    for seed in 0..50 {
        let (world, [a, b, _]) = world(network, seed);
        a.take(1);
        b.join(2, 8);
        b.heard();
        a.release(1);
        let reply = b.ask(ACQUIRE, 2, Some(b.waiter(8)));
        if matches!(reply, Reply::Granted { .. }) {
            assert_eq!(b.heard(), [Heard::Message(8)], "seed {seed}");
        }
        world.end();
    }
}
